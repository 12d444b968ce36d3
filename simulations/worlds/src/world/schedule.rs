//! Checks of the schedule of a scenario: events that have no effect, and events that need members,
//! clients or shards which the world does not have.

use super::{
    member::WorldMember,
    options::GRACE,
    plan::{Disaster, Needs},
    scenario::{Scenario, Scheduled, WorldShape},
};

impl Scenario {
    /// Returns the reason why an event has no effect, if there is one.
    pub(super) fn idle_event(&self, event: &Disaster) -> Option<&'static str> {
        let has_routers = !matches!(self.shape, None | Some(WorldShape::ReplicaSet));
        match *event {
            Disaster::CutMembers { from, to } | Disaster::CutShards { from, to } if from == to => {
                Some("a cut is between two different members or shards")
            }
            Disaster::CutClient {
                up: false,
                down: false,
                ..
            } => Some("a `cut-client` needs `up` or `down`"),
            Disaster::FailCommands(ref fault) => fault.idle(),
            Disaster::Overload(ref overload) => overload.idle(),
            Disaster::SlowMember(ref slow) => slow.idle(),
            Disaster::FailNames(ref failures) => failures.idle(),
            Disaster::ListMembers(_) | Disaster::SilenceNames if self.srv != Some(true) => {
                Some("only clients with `srv` have a name server")
            }
            Disaster::ExpireLogins if self.authentication == Some(false) => {
                Some("`expire-logins` needs `authentication`")
            }
            Disaster::StepDown if has_routers => {
                Some("routers and services do not step down; a shard does, with `step-down-shard`")
            }
            Disaster::Reconfigure { .. } if has_routers => {
                Some("routers and services have no configuration of a replica set")
            }
            Disaster::Reconfigure {
                member,
                ref options,
            } => self.idle_change(member, options),
            Disaster::FreezeMember { .. } if self.shape.is_none() => {
                Some("a `freeze-member` needs `shape`, because routers cannot be frozen")
            }
            Disaster::FreezeMember { .. } if has_routers => {
                Some("routers and services cannot be frozen")
            }
            Disaster::CutMembers { .. } if has_routers => {
                Some("routers and services do not hear each other; cut one off with `isolate`")
            }
            Disaster::StepDown | Disaster::Isolate(_) | Disaster::CutMembers { .. }
                if self.members == Some(1) && self.shape == Some(WorldShape::ReplicaSet) =>
            {
                Some("one member is a standalone, which neither steps down nor hears others")
            }
            _ if event.needs().shards > 0 && !has_routers => {
                Some("an event of shards needs `shape` to be sharded or load-balanced")
            }
            _ => None,
        }
    }

    fn idle_change(&self, member: usize, new: &WorldMember) -> Option<&'static str> {
        let equal = WorldMember::default();
        let old = self.member_options.get(member).unwrap_or(&equal);
        if self.shape != Some(WorldShape::ReplicaSet) || self.members.is_none_or(|n| n < 2) {
            Some("a `reconfigure` needs `shape` and `members` of a replica set")
        } else if new.version.is_some() || !new.streaming {
            Some("a `reconfigure` cannot change `version` and `streaming`")
        } else if self.has_old_version() {
            Some("servers before release 6.0 are not reconfigured")
        } else if (old.votes, old.arbiter) != (new.votes, new.arbiter) {
            Some("a `reconfigure` cannot change `votes` and `arbiter`")
        } else {
            new.options().fault()
        }
    }

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
            } = event.needs();
            if *at >= safety {
                let at = String::from(*at);
                return Some(format!("the event at {at} comes after the safety phase"));
            }
            if let Disaster::Freeze { pause, .. } | Disaster::FreezeMember { pause, .. } = event
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
        })
    }
}
