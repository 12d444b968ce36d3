//! The name server of the clients' seed list, whose records change while a run lasts.

use super::{plan::Disaster, scenario::Scheduled, setup};
use onionskin_core::{
    address::Address,
    dns::{DnsAnswer, DnsData, DnsQuery, RecordKind},
    error::{DnsFailure, Error, ErrorKind},
    time::Instant,
};
use std::{collections::BTreeSet, time::Duration};

/// The name server. Its records are the members that are listed. It has no TXT record.
#[derive(Debug)]
pub(super) struct Names {
    listed: Vec<Address>,
    is_silent: bool,
    changed: Instant,
}

impl Names {
    /// Creates the name server. It lists all members and answers, unless events at the very
    /// beginning of the schedule say otherwise, because clients ask before the first event.
    pub(super) fn new(members: &[Address], schedule: Option<&Vec<Scheduled>>) -> Self {
        let mut names = Self {
            listed: members.to_vec(),
            is_silent: false,
            changed: Instant::ZERO,
        };
        for scheduled in schedule.into_iter().flatten().filter(|s| s.at.0.is_zero()) {
            match &scheduled.event {
                Disaster::ListMembers(places) => names.list(Instant::ZERO, members, places),
                Disaster::SilenceNames => names.be_silent(),
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
        let is_news = self.is_silent || self.changed + patience > at;
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
