//! Tests of sessions that the application starts. They need a replica set.

use super::{Bench, DATABASE, in_turn, report, within};
use bson::{Bson, Document, Timestamp, doc};
use onionskin::{
    Collection, Runtime,
    error::ErrorKind,
    options::{CollectionOptions, ReadConcern, SessionOptions, WriteConcern},
};

/// Runs all tests of sessions, and prints their number.
///
/// # Panics
///
/// If a test fails, or if all together take too long.
pub async fn run<R: Runtime + Default>(name: &str, uri: &str) {
    let bench = Bench::<R>::new(uri);
    let passed = within::<R, _>(async {
        in_turn!(
            &bench,
            [
                all_calls_of_a_session_send_its_id,
                a_causal_session_reads_its_own_writes,
                a_session_that_is_not_causal_sends_no_time,
                the_time_of_another_session_is_taken_over,
                a_snapshot_session_reads_one_point_in_time,
                a_cursor_stays_in_its_session,
                whole_batches_stay_in_their_session,
                sessions_are_refused_where_they_cannot_be_used,
                the_id_of_an_ended_session_is_used_again,
                a_cursor_is_closed_after_its_session_has_ended,
                unacknowledged_writes_use_no_session,
            ]
        )
    })
    .await;
    report("sessions", name, passed);
    within::<R, _>(bench.client.shutdown()).await;
}

async fn items<R: Runtime + Default>(b: &Bench<R>, case: &str) -> Collection<R, Document> {
    let items = b.empty::<Document>(case).await;
    items
        .insert_many([doc! { "_id": 1 }, doc! { "_id": 2 }])
        .write_concern(WriteConcern::majority())
        .await
        .expect("they are new");
    items
}

/// Returns a field of the last command of this name.
async fn sent<R: Runtime + Default>(b: &Bench<R>, name: &str, field: &str) -> Option<Bson> {
    let all = b.watch().await.of(name);
    all.last().expect("it was sent").command.get(field).cloned()
}

async fn all_calls_of_a_session_send_its_id<R: Runtime + Default>(b: &Bench<R>) {
    /// Runs calls in a session.
    macro_rules! run {
        ($session:ident, $($call:expr;)*) => {
            $($call.session(&mut $session).await.expect("a reply");)*
        };
    }

    let items = items(b, "in_session").await;
    let mut session = b.client.start_session().await.expect("a session");
    let set = || doc! { "$set": { "a": 1 } };
    let database = b.client.database(DATABASE);
    run!(session,
        items.insert_one(doc! { "_id": 3 });
        items.insert_many([doc! { "_id": 4 }]);
        items.update_one(doc! {}, set());
        items.delete_one(doc! { "_id": 4 });
        items.find_one(doc! {});
        items.find_one_and_update(doc! {}, set());
        items.count_documents(doc! {});
        items.estimated_document_count();
        items.distinct("a", doc! {});
        items.list_index_names();
        database.list_collection_names();
        database.run_command(doc! { "ping": 1 });
        b.client.list_database_names();
    );
    let id = Some(Bson::from(session.id().clone()));
    for name in [
        "insert",
        "update",
        "delete",
        "find",
        "findAndModify",
        "aggregate",
        "count",
        "distinct",
        "listIndexes",
        "listCollections",
        "ping",
        "listDatabases",
    ] {
        assert_eq!(sent(b, name, "lsid").await, id, "{name}");
    }
}

/// Returns a field of the read concern of the last command of this name.
async fn concern<R: Runtime + Default>(b: &Bench<R>, name: &str, field: &str) -> Option<Bson> {
    let concern = sent(b, name, "readConcern").await?;
    concern
        .as_document()
        .expect("a document")
        .get(field)
        .cloned()
}

