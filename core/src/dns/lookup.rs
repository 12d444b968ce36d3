//! The stub resolver: a state machine for one lookup.

mod steps;
#[cfg(test)]
mod tests;

use super::{
    DnsAnswer, DnsQuery, ResolverConfig,
    message::{self, Reply},
};
use crate::{
    error::{DnsFailure, Error},
    random::Random,
    time::{Instant, earliest},
};
use hickory_proto::rr::Name;
use std::{
    collections::{BTreeMap, VecDeque},
    net::SocketAddr,
    sync::Arc,
    time::Duration,
};

/// The maximum number of aliases (CNAME records) that a lookup asks for, if a reply has the alias
/// of a name but not its records.
pub const MAX_ALIASES: usize = 8;

/// The maximum number of datagrams on one socket that are not the reply to its query. After that,
/// the next name server is asked: the datagrams are forged.
pub const MAX_IGNORED_DATAGRAMS: u32 = 64;

/// The id of a socket of one [`Lookup`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LookupSocket(pub u32);

/// An action of a [`Lookup`] for its caller.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "the caller must carry out each action"]
pub enum LookupAction {
    /// Open a new UDP socket on a random port, send this datagram to the server, and report each
    /// datagram that arrives by [`handle_datagram`](Lookup::handle_datagram).
    SendDatagram {
        /// The id of the new socket.
        socket: LookupSocket,
        /// The address of the name server.
        server: SocketAddr,
        /// The datagram.
        bytes: Vec<u8>,
    },
    /// Open a TCP connection to the server, send these bytes, and report what arrives by
    /// [`handle_received`](Lookup::handle_received).
    SendStream {
        /// The id of the new socket.
        socket: LookupSocket,
        /// The address of the name server.
        server: SocketAddr,
        /// The bytes to send.
        bytes: Vec<u8>,
    },
    /// Close a socket.
    Close {
        /// The socket to close.
        socket: LookupSocket,
    },
}

/// A lookup of the records of one name: it asks name servers until one of them answers.
///
/// The caller carries out all actions of [`poll_action`](Self::poll_action) after each call, and
/// calls [`handle_timeout`](Self::handle_timeout) at [`deadline`](Self::deadline), until
/// [`take_result`](Self::take_result) returns the result. A random query id, a new socket for each
/// query and the comparison of server, id and question protect against forged replies (RFC 5452).
///
/// ```
/// use onionskin_core::{
///     dns::{DnsQuery, Lookup, LookupAction, RecordKind, ResolverConfig},
///     random::Seed,
///     time::Instant,
/// };
/// use std::{sync::Arc, time::Duration};
///
/// let config = Arc::new(ResolverConfig::parse(b"nameserver 10.0.0.2"));
/// let query = DnsQuery::new("_mongodb._tcp.cluster.example.net", RecordKind::Srv);
/// let random = Seed::new([0; 32]).random();
/// let limit = Some(Duration::from_secs(10));
/// let mut lookup = Lookup::new(Instant::ZERO, query, config, random, limit);
/// let Some(LookupAction::SendDatagram { server, .. }) = lookup.poll_action() else {
///     panic!("the first query is a datagram");
/// };
/// assert_eq!(server, "10.0.0.2:53".parse().unwrap());
/// lookup.handle_timeout(Instant::ZERO + Duration::from_secs(10));
/// assert!(lookup.take_result().expect("the time is over").is_err());
/// ```
#[derive(Clone, Debug)]
pub struct Lookup {
    query: DnsQuery,
    config: Arc<ResolverConfig>,
    random: Random,
    /// The complete names that have not been asked for.
    candidates: VecDeque<String>,
    /// The name that is asked for: a candidate, or the name that it is an alias of.
    name: Name,
    /// The number of aliases that were followed.
    aliases: usize,
    /// The smallest time to live of the aliases that lead from the candidate to `name`.
    alias_ttl: Duration,
    /// The position in the list of name servers of the first server to ask.
    first: usize,
    /// The number of tries for `name`.
    tries: u32,
    sockets: BTreeMap<LookupSocket, Try>,
    last_socket: u32,
    /// The time at which the next server is asked.
    next_try: Option<Instant>,
    /// The end of the whole lookup, with its length.
    limit: Option<(Instant, Duration)>,
    /// The failure to report if no name server answers the query for the present candidate.
    failure: Option<(DnsFailure, String)>,
    /// The failure to report if no candidate has the records: the reply about an earlier candidate.
    denial: Option<(DnsFailure, String)>,
    negative_ttl: Option<Duration>,
    actions: VecDeque<LookupAction>,
    result: Option<Result<DnsAnswer, Error>>,
    is_over: bool,
}

/// A query that was sent to a name server, and its socket.
#[derive(Clone, Debug)]
struct Try {
    server: SocketAddr,
    id: u16,
    has_edns: bool,
    /// The bytes that arrived on a stream; `None` for a datagram socket.
    received: Option<Vec<u8>>,
    /// The number of datagrams that were not the reply.
    ignored: u32,
}

