//! One world: a replica set, its replies under way, and the state of the client.

use super::{
    Bounds, SERVERS,
    client::{Age, Clients, Knowledge, News},
};
use bson::{RawDocument, cstr, rawdoc};
use onionskin_worlds::strategies::{ReplicaSet, Role, Step};

/// The number of a reply in [`Clients`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Reply(pub(super) usize);

/// One event of a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Move {
    /// The set changes.
    Set(Step),
    /// The server answers the check under way, and the reply arrives at once.
    Hear(usize),
    /// The server answers the check under way, but the reply is late.
    Delay(usize),
    /// The server answers the handshake of a new connection of the pool, but the reply is late.
    DelayHandshake(usize),
    /// The late reply arrives.
    Arrive,
    /// The check under way fails, because the server is down.
    Lose(usize),
    /// The connection of an operation breaks.
    Break(usize, Age),
    /// The server answers an operation with this error code.
    Refuse(usize, i32),
    /// The error reply of `Refuse` arrives.
    Refused,
}

/// A late reply to hello.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Delayed {
    server: usize,
    reply: Reply,
    handshake: bool,
    /// True if the reply is dropped, because the server was removed or the check was cancelled.
    dead: bool,
}

/// An error reply under way, and the age that its connection has now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Refusal {
    server: usize,
    reply: Reply,
    age: Age,
}

/// The set, the replies under way, and the state of the client.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct World {
    set: ReplicaSet,
    delayed: Option<Delayed>,
    refusal: Option<Refusal>,
    errors: u8,
    delays: u8,
    step_downs: u8,
    client: Knowledge,
}

impl World {
    pub(super) fn new(bounds: Bounds, clients: &Clients) -> Self {
        Self {
            set: ReplicaSet::new(&[Role::Normal; SERVERS], SERVERS, bounds.wire_version),
            delayed: None,
            refusal: None,
            errors: 0,
            delays: 0,
            step_downs: 0,
            client: clients.first(),
        }
    }

    /// Returns all events that are possible now.
    pub(super) fn moves(&self, bounds: Bounds, clients: &Clients) -> Vec<Move> {
        let mut moves = Vec::new();
        for server in 0..SERVERS {
            self.set_moves(server, bounds, &mut moves);
            self.client_moves(server, bounds, clients, &mut moves);
        }
        if self.delayed.is_some() {
            moves.push(Move::Arrive);
        }
        if self.refusal.is_some() {
            moves.push(Move::Refused);
        }
        moves
    }

    fn set_moves(&self, server: usize, bounds: Bounds, moves: &mut Vec<Move>) {
        let more_versions = self.set.version() - 1 < bounds.reconfigurations;
        // All servers are equal before the first election, so only server 0 can win it. Other
        // winners would give equivalent worlds.
        let may_win = server == 0 || self.set.term() > 0;
        let steps = [
            (true, Step::Learn(server)),
            (self.step_downs < bounds.step_downs, Step::StepDown(server)),
            (
                may_win && self.set.term() < bounds.terms,
                Step::Elect(server),
            ),
            (more_versions, Step::Remove(server)),
            (more_versions, Step::Add(server, Role::Normal)),
            // A server that is down starts again later, so it already counts as a restart.
            (
                self.set.restarts() + self.down() < bounds.restarts,
                Step::Stop(server),
            ),
            (true, Step::Start(server)),
        ];
        let possible = steps.into_iter().filter(|(can, _)| *can);
        moves.extend(possible.map(|(_, step)| Move::Set(step)));
    }

    fn client_moves(
        &self,
        server: usize,
        bounds: Bounds,
        clients: &Clients,
        moves: &mut Vec<Move>,
    ) {
        let Some(seen) = clients.seen(self.client, server) else {
            return;
        };
        let up = self.set.is_up(server);
        let waits = self
            .delayed
            .is_some_and(|d| d.server == server && !d.handshake && !d.dead);
        if !waits {
            moves.push(if up {
                Move::Hear(server)
            } else {
                Move::Lose(server)
            });
        }
        if up && self.delayed.is_none() && self.delays < bounds.delays {
            moves.push(Move::Delay(server));
            if seen.known {
                moves.push(Move::DelayHandshake(server));
            }
        }
        if self.errors >= bounds.errors {
            return;
        }
        if seen.known {
            moves.push(Move::Break(server, Age::Current));
        }
        if seen.was_cleared {
            moves.push(Move::Break(server, Age::Stale));
        }
        if up && self.refusal.is_none() && seen.known {
            // The codes are `NotWritablePrimary` and `ShutdownInProgress`.
            moves.extend([Move::Refuse(server, 10107), Move::Refuse(server, 91)]);
        }
    }

