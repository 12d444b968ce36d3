//! The network between clients and members, and the deployment of the members.
//!
//! Connections are streams: each direction keeps its order. Faults are drawn for each connection
//! and each message. Lost bytes are never sent again, and a direction that lost bytes carries no
//! further bytes.

mod balancer;
mod faults;
mod link;
mod listeners;
mod proxy;
mod slow;
mod void;

pub use listeners::{ListenerEvent, ListenerId};
pub use proxy::Proxy;

use super::{
    mishap,
    names::Names,
    options::{Rates, WorldOptions},
    picture::MarkKind,
    plan::Disaster,
    selector::Panics,
    setup,
    slow_member::SlowMembers,
    trace::{Summary, Trace},
};
use link::Link;
use onionskin_core::{
    address::Address,
    random::{Random, Seed},
    time::{Instant, earliest},
};
use onionskin_deployment::deployment::{Action, ConnId, Deployment, Shape};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};
use void::Happened;

/// The id of a client's connection to a member, the load balancer, the proxy or a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub u64);

/// An event on a connection that the client gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Incoming {
    /// The connection is established.
    Connected,
    /// The connection was refused.
    Refused,
    /// Bytes arrived.
    Bytes(Vec<u8>),
    /// The other side closed the connection in an orderly way.
    Closed,
    /// The connection broke.
    Reset,
}

/// Something in transit on a connection.
#[derive(Debug)]
enum Parcel {
    /// A connection attempt, to the member.
    Attempt,
    /// Bytes, to the member.
    Request(Vec<u8>),
    /// The end of the connection, to the member.
    Hangup,
    /// Nothing: a slow member reads the next piece of what has arrived.
    Read,
    /// Any event, to the client.
    Answer(Incoming),
}

impl Parcel {
    /// Returns the number of bytes to the member.
    const fn request_len(&self) -> usize {
        match self {
            Self::Request(bytes) => bytes.len(),
            _ => 0,
        }
    }
}

/// A direction of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Towards {
    /// From a client to a member or a listener.
    Member,
    /// From a member or a listener to a client.
    Client,
}

/// The network, and the deployment that clients reach through it.
#[derive(Debug)]
pub struct Network {
    deployment: Deployment,
    addresses: Vec<Address>,
    balancer: Option<Address>,
    proxy: Option<Proxy>,
    names: Names,
    listening: Vec<bool>,
    links: BTreeMap<LinkId, Link>,
    under_way: BTreeMap<(Instant, u64), (LinkId, Parcel)>,
    arrived: VecDeque<(LinkId, Incoming)>,
    cuts: BTreeSet<(usize, usize, Towards)>,
    slow: SlowMembers,
    /// The connections for whose bytes their members had no room.
    full: BTreeSet<LinkId>,
    /// The connections that have room again, to be told to their clients.
    writable: VecDeque<LinkId>,
    rates: Rates,
    latency: (Duration, Duration),
    random: Random,
    next_link: u64,
    next_parcel: u64,
    listeners: BTreeMap<Address, ListenerId>,
    listener_events: VecDeque<(LinkId, ListenerEvent)>,
    next_listener: u64,
    happened: Happened,
    /// The panics of the clients' server selectors.
    pub(super) panics: Panics,
}

