//! The faults of a scenario, on real sockets.

use super::{
    Fate, Shared,
    peer::{Peer, Slowness, Towards},
};
use crate::{ServeOptions, scenario::is_of_clients};
use onionskin_core::{
    random::{Random, Seed},
    time::Instant,
};
use onionskin_deployment::deployment::{Action, ConnId, MemberState};
use onionskin_worlds::world::{
    Disaster, Mishap, Mishaps, Rates, SlowMember, SlowMembers, Span, VoidEvent,
    mishap::{flip, is_drawn, latency, pieces},
};
use std::{
    cell::{Cell, RefCell},
    collections::{BTreeSet, VecDeque},
    io::ErrorKind,
    rc::Rc,
    time::Duration,
};
use tokio::net::TcpStream;

/// The largest number of connections that get no answer, and of those whose end the client does not
/// see. The oldest one is closed for a new one.
const MAX_SILENT: usize = 100;

/// The largest number of disasters that [`Status`](crate::Status) has.
const MAX_DISASTERS: usize = 1000;

/// The faults of a running scenario.
pub(super) struct Faults {
    rates: Cell<Rates>,
    latency: (Duration, Duration),
    random: RefCell<Random>,
    /// The members and directions in which bytes of clients are lost.
    cuts: RefCell<BTreeSet<(usize, Towards)>>,
    slow: RefCell<SlowMembers>,
    /// The disasters that come, the next one first.
    plan: RefCell<VecDeque<(Instant, Disaster)>>,
    /// The latest disasters that have happened.
    past: RefCell<VecDeque<(Instant, Disaster)>>,
    /// The number of disasters that have happened, and the latest ones that had no effect.
    happened: Cell<u64>,
    void: RefCell<VecDeque<VoidEvent>>,
    /// Connections that get no answer.
    vanished: RefCell<VecDeque<TcpStream>>,
    /// Connections that the server has closed, and whose clients get no bytes.
    silent: RefCell<VecDeque<Rc<Peer>>>,
}

impl From<&SlowMember> for Slowness {
    fn from(slow: &SlowMember) -> Self {
        Self {
            reads: slow.reads,
            writes: slow.writes,
            bytes: slow.bytes,
            pause: slow.pause.map(|Span(pause)| pause),
        }
    }
}

impl Faults {
    /// Takes the faults out of the options, if there are any.
    pub(super) fn of(options: &mut ServeOptions, seed: &Seed) -> Option<Self> {
        let options = options.faults.take()?;
        Some(Self {
            rates: Cell::new(options.rates),
            latency: options.latency,
            random: RefCell::new(seed.split("sockets").random()),
            cuts: RefCell::default(),
            slow: RefCell::default(),
            plan: RefCell::new(options.plan),
            past: RefCell::default(),
            happened: Cell::new(0),
            void: RefCell::default(),
            vanished: RefCell::default(),
            silent: RefCell::default(),
        })
    }

    /// Returns the time of the next disaster.
    pub(super) fn next_at(&self) -> Option<Instant> {
        self.plan.borrow().front().map(|(at, _)| *at)
    }

    /// Returns the latest disasters, the oldest one first.
    pub(super) fn past(&self) -> Vec<(Duration, Disaster)> {
        let timed = |(at, disaster): &(Instant, Disaster)| (at.since_start(), disaster.clone());
        self.past.borrow().iter().map(timed).collect()
    }

    /// Returns the number of disasters that have happened.
    pub(super) fn happened(&self) -> u64 {
        self.happened.get()
    }

    /// Returns the latest disasters that had no effect, the oldest one first.
    pub(super) fn void(&self) -> Vec<VoidEvent> {
        self.void.borrow().iter().cloned().collect()
    }

    /// Returns the slowness of a member, if it is slow.
    pub(super) fn slowness_of(&self, member: usize) -> Option<Slowness> {
        self.slow.borrow().get(member).map(Slowness::from)
    }

