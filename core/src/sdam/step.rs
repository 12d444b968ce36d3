//! The steps that change the topology (table E.5): the start, the replacement of a server
//! description with its consequences for pools, events and monitors, and the close.

use super::{
    KnownPool, Life, Sdam, Server,
    effects::Effects,
    monitor::Monitor,
    order::Order,
    stored_error::without_reply,
    transition::{Change, Update},
};
use crate::{
    address::Address,
    description::{ServerDescription, ServerId, ServerType, TopologyDescription, TopologyType},
    error::{Error, ErrorKind},
    event::{NoServersCause, SdamEvent},
    time::Instant,
};
use bson::oid::ObjectId;
use std::sync::Arc;

/// The order for the pool of the server whose description a step replaces.
#[derive(Clone, Copy, Debug)]
pub(super) enum PoolOrder<'a> {
    /// The pool stays as it is.
    Leave,
    /// If the new server type needs a pool, the pool is created if there is none, and then marked
    /// as ready (SDAM-84).
    Ready,
    /// The pool is cleared and paused.
    Clear {
        /// The error that the pool is cleared for.
        cause: &'a Error,
        /// True if connections in use are interrupted.
        interrupt: bool,
    },
}

impl Sdam {
    /// Starts the machine: adds the seeds and starts their monitors. A load balancer gets no
    /// monitor ([SDAM-111]).
    ///
    /// [SDAM-111]: crate::requirements::discovery#SDAM-111
    pub fn start(&mut self, now: Instant) {
        if self.phase != Life::New {
            return;
        }
        self.phase = Life::Running;
        let previous = self.snapshot();
        self.topology.open(&self.options);
        for address in self.options.seeds.clone() {
            self.add_server(address);
        }
        self.version += 1;
        self.publish();
        self.out
            .emit(|topology| SdamEvent::TopologyOpening { topology });
        // The first topology description changed event comes even if the description has not
        // changed (B.5, trap 1).
        self.emit_topology(previous);
        let seeds = self.options.seeds.clone();
        self.emit_opening(&seeds);
        if seeds.is_empty() {
            self.out.warn_of_no_servers(NoServersCause::NoSeeds);
        }
        if self.is_load_balanced() {
            for address in seeds {
                self.add_load_balancer(now, address);
            }
        } else {
            self.start_monitors(now, &seeds, false);
        }
    }

    /// Closes the machine: removes all servers, closes their connections and pools, and cancels all
    /// timers ([SDAM-36]).
    ///
    /// [SDAM-36]: crate::requirements::discovery#SDAM-36
    pub fn close(&mut self, now: Instant) {
        let life = std::mem::replace(&mut self.phase, Life::Closed);
        if life != Life::Running {
            return;
        }
        let cause = Error::new(ErrorKind::Shutdown);
        let previous = self.snapshot();
        let servers = std::mem::take(&mut self.servers);
        self.ids.clear();
        self.topology.close();
        let mut closed = Vec::with_capacity(servers.len());
        for (id, server) in servers {
            closed.push(server.address.clone());
            server.stop(now, &mut self.out, id, &cause);
        }
        self.out.timers.clear();
        self.version += 1;
        self.end_scans();
        self.publish();
        self.emit_closed(&closed);
        self.emit_topology(previous);
        self.out
            .emit(|topology| SdamEvent::TopologyClosed { topology });
    }

    /// Sets the description of a load balancer, whose type comes from the options, and makes its
    /// pool ready.
    pub(super) fn add_load_balancer(&mut self, now: Instant, address: Address) {
        let new = ServerDescription {
            server_type: ServerType::LoadBalancer,
            last_update_time: Some(now),
            ..ServerDescription::unknown(address)
        };
        self.apply(now, new, PoolOrder::Ready);
    }

