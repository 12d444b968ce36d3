//! A name server for tests: it answers from records that the test changes, over UDP and TCP, on
//! real sockets or in the virtual network.

use onionskin_core::{
    dns::{DnsAnswer, DnsQuery, Lookup, LookupAction, ResolverConfig},
    error::Error,
    random::Seed,
    time::Instant,
};
use onionskin_deployment::names::{Transport, Zone};
use onionskin_worlds::world::{SimRuntime, runtime::SimNameServer};
use std::{
    fmt,
    io::{self, Read, Write},
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

/// The time after which the thread that receives datagrams checks whether the test has ended.
const PAUSE: Duration = Duration::from_millis(20);

/// The loopback address with any free port.
const ANY_PORT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// A name server on a free port of `127.0.0.1`. It ends when it is dropped.
pub struct NameServer {
    address: SocketAddr,
    zone: Arc<Mutex<Zone>>,
    place: Place,
}

impl fmt::Debug for NameServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NameServer")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

enum Place {
    /// Two threads with real sockets. They end when the value is true.
    System(Arc<AtomicBool>),
    /// The virtual network of a simulated runtime.
    Simulated(#[expect(dead_code, reason = "its drop stops the server")] SimNameServer),
}

impl NameServer {
    /// Starts a name server without records on real sockets.
    #[must_use]
    pub fn start() -> Self {
        let (socket, listener) = bind();
        let address = socket.local_addr().expect("a bound socket");
        let (zone, is_over) = (Arc::<Mutex<Zone>>::default(), Arc::<AtomicBool>::default());
        let (records, ends) = (zone.clone(), is_over.clone());
        thread::spawn(move || serve_datagrams(&socket, &records, &ends));
        let (records, ends) = (zone.clone(), is_over.clone());
        thread::spawn(move || serve_streams(&listener, &records, &ends));
        Self {
            address,
            zone,
            place: Place::System(is_over),
        }
    }

    /// Starts a name server without records in the virtual network.
    #[must_use]
    pub fn simulated(runtime: &SimRuntime) -> Self {
        let server = runtime.start_name_server(ANY_PORT, &Seed::new([0; 32]));
        let server = server.expect("a free port");
        Self {
            address: server.address(),
            zone: server.zone().clone(),
            place: Place::Simulated(server),
        }
    }

    /// Returns the address of the name server.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the records for a change.
    pub fn records(&self) -> MutexGuard<'_, Zone> {
        lock(&self.zone)
    }

    /// Returns the queries that arrived, for example `udp SRV _mongodb._tcp.c.db.test.`.
    #[must_use]
    pub fn queries(&self) -> Vec<String> {
        self.records().queries().to_vec()
    }
}

impl Drop for NameServer {
    fn drop(&mut self) {
        if let Place::System(is_over) = &self.place {
            is_over.store(true, Ordering::SeqCst);
            // The connection ends the wait of the thread that accepts connections.
            let _ = TcpStream::connect(self.address);
        }
    }
}

/// Returns an address of `127.0.0.1` whose port no UDP or TCP socket uses at present.
#[must_use]
pub fn free_address() -> SocketAddr {
    let (socket, _listener) = bind();
    socket.local_addr().expect("a bound socket")
}

/// Looks up records with the stub resolver on real sockets, for at most ten seconds. Blocks the
/// thread.
pub fn look_up(config: ResolverConfig, query: DnsQuery) -> Result<DnsAnswer, Error> {
    let start = std::time::Instant::now();
    let now = || Instant::ZERO + start.elapsed();
    let random = Seed::new([5; 32]).random();
    let limit = Some(Duration::from_secs(10));
    let mut lookup = Lookup::new(now(), query, Arc::new(config), random, limit);
    while let Some(action) = lookup.poll_action() {
        let left = lookup
            .deadline()
            .map_or(PAUSE, |at| at.saturating_since(now()));
        let left = left.max(Duration::from_millis(1));
        match action {
            LookupAction::SendDatagram {
                socket,
                server,
                bytes,
            } => match exchange_datagram(server, &bytes, left) {
                Ok(reply) => lookup.handle_datagram(now(), socket, server, &reply),
                Err(error) => lookup.handle_failed(now(), socket, &error.to_string()),
            },
            LookupAction::SendStream {
                socket,
                server,
                bytes,
            } => match exchange_stream(server, &bytes, left) {
                Ok(reply) => lookup.handle_received(now(), socket, &reply),
                Err(error) => lookup.handle_failed(now(), socket, &error.to_string()),
            },
            LookupAction::Close { .. } => {}
        }
        lookup.handle_timeout(now());
    }
    lookup.take_result().expect("each socket has a result")
}

fn exchange_datagram(server: SocketAddr, query: &[u8], limit: Duration) -> io::Result<Vec<u8>> {
    let socket = UdpSocket::bind(ANY_PORT)?;
    socket.connect(server)?;
    socket.set_read_timeout(Some(limit))?;
    socket.send(query)?;
    let mut buffer = vec![0; 4096];
    let count = socket.recv(&mut buffer)?;
    buffer.truncate(count);
    Ok(buffer)
}

/// Returns the length and the message of a reply over TCP.
fn exchange_stream(server: SocketAddr, query: &[u8], limit: Duration) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect_timeout(&server, limit)?;
    stream.set_read_timeout(Some(limit))?;
    stream.write_all(query)?;
    let mut reply = vec![0; 2];
    stream.read_exact(&mut reply)?;
    let length = usize::from(u16::from_be_bytes([reply[0], reply[1]]));
    reply.resize(2 + length, 0);
    stream.read_exact(&mut reply[2..])?;
    Ok(reply)
}

