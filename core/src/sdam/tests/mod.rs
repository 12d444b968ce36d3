//! Tests of the whole discovery machine: scripts of inputs, and the orders that the machine gives.

mod check_rate;
mod discovery;
mod errors;
mod events;
mod forking;
mod hostile;
mod monitoring;
mod properties;
mod refused_primary;
mod rows;
mod scan;
mod scan_order;
mod topology;
mod turns;

use super::{ApplicationError, MonitorConnectionId, MonitorTask, Order, Phase, Sdam, SdamOptions};
use crate::{
    address::Address,
    description::{ServerId, ServerType, TopologyId, TopologyType},
    error::{CommandError, Error, ErrorKind, Label, NetworkFault, Wait},
    event::SdamEvent,
    hello::HelloAnswer,
    time::Instant,
};
use bson::{RawDocumentBuf, oid::ObjectId, rawdoc};
use std::time::Duration;

pub(super) const PING: Duration = Duration::from_millis(1);

/// A machine with its time, whose orders are shown as short texts.
pub(super) struct Bench {
    pub(super) sdam: Sdam,
    pub(super) now: Instant,
}

impl Bench {
    pub(super) fn new(options: SdamOptions) -> Self {
        let mut sdam = Sdam::new(options);
        sdam.start(Instant::ZERO);
        Self {
            sdam,
            now: Instant::ZERO,
        }
    }

    pub(super) fn seeds(seeds: &[&str], change: impl FnOnce(&mut SdamOptions)) -> Self {
        let mut options = options(seeds);
        change(&mut options);
        Self::new(options)
    }

    /// Returns the texts of all orders since the last call.
    pub(super) fn orders(&mut self) -> Vec<String> {
        let mut orders = Vec::new();
        while let Some(order) = self.poll() {
            orders.push(describe(&order));
        }
        orders
    }

    /// Returns the next order other than `CheckEnded`. After `CheckEnded`, calls `set_waiting`
    /// with the same value as before, so that a scan for which operations wait continues.
    pub(super) fn poll(&mut self) -> Option<Order> {
        let order = self.sdam.poll_order()?;
        if !matches!(order, Order::CheckEnded) {
            return Some(order);
        }
        let waiting = self.sdam.waiting;
        self.sdam.set_waiting(self.now, waiting);
        self.poll()
    }

    pub(super) fn pass(&mut self, millis: u64) {
        self.now = self.now + Duration::from_millis(millis);
        self.sdam.handle_timeout(self.now);
    }

    pub(super) fn connected(&mut self, connection: u64, reply: &RawDocumentBuf) {
        self.sdam.handle_connected(
            self.now,
            MonitorConnectionId(connection),
            HelloAnswer::new(reply.to_owned()),
            PING,
        );
    }

    pub(super) fn reply(&mut self, connection: u64, reply: &RawDocumentBuf, more_to_come: bool) {
        self.sdam.handle_reply(
            self.now,
            MonitorConnectionId(connection),
            HelloAnswer::new(reply.to_owned()),
            PING,
            more_to_come,
        );
    }

    pub(super) fn failed(&mut self, connection: u64) {
        self.sdam
            .handle_failed(self.now, MonitorConnectionId(connection), reset());
    }

    pub(super) fn application_error(&mut self, address: &str, phase: Phase, error: Error) {
        let server = self.id(address);
        let error = ApplicationError {
            error,
            phase,
            is_stale: false,
            service: None,
        };
        self.sdam.handle_application_error(self.now, server, &error);
    }

    pub(super) fn id(&self, address: &str) -> ServerId {
        let address = address.parse().expect("it is an address");
        self.sdam.server_id(&address).expect("it is a server")
    }

    pub(super) fn server_type(&self, address: &str) -> ServerType {
        let id = self.id(address);
        self.sdam.server(id).expect("it is a server").server_type
    }

    pub(super) fn topology_type(&self) -> TopologyType {
        self.sdam.description().topology_type
    }

    /// Returns the time until the deadline in milliseconds; `None` without a deadline.
    pub(super) fn sleeps(&self) -> Option<u64> {
        let deadline = self.sdam.deadline()?;
        Some(u64::try_from((deadline - self.now).as_millis()).expect("it is near"))
    }
}

pub(super) fn options(seeds: &[&str]) -> SdamOptions {
    let seeds = seeds.iter().map(|s| s.parse().expect("an address"));
    let id = TopologyId(ObjectId::from_bytes([1; 12]));
    SdamOptions::new(id, seeds.collect())
}

/// Returns a machine that polls its one server and emits no events.
pub(super) fn polled() -> Bench {
    Bench::seeds(&["a:1"], |options| {
        options.streaming = false;
        options.subscribed = false;
        options.direct_connection = true;
    })
}

/// Returns a machine that uses the streaming protocol with its one server and emits no events.
pub(super) fn streamed() -> Bench {
    Bench::seeds(&["a:1"], |options| {
        options.subscribed = false;
        options.direct_connection = true;
    })
}

pub(super) fn standalone() -> RawDocumentBuf {
    rawdoc! { "ok": 1, "helloOk": true, "maxWireVersion": 21, "connectionId": 7 }
}

