//! The name server of the clients, whose records change and whose lookups can fail while a run
//! lasts.
//!
//! It takes the place of the system's resolver: questions and answers are values. A test whose
//! client asks over the network starts its own name servers, which answer with messages
//! ([`SimRuntime::start_name_server`](super::SimRuntime::start_name_server)). Both fail at the
//! rates that are kept here.

use super::{mishap::is_drawn, options::PER_MILLE, plan::Disaster, setup};
use onionskin_core::{
    address::Address,
    dns::{DnsAnswer, DnsData, DnsQuery, RecordKind},
    error::{DnsFailure, Error, ErrorKind},
    random::Random,
    time::Instant,
};
use onionskin_deployment::names::LookupFailure;
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeSet, VecDeque},
    fmt,
    time::Duration,
};

/// The time after which the system gives up the lookup of an address without an answer: two
/// attempts of 5 s.
const UNANSWERED: Duration = Duration::from_secs(10);

/// The time after which the lookup of an address fails if the name server answers.
const ANSWERED: Duration = Duration::from_millis(20);

/// The rates at which lookups of SRV and TXT records and of addresses fail: in how many of 1000
/// lookups each failure happens, if none before it in this list does. Default: 0.
///
/// A [name server in the virtual network](super::SimRuntime::start_name_server) fails at these
/// rates for each query, of which a lookup can need several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct LookupFailures {
    /// There is no answer. The lookup of an address then fails after 10 s, and that of records
    /// after `connectTimeoutMS`.
    pub unanswered: u16,
    /// The name server fails (SERVFAIL).
    pub failed: u16,
    /// The answer is truncated, also over TCP.
    pub truncated: u16,
    /// The answer has no records.
    pub empty: u16,
}

impl LookupFailures {
    /// Returns the reason why no lookup fails or a rate cannot be, if there is one.
    pub(super) fn idle(&self) -> Option<&'static str> {
        if self.rates().iter().any(|(rate, _)| *rate > PER_MILLE) {
            Some("each rate of `fail-names` must be from 0 to 1000")
        } else if *self == Self::default() {
            Some("`fail-names` needs a rate above zero")
        } else {
            None
        }
    }

    fn rates(&self) -> [(u16, LookupFailure); 4] {
        [
            (self.unanswered, LookupFailure::Unanswered),
            (self.failed, LookupFailure::Failed),
            (self.truncated, LookupFailure::Truncated),
            (self.empty, LookupFailure::Empty),
        ]
    }
}

impl fmt::Display for LookupFailures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("of 1000 lookups end")?;
        for (place, (rate, failure)) in self.rates().into_iter().enumerate() {
            let comma = if place == 0 { "" } else { "," };
            write!(f, "{comma} {rate} {failure}")?;
        }
        Ok(())
    }
}

/// Returns the answer to a query for records whose lookup fails; `None` if there will be none.
pub(super) fn failed_answer(failure: LookupFailure) -> Option<Result<DnsAnswer, Error>> {
    let (failure, message) = match failure {
        LookupFailure::Unanswered => return None,
        LookupFailure::Failed => (DnsFailure::Refused, "the name server failed (SERVFAIL)"),
        LookupFailure::Truncated => (DnsFailure::Malformed, "the answer is truncated over TCP"),
        LookupFailure::Empty => (DnsFailure::NoRecords, "there are no records of this type"),
    };
    let message = message.to_owned();
    Some(Err(ErrorKind::DnsResolve { failure, message }.into()))
}

/// Returns the time after which the lookup of an address fails.
pub(super) const fn failed_after(failure: LookupFailure) -> Duration {
    match failure {
        LookupFailure::Unanswered => UNANSWERED,
        LookupFailure::Failed | LookupFailure::Truncated | LookupFailure::Empty => ANSWERED,
    }
}

/// The name server. Its records are the members that are listed. It has no TXT record.
#[derive(Debug)]
pub(super) struct Names {
    listed: Vec<Address>,
    is_silent: bool,
    failures: LookupFailures,
    random: Random,
    changed: Instant,
}

impl Names {
    /// Creates the name server. It lists all members and answers, unless events at the very
    /// beginning of the plan say otherwise, because clients ask before the first event.
    pub(super) fn new(
        members: &[Address],
        plan: &VecDeque<(Instant, Disaster)>,
        random: Random,
    ) -> Self {
        let mut names = Self {
            listed: members.to_vec(),
            is_silent: false,
            failures: LookupFailures::default(),
            random,
            changed: Instant::ZERO,
        };
        for (_, event) in plan.iter().filter(|(at, _)| *at == Instant::ZERO) {
            match event {
                Disaster::ListMembers(places) => names.list(Instant::ZERO, members, places),
                Disaster::SilenceNames => names.be_silent(),
                Disaster::FailNames(failures) => names.fail(*failures),
                Disaster::MendNames => names.mend(Instant::ZERO),
                Disaster::Heal => names.answer_again(Instant::ZERO),
                _ => {}
            }
        }
        names
    }

