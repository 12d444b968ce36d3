//! A bench for lookups, with name servers that the tests play.

mod hostile;
mod names;
mod replies;
mod servers;

use super::*;
use crate::{
    dns::{DnsData, RecordKind},
    error::ErrorKind,
    random::Seed,
};
use hickory_proto::{
    op::{Message, MessageType, OpCode, ResponseCode},
    rr::{
        RData, Record,
        rdata::{A, CNAME, SOA, SRV},
    },
};

const SRV_NAME: &str = "_mongodb._tcp.c.example.net";
const LIMIT: Duration = Duration::from_secs(10);

/// A lookup with a clock, and the queries that were sent on its sockets.
struct Bench {
    lookup: Lookup,
    now: Instant,
    sent: Vec<Sent>,
    closed: Vec<LookupSocket>,
}

/// A query that the lookup sent.
#[derive(Clone, Debug)]
struct Sent {
    socket: LookupSocket,
    server: SocketAddr,
    is_stream: bool,
    message: Message,
}

impl Sent {
    /// Returns the reply with this code and these answer records.
    fn reply(&self, code: ResponseCode, answers: Vec<Record>) -> Message {
        let mut reply = Message::new(
            self.message.metadata.id,
            MessageType::Response,
            OpCode::Query,
        );
        reply.metadata.response_code = code;
        reply.add_queries(self.message.queries.iter().cloned());
        reply.add_answers(answers);
        reply
    }

    fn name(&self) -> String {
        self.message.queries[0].name().to_ascii()
    }
}

impl Bench {
    fn new(query: DnsQuery, resolv_conf: &str) -> Self {
        let config = ResolverConfig::parse(resolv_conf.as_bytes());
        Self::with(query, config)
    }

    fn with(query: DnsQuery, config: ResolverConfig) -> Self {
        let random = Seed::new([3; 32]).random();
        let now = Instant::ZERO + Duration::from_secs(1000);
        let mut bench = Self {
            lookup: Lookup::new(now, query, Arc::new(config), random, Some(LIMIT)),
            now,
            sent: Vec::new(),
            closed: Vec::new(),
        };
        bench.collect();
        bench
    }

    fn collect(&mut self) {
        while let Some(action) = self.lookup.poll_action() {
            let (socket, server, bytes, is_stream) = match action {
                LookupAction::SendDatagram {
                    socket,
                    server,
                    bytes,
                } => (socket, server, bytes, false),
                LookupAction::SendStream {
                    socket,
                    server,
                    bytes,
                } => {
                    let (length, message) = bytes.split_first_chunk().expect("a length");
                    assert_eq!(usize::from(u16::from_be_bytes(*length)), message.len());
                    (socket, server, message.to_vec(), true)
                }
                LookupAction::Close { socket } => {
                    self.closed.push(socket);
                    continue;
                }
            };
            let message = Message::from_vec(&bytes).expect("a query");
            assert!(message.metadata.recursion_desired);
            self.sent.push(Sent {
                socket,
                server,
                is_stream,
                message,
            });
        }
    }

    /// Returns the query that was sent last.
    fn last(&self) -> Sent {
        self.sent.last().expect("a query").clone()
    }

    /// Replies to a query, over the transport of the query.
    fn reply(&mut self, sent: &Sent, reply: &Message) {
        let bytes = reply.to_vec().expect("a reply");
        if sent.is_stream {
            let framed = framed(&bytes);
            self.lookup.handle_received(self.now, sent.socket, &framed);
        } else {
            self.lookup
                .handle_datagram(self.now, sent.socket, sent.server, &bytes);
        }
        self.collect();
    }

    /// Replies to the query that was sent last.
    fn answer(&mut self, code: ResponseCode, answers: Vec<Record>) {
        let sent = self.last();
        let reply = sent.reply(code, answers);
        self.reply(&sent, &reply);
    }

    /// Replies that there are no records, which may be remembered for `ttl` seconds.
    fn deny(&mut self, code: ResponseCode, ttl: u32) {
        let sent = self.last();
        let mut reply = sent.reply(code, Vec::new());
        reply.add_authority(soa(ttl));
        self.reply(&sent, &reply);
    }

    fn wait(&mut self, duration: Duration) {
        self.now = self.now + duration;
        self.lookup.handle_timeout(self.now);
        self.collect();
    }

    /// Waits until the deadline, and returns how long that took.
    fn wait_for_deadline(&mut self) -> Duration {
        let deadline = self.lookup.deadline().expect("a deadline");
        let pause = deadline - self.now;
        self.wait(pause);
        pause
    }

    /// Returns the result; checks that the lookup keeps no socket and no deadline.
    fn result(&mut self) -> Result<DnsAnswer, Error> {
        let result = self.lookup.take_result().expect("the lookup is over");
        let opened: Vec<LookupSocket> = self.sent.iter().map(|sent| sent.socket).collect();
        self.closed.sort_unstable();
        assert_eq!(self.closed, opened, "each socket is closed once");
        assert!(self.lookup.deadline().is_none() && self.lookup.take_result().is_none());
        result
    }

    /// Returns the failure of the lookup and the text of its error.
    fn failure(&mut self) -> (DnsFailure, String) {
        let error = self.result().expect_err("a failure");
        match error.kind() {
            ErrorKind::DnsResolve { failure, .. } => (*failure, error.to_string()),
            _ => panic!("{error:?}"),
        }
    }
}

fn framed(message: &[u8]) -> Vec<u8> {
    let length = u16::try_from(message.len()).expect("a short message");
    [&length.to_be_bytes()[..], message].concat()
}

fn name(text: &str) -> Name {
    Name::from_ascii(text).expect("a name")
}

fn record(owner: &str, ttl: u32, data: RData) -> Record {
    Record::from_rdata(name(owner), ttl, data)
}

fn srv(host: &str, port: u16, ttl: u32) -> Record {
    let owner = format!("{SRV_NAME}.");
    record(&owner, ttl, RData::SRV(SRV::new(7, 5, port, name(host))))
}

fn address(owner: &str) -> Record {
    record(owner, 60, RData::A(A([10, 0, 0, 7].into())))
}

fn alias(owner: &str, target: &str) -> Record {
    record(owner, 60, RData::CNAME(CNAME(name(target))))
}

/// Returns the record that gives the time for which the absence of records may be remembered.
fn soa(minimum: u32) -> Record {
    let soa = SOA::new(name("ns."), name("admin."), 1, 2, 3, 4, minimum);
    record("example.net.", 3600, RData::SOA(soa))
}

fn service(host: &str, port: u16) -> DnsData {
    DnsData::Service {
        host: host.to_owned(),
        port,
    }
}

fn srv_bench() -> Bench {
    let servers = "nameserver 10.0.0.1\nnameserver 10.0.0.2\n";
    Bench::new(DnsQuery::new(SRV_NAME, RecordKind::Srv), servers)
}

fn host_bench(host: &str, resolv_conf: &str) -> Bench {
    Bench::new(DnsQuery::new(host, RecordKind::A), resolv_conf)
}

const ONE_SERVER: &str = "nameserver 10.0.0.1\n";
