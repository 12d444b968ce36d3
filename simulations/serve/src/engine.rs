//! The event loop between the sockets and the deployment.

mod accept;
mod clock;
#[cfg(feature = "scenarios")]
mod faults;
#[cfg(not(feature = "scenarios"))]
mod no_faults;
mod peer;
mod turns;
mod work;

use crate::{
    Call, Order, ServeOptions, Status,
    setup::{deployment_options, uri, write_tokens},
    tls::Tls,
};
use accept::{Port, bind};
use clock::Clock;
#[cfg(feature = "scenarios")]
use faults::Faults;
#[cfg(not(feature = "scenarios"))]
use no_faults::Faults;
use onionskin_core::{random::Seed, time::Instant};
use onionskin_deployment::deployment::{Action, ConnId, Deployment, MemberEvent};
use peer::{Gauge, Peer};
use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, VecDeque},
    io::{self, Write as _},
    net::SocketAddr,
    panic::{self, AssertUnwindSafe},
    path::PathBuf,
    rc::Rc,
    slice,
    sync::Arc,
    time::Duration,
};
use tokio::sync::{Notify, mpsc};
use turns::Turns;
use work::MAX_RUNNING;

/// The largest number of reports that [`Status`] has.
const MAX_MEMBER_EVENTS: usize = 1000;

/// The size of the read buffer, which all connections share, in bytes.
const READ_BYTES: usize = 64 * 1024;

/// The number of reads from one connection before other connections are served.
const READS_PER_TURN: usize = 16;

/// The largest number of unsent bytes of all connections. If it is exceeded, the connection with
/// the most unsent bytes is closed.
const MAX_ALL_UNSENT_BYTES: usize = 512 * 1024 * 1024;

/// The time after which a call that had no answer is made again.
const CALL_PAUSE: Duration = Duration::from_millis(2);

/// The pause after a failed accept, for example when the process has no descriptors left, and after
/// a failed attempt to bind a port again.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The target of the connections to a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ListenTarget {
    Member(usize),
    /// The load balancer, which passes connections on to members.
    Balancer,
}

/// The fate of bytes that a client has sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// The member gets them now.
    Arrive,
    /// The member gets them later, or never.
    Kept,
    /// The member gets them now, and the connection breaks.
    ArriveAndBreak,
}

/// The state that the tasks of the event loop share. All tasks run on one thread.
struct Shared {
    deployment: RefCell<Deployment>,
    peers: RefCell<BTreeMap<ConnId, Rc<Peer>>>,
    unsent: Rc<Gauge>,
    /// The read buffer, which all connections share.
    buffer: RefCell<Vec<u8>>,
    events: RefCell<VecDeque<MemberEvent>>,
    /// The addresses on which the members listen.
    addresses: Vec<SocketAddr>,
    /// The address on which the load balancer listens, if there is one.
    balancer: Option<SocketAddr>,
    /// The ports of the members.
    ports: RefCell<Vec<Port>>,
    tls: Option<Tls>,
    clock: Clock,
    next_conn: Cell<u64>,
    deadline_moved: Notify,
    deadline: Cell<Option<Instant>>,
    /// The number of long queries that have a thread.
    workers: Cell<usize>,
    /// The number of other jobs that run.
    short_workers: Cell<usize>,
    /// The turns of the long queries.
    turns: Arc<Turns>,
    /// True while a task executes the parts of commands.
    runs_parts: Cell<bool>,
    /// The faults of the scenario, if there is one.
    faults: Option<Faults>,
    /// The calls that have no answer yet.
    calls: RefCell<Vec<Call>>,
}

/// A deployment whose sockets are bound, before its event loop runs.
pub(super) struct Engine {
    shared: Rc<Shared>,
    uri: String,
    tls_directory: Option<PathBuf>,
}

