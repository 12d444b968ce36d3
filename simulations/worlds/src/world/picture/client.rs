//! The lanes of one client, made from its events.

use super::{SpanKind, lane::Lane};
use onionskin_core::{
    address::Address,
    description::{ServerDescription, ServerType},
    error::{Error, ErrorKind},
    event::{
        CommandEvent, CommandFacts, EventKind, OperationEvent, PoolEvent, SdamEvent,
        SelectionEvent, SelectionFacts,
    },
    time::Instant,
};
use std::collections::BTreeMap;

/// The lanes of one client: the servers as the client knows them, the connections of each pool,
/// and the operations.
#[derive(Clone, Debug, Default)]
pub(super) struct ClientLanes {
    servers: BTreeMap<Address, Lane>,
    pools: BTreeMap<Address, Lane>,
    operations: Lane,
}

impl ClientLanes {
    /// Notes the next event of the client.
    pub(super) fn observe(&mut self, at: Instant, event: &EventKind) {
        match event {
            EventKind::Sdam(event) => self.on_server(at, event),
            EventKind::Pool(event) => {
                let pool = self.pools.entry(event.address().clone()).or_default();
                on_connection(pool, at, event);
            }
            EventKind::Selection(event) => self.on_selection(at, event),
            EventKind::Command(event) => self.on_command(at, event),
            EventKind::Operation(event) => self.on_operation(at, event),
            // The dropped events may have been the ends of operations and connections.
            EventKind::Dropped { .. } => {
                self.operations.finish(at);
                self.pools.values_mut().for_each(|pool| pool.finish(at));
            }
            _ => {}
        }
    }

    /// Ends all spans.
    pub(super) fn finish(&mut self, at: Instant) {
        self.lanes_mut().for_each(|lane| lane.finish(at));
    }

    /// Returns the lanes with their names, in the order in which they are drawn.
    pub(super) fn lanes(&self) -> impl Iterator<Item = (String, &Lane)> {
        let servers = self.servers.iter();
        let servers = servers.map(|(address, lane)| (format!("server {address}"), lane));
        let pools = self.pools.iter();
        let pools = pools.map(|(address, lane)| (format!("pool {address}"), lane));
        let operations = [("operations".to_owned(), &self.operations)];
        servers.chain(pools).chain(operations)
    }

    fn lanes_mut(&mut self) -> impl Iterator<Item = &mut Lane> {
        let others = self.servers.values_mut().chain(self.pools.values_mut());
        others.chain([&mut self.operations])
    }

    fn on_server(&mut self, at: Instant, event: &SdamEvent) {
        match event {
            SdamEvent::ServerOpening { address, .. } => {
                let lane = self.servers.entry(address.clone()).or_default();
                lane.set(at, 0, SpanKind::Unknown, "not checked yet");
            }
            SdamEvent::ServerDescriptionChanged { address, new, .. } => {
                let lane = self.servers.entry(address.clone()).or_default();
                let error = new.error().map(ToString::to_string);
                lane.set(at, 0, kind_of(new), &error.unwrap_or_default());
            }
            SdamEvent::ServerClosed { address, .. } => {
                if let Some(lane) = self.servers.get_mut(address) {
                    lane.end(at, 0, None);
                }
            }
            _ => {}
        }
    }

    fn on_selection(&mut self, at: Instant, event: &SelectionEvent) {
        let operations = &mut self.operations;
        let number = |facts: &SelectionFacts| facts.operation_id;
        match event {
            SelectionEvent::Started { facts, .. } => {
                operations.begin_once(at, number(facts), &facts.operation);
                let text = facts.selector.to_string();
                operations.enter(at, number(facts), SpanKind::Selecting, text);
            }
            SelectionEvent::Succeeded { facts, address, .. } => {
                let text = format!("for a connection to {address}");
                operations.enter(at, number(facts), SpanKind::Waiting, text);
            }
            SelectionEvent::Failed { facts, .. } => operations.leave(at, number(facts)),
            _ => {}
        }
    }

    fn on_command(&mut self, at: Instant, event: &CommandEvent) {
        let number = |facts: &CommandFacts| facts.operation_id;
        match event {
            CommandEvent::Started { facts, .. } => {
                let connection = facts.driver_connection_id;
                let text = format!(
                    "{} on {}, connection {connection}",
                    facts.name, facts.address
                );
                self.operations.begin_once(at, number(facts), &facts.name);
                self.operations
                    .enter(at, number(facts), SpanKind::Exchanging, text);
            }
            CommandEvent::Succeeded { facts, .. } => self.operations.leave(at, number(facts)),
            CommandEvent::Failed { facts, failure, .. } => {
                let text = format!("after {failure}");
                self.operations
                    .enter(at, number(facts), SpanKind::Backoff, text);
            }
            _ => {}
        }
    }

    fn on_operation(&mut self, at: Instant, event: &OperationEvent) {
        match event {
            OperationEvent::Started { facts, .. } => {
                let text = format!("{} of {}", facts.name, facts.database);
                self.operations.begin(at, facts.operation_id, text);
            }
            OperationEvent::Ended { facts, failure, .. } => {
                self.end_operation(at, facts.operation_id, failure.as_ref());
            }
            _ => {}
        }
    }

    /// Ends an operation, if it has not ended.
    pub(super) fn end_operation(&mut self, at: Instant, number: u64, failure: Option<&Error>) {
        let text = failure.map(|error| format!(": {error}"));
        let kind = match failure.map(|error| error.kind()) {
            None => SpanKind::Succeeded,
            Some(ErrorKind::Abandoned) => SpanKind::Abandoned,
            Some(_) => SpanKind::Failed,
        };
        let result = (kind, text.as_deref().unwrap_or_default());
        self.operations.end(at, number, Some(result));
    }
}

fn on_connection(pool: &mut Lane, at: Instant, event: &PoolEvent) {
    match event {
        PoolEvent::ConnectionCreated { connection, .. } => {
            pool.begin(at, *connection, String::new());
            let text = format!("connection {connection}");
            pool.enter(at, *connection, SpanKind::Establishing, text);
        }
        PoolEvent::ConnectionReady { connection, .. } | PoolEvent::CheckedIn { connection, .. } => {
            let text = format!("connection {connection}");
            // Dropped events may have ended the connection.
            pool.begin_once(at, *connection, "");
            pool.enter(at, *connection, SpanKind::Idle, text);
        }
        PoolEvent::CheckedOut { connection, .. } => {
            let text = format!("connection {connection}");
            pool.begin_once(at, *connection, "");
            pool.enter(at, *connection, SpanKind::Used, text);
        }
        PoolEvent::ConnectionClosed { connection, .. } => pool.end(at, *connection, None),
        _ => {}
    }
}

fn kind_of(description: &ServerDescription) -> SpanKind {
    match description.server_type() {
        ServerType::Standalone => SpanKind::Standalone,
        ServerType::Mongos => SpanKind::Mongos,
        ServerType::RsPrimary => SpanKind::Primary,
        ServerType::RsSecondary => SpanKind::Secondary,
        ServerType::RsArbiter => SpanKind::Arbiter,
        ServerType::LoadBalancer => SpanKind::Balancer,
        ServerType::Unknown | ServerType::PossiblePrimary => SpanKind::Unknown,
        ServerType::RsOther | ServerType::RsGhost => SpanKind::Other,
    }
}
