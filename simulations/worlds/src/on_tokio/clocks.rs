//! Tests of wall clocks that jump while a program runs.

use super::TokioWorld;
use crate::world::{ClockJump, Disaster, Span};
use bson::{DateTime, Document, doc, oid::ObjectId};
use onionskin_tokio::{Client, Collection};
use std::time::Duration;
use tokio::time::Instant;

const HOUR: Duration = Duration::from_secs(3600);

fn jump(member: Option<usize>, client: Option<usize>, forward: bool) -> Disaster {
    Disaster::JumpClock(ClockJump {
        member,
        client,
        forward: forward.then_some(Span(HOUR)),
        back: (!forward).then_some(Span(HOUR)),
    })
}

/// Inserts a document without an `_id`, and returns the time in the id that the client has made.
async fn made_at(orders: &Collection<Document>) -> DateTime {
    let inserted = orders.insert_one(doc! { "customer": 1 }).await;
    let id: Option<ObjectId> = inserted.expect("a primary").inserted_id.as_object_id();
    id.expect("the client makes it").timestamp()
}

/// Returns the time of a member's wall clock.
async fn local_time(client: &Client) -> DateTime {
    let hello = client.database("admin").run_command(doc! { "hello": 1 });
    let hello = hello.await.expect("a reply");
    *hello.get_datetime("localTime").expect("a time")
}

/// Returns the number of hours between two times, rounded.
fn hours_between(before: DateTime, after: DateTime) -> i64 {
    let millis = after.timestamp_millis() - before.timestamp_millis();
    (millis + 1_800_000).div_euclid(3_600_000)
}

#[tokio::test(start_paused = true)]
async fn ids_follow_the_wall_clock_of_the_client_and_timers_do_not() {
    let world = TokioWorld::standalone(1);
    let client = Client::with_uri_str(world.uri()).await.expect("a client");
    let orders = client.database("shop").collection::<Document>("orders");
    let (first, start) = (made_at(&orders).await, Instant::now());
    world.strike(&jump(None, Some(0), true));
    assert_eq!(hours_between(first, made_at(&orders).await), 1);
    for _ in 0..3 {
        world.strike(&jump(None, Some(0), false));
    }
    assert_eq!(hours_between(first, made_at(&orders).await), -2);
    let shown = local_time(&client).await;
    assert_eq!(
        hours_between(first, shown),
        0,
        "the member has its own clock"
    );
    assert!(start.elapsed() < Duration::from_secs(1), "no time passes");
    client.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_session_reads_its_writes_while_the_clocks_of_the_members_jump() {
    let world = TokioWorld::replica_set(1, 3);
    let client = Client::with_uri_str(world.uri()).await.expect("a client");
    let orders = client.database("shop").collection::<Document>("orders");
    let mut session = client.start_session().await.expect("a session");
    let start = Instant::now();
    for number in 0..4_i64 {
        let primary = world.primary().expect("a primary");
        world.strike(&jump(Some(primary), None, number % 2 == 0));
        let order = doc! { "_id": number };
        let inserted = orders.insert_one(order).session(&mut session).await;
        inserted.expect("a primary");
        // A member that has stepped down does not lead again for a minute.
        if number < 2 {
            world.step_down();
        }
        let count = orders.count_documents(doc! {}).session(&mut session).await;
        assert_eq!(count.expect("a primary"), (number + 1).cast_unsigned());
    }
    assert!(start.elapsed() < HOUR / 2, "{:?}", start.elapsed());
    drop(session);
    client.shutdown().await;
}
