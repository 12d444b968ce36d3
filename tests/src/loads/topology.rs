//! A replica set of any size, as its monitors see it, and server selection from it.

use bson::{RawArrayBuf, RawDocumentBuf, cstr, oid::ObjectId, rawdoc};
use onionskin_core::{
    description::{ServerId, TopologyId},
    options::{ReadMode, ReadPreference},
    random::Seed,
    time::Instant,
    unstable::{
        hello::HelloAnswer,
        sdam::{
            MAX_SERVERS, MIN_HEARTBEAT_FREQUENCY, MonitorConnectionId, MonitorTask, Order, Sdam,
            SdamOptions,
        },
        selection::{Criteria, DEFAULT_LOCAL_THRESHOLD, Selector},
    },
};
use std::{sync::Arc, time::Duration};

/// The measured sizes: a usual replica set, the largest that servers support, and the largest that
/// the client accepts.
pub const SIZES: [usize; 3] = [3, 50, MAX_SERVERS];

const HEARTBEAT: Duration = Duration::from_secs(10);

/// A replica set whose members are all known and stream their replies.
#[derive(Debug)]
pub struct Set {
    sdam: Sdam,
    now: Instant,
    checks: Vec<MonitorConnectionId>,
    ids: Vec<ServerId>,
    /// The replies of each member as a secondary, with its usual tags and with other ones.
    secondaries: Vec<[RawDocumentBuf; 2]>,
    /// The reply of each member as the primary. `with_term` sets the term.
    primaries: Vec<RawDocumentBuf>,
    primary: usize,
    term: u64,
    size: usize,
    round: usize,
}

impl Set {
    /// Creates a replica set with `size` members, of which the first is the primary.
    #[must_use]
    pub fn new(size: usize, subscribed: bool) -> Self {
        let seed = address(0).parse().expect("an address");
        let mut options = SdamOptions::new(TopologyId(ObjectId::from_bytes([0; 12])), vec![seed]);
        options.subscribed = subscribed;
        let mut sdam = Sdam::new(options);
        sdam.start(Instant::ZERO);
        let secondaries = (0..size).map(|n| [false, true].map(|odd| member(size, n, false, odd)));
        let primaries = (0..size).map(|n| member(size, n, true, false));
        let mut set = Self {
            sdam,
            now: Instant::ZERO,
            checks: vec![MonitorConnectionId(0); size],
            ids: vec![ServerId(0); size],
            secondaries: secondaries.collect(),
            primaries: primaries.collect(),
            primary: 0,
            term: 0,
            size,
            round: 0,
        };
        set.connect();
        assert_eq!(set.sdam.description().servers.len(), size);
        set
    }

    /// Answers all connections that monitors open, until all members stream.
    fn connect(&mut self) {
        while let Some(order) = self.sdam.poll_order() {
            let Order::Open {
                connection,
                address: place,
                server,
                task,
            } = order
            else {
                continue;
            };
            let n: usize = place.to_string()[1..5].parse().expect("a number");
            if task == MonitorTask::Check {
                self.checks[n] = connection;
                self.ids[n] = server;
            }
            let [quiet, _] = &self.secondaries[n];
            let leading = &self.primaries[n];
            let reply = if n == self.primary { leading } else { quiet };
            let trip = Duration::from_micros(500 + 7 * n as u64);
            self.sdam.handle_connected(
                self.now,
                connection,
                HelloAnswer::new(reply.to_owned()),
                trip,
            );
        }
    }

    fn push(&mut self, n: usize, reply: &RawDocumentBuf) {
        // Only a limited number of streamed replies can follow each other faster than this.
        self.now = self.now + MIN_HEARTBEAT_FREQUENCY;
        let trip = Duration::from_micros(500);
        let version = self.sdam.version();
        self.sdam.handle_reply(
            self.now,
            self.checks[n],
            HelloAnswer::new(reply.to_owned()),
            trip,
            true,
        );
        assert!(self.sdam.version() > version, "the reply was not taken");
        self.settle();
    }