    /// Replaces a server description, carries out the order for its pool, emits the events of the
    /// change, and starts and stops monitors (table E.5). Changes nothing if `Topology::apply`
    /// refuses the new description.
    pub(super) fn apply(&mut self, now: Instant, new: ServerDescription, pool: PoolOrder<'_>) {
        let Some(id) = self.server_id(&new.address) else {
            return;
        };
        let previous = self.snapshot();
        let Some(update) = self.topology.apply(new) else {
            return;
        };
        self.order_pool(id, &update.subject, pool);
        for address in &update.added {
            self.add_server(address.clone());
        }
        self.version += 1;
        self.stop_removed(now, &update.removed);
        self.publish();
        self.emit_update(&update, previous);
        self.note_refused_primary(now, id, update.is_refused);
        if self.servers.is_empty() {
            self.out.warn_of_no_servers(NoServersCause::LastRemoved);
        }
        self.start_monitors(now, &update.added, true);
        self.note_named_primary(id, update.subject.new.primary.as_ref());
        if !update.subject.new.server_type.is_available() {
            self.with_monitor(id, |monitor, _| monitor.restart_average());
        }
        for change in &update.invalidated {
            // An immediate check of the old primary is requested (SDAM-74).
            if let Some(id) = self.server_id(&change.new.address) {
                self.with_monitor(id, |monitor, out| {
                    monitor.restart_average();
                    monitor.request(now, out);
                });
            }
        }
        self.check_invariants();
    }

    /// Queues the order that clears a pool, if the server has one.
    pub(super) fn clear_pool(
        &mut self,
        id: ServerId,
        service: Option<ObjectId>,
        cause: &Error,
        interrupt: bool,
    ) {
        let Some(server) = self.servers.get_mut(&id) else {
            return;
        };
        if server.pool == KnownPool::Absent {
            return;
        }
        if !self.options.load_balanced {
            server.pool = KnownPool::Paused;
        }
        self.out.push(Order::ClearPool {
            server: id,
            service,
            cause: without_reply(cause),
            interrupt,
        });
    }

    /// Calls `act` with the monitor of a server and the effects, if the server has a monitor.
    pub(super) fn with_monitor(
        &mut self,
        id: ServerId,
        act: impl FnOnce(&mut Monitor, &mut Effects),
    ) {
        if let Some(monitor) = self.servers.get_mut(&id).and_then(|s| s.monitor.as_mut()) {
            act(monitor, &mut self.out);
        }
    }

    /// Carries out the order for the pool of the server whose description a step replaced.
    fn order_pool(&mut self, id: ServerId, subject: &Change, pool: PoolOrder<'_>) {
        match pool {
            PoolOrder::Leave => {}
            PoolOrder::Clear { cause, interrupt } => self.clear_pool(id, None, cause, interrupt),
            PoolOrder::Ready => {
                let stays = self.topology.server(&subject.new.address).is_some();
                if stays && self.topology.wants_pool(subject.new.server_type) {
                    self.ready_pool(id);
                }
            }
        }
    }

    /// Queues the orders that create a pool, if there is none, and mark it as ready.
    fn ready_pool(&mut self, id: ServerId) {
        let Some(server) = self.servers.get_mut(&id) else {
            return;
        };
        if server.pool == KnownPool::Absent {
            self.out.push(Order::CreatePool {
                server: id,
                address: server.address.clone(),
            });
        }
        if server.pool != KnownPool::Ready {
            server.pool = KnownPool::Ready;
            self.out.push(Order::ReadyPool { server: id });
        }
    }

    /// Adds a server with a new id, without monitor and without pool.
    pub(super) fn add_server(&mut self, address: Address) {
        if self.ids.contains_key(&address) {
            return;
        }
        self.last_server += 1;
        let id = ServerId(self.last_server);
        self.ids.insert(address.clone(), id);
        let server = Server {
            address,
            monitor: None,
            pool: KnownPool::Absent,
            refusal: None,
        };
        self.servers.insert(id, server);
    }

