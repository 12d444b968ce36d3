//! Tests of resume tokens, and of change streams that continue on another member.

use super::super::world::with_primary;
use super::*;
use crate::deployment::DeploymentOptions;
use bson::Timestamp;
use onionskin_core::address::Address;

fn keys(events: &[Document]) -> Vec<i32> {
    let key = |event: &Document| {
        event
            .get_document("documentKey")
            .and_then(|k| k.get_i32("_id"))
    };
    events
        .iter()
        .map(|event| key(event).expect("a key"))
        .collect()
}

/// Opens a stream that resumes, and returns the keys of its first events.
fn resumed(world: &mut World, conn: ConnId, options: Document) -> Vec<i32> {
    let mut stream = Stream::open(world, conn, watch(options, vec![]));
    if stream.events.is_empty() {
        stream.more(world, conn);
    }
    keys(&stream.events)
}

#[test]
fn a_stream_resumes_after_each_of_its_tokens() {
    let (mut world, conn) = world_of([8, 0, 0]);
    let mut stream = Stream::open(&mut world, conn, watch(doc! {}, vec![]));
    let start = stream.token.clone();
    insert(&mut world, conn, 0..3);
    insert(&mut world, conn, 3..5);
    world.run_for(Duration::from_secs(1));
    stream.more(&mut world, conn);
    let tokens: Vec<Document> = stream
        .events
        .iter()
        .map(|event| event.get_document("_id").expect("a token").clone())
        .collect();
    assert_eq!(tokens.len(), 5);
    for option in ["resumeAfter", "startAfter"] {
        let all = resumed(&mut world, conn, doc! { option: start.clone() });
        assert_eq!(all, [0, 1, 2, 3, 4]);
        for (at, token) in tokens.iter().enumerate() {
            let after = resumed(&mut world, conn, doc! { option: token.clone() });
            assert_eq!(after, (0..5).skip(at + 1).collect::<Vec<i32>>());
        }
    }
    let time = stream.events[3]
        .get_timestamp("clusterTime")
        .expect("a time");
    let after = resumed(&mut world, conn, doc! { "startAtOperationTime": time });
    assert_eq!(after, [3, 4]);
}

#[test]
fn a_stream_continues_on_the_next_primary() {
    for seed in 0..5 {
        let mut world = World::new(set_of(3), seed);
        let (primary, _) = world.until_primary(Duration::from_secs(60)).expect("one");
        let conn = world.connect(primary);
        let mut stream = Stream::open(&mut world, conn, watch(doc! {}, vec![]));
        for id in 0..5 {
            let documents = vec![doc! { "_id": id }];
            let concern = doc! { "w": "majority" };
            let command = doc! { "insert": "c", "documents": documents, "writeConcern": concern };
            send(&mut world, conn, command);
        }
        world.run_for(Duration::from_secs(1));
        let mut get_more = stream.get_more();
        get_more.insert("batchSize", 2);
        let reply = send(&mut world, conn, get_more);
        stream.take(&reply);
        assert_eq!(keys(&stream.events), [0, 1]);
        world.deployment.kill(world.now, primary);
        world.run_for(Duration::from_secs(60));
        let (next, _) = world.until_primary(Duration::from_secs(60)).expect("one");
        assert_ne!(next, primary);
        let conn = world.connect(next);
        insert(&mut world, conn, 5..6);
        world.run_for(Duration::from_secs(1));
        let options = doc! { "resumeAfter": stream.token.clone() };
        assert_eq!(resumed(&mut world, conn, options), [2, 3, 4, 5]);
    }
}

#[test]
fn after_an_invalidation_only_a_new_start_continues() {
    let (mut world, conn) = world_of([8, 0, 0]);
    insert(&mut world, conn, 1..2);
    let mut stream = Stream::open(&mut world, conn, watch(doc! {}, vec![]));
    send(&mut world, conn, doc! { "drop": "c" });
    insert(&mut world, conn, 2..3);
    world.run_for(Duration::from_secs(1));
    stream.more(&mut world, conn);
    assert_eq!(stream.id, 0, "the stream has ended");
    let token = stream.events[1]
        .get_document("_id")
        .expect("a token")
        .clone();
    assert_eq!(
        stream.events[1].get_str("operationType").ok(),
        Some("invalidate")
    );
    let command = watch(doc! { "resumeAfter": token.clone() }, vec![]);
    let reply = send(&mut world, conn, command);
    assert_eq!(code(&reply), 260, "{reply}");
    assert_eq!(resumed(&mut world, conn, doc! { "startAfter": token }), [2]);
    // A stream that resumes before the invalidation ends again.
    let dropped = stream.events[0]
        .get_document("_id")
        .expect("a token")
        .clone();
    let command = watch(doc! { "resumeAfter": dropped }, vec![]);
    let mut again = Stream::open(&mut world, conn, command);
    assert_eq!(again.kinds(&mut world, conn), ["invalidate"]);
}

