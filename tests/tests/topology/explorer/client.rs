//! The clients of all worlds. What a client does next depends on what it knows and on what it
//! hears, so each pair of both is played once, on the machine and the model side by side.

use super::{SERVERS, world::Reply};
use crate::bench::{Bench, Found, Known};
use bson::{RawDocument, RawDocumentBuf, oid::ObjectId, rawdoc};
use onionskin_core::{
    description::{ServerId, ServerType},
    error::NetworkFault,
    sdam::Phase,
};
use onionskin_simulations::strategies::{Cause, Failure, ReplicaSet, address};
use onionskin_tests::model::{Config, Mistake};
use std::{
    collections::{BTreeMap, BTreeSet, btree_map::Entry, hash_map::DefaultHasher},
    hash::{Hash, Hasher},
    time::Duration,
};

/// What a client knows, hashed: without times, numbers of connections and counts of generations.
pub(super) type Knowledge = (u64, u64);

/// Something that a client hears about a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum News {
    /// The running check is answered.
    Hello(Reply),
    /// The running check finds nobody.
    Nobody,
    /// A new connection of the pool shook hands.
    Handshake(Reply),
    /// An operation's connection breaks.
    Broken(Age),
    /// The server refuses an operation.
    Refused(Reply, Age),
}

/// How old the connection of an operation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Age {
    /// Of the pool's generation.
    Current,
    /// Of an earlier generation.
    Stale,
    /// Of an earlier life of the server.
    Dead,
}

/// What came of some news.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outcome {
    pub(super) knowledge: Knowledge,
    /// Servers whose pool was cleared.
    pub(super) cleared: [bool; SERVERS],
    /// Servers that were removed.
    pub(super) removed: [bool; SERVERS],
}

/// A server as the client sees it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    pub(super) known: bool,
    pub(super) was_cleared: bool,
}

/// All clients so far, and what news made of them.
pub(super) struct Clients {
    clients: BTreeMap<Knowledge, Bench>,
    outcomes: BTreeMap<(Knowledge, usize, News), Outcome>,
    replies: Vec<RawDocumentBuf>,
    numbers: BTreeMap<Vec<u8>, Reply>,
    /// What the servers of a set answer.
    answers: BTreeMap<ReplicaSet, [Option<Reply>; SERVERS]>,
    /// Sets at rest that were seen with clients.
    rested: BTreeSet<(ReplicaSet, Knowledge)>,
    first: Knowledge,
}

impl Clients {
    /// One client that was just started; its model makes that mistake.
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
            rested: BTreeSet::new(),
            first,
        })
    }

    pub(super) fn first(&self) -> Knowledge {
        self.first
    }

    /// How many different ones there are.
    pub(super) fn count(&self) -> usize {
        self.clients.len()
    }

    /// How many different things happened to them.
    pub(super) fn transitions(&self) -> usize {
        self.outcomes.len()
    }

    /// The number of a reply.
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

    /// What that server of the set answers; `None` while it is down.
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

    /// True for the first time that this client meets that set.
    pub(super) fn meet(&mut self, set: &ReplicaSet, knowledge: Knowledge) -> bool {
        self.rested.insert((set.clone(), knowledge))
    }

    /// What the client knows of the server, if it knows of it at all.
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

    /// Whom the client takes for the primary.
    pub(super) fn primary(&self, knowledge: Knowledge) -> Option<usize> {
        let primary = self.clients[&knowledge].sdam.description().primary()?;
        (0..SERVERS).find(|&server| address(server) == primary.address)
    }

    /// The client hears it.
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
        let ping = Duration::from_millis(1);
        match news {
            News::Hello(reply) => {
                let reply = &self.replies[reply.0];
                bench.ask(&address(server), Some(reply), ping, false)
            }
            News::Nobody => bench.ask(&address(server), None, ping, false),
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

/// The present life of a server, or one that is over.
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

/// Time is of no interest here: whoever could be checked is being checked.
fn check_everybody(bench: &mut Bench) -> Found {
    let servers = &bench.sdam.description().servers;
    if servers.keys().all(|a| bench.watch.pending(a).is_some()) {
        return Ok(());
    }
    bench.request_check()?;
    bench.pass(Duration::from_millis(500))
}

/// A primary that was replaced never comes back.
fn succession(before: &Bench, after: &Bench) -> Found {
    let newest = before.sdam.description().max_election_id;
    let description = after.sdam.description();
    let id: Option<ObjectId> = description.primary().and_then(|p| p.election_id);
    if id.is_some() && id < newest {
        return Err(format!("{description} after {newest:?}"));
    }
    Ok(())
}

/// From every state the client can be closed, and nothing is left; answers on connections that are
/// gone change nothing (E.6-5, E.6-6).
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
    let hash = |seed: u8| {
        let mut hasher = DefaultHasher::new();
        hasher.write_u8(seed);
        hash_into(bench, &mut hasher);
        hasher.finish()
    };
    (hash(0), hash(1))
}

fn hash_into(bench: &Bench, hasher: &mut DefaultHasher) {
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
}
