//! Tests of a client in a forked process: what it does with the sockets and sessions of the parent,
//! and how it continues.

use super::*;
use crate::event::PoolEvent;
use std::time::Duration;

const URI: &str = "mongodb://a/?replicaSet=rs&maxPoolSize=5";

fn seed() -> Seed {
    Seed::new([6; 32])
}

fn session_of(exchange: &Exchange) -> [u8; 16] {
    exchange.operation.request.lsid.expect("a session")
}

/// Reports a fork to the client. Returns the sockets that were dialled before. Afterwards
/// `world.sent` has the sockets on which the child sent something.
fn fork(world: &mut World) -> BTreeSet<SocketId> {
    let before = world.dialled.iter().map(|(socket, _)| *socket).collect();
    world.sent.clear();
    world.client.handle_forked(world.now, &seed());
    world.run();
    before
}

#[test]
fn a_forked_child_closes_its_inherited_connections_without_sending_anything() {
    // The child clears its pools (CMAP-37), sends nothing on connections of the parent, and closes
    // those that are not in use at once (CMAP-103). These are idle connections, draining ones and
    // those of monitors.
    let mut world = World::with_subscriptions(URI, primary(), Subscriptions::all());
    let exchanges: Vec<Exchange> = (0..3).map(|_| world.begin_exchange(ping())).collect();
    let mut exchanges = exchanges.into_iter();
    let mut idle = exchanges.next().expect("an exchange");
    World::answer(&mut idle, &rawdoc! { "ok": 1 });
    world.check_in(idle, Outcome::Completed);
    let mut left = exchanges.next().expect("an exchange");
    left.sent(left.output().len());
    world.check_in(left, Outcome::Abandoned);
    let in_use = exchanges.next().expect("an exchange");
    let socket = in_use.socket();
    while world.client.poll_event().is_some() {}
    let before = fork(&mut world);
    let open = before
        .iter()
        .filter(|socket| !world.closed.contains(socket));
    assert_eq!(
        open.collect::<Vec<_>>(),
        [&socket],
        "only its holder may end it"
    );
    let interrupted: Vec<SocketId> = world.interrupted.iter().map(|(s, _)| *s).collect();
    assert_eq!(interrupted, [socket]);
    assert!(world.sent.iter().all(|socket| !before.contains(socket)));
    let mut cleared = 0;
    while let Some(event) = world.client.poll_event() {
        let is_clear = matches!(event.kind, EventKind::Pool(PoolEvent::Cleared { .. }));
        cleared += usize::from(is_clear);
    }
    assert_eq!(cleared, 1);
    world.check_in(in_use, Outcome::Abandoned);
    assert!(world.closed.contains(&socket), "it is not drained either");
    let exchange = world.begin_exchange(ping());
    assert!(!before.contains(&exchange.socket()));
    world.client.close(world.now);
    world.check_in(exchange, Outcome::Abandoned);
    assert!(world.client.is_terminated());
}

#[test]
fn after_a_fork_parent_and_child_use_different_sessions() {
    // With the same random numbers, parent and child would use the same session, each with
    // transaction numbers of its own.
    let mut world = World::new(URI, primary());
    let reply = rawdoc! { "ok": 1, "n": 1 };
    for _ in 0..2 {
        world.perform(insert(), &reply);
    }
    let exchange = world.begin_exchange(insert());
    let of_parent = session_of(&exchange);
    fork(&mut world);
    assert!(
        world.client.end_sessions().is_none(),
        "they are the parent's"
    );
    world.check_in(exchange, Outcome::Abandoned);
    assert!(world.client.end_sessions().is_none(), "this one, too");
    let own = session_of(&world.begin_exchange(insert()));
    assert_ne!(own, of_parent);
    let mut parent = World::new(URI, primary());
    parent.begin_exchange(insert());
    let next = session_of(&parent.begin_exchange(insert()));
    assert_ne!(own, next, "what the parent draws next");
}

#[test]
fn after_a_fork_waiting_operations_start_again() {
    let uri = "mongodb://a/?replicaSet=rs&maxPoolSize=1";
    let mut world = World::new(uri, primary());
    let mut exchange = world.begin_exchange(insert());
    let [first, second] = [(); 2].map(|()| match world.client.start(world.now, insert()) {
        Progress::Waiting(id) => id,
        other => panic!("there is no room: {other:?}"),
    });
    // A connection is granted to the first operation, which has not resumed yet.
    World::answer(&mut exchange, &rawdoc! { "ok": 1, "n": 1 });
    world.check_in(exchange, Outcome::Completed);
    let before = fork(&mut world);
    for id in [first, second] {
        let mut exchange = world.exchange_of(Progress::Waiting(id));
        assert!(!before.contains(&exchange.socket()));
        assert_eq!(
            exchange.operation.retry.attempts,
            if id == first { 1 } else { 2 }
        );
        World::answer(&mut exchange, &rawdoc! { "ok": 1, "n": 1 });
        let after = world.check_in(exchange, Outcome::Completed);
        assert!(matches!(after, AfterExchange::Done(Ok(()))), "{after:?}");
    }
}

