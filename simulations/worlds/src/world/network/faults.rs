//! The faults of connections, and the effects of disasters.

use super::{
    Incoming, LinkId, Network, Parcel, Towards,
    link::{Direction, Link},
};
use crate::world::{
    mishap::{self, Mishap, Mishaps},
    names::{failed_after, failed_answer},
    options::Rates,
    picture::MarkKind,
    plan::Disaster,
    trace::Trace,
};
use onionskin_core::{
    dns::{DnsAnswer, DnsQuery},
    error::Error,
    time::Instant,
};
use onionskin_deployment::names::LookupFailure;
use std::{fmt, time::Duration};

impl Network {
    /// Sends bytes, with the faults that are drawn for them.
    pub(super) fn transfer(
        &mut self,
        now: Instant,
        id: LinkId,
        towards: Towards,
        bytes: &[u8],
        trace: &mut Trace,
    ) {
        let is_reply = towards == Towards::Client;
        let Mishaps { stall, fault } = self.rates.draw(&mut self.random, bytes.len(), is_reply);
        if let Some(pause) = stall {
            self.note_fault(now, id, trace, format_args!("stalls for {pause:?}"));
            if let Some(link) = self.links.get_mut(&id) {
                let direction = link.direction(towards);
                direction.stall(now, self.next_parcel, now + pause);
            }
        }
        match fault {
            None => self.post_pieces(now, id, towards, bytes),
            Some(Mishap::HalfOpen) => {
                self.note_fault(now, id, trace, format_args!("is half open"));
                if let Some(link) = self.links.get_mut(&id) {
                    link.up.is_dead = true;
                    link.down.is_dead = true;
                }
            }
            Some(Mishap::Reset { arrives }) => {
                if arrives {
                    self.post_pieces(now, id, towards, bytes);
                }
                self.break_off(now, id, trace);
            }
            Some(Mishap::Truncate(length)) => {
                self.note_fault(now, id, trace, format_args!("loses the end of a reply"));
                self.post_pieces(now, id, towards, &bytes[..length]);
                self.break_off(now, id, trace);
            }
            Some(Mishap::Corrupt(bit)) => {
                let mut bytes = bytes.to_vec();
                mishap::flip(&mut bytes, bit);
                self.note_fault(now, id, trace, format_args!("flips bit {bit}"));
                self.post_pieces(now, id, towards, &bytes);
            }
            Some(Mishap::Duplicate) => {
                self.note_fault(now, id, trace, format_args!("repeats a reply"));
                self.post_pieces(now, id, towards, bytes);
                self.post_pieces(now, id, towards, bytes);
            }
            Some(Mishap::Slow) => self.trickle(now, id, towards, bytes),
        }
    }

    fn post_pieces(&mut self, now: Instant, id: LinkId, towards: Towards, bytes: &[u8]) {
        if towards == Towards::Client && self.drip(now, id, bytes) {
            return;
        }
        if !bytes.is_empty() {
            self.post(now, id, towards, parcel(towards, bytes));
        }
    }

    /// Sends bytes in small pieces with pauses between them.
    fn trickle(&mut self, now: Instant, id: LinkId, towards: Towards, bytes: &[u8]) {
        let begin = now + self.draw_latency();
        for (after, piece) in mishap::pieces(&mut self.random, bytes) {
            self.post_at(begin + after, id, towards, parcel(towards, piece));
        }
    }

    pub(super) fn note_fault(
        &self,
        now: Instant,
        id: LinkId,
        trace: &mut Trace,
        what: fmt::Arguments<'_>,
    ) {
        let ends = match self.links.get(&id) {
            // A link to a proxy has no member yet.
            Some(link) if link.member < self.listening.len() => {
                format!(" of client {} to member {}", link.client, link.member)
            }
            Some(link) => format!(" of client {}", link.client),
            None => String::new(),
        };
        trace.mark(
            now,
            MarkKind::Fault,
            format_args!("link {}{ends} {what}", id.0),
        );
    }

    /// Breaks a connection after these bytes of its client.
    pub fn sever(&mut self, now: Instant, id: LinkId, bytes: &[u8], trace: &mut Trace) {
        self.post_pieces(now, id, Towards::Member, bytes);
        self.break_off(now, id, trace);
    }