impl Network {
    /// Creates a network around a deployment. The disasters of the plan at [`Instant::ZERO`] that
    /// concern the name server act at once, because clients ask before the first disaster.
    #[must_use]
    pub fn new(
        deployment: Deployment,
        options: &WorldOptions,
        plan: &VecDeque<(Instant, Disaster)>,
        seed: &Seed,
    ) -> Self {
        let addresses = deployment.options().addresses.clone();
        let balancer = match &deployment.options().shape {
            Shape::LoadBalanced { balancer } => Some(balancer.clone()),
            _ => None,
        };
        let names = seed.split("name failures").random();
        Self {
            listening: vec![true; addresses.len()],
            names: Names::new(&addresses, plan, names),
            addresses,
            balancer,
            proxy: setup::proxy(options),
            deployment,
            links: BTreeMap::new(),
            under_way: BTreeMap::new(),
            arrived: VecDeque::new(),
            cuts: BTreeSet::new(),
            slow: SlowMembers::default(),
            full: BTreeSet::new(),
            writable: VecDeque::new(),
            rates: options.rates,
            latency: (options.min_latency, options.max_latency),
            random: seed.split("client network").random(),
            next_link: 0,
            next_parcel: 0,
            listeners: BTreeMap::new(),
            listener_events: VecDeque::new(),
            next_listener: 0,
            happened: Happened::default(),
            panics: Panics::new(options.rates, seed),
        }
    }

    /// Returns the deployment.
    #[must_use]
    pub const fn deployment(&self) -> &Deployment {
        &self.deployment
    }

    /// Calls a function with the deployment, and carries out the outputs that follow.
    pub fn operate<T>(
        &mut self,
        now: Instant,
        action: impl FnOnce(&mut Deployment) -> T,
        trace: &mut Trace,
    ) -> T {
        let result = action(&mut self.deployment);
        self.pump(now, trace);
        result
    }

    /// Returns the addresses of the members.
    #[must_use]
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// Returns the servers that a client must know if it is closed after `late_from`; `None` if it
    /// need not know all changes by then. `frozen` is the time for which it was frozen before.
    pub(super) fn known(
        &self,
        options: &WorldOptions,
        client: usize,
        late_from: Instant,
        frozen: Duration,
    ) -> Option<BTreeSet<Address>> {
        if setup::learns_members(options, client) && frozen.is_zero() {
            let listed = self.deployment.listed_members().into_iter();
            let known = listed.map(|member| self.addresses[member].clone());
            let known: BTreeSet<Address> = known.collect();
            // Without a primary there is no list, and the late operations fail.
            return (!known.is_empty()).then_some(known);
        }
        let patience = setup::news(options, client)?;
        self.names.known(late_from, patience + frozen)
    }

    /// Returns the number of connections that a client or a server still holds or that have
    /// something in transit.
    #[must_use]
    pub fn open_links(&self) -> usize {
        self.links.len()
    }

    /// Starts to connect a client to an address.
    pub fn dial(
        &mut self,
        now: Instant,
        client: usize,
        address: &Address,
        trace: &mut Trace,
    ) -> LinkId {
        let id = LinkId(self.next_link);
        self.next_link += 1;
        trace.note(
            now,
            format_args!("link {} client {client} dials {address}", id.0),
        );
        if let Some(&listener) = self.listeners.get(address) {
            self.knock(now, id, client, listener);
            return id;
        }
        let member = self.addresses.iter().position(|a| a == address);
        let mut link = Link::new(client, member.unwrap_or(usize::MAX));
        link.services = self.services_at(address);
        link.proxy = self.proxied(address);
        if member.is_none() && link.services.is_none() && link.proxy.is_none() {
            self.links.insert(id, link);
            self.post(now, id, Towards::Client, Parcel::Answer(Incoming::Refused));
            return id;
        }
        if self.is_drawn(self.rates.vanish) {
            link.up.is_dead = true;
        }
        self.links.insert(id, link);
        if self.is_drawn(self.rates.refuse) {
            self.post(now, id, Towards::Client, Parcel::Answer(Incoming::Refused));
        } else {
            self.post(now, id, Towards::Member, Parcel::Attempt);
        }
        id
    }

    /// Sends bytes from a client.
    pub fn send(&mut self, now: Instant, id: LinkId, bytes: &[u8], trace: &mut Trace) {
        trace.note(now, format_args!("link {} sends {}", id.0, Summary(bytes)));
        self.transfer(now, id, Towards::Member, bytes, trace);
    }

