//! Tests of cursors, which pin their connections.

use super::*;
use crate::operation::{Abandoned, Decode, Runner, Single};

#[test]
fn a_cursor_pins_its_connection_until_it_is_exhausted() {
    // A cursor pins its connection until a reply has the cursor id 0 (LB-30 to LB-34).
    let mut world = world();
    let (mut cursor, facts) = open_cursor(&mut world);
    assert_eq!(facts.service, Some(id(1)));
    assert_eq!(
        take_events(&mut world),
        ["started", "created 1", "ready 1", "out 1"]
    );
    let other = world.begin_exchange(ping());
    assert_ne!(other.socket(), facts.socket);
    take_events(&mut world);
    let exchange = more(&mut world, &mut cursor);
    assert_eq!(exchange.socket(), facts.socket);
    let request = World::request(&exchange);
    assert_eq!(request.get_i64("getMore").ok(), Some(5));
    assert!(request.contains_key("lsid"), "{request}");
    assert!(
        take_events(&mut world).is_empty(),
        "a reuse is no check-out"
    );
    let mut exchange = exchange;
    World::answer(&mut exchange, &cursor_reply(0, "nextBatch"));
    let step = cursor.handle_reply(&mut exchange);
    assert!(matches!(step, Step::Done(Ok(true))), "{step:?}");
    assert!(!cursor.is_open());
    world.check_in(exchange, Outcome::Completed);
    assert_eq!(take_events(&mut world), ["in 1"]);
    assert!(cursor.end().is_err_and(|left| left.is_empty()));
    let again = world.begin_exchange(ping());
    assert_eq!(again.socket(), facts.socket);
}

#[test]
fn a_cursor_exhausted_by_its_first_batch_pins_no_connection() {
    // A command whose reply has the cursor id 0 pins nothing (LB-32).
    let mut world = world();
    let mut exchange = world.begin_exchange(find());
    World::answer(&mut exchange, &cursor_reply(0, "firstBatch"));
    let mut cursor = Cursor::from_exchange(&mut exchange, "db".into()).expect("a cursor");
    world.check_in(exchange, Outcome::Completed);
    let events = take_events(&mut world);
    assert_eq!(events.last().map(String::as_str), Some("in 1"));
    assert_eq!(
        world.client.snapshot().idle_sessions,
        1,
        "its session goes back"
    );
    assert!(cursor.end().is_err_and(|left| left.is_empty()));
}

#[test]
fn closing_a_cursor_checks_in_its_connection_whether_or_not_kill_cursors_fails() {
    // `killCursors` is sent on the pinned connection. The connection is checked in after any
    // outcome (LB-35).
    for outcome in ["ok", "error", "reset"] {
        let mut world = world();
        let (mut cursor, facts) = open_cursor(&mut world);
        take_events(&mut world);
        let kill = cursor.end().expect("it is open");
        let mut exchange = world.begin_exchange(kill);
        assert_eq!(exchange.socket(), facts.socket);
        let request = World::request(&exchange);
        assert_eq!(request.get_str("killCursors").ok(), Some("c"));
        let expected: &[&str] = match outcome {
            "reset" => {
                world.check_in(exchange, reset());
                &["cleared 1", "in 1", "closed 1: Error"]
            }
            "ok" => {
                World::answer(&mut exchange, &rawdoc! { "ok": 1 });
                world.check_in(exchange, Outcome::Completed);
                &["in 1"]
            }
            _ => {
                World::answer(
                    &mut exchange,
                    &rawdoc! { "ok": 0, "code": 7, "errmsg": "no" },
                );
                world.check_in(exchange, Outcome::Completed);
                &["in 1"]
            }
        };
        assert_eq!(take_events(&mut world), expected, "{outcome}");
    }
}

#[test]
fn a_cursor_pins_its_broken_connection_until_it_is_closed() {
    // After a network error the connection stays pinned. The close of the cursor sends no
    // `killCursors` (LB-36, LB trap 5) and leaks no connection (scenario 34).
    let mut world = world();
    let (mut cursor, facts) = open_cursor(&mut world);
    let exchange = more(&mut world, &mut cursor);
    take_events(&mut world);
    let AfterExchange::Done(Err(error)) = world.check_in(exchange, reset()) else {
        panic!("it broke");
    };
    cursor.handle_failure(&error);
    assert_eq!(take_events(&mut world), ["cleared 1"]);
    assert!(!cursor.is_open() && cursor.more().is_none());
    let resources = cursor.end().expect_err("the server is out of reach");
    release_resources(&mut world, resources);
    assert_eq!(take_events(&mut world), ["in 1", "closed 1: Error"]);
    assert!(world.closed.contains(&facts.socket));
    assert_eq!(world.client.counts().in_use, 0);
}

