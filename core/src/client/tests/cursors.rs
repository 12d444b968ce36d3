//! Time limits of cursors: one limit bounds the command that opens a cursor and all its batches.

use super::{adaptive::overloaded, *};
use crate::{
    error::{ErrorKind, Wait},
    operation::Cursor,
};
use std::time::Duration;

const URI: &str = "mongodb://a/?replicaSet=rs";

const LIMIT: Duration = Duration::from_secs(1);

fn empty(batch: &str) -> RawDocumentBuf {
    let body = bson::doc! { "ok": 1, "cursor": { "id": 7_i64, "ns": "db.c", batch: [] } };
    RawDocumentBuf::try_from(&body).expect("BSON")
}

/// A find with this time limit, whose cursor stays open.
fn open(world: &mut World, timeout: Option<Duration>) -> Cursor {
    let mut find = find();
    find.set_timeout(timeout);
    let mut lease = world.lease(find);
    World::answer(&mut lease, &empty("firstBatch"));
    let cursor = Cursor::from_lease(&mut lease, "db".into()).expect("a cursor");
    world.check_in(lease, Outcome::Completed);
    cursor
}

/// Fetches one more batch, which is empty, and returns the deadline that its exchange had.
fn fetch(world: &mut World, cursor: &mut Cursor) -> Option<Instant> {
    let command = cursor.more().expect("it is open");
    let mut lease = world.lease(command);
    let deadline = lease.context.deadline;
    World::answer(&mut lease, &empty("nextBatch"));
    let session = lease.take_session();
    let reply = lease.take_reply().expect("a reply");
    world.check_in(lease, Outcome::Completed);
    cursor.handle_reply(reply, session).expect("a batch");
    deadline
}

#[test]
fn one_time_limit_bounds_all_batches_of_a_cursor() {
    // RUN-25, RUN-39: `CURSOR_LIFETIME` is the default; `timeoutMS` of the client counts as well.
    let of_the_client = format!("{URI}&timeoutMS=1000");
    for (uri, timeout) in [(URI, Some(LIMIT)), (&of_the_client, None)] {
        let mut world = World::new(uri, primary());
        let end = Some(world.now + LIMIT);
        let mut cursor = open(&mut world, timeout);
        for _ in 0..3 {
            world.now = world.now + LIMIT / 4;
            assert_eq!(fetch(&mut world, &mut cursor), end);
        }
        world.now = world.now + LIMIT / 4;
        let command = cursor.more().expect("it is open");
        let (leased, sessions) = (world.client.counts().leased, world.client.sessions.len());
        let Start::Failed(error) = world.client.start(world.now, command) else {
            panic!("a batch is fetched after the time limit");
        };
        let kind = error.kind();
        let is_timeout = matches!(
            kind,
            ErrorKind::Timeout {
                wait: Wait::CheckOut,
                ..
            }
        );
        assert!(is_timeout, "{error:?}");
        assert_eq!(world.client.counts().leased, leased);
        assert_eq!(world.client.sessions.len(), sessions + 1, "it comes back");
        cursor.handle_failure(&error);
        assert!(cursor.more().is_none());
        // The end of the cursor has a limit of its own.
        let kill = cursor.end().expect("the server still has it");
        let verdict = world.perform(kill, &rawdoc! { "ok": 1 });
        assert!(matches!(verdict, Verdict::Done(Ok(()))), "{verdict:?}");
    }
}

#[test]
fn a_cursor_without_time_limit_is_fetched_for_ever() {
    // Zero is no limit, which also switches off `timeoutMS` and `socketTimeoutMS` of the client.
    let of_the_client = format!("{URI}&timeoutMS=1000&socketTimeoutMS=100");
    for (uri, timeout) in [(URI, None), (&of_the_client, Some(Duration::ZERO))] {
        let mut world = World::new(uri, primary());
        let mut cursor = open(&mut world, timeout);
        for _ in 0..5 {
            world.wait(LIMIT);
            assert_eq!(fetch(&mut world, &mut cursor), None);
        }
    }
}

#[test]
fn batches_and_ends_of_cursors_are_tried_again_on_their_server_after_overload() {
    // BP-2, trap 4; `getMore-retried`, "getMores are retried maxAttempts=2 times"
    let mut world = World::new(URI, primary());
    let mut cursor = open(&mut world, None);
    let more = cursor.more().expect("it is open");
    let kill = |cursor: &mut Cursor| cursor.end().expect("the server has it");
    for command in [more, kill(&mut cursor)] {
        let mut lease = world.lease(command);
        let first = World::request(&lease);
        for _ in 0..2 {
            World::answer(&mut lease, &overloaded());
            let Verdict::Again(Start::Waiting(id)) = world.check_in(lease, Outcome::Completed)
            else {
                panic!("it backs off");
            };
            lease = world.leased(Start::Waiting(id));
            let next = World::request(&lease);
            assert_eq!(next.get("lsid"), first.get("lsid"));
            assert_eq!(next.keys().next(), first.keys().next());
        }
        World::answer(&mut lease, &overloaded());
        let verdict = world.check_in(lease, Outcome::Completed);
        assert!(matches!(verdict, Verdict::Done(Err(_))), "{verdict:?}");
    }
}

#[test]
fn a_batch_that_is_retried_in_time_goes_on_where_it_was() {
    // `getMore-retried`, "getMores are retried"
    let mut world = World::new(URI, primary());
    let mut cursor = open(&mut world, None);
    let mut lease = world.lease(cursor.more().expect("it is open"));
    World::answer(&mut lease, &overloaded());
    let Verdict::Again(start) = world.check_in(lease, Outcome::Completed) else {
        panic!("it is tried again");
    };
    let mut lease = world.leased(start);
    World::answer(&mut lease, &empty("nextBatch"));
    let session = lease.take_session();
    assert!(session.is_some(), "the cursor's session was kept");
    let reply = lease.take_reply().expect("a reply");
    world.check_in(lease, Outcome::Completed);
    cursor.handle_reply(reply, session).expect("a batch");
    fetch(&mut world, &mut cursor);
}
