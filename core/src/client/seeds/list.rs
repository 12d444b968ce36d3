//! The seed list part: the lookups of a `mongodb+srv` connection string.
//!
//! Such a client knows no server until its SRV and TXT records are looked up. The part asks for
//! both at once, and gives the options of the resolved client. A failed lookup fails the operations
//! that wait, and the next operation begins another lookup (DNS-12, DNS-18). Afterwards the part
//! polls the SRV records (SRV-1), and no option switches that off (SRV-2). Each rescan is due after
//! the time to live of the records, and at least [`MIN_RESCAN_INTERVAL`] after the last one.

use crate::{
    address::Address,
    client::QuestionId,
    dns::{DnsAnswer, DnsData, DnsQuery, RecordKind},
    error::{DnsFailure, Error, ErrorKind},
    options::ClientOptions,
    random::Random,
    time::Instant,
    uri::{self, Warning},
};
use std::{collections::BTreeSet, time::Duration};

/// The shortest time between two lookups of the SRV records of a client: 60 seconds ([SRV-23]).
///
/// [SRV-23]: crate::requirements::srv_polling#SRV-23
pub const MIN_RESCAN_INTERVAL: Duration = Duration::from_secs(60);

/// The longest time between two lookups of the SRV records: one day, whatever their time to live,
/// so that a wrong time to live does not end the rescans for good.
const MAX_RESCAN_INTERVAL: Duration = Duration::from_secs(24 * 60 * 60);

/// The time for which a scan waits for the rescan that precedes it: 500 ms. The lookup of a rescan
/// that takes longer continues during the scan.
pub(in crate::client) const RESCAN_PATIENCE: Duration = Duration::from_millis(500);

/// The time limit of a lookup if `connectTimeoutMS` is 0: 30 seconds.
const LOOKUP_LIMIT: Duration = Duration::from_secs(30);

/// The lookups of a client, and the random choice of hosts.
#[derive(Debug)]
pub(in crate::client) struct SeedList {
    /// The options of the connection string; `None` without `mongodb+srv`.
    options: Option<Box<ClientOptions>>,
    random: Random,
    /// The number of servers that a topology has at most.
    most_servers: usize,
    state: State,
}

#[derive(Debug)]
enum State {
    /// The servers are known, and SRV records are not polled.
    Fixed,
    /// No server is known, and no lookup is under way.
    Unresolved,
    /// The first lookup is under way.
    Resolving { srv: Lookup, txt: Lookup },
    /// The SRV records are looked up again at `due`. `asked` is the question of a lookup that is
    /// under way, with the time until which a scan waits for its answer.
    Polling {
        due: Instant,
        asked: Option<(QuestionId, Instant)>,
    },
}

#[derive(Debug)]
enum Lookup {
    Asked(QuestionId),
    Answered(Result<DnsAnswer, Error>),
}

/// The consequence of an answer.
#[derive(Debug)]
pub(in crate::client) enum Found {
    /// The first lookup succeeded: the options of the resolved client, and warnings about its TXT
    /// record.
    Seeds(Box<ClientOptions>, Vec<Warning>),
    /// The first lookup failed.
    NoSeeds(Error),
    /// A rescan succeeded: the hosts of the topology from now on, and hosts that were left out
    /// because they lie outside of the domain of the options.
    Hosts(Vec<Address>, Vec<Address>),
    /// A rescan failed.
    NoHosts(Error),
}

impl SeedList {
    pub(in crate::client) fn new(
        options: &ClientOptions,
        random: Random,
        most_servers: usize,
    ) -> Self {
        let source = options.srv_host.as_ref().map(|_| Box::new(options.clone()));
        let state = match source {
            None => State::Fixed,
            Some(_) if options.hosts().is_empty() => State::Unresolved,
            Some(_) if options.load_balanced() => State::Fixed,
            Some(_) => State::Polling {
                due: Instant::ZERO,
                asked: None,
            },
        };
        Self {
            options: source,
            random,
            most_servers,
            state,
        }
    }