    /// Decides about a new connection. Returns `None` if it is refused, or if it gets no answer.
    pub(super) fn admit(&self, stream: TcpStream) -> Option<TcpStream> {
        let (rates, mut random) = (self.rates.get(), self.random.borrow_mut());
        if is_drawn(&mut random, rates.vanish) {
            let mut vanished = self.vanished.borrow_mut();
            // A client that has given up needs no socket any more.
            vanished.retain(is_open);
            if vanished.len() == MAX_SILENT {
                vanished.pop_front();
            }
            vanished.push_back(stream);
            return None;
        }
        if is_drawn(&mut random, rates.refuse) {
            // The system has accepted the connection, so the client sees a reset.
            let _ = stream.set_zero_linger();
            return None;
        }
        Some(stream)
    }

    /// Sends a reply, with the faults that are drawn for it.
    pub(super) fn reply(&self, now: Instant, peer: &Peer, mut bytes: Vec<u8>) {
        if self.is_lost(peer, Towards::Client) {
            return;
        }
        let mut random = self.random.borrow_mut();
        let Mishaps { stall, fault } = self.rates.get().draw(&mut random, bytes.len(), true);
        let delay = stall.unwrap_or_default() + latency(&mut random, self.latency);
        let at = now + delay;
        match fault {
            None => peer.post(now, at, bytes),
            Some(Mishap::HalfOpen) => peer.fall_silent(),
            Some(Mishap::Reset { arrives }) => {
                if arrives {
                    peer.post(now, at, bytes);
                }
                peer.post_reset(now, at);
            }
            Some(Mishap::Truncate(length)) => {
                bytes.truncate(length);
                peer.post(now, at, bytes);
                peer.post_reset(now, at);
            }
            Some(Mishap::Corrupt(bit)) => {
                flip(&mut bytes, bit);
                peer.post(now, at, bytes);
            }
            Some(Mishap::Duplicate) => {
                peer.post(now, at, bytes.clone());
                peer.post(now, at, bytes);
            }
            Some(Mishap::Slow) => {
                for (after, piece) in pieces(&mut random, &bytes) {
                    peer.post(now, at + after, piece.to_vec());
                }
            }
        }
    }

    /// Decides about bytes that a client has sent.
    pub(super) fn request(&self, now: Instant, peer: &Peer, bytes: &[u8]) -> Fate {
        let continues = peer.continues_message(bytes);
        if self.is_lost(peer, Towards::Member) {
            return Fate::Kept;
        }
        // The faults of a message are drawn at its beginning.
        if continues {
            return Fate::Arrive;
        }
        let mut random = self.random.borrow_mut();
        let Mishaps { stall, fault } = self.rates.get().draw(&mut random, bytes.len(), false);
        let delay = stall.unwrap_or_default() + latency(&mut random, self.latency);
        match fault {
            Some(Mishap::HalfOpen) => peer.fall_silent(),
            Some(Mishap::Reset { arrives: true }) => return Fate::ArriveAndBreak,
            Some(Mishap::Reset { arrives: false }) => peer.reset(),
            Some(Mishap::Slow) => {
                for (after, piece) in pieces(&mut random, bytes) {
                    peer.keep_request(now + delay + after, piece.to_vec());
                }
            }
            Some(Mishap::Truncate(_) | Mishap::Corrupt(_) | Mishap::Duplicate) | None
                if delay.is_zero() =>
            {
                return Fate::Arrive;
            }
            Some(Mishap::Truncate(_) | Mishap::Corrupt(_) | Mishap::Duplicate) | None => {
                peer.keep_request(now + delay, bytes.to_vec());
            }
        }
        Fate::Kept
    }

    /// True if bytes in this direction are lost. A connection that has lost bytes loses all further
    /// ones.
    fn is_lost(&self, peer: &Peer, towards: Towards) -> bool {
        if self.cuts.borrow().contains(&(peer.member(), towards)) {
            peer.lose(towards);
        }
        peer.loses(towards)
    }