impl Engine {
    pub(super) async fn bind(mut options: ServeOptions) -> io::Result<Self> {
        let mut targets = Vec::new();
        if options.load_balanced {
            targets.push(ListenTarget::Balancer);
        }
        targets.extend((0..options.members.len()).map(ListenTarget::Member));
        let mut listeners = Vec::new();
        let (mut addresses, mut balancer) = (Vec::new(), None);
        for (place, target) in targets.into_iter().enumerate() {
            let listener = bind(options.port, place).await?;
            match target {
                ListenTarget::Balancer => balancer = Some(listener.local_addr()?),
                ListenTarget::Member(_) => addresses.push(listener.local_addr()?),
            }
            listeners.push((target, listener));
        }
        write_tokens(&options)?;
        let tls = Tls::of(&options)?;
        let tls_directory = tls.as_ref().map(|tls| tls.directory().to_owned());
        let hosts = balancer
            .as_ref()
            .map_or(addresses.as_slice(), slice::from_ref);
        let uri = uri(&options, hosts, tls_directory.as_deref());
        let mut seed = [0; 32];
        seed[..8].copy_from_slice(&options.seed.to_le_bytes());
        let seed = Seed::new(seed);
        let faults = Faults::of(&mut options, &seed);
        let options = deployment_options(options, &addresses, balancer);
        let mut deployment = Deployment::new(options, &seed).map_err(io::Error::other)?;
        deployment.take_turns();
        deployment.run_jobs();
        let shared = Rc::new(Shared {
            deployment: RefCell::new(deployment),
            peers: RefCell::default(),
            unsent: Rc::default(),
            buffer: RefCell::new(vec![0; READ_BYTES]),
            events: RefCell::default(),
            addresses,
            balancer,
            ports: RefCell::default(),
            tls,
            clock: Clock::start(),
            next_conn: Cell::new(0),
            deadline_moved: Notify::new(),
            deadline: Cell::new(None),
            workers: Cell::new(0),
            short_workers: Cell::new(0),
            turns: Arc::new(Turns::new(MAX_RUNNING)),
            runs_parts: Cell::new(false),
            faults,
            calls: RefCell::default(),
        });
        for (target, listener) in listeners {
            let port = Port::open(&shared, target, Ok(listener));
            // The port of the load balancer is independent of the members' state.
            if let ListenTarget::Member(_) = target {
                shared.ports.borrow_mut().push(port);
            }
        }
        Ok(Self {
            shared,
            uri,
            tls_directory,
        })
    }

    pub(super) fn uri(&self) -> String {
        self.uri.clone()
    }

    pub(super) fn tls_directory(&self) -> Option<PathBuf> {
        self.tls_directory.clone()
    }

    pub(super) fn addresses(&self) -> Vec<SocketAddr> {
        self.shared.addresses.clone()
    }

    /// Runs the event loop until it gets the order to stop, or until no sender of orders is left.
    pub(super) async fn run(self, mut orders: mpsc::UnboundedReceiver<Order>) {
        let shared = self.shared;
        shared.pump();
        loop {
            shared.make_calls();
            let disaster = shared.faults.as_ref().and_then(Faults::next_at);
            let is_called = !shared.calls.borrow().is_empty();
            let again = is_called.then(|| shared.now() + CALL_PAUSE);
            let others = disaster.into_iter().chain(again);
            let next = shared.deadline.get().into_iter().chain(others).min();
            let timer = async {
                match next {
                    Some(at) => tokio::time::sleep_until(shared.clock.at(at)).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                order = orders.recv() => match order {
                    None | Some(Order::Stop) => return,
                    Some(order) => shared.obey(order),
                },
                () = shared.deadline_moved.notified() => {}
                () = timer => {
                    shared.strike_due();
                    shared.drive(None, |_| ());
                    shared.pump();
                }
            }
        }
    }
}

impl Shared {
    fn now(&self) -> Instant {
        self.clock.now()
    }

