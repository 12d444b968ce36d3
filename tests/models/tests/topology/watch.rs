//! Checks each order and event of the discovery machine against the orders and events before it.

use bson::oid::ObjectId;
use onionskin_core::{
    address::Address,
    description::{ServerDescription, ServerId, ServerType, TopologyDescription},
    event::SdamEvent,
    time::Instant,
    unstable::sdam::{
        MIN_HEARTBEAT_FREQUENCY, MonitorConnectionId, MonitorTask, Order, PRIMARY_REFUSED_NOTICE,
        Sdam,
    },
};
use onionskin_models::discovery::{Clear, PoolView};
use std::{collections::BTreeMap, sync::Arc};

/// A monitor connection that the machine opened by an order.
#[derive(Clone, Debug)]
pub(crate) struct Connection {
    pub(crate) server: ServerId,
    pub(crate) address: Address,
    pub(crate) task: MonitorTask,
    /// True if the handshake was answered.
    pub(crate) open: bool,
    /// True if the last hello is awaitable, so that the server may delay its reply.
    pub(crate) awaited: bool,
    /// True if the connection waits for a reply.
    pub(crate) pending: bool,
    /// True if the connection failed. A failed connection no longer counts as open, although the
    /// machine has not closed it yet.
    broken: bool,
}

/// The end of a heartbeat.
#[derive(Clone, Copy, Debug)]
struct End {
    at: Instant,
    /// The id of the connection, if the heartbeat succeeded.
    succeeded: Option<u64>,
    /// True if the heartbeat failed with a network error or a timeout, and the server was known.
    /// Then the next check is permitted at once (MON-66).
    retry: bool,
}

/// The state of topology, pools and connections that follows from all orders so far.
#[derive(Clone, Debug)]
pub(crate) struct Watcher {
    opened: bool,
    closed: bool,
    topology: Arc<TopologyDescription>,
    servers: BTreeMap<Address, Arc<ServerDescription>>,
    /// The pools, each with its state and its generation, which is the number of clears.
    pub(crate) pools: BTreeMap<ServerId, (Address, PoolView, u64)>,
    /// The generations of services behind a load balancer.
    services: BTreeMap<(ServerId, ObjectId), u64>,
    pub(crate) connections: BTreeMap<MonitorConnectionId, Connection>,
    last_connection: u64,
    /// The heartbeats under way, by connection id: the server's address, and whether the heartbeat
    /// is awaited.
    running: BTreeMap<u64, (Address, bool)>,
    ended: BTreeMap<Address, End>,
    unpublished: bool,
    pub(crate) clears: Vec<Clear>,
    load_balanced: bool,
}

type Found = Result<(), String>;

fn expect(holds: bool, what: impl FnOnce() -> String) -> Found {
    if holds { Ok(()) } else { Err(what()) }
}

impl Watcher {
    pub(crate) fn new(sdam: &Sdam, load_balanced: bool) -> Self {
        Self {
            opened: false,
            closed: false,
            topology: TopologyDescription::unknown(sdam.description().id).into(),
            servers: BTreeMap::new(),
            pools: BTreeMap::new(),
            services: BTreeMap::new(),
            connections: BTreeMap::new(),
            last_connection: 0,
            running: BTreeMap::new(),
            ended: BTreeMap::new(),
            unpublished: false,
            clears: Vec::new(),
            load_balanced,
        }
    }

    /// Returns the connection to `address` that waits for the reply to a check; `None` if there is
    /// none.
    pub(crate) fn pending(&self, address: &Address) -> Option<MonitorConnectionId> {
        let mut pending = self.connections.iter().filter(|(_, c)| {
            c.pending && !c.broken && c.task == MonitorTask::Check && c.address == *address
        });
        pending.next().map(|(id, _)| *id)
    }

    /// Returns the sorted addresses of the servers with a heartbeat under way, and whether it waits
    /// for an awaited reply.
    pub(crate) fn checking(&self) -> Vec<(Address, bool)> {
        let mut running: Vec<_> = self.running.values().cloned().collect();
        running.sort();
        running
    }

    /// Notes that the connection failed. Must be called before the machine gets the failure.
    pub(crate) fn on_broken(&mut self, check: MonitorConnectionId) {
        if let Some(connection) = self.connections.get_mut(&check) {
            connection.broken = true;
        }
    }

