//! The effects of the discovery machine: the queue of orders, the timers and the monitors'
//! connections.

use super::{
    MIN_HEARTBEAT_FREQUENCY,
    order::{MonitorConnectionId, MonitorTask, Order, SdamOptions},
    timers::Timers,
    turns::Turns,
};
use crate::{
    address::Address,
    description::{ServerId, TopologyId},
    error::TopologyVersion,
    event::{NoServersCause, SdamEvent},
};
use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

/// The queue of orders, the timers and the monitors' connections, with the options that monitors
/// need.
#[derive(Clone, Debug)]
pub(super) struct Effects {
    /// The orders that the caller has not taken yet.
    pub(super) orders: VecDeque<Order>,
    /// The armed timers.
    pub(super) timers: Timers,
    /// The turns of servers that never answered.
    pub(super) turns: Turns,
    /// The id of the topology in events.
    pub(super) topology: TopologyId,
    /// `heartbeatFrequencyMS`, at least [`MIN_HEARTBEAT_FREQUENCY`].
    pub(super) heartbeat_frequency: Duration,
    /// True if monitors use the streaming protocol with servers that support streaming.
    pub(super) streaming: bool,
    /// True if the client checks servers on demand.
    pub(super) scanning: bool,
    /// True if the client declares no server API version and is not behind a load balancer; see
    /// [`SdamOptions::legacy_hello`].
    pub(super) legacy_hello: bool,
    /// True if events are emitted.
    pub(super) subscribed: bool,
    /// True if [`SdamEvent::NoServers`] and [`SdamEvent::PrimaryRefused`] are emitted.
    notices: bool,
    /// `connectTimeoutMS`; `None` for no limit.
    connect_timeout: Option<Duration>,
    /// The server of each connection that is not closed.
    connections: BTreeMap<MonitorConnectionId, ServerId>,
    /// The number of the newest [`MonitorConnectionId`]; 0 before the first.
    last_connection: u64,
}

impl Effects {
    pub(super) fn new(options: &SdamOptions) -> Self {
        Self {
            orders: VecDeque::new(),
            timers: Timers::default(),
            turns: Turns::default(),
            topology: options.topology_id,
            heartbeat_frequency: options.heartbeat_frequency.max(MIN_HEARTBEAT_FREQUENCY),
            // Between operations, a client that checks servers on demand does not read streamed
            // replies.
            streaming: options.streaming && options.scanning.is_none(),
            scanning: options.scanning.is_some(),
            legacy_hello: options.legacy_hello,
            subscribed: options.subscribed,
            notices: options.subscribed || options.notices,
            connect_timeout: options.connect_timeout.filter(|limit| !limit.is_zero()),
            connections: BTreeMap::new(),
            last_connection: 0,
        }
    }

    /// Returns the time limit of a check: `connectTimeoutMS`, and for an awaited reply
    /// `connectTimeoutMS` plus `heartbeatFrequencyMS` (MON-43, MON-44). `None` for no limit.
    pub(super) fn check_limit(&self, awaited: bool) -> Option<Duration> {
        let limit = self.connect_timeout?;
        Some(if awaited {
            limit.saturating_add(self.heartbeat_frequency)
        } else {
            limit
        })
    }

    /// Queues an order.
    pub(super) fn push(&mut self, order: Order) {
        self.orders.push_back(order);
    }

    /// Queues an event. If [`Self::subscribed`] is false, the event is not built.
    pub(super) fn emit(&mut self, event: impl FnOnce(TopologyId) -> SdamEvent) {
        if self.subscribed {
            let event = event(self.topology);
            self.orders.push_back(Order::Emit(event));
        }
    }

    /// Queues an event if [`Self::notices`] is true. Otherwise the event is not built.
    pub(super) fn notice(&mut self, event: impl FnOnce(TopologyId) -> SdamEvent) {
        if self.notices {
            let event = event(self.topology);
            self.push(Order::Emit(event));
        }
    }

    /// Queues the event that the topology has no servers (SDAM-65).
    pub(super) fn warn_of_no_servers(&mut self, cause: NoServersCause) {
        self.notice(|topology| SdamEvent::NoServers { topology, cause });
    }

    /// Returns the id of a new connection. The id is allotted before [`Self::open`], because the
    /// heartbeat started event contains the id.
    pub(super) fn reserve(&mut self, server: ServerId) -> MonitorConnectionId {
        self.last_connection += 1;
        let connection = MonitorConnectionId(self.last_connection);
        self.connections.insert(connection, server);
        connection
    }

    /// Queues the order that opens a connection.
    pub(super) fn open(
        &mut self,
        connection: MonitorConnectionId,
        server: ServerId,
        address: &Address,
        task: MonitorTask,
    ) {
        self.push(Order::Open {
            connection,
            server,
            address: address.clone(),
            task,
        });
    }

    /// Queues a `hello` on an open connection, or a legacy hello if the client declares no server
    /// API version and `hello_ok` is false. With `awaited`, the command is awaitable.
    pub(super) fn send_hello(
        &mut self,
        connection: MonitorConnectionId,
        hello_ok: bool,
        awaited: Option<TopologyVersion>,
    ) {
        let order = Order::SendHello {
            connection,
            legacy: self.legacy_hello && !hello_ok,
            awaitable: awaited.map(|version| (version, self.heartbeat_frequency)),
        };
        self.push(order);
    }

    /// Queues the order that closes a connection, unless it is closed already.
    pub(super) fn close(&mut self, connection: MonitorConnectionId) {
        if self.connections.remove(&connection).is_some() {
            self.push(Order::Close { connection });
        }
    }

    /// Returns the server of a connection; `None` after the connection was closed.
    pub(super) fn server_of(&self, connection: MonitorConnectionId) -> Option<ServerId> {
        self.connections.get(&connection).copied()
    }
}