    /// Makes the calls of the deployment that have no answer yet. A call that panics gets none.
    fn make_calls(self: &Rc<Self>) {
        let mut answers = Vec::new();
        let mut calls = self.calls.take();
        if calls.is_empty() {
            return;
        }
        let now = self.now();
        calls.retain_mut(|call| {
            let called = self.drive(None, |deployment| call(deployment, now));
            let is_open = matches!(called, Some(None));
            answers.extend(called.flatten());
            is_open
        });
        self.calls.replace(calls);
        // A call without an answer can have effects as well.
        self.pump();
        for answer in answers {
            answer();
        }
    }

    fn obey(&self, order: Order) {
        match order {
            Order::Call(call) => self.calls.borrow_mut().push(call),
            Order::Status(answer) => {
                let _ = answer.send(self.status());
            }
            Order::Stop => {}
        }
    }

    fn status(&self) -> Status {
        let deployment = self.deployment.borrow();
        Status {
            primary: deployment.primary(),
            members: (0..deployment.members())
                .filter_map(|member| deployment.state(member))
                .collect(),
            connections: deployment.connections(),
            auth: deployment.auth_counts(),
            compression: deployment.compression_counts(),
            events: self.events.borrow().iter().cloned().collect(),
            unsent_bytes: self.unsent.bytes(),
            most_unsent_bytes: self.unsent.most(),
            #[cfg(feature = "scenarios")]
            happened: self.faults.as_ref().map_or(0, Faults::happened),
            #[cfg(feature = "scenarios")]
            disasters: self.faults.as_ref().map(Faults::past).unwrap_or_default(),
            #[cfg(feature = "scenarios")]
            void_events: self.faults.as_ref().map(Faults::void).unwrap_or_default(),
        }
    }

    /// Handles the timers that are due, then calls a function of the deployment. Returns `None` if
    /// the function panics. A panic closes the connection whose request was being executed, or else
    /// `conn`. All other connections continue.
    fn drive<T>(&self, conn: Option<ConnId>, call: impl FnOnce(&mut Deployment) -> T) -> Option<T> {
        // After a pause of this thread, on a busy machine, messages between the members precede the
        // input. Otherwise a member would miss the messages of a primary that were due meanwhile.
        let now = self.now();
        self.catch_panic(None, |deployment| deployment.handle_timeout(now));
        self.catch_panic(conn, call)
    }

    /// Calls a function of the deployment. Returns `None` if the function panics, and closes a
    /// connection as [`drive`](Self::drive) describes.
    fn catch_panic<T>(
        &self,
        conn: Option<ConnId>,
        call: impl FnOnce(&mut Deployment) -> T,
    ) -> Option<T> {
        let call = AssertUnwindSafe(|| call(&mut self.deployment.borrow_mut()));
        let result = panic::catch_unwind(call).ok();
        if result.is_none() {
            let _ = writeln!(
                io::stderr(),
                "a request ended in a panic; its connection is closed"
            );
            let now = self.now();
            let close = || self.deployment.borrow_mut().handle_panic(now, conn);
            let _ = panic::catch_unwind(AssertUnwindSafe(close));
        }
        result
    }

    /// Carries out the deployment's outputs, and sets the timer to its next deadline.
    fn pump(self: &Rc<Self>) {
        loop {
            // A request whose data is gone is answered here, so the replies come after it.
            if self.start_work() {
                continue;
            }
            let transmit = self.deployment.borrow_mut().poll_transmit();
            if let Some((conn, bytes)) = transmit {
                self.reply(conn, bytes);
                self.bound_unsent();
                continue;
            }
            let turn = self.deployment.borrow_mut().poll_turn();
            if let Some(conn) = turn {
                if let Some(peer) = self.peers.borrow().get(&conn) {
                    peer.give_turn();
                }
                continue;
            }
            let action = self.deployment.borrow_mut().poll_action();
            let Some(action) = action else {
                break;
            };
            self.perform(action);
        }
        if self.deployment.borrow().has_parts() && !self.runs_parts.replace(true) {
            tokio::task::spawn_local(Rc::clone(self).run_parts());
        }
        let deadline = self.deployment.borrow().deadline();
        let old = self.deadline.replace(deadline);
        // A timer that fires too early has no effect, so only an earlier deadline needs a new
        // timer.
        if deadline.is_some_and(|new| old.is_none_or(|old| new < old)) {
            self.deadline_moved.notify_one();
        }
    }

