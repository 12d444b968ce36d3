//! The network between members. Latency and loss are drawn from the seed. The caller of the
//! deployment sets the cuts.

use super::NetworkOptions;
use crate::{replica::Message, server::CommitMessage};
use onionskin_core::{random::Random, time::Instant};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// A message in transit.
#[derive(Debug)]
pub(super) struct Envelope {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) content: Content,
}

/// The content of a message.
#[derive(Debug)]
pub(super) enum Content {
    Replication(Message),
    /// A message of a two-phase commit, between shards.
    Commit(CommitMessage),
}

/// The network: the messages in transit, in the order of their arrival, and the cuts. The messages
/// from one member to another keep their order, as in a stream.
#[derive(Debug)]
pub(super) struct Network {
    options: NetworkOptions,
    random: Random,
    under_way: BTreeMap<(Instant, u64), Envelope>,
    last_arrival: BTreeMap<(usize, usize), Instant>,
    cuts: BTreeSet<(usize, usize)>,
    sent: u64,
}

impl Network {
    pub(super) fn new(options: NetworkOptions, random: Random) -> Self {
        Self {
            options,
            random,
            under_way: BTreeMap::new(),
            last_arrival: BTreeMap::new(),
            cuts: BTreeSet::new(),
            sent: 0,
        }
    }

    pub(super) fn send(&mut self, now: Instant, envelope: Envelope) {
        let link = (envelope.from, envelope.to);
        let loss = u64::from(self.options.loss_per_mille);
        if self.cuts.contains(&link) || (loss > 0 && self.random.chance(loss, 1000)) {
            return;
        }
        let mut arrival = now + self.latency();
        if let Some(&last) = self.last_arrival.get(&link) {
            arrival = arrival.max(last);
        }
        if arrival > now {
            self.last_arrival.insert(link, arrival);
        }
        self.sent += 1;
        self.under_way.insert((arrival, self.sent), envelope);
    }

    /// Removes and returns the next message that has arrived by `now`.
    pub(super) fn receive(&mut self, now: Instant) -> Option<Envelope> {
        let (&(at, _), _) = self.under_way.first_key_value()?;
        if at > now {
            return None;
        }
        self.under_way.pop_first().map(|(_, envelope)| envelope)
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.under_way.first_key_value().map(|(&(at, _), _)| at)
    }

    /// Cuts one direction. Messages in transit in that direction are lost.
    pub(super) fn cut(&mut self, from: usize, to: usize) {
        self.cuts.insert((from, to));
        self.under_way.retain(|_, e| (e.from, e.to) != (from, to));
    }

    /// True if messages in one of the two directions are lost.
    pub(super) fn is_cut(&self, one: usize, other: usize) -> bool {
        self.cuts.contains(&(one, other)) || self.cuts.contains(&(other, one))
    }

    /// Returns the number of directions that are cut.
    pub(super) fn cuts(&self) -> usize {
        self.cuts.len()
    }

    pub(super) fn heal(&mut self) {
        self.cuts.clear();
    }

    /// Drops all messages in transit from or to a member, because its process ended.
    pub(super) fn forget(&mut self, member: usize) {
        self.under_way
            .retain(|_, e| e.from != member && e.to != member);
    }

    fn latency(&mut self) -> Duration {
        let NetworkOptions {
            min_latency,
            max_latency,
            ..
        } = self.options;
        let spread = max_latency.saturating_sub(min_latency).as_nanos();
        let spread = u64::try_from(spread).unwrap_or(u64::MAX - 1);
        if spread == 0 {
            return min_latency;
        }
        min_latency + Duration::from_nanos(self.random.below(spread + 1))
    }
}
