//! Time limits of operations: prose tests of `client-side-operations-timeout/tests/README.md`.

use crate::{
    event_log::command_name,
    scene::{
        Scene, Watched, any_topology, authenticated, play, play_with_one_seed, replica_set,
        sharded_alone, standalone,
    },
};
use bson::{Bson, DateTime, Document, doc, oid::ObjectId};
use futures_util::{AsyncReadExt, AsyncWriteExt};
use onionskin::{
    Error,
    gridfs::{GridFsBucket, GridFsBucketOptions},
    options::{CursorType, InsertOneModel, WriteModel},
};
use onionskin_deployment::deployment::{DeploymentOptions, ServerVersion};
use onionskin_worlds::world::SimRuntime;
use std::time::Duration;

/// The time for which a fail point blocks a command in most tests, in milliseconds. The limit of
/// the operation is 150 ms.
const BLOCK: i32 = 200;

async fn block(scene: &Scene, mode: impl Into<Bson>, command: &str, millis: i32) {
    let data = doc! {
        "failCommands": [command], "blockConnection": true, "blockTimeMS": millis,
    };
    scene.fail(scene.primary(), mode, data).await;
}

fn once() -> Document {
    doc! { "times": 1 }
}

fn count_of(watched: &Watched, command: &str) -> usize {
    let started = format!("{command} started");
    watched
        .events
        .count(|event| command_name(event).as_deref() == Some(started.as_str()))
}

fn bucket(watched: &Watched, chunk_size: u32) -> GridFsBucket<SimRuntime> {
    let options = GridFsBucketOptions::builder().chunk_size_bytes(chunk_size);
    let database = watched.client.database("db");
    database.gridfs_bucket(options.build())
}

/// The error of the driver in an error of a stream.
fn timed_out(error: std::io::Error) -> bool {
    let error = error.downcast::<Error>().expect("an error of the driver");
    error.is_timeout()
}

/// CSOT prose 5, "Tailable cursors". All times are ten times as long as in the text, so that a
/// round trip is short beside them, as in the next test.
#[test]
fn a_tailable_cursor_sends_get_more_until_its_time_limit() {
    play(any_topology(), |scene| async move {
        let operator = scene.client("");
        let database = operator.client.database("db");
        let create = database.create_collection("coll").capped(true).size(4_096);
        create.await.expect("created");
        let one = doc! { "_id": 1, "x": 1 };
        let coll = database.collection::<Document>("coll");
        let inserted = coll.insert_one(&one).await;
        inserted.expect("inserted");
        block(&scene, "alwaysOn", "getMore", 150).await;
        let watched = scene.client("timeoutMS=200");
        let tail = watched.client.database("db").collection::<Document>("coll");
        let find = tail.find(doc! {}).cursor_type(CursorType::Tailable);
        let mut cursor = find.await.expect("found");
        let found = cursor.next().await.expect("a document");
        assert_eq!(found, Ok(one));
        assert_eq!(count_of(&watched, "getMore"), 0);
        let error = cursor.next().await.expect("an error");
        let error = error.expect_err("no document comes");
        assert!(error.is_timeout(), "{error:?}");
        let counts = ["find", "getMore"].map(|name| count_of(&watched, name));
        assert_eq!(counts, [1, 2]);
        drop(cursor);
        scene.clear_fail_point(scene.primary()).await;
        drop((tail, coll, database));
        operator.client.shutdown().await;
        watched.end().await;
    });
}

/// CSOT prose 5, "Change Streams". A server waits a second for an event if it is not told to wait
/// less, so here it is told.
#[test]
fn a_change_stream_sends_get_more_until_its_time_limit() {
    play([replica_set(), sharded_alone()], |scene| async move {
        block(&scene, "alwaysOn", "getMore", 150).await;
        let watched = scene.client("timeoutMS=200");
        let watch = watched.things().watch();
        let watch = watch.max_await_time(Duration::from_millis(10));
        let mut stream = watch.await.expect("open");
        let error = stream.next().await.expect("an error");
        let error = error.expect_err("no event comes");
        assert!(error.is_timeout(), "{error:?}");
        let counts = ["aggregate", "getMore"].map(|name| count_of(&watched, name));
        assert_eq!(counts, [1, 2]);
        drop(stream);
        scene.clear_fail_point(scene.primary()).await;
        watched.end().await;
    });
}

