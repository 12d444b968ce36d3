//! Tests of calls whose blocking form is more than a future that is run.

use super::{connections, people, replica_set, standalone, until};
use onionskin_blocking::{
    Client, GridFsUploadStream, Run,
    bson::{Document, doc},
    error::{Error, ErrorKind, GridFsErrorKind},
    options::CursorType,
};
use onionskin_tests::{
    compressors::with_compressors,
    conformance::server::{Server, answer},
};
use std::{
    io::{Read as _, Write as _},
    time::{Duration, Instant},
};

/// Returns the number of documents of a batch.
fn documents(batch: &onionskin_blocking::RawBatch) -> usize {
    let documents = batch.doc_slices().expect("an array");
    documents.into_iter().count()
}

#[test]
fn whole_batches_are_iterated_and_closed_when_they_are_dropped() -> Result<(), Error> {
    let deployment = standalone();
    let client = Client::with_uri_str(with_compressors(deployment.uri()))?;
    let people = people(&client);
    people
        .insert_many((0..7).map(|n| doc! { "_id": n }))
        .run()?;
    let find = || people.find(doc! {}).batch_size(3).batch();
    let sizes = find().run()?.map(|batch| batch.map(|b| documents(&b)));
    assert_eq!(sizes.collect::<Result<Vec<_>, _>>()?, [3, 3, 1]);
    let mut open = find().run()?;
    assert_eq!(documents(&open.next().expect("a batch")?), 3);
    drop(open);
    assert_eq!(client.counts().in_use, 0);
    let all = people.aggregate([]).batch().run()?;
    assert_eq!(all.count(), 1);
    client.shutdown().run();
    Ok(())
}

#[test]
fn a_cursor_tells_whether_there_can_be_more() -> Result<(), Error> {
    let deployment = standalone();
    let client = Client::with_uri_str(with_compressors(deployment.uri()))?;
    let people = people(&client);
    people
        .insert_many((0..7).map(|n| doc! { "_id": n }))
        .run()?;
    let mut cursor = people.find(doc! {}).batch_size(3).run()?;
    for expected in 0..7 {
        assert!(cursor.has_next(), "before {expected}");
        assert!(cursor.advance()?);
        let id = cursor.current().get_i32("_id");
        assert_eq!(id.expect("a number"), expected);
    }
    assert!(!cursor.has_next(), "the server has closed the cursor");
    assert!(!cursor.advance()?);
    let nothing = people.find(doc! { "_id": -1 }).run()?;
    assert!(!nothing.has_next());
    let mut one = people.find(doc! {}).limit(1).run()?;
    assert!(one.has_next());
    one.next().expect("a document")?;
    assert!(!one.has_next());
    client.shutdown().run();
    Ok(())
}

#[test]
fn cursors_of_sessions_change_their_type_and_are_closed() -> Result<(), Error> {
    let deployment = replica_set();
    let client = Client::with_uri_str(with_compressors(deployment.uri()))?;
    let people = people(&client);
    people
        .insert_many((0..7).map(|n| doc! { "_id": n }))
        .run()?;
    let mut session = client.start_session().run()?;
    let find = people.find(doc! {}).batch_size(3);
    let cursor = find.session(&mut session).run()?;
    let mut cursor = cursor.with_type::<Document>();
    cursor.next(&mut session).expect("a document")?;
    cursor.close();
    let find = people.find(doc! {}).batch_size(3);
    let mut batches = find.session(&mut session).batch().run()?;
    assert_eq!(documents(&batches.next(&mut session).expect("a batch")?), 3);
    let rest = batches.iter(&mut session);
    let rest = rest.map(|batch| batch.map(|b| documents(&b)));
    assert_eq!(rest.collect::<Result<Vec<_>, _>>()?, [3, 1]);
    batches.close();
    client.shutdown().run();
    Ok(())
}

#[test]
fn what_a_session_leaves_behind_keeps_no_socket_open() -> Result<(), Error> {
    let deployment = replica_set();
    for has_transaction in [false, true] {
        let client = Client::with_uri_str(with_compressors(deployment.uri()))?;
        let people = people(&client);
        let mut session = client.start_session().run()?;
        if has_transaction {
            session.start_transaction().run()?;
            let insert = people.insert_one(doc! { "in": "a transaction" });
            insert.session(&mut session).run()?;
        } else {
            people
                .insert_many((0..7).map(|n| doc! { "_id": n }))
                .run()?;
            let find = people.find(doc! {}).batch_size(3);
            let mut cursor = find.session(&mut session).run()?;
            cursor.next(&mut session).expect("a document")?;
        }
        // No call follows that could run the commands that close the cursor or end the transaction.
        drop(session);
        drop(people);
        drop(client);
        until("the closing of all sockets", || {
            connections(&deployment) == 0
        });
    }
    Ok(())
}

#[test]
fn pools_are_warmed_and_a_shutdown_can_be_immediate() -> Result<(), Error> {
    let deployment = standalone();
    let uri = format!("{}/?minPoolSize=4", deployment.uri().trim_end_matches('/'));
    let client = Client::with_uri_str(with_compressors(&uri))?;
    client.warm_connection_pool().run();
    // One more connection is that of the checks.
    assert!(connections(&deployment) > 4);
    client.shutdown().immediate(true).run();
    until("the closing of all sockets", || {
        connections(&deployment) == 0
    });
    Ok(())
}

/// Opens an upload with this time limit, and stores its first chunk.
fn upload(client: &Client, limit: Duration) -> Result<GridFsUploadStream, Error> {
    let bucket = client.database("app").gridfs_bucket(None);
    let mut upload = bucket.open_upload_stream("f").timeout(limit).run()?;
    upload.write_all(&[1; 300 * 1024]).expect("taken");
    upload.flush().expect("sent");
    assert_eq!(chunks(client)?, 1);
    Ok(upload)
}