    /// Closes a connection or ends a connection attempt for a client. The client gets no more
    /// events of the connection.
    pub fn close(&mut self, now: Instant, id: LinkId, trace: &mut Trace) {
        let Some(link) = self.links.get_mut(&id) else {
            return;
        };
        trace.note(now, format_args!("link {} is closed by its client", id.0));
        link.has_client = false;
        self.arrived.retain(|(other, _)| *other != id);
        self.post(now, id, Towards::Member, Parcel::Hangup);
        self.forget_if_unused(id);
    }

    /// Returns the time at which [`advance`](Self::advance) must be called next.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        let parcel = self.under_way.first_key_value().map(|(&(at, _), _)| at);
        earliest(parcel, self.deployment.deadline())
    }

    /// Delivers the next parcel that is due, or advances the deployment's time. Returns false if
    /// nothing is due.
    pub fn advance(&mut self, now: Instant, trace: &mut Trace) -> bool {
        let is_due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        let first = self.under_way.first_key_value().map(|(&(at, _), _)| at);
        if is_due(first) {
            if let Some((_, (id, parcel))) = self.under_way.pop_first() {
                self.deliver(now, id, parcel, trace);
            }
            return true;
        }
        if is_due(self.deployment.deadline()) {
            self.deployment.handle_timeout(now);
            self.pump(now, trace);
            return true;
        }
        false
    }

    /// Returns the next event for a client.
    #[must_use]
    pub fn poll_arrival(&mut self) -> Option<(LinkId, usize, Incoming)> {
        while let Some((id, incoming)) = self.arrived.pop_front() {
            if let Some(link) = self.links.get(&id).filter(|link| link.has_client) {
                return Some((id, link.client, incoming));
            }
        }
        None
    }

    /// Handles the arrival of a connection attempt.
    fn attempt(&mut self, now: Instant, id: LinkId, trace: &mut Trace) {
        let Some(link) = self.links.get_mut(&id) else {
            return;
        };
        if let Some(services) = link.services {
            return self.hand_over(now, id, services, trace);
        }
        let member = link.member;
        let is_proxied = link.proxy.is_some();
        if !is_proxied && self.listening.get(member) != Some(&true) {
            return self.post(now, id, Towards::Client, Parcel::Answer(Incoming::Refused));
        }
        link.has_server = !is_proxied;
        self.post(
            now,
            id,
            Towards::Client,
            Parcel::Answer(Incoming::Connected),
        );
        if !is_proxied {
            self.deployment.handle_connected(now, ConnId(id.0), member);
        }
    }

    fn deliver(&mut self, now: Instant, id: LinkId, parcel: Parcel, trace: &mut Trace) {
        let Some(link) = self.links.get_mut(&id) else {
            return;
        };
        link.sent -= parcel.request_len();
        let conn = ConnId(id.0);

        let parcel = match (parcel, link.listener) {
            (parcel @ Parcel::Answer(_), _) | (parcel, None) => parcel,
            (parcel, Some(listener)) => {
                self.deliver_to(now, id, listener, parcel);
                return self.forget_if_unused(id);
            }
        };
        match parcel {
            Parcel::Attempt => self.attempt(now, id, trace),
            Parcel::Request(bytes) => {
                trace.note(
                    now,
                    format_args!("link {} brings {}", id.0, Summary(&bytes)),
                );
                if link.proxy.is_some() {
                    self.handle_greeting(now, id, &bytes, trace);
                } else if link.has_server {
                    if !self.hold_back(now, id, &bytes) {
                        self.deployment.handle_received(now, conn, &bytes);
                    }
                } else {
                    self.post(now, id, Towards::Client, Parcel::Answer(Incoming::Reset));
                }
            }
            Parcel::Hangup => {
                link.proxy = None;
                if !link.unread.is_empty() {
                    link.hangs_up = true;
                } else if std::mem::take(&mut link.has_server) {
                    self.deployment.handle_disconnected(now, conn);
                }
            }
            Parcel::Read => self.read_piece(now, id),
            Parcel::Answer(incoming) => {
                match &incoming {
                    Incoming::Bytes(bytes) => {
                        trace.note(now, format_args!("link {} gets {}", id.0, Summary(bytes)));
                    }
                    other => trace.note(now, format_args!("link {} hears {other:?}", id.0)),
                }
                self.arrived.push_back((id, incoming));
            }
        }
        self.pump(now, trace);
        self.forget_if_unused(id);
    }

    /// Adds the states of the members to the picture.
    pub fn show(&self, now: Instant, trace: &mut Trace) {
        trace.see_members(now, &self.deployment);
    }

    /// Carries out the outputs of the deployment.
    fn pump(&mut self, now: Instant, trace: &mut Trace) {
        loop {
            while let Some((conn, bytes)) = self.deployment.poll_transmit() {
                self.transfer(now, LinkId(conn.0), Towards::Client, &bytes, trace);
            }
            let Some(action) = self.deployment.poll_action() else {
                if self.read_on(now) {
                    continue;
                }
                return self.show(now, trace);
            };
            self.slow.handle_action(&action);
            match action {
                Action::Close(conn) => {
                    let id = LinkId(conn.0);
                    let is_reset = self.random.chance(1, 2);
                    self.drop_unread(id);
                    self.drop_pieces(now, id);
                    if let Some(link) = self.links.get_mut(&id) {
                        link.has_server = false;
                        let end = if is_reset {
                            Incoming::Reset
                        } else {
                            Incoming::Closed
                        };
                        self.post(now, id, Towards::Client, Parcel::Answer(end));
                        self.forget_if_unused(id);
                    }
                }
                Action::Listen(member) => {
                    self.listening[member] = true;
                }
                Action::StopListening(member) => {
                    self.listening[member] = false;
                    self.drop_pieces_of(now, member);
                }
                Action::Report(event) => {
                    trace.mark(now, MarkKind::Member, format_args!("{event}"));
                }
            }
        }
    }

    /// Sends a parcel. In a cut or dead direction the parcel is lost.
    fn post(&mut self, now: Instant, id: LinkId, towards: Towards, parcel: Parcel) {
        let at = now + self.draw_latency();
        self.post_at(at, id, towards, parcel);
    }

    fn post_at(&mut self, at: Instant, id: LinkId, towards: Towards, parcel: Parcel) {
        let Some(link) = self.links.get_mut(&id) else {
            return;
        };
        if self.cuts.contains(&(link.client, link.member, towards)) {
            link.direction(towards).is_dead = true;
        }
        let direction = link.direction(towards);
        if direction.is_dead {
            return;
        }
        let at = at.max(direction.last);
        direction.last = at;
        link.sent += parcel.request_len();
        self.next_parcel += 1;
        self.under_way.insert((at, self.next_parcel), (id, parcel));
    }

    /// Removes a connection that neither its client nor its server holds and that has no parcels in
    /// transit.
    fn forget_if_unused(&mut self, id: LinkId) {
        let Some(link) = self.links.get(&id) else {
            return;
        };
        // An attempt can still be in transit, and reach the member after its client has closed the
        // connection.
        let is_quiet = || !self.under_way.values().any(|(other, _)| *other == id);
        if !link.has_client && !link.has_server && is_quiet() {
            self.links.remove(&id);
        }
    }

    pub(super) const fn set_latency(&mut self, latency: (Duration, Duration)) {
        self.latency = latency;
    }

    pub(super) const fn set_rates(&mut self, rates: Rates) {
        self.rates = rates;
    }

    pub(super) fn draw_latency(&mut self) -> Duration {
        mishap::latency(&mut self.random, self.latency)
    }

    fn is_drawn(&mut self, per_mille: u16) -> bool {
        mishap::is_drawn(&mut self.random, per_mille)
    }
}