async fn a_causal_session_reads_its_own_writes<R: Runtime + Default>(b: &Bench<R>) {
    let items = items(b, "causal").await;
    let mut session = b.client.start_session().await.expect("a session");
    assert_eq!(session.operation_time(), None);
    items
        .find_one(doc! {})
        .session(&mut session)
        .await
        .expect("a reply");
    assert_eq!(
        concern(b, "find", "afterClusterTime").await,
        None,
        "the first"
    );
    items
        .insert_one(doc! { "_id": 3 })
        .session(&mut session)
        .await
        .expect("a reply");
    let time = session.operation_time().expect("the reply has one");
    let find = items
        .find_one(doc! { "_id": 3 })
        .read_concern(ReadConcern::majority());
    let found = find.session(&mut session).await.expect("a reply");
    assert_eq!(found, Some(doc! { "_id": 3 }));
    assert_eq!(
        concern(b, "find", "afterClusterTime").await,
        Some(time.into())
    );
    assert_eq!(concern(b, "find", "level").await, Some("majority".into()));
    // A command that takes no read concern gets none.
    let database = b.client.database(DATABASE);
    database
        .list_collection_names()
        .session(&mut session)
        .await
        .expect("a reply");
    assert_eq!(sent(b, "listCollections", "readConcern").await, None);
    // The time of an error counts as well (Causal prose 3).
    let fails = items
        .insert_one(doc! { "_id": 3 })
        .session(&mut session)
        .await;
    fails.expect_err("a duplicate");
    let inserts = b.watch().await.of("insert");
    let reply = inserts.last().and_then(|sent| sent.reply.clone());
    let time = reply.and_then(|reply| reply.get_timestamp("operationTime").ok());
    assert!(time.is_some());
    assert_eq!(session.operation_time(), time);
    assert!(session.cluster_time().is_some());
}

async fn a_session_that_is_not_causal_sends_no_time<R: Runtime + Default>(b: &Bench<R>) {
    let items = items(b, "not_causal").await;
    let start = b.client.start_session().causal_consistency(false);
    let mut session = start.await.expect("a session");
    items
        .insert_one(doc! { "_id": 3 })
        .session(&mut session)
        .await
        .expect("a reply");
    items
        .find_one(doc! {})
        .session(&mut session)
        .await
        .expect("a reply");
    assert_eq!(sent(b, "find", "readConcern").await, None);
    assert!(
        session.operation_time().is_some(),
        "it is known nevertheless"
    );
}

async fn the_time_of_another_session_is_taken_over<R: Runtime + Default>(b: &Bench<R>) {
    let items = items(b, "taken_over").await;
    let mut first = b.client.start_session().await.expect("a session");
    items
        .insert_one(doc! { "_id": 3 })
        .session(&mut first)
        .await
        .expect("a reply");
    let time = first.operation_time().expect("the reply has one");
    let mut second = b.client.start_session().await.expect("a session");
    second.advance_operation_time(time);
    second.advance_operation_time(Timestamp {
        time: 1,
        increment: 1,
    });
    assert_eq!(second.operation_time(), Some(time), "it never goes back");
    // A session that has run a command has a cluster time, also if the client knew it before.
    let mut third = b.client.start_session().await.expect("a session");
    items
        .find_one(doc! {})
        .session(&mut third)
        .await
        .expect("a reply");
    assert!(third.cluster_time().is_some());
    second.advance_cluster_time(first.cluster_time().expect("the reply has one"));
    assert_eq!(second.cluster_time(), first.cluster_time());
    items
        .find_one(doc! {})
        .session(&mut second)
        .await
        .expect("a reply");
    assert_eq!(
        concern(b, "find", "afterClusterTime").await,
        Some(time.into())
    );
}

