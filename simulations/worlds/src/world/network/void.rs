//! Events that have no effect on the network or on the deployment, which are noted.

use super::{Link, Network, Towards};
use crate::world::{
    picture::MarkKind,
    plan::Disaster,
    trace::Trace,
    void::{NO_MEMBER_RUNS, VoidEvent, not_running},
};
use onionskin_core::time::Instant;
use std::collections::BTreeSet;

/// The largest number of events without effect that are kept. A schedule has no more events.
const MAX_VOID: usize = 10_000;

/// The events that have happened.
#[derive(Debug, Default)]
pub(super) struct Happened {
    count: u64,
    void: Vec<VoidEvent>,
    /// The clients that were closed by an event.
    closed: BTreeSet<usize>,
}

impl Network {
    /// Returns the reason why a disaster changes nothing between clients and members, if there is
    /// one. Must be called before the disaster happens.
    pub(super) fn void(&mut self, now: Instant, disaster: &Disaster) -> Option<String> {
        match *disaster {
            Disaster::CutClient {
                client,
                member,
                up,
                down,
            } => {
                let is_cut = |towards| self.cuts.contains(&(client, member, towards));
                let is_void =
                    (!up || is_cut(Towards::Member)) && (!down || is_cut(Towards::Client));
                is_void.then(|| "these bytes are lost already".to_owned())
            }
            Disaster::DisconnectClient { client, member } => {
                let leads = |link: &&Link| {
                    link.has_server && (link.client, link.member) == (client, member)
                };
                let reason = format!("client {client} has no connection to member {member}");
                let mut links = self.links.values().filter(leads).peekable();
                match links.peek() {
                    None => Some(reason),
                    Some(_) => {
                        let is_heard = links.any(|link| self.is_heard(link));
                        (!is_heard).then(|| reason + " that is not cut")
                    }
                }
            }
            Disaster::SlowMember(ref slow) => match slow.member {
                Some(member) => {
                    let is_down = self.listening.get(member) != Some(&true);
                    is_down.then(|| not_running(member))
                }
                None => {
                    let is_any_up = self.listening.contains(&true);
                    (!is_any_up).then(|| NO_MEMBER_RUNS.to_owned())
                }
            },
            Disaster::CloseClient(client) => {
                let is_new = self.happened.closed.insert(client);
                (!is_new).then(|| format!("client {client} is closed already"))
            }
            // The events at the beginning have acted when the network was created.
            _ if now == Instant::ZERO => None,
            _ => self.names.void(&self.addresses, disaster),
        }
    }

    /// Counts an event, and notes it if it had no effect.
    pub(super) fn count_event(
        &mut self,
        now: Instant,
        event: &Disaster,
        void: Option<String>,
        trace: &mut Trace,
    ) {
        let happened = &mut self.happened;
        happened.count += 1;
        let Some(reason) = void else {
            return;
        };
        let void = VoidEvent::new(happened.count, now, event.clone(), reason);
        trace.mark(now, MarkKind::Disaster, format_args!("{void}"));
        if happened.void.len() < MAX_VOID {
            happened.void.push(void);
        }
    }