    fn settle(&mut self) {
        while let Some(order) = self.sdam.poll_order() {
            drop(order);
        }
    }

    /// Returns the state machine and drops the prepared replies.
    #[must_use]
    pub fn into_topology(self) -> Sdam {
        self.sdam
    }

    /// A secondary sends its usual reply.
    pub fn hello_unchanged(&mut self) {
        self.round += 1;
        let n = self.other(self.round);
        let reply = std::mem::take(&mut self.secondaries[n][0]);
        self.push(n, &reply);
        self.secondaries[n][0] = reply;
    }

    /// A secondary sends a reply with other tags than before.
    pub fn hello_changed(&mut self) {
        self.round += 1;
        let n = self.other(0);
        let odd = self.round % 2;
        let reply = std::mem::take(&mut self.secondaries[n][odd]);
        self.push(n, &reply);
        self.secondaries[n][odd] = reply;
    }

    /// The primary steps down and another member is elected, which takes two replies.
    pub fn failover(&mut self) {
        let (old, new) = (self.primary, self.other(1));
        let reply = std::mem::take(&mut self.secondaries[old][0]);
        self.push(old, &reply);
        self.secondaries[old][0] = reply;
        self.primary = new;
        self.term += 1;
        let reply = with_term(std::mem::take(&mut self.primaries[new]), self.term);
        self.push(new, &reply);
        self.primaries[new] = reply;
    }

    fn other(&self, n: usize) -> usize {
        (self.primary + 1 + n % (self.size - 1)) % self.size
    }

    /// Selects one of the suitable servers.
    pub fn select(&self, selector: &mut Selector, criteria: &Criteria) -> ServerId {
        let chosen = selector.select(
            self.sdam.version(),
            self.sdam.description(),
            |address| self.sdam.server_id(address),
            criteria,
            &[],
        );
        let server = chosen.expect("compatible").expect("one suits");
        selector.finished(server);
        server
    }
}

/// Returns a server selector with the default options of clients.
#[must_use]
pub fn selector() -> Selector {
    let random = Seed::new([1; 32]).split("selection").random();
    Selector::new(DEFAULT_LOCAL_THRESHOLD, HEARTBEAT, random)
}

/// Returns the criteria of reads with the mode `nearest`.
#[must_use]
pub fn nearest() -> Criteria {
    Criteria::Readable(Arc::new(ReadPreference::new(ReadMode::Nearest)))
}

fn address(n: usize) -> String {
    format!("m{n:04}.example.net:27017")
}

fn member(size: usize, n: usize, is_primary: bool, odd: bool) -> RawDocumentBuf {
    let mut hosts = RawArrayBuf::new();
    for n in 0..size {
        hosts.push(address(n));
    }
    let mut reply = rawdoc! {
        "topologyVersion": { "processId": ObjectId::from_bytes([7; 12]), "counter": 3_i64 },
        "hosts": hosts,
        "setName": "rs0",
        "setVersion": 3,
        "secondary": !is_primary,
        "isWritablePrimary": is_primary,
        "me": address(n),
        "tags": { "rack": if odd { "two" } else { "one" } },
        "maxBsonObjectSize": 16_777_216, "maxMessageSizeBytes": 48_000_000,
        "maxWriteBatchSize": 100_000, "logicalSessionTimeoutMinutes": 30, "connectionId": 5,
        "minWireVersion": 0, "maxWireVersion": 21, "readOnly": false, "helloOk": true, "ok": 1.0,
    };
    if is_primary {
        reply.append(cstr!("electionId"), ObjectId::from_bytes([0; 12]));
    }
    reply
}

/// Replaces the term in the `electionId` of a reply. The `electionId` must be the last field.
fn with_term(reply: RawDocumentBuf, term: u64) -> RawDocumentBuf {
    let mut bytes = reply.into_bytes();
    let end = bytes.len() - 1;
    bytes[end - 8..end].copy_from_slice(&term.to_be_bytes());
    RawDocumentBuf::from_bytes(bytes).expect("it was a document")
}
