//! The records of a name server.

use hickory_proto::{
    op::{Message, MessageType, OpCode, ResponseCode},
    rr::{
        Name, RData, Record, RecordType,
        rdata::{A, CNAME, SRV, TXT},
    },
};
use std::{fmt, net::Ipv4Addr};

/// The largest reply in bytes in a datagram, unless the query announces another size (RFC 1035
/// section 2.3.4).
const PLAIN_DATAGRAM_BYTES: usize = 512;

/// The transport of a query and its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// One datagram for each message.
    Udp,
    /// A TCP connection.
    Tcp,
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Udp => "udp",
            Self::Tcp => "tcp",
        })
    }
}

/// The records of a name server, and how it answers.
#[derive(Clone, Debug, Default)]
pub struct Zone {
    records: Vec<Record>,
    truncates: bool,
    is_silent: bool,
    queries: Vec<String>,
}

impl Zone {
    /// Adds an SRV record.
    pub fn add_srv(&mut self, name: &str, ttl: u32, host: &str, port: u16) {
        self.add(name, ttl, RData::SRV(SRV::new(0, 0, port, parsed(host))));
    }

    /// Adds a TXT record with these strings.
    pub fn add_txt(&mut self, name: &str, ttl: u32, strings: &[&str]) {
        let strings = strings.iter().map(|text| (*text).to_owned());
        self.add(name, ttl, RData::TXT(TXT::new(strings.collect())));
    }

    /// Adds an A record.
    pub fn add_address(&mut self, name: &str, ttl: u32, address: Ipv4Addr) {
        self.add(name, ttl, RData::A(A(address)));
    }

    /// Adds a CNAME record.
    pub fn add_alias(&mut self, name: &str, ttl: u32, target: &str) {
        self.add(name, ttl, RData::CNAME(CNAME(parsed(target))));
    }

    fn add(&mut self, name: &str, ttl: u32, data: RData) {
        self.records
            .push(Record::from_rdata(parsed(name), ttl, data));
    }

    /// Replaces the SRV records of a name.
    pub fn set_srv(&mut self, name: &str, ttl: u32, hosts: &[(&str, u16)]) {
        self.remove(name, RecordType::SRV);
        for (host, port) in hosts {
            self.add_srv(name, ttl, host, *port);
        }
    }

    /// Replaces the TXT records of a name. Each record has a list of strings.
    pub fn set_txt(&mut self, name: &str, records: &[&[&str]]) {
        self.remove(name, RecordType::TXT);
        for strings in records {
            self.add_txt(name, 60, strings);
        }
    }

    /// Replaces the A records of a name.
    pub fn set_addresses(&mut self, name: &str, addresses: &[Ipv4Addr]) {
        self.remove(name, RecordType::A);
        for address in addresses {
            self.add_address(name, 60, *address);
        }
    }

    fn remove(&mut self, name: &str, kind: RecordType) {
        let name = parsed(name);
        self.records
            .retain(|record| record.name != name || record.record_type() != kind);
    }

    /// Sets whether all replies over UDP are truncated.
    pub fn set_truncating(&mut self, truncates: bool) {
        self.truncates = truncates;
    }

    /// Sets whether queries are left without an answer.
    pub fn set_silent(&mut self, is_silent: bool) {
        self.is_silent = is_silent;
    }

    /// Returns the queries that arrived, for example `udp SRV _mongodb._tcp.c.db.test.`.
    #[must_use]
    pub fn queries(&self) -> &[String] {
        &self.queries
    }

    /// Returns the reply to a query. `None` if the server is silent or the query is malformed.
    pub fn reply(&mut self, query: &[u8], transport: Transport) -> Option<Vec<u8>> {
        self.message(query, transport)?.to_vec().ok()
    }

    pub(super) fn message(&mut self, query: &[u8], transport: Transport) -> Option<Message> {
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
        let is_found = |record: &&&Record| {
            record.record_type() == kind || record.record_type() == RecordType::CNAME
        };
        let found: Vec<Record> = of_name.iter().filter(is_found).copied().cloned().collect();
        reply.add_answers(found);
        let room = query.edns.map_or(PLAIN_DATAGRAM_BYTES, |edns| {
            usize::from(edns.max_payload()).max(PLAIN_DATAGRAM_BYTES)
        });
        let is_long = || reply.to_vec().is_ok_and(|bytes| bytes.len() > room);
        if transport == Transport::Udp && (self.truncates || is_long()) {
            reply.metadata.truncation = true;
            reply.answers.clear();
        }
        Some(reply)
    }
}

/// Returns the question of a query, such as `SRV _mongodb._tcp.c.db.test.`. `None` if the query is
/// malformed.
///
/// ```
/// let query = b"\0\x07\x01\0\0\x01\0\0\0\0\0\0\x01a\x04test\0\0\x01\0\x01";
/// assert_eq!(onionskin_deployment::names::question(query).as_deref(), Some("A a.test."));
/// ```
#[must_use]
pub fn question(query: &[u8]) -> Option<String> {
    let query = Message::from_vec(query).ok()?;
    let question = query.queries.first()?;
    Some(format!("{} {}", question.query_type(), question.name()))
}

pub(super) fn parsed(name: &str) -> Name {
    let mut name = Name::from_utf8(name).expect("a name");
    name.set_fqdn(true);
    name
}
