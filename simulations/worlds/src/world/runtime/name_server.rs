//! A name server in the virtual network, over datagrams and streams.

use super::{SimDatagrams, SimListener, SimRuntime, SimSocket, executor::lock};
use onionskin::Runtime;
use onionskin_core::random::{Random, Seed};
use onionskin_deployment::names::{NameFaults, Transport, Zone};
use std::{
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex, MutexGuard},
};

/// The source of datagrams that do not come from the name server.
const FOREIGN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 66, 66, 53)), 53);

impl SimRuntime {
    /// Starts a name server without records at an address, over datagrams and streams. For port 0,
    /// the runtime chooses a port. Faults are drawn from the seed, after
    /// [`SimNameServer::set_faults`] has set their rates.
    pub fn start_name_server(&self, address: SocketAddr, seed: &Seed) -> io::Result<SimNameServer> {
        let listener = Arc::new(self.listen(address)?);
        let datagrams = Arc::new(self.listen_datagrams(listener.address())?);
        let server = SimNameServer {
            zone: Arc::default(),
            faults: Arc::new(Mutex::new((NameFaults::default(), seed.random()))),
            datagrams: datagrams.clone(),
            listener: listener.clone(),
        };
        self.spawn(serve_datagrams(datagrams, server.answers()));
        self.spawn(serve_streams(self.clone(), listener, server.answers()));
        Ok(server)
    }
}

/// A name server in the virtual network. Dropping the value stops the server.
#[derive(Debug)]
pub struct SimNameServer {
    zone: Arc<Mutex<Zone>>,
    faults: Arc<Mutex<(NameFaults, Random)>>,
    datagrams: Arc<SimDatagrams>,
    listener: Arc<SimListener>,
}

impl SimNameServer {
    /// Returns the address of the name server.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.listener.address()
    }

    /// Returns the records, which can be changed at any time.
    #[must_use]
    pub const fn zone(&self) -> &Arc<Mutex<Zone>> {
        &self.zone
    }

    /// Returns the records for a change.
    pub fn records(&self) -> MutexGuard<'_, Zone> {
        lock(&self.zone)
    }

    /// Sets the rates of the faults of all further replies.
    pub fn set_faults(&self, faults: NameFaults) {
        lock(&self.faults).0 = faults;
    }

    fn answers(&self) -> Answers {
        Answers {
            zone: self.zone.clone(),
            faults: self.faults.clone(),
        }
    }
}

impl Drop for SimNameServer {
    fn drop(&mut self) {
        self.datagrams.close();
        self.listener.close();
    }
}

/// The records of a name server and its faults.
#[derive(Clone)]
struct Answers {
    zone: Arc<Mutex<Zone>>,
    faults: Arc<Mutex<(NameFaults, Random)>>,
}

impl Answers {
    fn to(&self, query: &[u8], transport: Transport) -> Vec<onionskin_deployment::names::Sent> {
        let (faults, random) = &mut *lock(&self.faults);
        faults.replies(random, &mut lock(&self.zone), query, transport)
    }
}

async fn serve_datagrams(datagrams: Arc<SimDatagrams>, answers: Answers) {
    while let Some((client, query)) = datagrams.receive().await {
        for sent in answers.to(&query, Transport::Udp) {
            let source = if sent.is_foreign {
                FOREIGN
            } else {
                datagrams.address()
            };
            datagrams.send(client, source, sent.after, sent.bytes);
        }
    }
}

async fn serve_streams(runtime: SimRuntime, listener: Arc<SimListener>, answers: Answers) {
    while let Some(socket) = listener.accept().await {
        runtime.spawn(serve_stream(runtime.clone(), socket, answers.clone()));
    }
}

/// Answers one query of a connection, and closes the connection.
async fn serve_stream(runtime: SimRuntime, mut socket: SimSocket, answers: Answers) {
    let mut received = Vec::new();
    let query = loop {
        let bytes = socket.read().await;
        if bytes.is_empty() {
            return;
        }
        received.extend(bytes);
        if let Some((length, rest)) = received.split_first_chunk()
            && let Some(query) = rest.get(..usize::from(u16::from_be_bytes(*length)))
        {
            break query.to_vec();
        }
    };
    for sent in answers.to(&query, Transport::Tcp) {
        runtime.sleep(sent.after).await;
        if socket.write(&sent.bytes).await.is_err() {
            return;
        }
    }
}