    /// Replaces the source of random choices, in a forked child process.
    pub(in crate::client) fn reseed(&mut self, random: Random) {
        self.random = random;
    }

    /// Begins the time until the first rescan of a client whose seeds are known already.
    pub(in crate::client) fn open(&mut self, now: Instant) {
        let ttl = self.options.as_ref().and_then(|known| known.srv_ttl);
        if let State::Polling { due, .. } = &mut self.state {
            *due = now + rescan_interval(ttl);
        }
    }

    /// True while no server is known.
    #[inline]
    pub(in crate::client) fn is_unresolved(&self) -> bool {
        matches!(self.state, State::Unresolved | State::Resolving { .. })
    }

    /// True if a first lookup can begin.
    pub(in crate::client) fn is_idle(&self) -> bool {
        matches!(self.state, State::Unresolved)
    }

    /// Returns the host of the connection string; an empty text without `mongodb+srv`.
    pub(in crate::client) fn host(&self) -> &str {
        let options = self.options.as_ref();
        options
            .and_then(|known| known.srv_host.as_deref())
            .unwrap_or("")
    }

    /// Returns the time limit of a lookup: `connectTimeoutMS`.
    pub(in crate::client) fn limit(&self) -> Duration {
        let options = self.options.as_ref();
        let limit = options.and_then(|known| known.connect_timeout());
        limit.unwrap_or(LOOKUP_LIMIT)
    }

    /// Returns the queries for the SRV and the TXT records (DNS-15, DNS-26).
    pub(in crate::client) fn queries(&self) -> (DnsQuery, DnsQuery) {
        let host = self.host();
        let options = self.options.as_ref();
        let service = options.map_or("", |known| known.srv_service_name());
        (
            DnsQuery::new(&format!("_{service}._tcp.{host}"), RecordKind::Srv),
            DnsQuery::new(host, RecordKind::Txt),
        )
    }

    /// Notes the questions of the first lookup.
    pub(in crate::client) fn asked(&mut self, srv: QuestionId, txt: QuestionId) {
        self.state = State::Resolving {
            srv: Lookup::Asked(srv),
            txt: Lookup::Asked(txt),
        };
    }

    /// Returns the time at which the next rescan is due; `None` if a rescan is under way, or if
    /// there are no rescans.
    pub(in crate::client) fn due(&self) -> Option<Instant> {
        match self.state {
            State::Polling { due, asked: None } => Some(due),
            _ => None,
        }
    }

    /// Returns the time until which a scan waits for the rescan that is under way.
    pub(in crate::client) fn scan_waits_until(&self) -> Option<Instant> {
        match self.state {
            State::Polling { asked, .. } => asked.map(|(_, until)| until),
            _ => None,
        }
    }

    /// Makes a scan wait for the rescan under way no longer than until this time. Returns true if
    /// it would have waited longer.
    pub(in crate::client) fn shorten_scan_wait(&mut self, end: Instant) -> bool {
        match &mut self.state {
            State::Polling {
                asked: Some((_, until)),
                ..
            } if end < *until => {
                *until = end;
                true
            }
            _ => false,
        }
    }

    /// Notes the question of a rescan, and the time until which a scan waits for its answer.
    pub(in crate::client) fn rescans(&mut self, question: QuestionId, scan_waits_until: Instant) {
        if let State::Polling { asked, .. } = &mut self.state {
            *asked = Some((question, scan_waits_until));
        }
    }

    /// Ends the rescans, because the topology has a type without rescans (SRV-4, SRV-5).
    pub(in crate::client) fn end_rescans(&mut self) {
        if let State::Polling { .. } = self.state {
            self.state = State::Fixed;
        }
    }

    /// Forgets the questions that are under way, because their answers will not come.
    pub(in crate::client) fn forget_questions(&mut self) {
        match &mut self.state {
            State::Resolving { .. } => self.state = State::Unresolved,
            State::Polling { asked, .. } => *asked = None,
            State::Fixed | State::Unresolved => {}
        }
    }

