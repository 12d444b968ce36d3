//! The place of a member in its deployment: its state, and its options in the replica set.

use super::Member;
use crate::deployment::{MemberOptions, MemberState, Shape};

impl Member {
    /// True if this member holds data of its set.
    pub(crate) fn holds_data(&self) -> bool {
        self.set_member()
            .is_some_and(|member| member.holds_data() && !self.replica.is_syncing(self.index))
    }

    /// True if this primary knows that the set has all committed entries without a member.
    pub(crate) fn can_lose(&self, member: usize) -> bool {
        self.replica.can_lose(member)
    }

    /// Removes the data of this member, whose process does not run. It copies them from the primary
    /// when it has started again.
    pub(crate) fn drop_data(&mut self) {
        self.replica.drop_data();
    }

    pub(crate) fn state(&self) -> MemberState {
        if !self.up {
            return MemberState::Down;
        }
        match self.set_member() {
            None if self.is_router() => MemberState::Router,
            None => MemberState::Standalone,
            Some(member) if member.absent => MemberState::Removed,
            Some(member) if member.arbiter => MemberState::Arbiter,
            Some(_) if self.replica.is_leader() => MemberState::Primary,
            Some(_) if self.replica.is_syncing(self.index) => MemberState::Syncing,
            Some(_) => MemberState::Secondary,
        }
    }

    /// Returns the name of a member's delay in replies, which release 5.0 changed.
    pub(super) fn name_of_delay(&self) -> &'static str {
        match self.program.version.release >= [5, 0, 0] {
            true => "secondaryDelaySecs",
            false => "slaveDelay",
        }
    }

    /// Returns the members that the hello replies of this one list.
    pub(crate) fn listed_members(&self) -> Vec<usize> {
        let members = self.replica.config().members.iter().enumerate();
        let listed = members.filter(|(_, member)| !member.absent && !member.hidden);
        listed.map(|(place, _)| place).collect()
    }

    pub(super) fn is_set(&self) -> bool {
        matches!(self.options.shape, Shape::ReplicaSet(_))
    }

    /// Returns this member's options in its replica set, or `None` if it is not part of one.
    pub(super) fn set_member(&self) -> Option<&MemberOptions> {
        match &self.options.shape {
            Shape::Standalone | Shape::Sharded | Shape::LoadBalanced { .. } => None,
            Shape::ReplicaSet(_) => self.replica.config().members.get(self.index),
        }
    }
}
