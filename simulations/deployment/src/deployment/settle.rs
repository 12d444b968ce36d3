//! The outputs of the members, and their messages to each other.

use super::{
    Action, Deployment,
    network::{Content, Envelope},
    routing::{self, Traffic},
};
use crate::{replica::MAX_SMALL_CHANGES, server::Output};
use onionskin_core::time::Instant;

impl Deployment {
    /// Collects the outputs of all members, and carries their messages until none is due now. If
    /// the caller runs parts, this ends when members have applied many changes.
    pub(super) fn settle(&mut self, now: Instant) {
        for index in 0..self.members.len() {
            self.collect(now, index);
        }
        self.carry_traffic(now);
        let mut changes = 0;
        self.is_behind = false;
        while let Some(envelope) = self.network.receive(now) {
            let Envelope { from, to, content } = envelope;
            if let (true, Content::Replication(message)) = (self.runs_jobs, &content) {
                changes += message.changes();
            }
            if self.members[to].is_up() && !self.frozen.contains(to) {
                let shard = self.members[from].shard();
                match (content, shard) {
                    (Content::Replication(message), _) => {
                        self.members[to].handle_message(now, from, message);
                    }
                    (Content::Commit(message), Some(shard)) => {
                        self.members[to].handle_commit_message(now, shard, message);
                    }
                    (Content::Commit(_), None) => {}
                }
                self.collect(now, to);
                self.carry_traffic(now);
            }
            if changes >= MAX_SMALL_CHANGES {
                self.is_behind = true;
                break;
            }
        }
        for member in 0..self.members.len() {
            if self.members[member].has_failed() {
                self.kill(now, member);
            }
        }
        // A request that a router has decoded has reached its shard before.
        if self.end_abandoned() {
            self.settle(now);
        }
    }

    pub(super) fn collect(&mut self, now: Instant, index: usize) {
        while let Some(output) = self.members[index].poll_output(now) {
            match output {
                Output::Send(to, message) => {
                    self.send(now, index, to, Content::Replication(message));
                }
                Output::SendToShard(shard, message) => {
                    let to = self.options.addresses.len() + shard;
                    self.send(now, index, to, Content::Commit(message));
                }
                Output::Route(connection, to, bytes) => {
                    self.traffic
                        .push_back(Traffic::Request(connection, to, bytes));
                }
                Output::Transmit(connection) if routing::is_inner(connection) => {
                    self.traffic.push_back(Traffic::Answer(connection));
                }
                Output::Transmit(connection) => self.transmits.push_back(connection),
                Output::Turn(connection) => self.give_turn(connection),
                Output::Close(connection) => self.close(now, connection),
                Output::Report(event) => self.actions.push_back(Action::Report(event)),
                Output::LongQuery(connection) => self.long_queries.push(connection),
                Output::Task(connection) => self.tasks.push(connection),
                Output::Pause(connection) => self.paused.push(connection),
            }
        }
    }

    fn send(&mut self, now: Instant, from: usize, to: usize, content: Content) {
        if to < self.members.len() {
            self.network.send(now, Envelope { from, to, content });
        }
    }
}