#[test]
fn a_cursor_that_failed_with_a_server_error_still_sends_kill_cursors() {
    // After an error that is not a network error, the close of the cursor still sends `killCursors`
    // (LB-37).
    let mut world = world();
    let (mut cursor, _) = open_cursor(&mut world);
    let refused = rawdoc! { "ok": 0, "code": 7, "errmsg": "host not found" };
    take_events(&mut world);
    let error = fetch(&mut world, &mut cursor, &refused).expect_err("refused");
    assert_eq!(error.code(), Some(7));
    assert!(cursor.more().is_none(), "nothing more is read");
    assert!(take_events(&mut world).is_empty());
    let kill = cursor.end().expect("the server has it still");
    world.perform(kill, &rawdoc! { "ok": 1 });
    assert_eq!(take_events(&mut world), ["in 1"]);
}

#[test]
fn kill_cursors_waits_for_the_late_reply_to_an_abandoned_get_more() {
    // The caller abandons the exchange of a batch and then closes the cursor.
    let mut world = world();
    let (mut cursor, facts) = open_cursor(&mut world);
    let mut exchange = more(&mut world, &mut cursor);
    let request = exchange.output().to_vec();
    let header = Header::decode(&request, 1 << 20).expect("a request");
    exchange.sent(request.len());
    take_events(&mut world);
    world.check_in(exchange, Outcome::Abandoned);
    assert_eq!(world.draining, [facts.socket]);
    let kill = cursor.end().expect("it is open");
    let Progress::Waiting(waiting) = world.client.start(world.now, kill) else {
        panic!("it waits for the reply");
    };
    let mut late = Vec::new();
    MessageWriter::begin(&mut late, 9, header.request_id)
        .body(&cursor_reply(5, "nextBatch"))
        .end();
    let socket_use = world.client.handle_received(world.now, facts.socket, &late);
    assert_eq!(socket_use, SocketUse::Parked);
    world.run();
    let start = world.client.resume(world.now, waiting);
    let mut exchange = world.exchange_of(start);
    assert_eq!(exchange.socket(), facts.socket);
    assert!(take_events(&mut world).is_empty());
    World::answer(&mut exchange, &rawdoc! { "ok": 1 });
    world.check_in(exchange, Outcome::Completed);
    assert_eq!(take_events(&mut world), ["in 1"]);
}

#[test]
fn kill_cursors_is_not_sent_if_the_late_reply_does_not_arrive() {
    let mut world = world();
    let (mut cursor, facts) = open_cursor(&mut world);
    let mut exchange = more(&mut world, &mut cursor);
    exchange.sent(exchange.output().len());
    world.check_in(exchange, Outcome::Abandoned);
    take_events(&mut world);
    let mut kill = cursor.end().expect("it is open");
    kill.set_timeout(Some(std::time::Duration::from_secs(60)));
    let Progress::Waiting(waiting) = world.client.start(world.now, kill) else {
        panic!("it waits for the reply");
    };
    // Time passes in small steps, because a long step would look like a frozen process.
    for _ in 0..8 {
        world.wait(std::time::Duration::from_millis(500));
    }
    let start = world.client.resume(world.now, waiting);
    assert!(matches!(start, Progress::Failed(_)), "{start:?}");
    assert_eq!(take_events(&mut world), ["in 1", "closed 1: Error"]);
    assert!(world.closed.contains(&facts.socket));
}

