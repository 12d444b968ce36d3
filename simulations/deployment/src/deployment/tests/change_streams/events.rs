//! Tests of the events of change streams and their fields.

use super::*;

#[test]
fn an_insert_has_the_document_and_its_key() {
    let (mut world, conn) = world_of([8, 0, 0]);
    let mut stream = Stream::open(&mut world, conn, watch(doc! {}, vec![]));
    insert(&mut world, conn, 1..2);
    let event = stream.next(&mut world, conn);
    let names: Vec<&str> = event.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        [
            "_id",
            "operationType",
            "clusterTime",
            "wallTime",
            "fullDocument",
            "ns",
            "documentKey"
        ]
    );
    assert_eq!(event.get_str("operationType").ok(), Some("insert"));
    assert_eq!(
        event.get_document("ns").ok(),
        Some(&doc! { "db": "d", "coll": "c" })
    );
    assert_eq!(
        event.get_document("documentKey").ok(),
        Some(&doc! { "_id": 1 })
    );
    assert_eq!(stream.token, *event.get_document("_id").expect("a token"));
}

#[test]
fn a_delete_and_a_replacement_have_no_description() {
    let (mut world, conn) = world_of([8, 0, 0]);
    insert(&mut world, conn, 1..2);
    let mut stream = Stream::open(&mut world, conn, watch(doc! {}, vec![]));
    update(&mut world, conn, doc! { "a": 1 });
    let event = stream.next(&mut world, conn);
    assert_eq!(event.get_str("operationType").ok(), Some("replace"));
    let full = event.get_document("fullDocument").ok();
    assert_eq!(full, Some(&doc! { "_id": 1, "a": 1 }));
    let statement = doc! { "q": { "_id": 1 }, "limit": 1 };
    send(
        &mut world,
        conn,
        doc! { "delete": "c", "deletes": [statement] },
    );
    let event = stream.next(&mut world, conn);
    assert_eq!(event.get_str("operationType").ok(), Some("delete"));
    assert!(!event.contains_key("fullDocument"), "{event}");
}

#[test]
fn an_update_describes_its_fields() {
    let (mut world, conn) = world_of([8, 0, 0]);
    let document = doc! { "_id": 1, "a": [1, 2, 3], "b": { "x": 1 }, "c": 1 };
    let command = doc! { "insert": "c", "documents": [document] };
    send(&mut world, conn, command);
    let options = doc! { "fullDocument": "updateLookup" };
    let mut stream = Stream::open(&mut world, conn, watch(options, vec![]));
    let change = doc! { "$set": { "b.x": 2 }, "$unset": { "c": 1 }, "$push": { "a": 4 } };
    update(&mut world, conn, change);
    let event = stream.next(&mut world, conn);
    let described = event.get_document("updateDescription").expect("described");
    let expected = doc! {
        "updatedFields": { "a.3": 4, "b.x": 2 }, "removedFields": ["c"], "truncatedArrays": [],
    };
    assert_eq!(described, &expected);
    let full = event.get_document("fullDocument").expect("looked up");
    assert_eq!(full.get_array("a").map(Vec::len).ok(), Some(4));
    let stages = vec![doc! { "$set": { "a": { "$slice": ["$a", 2] } } }];
    update(&mut world, conn, stages);
    let event = stream.next(&mut world, conn);
    let described = event.get_document("updateDescription").expect("described");
    let expected = doc! {
        "updatedFields": {}, "removedFields": [],
        "truncatedArrays": [{ "field": "a", "newSize": 2 }],
    };
    assert_eq!(described, &expected);
}

#[test]
fn a_lookup_after_a_delete_finds_null() {
    let (mut world, conn) = world_of([8, 0, 0]);
    insert(&mut world, conn, 1..2);
    let options = doc! { "fullDocument": "updateLookup" };
    let mut stream = Stream::open(&mut world, conn, watch(options, vec![]));
    update(&mut world, conn, doc! { "$set": { "a": 1 } });
    let statement = doc! { "q": {}, "limit": 0 };
    send(
        &mut world,
        conn,
        doc! { "delete": "c", "deletes": [statement] },
    );
    world.run_for(Duration::from_secs(1));
    let event = stream.next(&mut world, conn);
    assert_eq!(event.get("fullDocument"), Some(&Bson::Null), "{event}");
}