    /// Notes that a reply arrived on the connection. Must be called before the machine gets the
    /// reply.
    pub(crate) fn on_answered(&mut self, check: MonitorConnectionId, more_to_come: bool) {
        if let Some(connection) = self.connections.get_mut(&check) {
            connection.open = true;
            connection.pending = more_to_come;
        }
    }

    pub(crate) fn on_order(&mut self, now: Instant, order: &Order) -> Found {
        // The topology closed event is the last one, and no order follows (E.6-5).
        expect(!self.closed, || format!("after the end: {order:?}"))?;
        match order {
            Order::Emit(event) => self.on_event(now, event),
            Order::Open {
                connection: check,
                server,
                address,
                task,
            } => self.on_open(*check, *server, address, *task),
            Order::SendHello {
                connection: check,
                awaitable,
                ..
            } => {
                let connection = self.connections.get_mut(check);
                let connection = connection.filter(|c| c.open && !c.pending && !c.broken);
                let connection = connection.ok_or("a hello on what is no idle connection")?;
                connection.pending = true;
                connection.awaited = awaitable.is_some();
                Ok(())
            }
            Order::Close { connection: check } => {
                let closed = self.connections.remove(check);
                expect(closed.is_some(), || format!("{check:?} is closed twice"))
            }
            Order::Publish => {
                self.unpublished = false;
                Ok(())
            }
            pool => self.on_pool_order(pool),
        }
    }

    fn on_open(
        &mut self,
        check: MonitorConnectionId,
        server: ServerId,
        address: &Address,
        task: MonitorTask,
    ) -> Found {
        expect(check.0 > self.last_connection, || {
            format!("{check:?} was used before")
        })?;
        self.last_connection = check.0;
        let mut others = self.connections.values();
        let double = others.any(|c| c.server == server && c.task == task && !c.broken);
        expect(!double, || format!("two connections to {address}"))?;
        let connection = Connection {
            server,
            address: address.clone(),
            task,
            open: false,
            awaited: false,
            pending: true,
            broken: false,
        };
        self.connections.insert(check, connection);
        Ok(())
    }

    fn on_pool_order(&mut self, order: &Order) -> Found {
        match order {
            Order::CreatePool { server, address } => {
                let pool = (address.clone(), PoolView::Paused, 0);
                let double = self.pools.insert(*server, pool);
                expect(double.is_none(), || format!("two pools of {address}"))
            }
            Order::ReadyPool { server } => {
                self.unpublished = true;
                self.pool(*server)?.1 = PoolView::Ready;
                Ok(())
            }
            Order::ClearPool {
                server,
                service,
                interrupt,
                ..
            } => {
                let load_balanced = self.load_balanced;
                let pool = self.pool(*server)?;
                if !load_balanced {
                    pool.1 = PoolView::Paused;
                }
                let address = pool.0.clone();
                let generation = match service {
                    Some(service) => self.services.entry((*server, *service)).or_insert(0),
                    None => &mut pool.2,
                };
                *generation += 1;
                let clear = Clear {
                    address,
                    generation: *generation,
                    service: *service,
                    interrupt: *interrupt,
                };
                self.clears.push(clear);
                Ok(())
            }
            Order::ClosePool { server } => {
                let closed = self.pools.remove(server);
                expect(closed.is_some(), || format!("no pool of {server} to close"))
            }
            other => Err(format!("an order that nobody knows: {other:?}")),
        }
    }

    fn pool(&mut self, server: ServerId) -> Result<&mut (Address, PoolView, u64), String> {
        let pool = self.pools.get_mut(&server);
        pool.ok_or_else(|| format!("{server} has no pool"))
    }