#[test]
fn a_command_that_waits_for_a_late_reply_fails_at_its_time_limit() {
    let mut world = world();
    let (mut cursor, _) = open_cursor(&mut world);
    let mut exchange = more(&mut world, &mut cursor);
    exchange.sent(exchange.output().len());
    world.check_in(exchange, Outcome::Abandoned);
    take_events(&mut world);
    let mut kill = cursor.end().expect("it is open");
    kill.set_timeout(Some(std::time::Duration::from_millis(100)));
    let Progress::Waiting(waiting) = world.client.start(world.now, kill) else {
        panic!("it waits for the reply");
    };
    world.wait(std::time::Duration::from_millis(100));
    let Progress::Failed(error) = world.client.resume(world.now, waiting) else {
        panic!("its time is over");
    };
    assert!(error.is_timeout(), "{error}");
    // The command was the last holder of the pin. The connection now drains in its pool.
    assert_eq!(take_events(&mut world), ["in 1"]);
    assert_eq!(world.client.counts().in_use, 0);
}

#[test]
fn closing_the_client_closes_the_connections_pinned_by_cursors() {
    let mut world = world();
    let (mut cursor, facts) = open_cursor(&mut world);
    world.client.close(world.now);
    world.run();
    assert!(world.closed.contains(&facts.socket));
    assert!(world.client.is_terminated());
    let events = take_events(&mut world);
    assert!(
        events.contains(&format!("closed 1: {:?}", CloseReason::PoolClosed)),
        "{events:?}"
    );
    // The owner of the cursor closes it later.
    let kill = cursor.end().expect("it does not know");
    world.client.discard(world.now, kill);
    assert!(world.client.is_terminated());
}

#[test]
fn discarding_a_command_releases_its_pin() {
    let mut world = world();
    let (mut cursor, _) = open_cursor(&mut world);
    take_events(&mut world);
    let kill = cursor.end().expect("it is open");
    world.client.discard(world.now, kill);
    assert_eq!(take_events(&mut world), ["in 1"]);
}

#[test]
fn abandoning_a_program_before_its_start_releases_its_session_and_its_pin() {
    struct Unread;

    impl Decode for Unread {
        type Output = ();

        fn decode(&mut self, _: &mut Exchange) -> Result<(), Error> {
            Ok(())
        }
    }

    let mut world = world();
    let (mut cursor, _) = open_cursor(&mut world);
    take_events(&mut world);
    let kill = cursor.end().expect("it is open");
    let mut runner = Runner::new(Single::new(Ok(kill), Unread));
    let Abandoned::Release(resources) = runner.abandon() else {
        panic!("it holds a session and a connection");
    };
    release_resources(&mut world, resources);
    assert_eq!(take_events(&mut world), ["in 1"]);
    assert_eq!(world.client.snapshot().idle_sessions, 1);
    assert!(matches!(runner.abandon(), Abandoned::Nothing));
}

#[test]
fn a_cursor_pins_no_connection_without_a_load_balancer() {
    // Connections are pinned only behind a load balancer. The tests of `core/src/hello` show that
    // `hello` has `loadBalanced` only behind one (LB-26).
    let mut world = World::with_subscriptions("mongodb://a", mongos(), Subscriptions::all());
    let mut exchange = world.begin_exchange(find());
    assert_eq!(exchange.pin(PinnedFor::Cursor), None);
    assert_eq!(exchange.facts().service, None);
    World::answer(&mut exchange, &cursor_reply(5, "firstBatch"));
    let cursor = Cursor::from_exchange(&mut exchange, "db".into()).expect("a cursor");
    take_events(&mut world);
    world.check_in(exchange, Outcome::Completed);
    assert_eq!(take_events(&mut world), ["in 1"]);
    drop(cursor);
}

#[test]
fn every_command_that_opens_a_cursor_pins_its_connection() {
    // Every command that creates a cursor pins its connection (LB-32).
    for name in ["find", "aggregate", "listCollections", "listIndexes"] {
        let mut world = world();
        let mut command = Command::new(name, "db", CommandKind::Read);
        command.body().str(name, "c");
        let mut exchange = world.begin_exchange(command);
        World::answer(&mut exchange, &cursor_reply(5, "firstBatch"));
        let mut cursor = Cursor::from_exchange(&mut exchange, "db".into()).expect("a cursor");
        world.check_in(exchange, Outcome::Completed);
        take_events(&mut world);
        assert_eq!(world.client.counts().in_use, 1, "{name}");
        fetch(&mut world, &mut cursor, &cursor_reply(0, "nextBatch")).expect("a batch");
        assert_eq!(take_events(&mut world), ["in 1"], "{name}");
    }
}