    /// Sends a reset to the client, and the end of the connection to the member.
    fn break_off(&mut self, now: Instant, id: LinkId, trace: &mut Trace) {
        self.note_fault(now, id, trace, format_args!("breaks"));
        self.post(now, id, Towards::Client, Parcel::Answer(Incoming::Reset));
        self.post(now, id, Towards::Member, Parcel::Hangup);
    }

    /// Makes a disaster happen. [`Disaster::Freeze`] and [`Disaster::CloseClient`] have no effect
    /// on the network.
    pub fn strike(&mut self, now: Instant, disaster: &Disaster, trace: &mut Trace) {
        trace.mark(now, MarkKind::Disaster, format_args!("{disaster}"));
        let void = self.void(now, disaster);
        let struck = disaster.strike(now, &mut self.deployment);
        let void = void.or_else(|| struck.err());
        self.count_event(now, disaster, void, trace);
        match *disaster {
            Disaster::CutClient {
                client,
                member,
                up,
                down,
            } => {
                if up {
                    self.cut(client, member, Towards::Member);
                }
                if down {
                    self.cut(client, member, Towards::Client);
                }
            }
            Disaster::JoinClients => self.join(now, trace),
            Disaster::DisconnectClient { client, member } => {
                self.disconnect(now, client, member, trace);
            }
            Disaster::ListMembers(ref places) => self.names.list(now, &self.addresses, places),
            Disaster::SilenceNames => self.names.be_silent(),
            Disaster::SlowMember(ref slow) => self.slow_down(now, slow, trace),
            Disaster::EndSlowness => self.end_slowness(now, trace),
            Disaster::FailNames(failures) => self.names.fail(failures),
            Disaster::MendNames => self.names.mend(now),
            Disaster::Heal => {
                self.rates = Rates::default();
                self.panics.end();
                self.end_slowness(now, trace);
                self.names.answer_again(now);
                self.join(now, trace);
            }
            _ => {}
        }
        self.pump(now, trace);
    }

    /// Returns the answer of the name server to a query; `None` if there will be none.
    pub(in crate::world) fn look_up(
        &mut self,
        now: Instant,
        query: &DnsQuery,
        trace: &mut Trace,
    ) -> Option<Result<DnsAnswer, Error>> {
        match self.fail_lookup(now, &query.name, trace) {
            Some(failure) => failed_answer(failure),
            None => self.names.answer(query),
        }
    }

    /// Returns the time after which the lookup of a host's address fails; `None` if it succeeds.
    pub(in crate::world) fn fail_host(
        &mut self,
        now: Instant,
        host: &str,
        trace: &mut Trace,
    ) -> Option<Duration> {
        self.fail_lookup(now, host, trace).map(failed_after)
    }

    /// Draws whether a lookup fails.
    pub(in crate::world) fn fail_lookup(
        &mut self,
        now: Instant,
        name: &str,
        trace: &mut Trace,
    ) -> Option<LookupFailure> {
        let failure = self.names.draw_failure()?;
        trace.mark(
            now,
            MarkKind::Fault,
            format_args!("the lookup of {name} ends {failure}"),
        );
        Some(failure)
    }

    /// Cuts a direction. Parcels in transit in that direction are lost.
    fn cut(&mut self, client: usize, member: usize, towards: Towards) {
        self.cuts.insert((client, member, towards));
        let links = &mut self.links;
        self.under_way.retain(|_, (id, parcel)| {
            let is_there = match parcel {
                Parcel::Answer(_) => towards == Towards::Client,
                Parcel::Read => false,
                _ => towards == Towards::Member,
            };
            match links.get_mut(id) {
                Some(link) if is_there && (link.client, link.member) == (client, member) => {
                    link.direction(towards).is_dead = true;
                    link.sent -= parcel.request_len();
                    false
                }
                _ => true,
            }
        });
    }

    /// Breaks the connections of a client to a member. Those of which neither end hears anything
    /// stay as they are.
    fn disconnect(&mut self, now: Instant, client: usize, member: usize, trace: &mut Trace) {
        let links = self.links.iter().filter(|(_, link)| {
            let leads = (link.client, link.member) == (client, member);
            link.has_server && leads && self.is_heard(link)
        });
        let ids: Vec<LinkId> = links.map(|(id, _)| *id).collect();
        for id in ids {
            self.drop_pieces(now, id);
            self.break_off(now, id, trace);
        }
    }

