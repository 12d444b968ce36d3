//! Recordings of clients behind a load balancer: pinned connections replay to the same actions.

use super::*;
use crate::{
    client::tests::recordings::{WHOLE, assert_same, config, file_of},
    operation::{SessionOptions, TransactionOptions, crud::Defaults},
};

fn recorded() -> World {
    World::with_config(config(URI, WHOLE), service(1))
}

#[test]
fn a_pinned_cursor_replays_to_the_same_actions() {
    let mut world = recorded();
    let (mut cursor, facts) = open_cursor(&mut world);
    let more = cursor_reply(5, "nextBatch");
    fetch(&mut world, &mut cursor, &more).expect("a batch");
    assert_eq!(world.client.snapshot().pins.len(), 1);
    let kill = cursor.end().expect("it is open");
    let mut exchange = world.begin_exchange(kill);
    assert_eq!(exchange.socket(), facts.socket);
    World::answer(&mut exchange, &rawdoc! { "ok": 1 });
    world.check_in(exchange, Outcome::Completed);
    assert!(world.client.snapshot().pins.is_empty());
    assert_same(&file_of(&world));
}

#[test]
fn a_pin_that_is_released_replays_to_the_same_actions() {
    let mut world = recorded();
    let (mut exchange, pin) = pinned_transaction(&mut world);
    World::answer(&mut exchange, &rawdoc! { "ok": 1, "n": 1 });
    world.check_in(exchange, Outcome::Completed);
    let mut command = ping();
    command.set_pin(&pin);
    world.perform(command, &rawdoc! { "ok": 1 });
    // The next command waits for the connection, which breaks.
    let mut first = ping();
    first.set_pin(&pin);
    let exchange = world.begin_exchange(first);
    let mut second = ping();
    second.set_pin(&pin);
    let Progress::Waiting(id) = world.client.start(world.now, second) else {
        panic!("the connection is in use");
    };
    world.check_in(exchange, reset());
    let progress = world.client.resume(world.now, id);
    assert!(matches!(progress, Progress::Failed(_)), "{progress:?}");
    world.client.release(world.now, pin);
    world.run();
    assert!(world.client.snapshot().pins.is_empty());
    assert_same(&file_of(&world));
}

#[test]
fn a_pinned_transaction_replays_to_the_same_actions() {
    let mut world = recorded();
    let session = world
        .client
        .start_session(world.now, &SessionOptions::default());
    let session = session.expect("the client is open").id;
    let (now, defaults) = (world.now, Defaults::default());
    let options = TransactionOptions::default();
    let started = world
        .client
        .start_transaction(now, session, &options, &defaults);
    started.expect("no transaction is in progress");
    for mut command in [insert(), find()] {
        command.use_explicit_session(session);
        world.perform(command, &rawdoc! { "ok": 1, "n": 1 });
    }
    assert_eq!(world.client.snapshot().pins.len(), 1);
    let commit = world.client.commit_transaction(now, session, None);
    let commit = commit.expect("it is permitted").expect("operations ran");
    world.perform(commit, &rawdoc! { "ok": 1 });
    release_resources(&mut world, CursorResources::of_session(session));
    assert!(world.client.snapshot().pins.is_empty());
    assert_same(&file_of(&world));
}