/// Binds a UDP socket and a TCP listener with the same port.
fn bind() -> (UdpSocket, TcpListener) {
    for _ in 0..100 {
        let socket = UdpSocket::bind(ANY_PORT).expect("a free port");
        let address = socket.local_addr().expect("a bound socket");
        if let Ok(listener) = TcpListener::bind(address) {
            return (socket, listener);
        }
    }
    panic!("no port is free for UDP and TCP");
}

fn lock(zone: &Mutex<Zone>) -> MutexGuard<'_, Zone> {
    zone.lock().unwrap_or_else(PoisonError::into_inner)
}

fn serve_datagrams(socket: &UdpSocket, zone: &Mutex<Zone>, is_over: &AtomicBool) {
    socket.set_read_timeout(Some(PAUSE)).expect("a timeout");
    let mut buffer = [0; 4096];
    while !is_over.load(Ordering::SeqCst) {
        let Ok((count, client)) = socket.recv_from(&mut buffer) else {
            continue;
        };
        if let Some(reply) = lock(zone).reply(&buffer[..count], Transport::Udp) {
            let _ = socket.send_to(&reply, client);
        }
    }
}

fn serve_streams(listener: &TcpListener, zone: &Mutex<Zone>, is_over: &AtomicBool) {
    while !is_over.load(Ordering::SeqCst) {
        if let Ok((stream, _)) = listener.accept() {
            let _ = serve_stream(stream, zone);
        }
    }
}

/// Answers one query of a TCP connection, and closes the connection.
fn serve_stream(mut stream: TcpStream, zone: &Mutex<Zone>) -> io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    let mut length = [0; 2];
    stream.read_exact(&mut length)?;
    let mut query = vec![0; usize::from(u16::from_be_bytes(length))];
    stream.read_exact(&mut query)?;
    if let Some(reply) = lock(zone).reply(&query, Transport::Tcp) {
        let length = u16::try_from(reply.len()).unwrap_or(u16::MAX);
        stream.write_all(&length.to_be_bytes())?;
        stream.write_all(&reply)?;
    }
    Ok(())
}
