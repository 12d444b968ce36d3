//! The shards behind routers, each of which is a replica set. Their members follow the routers,
//! those of the first shard first.

use super::{Deployment, DeploymentOptions, MemberState, Shape, set_config};
use crate::{
    replica::Replica,
    server::{Accounts, Choice, Member},
};
use onionskin_core::{address::Address, random::Seed, time::Instant};
use std::{ops::Range, sync::Arc, time::Duration};

/// The period of a step-down of a shard of several members, in which its former primary starts no
/// election.
const STEP_DOWN_PERIOD: Duration = Duration::from_secs(60);

/// Returns the name of a shard, which is also the name of its replica set.
pub(crate) fn shard_name(shard: usize) -> String {
    format!("shard{shard}")
}

/// Returns the addresses of the members of a shard.
pub(crate) fn shard_addresses(options: &DeploymentOptions, shard: usize) -> Vec<Address> {
    let first = shard.saturating_mul(options.shard_members);
    let numbers = first..first.saturating_add(options.shard_members);
    let address = |number| {
        let port = 27018_u16.saturating_add(u16::try_from(number).unwrap_or(u16::MAX));
        Address::tcp("shard", port)
    };
    numbers.map(address).collect()
}

/// Creates the members of the shards, if the deployment has routers.
pub(super) fn shards(options: &DeploymentOptions, seed: &Seed) -> Vec<Member> {
    if !options.shape.has_routers() {
        return Vec::new();
    }
    (0..options.shards)
        .flat_map(|shard| members_of_shard(options, seed, shard))
        .collect()
}

fn members_of_shard(options: &DeploymentOptions, seed: &Seed, number: usize) -> Vec<Member> {
    let name = shard_name(number);
    let addresses = shard_addresses(options, number);
    let mut of_shard = DeploymentOptions::replica_set(&name, addresses);
    if let Shape::ReplicaSet(set) = &mut of_shard.shape {
        set.election_timeout = options.shard_election_timeout;
        set.heartbeat_interval = options.shard_election_timeout / 5;
    }
    of_shard.shards = options.shards;
    of_shard.shard_members = options.shard_members;
    of_shard.limits = options.limits;
    of_shard.version = options.version;
    of_shard.started_at = options.started_at;
    let of_shard = Arc::new(of_shard);
    let config = Arc::new(set_config(&of_shard));
    let seed = match number {
        0 => seed.split("shard"),
        _ => seed.split(&name),
    };
    let accounts = Arc::new(Accounts::new(&of_shard, &seed));
    let first = options.addresses.len() + number * options.shard_members;
    let member = |index: usize| {
        let seed = match index {
            0 => seed.clone(),
            _ => seed.split(&format!("member {index}")),
        };
        let random = seed.split("replica").random();
        let replica = Replica::new(index, Arc::clone(&config), random);
        let (of_shard, accounts) = (Arc::clone(&of_shard), Arc::clone(&accounts));
        let mut member = Member::new(index, of_shard, accounts, replica, &seed);
        member.become_shard(number, first + index);
        member
    };
    (0..options.shard_members).map(member).collect()
}

impl Deployment {
    /// Returns the number of servers: the members that clients can connect to, and those of the
    /// shards.
    #[must_use]
    pub const fn servers(&self) -> usize {
        self.members.len()
    }

    /// Returns the index of a member of a shard, by which other functions know it, such as
    /// [`state`](Self::state), [`kill`](Self::kill) and [`freeze`](Self::freeze). Both numbers
    /// count from 0. Returns `None` if there is no such shard or member. See
    /// [`DeploymentOptions::shard_members`] for an example.
    #[must_use]
    pub fn place_in_shard(&self, shard: usize, member: usize) -> Option<usize> {
        self.places_of_shard(shard).nth(member)
    }

    /// Returns the indexes of the members of a shard, which are none if there is no such shard.
    pub(super) fn places_of_shard(&self, shard: usize) -> Range<usize> {
        let (routers, count) = (self.options.addresses.len(), self.options.shard_members);
        if shard >= self.options.shards || !self.options.shape.has_routers() {
            return 0..0;
        }
        let first = routers + shard * count;
        first..first + count
    }

    /// Returns the primary of the highest term of a shard. A replica set and a standalone count as
    /// shard 0.
    ///
    /// ```
    /// use onionskin_core::{address::Address, random::Seed};
    /// use onionskin_deployment::deployment::{Deployment, DeploymentOptions};
    ///
    /// let mut options = DeploymentOptions::sharded(vec![Address::tcp("localhost", 27017)]);
    /// options.shards = 2;
    /// let deployment = Deployment::new(options, &Seed::new([1; 32])).expect("valid options");
    /// assert_eq!(deployment.primary_of_shard(1), deployment.place_in_shard(1, 0));
    /// assert_eq!(deployment.primary_of_shard(2), None);
    /// ```
    #[must_use]
    pub fn primary_of_shard(&self, shard: usize) -> Option<usize> {
        let leads =
            |m: &Member| matches!(m.state(), MemberState::Primary | MemberState::Standalone);
        let members = self.members.iter().enumerate();
        let leaders = members.filter(|(_, member)| leads(member) && member.is_of_set(shard));
        let leader = leaders.max_by_key(|(_, member)| member.term());
        leader.map(|(place, _)| place)
    }

