//! The states of the clients of all worlds. The next state of a client depends only on its state
//! and on its input, so each pair of a state and an input is played once, on machine and model.

use super::{SERVERS, world::Reply};
use crate::bench::{Bench, Found, Known};
use bson::{RawDocument, RawDocumentBuf, oid::ObjectId, rawdoc};
use onionskin_core::{
    description::{ServerId, ServerType},
    error::NetworkFault,
    unstable::sdam::Phase,
};
use onionskin_models::{
    discovery::{Config, Mistake},
    fingerprint::Fingerprint,
};
use onionskin_worlds::strategies::{Cause, Failure, ReplicaSet, address};
use std::{
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    hash::Hash,
    time::Duration,
};

/// The fingerprint of a client's state. It does not depend on times, ids of connections and numbers
/// of clears.
pub(super) type Knowledge = u128;

/// An input of a client about a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum News {
    /// The check under way is answered by this reply.
    Hello(Reply),
    /// The check under way fails, because the server is down.
    Nobody,
    /// The handshake of a new connection of the pool is answered.
    Handshake(Reply),
    /// The connection of an operation breaks.
    Broken(Age),
    /// The server answers an operation with this error.
    Refused(Reply, Age),
}

/// The age of an operation's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Age {
    /// The connection is of the pool's current generation.
    Current,
    /// The connection is of an earlier generation of the pool.
    Stale,
    /// The connection belongs to an earlier life of the server, before the server was removed.
    Dead,
}

/// The effect of an input on a client.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outcome {
    pub(super) knowledge: Knowledge,
    /// True for each server whose pool was cleared.
    pub(super) cleared: [bool; SERVERS],
    /// True for each server that was removed.
    pub(super) removed: [bool; SERVERS],
}

/// The state of a server in the client.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    pub(super) known: bool,
    pub(super) was_cleared: bool,
}

/// All states of clients so far, and the effects of inputs on them.
pub(super) struct Clients {
    clients: BTreeMap<Knowledge, Bench>,
    outcomes: BTreeMap<(Knowledge, usize, News), Outcome>,
    replies: Vec<RawDocumentBuf>,
    numbers: BTreeMap<Vec<u8>, Reply>,
    /// The hello replies of the servers of each set.
    answers: BTreeMap<ReplicaSet, [Option<Reply>; SERVERS]>,
    /// The pairs of a set at rest and a client that were already tested.
    seen: BTreeSet<(ReplicaSet, Knowledge)>,
    first: Knowledge,
}

impl Clients {
    /// Creates the first client, which was just started. The client's model makes `mistake`, if
    /// any.
    pub(super) fn new(mistake: Option<Mistake>) -> Result<Self, String> {
        let mut config = Config::new((0..SERVERS).map(address));
        config.replica_set = Some("rs".to_owned());
        let bench = Bench::paired(&config, mistake)?;
        let first = knowledge(&bench);
        Ok(Self {
            clients: BTreeMap::from([(first, bench)]),
            outcomes: BTreeMap::new(),
            replies: Vec::new(),
            numbers: BTreeMap::new(),
            answers: BTreeMap::new(),
            seen: BTreeSet::new(),
            first,
        })
    }

    pub(super) fn first(&self) -> Knowledge {
        self.first
    }

    /// Returns the number of different states.
    pub(super) fn count(&self) -> usize {
        self.clients.len()
    }

    /// Returns the number of different pairs of a state and an input.
    pub(super) fn transitions(&self) -> usize {
        self.outcomes.len()
    }

    /// Returns the number of a reply. Equal replies have the same number.
    pub(super) fn number(&mut self, reply: &RawDocument) -> Reply {
        let next = Reply(self.replies.len());
        let number = *self
            .numbers
            .entry(reply.as_bytes().to_vec())
            .or_insert(next);
        if number == next {
            self.replies.push(reply.to_owned());
        }
        number
    }

    /// Returns the hello reply of a server of the set; `None` if the server is down.
    pub(super) fn answer(&mut self, set: &ReplicaSet, server: usize) -> Option<Reply> {
        if let Some(answers) = self.answers.get(set) {
            return answers[server];
        }
        let answers = std::array::from_fn(|server| {
            let reply = set.hello(server, false)?;
            Some(self.number(&reply))
        });
        self.answers.insert(set.clone(), answers);
        answers[server]
    }

    /// Notes a pair of a set and a client. Returns true if the pair is new.
    pub(super) fn meet(&mut self, set: &ReplicaSet, knowledge: Knowledge) -> bool {
        self.seen.insert((set.clone(), knowledge))
    }

    /// Returns the state of the server in the client; `None` if the server is not in its topology.
    pub(super) fn seen(&self, knowledge: Knowledge, server: usize) -> Option<Seen> {
        let bench = &self.clients[&knowledge];
        let sdam = &bench.sdam;
        let address = address(server);
        let description = sdam.description().servers.get(&address)?;
        let id = sdam.server_id(&address)?;
        Some(Seen {
            known: description.server_type.is_available(),
            was_cleared: bench.watch.generation(id, None) > 0,
        })
    }

    /// Returns the server that is the primary in the client's topology description.
    pub(super) fn primary(&self, knowledge: Knowledge) -> Option<usize> {
        let primary = self.clients[&knowledge].sdam.description().primary()?;
        (0..SERVERS).find(|&server| address(server) == primary.address)
    }

