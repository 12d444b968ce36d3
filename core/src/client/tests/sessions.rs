//! Tests of sessions: which operations use them, when they return to the session pool, and when
//! they must not.

use super::*;
use crate::operation::{Cursor, SessionUse};
use std::time::Duration;

const URI: &str = "mongodb://a/?replicaSet=rs";

fn id_of(exchange: &Exchange) -> [u8; 16] {
    exchange.operation.request.lsid.expect("a session")
}

#[test]
fn a_session_with_a_network_error_is_not_reused_after_a_successful_retry() {
    let mut world = World::new(URI, primary());
    let first = world.begin_exchange(insert());
    let (session, number) = (id_of(&first), first.operation.request.txn_number);
    let AfterExchange::Again(start) = world.check_in(first, reset()) else {
        panic!("a retryable write is tried again");
    };
    // The server has to be checked before the retry.
    world.wait(Duration::from_secs(1));
    let mut second = world.exchange_of(start);
    // The retry has the same transaction id (RW-22).
    assert_eq!(
        (id_of(&second), second.operation.request.txn_number),
        (session, number)
    );
    World::answer(&mut second, &rawdoc! { "ok": 1, "n": 1 });
    let after = world.check_in(second, Outcome::Completed);
    assert!(matches!(after, AfterExchange::Done(Ok(()))));
    let next = world.begin_exchange(ping());
    assert_ne!(
        id_of(&next),
        session,
        "the server may still work on the first attempt"
    );
}

#[test]
fn the_session_of_a_cursor_is_returned_after_kill_cursors_or_a_failure() {
    // The session of a cursor returns to the pool when the cursor ends (RUN-29) or is closed
    // (RUN-38).
    let mut world = World::new(URI, primary());
    let mut exchange = world.begin_exchange(find());
    let session = id_of(&exchange);
    let batch = rawdoc! { "cursor": { "firstBatch": [], "id": 7_i64, "ns": "db.c" }, "ok": 1 };
    World::answer(&mut exchange, &batch);
    let kept_session = exchange.keep_session();
    let reply = exchange.take_reply().expect("a reply");
    let address = exchange.facts().address.clone();
    world.check_in(exchange, Outcome::Completed);
    let mut cursor = Cursor::open(reply, "db".into(), address, kept_session).expect("a cursor");
    assert!(
        world.client.snapshot().idle_sessions == 0,
        "the cursor has it"
    );

    let more = cursor.more().expect("it is open");
    let error = rawdoc! { "ok": 0, "code": 43, "errmsg": "cursor not found" };
    let after = world.perform(more, &error);
    let AfterExchange::Done(Err(error)) = after else {
        panic!("the server has no such cursor: {after:?}");
    };
    assert_eq!(
        world.client.snapshot().idle_sessions,
        0,
        "the cursor still has it"
    );
    cursor.handle_failure(&error);
    let Err(resources) = cursor.end() else {
        panic!("there is nothing to be ended");
    };
    world.client.release_cursor(world.now, resources);
    assert_eq!(world.client.snapshot().idle_sessions, 1);

    let last_session = world.client.attempts.sessions.begin(world.now, Some(30));
    let mut kill = ping();
    kill.set_session(SessionUse::Last(last_session));
    world.perform(kill, &rawdoc! { "ok": 1 });
    assert_eq!(world.client.snapshot().sessions_in_use, 0);
    let next = world.begin_exchange(ping());
    assert_eq!(id_of(&next), session);
}

#[test]
fn each_use_of_a_session_postpones_its_expiry() {
    let mut world = World::new(URI, primary());
    let first = world.begin_exchange(ping());
    let session = id_of(&first);
    let mut exchange = first;
    for _ in 0..5 {
        World::answer(&mut exchange, &rawdoc! { "ok": 1 });
        world.check_in(exchange, Outcome::Completed);
        world.now = world.now + Duration::from_secs(10 * 60);
        exchange = world.begin_exchange(ping());
    }
    assert_eq!(
        id_of(&exchange),
        session,
        "it was never unused for more than ten minutes"
    );
}

#[test]
fn the_session_of_an_abandoned_or_interrupted_exchange_is_not_reused() {
    let interrupted = Error::new(crate::error::ErrorKind::Interrupted {
        message: "the monitor lost the server".into(),
    });
    for outcome in [Outcome::Abandoned, Outcome::Failed(interrupted)] {
        let mut world = World::new(URI, primary());
        let mut exchange = world.begin_exchange(ping());
        exchange.sent(3);
        let (session, socket) = (id_of(&exchange), exchange.socket());
        world.check_in(exchange, outcome);
        assert!(world.closed.contains(&socket));
        let next = world.begin_exchange(ping());
        assert_ne!(id_of(&next), session);
    }
}

/// Returns an open cursor and the id of the session that it holds.
fn cursor(world: &mut World) -> (Cursor, [u8; 16]) {
    let mut exchange = world.begin_exchange(find());
    let session = id_of(&exchange);
    let batch = rawdoc! { "cursor": { "firstBatch": [], "id": 7_i64, "ns": "db.c" }, "ok": 1 };
    World::answer(&mut exchange, &batch);
    let cursor = Cursor::from_exchange(&mut exchange, "db".into()).expect("a cursor");
    world.check_in(exchange, Outcome::Completed);
    (cursor, session)
}