    /// Starts the monitors of new servers (MON-12). `named` is true for servers that a reply named:
    /// the first check of such a server waits if `first_checks` has no token. So members that
    /// replies remove and add again and again are not checked at the pace of these replies.
    pub(super) fn start_monitors(&mut self, now: Instant, addresses: &[Address], named: bool) {
        for address in addresses {
            let Some(id) = self.ids.get(address) else {
                continue;
            };
            if let Some(server) = self.servers.get_mut(id)
                && server.monitor.is_none()
            {
                let waits = named && !self.first_checks.take(now);
                if named {
                    self.out.turns.add(*id);
                }
                let monitor = Monitor::start(now, &mut self.out, *id, address.clone(), waits);
                server.monitor = Some(monitor);
            }
        }
    }

    /// Stops the monitors of removed servers and closes their pools (SDAM-78).
    pub(super) fn stop_removed(&mut self, now: Instant, removed: &[Address]) {
        for address in removed {
            let Some(id) = self.ids.remove(address) else {
                continue;
            };
            self.leave_strangers(now, id);
            self.note_named_primary(id, None);
            if let Some(server) = self.servers.remove(&id) {
                let message = "the server was removed from the topology".to_owned();
                let cause = Error::new(ErrorKind::Discovery { message });
                server.stop(now, &mut self.out, id, &cause);
            }
        }
    }

    pub(super) fn publish(&mut self) {
        self.out.push(Order::Publish);
    }

    /// Returns the topology description for a later comparison. `None` without subscribers, because
    /// a snapshot makes the next change copy the description.
    pub(super) fn snapshot(&self) -> Option<Arc<TopologyDescription>> {
        self.out
            .subscribed
            .then(|| Arc::clone(self.topology.description()))
    }

    /// Emits the events of an update: changed servers, added servers, removed servers, the topology
    /// (EVT-38).
    fn emit_update(&mut self, update: &Update, previous: Option<Arc<TopologyDescription>>) {
        let Some(previous) = previous else {
            return;
        };
        for change in std::iter::once(&update.subject).chain(&update.invalidated) {
            if !change.previous.is_same(&change.new) {
                self.out
                    .emit(|topology| SdamEvent::ServerDescriptionChanged {
                        topology,
                        address: change.new.address.clone(),
                        previous: Arc::clone(&change.previous),
                        new: Arc::clone(&change.new),
                    });
            }
        }
        self.emit_opening(&update.added);
        self.emit_closed(&update.removed);
        if !previous.is_same(self.topology.description()) {
            self.emit_topology(Some(previous));
        }
    }

    pub(super) fn emit_topology(&mut self, previous: Option<Arc<TopologyDescription>>) {
        if let Some(previous) = previous {
            let new = Arc::clone(self.topology.description());
            self.out
                .emit(|topology| SdamEvent::TopologyDescriptionChanged {
                    topology,
                    previous,
                    new,
                });
        }
    }

    pub(super) fn emit_opening(&mut self, addresses: &[Address]) {
        for address in addresses {
            self.out.emit(|topology| SdamEvent::ServerOpening {
                topology,
                address: address.clone(),
            });
        }
    }

    pub(super) fn emit_closed(&mut self, addresses: &[Address]) {
        for address in addresses {
            self.out.emit(|topology| SdamEvent::ServerClosed {
                topology,
                address: address.clone(),
            });
        }
    }

    /// Checks in debug builds the invariants that hold after each step.
    pub(super) fn check_invariants(&self) {
        let description = self.topology.description();
        debug_assert_eq!(self.ids.len(), self.servers.len());
        debug_assert_eq!(self.ids.len(), description.servers.len());
        debug_assert!(description.topology_type != TopologyType::Single || self.servers.len() == 1);
        // A server that can be selected has a pool that is ready (E.6-3).
        debug_assert!(self.servers.values().all(|server| {
            let known = description.servers.get(&server.address);
            server.pool == KnownPool::Ready
                || known.is_some_and(|known| !known.server_type.is_data_bearing())
        }));
    }
}

impl Server {
    /// Stops the monitor of the server and closes its pool.
    pub(super) fn stop(self, now: Instant, out: &mut Effects, id: ServerId, cause: &Error) {
        if let Some(monitor) = self.monitor {
            monitor.stop(now, out, cause);
        }
        if self.pool != KnownPool::Absent {
            out.push(Order::ClosePool { server: id });
        }
    }
}