    fn down(&self) -> u32 {
        let down = (0..SERVERS).filter(|&server| !self.set.is_up(server));
        u32::try_from(down.count()).unwrap_or(0)
    }

    /// Applies the event. Returns false if the event is not possible.
    pub(super) fn apply(&mut self, what: Move, clients: &mut Clients) -> Result<bool, String> {
        match what {
            Move::Set(step) => {
                self.step_downs += u8::from(matches!(step, Step::StepDown(_)));
                return Ok(self.set.step(step));
            }
            Move::Hear(server) => {
                let Some(reply) = clients.answer(&self.set, server) else {
                    return Ok(false);
                };
                self.hear(server, News::Hello(reply), clients)?;
            }
            Move::Delay(server) | Move::DelayHandshake(server) => {
                let Some(reply) = clients.answer(&self.set, server) else {
                    return Ok(false);
                };
                self.delays += 1;
                self.delayed = Some(Delayed {
                    server,
                    reply,
                    handshake: matches!(what, Move::DelayHandshake(_)),
                    dead: false,
                });
            }
            Move::Arrive => match self.delayed.take() {
                // A reply of a removed server, or to a cancelled check, changes nothing. `farewell`
                // tests this in each state of the client.
                Some(delayed) if !delayed.dead => {
                    let news = if delayed.handshake {
                        News::Handshake(delayed.reply)
                    } else {
                        News::Hello(delayed.reply)
                    };
                    self.hear(delayed.server, news, clients)?;
                }
                _ => {}
            },
            Move::Lose(server) => self.hear(server, News::Nobody, clients)?,
            Move::Break(server, age) => {
                self.errors += 1;
                self.hear(server, News::Broken(age), clients)?;
            }
            Move::Refuse(server, code) => {
                let Some(hello) = self.set.hello(server, false) else {
                    return Ok(false);
                };
                self.errors += 1;
                self.refusal = Some(Refusal {
                    server,
                    reply: clients.number(&refusal(code, &hello)),
                    age: Age::Current,
                });
            }
            Move::Refused => {
                if let Some(Refusal { server, reply, age }) = self.refusal.take() {
                    self.hear(server, News::Refused(reply, age), clients)?;
                }
            }
        }
        Ok(true)
    }

    fn hear(&mut self, server: usize, news: News, clients: &mut Clients) -> Result<(), String> {
        let outcome = clients.hear(self.client, server, news)?;
        self.client = outcome.knowledge;
        if let Some(refusal) = &mut self.refusal {
            if outcome.removed[refusal.server] {
                refusal.age = Age::Dead;
            } else if outcome.cleared[refusal.server] && refusal.age == Age::Current {
                refusal.age = Age::Stale;
            }
        }
        if let Some(delayed) = &mut self.delayed {
            delayed.dead |= outcome.removed[delayed.server];
            // A check that the error of an operation cancelled gets no reply.
            let cancelled = news == News::Broken(Age::Current) && server == delayed.server;
            delayed.dead |= cancelled && !delayed.handshake;
        }
        Ok(())
    }

    /// Drops the late replies, starts all servers, lets them learn the state of the set, and
    /// answers three checks of each server. If the set has a primary, the client must know this
    /// primary afterwards.
    pub(super) fn converges(&self, clients: &mut Clients) -> Result<(), String> {
        let mut world = self.clone();
        (world.delayed, world.refusal) = (None, None);
        for server in 0..SERVERS {
            world.set.step(Step::Start(server));
        }
        for server in 0..SERVERS {
            world.set.step(Step::Learn(server));
        }
        if !clients.meet(&world.set, world.client) {
            return Ok(());
        }
        for server in (0..SERVERS).cycle().take(3 * SERVERS) {
            if clients.seen(world.client, server).is_some() {
                world.apply(Move::Hear(server), clients)?;
            }
        }
        let (there, found) = (world.set.primary(), clients.primary(world.client));
        if there.is_some() && there != found {
            return Err(format!("the primary is {there:?}, but found was {found:?}"));
        }
        Ok(())
    }
}

/// Returns an error reply to an operation, with the current topology version of the server.
fn refusal(code: i32, hello: &RawDocument) -> bson::RawDocumentBuf {
    let mut reply = rawdoc! { "ok": 0, "code": code, "errmsg": "no" };
    if let Ok(version) = hello.get_document("topologyVersion") {
        reply.append(cstr!("topologyVersion"), version.to_owned());
    }
    reply
}