    /// Closes connections with the most unsent bytes until the limit for all connections is kept.
    fn bound_unsent(&self) {
        while self.unsent.bytes() > MAX_ALL_UNSENT_BYTES {
            let peers = self.peers.borrow();
            let Some(peer) = peers.values().max_by_key(|peer| peer.unsent()) else {
                return;
            };
            if peer.unsent() == 0 {
                return;
            }
            peer.abandon();
        }
    }

    /// Handles the next buffered request of a connection. Returns false if it handled none, or
    /// after a panic.
    fn next_turn(self: &Rc<Self>, conn: ConnId) -> bool {
        let now = self.now();
        let went_on = self.drive(Some(conn), |deployment| deployment.next_turn(now, conn));
        // After a panic, the outputs close a connection.
        if went_on != Some(false) {
            self.pump();
        }
        went_on.unwrap_or(false)
    }

    /// Notes whether the member of a connection has room for what is read at once.
    fn note_room(&self, conn: ConnId, peer: &Peer) {
        peer.note_room(self.deployment.borrow().room(conn));
    }

    /// Reads once from a connection. Returns false if there was nothing to read or no room for it,
    /// or at the end of the connection.
    fn read(self: &Rc<Self>, conn: ConnId, peer: &Peer) -> bool {
        self.note_room(conn, peer);
        if peer.is_full() {
            return false;
        }
        if let Some(bytes) = peer.take_request() {
            self.handle_bytes(conn, peer, &bytes);
            return true;
        }
        let mut buffer = self.buffer.borrow_mut();
        let size = peer.read_size(buffer.len());
        match peer.receive(&mut buffer[..size]) {
            Ok(Some(bytes)) => {
                peer.note_read(self.now());
                let fate = match &self.faults {
                    Some(faults) if !bytes.is_empty() => faults.request(self.now(), peer, bytes),
                    _ => Fate::Arrive,
                };
                if fate != Fate::Kept && !bytes.is_empty() {
                    self.handle_bytes(conn, peer, bytes);
                }
                if fate == Fate::ArriveAndBreak {
                    peer.reset();
                }
                true
            }
            Ok(None) => false,
            Err(_) => {
                peer.close();
                false
            }
        }
    }

    fn handle_bytes(self: &Rc<Self>, conn: ConnId, peer: &Peer, bytes: &[u8]) {
        let now = self.now();
        let subject = peer.take_subject();
        self.drive(Some(conn), |deployment| {
            if let Some(subject) = &subject {
                deployment.handle_certificate(conn, subject);
            }
            deployment.handle_received(now, conn, bytes);
        });
        self.pump();
    }

    fn perform(self: &Rc<Self>, action: Action) {
        self.end_slowness(&action);
        match action {
            Action::Close(conn) => {
                if let Some(peer) = self.peers.borrow_mut().remove(&conn) {
                    self.close(peer);
                }
            }
            Action::StopListening(member) => {
                self.ports.borrow_mut()[member].close(self.addresses[member]);
            }
            Action::Listen(member) => {
                let (target, address) = (ListenTarget::Member(member), self.addresses[member]);
                self.ports.borrow_mut()[member].reopen(self, target, address);
            }
            Action::Report(event) => {
                if let MemberEvent::Failed { .. } = &event {
                    eprintln!("{event}");
                }
                let mut events = self.events.borrow_mut();
                if events.len() == MAX_MEMBER_EVENTS {
                    events.pop_front();
                }
                events.push_back(event);
            }
        }
    }
}