async fn a_snapshot_session_reads_one_point_in_time<R: Runtime + Default>(b: &Bench<R>) {
    let items = items(b, "snapshot").await;
    let mut session = b
        .client
        .start_session()
        .snapshot(true)
        .await
        .expect("a session");
    let count = |found: Vec<Document>| found.len();
    let mut cursor = items
        .find(doc! {})
        .session(&mut session)
        .await
        .expect("a cursor");
    let mut found = Vec::new();
    while let Some(document) = cursor.next(&mut session).await {
        found.push(document.expect("a document"));
    }
    assert_eq!(count(found), 2);
    assert_eq!(concern(b, "find", "level").await, Some("snapshot".into()));
    let time = session.snapshot_time().expect("the reply has one");
    items.insert_one(doc! { "_id": 3 }).await.expect("a reply");
    let values = items.distinct("_id", doc! {}).session(&mut session).await;
    assert_eq!(
        values.expect("a reply").len(),
        2,
        "the data is that of the first read"
    );
    assert_eq!(
        concern(b, "distinct", "atClusterTime").await,
        Some(time.into())
    );
    let refused = items
        .insert_one(doc! { "_id": 4 })
        .session(&mut session)
        .await;
    refused.expect_err("a write").code().expect("of the server");
    let options = SessionOptions::builder()
        .snapshot(true)
        .snapshot_time(time)
        .build();
    let mut again = b
        .client
        .start_session()
        .with_options(options)
        .await
        .expect("a session");
    let values = items.distinct("_id", doc! {}).session(&mut again).await;
    assert_eq!(values.expect("a reply").len(), 2);
}

async fn a_cursor_stays_in_its_session<R: Runtime + Default>(b: &Bench<R>) {
    let items = b.empty::<Document>("cursor_in_session").await;
    let all = (0..5).map(|id| doc! { "_id": id });
    items.insert_many(all).await.expect("they are new");
    let mut session = b.client.start_session().await.expect("a session");
    let mut other = b.client.start_session().await.expect("a session");
    // The first sessions of two clients have the same number within their client.
    let elsewhere = Bench::<R>::new("mongodb://127.0.0.1:1");
    let mut foreign = elsewhere
        .client
        .start_session()
        .await
        .expect("nothing is sent");
    let first = Bench::<R>::new(&b.uri);
    let mut own = first.client.start_session().await.expect("a session");
    let of_first = first
        .client
        .database(DATABASE)
        .collection::<Document>("cursor_in_session");
    let find = of_first.find(doc! {}).session(&mut own);
    let mut cursor = find.await.expect("a cursor");
    let refused = cursor.next(&mut foreign).await.expect("an error");
    refused.expect_err("a session of another client");
    drop((cursor, own, foreign));
    first.client.shutdown().await;
    elsewhere.client.shutdown().await;
    let find = items.find(doc! {}).batch_size(2).session(&mut session);
    let mut cursor = find.await.expect("a cursor");
    let refused = cursor.next(&mut other).await.expect("an error");
    refused.expect_err("another session");
    let mut seen = 0;
    while cursor.advance(&mut session).await.expect("a reply") {
        seen += 1;
    }
    assert_eq!(seen, 5);
    let id = Some(Bson::from(session.id().clone()));
    assert_eq!(sent(b, "getMore", "lsid").await, id);
    // The cursor did not end the session: it works, and its id is not used by others.
    items.find_one(doc! {}).await.expect("a reply");
    assert_ne!(sent(b, "find", "lsid").await, id);
    items
        .find_one(doc! {})
        .session(&mut session)
        .await
        .expect("a reply");
    assert_eq!(sent(b, "find", "lsid").await, id);
}

async fn whole_batches_stay_in_their_session<R: Runtime + Default>(b: &Bench<R>) {
    let items = b.empty::<Document>("batches_in_session").await;
    let all = (0..5).map(|id| doc! { "_id": id });
    items.insert_many(all).await.expect("they are new");
    let mut session = b.client.start_session().await.expect("a session");
    let mut other = b.client.start_session().await.expect("a session");
    let find = items.find(doc! {}).batch_size(2).session(&mut session);
    let mut batches = find.batch().await.expect("a cursor");
    let refused = batches.next(&mut other).await.expect("an error");
    refused.expect_err("another session");
    let first = batches.next(&mut session).await.expect("a batch");
    let first = first.expect("a batch");
    assert_eq!(first.doc_slices().expect("an array").into_iter().count(), 2);
    let mut rest = batches.stream(&mut session);
    let mut seen = 0;
    while let Some(batch) = rest.next().await {
        let batch = batch.expect("a batch");
        seen += batch.doc_slices().expect("an array").into_iter().count();
    }
    assert_eq!(seen, 3);
    let id = Some(Bson::from(session.id().clone()));
    assert_eq!(sent(b, "getMore", "lsid").await, id);
    let aggregate = items.aggregate([]).batch_size(2).session(&mut session);
    let batches = aggregate.batch().await.expect("a cursor");
    batches.close().await;
    assert_eq!(sent(b, "killCursors", "lsid").await, id);
}

