//! Tests of a client behind a load balancer: services, and connections that are pinned to cursors
//! and transactions.

mod adaptive;
mod cursors;
mod pins;
mod pins_at_close;
mod random_inputs;
mod recordings;
mod services;
mod transactions;

use super::*;
use crate::{
    connection::ConnectionFacts,
    event::{CloseReason, PoolEvent, SdamEvent},
    operation::{Cursor, CursorResources, Pin, Program, Step},
    options::ReadMode,
    pool::PinnedFor,
};

const URI: &str = "mongodb://lb/?loadBalanced=true";

fn id(n: u8) -> ObjectId {
    let mut bytes = [0; 12];
    bytes[11] = n;
    ObjectId::from_bytes(bytes)
}

fn service(n: u8) -> RawDocumentBuf {
    let mut hello = mongos();
    hello.append(bson::cstr!("serviceId"), id(n));
    hello
}

fn world() -> World {
    let mut world = World::with_subscriptions(URI, service(1), Subscriptions::all());
    take_events(&mut world);
    world
}

/// Returns the pool events since the last call, as short texts.
fn take_events(world: &mut World) -> Vec<String> {
    std::iter::from_fn(|| world.client.poll_event())
        .filter_map(|event| match event.kind {
            EventKind::Pool(event) => Some(event),
            _ => None,
        })
        .map(|event| match event {
            PoolEvent::CheckOutStarted { .. } => "started".into(),
            PoolEvent::CheckedOut { connection, .. } => format!("out {connection}"),
            PoolEvent::CheckedIn { connection, .. } => format!("in {connection}"),
            PoolEvent::ConnectionCreated { connection, .. } => format!("created {connection}"),
            PoolEvent::ConnectionReady { connection, .. } => format!("ready {connection}"),
            PoolEvent::ConnectionClosed {
                connection, reason, ..
            } => format!("closed {connection}: {reason:?}"),
            PoolEvent::Cleared {
                service: Some(service),
                ..
            } => format!("cleared {}", service.bytes()[11]),
            PoolEvent::CheckOutFailed { reason, .. } => format!("failed: {reason:?}"),
            other => format!("{other:?}"),
        })
        .collect()
}

fn cursor_reply(id: i64, batch: &str) -> RawDocumentBuf {
    let body = bson::doc! { "ok": 1, "cursor": { "id": id, "ns": "db.c", batch: [{ "a": 1 }] } };
    RawDocumentBuf::try_from(&body).expect("BSON")
}

fn shutting_down() -> RawDocumentBuf {
    rawdoc! { "ok": 0, "code": 11600, "errmsg": "interrupted at shutdown" }
}

/// Runs a find that leaves a cursor open on the server.
fn open_cursor(world: &mut World) -> (Cursor, ConnectionFacts) {
    let mut exchange = world.begin_exchange(find());
    let facts = exchange.facts().clone();
    World::answer(&mut exchange, &cursor_reply(5, "firstBatch"));
    let cursor = Cursor::from_exchange(&mut exchange, "db".into()).expect("a cursor");
    let after = world.check_in(exchange, Outcome::Completed);
    assert!(matches!(after, AfterExchange::Done(Ok(()))));
    (cursor, facts)
}

/// Begins the exchange of the next batch of a cursor.
fn more(world: &mut World, cursor: &mut Cursor) -> Exchange {
    let command = cursor.more().expect("it is open");
    world.begin_exchange(command)
}

/// Runs the exchange of the next batch with this reply, and returns its result.
fn fetch(world: &mut World, cursor: &mut Cursor, reply: &RawDocument) -> Result<(), Error> {
    let mut exchange = more(world, cursor);
    World::answer(&mut exchange, reply);
    let step = exchange
        .outcome()
        .is_ok()
        .then(|| cursor.handle_reply(&mut exchange));
    match world.check_in(exchange, Outcome::Completed) {
        AfterExchange::Done(Ok(())) => match step {
            Some(Step::Done(result)) => result.map(|_| ()),
            other => panic!("the batch has a document: {other:?}"),
        },
        AfterExchange::Done(Err(error)) => {
            cursor.handle_failure(&error);
            Err(error)
        }
        AfterExchange::Again(_) => panic!("a cursor's follow-up is not tried again"),
    }
}

fn release_resources(world: &mut World, resources: CursorResources) {
    let now = world.now;
    world.client.release_cursor(now, resources);
    world.run();
}

fn pinned_transaction(world: &mut World) -> (Exchange, Pin) {
    let mut exchange = world.begin_exchange(insert());
    let pin = exchange
        .pin(PinnedFor::Transaction)
        .expect("a load balancer");
    (exchange, pin)
}