#[test]
fn images_are_there_while_the_collection_keeps_them() {
    let (mut world, conn) = world_of([8, 0, 0]);
    let keeps = |enabled: bool| doc! { "changeStreamPreAndPostImages": { "enabled": enabled } };
    let mut create = doc! { "create": "c" };
    create.extend(keeps(true));
    send(&mut world, conn, create);
    insert(&mut world, conn, 1..2);
    let options = doc! {
        "fullDocument": "whenAvailable", "fullDocumentBeforeChange": "whenAvailable",
    };
    let mut stream = Stream::open(&mut world, conn, watch(options, vec![]));
    update(&mut world, conn, doc! { "$set": { "a": 1 } });
    update(&mut world, conn, doc! { "$set": { "a": 2 } });
    let mut modify = doc! { "collMod": "c" };
    modify.extend(keeps(false));
    send(&mut world, conn, modify);
    update(&mut world, conn, doc! { "$set": { "a": 3 } });
    let images = |event: &Document| {
        let image = |name: &str| event.get(name).cloned().expect("an image");
        (image("fullDocumentBeforeChange"), image("fullDocument"))
    };
    let (one, two) = (doc! { "_id": 1, "a": 1 }, doc! { "_id": 1, "a": 2 });
    let event = stream.next(&mut world, conn);
    assert_eq!(
        images(&event),
        (doc! { "_id": 1 }.into(), one.clone().into())
    );
    let event = stream.next(&mut world, conn);
    assert_eq!(images(&event), (one.into(), two.into()));
    let event = stream.next(&mut world, conn);
    assert_eq!(images(&event), (Bson::Null, Bson::Null));
}

#[test]
fn a_required_image_that_is_missing_is_an_error_after_the_events_before() {
    let (mut world, conn) = world_of([8, 0, 0]);
    insert(&mut world, conn, 1..2);
    let options = doc! { "fullDocumentBeforeChange": "required" };
    let mut stream = Stream::open(&mut world, conn, watch(options, vec![]));
    insert(&mut world, conn, 2..3);
    update(&mut world, conn, doc! { "$set": { "a": 1 } });
    world.run_for(Duration::from_secs(1));
    let event = stream.next(&mut world, conn);
    assert_eq!(event.get_str("operationType").ok(), Some("insert"));
    assert_eq!(code(&stream.fails(&mut world, conn)), 47);
}

#[test]
fn a_drop_and_a_rename_end_the_stream_of_a_collection() {
    let (mut world, conn) = world_of([8, 0, 0]);
    insert(&mut world, conn, 1..2);
    let mut stream = Stream::open(&mut world, conn, watch(doc! {}, vec![]));
    let mut on_database = watch(doc! {}, vec![]);
    on_database.insert("aggregate", 1);
    let mut all = Stream::open(&mut world, conn, on_database);
    send(&mut world, conn, doc! { "drop": "c" });
    assert_eq!(stream.kinds(&mut world, conn), ["drop", "invalidate"]);
    insert(&mut world, conn, 1..2);
    let mut stream = Stream::open(&mut world, conn, watch(doc! {}, vec![]));
    let mut other = watch(doc! {}, vec![]);
    other.insert("aggregate", "e");
    let mut target = Stream::open(&mut world, conn, other);
    send(&mut world, conn, doc! { "create": "e" });
    let rename = doc! { "renameCollection": "d.c", "to": "d.e", "dropTarget": true };
    let mut rename = rename;
    rename.insert("$db", "admin");
    let reply = send(&mut world, conn, rename);
    assert_eq!(reply.get_f64("ok").ok(), Some(1.0), "{reply}");
    assert_eq!(stream.kinds(&mut world, conn), ["rename", "invalidate"]);
    assert_eq!(target.kinds(&mut world, conn), ["rename", "invalidate"]);
    send(&mut world, conn, doc! { "dropDatabase": 1 });
    let kinds = all.kinds(&mut world, conn);
    assert_eq!(
        kinds,
        [
            "drop",
            "insert",
            "rename",
            "drop",
            "dropDatabase",
            "invalidate"
        ]
    );
}

