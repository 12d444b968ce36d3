//! The discovery machine of a test file, and the answers of the file's servers to its checks.

use crate::compressors::with_compressors;
use bson::{Bson, Document, RawDocumentBuf, oid::ObjectId};
use onionskin_core::{
    address::Address,
    description::{ServerId, TopologyId},
    error::{Error, NetworkFault},
    event::SdamEvent,
    time::Instant,
    unstable::{
        hello::HelloAnswer,
        sdam::{
            MIN_HEARTBEAT_FREQUENCY, MonitorConnectionId, MonitorTask, Order, Sdam, SdamOptions,
        },
    },
    uri,
};
use serde_json::Value;
use std::{collections::BTreeMap, time::Duration};

const ROUND_TRIP: Duration = Duration::from_millis(1);

/// The answer that the connection of a monitor waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Waits {
    Handshake,
    Reply,
    Nothing,
}

/// The discovery machine, its time, and the last monitor connection of each address.
pub(super) struct World {
    sdam: Sdam,
    now: Instant,
    connections: BTreeMap<Address, (MonitorConnectionId, Waits)>,
    /// The number of clears of the pool of each server.
    generations: BTreeMap<ServerId, u64>,
    events: Vec<SdamEvent>,
}

impl World {
    pub(super) fn new(uri: &str, possible_primary: bool) -> Result<Self, String> {
        let options = SdamOptions {
            possible_primary,
            ..options_from_uri(uri)?
        };
        let mut world = Self {
            sdam: Sdam::new(options),
            now: Instant::ZERO,
            connections: BTreeMap::new(),
            generations: BTreeMap::new(),
            events: Vec::new(),
        };
        world.sdam.start(world.now);
        world.drain();
        Ok(world)
    }

    /// Answers the check of a server, or fails the check if the reply is empty. A check is
    /// requested first, in case none is under way. A removed server can still answer.
    pub(super) fn answer(&mut self, address: &str, reply: &Value) -> Result<(), String> {
        let address: Address = address.parse().map_err(|e| format!("{address}: {e}"))?;
        self.now = self.now + MIN_HEARTBEAT_FREQUENCY;
        self.sdam.request_check(self.now);
        self.drain();
        let Some(&(check, waits)) = self.connections.get(&address) else {
            return Err(format!("{address} was never checked"));
        };
        if waits == Waits::Nothing && self.sdam.server_id(&address).is_some() {
            return Err(format!("{address} is not being checked"));
        }
        let reply = document(reply)?;
        let now = self.now;
        if reply.is_empty() {
            let error = Error::network(NetworkFault::Closed, "the connection was closed");
            self.sdam.handle_failed(now, check, error);
        } else if waits == Waits::Reply {
            self.sdam.handle_reply(
                now,
                check,
                HelloAnswer::new(raw(&reply)?.to_owned()),
                ROUND_TRIP,
                false,
            );
        } else {
            self.sdam.handle_connected(
                now,
                check,
                HelloAnswer::new(raw(&reply)?.to_owned()),
                ROUND_TRIP,
            );
        }
        self.drain();
        Ok(())
    }

    /// Gives the machine an input other than a reply.
    pub(super) fn feed(&mut self, input: impl FnOnce(&mut Sdam, Instant)) {
        input(&mut self.sdam, self.now);
        self.drain();
    }

    /// Returns the events since the last call, without heartbeat events, which no file lists.
    pub(super) fn take_events(&mut self) -> Vec<SdamEvent> {
        std::mem::take(&mut self.events)
    }

    /// Returns the generation of a server's pool, which is the number of its clears.
    pub(super) fn generation(&self, server: ServerId) -> u64 {
        self.generations.get(&server).copied().unwrap_or(0)
    }

    pub(super) fn sdam(&self) -> &Sdam {
        &self.sdam
    }

    /// Closes the machine at the end of a file. Fails if a checked connection stays open, if
    /// topology closed is not the last event, or if the machine still has a deadline.
    pub(super) fn close(mut self) -> Result<(), String> {
        self.feed(|sdam, now| sdam.close(now));
        let open = self.connections.values().any(|c| c.1 != Waits::Nothing);
        let closed = matches!(self.events.last(), Some(SdamEvent::TopologyClosed { .. }));
        if open || !closed || self.sdam.deadline().is_some() {
            return Err(
                "after the close the machine still has an open connection or a deadline, or \
                 topology closed is not the last event"
                    .to_owned(),
            );
        }
        Ok(())
    }

    fn drain(&mut self) {
        while let Some(order) = self.sdam.poll_order() {
            match order {
                Order::Emit(
                    SdamEvent::HeartbeatStarted { .. }
                    | SdamEvent::HeartbeatSucceeded { .. }
                    | SdamEvent::HeartbeatFailed { .. },
                ) => {}
                Order::Emit(event) => self.events.push(event),
                Order::Open {
                    connection,
                    address,
                    task: MonitorTask::Check,
                    ..
                } => {
                    self.connections
                        .insert(address, (connection, Waits::Handshake));
                }
                Order::SendHello { connection, .. } => self.expect(connection, Waits::Reply),
                Order::Close { connection } => self.expect(connection, Waits::Nothing),
                Order::ClearPool { server, .. } => {
                    *self.generations.entry(server).or_insert(0) += 1;
                }
                // Connections that measure round trip times get no answer, and there are no pools.
                _ => {}
            }
        }
    }

    fn expect(&mut self, check: MonitorConnectionId, waits: Waits) {
        for connection in self.connections.values_mut() {
            if connection.0 == check {
                connection.1 = waits;
            }
        }
    }
}

/// Returns the discovery options of a connection string.
fn options_from_uri(uri: &str) -> Result<SdamOptions, String> {
    let parsed = uri::parse(&with_compressors(uri)).map_err(|error| error.to_string())?;
    let options = parsed.options;
    let id = TopologyId(ObjectId::from_bytes([42; 12]));
    Ok(SdamOptions {
        replica_set: options.repl_set_name.as_deref().map(ToOwned::to_owned),
        direct_connection: options.direct_connection == Some(true),
        load_balanced: options.load_balanced(),
        ..SdamOptions::new(id, options.hosts().to_vec())
    })
}

/// Parses a document of a test file, which can be extended JSON.
pub(super) fn document(value: &Value) -> Result<Document, String> {
    match Bson::try_from(value.clone()) {
        Ok(Bson::Document(document)) => Ok(document),
        Ok(other) => Err(format!("a document is expected, not {other}")),
        Err(error) => Err(format!("not extended JSON: {error}")),
    }
}

pub(super) fn raw(document: &Document) -> Result<RawDocumentBuf, String> {
    RawDocumentBuf::try_from(document).map_err(|error| error.to_string())
}
