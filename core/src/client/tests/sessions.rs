//! Sessions: who has them, when they come back, and when they must not.

use super::*;
use crate::operation::{Cursor, SessionUse};
use std::time::Duration;

const URI: &str = "mongodb://a/?replicaSet=rs";

fn id_of(lease: &Lease) -> [u8; 16] {
    lease.operation.session.as_ref().expect("a session").id
}

#[test]
fn a_session_that_met_a_network_error_is_not_used_again_although_the_retry_succeeded() {
    let mut world = World::new(URI, primary());
    let first = world.lease(insert());
    let (session, number) = (id_of(&first), first.operation.txn_number);
    let Verdict::Again(start) = world.check_in(first, reset()) else {
        panic!("a retryable write is tried again");
    };
    // The server has to be found usable again first.
    world.wait(Duration::from_secs(1));
    let mut second = world.leased(start);
    // RW-22: the same transaction id.
    assert_eq!(
        (id_of(&second), second.operation.txn_number),
        (session, number)
    );
    World::answer(&mut second, &rawdoc! { "ok": 1, "n": 1 });
    let verdict = world.check_in(second, Outcome::Completed);
    assert!(matches!(verdict, Verdict::Done(Ok(()))));
    let next = world.lease(ping());
    assert_ne!(
        id_of(&next),
        session,
        "the server may still work on the first attempt"
    );
}

#[test]
fn the_session_of_a_cursor_comes_back_once_the_cursor_is_killed_or_failed() {
    // RUN-29, RUN-38
    let mut world = World::new(URI, primary());
    let mut lease = world.lease(find());
    let session = id_of(&lease);
    let batch = rawdoc! { "cursor": { "firstBatch": [], "id": 7_i64, "ns": "db.c" }, "ok": 1 };
    World::answer(&mut lease, &batch);
    let held = lease.take_session();
    let reply = lease.take_reply().expect("a reply");
    let address = lease.facts().address.clone();
    world.check_in(lease, Outcome::Completed);
    let mut cursor = Cursor::open(reply, "db".into(), address, held).expect("a cursor");
    assert!(world.client.sessions.is_empty(), "the cursor has it");

    let more = cursor.more().expect("it is open");
    let error = rawdoc! { "ok": 0, "code": 43, "errmsg": "cursor not found" };
    let verdict = world.perform(more, &error);
    assert!(matches!(verdict, Verdict::Done(Err(_))));
    assert_eq!(world.client.sessions.len(), 1);

    let held = world
        .client
        .sessions
        .take(world.now, Some(30), &mut Seed::new([1; 32]).random());
    let mut kill = ping();
    kill.set_session(SessionUse::Held(held));
    world.perform(kill, &rawdoc! { "ok": 1 });
    let next = world.lease(ping());
    assert_eq!(id_of(&next), session);
}

#[test]
fn each_use_renews_the_life_of_a_session() {
    let mut world = World::new(URI, primary());
    let first = world.lease(ping());
    let session = id_of(&first);
    let mut lease = first;
    for _ in 0..5 {
        World::answer(&mut lease, &rawdoc! { "ok": 1 });
        world.check_in(lease, Outcome::Completed);
        world.now = world.now + Duration::from_secs(10 * 60);
        lease = world.lease(ping());
    }
    assert_eq!(
        id_of(&lease),
        session,
        "it was never unused for more than ten minutes"
    );
}

#[test]
fn a_session_whose_exchange_was_left_or_interrupted_is_not_used_again() {
    let interrupted = Error::new(crate::error::ErrorKind::Interrupted {
        message: "the monitor lost the server".into(),
    });
    for outcome in [Outcome::Abandoned, Outcome::Failed(interrupted)] {
        let mut world = World::new(URI, primary());
        let mut lease = world.lease(ping());
        lease.sent(3);
        let (session, socket) = (id_of(&lease), lease.socket());
        world.check_in(lease, outcome);
        assert!(world.closed.contains(&socket));
        let next = world.lease(ping());
        assert_ne!(id_of(&next), session);
    }
}