    /// Ends the processes of all members of a shard, as [`kill`](Self::kill) does. Its open
    /// transactions are lost, but not the prepared ones. Without effect if there is no such shard,
    /// or if it does not run.
    pub fn kill_shard(&mut self, now: Instant, shard: usize) {
        for place in self.places_of_shard(shard) {
            self.kill(now, place);
        }
    }

    /// Starts the killed members of a shard again with their data. The only member becomes primary
    /// at once; several elect one.
    pub fn restart_shard(&mut self, now: Instant, shard: usize) {
        for place in self.places_of_shard(shard) {
            self.restart(now, place);
        }
    }

    /// Makes the primary of a shard step down. Its open transactions are aborted, but not the
    /// prepared ones. The only member of a shard becomes primary again in a later term. With
    /// several members, the primary waits up to 10 seconds for another one to catch up, and starts
    /// no election for 60 seconds afterwards. Returns false if the shard has no primary, or if it
    /// is stepping down already or frozen.
    pub fn step_down_shard(&mut self, now: Instant, shard: usize) -> bool {
        let places = self.places_of_shard(shard);
        let primary = self.primary_of_shard(shard);
        let primary = primary.filter(|place| places.contains(place));
        let Some(primary) = primary.filter(|place| !self.frozen.contains(*place)) else {
            return false;
        };
        let stepped_down = match places.len() {
            1 => self.members[primary].fail_over(now),
            _ => self.members[primary].step_down(now, STEP_DOWN_PERIOD),
        };
        self.settle(now);
        stepped_down
    }

    /// Cuts the network from the members of one shard to those of another, in this direction only.
    pub fn cut_shards(&mut self, now: Instant, from: usize, to: usize) {
        for one in self.places_of_shard(from) {
            for other in self.places_of_shard(to) {
                self.cut(now, one, other);
            }
        }
    }

    /// True if events of this member are reported. Those of a shard of one member are not.
    pub(super) fn is_reported(&self, member: usize) -> bool {
        member < self.options.addresses.len() || self.options.shard_members > 1
    }

    /// Returns the index of the shard of a member as its router knows it: the number of routers
    /// plus that of the shard. Returns the index of another member as it is.
    pub(super) fn named(&self, member: usize) -> usize {
        let routers = self.options.addresses.len();
        match member.checked_sub(routers) {
            Some(number) => routers + number / self.options.shard_members,
            None => member,
        }
    }

    /// Returns the member for a request of another one. For a shard of several members, a router
    /// chooses among those that it can reach. A primary of an earlier term than one that the router
    /// has used is no longer chosen. Returns `None` if no member suits now.
    pub(super) fn host(&mut self, from: usize, wanted: usize, choice: Choice) -> Option<usize> {
        let shard = wanted.checked_sub(self.options.addresses.len());
        let Some(shard) = shard.filter(|_| self.options.shard_members > 1) else {
            return Some(wanted);
        };
        if let Choice::Member(place) = choice {
            return Some(place);
        }
        let known = self.members[from].known_term(shard);
        let reachable = self.places_of_shard(shard).filter(|place| {
            let is_cut = self.network.is_cut(from, *place);
            self.members[*place].is_up() && !self.frozen.contains(*place) && !is_cut
        });
        let reachable: Vec<usize> = reachable.collect();
        let leaders = reachable.iter().copied();
        let leaders = leaders.filter(|place| {
            let member = &self.members[*place];
            member.may_write() && member.term() >= known
        });
        let primary = leaders.max_by_key(|place| self.members[*place].term());
        let secondaries = reachable.into_iter();
        let secondaries: Vec<usize> = secondaries
            .filter(|place| self.members[*place].state() == MemberState::Secondary)
            .collect();
        let chosen = match choice {
            Choice::Primary => primary,
            Choice::PrimaryPreferred => primary.or_else(|| self.next_of(&secondaries)),
            Choice::Secondary => self.next_of(&secondaries),
            Choice::SecondaryPreferred => self.next_of(&secondaries).or(primary),
            Choice::Nearest => {
                let all: Vec<usize> = primary.into_iter().chain(secondaries).collect();
                self.next_of(&all)
            }
            Choice::Nobody(_) | Choice::Member(_) => None,
        };
        if let Some(primary) = primary {
            let term = self.members[primary].term();
            self.members[from].note_known_term(shard, term);
        }
        chosen
    }

    /// Returns one of these members, each in turn.
    fn next_of(&mut self, places: &[usize]) -> Option<usize> {
        let count = places.len();
        let chosen = places.get(self.reads.checked_rem(count)?).copied();
        self.reads = self.reads.wrapping_add(1);
        chosen
    }

    /// Returns the member of a shard that gets the messages of other shards: the primary. Without
    /// one, the first member gets and drops them.
    pub(super) fn receiver_in_shard(&self, shard: usize) -> Option<usize> {
        match self.options.shard_members {
            1 => self.place_in_shard(shard, 0),
            _ => self
                .primary_of_shard(shard)
                .or_else(|| self.place_in_shard(shard, 0)),
        }
    }

    /// Returns the index among all members of one that a member of the same set names.
    pub(super) fn place_of_peer(&self, member: usize, peer: usize) -> usize {
        match self.members[member].shard() {
            Some(shard) => self.places_of_shard(shard).start + peer,
            None => peer,
        }
    }

    /// Returns the index in its set of a member, by which the other members of the set know it.
    pub(super) fn index_in_set(&self, member: usize) -> usize {
        match self.members[member].shard() {
            Some(shard) => member - self.places_of_shard(shard).start,
            None => member,
        }
    }
}