    /// Handles the answer to a question. Returns `None` for a question of another part, and while
    /// the answer to the other question of the first lookup is missing.
    pub(in crate::client) fn handle_answer(
        &mut self,
        now: Instant,
        id: QuestionId,
        result: Result<DnsAnswer, Error>,
    ) -> Option<Found> {
        match &mut self.state {
            State::Resolving { srv, txt } => {
                let is_asked =
                    |lookup: &Lookup| matches!(lookup, Lookup::Asked(asked) if *asked == id);
                let lookup = match is_asked(srv) {
                    true => &mut *srv,
                    false if is_asked(txt) => &mut *txt,
                    false => return None,
                };
                *lookup = Lookup::Answered(result);
                // A failure of the SRV lookup decides, without the answer to the other question.
                if let Lookup::Answered(Err(error)) = srv {
                    let error = error.clone();
                    self.state = State::Unresolved;
                    return Some(Found::NoSeeds(error));
                }
                let (Lookup::Answered(srv), Lookup::Answered(txt)) = (srv, txt) else {
                    return None;
                };
                let (srv, txt) = (srv.clone(), txt.clone());
                self.state = State::Unresolved;
                Some(self.on_first_lookup(now, srv, txt))
            }
            State::Polling { asked, .. } if asked.is_some_and(|(asked, _)| asked == id) => {
                *asked = None;
                Some(self.on_rescan(now, result))
            }
            State::Fixed | State::Unresolved | State::Polling { .. } => None,
        }
    }

    fn on_first_lookup(
        &mut self,
        now: Instant,
        srv: Result<DnsAnswer, Error>,
        txt: Result<DnsAnswer, Error>,
    ) -> Found {
        let ttl = srv.as_ref().ok().and_then(|answer| answer.ttl);
        match self.resolve(srv, txt) {
            Ok((mut options, warnings)) => {
                options.srv_ttl = ttl;
                // With a load balancer there are no rescans (SRV-6, DNS-41).
                self.state = match options.load_balanced() {
                    true => State::Fixed,
                    false => State::Polling {
                        due: now + rescan_interval(ttl),
                        asked: None,
                    },
                };
                Found::Seeds(Box::new(options), warnings)
            }
            Err(error) => Found::NoSeeds(error),
        }
    }

    fn resolve(
        &mut self,
        srv: Result<DnsAnswer, Error>,
        txt: Result<DnsAnswer, Error>,
    ) -> Result<(ClientOptions, Vec<Warning>), Error> {
        let hosts = hosts_of(&srv?);
        // The absence of a TXT record is no error (DNS-27).
        let texts = match txt {
            Ok(answer) => texts_of(answer),
            Err(error) if is_absence(&error) => Vec::new(),
            Err(error) => return Err(error),
        };
        let Some(options) = self.options.as_deref() else {
            return Err(Error::argument("the connection string has no seed list"));
        };
        // The host of each record is checked, also of those that are not chosen (DNS-21).
        uri::check_srv_hosts(options, &hosts)?;
        let options = options.clone();
        let most = options.srv_max_hosts() as usize;
        let chosen = self.choose(hosts, &BTreeSet::new(), most);
        uri::resolve(&options, chosen, &texts)
    }