    fn on_event(&mut self, now: Instant, event: &SdamEvent) -> Found {
        match event {
            SdamEvent::TopologyOpening { .. } => {
                expect(!self.opened, || "it opens twice".to_owned())?;
                self.opened = true;
                Ok(())
            }
            SdamEvent::TopologyDescriptionChanged { previous, new, .. } => {
                expect(self.opened, || "a change before the opening".to_owned())?;
                expect(same_topology(previous, &self.topology), || {
                    format!("{previous} was not what was known, but {}", self.topology)
                })?;
                self.topology = Arc::clone(new);
                Ok(())
            }
            SdamEvent::TopologyClosed { .. } => {
                self.closed = true;
                expect(self.running.is_empty(), || "a heartbeat runs on".to_owned())
            }
            SdamEvent::ServerOpening { address, .. } => {
                let server = ServerDescription::unknown(address.clone());
                let double = self.servers.insert(address.clone(), server.into());
                expect(double.is_none(), || format!("{address} opens twice"))
            }
            SdamEvent::ServerClosed { address, .. } => {
                self.ended.remove(address);
                let runs = self.running.values().any(|(a, _)| a == address);
                expect(!runs, || format!("a heartbeat of {address} runs on"))?;
                let closed = self.servers.remove(address);
                expect(closed.is_some(), || format!("{address} closes twice"))
            }
            SdamEvent::ServerDescriptionChanged {
                address,
                previous,
                new,
                ..
            } => {
                let known = self.servers.insert(address.clone(), Arc::clone(new));
                let known = known.ok_or_else(|| format!("{address} is not open"))?;
                expect(same_server(previous, &known), || {
                    format!("{previous} was not what was known, but {known}")
                })?;
                // A server description change is published only if the descriptions are unequal
                // (EVT-14).
                expect(!previous.is_same(new), || format!("no change: {new}"))
            }
            heartbeat => self.on_heartbeat(now, heartbeat),
        }
    }

    fn on_heartbeat(&mut self, now: Instant, event: &SdamEvent) -> Found {
        match event {
            SdamEvent::HeartbeatStarted {
                address,
                driver_connection_id: id,
                awaited,
                ..
            } => self.on_heartbeat_started(now, address, *id, *awaited),
            SdamEvent::HeartbeatSucceeded {
                address,
                driver_connection_id: id,
                awaited,
                ..
            } => {
                let end = End {
                    at: now,
                    succeeded: Some(*id),
                    retry: false,
                };
                self.on_heartbeat_ended(address, *id, *awaited, end)
            }
            SdamEvent::HeartbeatFailed {
                address,
                driver_connection_id: id,
                awaited,
                failure,
                ..
            } => {
                let known = self.servers.get(address);
                let known = known.is_some_and(|server| server.server_type.is_available());
                let end = End {
                    at: now,
                    succeeded: None,
                    retry: known && failure.is_network(),
                };
                self.on_heartbeat_ended(address, *id, *awaited, end)
            }
            // The warning `NoServers` comes only if no server is left (SDAM-65).
            SdamEvent::NoServers { .. } => {
                let left = self.servers.len();
                expect(left == 0, || format!("{left} servers where none was told"))
            }
            SdamEvent::PrimaryRefused { refused_for, .. } => {
                expect(*refused_for >= PRIMARY_REFUSED_NOTICE, || {
                    format!("a warning after {refused_for:?}")
                })
            }
            other => Err(format!("an event that nobody knows: {other:?}")),
        }
    }

    /// Checks that a server has no two checks at once. The check starts at least 500 ms after the
    /// last one ended, unless a reply was streamed or a failed check is repeated (E.6-2).
    fn on_heartbeat_started(
        &mut self,
        now: Instant,
        address: &Address,
        id: u64,
        awaited: bool,
    ) -> Found {
        let twice = self.running.values().any(|(a, _)| a == address);
        expect(!twice, || format!("two checks of {address} at once"))?;
        if let Some(end) = self.ended.get(address) {
            let continues = awaited && end.succeeded == Some(id);
            let waited = now.saturating_since(end.at) >= MIN_HEARTBEAT_FREQUENCY;
            expect(continues || end.retry || waited, || {
                format!("{address} was checked only at {:?}", end.at)
            })?;
        }
        self.running.insert(id, (address.clone(), awaited));
        Ok(())
    }

    /// Checks that each heartbeat ends once (E.6-1), with the address and the field `awaited` of
    /// its start.
    fn on_heartbeat_ended(&mut self, address: &Address, id: u64, awaited: bool, end: End) -> Found {
        let started = self.running.remove(&id);
        expect(started == Some((address.clone(), awaited)), || {
            format!("the heartbeat {id} of {address} ended, but began as {started:?}")
        })?;
        self.ended.insert(address.clone(), end);
        Ok(())
    }

