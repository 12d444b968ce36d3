//! A harness for the discovery machine, which feeds inputs and checks the orders. If there is a
//! model, the harness compares the machine with it.

use crate::watch::Watcher;
use bson::{RawDocument, oid::ObjectId};
use onionskin_core::{
    address::Address,
    description::{ServerId, TopologyId},
    error::{Error, NetworkFault, Wait},
    time::Instant,
    unstable::{
        hello::HelloAnswer,
        hello::HelloReply,
        sdam::{ApplicationError, MonitorConnectionId, MonitorTask, Order, Sdam, SdamOptions},
    },
};
use onionskin_models::discovery::{Config, Machine, Mistake, Model};
use onionskin_worlds::strategies::Failure;
use std::{collections::BTreeMap, time::Duration};

pub(crate) type Found = Result<(), String>;

/// Returns the options of the machine for the configuration of the model.
pub(crate) fn options(config: &Config) -> SdamOptions {
    let id = TopologyId(ObjectId::from_bytes([1; 12]));
    SdamOptions {
        replica_set: config.replica_set.clone(),
        direct_connection: config.direct,
        load_balanced: config.load_balanced,
        heartbeat_frequency: config.heartbeat,
        connect_timeout: config.connect_timeout,
        streaming: config.streaming,
        ..SdamOptions::new(id, config.seeds.iter().cloned().collect())
    }
}

/// One life of a server: the time from when its address is added to the topology until it is
/// removed.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub(crate) id: ServerId,
    pub(crate) address: Address,
    /// The number of this life, counted from one for each address.
    pub(crate) life: u64,
}

/// The discovery machine with its watcher and, if created by `paired`, with the model.
#[derive(Clone, Debug)]
pub(crate) struct Bench {
    pub(crate) sdam: Sdam,
    pub(crate) watch: Watcher,
    pub(crate) model: Option<Model>,
    pub(crate) now: Instant,
    /// All lives of all servers so far.
    pub(crate) lives: Vec<Known>,
    /// All monitor connections so far, with the addresses of their servers.
    pub(crate) checks: Vec<(MonitorConnectionId, Address)>,
    /// The orders so far as text, if a test wants them.
    pub(crate) log: Option<Vec<String>>,
    config: Config,
}

impl Bench {
    /// Creates and starts a machine without a model.
    pub(crate) fn alone(config: &Config) -> Result<Self, String> {
        Self::new(config, None)
    }

    /// Creates and starts a machine and a model. The model makes `mistake`, if any.
    pub(crate) fn paired(config: &Config, mistake: Option<Mistake>) -> Result<Self, String> {
        Self::new(config, Some(Model::new(config.clone(), mistake)))
    }

    fn new(config: &Config, model: Option<Model>) -> Result<Self, String> {
        let sdam = Sdam::new(options(config));
        let mut bench = Self {
            watch: Watcher::new(&sdam, config.load_balanced),
            sdam,
            model,
            now: Instant::ZERO,
            lives: Vec::new(),
            checks: Vec::new(),
            log: None,
            config: config.clone(),
        };
        bench.feed(|sdam, now| sdam.start(now))?;
        bench.compare()?;
        Ok(bench)
    }

    /// Gives the machine one input, and hands the resulting orders to the watcher. Returns the
    /// number of orders.
    fn feed(&mut self, input: impl FnOnce(&mut Sdam, Instant)) -> Result<usize, String> {
        input(&mut self.sdam, self.now);
        let mut count = 0;
        while let Some(order) = self.sdam.poll_order() {
            count += 1;
            if let Some(log) = &mut self.log {
                log.push(format!("{order:?}"));
            }
            if let Order::Open {
                connection: check,
                address,
                ..
            } = &order
            {
                self.checks.push((*check, address.clone()));
            }
            self.watch.on_order(self.now, &order)?;
        }
        self.watch.settle(&self.sdam)?;
        self.register_lives();
        Ok(count)
    }

    fn register_lives(&mut self) {
        for address in self.sdam.description().servers.keys() {
            let Some(id) = self.sdam.server_id(address) else {
                continue;
            };
            if self.lives.iter().all(|known| known.id != id) {
                let earlier = self.lives.iter().filter(|known| known.address == *address);
                self.lives.push(Known {
                    id,
                    address: address.clone(),
                    life: u64::try_from(earlier.count()).unwrap_or(0) + 1,
                });
            }
        }
    }

    /// Gives the machine a stale input, for example one about a server or connection that is gone.
    /// Such an input must change nothing and cause no order (E.6-6).
    fn feed_in_vain(&mut self, input: impl FnOnce(&mut Sdam, Instant)) -> Found {
        let before = (self.sdam.version(), self.sdam.deadline());
        let ordered = self.feed(input)?;
        if ordered > 0 || before != (self.sdam.version(), self.sdam.deadline()) {
            return Err("an input about what is gone had an effect".to_owned());
        }
        self.compare()
    }