#[test]
fn a_single_threaded_client_scans_again_after_a_fork() {
    use crate::options::Monitoring;
    let options = uri::parse_for(URI, Monitoring::Scanning).expect("a URI");
    let mut world = World::with_options(options.options, primary(), Subscriptions::default());
    world.perform(ping(), &rawdoc! { "ok": 1 });
    world.wait(Duration::from_millis(1));
    let before = fork(&mut world);
    assert_eq!(world.sent, [], "nothing happens between operations");
    assert!(before.iter().all(|socket| world.closed.contains(socket)));
    let exchange = world.begin_exchange(ping());
    assert!(!before.contains(&exchange.socket()));
}

#[test]
fn a_closed_client_stays_closed_after_a_fork() {
    let mut world = World::new(URI, primary());
    let exchange = world.begin_exchange(ping());
    world.client.close(world.now);
    world.run();
    fork(&mut world);
    assert_eq!(world.sent, []);
    world.check_in(exchange, Outcome::Abandoned);
    assert!(world.client.is_terminated());
}

#[test]
fn forked_siblings_choose_different_servers() {
    let chosen = |seed: u8| -> Vec<String> {
        let mut world = World::new("mongodb://a,b,c,d/", mongos());
        world
            .client
            .handle_forked(world.now, &Seed::new([seed; 32]));
        world.run();
        let exchanges = (0..20).map(|_| {
            let exchange = world.begin_exchange(ping());
            let host = exchange.facts().address.to_string();
            world.check_in(exchange, Outcome::Abandoned);
            host
        });
        exchanges.collect()
    };
    assert_eq!(chosen(1), chosen(1));
    assert_ne!(chosen(1), chosen(2));
}

#[test]
fn a_forked_child_fails_a_waiting_get_more_of_its_parent() {
    // A batch that the child fetched would be lost to the parent, so the command fails in the
    // child. The connections belong to the parent (CMAP-103).
    for is_granted in [true, false] {
        let mut world = World::new("mongodb://a/?replicaSet=rs&maxPoolSize=1", primary());
        let mut inherited = Some(world.begin_exchange(ping()));
        let mut more = Command::new("getMore", "db", CommandKind::CursorFollowUp);
        more.body().i64("getMore", 5);
        more.set_target(Address::tcp("a", 27017));
        let Progress::Waiting(id) = world.client.start(world.now, more) else {
            panic!("there is no room");
        };
        if is_granted && let Some(mut exchange) = inherited.take() {
            World::answer(&mut exchange, &rawdoc! { "ok": 1 });
            world.check_in(exchange, Outcome::Completed);
        }
        fork(&mut world);
        let start = world.client.resume(world.now, id);
        let Progress::Failed(error) = start else {
            panic!("its parent reads on: {start:?}");
        };
        let is_own = matches!(
            error.kind(),
            crate::error::ErrorKind::InvalidArgument { .. }
        );
        assert!(is_own, "{error}");
        assert_eq!(world.client.counts().waiting, 0);
        if let Some(exchange) = inherited {
            world.check_in(exchange, Outcome::Abandoned);
        }
        world.begin_exchange(ping());
    }
}

#[test]
fn a_retry_in_a_forked_child_uses_a_new_session() {
    // If parent and child wrote in the same session, the server would take the second write for a
    // retry of the first.
    let mut world = World::new(URI, primary());
    let exchange = world.begin_exchange(insert());
    let of_parent = session_of(&exchange);
    fork(&mut world);
    let Some((_, error)) = world.interrupted.pop() else {
        panic!("it is broken off");
    };
    let AfterExchange::Again(start) = world.check_in(exchange, Outcome::Failed(error)) else {
        panic!("it is tried again");
    };
    let exchange = world.exchange_of(start);
    assert_ne!(session_of(&exchange), of_parent);
    assert_eq!(exchange.operation.request.txn_number, Some(1));
}

#[test]
fn a_forked_child_ignores_the_preliminary_ping_of_its_parent() {
    use crate::options::Monitoring;
    for text in [URI, "mongodb://lb/?loadBalanced=true"] {
        let options = uri::parse_for(text, Monitoring::Scanning).expect("a URI");
        let mut hello = primary();
        hello.append(bson::cstr!("serviceId"), ObjectId::from_bytes([1; 12]));
        let mut world = World::with_options(options.options, hello, Subscriptions::default());
        world.perform(ping(), &rawdoc! { "ok": 1 });
        world.wait(Duration::from_secs(6));
        let mut first = world.begin_exchange(find());
        assert!(first.is_preliminary());
        let before = fork(&mut world);
        World::answer(&mut first, &rawdoc! { "ok": 1 });
        let AfterExchange::Again(start) = world.check_in(first, Outcome::Completed) else {
            panic!("the operation follows");
        };
        let exchange = world.exchange_of(start);
        assert!(!before.contains(&exchange.socket()), "{text}");
        assert_eq!(exchange.operation.retry.attempts, 1);
    }
}
