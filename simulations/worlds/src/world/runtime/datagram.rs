//! Datagrams between clients and name servers in the virtual network.
//!
//! A datagram takes the latency of the network. Datagrams can overtake each other. The network
//! itself loses no datagram, because name servers draw their faults.

use super::{SimRuntime, SimStream, executor::Shared};
use crate::world::trace::{Summary, Trace};
use onionskin_core::time::Instant;
use std::{
    collections::{BTreeMap, VecDeque},
    future::poll_fn,
    io,
    net::SocketAddr,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

/// The number of unread datagrams of a socket at which further ones are lost.
const MAX_UNREAD: usize = 64;

/// The id of a client's datagram socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DatagramId(u64);

/// All datagram sockets, and the datagrams in transit.
#[derive(Debug, Default)]
pub(super) struct Datagrams {
    sockets: BTreeMap<DatagramId, Socket>,
    servers: BTreeMap<SocketAddr, Server>,
    under_way: BTreeMap<(Instant, u64), Datagram>,
    numbers: u64,
    most_sockets: usize,
}

/// A client's socket, which is connected to a name server.
#[derive(Debug)]
struct Socket {
    server: SocketAddr,
    inbox: VecDeque<Vec<u8>>,
    /// True if the network reported that nothing has the address of the server.
    is_refused: bool,
    reader: Option<Waker>,
}

#[derive(Debug, Default)]
struct Server {
    inbox: VecDeque<(DatagramId, Vec<u8>)>,
    receiver: Option<Waker>,
}

#[derive(Debug)]
enum Datagram {
    /// From a client to its name server.
    Query(DatagramId, Vec<u8>),
    /// From this address to a client.
    Reply(DatagramId, SocketAddr, Vec<u8>),
    /// The report that nothing has the address of the server.
    Refused(DatagramId),
}

impl Datagrams {
    fn open(&mut self, server: SocketAddr) -> DatagramId {
        let id = DatagramId(self.next_number());
        let socket = Socket {
            server,
            inbox: VecDeque::new(),
            is_refused: false,
            reader: None,
        };
        self.sockets.insert(id, socket);
        self.most_sockets = self.most_sockets.max(self.sockets.len());
        id
    }

    pub(super) fn close(&mut self, id: DatagramId) {
        self.sockets.remove(&id);
    }

    pub(super) fn send(
        &mut self,
        now: Instant,
        latency: Duration,
        id: DatagramId,
        bytes: &[u8],
        trace: &mut Trace,
    ) -> io::Result<()> {
        let Some(socket) = self.sockets.get_mut(&id) else {
            return Err(io::ErrorKind::NotConnected.into());
        };
        if std::mem::take(&mut socket.is_refused) {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        let server = socket.server;
        let summary = Summary(bytes);
        trace.note(
            now,
            format_args!("datagram {} to {server}: {summary}", id.0),
        );
        self.post(now + latency, Datagram::Query(id, bytes.to_vec()));
        Ok(())
    }

    pub(super) fn poll_read(
        &mut self,
        id: DatagramId,
        context: &Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let Some(socket) = self.sockets.get_mut(&id) else {
            return Poll::Ready(Err(io::ErrorKind::NotConnected.into()));
        };
        if std::mem::take(&mut socket.is_refused) {
            return Poll::Ready(Err(io::ErrorKind::ConnectionRefused.into()));
        }
        let Some(bytes) = socket.inbox.pop_front() else {
            socket.reader = Some(context.waker().clone());
            return Poll::Pending;
        };
        // The rest of a datagram that does not fit into the buffer is lost.
        let count = bytes.len().min(buffer.len());
        buffer[..count].copy_from_slice(&bytes[..count]);
        Poll::Ready(Ok(count))
    }

    /// Returns the time at which [`advance`](Self::advance) must be called next.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.under_way.first_key_value().map(|(&(at, _), _)| at)
    }

    /// Delivers the next datagram. A refusal takes the time `latency` to the client.
    pub(super) fn advance(&mut self, now: Instant, latency: Duration, trace: &mut Trace) {
        match self.under_way.pop_first() {
            Some((_, Datagram::Query(id, bytes))) => {
                let server = self.sockets.get(&id).map(|socket| socket.server);
                let Some(address) = server else { return };
                let Some(server) = self.servers.get_mut(&address) else {
                    return self.post(now + latency, Datagram::Refused(id));
                };
                if server.inbox.len() < MAX_UNREAD {
                    server.inbox.push_back((id, bytes));
                }
                wake(&mut server.receiver);
            }
            Some((_, Datagram::Reply(id, source, bytes))) => {
                let summary = Summary(&bytes);
                trace.note(
                    now,
                    format_args!("datagram {} from {source}: {summary}", id.0),
                );
                // A connected socket receives only datagrams of its peer.
                let socket = self.sockets.get_mut(&id);
                if let Some(socket) = socket.filter(|socket| socket.server == source) {
                    if socket.inbox.len() < MAX_UNREAD {
                        socket.inbox.push_back(bytes);
                    }
                    wake(&mut socket.reader);
                }
            }
            Some((_, Datagram::Refused(id))) => {
                if let Some(socket) = self.sockets.get_mut(&id) {
                    socket.is_refused = true;
                    wake(&mut socket.reader);
                }
            }
            None => {}
        }
    }

    fn post(&mut self, at: Instant, datagram: Datagram) {
        let number = self.next_number();
        self.under_way.insert((at, number), datagram);
    }

    fn next_number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }
}

