//! The name server of the clients' seed list, whose records change while a run lasts.

use super::{plan::Disaster, scenario::Scheduled, setup};
use onionskin_core::{
    address::Address,
    dns::{DnsAnswer, DnsData, DnsQuery, RecordKind},
    error::{DnsFailure, Error, ErrorKind},
    time::Instant,
};
use std::{collections::BTreeSet, time::Duration};

/// The longest time from a change of the records until a client without faults knows the servers:
/// the time between two lookups, which is 60 s, and the longest drawn time after a failed one.
const NEWS: Duration = Duration::from_secs(80);

/// The name server. Its records are the members that are listed. It has no TXT record.
#[derive(Debug)]
pub(super) struct Names {
    listed: Vec<Address>,
    is_silent: bool,
    changed: Instant,
}

impl Names {
    /// Creates the name server. It lists all members, or those of a list at the very beginning of
    /// the schedule, because clients ask before the first event.
    pub(super) fn new(members: &[Address], schedule: Option<&Vec<Scheduled>>) -> Self {
        let mut first = schedule.into_iter().flatten().filter(|s| s.at.0.is_zero());
        let listed = first.find_map(|scheduled| match &scheduled.event {
            Disaster::ListMembers(places) => Some(chosen(members, places)),
            _ => None,
        });
        Self {
            listed: listed.unwrap_or_else(|| members.to_vec()),
            is_silent: false,
            changed: Instant::ZERO,
        }
    }

    /// Lists other members from now on. The name server answers again if it was silent.
    pub(super) fn list(&mut self, now: Instant, members: &[Address], places: &[usize]) {
        self.listed = chosen(members, places);
        self.answer_again(now);
    }

    /// Answers no query until the next list, or until the faults end.
    pub(super) fn be_silent(&mut self) {
        self.is_silent = true;
    }

    pub(super) fn answer_again(&mut self, now: Instant) {
        self.is_silent = false;
        self.changed = now;
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
    /// records changed too late, or list nobody.
    pub(super) fn known(&self, at: Instant) -> Option<BTreeSet<Address>> {
        let is_news = self.is_silent || self.changed + NEWS > at;
        let known = self.listed.iter().cloned().collect::<BTreeSet<_>>();
        (!is_news && !known.is_empty()).then_some(known)
    }
}

fn chosen(members: &[Address], places: &[usize]) -> Vec<Address> {
    let chosen = places.iter().filter_map(|place| members.get(*place));
    chosen.cloned().collect()
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
    use crate::world::scenario::Span;

    fn ask(names: &Names, kind: RecordKind) -> Option<Result<usize, Error>> {
        let answer = names.answer(&DnsQuery::new(&setup::srv_name(), kind))?;
        Some(answer.map(|answer| answer.records.len()))
    }

    #[test]
    fn the_records_are_those_of_the_last_list() {
        let members: Vec<Address> = ["a", "b"].map(|host| Address::tcp(host, 1)).to_vec();
        let mut names = Names::new(&members, None);
        assert_eq!(ask(&names, RecordKind::Srv), Some(Ok(2)));
        assert!(matches!(ask(&names, RecordKind::Txt), Some(Err(_))));
        names.be_silent();
        assert_eq!(ask(&names, RecordKind::Srv), None);
        let changed = Instant::ZERO + Duration::from_secs(5);
        names.list(changed, &members, &[0]);
        assert_eq!(ask(&names, RecordKind::Srv), Some(Ok(1)));
        assert_eq!(names.known(changed + Duration::from_secs(79)), None);
        let known = names.known(changed + NEWS).expect("it changed before");
        assert_eq!(known, members[..1].iter().cloned().collect());
        names.list(changed, &members, &[]);
        assert!(matches!(ask(&names, RecordKind::Srv), Some(Err(_))));
        assert_eq!(names.known(changed + NEWS), None);
        let first = |at| Scheduled {
            at: Span(Duration::from_secs(at)),
            event: Disaster::ListMembers(vec![1]),
        };
        for (at, listed) in [(0, 1), (1, 2)] {
            let names = Names::new(&members, Some(&vec![first(at)]));
            assert_eq!(ask(&names, RecordKind::Srv), Some(Ok(listed)));
        }
    }
}
