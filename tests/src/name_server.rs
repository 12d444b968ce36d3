//! A name server for tests: it answers from records that the test changes, over UDP and TCP.

use hickory_proto::{
    op::{Message, MessageType, OpCode, ResponseCode},
    rr::{
        Name, RData, Record, RecordType,
        rdata::{A, SRV, TXT},
    },
};
use std::{
    io::{Read, Write},
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

/// A name server on a free port of `127.0.0.1`. It ends when it is dropped.
pub struct NameServer {
    address: SocketAddr,
    zone: Arc<Mutex<Zone>>,
    is_over: Arc<AtomicBool>,
}

/// The records of a name server, and how it answers.
#[derive(Default)]
pub struct Zone {
    records: Vec<Record>,
    /// True if replies over UDP are truncated.
    truncates: bool,
    /// True if queries are not answered.
    is_silent: bool,
    /// The queries that arrived, each with its type, name and transport.
    queries: Vec<String>,
}

impl Zone {
    /// Adds an SRV record.
    pub fn add_srv(&mut self, name: &str, ttl: u32, host: &str, port: u16) {
        let service = RData::SRV(SRV::new(0, 0, port, parsed(host)));
        self.records
            .push(Record::from_rdata(parsed(name), ttl, service));
    }

    /// Adds a TXT record with these strings.
    pub fn add_txt(&mut self, name: &str, ttl: u32, strings: &[&str]) {
        let text = TXT::new(strings.iter().map(|text| (*text).to_owned()).collect());
        self.records
            .push(Record::from_rdata(parsed(name), ttl, RData::TXT(text)));
    }

    /// Adds an A record.
    pub fn add_address(&mut self, name: &str, ttl: u32, address: Ipv4Addr) {
        let address = RData::A(A(address));
        self.records
            .push(Record::from_rdata(parsed(name), ttl, address));
    }

    fn remove(&mut self, name: &str, kind: RecordType) {
        let name = parsed(name);
        self.records
            .retain(|record| record.name != name || record.record_type() != kind);
    }

    /// Returns the reply to a query, which arrived over `transport` (`udp` or `tcp`). `None` if the
    /// server is silent or the query is malformed.
    pub fn reply(&mut self, query: &[u8], transport: &str) -> Option<Vec<u8>> {
        let query = Message::from_vec(query).ok()?;
        let question = query.queries.first()?.clone();
        let (kind, name) = (question.query_type(), question.name().clone());
        self.queries.push(format!("{transport} {kind} {name}"));
        if self.is_silent {
            return None;
        }
        let mut reply = Message::new(query.metadata.id, MessageType::Response, OpCode::Query);
        reply.add_query(question);
        let of_name = self.records.iter().filter(|record| record.name == name);
        let of_name: Vec<&Record> = of_name.collect();
        if of_name.is_empty() {
            reply.metadata.response_code = ResponseCode::NXDomain;
        }
        let found = of_name.into_iter();
        let found = found.filter(|record| record.record_type() == kind).cloned();
        if self.truncates && transport == "udp" {
            reply.metadata.truncation = true;
        } else {
            reply.add_answers(found);
        }
        reply.to_vec().ok()
    }
}

impl NameServer {
    /// Starts a name server without records.
    #[must_use]
    pub fn start() -> Self {
        let (socket, listener) = bind();
        let address = socket.local_addr().expect("a bound socket");
        let server = Self {
            address,
            zone: Arc::default(),
            is_over: Arc::default(),
        };
        let (zone, is_over) = (server.zone.clone(), server.is_over.clone());
        thread::spawn(move || serve_datagrams(&socket, &zone, &is_over));
        let (zone, is_over) = (server.zone.clone(), server.is_over.clone());
        thread::spawn(move || serve_streams(&listener, &zone, &is_over));
        server
    }

    /// Returns the address of the name server.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Replaces the SRV records of a name.
    pub fn set_srv(&self, name: &str, ttl: u32, hosts: &[(&str, u16)]) {
        let mut zone = lock(&self.zone);
        zone.remove(name, RecordType::SRV);
        for (host, port) in hosts {
            zone.add_srv(name, ttl, host, *port);
        }
    }

    /// Replaces the TXT records of a name. Each record has a list of strings.
    pub fn set_txt(&self, name: &str, records: &[&[&str]]) {
        let mut zone = lock(&self.zone);
        zone.remove(name, RecordType::TXT);
        for strings in records {
            zone.add_txt(name, 60, strings);
        }
    }

    /// Replaces the A records of a name.
    pub fn set_addresses(&self, name: &str, addresses: &[Ipv4Addr]) {
        let mut zone = lock(&self.zone);
        zone.remove(name, RecordType::A);
        for address in addresses {
            zone.add_address(name, 60, *address);
        }
    }

    /// Sets whether replies over UDP are truncated.
    pub fn set_truncating(&self, truncates: bool) {
        lock(&self.zone).truncates = truncates;
    }

    /// Sets whether queries are left without an answer.
    pub fn set_silent(&self, is_silent: bool) {
        lock(&self.zone).is_silent = is_silent;
    }

    /// Returns the queries that arrived, for example `udp SRV _mongodb._tcp.c.db.test.`.
    #[must_use]
    pub fn queries(&self) -> Vec<String> {
        lock(&self.zone).queries.clone()
    }
}

impl Drop for NameServer {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        // The connection ends the wait of the thread that accepts connections.
        let _ = TcpStream::connect(self.address);
    }
}

/// Binds a UDP socket and a TCP listener with the same port.
fn bind() -> (UdpSocket, TcpListener) {
    let any = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
    for _ in 0..100 {
        let socket = UdpSocket::bind(any).expect("a free port");
        let address = socket.local_addr().expect("a bound socket");
        if let Ok(listener) = TcpListener::bind(address) {
            return (socket, listener);
        }
    }
    panic!("no port is free for UDP and TCP");
}

fn parsed(name: &str) -> Name {
    let mut name = Name::from_utf8(name).expect("a name");
    name.set_fqdn(true);
    name
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
        if let Some(reply) = lock(zone).reply(&buffer[..count], "udp") {
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
fn serve_stream(mut stream: TcpStream, zone: &Mutex<Zone>) -> std::io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    let mut length = [0; 2];
    stream.read_exact(&mut length)?;
    let mut query = vec![0; usize::from(u16::from_be_bytes(length))];
    stream.read_exact(&mut query)?;
    if let Some(reply) = lock(zone).reply(&query, "tcp") {
        let length = u16::try_from(reply.len()).unwrap_or(u16::MAX);
        stream.write_all(&length.to_be_bytes())?;
        stream.write_all(&reply)?;
    }
    Ok(())
}
