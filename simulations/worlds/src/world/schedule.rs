//! Checks of the schedule of a scenario: the times of events, events that need members, clients or
//! shards which the world does not have, and sets without a secondary for reads at the end.

use super::{
    member::WorldMember,
    options::{GRACE, Workload},
    plan::{Disaster, Needs},
    scenario::{Scenario, Scheduled, WorldShape},
};

impl Scenario {
    /// Returns the reason why the schedule is refused, if there is one.
    pub(super) fn schedule_fault(&self) -> Option<String> {
        let mut events = self.schedule.iter().flatten().peekable();
        events.peek()?;
        let Some(safety) = self.safety else {
            return Some("a `schedule` needs `safety`, the time after which faults end".to_owned());
        };
        events.find_map(|Scheduled { at, event }| {
            let Needs {
                members,
                clients,
                shards,
                shard_members,
            } = event.needs();
            if *at >= safety {
                let at = String::from(*at);
                return Some(format!("the event at {at} comes after the safety phase"));
            }
            let inner = match event {
                Disaster::InShard(of_shard) => &*of_shard.event,
                event => event,
            };
            if let Disaster::Freeze { pause, .. } | Disaster::FreezeMember { pause, .. } = inner
                && at.0.saturating_add(pause.0)
                    > safety.0 + self.grace.map_or(GRACE, |grace| grace.0)
            {
                return Some("a freeze must end within `safety` and `grace`".to_owned());
            }
            if let Some(reason) = self.idle_event(event) {
                return Some(reason.to_owned());
            }
            let lacks = |name, needed: usize, number: Option<usize>| {
                let is_lacking = needed > number.unwrap_or(1);
                is_lacking.then(|| format!("an event needs `{name} = {needed}` or more"))
            };
            lacks("members", members, self.members)
                .or_else(|| lacks("clients", clients, self.clients))
                .or_else(|| lacks("shards", shards, self.shards))
                .or_else(|| lacks("shard-members", shard_members, self.shard_members))
        })
    }

    /// Returns the reason why reads of the mode `secondary` fail at the end, if the options of the
    /// members and the events leave no member for them. Each event has its members. Applications
    /// have no such reads.
    pub(super) fn secondary_fault(&self) -> Option<String> {
        let number = self.members.unwrap_or(1);
        let is_set = self.shape == Some(WorldShape::ReplicaSet) && number > 1;
        if !is_set || self.workload == Some(Workload::Applications) {
            return None;
        }
        let mut events: Vec<&Scheduled> = self.schedule.iter().flatten().collect();
        events.sort_by_key(|scheduled| scheduled.at);
        let mut members = self.member_options.clone();
        members.resize(number, WorldMember::default());
        for scheduled in events {
            match &scheduled.event {
                Disaster::RemoveMember(member) => members[*member].absent = true,
                Disaster::AddMember(member) => members[*member].absent = false,
                Disaster::ForceConfiguration { remove, .. } => {
                    for member in remove {
                        members[*member].absent = true;
                    }
                }
                Disaster::Reconfigure { member, options } => {
                    members[*member].hidden = options.hidden;
                }
                _ => {}
            }
        }
        let is_readable = |member: &&WorldMember| {
            let WorldMember {
                absent,
                arbiter,
                hidden,
                ..
            } = **member;
            !absent && !arbiter && !hidden
        };
        // One of them is the primary.
        (members.iter().filter(is_readable).count() < 2).then(|| {
            "there is no secondary for reads: two members or more that are neither hidden nor \
             arbiters must be in the set at the end of the schedule"
                .to_owned()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::Span;
    use std::time::Duration;

    /// Returns a set of members with these events, one in each second.
    fn scenario(members: usize, events: &[Disaster]) -> Scenario {
        let scheduled = |(second, event): (u64, &Disaster)| Scheduled {
            at: Span(Duration::from_secs(second)),
            event: event.clone(),
        };
        Scenario {
            shape: Some(WorldShape::ReplicaSet),
            members: Some(members),
            safety: Some(Span(Duration::from_secs(20))),
            schedule: Some((0..).zip(events).map(scheduled).collect()),
            ..Scenario::default()
        }
    }

    fn fault(members: usize, events: &[Disaster]) -> Option<String> {
        scenario(members, events).fault()
    }

    fn hidden() -> WorldMember {
        WorldMember {
            priority: Some(0),
            hidden: true,
            ..WorldMember::default()
        }
    }

    fn force(remove: &[usize]) -> Disaster {
        Disaster::ForceConfiguration {
            member: 0,
            remove: remove.to_vec(),
        }
    }

    #[test]
    fn a_schedule_that_leaves_no_secondary_is_refused() {
        let hidden = Disaster::Reconfigure {
            member: 1,
            options: hidden(),
        };
        for (members, events) in [
            (2, vec![hidden.clone()]),
            (2, vec![Disaster::RemoveMember(1)]),
            (3, vec![force(&[1, 2])]),
            (3, vec![hidden, Disaster::RemoveMember(2)]),
        ] {
            let reason = fault(members, &events).expect("there is no secondary");
            assert!(reason.contains("no secondary for reads"), "{reason}");
        }
        let mut events = vec![Disaster::RemoveMember(1)];
        assert_eq!(fault(3, &events), None);
        events.push(Disaster::AddMember(1));
        assert_eq!(fault(2, &events), None);
    }

    #[test]
    fn members_of_which_none_is_a_secondary_for_reads_are_refused() {
        let arbiter = WorldMember {
            arbiter: true,
            ..WorldMember::default()
        };
        let absent = WorldMember {
            absent: true,
            ..WorldMember::default()
        };
        for second in [hidden(), arbiter, absent.clone()] {
            let mut scenario = scenario(2, &[]);
            scenario.member_options = vec![WorldMember::default(), second];
            for schedule in [scenario.schedule.clone(), None] {
                scenario.schedule = schedule;
                let reason = scenario.fault().expect("there is no secondary");
                assert!(reason.contains("no secondary for reads"), "{reason}");
            }
            scenario.members = Some(3);
            assert_eq!(scenario.fault(), None);
            (scenario.members, scenario.workload) = (Some(2), Some(Workload::Applications));
            assert_eq!(scenario.fault(), None);
        }
        let mut scenario = scenario(2, &[Disaster::AddMember(1)]);
        scenario.member_options = vec![WorldMember::default(), absent];
        assert_eq!(scenario.fault(), None);
    }

    #[test]
    fn a_member_that_is_removed_twice_by_one_event_is_refused() {
        let reason = fault(4, &[force(&[1, 1])]).expect("it is named twice");
        assert!(reason.contains("twice"), "{reason}");
        assert_eq!(fault(4, &[force(&[1])]), None);
    }
}