/// CSOT prose 6, "uploads via openUploadStream can be timed out".
#[test]
fn closing_an_upload_can_time_out() {
    play(any_topology(), |scene| async move {
        block(&scene, once(), "insert", BLOCK).await;
        let watched = scene.client("timeoutMS=150");
        let files = bucket(&watched, 255 * 1024);
        let mut upload = files.open_upload_stream("filename").await.expect("open");
        upload.write_all(&[0x12]).await.expect("taken");
        let error = upload.close().await.expect_err("the insert is blocked");
        assert!(timed_out(error));
        assert_eq!(count_of(&watched, "insert"), 1);
        drop((upload, files));
        scene.pause(1_000).await;
        watched.end().await;
    });
}

/// CSOT prose 6, "Aborting an upload stream can be timed out". Without the flush there would be
/// nothing to delete, because few bytes are kept until the upload is closed.
#[test]
fn aborting_an_upload_can_time_out() {
    play(any_topology(), |scene| async move {
        block(&scene, once(), "delete", BLOCK).await;
        let watched = scene.client("timeoutMS=150");
        let files = bucket(&watched, 2);
        let mut upload = files.open_upload_stream("filename").await.expect("open");
        upload.write_all(&[1, 2, 3, 4]).await.expect("taken");
        upload.flush().await.expect("sent");
        let error = upload.abort().await.expect_err("the delete is blocked");
        assert!(error.is_timeout(), "{error:?}");
        drop((upload, files));
        scene.pause(1_000).await;
        watched.end().await;
    });
}

/// CSOT prose 7.
#[test]
fn reading_a_download_can_time_out() {
    play(any_topology(), |scene| async move {
        let operator = scene.client("");
        let id = ObjectId::from_bytes([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5]);
        let file = doc! {
            "_id": id, "length": 10, "chunkSize": 4, "filename": "length-10",
            "uploadDate": DateTime::from_millis(0), "md5": "57d83cd477bfb1ccd975ab33d827a92b",
            "contentType": "application/octet-stream", "aliases": [], "metadata": {},
        };
        let stored = operator.client.database("db").collection("fs.files");
        stored.insert_one(file).await.expect("inserted");
        drop(stored);
        let watched = scene.client("timeoutMS=150");
        let files = bucket(&watched, 4);
        let mut download = files.open_download_stream(id.into()).await.expect("open");
        block(&scene, once(), "find", BLOCK).await;
        let mut byte = [0];
        let error = download
            .read(&mut byte)
            .await
            .expect_err("the find is blocked");
        assert!(timed_out(error));
        // The first `find` was that of the file, when the stream was opened.
        assert_eq!(count_of(&watched, "find"), 2);
        drop((download, files));
        scene.pause(1_000).await;
        operator.client.shutdown().await;
        watched.end().await;
    });
}

/// CSOT prose 8, "serverSelectionTimeoutMS honored for connection handshake commands if it's lower
/// than timeoutMS".
#[test]
fn the_limit_of_server_selection_bounds_the_handshake_of_an_operation() {
    let deployments = [standalone(), sharded_alone()].map(authenticated);
    play(deployments, |scene| async move {
        block(&scene, once(), "saslContinue", 15).await;
        let watched = scene.client("timeoutMS=20&serverSelectionTimeoutMS=10");
        let began = scene.now();
        let error = watched.insert(1).await.expect_err("the login is blocked");
        let took = scene.now().saturating_since(began);
        assert!(error.is_timeout(), "{error:?}");
        assert!(took <= Duration::from_millis(15), "{took:?}");
        scene.clear_fail_point(scene.primary()).await;
        watched.end().await;
    });
}