impl Lookup {
    /// Begins a lookup. `limit` is the time limit of the whole lookup; `None` means that each name
    /// server gets its full [`ResolverConfig::try_timeout`].
    ///
    /// Lookups of addresses use the hosts file and the search list of the configuration. An IP
    /// address and `localhost` need no name server (RFC 6761 section 6.3).
    #[must_use]
    pub fn new(
        now: Instant,
        query: DnsQuery,
        config: Arc<ResolverConfig>,
        mut random: Random,
        limit: Option<Duration>,
    ) -> Self {
        let servers = config.name_servers.len();
        let first = match servers {
            2.. if config.rotate => usize::try_from(random.below(servers as u64)).unwrap_or(0),
            _ => 0,
        };
        let mut lookup = Self {
            query,
            config,
            random,
            candidates: VecDeque::new(),
            name: Name::root(),
            aliases: 0,
            alias_ttl: Duration::MAX,
            first,
            tries: 0,
            sockets: BTreeMap::new(),
            last_socket: 0,
            next_try: None,
            limit: limit.map(|limit| (now + limit, limit)),
            failure: None,
            denial: None,
            negative_ttl: None,
            actions: VecDeque::new(),
            result: None,
            is_over: false,
        };
        lookup.begin(now);
        lookup
    }

    /// Returns the query of this lookup.
    #[must_use]
    pub const fn query(&self) -> &DnsQuery {
        &self.query
    }

    /// Returns the next action.
    pub fn poll_action(&mut self) -> Option<LookupAction> {
        self.actions.pop_front()
    }

    /// Returns the time at which [`handle_timeout`](Self::handle_timeout) is to be called; `None`
    /// if the lookup is over.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        if self.is_over {
            return None;
        }
        earliest(self.next_try, self.limit.map(|(end, _)| end))
    }

    /// Takes the result of the lookup. `None` while it is not over, and after the first call that
    /// returned the result.
    pub fn take_result(&mut self) -> Option<Result<DnsAnswer, Error>> {
        self.result.take()
    }

    /// Returns how long a failed result may be remembered: the shortest time that a name server
    /// gave for the absence of the records. Zero for other failures.
    #[must_use]
    pub fn negative_ttl(&self) -> Duration {
        self.negative_ttl.unwrap_or_default()
    }

    /// Handles a datagram that arrived from `source`. A datagram from another address than that of
    /// the asked name server, with another id or about another question is ignored.
    pub fn handle_datagram(
        &mut self,
        now: Instant,
        socket: LookupSocket,
        source: SocketAddr,
        bytes: &[u8],
    ) {
        let Some(tried) = self.sockets.get_mut(&socket) else {
            return;
        };
        let mut reply = Reply::Foreign;
        if tried.received.is_none() && is_same_server(tried.server, source) {
            reply = message::decode(bytes, tried.id, &self.name, self.query.kind);
        }
        if reply != Reply::Foreign {
            self.on_reply(now, socket, reply);
            return;
        }
        tried.ignored += 1;
        if tried.ignored >= MAX_IGNORED_DATAGRAMS {
            let message = format!("sent {MAX_IGNORED_DATAGRAMS} datagrams that are no reply");
            self.on_failure(now, socket, DnsFailure::Malformed, &message);
        }
    }

    /// Handles bytes that arrived on a TCP connection. An empty slice means that the server closed
    /// the connection.
    pub fn handle_received(&mut self, now: Instant, socket: LookupSocket, bytes: &[u8]) {
        let Some(tried) = self.sockets.get_mut(&socket) else {
            return;
        };
        let Some(received) = &mut tried.received else {
            return;
        };
        if bytes.is_empty() {
            let message = "closed the connection before its reply was complete";
            self.on_failure(now, socket, DnsFailure::Unreachable, message);
            return;
        }
        // A message over TCP begins with its length (RFC 1035 section 4.2.2). One reply is enough,
        // so bytes after the first message are dropped.
        let wanted = match received.first_chunk() {
            Some(length) => 2 + usize::from(u16::from_be_bytes(*length)),
            None => usize::from(u16::MAX) + 2,
        };
        let room = wanted - received.len().min(wanted);
        received.extend_from_slice(&bytes[..bytes.len().min(room)]);
        let Some((length, message)) = received.split_first_chunk() else {
            return;
        };
        let length = usize::from(u16::from_be_bytes(*length));
        let Some(message) = message.get(..length) else {
            return;
        };
        let reply = match message::decode(message, tried.id, &self.name, self.query.kind) {
            Reply::Foreign => Reply::Malformed("the reply is to another query".to_owned()),
            Reply::Truncated => Reply::Malformed("a reply over TCP is truncated".to_owned()),
            reply => reply,
        };
        self.on_reply(now, socket, reply);
    }

    /// Handles the failure of a socket, for example because the port of the server is closed.
    pub fn handle_failed(&mut self, now: Instant, socket: LookupSocket, reason: &str) {
        if self.sockets.contains_key(&socket) {
            let message = format!("cannot be asked: {reason}");
            self.on_failure(now, socket, DnsFailure::Unreachable, &message);
        }
    }

    /// Handles the passage of time.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.is_over {
            return;
        }
        if let Some((end, limit)) = self.limit
            && now >= end
        {
            let message = format!(
                "no answer within {} ms from {}",
                limit.as_millis(),
                self.asked_servers()
            );
            self.note(DnsFailure::Unreachable, message);
            self.fail();
        } else if self.next_try.is_some_and(|next| now >= next) {
            // The sockets of earlier tries stay open, because a late reply is as good as any.
            let message = format!("no answer from {}", self.asked_servers());
            self.note(DnsFailure::Unreachable, message);
            self.try_next(now);
        }
    }
}

/// Compares address and port. The scope of an IPv6 address is a matter of this machine.
fn is_same_server(server: SocketAddr, source: SocketAddr) -> bool {
    server.ip() == source.ip() && server.port() == source.port()
}