    /// Returns the effect of an input on a client. The input is played if it is new.
    pub(super) fn hear(
        &mut self,
        knowledge: Knowledge,
        server: usize,
        news: News,
    ) -> Result<Outcome, String> {
        if let Some(outcome) = self.outcomes.get(&(knowledge, server, news)) {
            return Ok(*outcome);
        }
        let before = &self.clients[&knowledge];
        let mut bench = before.clone();
        self.play(&mut bench, server, news)?;
        check_everybody(&mut bench)?;
        succession(before, &bench)?;
        let cleared = |server| generation(&bench, server) > generation(before, server);
        let removed = |server| {
            let id = |bench: &Bench| bench.sdam.server_id(&address(server));
            id(before).is_some() && id(before) != id(&bench)
        };
        let outcome = Outcome {
            knowledge: self::knowledge(&bench),
            cleared: std::array::from_fn(cleared),
            removed: std::array::from_fn(removed),
        };
        self.outcomes.insert((knowledge, server, news), outcome);
        if let Entry::Vacant(vacant) = self.clients.entry(outcome.knowledge) {
            farewell(&bench)?;
            vacant.insert(bench);
        }
        Ok(outcome)
    }

    fn play(&self, bench: &mut Bench, server: usize, news: News) -> Found {
        let round_trip = Duration::from_millis(1);
        match news {
            News::Hello(reply) => {
                let reply = &self.replies[reply.0];
                bench.ask(&address(server), Some(reply), round_trip, false)
            }
            News::Nobody => bench.ask(&address(server), None, round_trip, false),
            News::Handshake(reply) => {
                let known = life(bench, server, Age::Current);
                bench.handshake(&known, &self.replies[reply.0])
            }
            News::Broken(age) => {
                let cause = Cause::Network(NetworkFault::Reset);
                fail_operation(bench, server, age, cause)
            }
            News::Refused(reply, age) => {
                let cause = Cause::Reply(self.replies[reply.0].clone());
                fail_operation(bench, server, age, cause)
            }
        }
    }
}

fn fail_operation(bench: &mut Bench, server: usize, age: Age, cause: Cause) -> Found {
    let failure = Failure {
        phase: Phase::Operation,
        cause,
        overloaded: false,
    };
    let known = life(bench, server, age);
    let generations = u64::from(age != Age::Current);
    bench.application_error(&known, generations, &failure, None)
}

/// Returns the current life of a server, or the latest earlier one for [`Age::Dead`]. If there is
/// none, returns a life with an id that the machine does not know.
fn life(bench: &Bench, server: usize, age: Age) -> Known {
    let address = address(server);
    let current = bench.sdam.server_id(&address);
    let wanted = |known: &&Known| {
        known.address == address && (Some(known.id) == current) == (age != Age::Dead)
    };
    let known = bench.lives.iter().rev().find(wanted).cloned();
    known.unwrap_or(Known {
        id: ServerId(u64::MAX),
        address,
        life: 0,
    })
}

fn generation(bench: &Bench, server: usize) -> u64 {
    let id = bench.sdam.server_id(&address(server));
    id.map_or(0, |id| bench.watch.generation(id, None))
}

/// Lets time pass until each server has a check under way.
fn check_everybody(bench: &mut Bench) -> Found {
    let servers = &bench.sdam.description().servers;
    if servers.keys().all(|a| bench.watch.pending(a).is_some()) {
        return Ok(());
    }
    bench.request_check()?;
    bench.pass(Duration::from_millis(500))
}

/// Checks that a replaced primary does not become the primary again: the `electionId` of the
/// primary is not lower than the highest one before.
fn succession(before: &Bench, after: &Bench) -> Found {
    let newest = before.sdam.description().max_election_id;
    let description = after.sdam.description();
    let id: Option<ObjectId> = description.primary().and_then(|p| p.election_id);
    if id.is_some() && id < newest {
        return Err(format!("{description} after {newest:?}"));
    }
    Ok(())
}

/// Closes the client in this state, and checks that nothing is left (E.6-5). Late replies on closed
/// connections change nothing, before and after the close (E.6-6).
fn farewell(bench: &Bench) -> Found {
    let mut bench = bench.clone();
    let late = rawdoc! { "ok": 1, "msg": "isdbgrid" };
    for (check, _) in bench.checks.clone().iter().rev().take(SERVERS + 1) {
        bench.answer_late(*check, &late)?;
    }
    bench.close()?;
    match bench.checks.last().cloned() {
        Some((check, _)) => bench.answer_late(check, &late),
        None => Ok(()),
    }
}

fn knowledge(bench: &Bench) -> Knowledge {
    let mut fingerprint = Fingerprint::default();
    let hasher = &mut fingerprint;
    let description = bench.sdam.description();
    (description.topology_type as u8).hash(hasher);
    (description.max_election_id, description.max_set_version).hash(hasher);
    for (address, server) in &description.servers {
        let kind = match server.server_type {
            ServerType::PossiblePrimary => ServerType::Unknown,
            other => other,
        };
        let version = server.topology_version.map(|v| (v.process_id, v.counter));
        let id = bench.sdam.server_id(address);
        let generation = id.map_or(0, |id| bench.watch.generation(id, None));
        let pool = id.and_then(|id| bench.watch.pools.get(&id));
        let pool = pool.map(|(_, state, _)| *state as u8);
        (address, kind as u8, version, pool, generation > 0).hash(hasher);
    }
    fingerprint.value()
}