fn chunks(client: &Client) -> Result<u64, Error> {
    let chunks = client.database("app").collection::<Document>("fs.chunks");
    chunks.count_documents(doc! {}).run()
}

#[test]
fn the_drop_of_an_upload_has_its_own_time_limit() -> Result<(), Error> {
    let deployment = standalone();
    let client = Client::with_uri_str(with_compressors(deployment.uri()))?;
    // The chunks are deleted although the time limit of the stream has passed.
    let limit = Duration::from_secs(2);
    let late = upload(&client, limit)?;
    let opened = Instant::now();
    until("the end of the time limit", || opened.elapsed() > limit);
    drop(late);
    assert_eq!(chunks(&client)?, 0);
    // Without a time limit of the stream, the drop does not wait for ever for a server that hangs.
    let open = upload(&client, Duration::ZERO)?;
    let hang = Duration::from_secs(60);
    let data = doc! {
        "failCommands": ["delete"], "blockConnection": true,
        "blockTimeMS": i64::try_from(hang.as_millis()).expect("a number"),
    };
    let point = doc! {
        "configureFailPoint": "failCommand", "mode": { "times": 1 }, "data": data,
    };
    client.database("admin").run_command(point).run()?;
    let began = Instant::now();
    drop(open);
    assert!(began.elapsed() < hang / 2, "{:?}", began.elapsed());
    client.shutdown().immediate(true).run();
    Ok(())
}

#[test]
fn files_are_written_and_read_through_the_traits_of_std() -> Result<(), Box<dyn std::error::Error>>
{
    let deployment = standalone();
    let client = Client::with_uri_str(with_compressors(deployment.uri()))?;
    let bucket = client.database("app").gridfs_bucket(None);
    let content: Vec<u8> = (0..=u8::MAX).cycle().take(1_000_000).collect();
    for content in [&content[..], &content[500_000..], &[]] {
        let mut upload = bucket.open_upload_stream("f").run()?;
        for piece in content.chunks(70_001) {
            upload.write_all(piece)?;
        }
        upload.close()?;
        upload.write(b"more").expect_err("it is closed");
        let mut download = bucket.open_download_stream(upload.id().clone()).run()?;
        assert_eq!(download.file().length, content.len() as u64);
        let mut found = Vec::new();
        download.read_to_end(&mut found)?;
        assert!(found == content, "{} bytes", found.len());
    }
    // The first revision has four chunks, of which the third is lost.
    let mut download = bucket.open_download_stream_by_name("f").revision(0).run()?;
    let chunks = client.database("app").collection::<Document>("fs.chunks");
    let of_first = doc! { "files_id": download.file().id.clone(), "n": 2 };
    assert_eq!(chunks.delete_one(of_first).run()?.deleted_count, 1);
    let mut found = Vec::new();
    let error = download
        .read_to_end(&mut found)
        .expect_err("a chunk is lost");
    let error: &Error = error
        .get_ref()
        .and_then(|e| e.downcast_ref())
        .expect("an error");
    let is_missing = matches!(
        error.kind(),
        ErrorKind::GridFs(GridFsErrorKind::MissingChunk { n: 2, .. })
    );
    assert!(is_missing, "{error}");
    assert!(content.starts_with(&found), "the chunks before it came");
    Ok(())
}

#[test]
fn an_event_without_a_token_closes_the_cursor_of_its_stream() -> Result<(), Error> {
    let server = Server::unix(move |request| match request.name.as_str() {
        "aggregate" => request.reply(&doc! {
            "ok": 1,
            "cursor": { "id": 7_i64, "ns": "app.people", "firstBatch": [{ "a": 1 }] },
        }),
        _ => answer(request),
    });
    let client = Client::with_uri_str(with_compressors(&server.uri("")))?;
    let mut changes = people(&client).watch().run()?;
    let error = changes.next().expect("an error").expect_err("no token");
    assert!(
        matches!(error.kind(), ErrorKind::MissingResumeToken),
        "{error}"
    );
    // The stream is still there.
    until("the close", || !server.seen("killCursors").is_empty());
    assert!(changes.next().is_none());
    drop(changes);
    client.shutdown().run();
    Ok(())
}

#[test]
fn tails_and_streams_are_read_without_waiting_and_closed() -> Result<(), Error> {
    let deployment = replica_set();
    let client = Client::with_uri_str(with_compressors(deployment.uri()))?;
    let app = client.database("app");
    let log = app.collection::<Document>("log");
    app.create_collection("log").capped(true).size(4096).run()?;
    let mut changes = log.watch().run()?;
    log.insert_one(doc! { "_id": 1 }).run()?;
    let tail = || log.find(doc! {}).cursor_type(CursorType::Tailable);
    let mut lines = tail().run()?;
    assert_eq!(lines.next_if_any()?, Some(doc! { "_id": 1 }));
    assert_eq!(lines.next_if_any()?, None, "the cursor does not wait");
    lines.close();
    let mut session = client.start_session().run()?;
    let mut lines = tail().session(&mut session).run()?;
    let line = lines.next_if_any(&mut session)?;
    assert_eq!(line, Some(doc! { "_id": 1 }));
    assert_eq!(lines.next_if_any(&mut session)?, None);
    lines.close();
    assert!(changes.advance()?);
    let operation = changes.current().get_str("operationType");
    assert_eq!(operation.expect("a text"), "insert");
    changes.close();
    let mut batches = log.find(doc! {}).batch().run()?;
    assert_eq!(documents(&batches.next().expect("a batch")?), 1);
    batches.close();
    assert_eq!(log.find(doc! {}).run()?.into_vec()?, [doc! { "_id": 1 }]);
    client.shutdown().run();
    Ok(())
}