fn in_use(world: &World) -> (usize, usize) {
    let snapshot = world.client.snapshot();
    (snapshot.sessions_in_use, snapshot.idle_sessions)
}

#[test]
fn an_abandoned_get_more_does_not_return_the_session_of_its_cursor() {
    // `killCursors` (RUN-38) uses the session of the cursor (RUN-28). The session is not used again
    // afterwards, because the server may still work on the abandoned command.
    let mut world = World::new(URI, primary());
    let (mut cursor, session) = cursor(&mut world);
    let mut exchange = world.begin_exchange(cursor.more().expect("it is open"));
    assert_eq!(id_of(&exchange), session);
    exchange.sent(3);
    world.check_in(exchange, Outcome::Abandoned);
    assert_eq!(in_use(&world), (1, 0), "the cursor still has it");
    let mut kill = world.begin_exchange(cursor.end().expect("the server has it"));
    assert_eq!(id_of(&kill), session);
    World::answer(&mut kill, &rawdoc! { "ok": 1 });
    world.check_in(kill, Outcome::Completed);
    assert_eq!(in_use(&world), (0, 0));
}

#[test]
fn an_operation_that_ends_before_its_request_is_sent_returns_its_session() {
    let mut world = World::new(URI, primary());
    // An operation takes a session together with its connection. The session returns at the end of
    // the operation.
    let exchange = world.begin_exchange(ping());
    assert_eq!(in_use(&world), (1, 0));
    world.check_in(exchange, Outcome::Abandoned);
    assert_eq!(in_use(&world), (0, 1));
    // An operation that waits for a connection has no session yet.
    world.is_silent = true;
    let exchanges: Vec<Exchange> = (0..2)
        .map_while(|_| match world.client.start(world.now, ping()) {
            Progress::Exchange(exchange) => Some(exchange),
            Progress::Waiting(id) => {
                world.client.cancel(world.now, id);
                None
            }
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(in_use(&world).0, exchanges.len());
    for exchange in exchanges {
        world.check_in(exchange, Outcome::Abandoned);
    }
    assert_eq!(in_use(&world).0, 0);
}

#[test]
fn a_forked_child_does_not_use_the_sessions_of_its_parent() {
    // The child drops the sessions of its parent, as it clears the pools (CMAP-37). Otherwise two
    // processes would mix up the transaction numbers of one session.
    let mut world = World::new(URI, primary());
    let (mut cursor, session) = cursor(&mut world);
    let exchange = world.begin_exchange(insert());
    let parents = [session, id_of(&exchange)];
    world.client.handle_forked(world.now, &Seed::new([6; 32]));
    world.run();
    assert_eq!(in_use(&world), (0, 0));
    let _ = world.check_in(exchange, Outcome::Abandoned);
    if let Err(resources) = cursor.end() {
        world.client.release_cursor(world.now, resources);
    }
    assert_eq!(
        in_use(&world),
        (0, 0),
        "what the parent held is not taken back"
    );
    world.wait(Duration::from_secs(1));
    let own = world.begin_exchange(ping());
    assert!(!parents.contains(&id_of(&own)));
}

#[test]
fn a_closed_client_has_no_session_in_use_after_its_cursors_end() {
    let mut world = World::new(URI, primary());
    let (mut cursor, _) = cursor(&mut world);
    let exchange = world.begin_exchange(ping());
    world.client.close(world.now);
    world.check_in(exchange, Outcome::Abandoned);
    assert_eq!(in_use(&world).0, 1, "the cursor's");
    let kill = cursor.end().expect("the server has it");
    world.client.discard(world.now, kill);
    assert_eq!(in_use(&world).0, 0);
    assert!(world.client.is_terminated());
}

#[test]
fn a_server_with_a_useless_session_timeout_does_not_cost_a_session_per_operation() {
    for minutes in [1, 0, -5] {
        let mut hello = primary();
        let mut other = rawdoc! {
            "ok": 1, "secondary": true, "setName": "rs", "hosts": ["a:27017", "b:27017"],
            "me": "b:27017", "maxWireVersion": 21, "logicalSessionTimeoutMinutes": minutes,
        };
        other.append(bson::cstr!("primary"), "a:27017");
        hello = {
            let mut both = Document::try_from(hello).expect("BSON");
            both.insert("hosts", vec!["a:27017", "b:27017"]);
            RawDocumentBuf::try_from(&both).expect("BSON")
        };
        let mut world = World::new("mongodb://a/?replicaSet=rs", primary());
        world.hellos.insert(Address::tcp("a", 27017), hello);
        world.hellos.insert(Address::tcp("b", 27017), other);
        world.wait(Duration::from_secs(11));
        assert_eq!(world.client.topology().servers.len(), 2);
        let mut sessions = BTreeSet::new();
        for _ in 0..300 {
            let exchange = world.begin_exchange(insert());
            sessions.insert(exchange.operation.request.lsid);
            let mut exchange = exchange;
            World::answer(&mut exchange, &rawdoc! { "ok": 1, "n": 1 });
            world.check_in(exchange, Outcome::Completed);
            world.now = world.now + Duration::from_millis(1);
        }
        assert_eq!(sessions.len(), 1, "{minutes}");
    }
}