    /// True if bytes of a connection arrive in some direction.
    fn is_heard(&self, peer: &Peer) -> bool {
        let cuts = self.cuts.borrow();
        let is_lost = |towards| peer.loses(towards) || cuts.contains(&(peer.member(), towards));
        !is_lost(Towards::Member) || !is_lost(Towards::Client)
    }

    /// Makes a disaster happen between programs and the members of this number.
    fn strike(&self, disaster: &Disaster, members: usize) {
        match *disaster {
            Disaster::CutClient {
                member, up, down, ..
            } => {
                let mut cuts = self.cuts.borrow_mut();
                cuts.extend(up.then_some((member, Towards::Member)));
                cuts.extend(down.then_some((member, Towards::Client)));
            }
            Disaster::JoinClients => self.join(),
            Disaster::SlowMember(ref slow) => self.slow.borrow_mut().begin(slow, members),
            Disaster::EndSlowness => self.slow.borrow_mut().end(&(0..members)),
            Disaster::Heal => {
                self.rates.set(Rates::default());
                self.slow.borrow_mut().end(&(0..members));
                self.join();
            }
            _ => {}
        }
    }

    /// Notes a disaster that has happened, and the reason if it had no effect.
    fn note(&self, at: Instant, disaster: Disaster, void: Option<String>) {
        fn push<T>(list: &RefCell<VecDeque<T>>, entry: T) {
            let mut list = list.borrow_mut();
            if list.len() == MAX_DISASTERS {
                list.pop_front();
            }
            list.push_back(entry);
        }
        let number = self.happened.get() + 1;
        self.happened.set(number);
        if let Some(reason) = void {
            push(
                &self.void,
                VoidEvent::new(number, at, disaster.clone(), reason),
            );
        }
        push(&self.past, (at, disaster));
    }

    fn join(&self) {
        self.cuts.borrow_mut().clear();
        for stream in self.vanished.borrow_mut().drain(..) {
            let _ = stream.set_zero_linger();
        }
        for peer in self.silent.borrow_mut().drain(..) {
            peer.reset();
        }
    }
}

/// True if the client has not closed a connection from which nothing is read.
fn is_open(stream: &TcpStream) -> bool {
    let mut bytes = [0; 512];
    loop {
        match stream.try_read(&mut bytes) {
            Ok(0) => return false,
            Ok(_) => {}
            Err(error) => return error.kind() == ErrorKind::WouldBlock,
        }
    }
}

impl Shared {
    /// Makes the disasters happen that are due.
    pub(super) fn strike_due(&self) {
        let Some(faults) = &self.faults else {
            return;
        };
        while faults.next_at().is_some_and(|at| at <= self.now()) {
            let Some((at, disaster)) = faults.plan.borrow_mut().pop_front() else {
                return;
            };
            let void = self.void(faults, &disaster);
            faults.strike(&disaster, self.addresses.len());
            self.slow_down(faults, &disaster);
            if let Disaster::CutClient {
                member, up, down, ..
            } = disaster
            {
                let peers = self.peers.borrow();
                for peer in peers.values().filter(|peer| peer.member() == member) {
                    let cut = [(up, Towards::Member), (down, Towards::Client)];
                    let cut = cut.into_iter().filter(|(is_cut, _)| *is_cut);
                    cut.for_each(|(_, towards)| peer.cut(towards));
                }
            }
            if let Disaster::DisconnectClient { member, .. } = disaster {
                let peers = self.peers.borrow();
                let of_member = peers.values().filter(|peer| peer.member() == member);
                let heard = of_member.filter(|peer| faults.is_heard(peer));
                heard.for_each(|peer| peer.reset());
            }
            if matches!(disaster, Disaster::JoinClients | Disaster::Heal) {
                // Connections that have lost bytes break.
                for peer in self.peers.borrow().values().filter(|peer| peer.has_lost()) {
                    peer.reset();
                }
            }
            let now = self.now();
            let struck = self.drive(None, |deployment| disaster.strike(now, deployment));
            let void = void.or_else(|| struck.and_then(Result::err));
            faults.note(at, disaster, void);
        }
    }