    /// Compares the machine with the model, if there is one.
    fn compare(&mut self) -> Found {
        let mut clears = std::mem::take(&mut self.watch.clears);
        clears.sort();
        let Some(model) = &mut self.model else {
            return Ok(());
        };
        let mut expected = model.take_clears();
        expected.sort();
        if clears != expected {
            return Err(format!("cleared: {clears:?}, but expected {expected:?}"));
        }
        let pools = self.watch.pools.values();
        let pools: BTreeMap<_, _> = pools.map(|(a, p, g)| (a.clone(), (*p, *g))).collect();
        model.agree(&Machine {
            topology: self.sdam.description(),
            pools,
            checking: self.watch.checking(),
        })?;
        let (machine, expected) = (self.sdam.deadline(), model.deadline());
        // With streaming, the machine also has timers for round trip time measurements, which the
        // model lacks.
        let agreed = if self.config.streaming {
            expected.is_none_or(|e| machine.is_some_and(|m| m <= e))
        } else {
            machine == expected
        };
        if agreed {
            return Ok(());
        }
        Err(format!("deadline: {machine:?}, but expected {expected:?}"))
    }

    /// Advances the time by `duration`. Calls `handle_timeout` at each deadline on the way, and at
    /// the end.
    pub(crate) fn pass(&mut self, duration: Duration) -> Found {
        let target = self.now + duration;
        while let Some(deadline) = self.sdam.deadline().filter(|d| *d <= target) {
            if deadline < self.now {
                return Err(format!("{deadline:?} is past"));
            }
            self.tick(deadline)?;
            if self.sdam.deadline().is_some_and(|next| next <= deadline) {
                return Err("a timer neither cleared nor moved".to_owned());
            }
        }
        self.tick(target)
    }

    fn tick(&mut self, now: Instant) -> Found {
        self.now = now;
        self.feed(|sdam, now| sdam.handle_timeout(now))?;
        if let Some(model) = &mut self.model {
            model.pass(now);
        }
        self.compare()
    }

    /// Requests an immediate check of all servers.
    pub(crate) fn request_check(&mut self) -> Found {
        self.feed(|sdam, now| sdam.request_check(now))?;
        if let Some(model) = &mut self.model {
            model.request_check();
        }
        self.compare()
    }

    /// Tells machine and model whether operations wait for a server.
    pub(crate) fn set_waiting(&mut self, waiting: bool) -> Found {
        self.feed(|sdam, now| sdam.set_waiting(now, waiting))?;
        if let Some(model) = &mut self.model {
            model.set_waiting(waiting);
        }
        self.compare()
    }

    /// Closes the machine and the model.
    pub(crate) fn close(&mut self) -> Found {
        self.feed(|sdam, now| sdam.close(now))?;
        if let Some(model) = &mut self.model {
            model.close();
        }
        self.compare()
    }

    /// Answers the server's check that is under way. Without a reply, the check fails with a
    /// network error. Returns false if no check of the server is under way.
    pub(crate) fn answer(
        &mut self,
        address: &Address,
        reply: Option<&RawDocument>,
        round_trip: Duration,
        more_to_come: bool,
    ) -> Result<bool, String> {
        let Some(check) = self.watch.pending(address) else {
            return Ok(false);
        };
        let Some(reply) = reply else {
            self.fail(address, false)?;
            return Ok(true);
        };
        let connection = &self.watch.connections[&check];
        let (open, awaited) = (connection.open, connection.awaited);
        let more_to_come = more_to_come && awaited;
        self.watch.on_answered(check, more_to_come);
        self.feed(|sdam, now| {
            if open {
                sdam.handle_reply(
                    now,
                    check,
                    HelloAnswer::new(reply.to_owned()),
                    round_trip,
                    more_to_come,
                );
            } else {
                sdam.handle_connected(now, check, HelloAnswer::new(reply.to_owned()), round_trip);
            }
        })?;
        if let Some(model) = &mut self.model {
            model.on_check_reply(address, reply, round_trip, awaited, more_to_come);
        }
        self.compare()?;
        Ok(true)
    }

    /// Lets the server's check that is under way fail, with a timeout or another network error.
    /// Returns false if no check of the server is under way.
    pub(crate) fn fail(&mut self, address: &Address, timeout: bool) -> Result<bool, String> {
        let Some(check) = self.watch.pending(address) else {
            return Ok(false);
        };
        self.watch.on_broken(check);
        self.feed(|sdam, now| sdam.handle_failed(now, check, broken(timeout)))?;
        if let Some(model) = &mut self.model {
            model.on_check_failed(address, timeout);
        }
        self.compare()?;
        Ok(true)
    }