    /// Lists other members from now on. The name server answers again if it was silent.
    pub(super) fn list(&mut self, now: Instant, members: &[Address], places: &[usize]) {
        let chosen = places.iter().filter_map(|place| members.get(*place));
        self.listed = chosen.cloned().collect();
        self.is_silent = false;
        self.changed = now;
    }

    /// Answers no query until the next list, or until the faults end.
    pub(super) fn be_silent(&mut self) {
        self.is_silent = true;
    }

    pub(super) fn answer_again(&mut self, now: Instant) {
        if std::mem::take(&mut self.is_silent) {
            self.changed = now;
        }
        self.mend(now);
    }

    /// Makes lookups fail at these rates from now on.
    pub(super) const fn fail(&mut self, failures: LookupFailures) {
        self.failures = failures;
    }

    /// Makes no lookup fail from now on.
    pub(super) fn mend(&mut self, now: Instant) {
        if std::mem::take(&mut self.failures) != LookupFailures::default() {
            self.changed = now;
        }
    }

    /// Returns the reason why an event changes nothing at the name server, if there is one.
    pub(super) fn void(&self, members: &[Address], event: &Disaster) -> Option<String> {
        let (is_void, reason) = match event {
            Disaster::ListMembers(places) => {
                let new = places.iter().filter_map(|place| members.get(*place));
                let is_same = !self.is_silent && new.eq(&self.listed);
                (is_same, "the name server lists these members already")
            }
            Disaster::SilenceNames => (self.is_silent, "the name server is silent already"),
            Disaster::FailNames(failures) => {
                let is_same = *failures == self.failures;
                (is_same, "lookups fail at these rates already")
            }
            _ => return None,
        };
        is_void.then(|| reason.to_owned())
    }

    /// Draws whether a lookup fails. Without rates, nothing is drawn.
    pub(super) fn draw_failure(&mut self) -> Option<LookupFailure> {
        let rates = self.failures.rates();
        let mut drawn = rates
            .into_iter()
            .filter(|(rate, _)| is_drawn(&mut self.random, *rate));
        drawn.next().map(|(_, failure)| failure)
    }

    /// Returns the answer to a query; `None` if there will be none.
    pub(super) fn answer(&self, query: &DnsQuery) -> Option<Result<DnsAnswer, Error>> {
        if self.is_silent {
            return None;
        }
        let failed = |failure, message: &str| {
            let message = message.to_owned();
            Some(Err(ErrorKind::DnsResolve { failure, message }.into()))
        };
        if query.name != setup::srv_name() {
            return failed(DnsFailure::NoSuchName, "there is no such name");
        }
        if query.kind != RecordKind::Srv || self.listed.is_empty() {
            return failed(DnsFailure::NoRecords, "there are no records of this type");
        }
        let records = self.listed.iter().map(|address| DnsData::Service {
            host: address.host().to_owned(),
            port: setup::PORT,
        });
        Some(Ok(DnsAnswer {
            records: records.collect(),
            ttl: None,
        }))
    }

    /// Returns the members that a client behind routers must know at this time; `None` if the
    /// records changed within the last `patience`, or list nobody.
    pub(super) fn known(&self, at: Instant, patience: Duration) -> Option<BTreeSet<Address>> {
        let fails = self.failures != LookupFailures::default();
        let is_news = self.is_silent || fails || self.changed + patience > at;
        let known = self.listed.iter().cloned().collect::<BTreeSet<_>>();
        (!is_news && !known.is_empty()).then_some(known)
    }
}