#[test]
fn expanded_events_show_the_catalog() {
    let (mut world, conn) = world_of([8, 1, 0]);
    let mut command = watch(doc! { "showExpandedEvents": true }, vec![]);
    command.insert("aggregate", 1);
    let mut stream = Stream::open(&mut world, conn, command);
    insert(&mut world, conn, 1..2);
    let keys = [
        doc! { "key": { "a": 1 }, "name": "a" },
        doc! { "key": { "b": 1 }, "name": "b" },
    ];
    send(
        &mut world,
        conn,
        doc! { "createIndexes": "c", "indexes": keys.to_vec() },
    );
    let hide = doc! { "collMod": "c", "index": { "name": "a", "hidden": true } };
    send(&mut world, conn, hide);
    send(&mut world, conn, doc! { "dropIndexes": "c", "index": "b" });
    send(
        &mut world,
        conn,
        doc! { "collMod": "c", "validationLevel": "off" },
    );
    send(
        &mut world,
        conn,
        doc! { "create": "v", "viewOn": "c", "pipeline": [] },
    );
    world.run_for(Duration::from_secs(1));
    let create = stream.next(&mut world, conn);
    assert_eq!(
        create.get_str("nsType").ok(),
        Some("collection"),
        "{create}"
    );
    let inserted = stream.next(&mut world, conn);
    assert_eq!(create.get("collectionUUID"), inserted.get("collectionUUID"));
    assert!(create.contains_key("collectionUUID"), "{create}");
    let kinds = stream.kinds(&mut world, conn);
    assert_eq!(
        kinds,
        ["createIndexes", "modify", "dropIndexes", "modify", "create"]
    );
}

#[test]
fn a_stream_on_the_deployment_shows_all_databases() {
    let (mut world, conn) = world_of([8, 0, 0]);
    let mut command = watch(doc! { "allChangesForCluster": true }, vec![]);
    command.insert("aggregate", 1);
    command.insert("$db", "admin");
    let mut stream = Stream::open(&mut world, conn, command);
    for database in ["d", "e", "admin"] {
        let mut insert = doc! { "insert": "c", "documents": [{ "_id": 1 }] };
        insert.insert("$db", database);
        send(&mut world, conn, insert);
    }
    send(&mut world, conn, doc! { "dropDatabase": 1 });
    let kinds = stream.kinds(&mut world, conn);
    assert_eq!(kinds, ["insert", "insert", "drop", "dropDatabase"]);
    assert_ne!(stream.id, 0);
}

#[test]
fn events_come_in_the_order_of_the_oplog_and_in_batches() {
    let (mut world, conn) = world_of([8, 0, 0]);
    let mut stream = Stream::open(&mut world, conn, watch(doc! {}, vec![]));
    insert(&mut world, conn, 0..10);
    world.run_for(Duration::from_secs(1));
    let mut get_more = stream.get_more();
    get_more.insert("batchSize", 4);
    let mut found = Vec::new();
    for expected in [4, 4, 2] {
        let reply = send(&mut world, conn, get_more.clone());
        stream.take(&reply);
        assert_eq!(stream.events.len(), expected);
        let last = stream.events.last().expect("an event");
        assert_eq!(last.get_document("_id").ok(), Some(&stream.token));
        found.append(&mut stream.events);
    }
    let key = |event: &Document| {
        event
            .get_document("documentKey")
            .and_then(|k| k.get_i32("_id"))
    };
    let keys: Vec<i32> = found
        .iter()
        .map(|event| key(event).expect("a key"))
        .collect();
    assert_eq!(keys, (0..10).collect::<Vec<i32>>());
    let token = |event: &Document| event.get_document("_id").expect("a token").to_string();
    assert!(found.iter().map(token).is_sorted(), "{found:?}");
}

