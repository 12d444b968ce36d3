//! A name server in the virtual network, over datagrams and streams.

use super::{SimDatagrams, SimListener, SimRuntime, SimSocket, executor::lock};
use onionskin::Runtime;
use onionskin_core::random::{Random, Seed};
use onionskin_deployment::names::{NameFaults, Sent, Transport, Zone, question};
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
    /// [`SimNameServer::set_faults`] has set their rates. Queries also fail at the rates of
    /// [`Disaster::FailNames`](crate::world::Disaster::FailNames), for as long as lookups of the
    /// world do.
    pub fn start_name_server(&self, address: SocketAddr, seed: &Seed) -> io::Result<SimNameServer> {
        let listener = Arc::new(self.listen(address)?);
        let datagrams = Arc::new(self.listen_datagrams(listener.address())?);
        let server = SimNameServer {
            runtime: self.clone(),
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
    runtime: SimRuntime,
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
            runtime: self.runtime.clone(),
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
    runtime: SimRuntime,
    zone: Arc<Mutex<Zone>>,
    faults: Arc<Mutex<(NameFaults, Random)>>,
}

impl Answers {
    fn to(&self, query: &[u8], transport: Transport) -> Vec<Sent> {
        let failure = question(query).and_then(|question| {
            let mut state = self.runtime.shared.lock();
            let state = &mut *state;
            state
                .network
                .fail_lookup(state.now, &question, &mut state.trace)
        });
        let zone = &mut lock(&self.zone);
        if let Some(failure) = failure {
            return failure.replies(zone, query, transport);
        }
        let (faults, random) = &mut *lock(&self.faults);
        faults.replies(random, zone, query, transport)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::{Disaster, LookupFailures, runtime::Executor};

    #[test]
    fn a_name_server_fails_while_the_lookups_of_its_world_do() {
        let executor = Executor::quiet(1).expect("a world");
        let runtime = executor.runtime(0);
        let address = SocketAddr::from(([10, 0, 1, 1], 53));
        let server = runtime.start_name_server(address, &Seed::new([1; 32]));
        let server = server.expect("the port is free");
        let local = Ipv4Addr::LOCALHOST;
        server.records().add_address("a.test", 60, local);
        // The query for the A records of a.test.
        let query = b"\0\x07\x01\0\0\x01\0\0\0\0\0\0\x01a\x04test\0\0\x01\0\x01";
        // Whether the reply is truncated, its code, and the number of its records.
        let reply = || {
            let sent = server.answers().to(query, Transport::Udp);
            let bytes = sent.first().map(|sent| sent.bytes.clone())?;
            Some((bytes[2] & 2 > 0, bytes[3] & 15, bytes[7]))
        };
        assert_eq!(reply(), Some((false, 0, 1)));
        let none = LookupFailures::default();
        let [unanswered, failed, truncated, empty] = [1000; 4];
        for (failures, expected) in [
            (LookupFailures { unanswered, ..none }, None),
            (LookupFailures { failed, ..none }, Some((false, 2, 0))),
            (LookupFailures { truncated, ..none }, Some((true, 0, 0))),
            (LookupFailures { empty, ..none }, Some((false, 0, 0))),
        ] {
            runtime.strike(&Disaster::FailNames(failures));
            assert_eq!(reply(), expected, "{failures}");
        }
        runtime.strike(&Disaster::MendNames);
        assert_eq!(reply(), Some((false, 0, 1)));
    }
}