/// Returns the reply of a standalone of version 4.4 or later, with this counter in its
/// `topologyVersion`.
pub(super) fn versioned(counter: i64) -> RawDocumentBuf {
    rawdoc! {
        "ok": 1, "helloOk": true, "maxWireVersion": 21,
        "topologyVersion": { "processId": ObjectId::from_bytes([1; 12]), "counter": counter },
    }
}

/// Returns the reply of a member of the replica set `rs`: of a primary if `writable` is true,
/// otherwise of a secondary.
pub(super) fn member(writable: bool, primary: &str) -> RawDocumentBuf {
    rawdoc! {
        "ok": 1, "helloOk": true, "maxWireVersion": 21, "setName": "rs",
        "isWritablePrimary": writable, "secondary": !writable,
        "hosts": ["a:1", "b:1"], "primary": primary,
    }
}

/// Returns a network error.
pub(super) fn reset() -> Error {
    Error::network(NetworkFault::Reset, "connection reset")
}

/// Returns a command error with this code.
pub(super) fn command(code: i32) -> Error {
    let reply = rawdoc! { "ok": 0, "code": code, "errmsg": "no" };
    let fault = CommandError::from_reply(&reply);
    Error::new(ErrorKind::Command(fault))
}

pub(super) fn timeout() -> Error {
    Error::timeout(Wait::Exchange, "too slow")
}

/// Returns the error with the label `SystemOverloadedError`.
pub(super) fn labelled(error: Error) -> Error {
    error.with_label(Label::SystemOverloadedError)
}

fn describe(order: &Order) -> String {
    match order {
        Order::Emit(event) => describe_event(event),
        Order::Open {
            connection,
            address,
            task,
            ..
        } => match task {
            MonitorTask::Check => format!("open {} to {address}", connection.0),
            MonitorTask::Rtt => format!("measure {} to {address}", connection.0),
        },
        Order::SendHello {
            connection,
            legacy,
            awaitable,
        } => {
            let name = if *legacy { "legacy hello" } else { "hello" };
            match awaitable {
                Some((version, wait)) => {
                    let (counter, wait) = (version.counter, wait.as_millis());
                    format!("{name} on {} after {counter} within {wait}", connection.0)
                }
                None => format!("{name} on {}", connection.0),
            }
        }
        Order::Close { connection } => format!("close {}", connection.0),
        Order::CreatePool { address, .. } => format!("create pool of {address}"),
        Order::ReadyPool { server } => format!("ready pool of {server}"),
        Order::ClearPool {
            interrupt, service, ..
        } => {
            let what = service.map_or("pool", |_| "service");
            let how = if *interrupt { ", interrupting" } else { "" };
            format!("clear {what}{how}")
        }
        Order::ClosePool { server } => format!("close pool of {server}"),
        Order::CheckEnded => "check ended".to_owned(),
        Order::ScanEnded => "scan ended".to_owned(),
        Order::Publish => "publish".to_owned(),
    }
}

fn describe_event(event: &SdamEvent) -> String {
    match event {
        SdamEvent::TopologyOpening { .. } => "topology opens".to_owned(),
        SdamEvent::TopologyClosed { .. } => "topology closed".to_owned(),
        SdamEvent::TopologyDescriptionChanged { previous, new, .. } => {
            format!(
                "topology {} to {}",
                previous.topology_type, new.topology_type
            )
        }
        SdamEvent::ServerOpening { address, .. } => format!("{address} opens"),
        SdamEvent::ServerClosed { address, .. } => format!("{address} closed"),
        SdamEvent::ServerDescriptionChanged {
            address,
            previous,
            new,
            ..
        } => format!("{address} {} to {}", previous.server_type, new.server_type),
        SdamEvent::NoServers { cause, .. } => format!("no servers: {cause:?}"),
        SdamEvent::PrimaryRefused { .. }
        | SdamEvent::RescanFailed { .. }
        | SdamEvent::HostIgnored { .. }
        | SdamEvent::TxtRecordIgnored { .. } => event.to_string(),
        SdamEvent::HeartbeatStarted {
            driver_connection_id: id,
            server_connection_id,
            awaited,
            ..
        } => format!(
            "started {id} ({server_connection_id:?}){}",
            awaits(*awaited)
        ),
        SdamEvent::HeartbeatSucceeded {
            driver_connection_id: id,
            server_connection_id,
            awaited,
            ..
        } => format!(
            "succeeded {id} ({server_connection_id:?}){}",
            awaits(*awaited)
        ),
        SdamEvent::HeartbeatFailed {
            driver_connection_id: id,
            awaited,
            ..
        } => format!("failed {id}{}", awaits(*awaited)),
    }
}

fn awaits(awaited: bool) -> &'static str {
    if awaited { ", awaited" } else { "" }
}

/// Returns the addresses of the servers in the topology, sorted.
pub(super) fn addresses(bench: &Bench) -> Vec<String> {
    let servers = &bench.sdam.description().servers;
    servers.keys().map(Address::to_string).collect()
}