    /// Checks the conditions that hold between any two inputs. For example, the state that follows
    /// from all events is the machine's topology description.
    pub(crate) fn settle(&self, sdam: &Sdam) -> Found {
        let now = sdam.description();
        expect(same_topology(&self.topology, now), || {
            format!("events told of {}, but it is {now}", self.topology)
        })?;
        let is_equal = self.servers.len() == now.servers.len()
            && self
                .servers
                .iter()
                .zip(&now.servers)
                .all(|((a, x), (b, y))| a == b && same_server(x, y));
        expect(is_equal, || {
            format!("events told of {:?}, but it is {now}", self.servers)
        })?;
        expect(!self.unpublished, || {
            "a pool was made ready after the description was published".to_owned()
        })?;
        self.primaries(now)?;
        self.round_trips(now)?;
        self.pools_match(sdam)?;
        if self.closed {
            expect(sdam.deadline().is_none(), || "a timer is armed".to_owned())?;
            let open = self.connections.values().any(|c| !c.broken);
            expect(!open, || "a connection is open".to_owned())?;
            expect(self.pools.is_empty(), || "a pool is open".to_owned())?;
        }
        expect(self.closed == sdam.is_closed(), || {
            "no last event".to_owned()
        })
    }

    fn primaries(&self, now: &TopologyDescription) -> Found {
        let of = |kind| now.servers.values().filter(move |s| s.server_type == kind);
        let primaries = of(ServerType::RsPrimary).count();
        let kind = now.topology_type;
        use onionskin_core::description::TopologyType as T;
        let legal = match kind {
            T::ReplicaSetWithPrimary => primaries == 1,
            T::ReplicaSetNoPrimary | T::Sharded | T::LoadBalanced | T::Unknown => primaries == 0,
            T::Single => now.servers.len() == 1,
        };
        // In a sharded topology, an `RSGhost` that was found while the type was `Unknown` stays
        // until its next reply.
        let belongs = |server: ServerType| match kind {
            T::ReplicaSetNoPrimary | T::ReplicaSetWithPrimary => {
                !matches!(server, ServerType::Standalone | ServerType::Mongos)
            }
            T::Sharded => {
                !server.is_available() || {
                    matches!(server, ServerType::Mongos | ServerType::RsGhost)
                }
            }
            T::Unknown => !server.is_data_bearing(),
            T::Single | T::LoadBalanced => true,
        };
        let stranger = now.servers.values().any(|s| !belongs(s.server_type));
        expect(legal && !stranger, || format!("not a legal state: {now}"))
    }

    /// Checks that a server, except a load balancer, has a round trip time if and only if the
    /// server is known (SDAM-49).
    fn round_trips(&self, now: &TopologyDescription) -> Found {
        let wrong = now.servers.values().find(|s| {
            s.server_type != ServerType::LoadBalancer
                && s.server_type.is_available() != s.round_trip_time.is_some()
        });
        expect(wrong.is_none(), || format!("round trip of {wrong:?}"))
    }

    /// Returns the generation of the server's pool, or of one service: the number of clears so far.
    pub(crate) fn generation(&self, server: ServerId, service: Option<&ObjectId>) -> u64 {
        let known = match service {
            Some(service) => self.services.get(&(server, *service)).copied(),
            None => self.pools.get(&server).map(|pool| pool.2),
        };
        known.unwrap_or(0)
    }

    /// Checks that each server has an id, that each server that can be selected has a ready pool
    /// (E.6-3), and that there are not more pools than servers.
    fn pools_match(&self, sdam: &Sdam) -> Found {
        for (address, server) in &sdam.description().servers {
            let id = sdam.server_id(address);
            let id = id.ok_or_else(|| format!("{address} has no id"))?;
            let pool = self.pools.get(&id);
            let state = pool.map_or(PoolView::None, |(_, state, _)| *state);
            expect(
                !server.server_type.is_data_bearing() || state == PoolView::Ready,
                || format!("{server} can be selected, but its pool is {state:?}"),
            )?;
        }
        let servers = sdam.description().servers.len();
        expect(self.pools.len() <= servers, || "pools of nobody".to_owned())
    }
}

/// Compares two server descriptions. `PossiblePrimary` means the same as `Unknown` (SDAM-12).
fn same_server(a: &ServerDescription, b: &ServerDescription) -> bool {
    let plain = |server: &ServerDescription| {
        let mut server = server.clone();
        if server.server_type == ServerType::PossiblePrimary {
            server.server_type = ServerType::Unknown;
        }
        server
    };
    a.is_same(b) || plain(a).is_same(&plain(b))
}

fn same_topology(a: &TopologyDescription, b: &TopologyDescription) -> bool {
    let bare = |topology: &TopologyDescription| TopologyDescription {
        servers: BTreeMap::new(),
        ..topology.clone()
    };
    bare(a).is_same(&bare(b))
        && a.servers.len() == b.servers.len()
        && a.servers
            .iter()
            .zip(&b.servers)
            .all(|((a, x), (b, y))| a == b && same_server(x, y))
}