    /// Lets time pass until a check of the server is under way, and answers the check. For a server
    /// that is not in the topology, the reply comes late on the server's last connection and
    /// changes nothing.
    pub(crate) fn ask(
        &mut self,
        address: &Address,
        reply: Option<&RawDocument>,
        round_trip: Duration,
        more_to_come: bool,
    ) -> Found {
        if self.sdam.server_id(address).is_none() {
            let last = self.checks.iter().rev().find(|(_, a)| a == address);
            return match (last.cloned(), reply) {
                (Some((check, _)), Some(reply)) => self.answer_late(check, reply),
                _ => Ok(()),
            };
        }
        if self.watch.pending(address).is_none() && round_trip.as_millis().is_multiple_of(2) {
            self.request_check()?;
            self.pass(Duration::from_millis(500))?;
        }
        // The checks of other servers stay unanswered. The server's own next check is due at one of
        // the deadlines.
        while self.watch.pending(address).is_none() && !self.config.load_balanced {
            let Some(deadline) = self.sdam.deadline() else {
                break;
            };
            self.pass(deadline.saturating_since(self.now))?;
        }
        if self.answer(address, reply, round_trip, more_to_come)? || self.config.load_balanced {
            return Ok(());
        }
        Err(format!("{address} was wanted checked and is not"))
    }

    /// Gives the machine inputs about a connection that is closed: a first reply, a later reply and
    /// a failure. These inputs must change nothing. Does nothing if the connection still exists.
    pub(crate) fn answer_late(&mut self, check: MonitorConnectionId, reply: &RawDocument) -> Found {
        if self.watch.connections.contains_key(&check) {
            return Ok(());
        }
        let round_trip = Duration::from_millis(1);
        self.feed_in_vain(|sdam, now| {
            sdam.handle_connected(now, check, HelloAnswer::new(reply.to_owned()), round_trip)
        })?;
        self.feed_in_vain(|sdam, now| {
            sdam.handle_reply(
                now,
                check,
                HelloAnswer::new(reply.to_owned()),
                round_trip,
                true,
            )
        })?;
        self.feed_in_vain(|sdam, now| sdam.handle_failed(now, check, broken(false)))
    }

    /// Answers the round trip time measurement that is under way, or lets it fail without a reply.
    /// The measurement must not change the topology (E.6-9). Returns false if no measurement is
    /// under way.
    pub(crate) fn measure(&mut self, reply: Option<&RawDocument>) -> Result<bool, String> {
        let connections = &self.watch.connections;
        let round_trip = connections
            .iter()
            .find(|(_, c)| c.task == MonitorTask::Rtt && c.pending);
        let Some((check, open)) = round_trip.map(|(id, c)| (*id, c.open)) else {
            return Ok(false);
        };
        let before = self.sdam.description().clone();
        match reply {
            None => {
                self.watch.on_broken(check);
                self.feed(|sdam, now| sdam.handle_failed(now, check, broken(false)))?;
            }
            Some(reply) => {
                self.watch.on_answered(check, false);
                let round_trip = Duration::from_millis(3);
                self.feed(|sdam, now| {
                    if open {
                        sdam.handle_reply(
                            now,
                            check,
                            HelloAnswer::new(reply.to_owned()),
                            round_trip,
                            false,
                        );
                    } else {
                        sdam.handle_connected(
                            now,
                            check,
                            HelloAnswer::new(reply.to_owned()),
                            round_trip,
                        );
                    }
                })?;
            }
        }
        if !before.is_same(self.sdam.description()) {
            return Err("a measurement changed the topology".to_owned());
        }
        self.compare()?;
        Ok(true)
    }

    /// Gives the machine the handshake reply of a new connection of a pool.
    pub(crate) fn handshake(&mut self, known: &Known, reply: &RawDocument) -> Found {
        let id = known.id;
        let hello = HelloReply::parse(reply);
        let input = |sdam: &mut Sdam, now| sdam.handle_application_handshake(now, id, hello);
        if self.sdam.server_id(&known.address) != Some(id) {
            return self.feed_in_vain(input);
        }
        self.feed(input)?;
        if let Some(model) = &mut self.model {
            model.on_handshake(&known.address, known.life, reply);
        }
        self.compare()
    }

    /// Gives the machine the error of an operation, or of a new connection of a pool. The
    /// generation of the connection is `age` lower than that of its pool or service.
    pub(crate) fn application_error(
        &mut self,
        known: &Known,
        age: u64,
        failure: &Failure,
        service: Option<ObjectId>,
    ) -> Found {
        let Some(error) = failure.error() else {
            return Ok(());
        };
        let current = self.watch.generation(known.id, service.as_ref());
        let generation = current.saturating_sub(age);
        let error = ApplicationError {
            error,
            phase: failure.phase,
            is_stale: generation < current,
            service,
        };
        let id = known.id;
        let input = |sdam: &mut Sdam, now| sdam.handle_application_error(now, id, &error);
        // A stale error (E.6-4) and an error of a removed server (E.6-6) change nothing.
        if self.sdam.server_id(&known.address) != Some(id) || generation < current {
            self.feed_in_vain(input)?;
        } else {
            self.feed(input)?;
        }
        if let Some(model) = &mut self.model {
            let Known { address, life, .. } = known;
            model.on_application_error(address, *life, generation, service, failure);
        }
        self.compare()
    }
}

fn broken(timeout: bool) -> Error {
    if timeout {
        Error::timeout(Wait::Handshake, "no answer")
    } else {
        Error::network(NetworkFault::Reset, "the connection broke")
    }
}