#[test]
fn a_forked_child_cannot_use_the_cursors_of_its_parent() {
    // The child sends neither `getMore` nor `killCursors` on a connection of the parent (CMAP-103).
    let mut world = world();
    let (mut resting, facts) = open_cursor(&mut world);
    let (mut draining, second) = open_cursor(&mut world);
    let mut exchange = more(&mut world, &mut draining);
    exchange.sent(exchange.output().len());
    world.check_in(exchange, Outcome::Abandoned);
    let kill = draining.end().expect("it is open");
    let Progress::Waiting(waiting) = world.client.start(world.now, kill) else {
        panic!("it waits for the reply");
    };
    world.sent.clear();
    world.client.handle_forked(world.now, &Seed::new([6; 32]));
    world.run();
    assert!(world.closed.contains(&facts.socket) && world.closed.contains(&second.socket));
    let start = world.client.resume(world.now, waiting);
    assert!(matches!(start, Progress::Failed(_)), "{start:?}");
    let start = world
        .client
        .start(world.now, resting.more().expect("it is open"));
    assert!(matches!(start, Progress::Failed(_)), "{start:?}");
    let kill = resting.end().expect("it does not know");
    let start = world.client.start(world.now, kill);
    assert!(matches!(start, Progress::Failed(_)), "{start:?}");
    assert_eq!(world.sent, []);
    assert_ne!(world.begin_exchange(ping()).socket(), facts.socket);
}

#[test]
fn a_check_out_timeout_counts_connections_pinned_by_cursors_and_transactions() {
    // The error of a full pool counts the connections by their use (LB-43 to LB-46).
    let text = format!("{URI}&maxPoolSize=2&waitQueueTimeoutMS=50");
    let mut world = World::with_subscriptions(&text, service(1), Subscriptions::all());
    let (_cursor, _) = open_cursor(&mut world);
    let (mut exchange, _) = pinned_transaction(&mut world);
    let refused = |world: &mut World| {
        let Progress::Waiting(id) = world.client.start(world.now, ping()) else {
            panic!("the pool is full");
        };
        world.wait(std::time::Duration::from_millis(50));
        match world.client.resume(world.now, id) {
            Progress::Failed(error) => error.to_string(),
            other => panic!("its time is over: {other:?}"),
        }
    };
    // A new pin counts from the end of its exchange.
    let during = refused(&mut world);
    World::answer(&mut exchange, &rawdoc! { "ok": 1, "n": 1 });
    world.check_in(exchange, Outcome::Completed);
    let after = refused(&mut world);
    for (text, transactions, others) in [(during, 0, 1), (after, 1, 0)] {
        let expected = format!(
            "maxPoolSize: 2, connections in use by cursors: 1, connections in use by \
             transactions: {transactions}, connections in use by other operations: {others}"
        );
        assert!(text.contains(&expected), "{text}");
    }
}

#[test]
fn a_stream_that_cannot_resume_gives_back_its_connection() {
    use crate::operation::{
        ChangeStream,
        crud::{ChangeStreamOptions, Defaults, Watch},
    };
    let mut world = world();
    let watch = Watch::deployment(
        Vec::new(),
        ChangeStreamOptions::default(),
        Arc::new(Defaults::default()),
    );
    let mut exchange = world.begin_exchange(watch.command().expect("the options are valid"));
    // The type of the token's field does not exist.
    let mut token = rawdoc! { "_data": 1 }.into_bytes();
    token[4] = 0x7b;
    let token = RawDocumentBuf::from_bytes(token).expect("a frame");
    let first = rawdoc! {
        "ok": 1,
        "cursor": { "id": 7_i64, "ns": "db.c", "firstBatch": [], "postBatchResumeToken": token },
    };
    World::answer(&mut exchange, &first);
    let mut stream = ChangeStream::from_exchange(&mut exchange, watch).expect("a stream");
    world.check_in(exchange, Outcome::Completed);
    let Step::Run(more) = stream.start() else {
        panic!("there is no event");
    };
    let lost = rawdoc! { "ok": 0, "code": 43 };
    let AfterExchange::Done(Err(error)) = world.perform(more, &lost) else {
        panic!("the cursor is lost");
    };
    assert!(matches!(stream.handle_error(error), Step::Done(Err(_))));
    let Abandoned::Release(resources) = stream.abandon() else {
        panic!("the stream has a connection");
    };
    release_resources(&mut world, resources);
    assert_eq!(world.client.counts().in_use, 0);
}