fn wake(waker: &mut Option<Waker>) {
    if let Some(waker) = waker.take() {
        waker.wake();
    }
}

impl SimRuntime {
    /// Receives the datagrams that are sent to an address. Fails with `AddrInUse` if the address is
    /// in use.
    pub fn listen_datagrams(&self, address: SocketAddr) -> io::Result<SimDatagrams> {
        let servers = &mut self.shared.lock().datagrams.servers;
        if servers.contains_key(&address) {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        servers.insert(address, Server::default());
        Ok(SimDatagrams {
            shared: self.shared.clone(),
            address,
        })
    }

    /// Returns the largest number of datagram sockets that clients had open at the same time.
    #[must_use]
    pub fn most_datagram_sockets(&self) -> usize {
        self.shared.lock().datagrams.most_sockets
    }

    /// Returns the number of datagram sockets that clients have open.
    #[must_use]
    pub fn datagram_sockets(&self) -> usize {
        self.shared.lock().datagrams.sockets.len()
    }

    pub(super) fn open_datagram(&self, server: SocketAddr) -> SimStream {
        let id = self.shared.lock().datagrams.open(server);
        SimStream::datagram(self.shared.clone(), id)
    }
}

/// A server's datagram socket. Dropping the value closes the socket.
#[derive(Debug)]
pub struct SimDatagrams {
    shared: Arc<Shared>,
    address: SocketAddr,
}

impl SimDatagrams {
    /// Returns the next datagram and the socket that sent it; `None` if the socket was closed.
    pub async fn receive(&self) -> Option<(DatagramId, Vec<u8>)> {
        poll_fn(|context| {
            let mut state = self.shared.lock();
            let Some(server) = state.datagrams.servers.get_mut(&self.address) else {
                return Poll::Ready(None);
            };
            match server.inbox.pop_front() {
                Some(received) => Poll::Ready(Some(received)),
                None => {
                    server.receiver = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }

    /// Sends a datagram from the address `source` after a pause.
    pub fn send(&self, to: DatagramId, source: SocketAddr, after: Duration, bytes: Vec<u8>) {
        let mut state = self.shared.lock();
        let at = state.now + state.network.draw_latency() + after;
        state.datagrams.post(at, Datagram::Reply(to, source, bytes));
    }

    /// Returns the address of the socket.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Closes the socket. Clients that send to the address are refused from now on.
    pub fn close(&self) {
        let server = self.shared.lock().datagrams.servers.remove(&self.address);
        wake(&mut server.unwrap_or_default().receiver);
    }
}

impl Drop for SimDatagrams {
    fn drop(&mut self) {
        self.close();
    }
}