/// CSOT prose 9: the limit is that of the client, of the session, or of the call.
#[test]
fn the_end_of_a_session_can_time_out() {
    let limit = Duration::from_millis(150);
    for by in ["client", "session", "call"] {
        play([replica_set(), sharded_alone()], |scene| async move {
            block(&scene, once(), "abortTransaction", BLOCK).await;
            let options = if by == "client" { "timeoutMS=150" } else { "" };
            let watched = scene.client(options);
            let mut start = watched.client.start_session();
            if by == "session" {
                start = start.default_timeout(limit);
            }
            let mut session = start.await.expect("it is open");
            session.start_transaction().await.expect("it starts");
            let things = watched.things();
            let insert = things.insert_one(doc! { "x": 1 }).session(&mut session);
            insert.await.expect("inserted");
            let began = scene.now();
            let end = match by {
                "call" => session.end().timeout(limit),
                _ => session.end(),
            };
            let error = end.await.expect_err("the abort is blocked");
            assert!(error.is_timeout(), "{error:?}");
            let took = scene.now().saturating_since(began);
            assert!(took <= limit, "{took:?}");
            scene.clear_fail_point(scene.primary()).await;
            drop(things);
            watched.end().await;
        });
    }
}

/// An end that is dropped while it aborts sends no second abort.
#[test]
fn a_dropped_end_of_a_session_aborts_once() {
    play([replica_set(), sharded_alone()], |scene| async move {
        block(&scene, once(), "abortTransaction", BLOCK).await;
        let watched = scene.client("");
        let mut session = watched.client.start_session().await.expect("it is open");
        session.start_transaction().await.expect("it starts");
        let things = watched.things();
        let insert = things.insert_one(doc! { "x": 1 }).session(&mut session);
        insert.await.expect("inserted");
        let short = Duration::from_millis(50);
        assert!(scene.drop_after(short, session.end()).await.is_none());
        scene.pause(1_000).await;
        assert_eq!(count_of(&watched, "abortTransaction"), 1);
        scene.clear_fail_point(scene.primary()).await;
        drop(things);
        watched.end().await;
    });
}

/// An error that is no timeout does not prevent the end of a session (*endSession changes* of the
/// transactions specification). Without a transaction in progress nothing is sent.
#[test]
fn the_end_of_a_session_ignores_other_errors() {
    play([replica_set(), sharded_alone()], |scene| async move {
        let data = doc! { "failCommands": ["abortTransaction"], "errorCode": 2 };
        scene.fail(scene.primary(), once(), data).await;
        let watched = scene.client("");
        let things = watched.things();
        for aborts in [true, false] {
            let mut session = watched.client.start_session().await.expect("it is open");
            session.start_transaction().await.expect("it starts");
            let insert = things.insert_one(doc! { "x": 1 }).session(&mut session);
            insert.await.expect("inserted");
            if !aborts {
                session.commit_transaction().await.expect("committed");
            }
            session.end().await.expect("ended");
            assert_eq!(count_of(&watched, "abortTransaction"), 1);
        }
        drop(things);
        watched.end().await;
    });
}

fn bulk_server() -> DeploymentOptions {
    let mut options = standalone();
    options.version = ServerVersion::named("8.0").expect("it is known");
    options.limits.max_document_bytes = 16_000;
    options.limits.max_message_bytes = 48_000;
    options
}

/// CSOT prose 11, with smaller documents and messages.
#[test]
fn a_time_limit_bounds_all_commands_of_a_bulk_write_together() {
    play_with_one_seed([bulk_server()], |scene| async move {
        block(&scene, doc! { "times": 2 }, "bulkWrite", 1_010).await;
        let watched = scene.client("timeoutMS=2000");
        let limits = scene.options.limits;
        let document = doc! { "a": "b".repeat(limits.max_document_bytes - 500) };
        let count = limits.max_message_bytes / limits.max_document_bytes + 1;
        let insert = InsertOneModel::builder()
            .namespace(watched.things().namespace())
            .document(document)
            .build();
        let models = vec![WriteModel::InsertOne(insert); count];
        let began = scene.now();
        let error = watched.client.bulk_write(models).await;
        let error = error.expect_err("two commands take longer");
        assert!(error.is_timeout(), "{error:?}");
        let took = scene.now().saturating_since(began);
        assert!(took <= Duration::from_secs(2), "{took:?}");
        assert_eq!(count_of(&watched, "bulkWrite"), 2);
        scene.clear_fail_point(scene.primary()).await;
        watched.end().await;
    });
}
