//! Members whose process is frozen for a while, as by the signal SIGSTOP.

use super::{
    ConnId, Deployment, MemberState,
    routing::{self, Traffic},
};
use crate::server::JobDone;
use onionskin_core::time::{Instant, earliest};
use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

/// The frozen members.
#[derive(Debug, Default)]
pub(super) struct Frozen(BTreeMap<usize, Pause>);

#[derive(Debug)]
struct Pause {
    until: Instant,
    held: VecDeque<Held>,
}

/// An input that a frozen member gets when it goes on, after the requests that it has received.
#[derive(Debug)]
pub(super) enum Held {
    Disconnected(ConnId),
    JobDone(JobDone),
    Part(ConnId),
    LongQuery(ConnId),
    /// A reply is ready on this connection to another member.
    Answer(ConnId),
    /// The connection to the member with this index, for the request of a client, has failed.
    Failed(ConnId, usize),
}

impl Frozen {
    pub(super) fn contains(&self, member: usize) -> bool {
        self.0.contains_key(&member)
    }

    /// Keeps an input if the member is frozen. Otherwise returns it.
    pub(super) fn hold(&mut self, member: usize, input: Held) -> Option<Held> {
        match self.0.get_mut(&member) {
            Some(pause) => {
                pause.held.push_back(input);
                None
            }
            None => Some(input),
        }
    }

    /// Returns the next input that is held for a member.
    fn take(&mut self, member: usize) -> Option<Held> {
        self.0.get_mut(&member)?.held.pop_front()
    }

    /// Returns the end of a member's pause, if it is frozen.
    pub(super) fn until(&self, member: usize) -> Option<Instant> {
        self.0.get(&member).map(|pause| pause.until)
    }

    /// Forgets the pause of a member whose process ends.
    pub(super) fn forget(&mut self, member: usize) {
        self.0.remove(&member);
    }
}

impl Deployment {
    /// Freezes the process of a member for a while. The system still accepts connections and bytes
    /// for it, but nothing is answered, and messages of other members are lost. A member that is
    /// frozen already is frozen for longer, if the new pause ends later. Routers and services
    /// cannot be frozen, but the members of [shards](Self::place_in_shard) can. A router no longer
    /// chooses a frozen member of a shard that has several members.
    ///
    /// At the end of the pause the member handles the requests that it has received, also those
    /// whose clients have gone, and only then the passage of time. So a frozen primary handles
    /// requests as primary, until it notices that no majority answers it, or that there is another
    /// one. If the caller [takes turns](Self::take_turns) and [runs jobs](Self::run_jobs), this is
    /// true of the first request of each connection. Further ones wait for their turn, and are
    /// executed as parts if their client has gone.
    pub fn freeze(&mut self, now: Instant, member: usize, pause: Duration) {
        let home = self.members.get_mut(member).filter(|home| home.is_up());
        let Some(home) = home.filter(|home| home.state() != MemberState::Router) else {
            return;
        };
        home.set_frozen(true);
        let until = now + pause;
        let held = VecDeque::new();
        let pauses = self.frozen.0.entry(member);
        let pause = pauses.or_insert(Pause { until, held });
        pause.until = pause.until.max(until);
    }

    /// Ends the pause of a member that is [frozen](Self::freeze).
    pub fn thaw(&mut self, now: Instant, member: usize) {
        if !self.frozen.contains(member) {
            return;
        }
        self.members[member].set_frozen(false);
        self.members[member].advance_all(now);
        let routed = self.members[member].routed();
        let mut gone = Vec::new();
        // If a request panics, the next call handles what is still held.
        while let Some(input) = self.frozen.take(member) {
            match input {
                Held::Disconnected(connection) => {
                    if self.runs_jobs {
                        self.members[member].keep_messages(connection);
                    } else {
                        while self.members[member].next_turn(now, connection) {}
                    }
                    if routing::is_inner(connection) {
                        self.end(connection);
                    } else if routed.contains(&connection) {
                        gone.push(connection);
                    } else {
                        self.forget(connection);
                    }
                }
                Held::JobDone(done) => self.members[member].handle_job_done(now, done),
                Held::Part(connection) => self.paused.push(connection),
                Held::LongQuery(connection) => self.long_queries.push(connection),
                Held::Answer(connection) => self.traffic.push_back(Traffic::Answer(connection)),
                Held::Failed(connection, other) => {
                    let other = (self.named(other), other);
                    self.members[member].handle_unreachable(now, connection, other);
                }
            }
        }
        self.frozen.forget(member);
        self.settle(now);
        // Their requests have reached other members now.
        for connection in gone {
            self.handle_disconnected(now, connection);
        }
    }

    /// Returns the time at which a member has to go on by itself.
    pub(super) fn deadline_of(&self, member: usize) -> Option<Instant> {
        match self.frozen.until(member) {
            Some(until) => Some(until),
            None => self.members[member].deadline(),
        }
    }

    /// Returns the earliest deadline of all members.
    pub(super) fn deadline_of_members(&self) -> Option<Instant> {
        let members = 0..self.members.len();
        members.fold(None, |first, member| {
            earliest(first, self.deadline_of(member))
        })
    }
}