    /// Returns the reason why a disaster changes nothing between programs and members, if there is
    /// one. Must be called before the disaster happens.
    fn void(&self, faults: &Faults, disaster: &Disaster) -> Option<String> {
        match *disaster {
            _ if is_of_clients(disaster) => Some("it is about simulated clients".to_owned()),
            Disaster::CutClient {
                member, up, down, ..
            } => {
                let cuts = faults.cuts.borrow();
                let is_cut = |towards| cuts.contains(&(member, towards));
                let is_void =
                    (!up || is_cut(Towards::Member)) && (!down || is_cut(Towards::Client));
                is_void.then(|| "these bytes are lost already".to_owned())
            }
            Disaster::DisconnectClient { member, .. } => {
                let peers = self.peers.borrow();
                let of_member = peers.values().filter(|peer| peer.member() == member);
                let mut of_member = of_member.peekable();
                let reason = format!("there is no connection to member {member}");
                match of_member.peek() {
                    None => Some(reason),
                    Some(_) => {
                        let is_heard = of_member.any(|peer| faults.is_heard(peer));
                        (!is_heard).then(|| reason + " that is not cut")
                    }
                }
            }
            Disaster::SlowMember(ref slow) => {
                let deployment = self.deployment.borrow();
                let is_down = |member| deployment.state(member) == Some(MemberState::Down);
                match slow.member {
                    Some(member) => {
                        is_down(member).then(|| format!("member {member} does not run"))
                    }
                    None => {
                        let are_all_down = (0..deployment.members()).all(is_down);
                        are_all_down.then(|| "no member runs".to_owned())
                    }
                }
            }
            _ => None,
        }
    }

    /// Tells connections that their member is slow from now on, or is not any more.
    fn slow_down(&self, faults: &Faults, disaster: &Disaster) {
        let only = match disaster {
            Disaster::SlowMember(slow) => slow.member,
            Disaster::EndSlowness | Disaster::Heal => None,
            _ => return,
        };
        let now = self.now();
        let peers = self.peers.borrow();
        for peer in peers.values() {
            let member = peer.member();
            if only.is_none_or(|only| only == member) {
                peer.set_slowness(now, faults.slowness_of(member));
            }
        }
    }

    /// Ends the slowness of a member whose process ends or starts. What it has not sent is lost.
    pub(super) fn end_slowness(&self, action: &Action) {
        let Some(faults) = &self.faults else {
            return;
        };
        let ended = faults.slow.borrow_mut().handle_action(action);
        if let Some(member) = ended {
            let peers = self.peers.borrow();
            let of_member = peers.values().filter(|peer| peer.member() == member);
            of_member.for_each(|peer| peer.drop_pieces());
        }
    }

    /// Closes a connection. A client to which bytes are lost does not see it.
    pub(super) fn close(&self, peer: Rc<Peer>) {
        peer.drop_pieces();
        let Some(faults) = self.faults.as_ref().filter(|_| peer.loses(Towards::Client)) else {
            return peer.close();
        };
        peer.stay_silent();
        let mut silent = faults.silent.borrow_mut();
        if silent.len() == MAX_SILENT
            && let Some(oldest) = silent.pop_front()
        {
            oldest.reset();
        }
        silent.push_back(peer);
    }

    /// Sends a reply to a client.
    pub(super) fn reply(&self, conn: ConnId, bytes: Vec<u8>) {
        let peers = self.peers.borrow();
        let Some(peer) = peers.get(&conn) else {
            return;
        };
        match &self.faults {
            None => peer.send(bytes),
            Some(faults) => faults.reply(self.now(), peer, bytes),
        }
    }
}