#[test]
fn a_get_more_waits_until_a_majority_has_an_event() {
    let (mut world, conn) = world_of([8, 0, 0]);
    let mut stream = Stream::open(&mut world, conn, watch(doc! {}, vec![]));
    let before = stream.token.clone();
    let mut get_more = stream.get_more();
    get_more.insert("maxTimeMS", 5000);
    let waiting = world.connect(world.deployment.primary().expect("a primary"));
    world.send(waiting, &get_more);
    world.run_for(Duration::from_millis(4900));
    assert!(world.reply(waiting).is_none(), "there are no events");
    world.run_for(Duration::from_millis(200));
    let (_, _, reply) = world.reply(waiting).expect("the time is up");
    stream.take(&reply);
    assert!(stream.events.is_empty());
    world.run_for(Duration::from_secs(20));
    stream.more(&mut world, conn);
    assert!(
        stream.token.to_string() > before.to_string(),
        "empty entries of the oplog move the high-water mark"
    );
    world.send(waiting, &get_more);
    world.run_for(Duration::from_millis(100));
    let mut insert = doc! { "insert": "c", "documents": [{ "_id": 1 }], "$db": "d" };
    insert.insert("writeConcern", doc! { "w": 1 });
    world.send(conn, &insert);
    world.run_for(Duration::from_micros(10));
    assert!(world.reply(conn).is_some(), "the primary has the document");
    assert!(world.reply(waiting).is_none(), "no other member has it");
    world.run_for(Duration::from_secs(1));
    let (_, _, reply) = world.reply(waiting).expect("a majority has it");
    stream.take(&reply);
    assert_eq!(stream.events.len(), 1);
}

#[test]
fn the_events_of_a_transaction_have_its_session_and_number() {
    let (mut world, conn) = world_of([8, 0, 0]);
    insert(&mut world, conn, 0..1);
    let mut stream = Stream::open(&mut world, conn, watch(doc! {}, vec![]));
    let id = bson::Binary {
        subtype: bson::spec::BinarySubtype::Uuid,
        bytes: vec![7; 16],
    };
    let transaction = doc! {
        "lsid": { "id": id }, "txnNumber": 3_i64, "autocommit": false,
    };
    let mut first = doc! { "insert": "c", "documents": [{ "_id": 1 }, { "_id": 2 }] };
    first.insert("startTransaction", true);
    first.extend(transaction.clone());
    let reply = send(&mut world, conn, first);
    assert_eq!(reply.get_f64("ok").ok(), Some(1.0), "{reply}");
    let mut refused = watch(doc! {}, vec![]);
    refused.extend(transaction.clone());
    let reply = send(&mut world, conn, refused);
    assert_eq!(code(&reply), 263, "{reply}");
    let mut again = doc! { "insert": "c", "documents": [{ "_id": 1 }, { "_id": 2 }] };
    let next = doc! { "txnNumber": 4_i64 };
    again.insert("startTransaction", true);
    again.extend(transaction.clone());
    again.extend(next.clone());
    let reply = send(&mut world, conn, again);
    assert_eq!(reply.get_f64("ok").ok(), Some(1.0), "{reply}");
    let mut commit = doc! { "commitTransaction": 1, "$db": "admin" };
    commit.extend(transaction);
    commit.extend(next);
    let reply = send(&mut world, conn, commit);
    assert_eq!(reply.get_f64("ok").ok(), Some(1.0), "{reply}");
    let (one, two) = (stream.next(&mut world, conn), stream.next(&mut world, conn));
    for event in [&one, &two] {
        assert_eq!(event.get_i64("txnNumber").ok(), Some(4), "{event}");
        assert!(event.contains_key("lsid"), "{event}");
    }
    assert_eq!(one.get("clusterTime"), two.get("clusterTime"));
    assert_ne!(one.get("_id"), two.get("_id"));
}

#[test]
fn older_releases_have_fewer_fields() {
    let (mut world, conn) = world_of([4, 2, 0]);
    insert(&mut world, conn, 1..2);
    let mut stream = Stream::open(&mut world, conn, watch(doc! {}, vec![]));
    update(&mut world, conn, doc! { "$set": { "a": 1 } });
    let event = stream.next(&mut world, conn);
    assert!(!event.contains_key("wallTime"), "{event}");
    let described = event.get_document("updateDescription").expect("described");
    assert!(!described.contains_key("truncatedArrays"), "{event}");
    update(&mut world, conn, vec![doc! { "$set": { "a": 2 } }]);
    let event = stream.next(&mut world, conn);
    assert_eq!(event.get_str("operationType").ok(), Some("replace"));
}