    fn on_rescan(&mut self, now: Instant, result: Result<DnsAnswer, Error>) -> Found {
        let Some(options) = self.options.as_deref() else {
            return Found::NoHosts(Error::argument("the connection string has no seed list"));
        };
        let frequency = options.heartbeat_freq();
        let host = options.srv_host.as_deref().unwrap_or_default();
        let (verified, ignored, ttl): (Vec<_>, Vec<_>, _) = match &result {
            Ok(answer) => {
                // The first lookup refuses the port 0 with the other rules of addresses.
                let is_verified = |address: &Address| {
                    address.port() != Some(0) && uri::may_be_srv_host(options, address)
                };
                let (verified, ignored) = hosts_of(answer).into_iter().partition(is_verified);
                (verified, ignored, answer.ttl)
            }
            Err(_) => (Vec::new(), Vec::new(), None),
        };
        let is_success = !verified.is_empty();
        let interval = match is_success {
            true => rescan_interval(ttl),
            // After a failure the interval is `heartbeatFrequencyMS` (SRV-16).
            false => frequency,
        };
        if let State::Polling { due, .. } = &mut self.state {
            *due = now + interval;
        }
        match result {
            Err(error) => Found::NoHosts(error),
            Ok(_) if is_success => Found::Hosts(verified, ignored),
            Ok(_) => {
                let first = ignored
                    .first()
                    .map(|host| format!(", but for example {host}"));
                let message = format!(
                    "no SRV record of {host} names a host in the domain {}{}; the servers stay as \
                     they are",
                    uri::domain_of_srv_hosts(options),
                    first.unwrap_or_default()
                );
                let failure = DnsFailure::Malformed;
                Found::NoHosts(Error::new(ErrorKind::DnsResolve { failure, message }))
            }
        }
    }

    /// Returns the hosts of the topology after a rescan: the hosts that the topology has already,
    /// and new ones, as far as `srvMaxHosts` permits (SRV-19, SRV-20).
    pub(in crate::client) fn choose_hosts(
        &mut self,
        hosts: Vec<Address>,
        current: &BTreeSet<Address>,
    ) -> Vec<Address> {
        let most = self
            .options
            .as_ref()
            .map_or(0, |known| known.srv_max_hosts());
        self.choose(hosts, current, most as usize)
    }

    fn choose(
        &mut self,
        hosts: Vec<Address>,
        current: &BTreeSet<Address>,
        most: usize,
    ) -> Vec<Address> {
        let most = match most {
            0 => self.most_servers,
            most => most.min(self.most_servers),
        };
        if hosts.len() <= most {
            return hosts;
        }
        let is_known = |host: &Address| current.contains(host);
        let (mut kept, mut new): (Vec<_>, Vec<_>) = hosts.into_iter().partition(is_known);
        // A Fisher-Yates shuffle, as far as hosts are needed (DNS-25, SRV-21).
        let wanted = most.saturating_sub(kept.len()).min(new.len());
        for place in 0..wanted {
            let left = (new.len() - place) as u64;
            let other = place + usize::try_from(self.random.below(left)).unwrap_or(0);
            new.swap(place, other);
        }
        new.truncate(wanted);
        kept.truncate(most);
        kept.append(&mut new);
        kept
    }
}

/// Returns the time until the next rescan: the time to live of the records, but at least 60 seconds
/// (SRV-23) and at most one day, and 60 seconds if the time to live is unknown (SRV-24).
fn rescan_interval(ttl: Option<Duration>) -> Duration {
    let ttl = ttl.unwrap_or_default();
    ttl.clamp(MIN_RESCAN_INTERVAL, MAX_RESCAN_INTERVAL)
}

/// True if a lookup failed because there are no such records.
fn is_absence(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::DnsResolve {
            failure: DnsFailure::NoSuchName | DnsFailure::NoRecords,
            ..
        }
    )
}

/// Returns the hosts of SRV records without duplicates, in their order.
fn hosts_of(answer: &DnsAnswer) -> Vec<Address> {
    let mut seen = BTreeSet::new();
    let services = answer.records.iter().filter_map(|record| match record {
        // A resolver of the application can leave the dot of the root at the end of a name.
        DnsData::Service { host, port } => {
            let name = host.strip_suffix('.').filter(|name| !name.is_empty());
            Some(Address::tcp(name.unwrap_or(host), *port))
        }
        DnsData::Address(_) | DnsData::Text(_) => None,
    });
    services.filter(|host| seen.insert(host.clone())).collect()
}

fn texts_of(answer: DnsAnswer) -> Vec<String> {
    let texts = answer
        .records
        .into_iter()
        .filter_map(|record| match record {
            DnsData::Text(text) => Some(text),
            DnsData::Address(_) | DnsData::Service { .. } => None,
        });
    texts.collect()
}
