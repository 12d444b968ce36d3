//! What the monitors of all servers write to: the queue of orders, the timers, the connections.

use super::{
    MIN_HEARTBEAT_FREQUENCY,
    action::{Action, MonitorConnectionId, MonitorTask, SdamOptions},
    timers::Timers,
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

/// Orders and timers, with the options that decide about them.
#[derive(Clone, Debug)]
pub(super) struct Outbox {
    pub(super) actions: VecDeque<Action>,
    pub(super) timers: Timers,
    pub(super) topology: TopologyId,
    pub(super) heartbeat_frequency: Duration,
    pub(super) streaming: bool,
    /// Monitors check only when a scan tells them to.
    pub(super) scanning: bool,
    pub(super) legacy_hello: bool,
    pub(super) subscribed: bool,
    notices: bool,
    connect_timeout: Option<Duration>,
    connections: BTreeMap<MonitorConnectionId, ServerId>,
    last_check: u64,
}

impl Outbox {
    pub(super) fn new(options: &SdamOptions) -> Self {
        Self {
            actions: VecDeque::new(),
            timers: Timers::default(),
            topology: options.topology_id,
            heartbeat_frequency: options.heartbeat_frequency.max(MIN_HEARTBEAT_FREQUENCY),
            // A pushed reply would come when nobody listens.
            streaming: options.streaming && options.scanning.is_none(),
            scanning: options.scanning.is_some(),
            legacy_hello: options.legacy_hello,
            subscribed: options.subscribed,
            notices: options.subscribed || options.notices,
            connect_timeout: options.connect_timeout.filter(|limit| !limit.is_zero()),
            connections: BTreeMap::new(),
            last_check: 0,
        }
    }

    /// How long a check may take (MON-43, MON-44).
    pub(super) fn check_limit(&self, awaited: bool) -> Option<Duration> {
        let limit = self.connect_timeout?;
        Some(if awaited {
            limit.saturating_add(self.heartbeat_frequency)
        } else {
            limit
        })
    }

    /// Orders an action.
    pub(super) fn push(&mut self, action: Action) {
        self.actions.push_back(action);
    }

    /// Publishes an event, if somebody listens.
    pub(super) fn emit(&mut self, event: impl FnOnce(TopologyId) -> SdamEvent) {
        if self.subscribed {
            let event = event(self.topology);
            self.actions.push_back(Action::Emit(event));
        }
    }

    /// Publishes that no server is left (SDAM-65).
    pub(super) fn warn_of_no_servers(&mut self, cause: NoServersCause) {
        if self.notices {
            let topology = self.topology;
            let event = SdamEvent::NoServers { topology, cause };
            self.push(Action::Emit(event));
        }
    }

    /// A number for the next connection, before it is ordered.
    pub(super) fn reserve(&mut self, server: ServerId) -> MonitorConnectionId {
        self.last_check += 1;
        let check = MonitorConnectionId(self.last_check);
        self.connections.insert(check, server);
        check
    }

    /// Orders the connection of that number.
    pub(super) fn open(
        &mut self,
        check: MonitorConnectionId,
        server: ServerId,
        address: &Address,
        purpose: MonitorTask,
    ) {
        self.push(Action::Open {
            check,
            server,
            address: address.clone(),
            purpose,
        });
    }

    /// Orders a hello; the old name is used until a reply says that the new one is understood.
    pub(super) fn send_hello(
        &mut self,
        check: MonitorConnectionId,
        hello_ok: bool,
        awaited: Option<TopologyVersion>,
    ) {
        let action = Action::SendHello {
            check,
            legacy: self.legacy_hello && !hello_ok,
            awaitable: awaited.map(|version| (version, self.heartbeat_frequency)),
        };
        self.push(action);
    }

    /// Orders a connection closed and forgets its number.
    pub(super) fn close(&mut self, check: MonitorConnectionId) {
        if self.connections.remove(&check).is_some() {
            self.push(Action::Close { check });
        }
    }

    /// Whose connection that is; `None` for one that was closed.
    pub(super) fn server_of(&self, check: MonitorConnectionId) -> Option<ServerId> {
        self.connections.get(&check).copied()
    }
}
