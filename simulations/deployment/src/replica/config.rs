//! The configuration of a replica set, and its changes.

use super::{Bound, Replica, ReplicaEvent};
use crate::deployment::MemberOptions;
use onionskin_core::time::Instant;
use std::{sync::Arc, time::Duration};

/// The configuration of a replica set. Each message between members has that of its sender, and the
/// receiver takes it over if it is later.
#[derive(Clone, Debug)]
pub(crate) struct SetConfig {
    /// The term of the primary that last changed the configuration, or was elected with it. A
    /// configuration of a later term is later, whatever its version.
    pub(crate) term: u64,
    /// The version, from 1. It is the `setVersion` of hello replies.
    pub(crate) version: i32,
    pub(crate) members: Vec<MemberOptions>,
    pub(crate) election_timeout: Duration,
    pub(crate) heartbeat_interval: Duration,
    pub(crate) initial_primary: Option<usize>,
    /// The wall clock's time at [`Instant::ZERO`], in milliseconds since 1970.
    pub(crate) started_at_millis: u64,
    /// The bound above which a member removes its oldest oplog entries.
    pub(crate) oplog: Bound,
    /// The bound on the records of retryable writes that a member keeps.
    pub(crate) records: Bound,
}

impl SetConfig {
    fn voters(&self) -> usize {
        self.members.iter().filter(|m| m.votes).count()
    }

    /// Returns the number of votes that are a majority.
    pub(crate) fn majority(&self) -> usize {
        self.voters() / 2 + 1
    }

    pub(crate) fn wall_millis(&self, now: Instant) -> u64 {
        self.started_at_millis + now.as_nanos() / 1_000_000
    }
}

impl Replica {
    /// Takes over a configuration that is later than the present one.
    pub(crate) fn take_over(&mut self, now: Instant, config: Arc<SetConfig>) {
        if (config.term, config.version) <= (self.config.term, self.config.version) {
            return;
        }
        self.config = config;
        self.events.push_back(ReplicaEvent::Changed);
        // Also a candidate, which could win with votes that follow.
        if !self.options().can_lead() {
            self.resign(now, "the configuration does not let it lead");
        }
    }

    /// Changes the members' options as their primary. The other members follow with its next
    /// messages. The version must be above the present one.
    pub(crate) fn reconfigure(&mut self, now: Instant, members: Vec<MemberOptions>, version: i32) {
        let config = SetConfig {
            members,
            term: self.term,
            version,
            ..SetConfig::clone(&self.config)
        };
        self.take_over(now, Arc::new(config));
        self.replicate(now);
    }

    pub(crate) fn config(&self) -> &SetConfig {
        &self.config
    }
}