async fn sessions_are_refused_where_they_cannot_be_used<R: Runtime + Default>(b: &Bench<R>) {
    let items = items(b, "refused").await;
    let mut session = b.client.start_session().await.expect("a session");
    let insert = items
        .insert_one(doc! { "_id": 3 })
        .write_concern(WriteConcern::nodes(0));
    let error = insert
        .session(&mut session)
        .await
        .expect_err("no acknowledgment");
    assert!(
        matches!(error.kind(), ErrorKind::InvalidArgument { .. }),
        "{error:?}"
    );
    let other = Bench::<R>::new("mongodb://127.0.0.1:1");
    let mut foreign = other.client.start_session().await.expect("nothing is sent");
    let error = items
        .find_one(doc! {})
        .session(&mut foreign)
        .await
        .expect_err("foreign");
    assert!(error.to_string().contains("another client"), "{error}");
    // Sessions prose 1.
    let both = b
        .client
        .start_session()
        .snapshot(true)
        .causal_consistency(true);
    let error = both.await.expect_err("they exclude each other");
    assert!(
        matches!(error.kind(), ErrorKind::InvalidArgument { .. }),
        "{error:?}"
    );
    drop(foreign);
    other.client.shutdown().await;
}

async fn the_id_of_an_ended_session_is_used_again<R: Runtime + Default>(b: &Bench<R>) {
    let items = items(b, "used_again").await;
    let mut session = b.client.start_session().await.expect("a session");
    items
        .find_one(doc! {})
        .session(&mut session)
        .await
        .expect("a reply");
    let id = session.id().clone();
    session.end().await.expect("ended");
    items.find_one(doc! {}).await.expect("a reply");
    assert_eq!(sent(b, "find", "lsid").await, Some(id.into()));
}

async fn a_cursor_is_closed_after_its_session_has_ended<R: Runtime + Default>(b: &Bench<R>) {
    let items = items(b, "closed_later").await;
    let mut session = b.client.start_session().await.expect("a session");
    let find = items.find(doc! {}).batch_size(1).session(&mut session);
    let cursor = find.await.expect("a cursor");
    session.end().await.expect("ended");
    b.watch().await.clear();
    cursor.close().await;
    let killed = b.watch().await.of("killCursors");
    let reply = killed.first().and_then(|sent| sent.reply.clone());
    let reply = reply.expect("it was sent and answered");
    assert_eq!(reply.get_array("cursorsKilled").expect("an array").len(), 1);
}

async fn unacknowledged_writes_use_no_session<R: Runtime + Default>(b: &Bench<R>) {
    let items = items(b, "unacknowledged").await;
    let nobody = || WriteConcern::nodes(0);
    let refused = items.find_one_and_delete(doc! { "_id": 1 });
    let refused = refused.write_concern(nobody()).await;
    refused.expect_err("it could not return the document");
    let options = CollectionOptions::builder().write_concern(nobody()).build();
    let database = b.client.database(DATABASE);
    let quiet = database.collection_with_options::<Document>(items.name(), options);
    let found = quiet.find_one_and_delete(doc! { "_id": 1 }).await;
    assert_eq!(found.expect("no reply"), None);
    assert_eq!(sent(b, "findAndModify", "lsid").await, None);
    assert_eq!(sent(b, "findAndModify", "txnNumber").await, None);
    // The reply to a command that writes no documents is read nevertheless.
    items.drop().write_concern(nobody()).await.expect("a reply");
    let dropped = b.watch().await.of("drop");
    assert!(dropped.last().expect("it was sent").reply.is_some());
}