/// Returns the error of a query that nobody answered within its time limit.
pub(super) fn unanswered() -> Error {
    let message = "the name server did not answer".to_owned();
    let failure = DnsFailure::Unreachable;
    ErrorKind::DnsResolve { failure, message }.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::{
        Rates, Scenario, Scheduled, Span, Way, WorldProxy, WorldShape, options::world_seed,
        run_seed,
    };

    /// Returns a name server with events, each at a second.
    fn names_of(members: &[Address], events: &[(u64, Disaster)]) -> Names {
        let timed = |(second, event): &(u64, Disaster)| {
            let at = Instant::ZERO + Duration::from_secs(*second);
            (at, event.clone())
        };
        let plan = events.iter().map(timed).collect();
        Names::new(members, &plan, world_seed(1).random())
    }

    fn ask(names: &Names, kind: RecordKind) -> Option<Result<usize, Error>> {
        let answer = names.answer(&DnsQuery::new(&setup::srv_name(), kind))?;
        Some(answer.map(|answer| answer.records.len()))
    }

    #[test]
    fn the_records_are_those_of_the_last_list() {
        let members: Vec<Address> = ["a", "b"].map(|host| Address::tcp(host, 1)).to_vec();
        let mut names = names_of(&members, &[]);
        assert_eq!(ask(&names, RecordKind::Srv), Some(Ok(2)));
        assert!(matches!(ask(&names, RecordKind::Txt), Some(Err(_))));
        names.be_silent();
        assert_eq!(ask(&names, RecordKind::Srv), None);
        let changed = Instant::ZERO + Duration::from_secs(5);
        names.list(changed, &members, &[0]);
        assert_eq!(ask(&names, RecordKind::Srv), Some(Ok(1)));
        let patience = Duration::from_secs(80);
        names.answer_again(changed + patience);
        assert_eq!(
            names.known(changed + Duration::from_secs(79), patience),
            None
        );
        let known = names
            .known(changed + patience, patience)
            .expect("it changed before");
        assert_eq!(known, members[..1].iter().cloned().collect());
        names.list(changed, &members, &[]);
        assert!(matches!(ask(&names, RecordKind::Srv), Some(Err(_))));
        assert_eq!(names.known(changed + patience, patience), None);
        for (second, listed) in [(0, 1), (1, 2)] {
            let names = names_of(&members, &[(second, Disaster::ListMembers(vec![1]))]);
            assert_eq!(ask(&names, RecordKind::Srv), Some(Ok(listed)));
        }
    }

    #[test]
    fn lookups_fail_at_their_rates_until_they_are_mended() {
        let mut names = names_of(&[], &[]);
        assert_eq!(names.draw_failure(), None);
        names.fail(LookupFailures {
            unanswered: 200,
            failed: 200,
            truncated: 200,
            empty: 200,
        });
        let lookups = 0..2_000;
        let drawn: Vec<LookupFailure> = lookups.filter_map(|_| names.draw_failure()).collect();
        for failure in LookupFailures::default()
            .rates()
            .map(|(_, failure)| failure)
        {
            let count = drawn.iter().filter(|other| **other == failure).count();
            assert!((100..500).contains(&count), "{failure}: {count}");
        }
        names.mend(Instant::ZERO);
        assert_eq!(names.draw_failure(), None);
    }

    #[test]
    fn lookups_that_are_mended_at_the_beginning_do_not_fail() {
        let failures = LookupFailures {
            failed: PER_MILLE,
            ..LookupFailures::default()
        };
        let events = [(0, Disaster::FailNames(failures)), (0, Disaster::MendNames)];
        let mut names = names_of(&[], &events[..1]);
        assert_eq!(names.draw_failure(), Some(LookupFailure::Failed));
        let mut names = names_of(&[], &events);
        assert_eq!(names.draw_failure(), None);
    }

    #[test]
    fn clients_meet_failing_lookups_of_records_and_of_addresses() {
        let at = |seconds, event| Scheduled {
            at: Span(Duration::from_secs(seconds)),
            event,
        };
        let failures = LookupFailures {
            unanswered: 150,
            failed: 150,
            truncated: 150,
            empty: 150,
        };
        let scenario = Scenario {
            shape: Some(WorldShape::Sharded),
            members: Some(3),
            clients: Some(3),
            srv: Some(true),
            safety: Some(Span(Duration::from_secs(30))),
            proxy: Some(WorldProxy::None),
            rates: Some(Rates::default()),
            schedule: Some(vec![
                at(0, Disaster::FailNames(failures)),
                at(5, Disaster::Disconnect(0)),
                at(20, Disaster::MendNames),
            ]),
            ..Scenario::default()
        };
        assert_eq!(scenario.fault(), None);
        for way in [Way::Core, Way::Runtime] {
            let mut seen = BTreeSet::new();
            for seed in 0..3 {
                let mut options = scenario.options(seed);
                options.keep_trace = true;
                let report = run_seed(seed, way, options);
                assert!(report.failure.is_none(), "{report}");
                let lines = report.trace.lines().filter(|line| line.contains(" ends "));
                let of = |name: &'static str| move |line: &str| line.contains(name).then_some(name);
                let srv = lines.clone().filter_map(of("lookup of _mongodb._tcp"));
                let hosts = lines.filter_map(of("lookup of member"));
                seen.extend(srv.chain(hosts));
            }
            assert_eq!(seen.len(), 2, "{way}: {seen:?}");
        }
    }
}