    /// Takes the events that had no effect since the last call.
    pub(in crate::world) fn take_void_events(&mut self) -> Vec<VoidEvent> {
        std::mem::take(&mut self.happened.void)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::{
        CommandFault, LookupFailures, Rates, Scenario, Scheduled, ServerOverload, SlowMember, Span,
        Way, WorldMember, WorldOptions, WorldProxy, WorldShape, options::world_seed, run_seed,
        runtime::member_addresses,
    };
    use onionskin_deployment::deployment::{Deployment, DeploymentOptions};
    use std::{collections::VecDeque, time::Duration};

    fn set() -> DeploymentOptions {
        DeploymentOptions::replica_set("rs", member_addresses(3))
    }

    fn network(deployment: &DeploymentOptions) -> Network {
        let seed = world_seed(1);
        let deployment = Deployment::new(deployment.clone(), &seed).expect("a deployment");
        let options = WorldOptions::drawn(1).calm();
        Network::new(deployment, &options, &VecDeque::new(), &seed)
    }

    /// Lets the time pass until this second. Returns its time.
    fn pass(network: &mut Network, second: u64, trace: &mut Trace) -> Instant {
        let now = Instant::ZERO + Duration::from_secs(second);
        while let Some(due) = network.deadline().filter(|due| *due <= now) {
            network.advance(due, trace);
        }
        now
    }

    /// Makes events happen after a second. Returns the note on the last one; the others have an
    /// effect.
    fn note(deployment: &DeploymentOptions, events: &[Disaster]) -> Option<String> {
        let mut network = network(deployment);
        let trace = &mut Trace::new(false);
        let now = pass(&mut network, 1, trace);
        for event in events {
            network.strike(now, event, trace);
        }
        let mut void = network.take_void_events();
        let last = void.pop()?;
        assert_eq!(last.number, events.len() as u64, "{last}");
        assert!(void.is_empty(), "{void:?}");
        Some(last.to_string())
    }

    /// Checks that the last one of some events has no effect for this reason.
    fn check(deployment: &DeploymentOptions, events: &[Disaster], reason: &str) {
        let note = note(deployment, events).unwrap_or_else(|| panic!("{events:?}: an effect"));
        let begin = format!("event {} at 1s had no effect: ", events.len());
        let is_right = note.strip_prefix(&begin);
        let is_right = is_right.is_some_and(|text| text.contains(reason));
        assert!(is_right, "{events:?}: {note}");
    }

    #[test]
    fn events_of_members_need_one_that_runs_or_does_not() {
        let pause = Span(Duration::from_secs(9));
        let freeze = Disaster::FreezeMember { member: 1, pause };
        let slow = |member| {
            Disaster::SlowMember(SlowMember {
                member,
                writes: false,
                ..SlowMember::default()
            })
        };
        let overload = |member| {
            Disaster::Overload(ServerOverload {
                member,
                requests: 1,
                ..ServerOverload::default()
            })
        };
        let fail = |member| {
            Disaster::FailCommands(CommandFault {
                commands: vec!["ping".to_owned()],
                member,
                close: true,
                ..CommandFault::default()
            })
        };
        let down = "member 1 does not run";
        for event in [
            Disaster::Kill(1),
            Disaster::ShutDown(1),
            freeze,
            slow(Some(1)),
            overload(Some(1)),
            fail(Some(1)),
        ] {
            assert_eq!(note(&set(), std::slice::from_ref(&event)), None, "{event}");
            check(&set(), &[Disaster::Kill(1), event], down);
        }
        for event in [slow(None), overload(None), fail(None)] {
            let mut events: Vec<Disaster> = (0..3).map(Disaster::Kill).collect();
            events.push(event);
            check(&set(), &events, "no member runs");
        }
        let ending = Disaster::ShutDown(1);
        check(&set(), &[Disaster::Restart(1)], "member 1 runs");
        assert_eq!(note(&set(), &[ending.clone(), Disaster::Restart(1)]), None);
        check(
            &set(),
            &[ending.clone(), ending],
            "member 1 is shutting down",
        );
    }

    #[test]
    fn a_member_without_connections_loses_none() {
        check(
            &set(),
            &[Disaster::Disconnect(1)],
            "member 1 has no connections",
        );
        let event = Disaster::DisconnectClient {
            client: 0,
            member: 1,
        };
        check(&set(), &[event], "client 0 has no connection to member 1");
        let close = Disaster::CloseClient(0);
        check(
            &set(),
            &[close.clone(), close],
            "client 0 is closed already",
        );
    }

    #[test]
    fn connections_of_which_no_end_hears_do_not_break() {
        let event = Disaster::DisconnectClient {
            client: 0,
            member: 1,
        };
        let cut = |up, down| Disaster::CutClient {
            client: 0,
            member: 1,
            up,
            down,
        };
        // Without a cut, the connection is half open.
        for (cut, breaks) in [
            (Some(cut(true, false)), true),
            (Some(cut(false, true)), true),
            (Some(cut(true, true)), false),
            (None, false),
        ] {
            let mut network = network(&set());
            let mut trace = Trace::new(true);
            let now = pass(&mut network, 1, &mut trace);
            let address = member_addresses(3).remove(1);
            let id = network.dial(now, 0, &address, &mut trace);
            let now = pass(&mut network, 2, &mut trace);
            match &cut {
                Some(cut) => network.strike(now, cut, &mut trace),
                None => {
                    let link = network.links.get_mut(&id).expect("it is open");
                    (link.up.is_dead, link.down.is_dead) = (true, true);
                }
            }
            network.strike(now, &event, &mut trace);
            let void = network.take_void_events();
            let found = void.first().map(|void| void.reason.as_str());
            let reason = "client 0 has no connection to member 1 that is not cut";
            assert_eq!(found, (!breaks).then_some(reason), "{cut:?}");
            assert_eq!(trace.into_text().contains(" breaks"), breaks, "{cut:?}");
        }
    }

    #[test]
    fn a_second_cut_has_no_effect() {
        let lost = "these messages are lost already";
        let cut = Disaster::CutMembers { from: 1, to: 2 };
        check(&set(), &[cut.clone(), cut.clone()], lost);
        check(&set(), &[Disaster::Isolate(1), cut.clone()], lost);
        check(&set(), &[Disaster::Isolate(1), Disaster::Isolate(1)], lost);
        assert_eq!(note(&set(), &[cut, Disaster::Isolate(1)]), None);
        let cut = |up, down| Disaster::CutClient {
            client: 0,
            member: 1,
            up,
            down,
        };
        let events = [cut(true, true), cut(true, false)];
        check(&set(), &events, "these bytes are lost already");
        assert_eq!(note(&set(), &[cut(true, false), cut(true, true)]), None);
    }

    #[test]
    fn changes_of_a_set_need_a_primary_or_a_member_that_may_change() {
        let change = Disaster::Reconfigure {
            member: 1,
            options: WorldMember::default(),
        };
        for event in [
            change,
            Disaster::RemoveMember(1),
            Disaster::AddMember(1),
            Disaster::Resync(1),
            Disaster::StepDown,
        ] {
            check(&set(), &[Disaster::Kill(0), event], "there is no primary");
        }
        let pause = Span(Duration::from_secs(9));
        let freeze = Disaster::FreezeMember { member: 0, pause };
        check(&set(), &[freeze, Disaster::StepDown], "member 0 is frozen");
        check(&set(), &[Disaster::Resync(0)], "member 0 is primary");
        let force = Disaster::ForceConfiguration {
            member: 1,
            remove: vec![0],
        };
        check(&set(), &[Disaster::Kill(1), force], "that goes on");
        let upgrade = Disaster::Upgrade {
            member: 1,
            version: "5.0".to_owned(),
        };
        check(&set(), &[upgrade], "is not later than");
        let alone = DeploymentOptions::standalone(member_addresses(1).remove(0));
        check(
            &alone,
            &[Disaster::StepDown],
            "a standalone does not step down",
        );
    }

    #[test]
    fn a_name_server_that_does_so_already_does_not_change() {
        let list = Disaster::ListMembers(vec![0, 1, 2]);
        let same = std::slice::from_ref(&list);
        check(&set(), same, "lists these members already");
        assert_eq!(note(&set(), &[Disaster::SilenceNames, list]), None);
        let silence = Disaster::SilenceNames;
        check(&set(), &[silence.clone(), silence], "silent already");
        let fail = Disaster::FailNames(LookupFailures {
            failed: 1,
            ..LookupFailures::default()
        });
        check(&set(), &[fail.clone(), fail], "at these rates already");
    }

    #[test]
    fn events_of_shards_need_one_that_runs_or_does_not() {
        let mut sharded = DeploymentOptions::sharded(member_addresses(1));
        sharded.shards = 2;
        check(&sharded, &[Disaster::RestartShard(1)], "shard 1 runs");
        for event in [Disaster::KillShard(1), Disaster::StepDownShard(1)] {
            assert_eq!(
                note(&sharded, std::slice::from_ref(&event)),
                None,
                "{event}"
            );
            let events = [Disaster::KillShard(1), event];
            check(&sharded, &events, "shard 1 does not run");
        }
        let cut = Disaster::CutShards { from: 0, to: 1 };
        check(
            &sharded,
            &[cut.clone(), cut],
            "these messages are lost already",
        );
        let pause = Span(Duration::from_secs(9));
        let freeze = Disaster::FreezeMember { member: 0, pause };
        check(&sharded, &[freeze], "cannot be frozen");
    }

    #[test]
    fn the_trace_and_the_report_of_a_run_have_the_events_without_effect() {
        let at = |seconds, event| Scheduled {
            at: Span(Duration::from_secs(seconds)),
            event,
        };
        let scenario = Scenario {
            shape: Some(WorldShape::ReplicaSet),
            members: Some(3),
            clients: Some(1),
            tasks: Some(2),
            safety: Some(Span(Duration::from_secs(8))),
            proxy: Some(WorldProxy::None),
            rates: Some(Rates::default()),
            schedule: Some(vec![
                at(5, Disaster::Resync(0)),
                at(3, Disaster::Restart(2)),
                at(4, Disaster::Disconnect(1)),
            ]),
            ..Scenario::default()
        };
        let expected = [
            "event 1 at 3s had no effect: member 2 runs",
            "event 3 at 5s had no effect: member 0 is primary",
        ];
        for way in [Way::Core, Way::Runtime] {
            let mut options = scenario.options(1);
            (options.keep_trace, options.keep_picture) = (true, true);
            let report = run_seed(1, way, options);
            assert!(report.failure.is_none(), "{report}");
            let texts = report.void_events.iter().map(VoidEvent::to_string);
            assert_eq!(texts.collect::<Vec<_>>(), expected, "{way}");
            let text = report.to_string();
            for note in expected {
                let line = format!(" disaster: {note}\n");
                assert!(report.trace.contains(&line), "{way}: {note}");
                assert!(text.contains(note), "{way}: {text}");
            }
            let page = report.page("events", None).expect("it was kept");
            assert!(page.contains("events without effect: 2"), "{way}");
        }
    }
}