#[test]
fn a_stream_that_a_server_ends_has_no_cursor_and_can_be_resumed() {
    let (mut world, conn) = world_of([8, 0, 0]);
    let mut stream = Stream::open(&mut world, conn, watch(doc! {}, vec![]));
    insert(&mut world, conn, 1..2);
    assert_eq!(world.deployment.end_streams(), Ok(()));
    stream.more(&mut world, conn);
    assert_eq!((stream.id, stream.events.len()), (0, 0));
    assert!(world.deployment.end_streams().is_err(), "none is open");
    world.run_for(Duration::from_secs(1));
    let options = doc! { "resumeAfter": stream.token.clone() };
    assert_eq!(resumed(&mut world, conn, options), [1]);
}

#[test]
fn a_token_of_another_stream_is_not_found() {
    let (mut world, conn) = world_of([8, 0, 0]);
    let mut stream = Stream::open(&mut world, conn, watch(doc! {}, vec![]));
    insert(&mut world, conn, 1..2);
    let event = stream.next(&mut world, conn);
    let token = event.get_document("_id").expect("a token").clone();
    let mut command = watch(doc! { "resumeAfter": token }, vec![]);
    command.insert("aggregate", "other");
    let reply = send(&mut world, conn, command);
    assert_eq!(code(&reply), 280, "{reply}");
    let labels = reply.get_array("errorLabels").expect("labels");
    assert_eq!(labels, &["NonResumableChangeStreamError".into()]);
}

#[test]
fn a_token_older_than_the_oplog_is_refused() {
    let mut options = set_of(1);
    options.limits.max_oplog_entries = 10;
    let mut world = World::new(options, 1);
    let (primary, _) = world.until_primary(Duration::from_secs(60)).expect("one");
    let conn = world.connect(primary);
    let stream = Stream::open(&mut world, conn, watch(doc! {}, vec![]));
    for id in 0..20 {
        insert(&mut world, conn, id..id + 1);
    }
    for option in ["resumeAfter", "startAfter"] {
        let command = watch(doc! { option: stream.token.clone() }, vec![]);
        let reply = send(&mut world, conn, command);
        assert_eq!(code(&reply), 286, "{reply}");
        assert_eq!(
            reply.get_str("codeName").ok(),
            Some("ChangeStreamHistoryLost")
        );
        let labels = reply.get_array("errorLabels").expect("labels");
        assert_eq!(labels, &["NonResumableChangeStreamError".into()]);
    }
    let time = Timestamp {
        time: 1,
        increment: 1,
    };
    let command = watch(doc! { "startAtOperationTime": time }, vec![]);
    assert_eq!(code(&send(&mut world, conn, command)), 286);
    assert_eq!(
        code(&stream.fails(&mut world, conn)),
        286,
        "the open cursor is too late"
    );
}

#[test]
fn a_stream_through_a_router_shows_the_writes_of_all_routers() {
    let addresses = (0..2).map(|i| Address::tcp(&format!("router{i}"), 27017));
    let mut world = World::new(DeploymentOptions::sharded(addresses.collect()), 1);
    let (one, other) = (world.connect(0), world.connect(1));
    let mut stream = Stream::open(&mut world, one, watch(doc! {}, vec![]));
    world.send(one, &stream.get_more());
    world.run_for(Duration::from_millis(1));
    assert!(world.reply(one).is_none(), "there are no events");
    insert(&mut world, other, 1..3);
    world.run_for(Duration::from_millis(1));
    let (_, _, reply) = world.reply(one).expect("a reply");
    stream.take(&reply);
    assert_eq!(keys(&stream.events), [1, 2]);
    let options = doc! { "resumeAfter": stream.events[0].get_document("_id").expect("one") };
    assert_eq!(resumed(&mut world, other, options), [2]);
}

#[test]
fn a_secondary_shows_what_a_majority_has() {
    let (mut world, primary, conn) = with_primary();
    let secondary = world.connect((primary + 1) % 3);
    let mut command = watch(doc! {}, vec![]);
    command.insert("$readPreference", doc! { "mode": "secondary" });
    let mut stream = Stream::open(&mut world, secondary, command);
    insert(&mut world, conn, 1..3);
    // The secondary learns of the majority with the next heartbeat.
    world.run_for(Duration::from_secs(5));
    stream.more(&mut world, secondary);
    assert_eq!(keys(&stream.events), [1, 2]);
}