    /// True if bytes of a connection arrive in some direction.
    pub(super) fn is_heard(&self, link: &Link) -> bool {
        let is_cut = |towards: Towards| self.cuts.contains(&(link.client, link.member, towards));
        let is_lost =
            |towards: Towards, direction: &Direction| direction.is_dead || is_cut(towards);
        !is_lost(Towards::Member, &link.up) || !is_lost(Towards::Client, &link.down)
    }

    /// Removes all cuts, and breaks the connections that lost parcels.
    fn join(&mut self, now: Instant, trace: &mut Trace) {
        self.cuts.clear();
        let dead: Vec<LinkId> = self
            .links
            .iter()
            .filter(|(_, link)| link.up.is_dead || link.down.is_dead)
            .map(|(id, _)| *id)
            .collect();
        for id in dead {
            if let Some(link) = self.links.get_mut(&id) {
                link.up.is_dead = false;
                link.down.is_dead = false;
            }
            self.break_off(now, id, trace);
        }
    }
}

fn parcel(towards: Towards, bytes: &[u8]) -> Parcel {
    let bytes = bytes.to_vec();
    match towards {
        Towards::Member => Parcel::Request(bytes),
        Towards::Client => Parcel::Answer(Incoming::Bytes(bytes)),
    }
}

#[cfg(test)]
mod tests {
    use crate::world::{
        Disaster, Rates, Scenario, Scheduled, Span, Way, WorldProxy, WorldShape, run_seed,
    };
    use std::time::Duration;

    #[test]
    fn a_reply_that_comes_twice_reaches_no_other_operation() {
        let scenario = Scenario {
            shape: Some(WorldShape::ReplicaSet),
            members: Some(3),
            clients: Some(2),
            tasks: Some(4),
            safety: Some(Span(Duration::from_secs(15))),
            rates: Some(Rates {
                duplicate: 100,
                ..Rates::default()
            }),
            schedule: Some(Vec::new()),
            ..Scenario::default()
        };
        for way in [Way::Core, Way::Runtime] {
            for seed in 0..3 {
                let mut options = scenario.options(seed);
                options.keep_trace = true;
                let report = run_seed(seed, way, options);
                // The checkers compare each document with the operation that has read it.
                assert!(report.failure.is_none(), "{report}");
                let repeated = report.trace.matches("repeats a reply").count();
                assert!(repeated > 20, "{way} {seed}: {repeated}");
                assert!(report.tally.succeeded > 50, "{report}");
            }
        }
    }

    #[test]
    fn the_connections_of_one_client_to_one_member_break_at_a_scheduled_time() {
        let at = Duration::from_secs(5);
        let event = Disaster::DisconnectClient {
            client: 0,
            member: 1,
        };
        let scenario = Scenario {
            shape: Some(WorldShape::ReplicaSet),
            members: Some(3),
            clients: Some(2),
            tasks: Some(4),
            safety: Some(Span(Duration::from_secs(15))),
            client_options: Some("minPoolSize=2".to_owned()),
            proxy: Some(WorldProxy::None),
            rates: Some(Rates::default()),
            schedule: Some(vec![Scheduled {
                at: Span(at),
                event,
            }]),
            ..Scenario::default()
        };
        for way in [Way::Core, Way::Runtime] {
            let mut options = scenario.options(1);
            options.keep_trace = true;
            let report = run_seed(1, way, options);
            assert!(report.failure.is_none(), "{report}");
            let lines = report.trace.lines();
            let breaks: Vec<&str> = lines.filter(|line| line.ends_with(" breaks")).collect();
            // Two connections are those of the pool, and one is that of the monitor.
            assert!(breaks.len() >= 3, "{way}: {breaks:?}");
            let time = format!("{:>12} ", at.as_micros());
            let is_wanted =
                |line: &&str| line.starts_with(&time) && line.contains(" of client 0 to member 1 ");
            assert!(breaks.iter().all(is_wanted), "{way}: {breaks:?}");
        }
    }
}
