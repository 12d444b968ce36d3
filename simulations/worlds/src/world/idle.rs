//! Events of a schedule that have no effect, which are refused.

use super::{
    member::WorldMember,
    plan::Disaster,
    scenario::{Scenario, WorldShape},
};
use std::collections::BTreeSet;

/// The highest limit of connections.
const MAX_CONNECTIONS: usize = 1_000_000;

impl Disaster {
    /// Returns the reason why the disaster has no effect in any deployment or cannot be, if there
    /// is one.
    pub(super) fn idle(&self) -> Option<&'static str> {
        match *self {
            Self::CutMembers { from, to } | Self::CutShards { from, to } if from == to => {
                Some("a cut is between two different members or shards")
            }
            Self::CutClient {
                up: false,
                down: false,
                ..
            } => Some("a `cut-client` needs `up` or `down`"),
            Self::LimitConnections(most) if most > MAX_CONNECTIONS => {
                Some("`limit-connections` must be at most 1000000")
            }
            Self::FailCommands(ref fault) => fault.idle(),
            Self::Overload(ref overload) => overload.idle(),
            Self::SlowMember(ref slow) => slow.idle(),
            Self::FailNames(ref failures) => failures.idle(),
            Self::JumpClock(ref jump) => jump.idle(),
            Self::InShard(ref event) => event.idle(),
            _ => None,
        }
    }
}

impl Scenario {
    /// Returns the reason why an event has no effect, if there is one.
    pub(super) fn idle_event(&self, event: &Disaster) -> Option<&'static str> {
        let has_routers = !matches!(self.shape, None | Some(WorldShape::ReplicaSet));
        let reason = event.idle();
        if reason.is_some() {
            return reason;
        }
        match *event {
            Disaster::ListMembers(_) | Disaster::SilenceNames if self.srv != Some(true) => {
                Some("only clients with `srv` have a name server")
            }
            Disaster::ExpireLogins if self.authentication == Some(false) => {
                Some("`expire-logins` needs `authentication`")
            }
            Disaster::StepDown if has_routers => {
                Some("routers and services do not step down; a shard does, with `step-down-shard`")
            }
            Disaster::Reconfigure { .. }
            | Disaster::RemoveMember(_)
            | Disaster::AddMember(_)
            | Disaster::ForceConfiguration { .. }
                if has_routers =>
            {
                Some("routers and services have no configuration of a replica set")
            }
            Disaster::Reconfigure {
                member,
                ref options,
            } => self.idle_change(member, options),
            Disaster::ForceConfiguration { member, ref remove } => self.idle_force(member, remove),
            Disaster::RemoveMember(_) | Disaster::AddMember(_) => self.lacks_configuration(),
            Disaster::Resync(_)
                if self.shape != Some(WorldShape::ReplicaSet)
                    || self.members.is_none_or(|n| n < 3) =>
            {
                Some("a `resync` needs `shape`, and 3 `members` or more of a replica set")
            }
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

    /// Returns the reason why the configuration of the set cannot change, if there is one.
    fn lacks_configuration(&self) -> Option<&'static str> {
        if self.shape != Some(WorldShape::ReplicaSet) || self.members.is_none_or(|n| n < 2) {
            Some("a change of the configuration needs `shape` and `members` of a replica set")
        } else if self.has_old_version() {
            Some("servers before release 6.0 are not reconfigured")
        } else {
            None
        }
    }

    fn idle_force(&self, member: usize, remove: &[usize]) -> Option<&'static str> {
        let unique: BTreeSet<&usize> = remove.iter().collect();
        if remove.is_empty() || remove.contains(&member) {
            Some("a `force-configuration` removes other members than its own")
        } else if unique.len() < remove.len() {
            Some("a `force-configuration` names a member twice in `remove`")
        } else {
            self.lacks_configuration()
        }
    }

    fn idle_change(&self, member: usize, new: &WorldMember) -> Option<&'static str> {
        let equal = WorldMember::default();
        let old = self.member_options.get(member).unwrap_or(&equal);
        if new.version.is_some() || !new.streaming {
            Some("a `reconfigure` cannot change `version` and `streaming`")
        } else if new.absent {
            Some("a `reconfigure` does not remove a member; `remove-member` does")
        } else if old.arbiter != new.arbiter {
            Some("a `reconfigure` cannot change `arbiter`")
        } else {
            self.lacks_configuration().or_else(|| new.options().fault())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::runtime::member_addresses;
    use onionskin_deployment::deployment::DeploymentOptions;

    #[test]
    fn a_cut_that_loses_nothing_is_refused_in_each_deployment() {
        let options = DeploymentOptions::sharded(member_addresses(2));
        for cut in [
            Disaster::CutMembers { from: 1, to: 1 },
            Disaster::CutShards { from: 0, to: 0 },
            Disaster::CutClient {
                client: 0,
                member: 0,
                up: false,
                down: false,
            },
        ] {
            assert!(cut.check(&options).is_err(), "{cut}");
        }
    }
}
