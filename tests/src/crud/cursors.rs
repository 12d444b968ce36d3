//! Tests of cursors, whose results come in batches.

use super::Bench;
use bson::{Bson, Document, doc};
use futures_core::Stream as _;
use onionskin::{Collection, Runtime};
use std::{future::poll_fn, pin::pin};

/// The number of documents of each test, not a multiple of [`BATCH`].
const DOCUMENTS: i32 = 33;
/// The number of documents of a batch.
const BATCH: u32 = 7;

async fn filled<R: Runtime + Default>(b: &Bench<R>, case: &str) -> Collection<R, Document> {
    let items = b.empty::<Document>(case).await;
    let documents = (0..DOCUMENTS).map(|n| doc! { "_id": n });
    items.insert_many(documents).await.expect("inserts");
    b.watch().await.clear();
    items
}

fn id(document: &Document) -> i32 {
    document.get_i32("_id").expect("a number")
}

pub(super) async fn a_cursor_fetches_batch_by_batch<R: Runtime + Default>(b: &Bench<R>) {
    let items = filled(b, "batches").await;
    let query = items
        .find(doc! {})
        .sort(doc! { "_id": 1 })
        .batch_size(BATCH);
    let mut cursor = query.await.expect("finds");
    for expected in 0..DOCUMENTS {
        let document = cursor.next().await.expect("more").expect("a document");
        assert_eq!(id(&document), expected);
        let fetched = b.watch().await.of("getMore").len();
        let needed = expected as usize / BATCH as usize;
        assert_eq!(fetched, needed, "batches fetched before {expected}");
    }
    assert!(cursor.next().await.is_none());
    assert!(cursor.next().await.is_none(), "it stays over");
    assert_eq!(b.watch().await.of("find").len(), 1);
    let fetches = b.watch().await.of("getMore");
    assert_eq!(fetches.len(), 4);
    for fetch in fetches {
        assert_eq!(
            fetch.command.get("batchSize"),
            Some(&Bson::from(7)),
            "{fetch:?}"
        );
    }
    drop(cursor);
    assert_eq!(items.count_documents(doc! {}).await, Ok(33));
    assert!(
        b.watch().await.of("killCursors").is_empty(),
        "it was at its end"
    );
}

pub(super) async fn a_cursor_is_a_stream<R: Runtime + Default>(b: &Bench<R>) {
    let items = filled(b, "stream").await;
    let query = items
        .find(doc! {})
        .sort(doc! { "_id": -1 })
        .batch_size(BATCH);
    let mut cursor = pin!(query.await.expect("finds"));
    let mut ids = Vec::new();
    while let Some(document) = poll_fn(|context| cursor.as_mut().poll_next(context)).await {
        ids.push(id(&document.expect("a document")));
    }
    assert_eq!(ids, (0..DOCUMENTS).rev().collect::<Vec<_>>());
    assert_eq!(b.watch().await.of("getMore").len(), 4);
}

pub(super) async fn a_cursor_tells_whether_there_can_be_more<R>(b: &Bench<R>)
where
    R: Runtime + Default,
{
    let items = filled(b, "has_next").await;
    let query = items
        .find(doc! {})
        .sort(doc! { "_id": 1 })
        .batch_size(BATCH);
    let mut cursor = query.await.expect("finds");
    for expected in 0..DOCUMENTS {
        assert!(cursor.has_next(), "before {expected}");
        assert!(cursor.advance().await.expect("a batch"));
        let id = cursor.current().get_i32("_id");
        assert_eq!(id.expect("a number"), expected);
    }
    assert!(!cursor.has_next(), "the server has closed the cursor");
    assert!(!cursor.advance().await.expect("the end"));
    assert!(!cursor.has_next(), "it stays over");

    let nothing = items.find(doc! { "_id": -1 }).await.expect("finds");
    assert!(!nothing.has_next());
    let mut few = items.find(doc! {}).limit(2).await.expect("finds");
    for has_more in [true, false] {
        few.next().await.expect("more").expect("a document");
        assert_eq!(few.has_next(), has_more);
    }
    if b.client.options().load_balanced() {
        // Another mongos than that of the cursor could get the command below.
        return;
    }
    let query = items.find(doc! {}).batch_size(BATCH);
    let mut lost = query.await.expect("finds");
    kill_newest(b, &items).await;
    for _ in 0..BATCH {
        lost.next().await.expect("more").expect("a document");
        assert!(lost.has_next(), "the client knows nothing of the close");
    }
    let error = lost.next().await.expect("an error");
    assert_eq!(error.expect_err("it is gone").code(), Some(43));
    assert!(!lost.has_next(), "the batch could not be fetched");
}

pub(super) async fn a_cursor_over_nothing_ends_at_once<R: Runtime + Default>(b: &Bench<R>) {
    let items = filled(b, "nothing").await;
    let mut cursor = items.find(doc! { "_id": -1 }).await.expect("finds");
    assert!(cursor.next().await.is_none());
    drop(cursor);
    let all = items.find(doc! {}).limit(5).await.expect("finds");
    let all = all.into_vec().await.expect("collects");
    assert_eq!(all.len(), 5);
    assert!(b.watch().await.of("getMore").is_empty());
}

pub(super) async fn a_cursor_dropped_half_way_is_killed_on_the_server<R>(b: &Bench<R>)
where
    R: Runtime + Default,
{
    let items = filled(b, "dropped").await;
    let query = items.find(doc! {}).batch_size(BATCH);
    let mut cursor = query.await.expect("finds");
    for _ in 0..=BATCH {
        cursor.next().await.expect("more").expect("a document");
    }
    drop(cursor);
    let killed = || b.watch.of("killCursors").pop().and_then(|sent| sent.reply);
    b.until("the end of the cursor", || killed().is_some())
        .await;
    let reply = killed().expect("it was there");
    let find = b.watch().await.of("find").pop().and_then(|sent| sent.reply);
    let opened = find.expect("it succeeded");
    let opened = opened.get_document("cursor").and_then(|c| c.get_i64("id"));
    let named = reply.get_array("cursorsKilled").expect("a list");
    assert_eq!(named, &[opened.expect("an id").into()], "{reply}");
    b.until("the exchange", || b.client.counts().in_use == 0)
        .await;
}

pub(super) async fn whole_batches_are_returned_as_the_server_sends_them<R>(b: &Bench<R>)
where
    R: Runtime + Default,
{
    let items = filled(b, "raw_batches").await;
    let query = items
        .find(doc! {})
        .sort(doc! { "_id": 1 })
        .batch_size(BATCH);
    let mut batches = query.batch().await.expect("finds");
    let (mut sizes, mut ids) = (Vec::new(), Vec::new());
    while let Some(batch) = batches.next().await {
        let batch = batch.expect("a batch");
        let reply = batch.as_raw_document();
        assert!(reply.get_document("cursor").is_ok(), "{reply:?}");
        let documents = batch.doc_slices().expect("documents").into_iter();
        let documents = documents.map(|document| {
            let document = document.expect("BSON").as_document();
            document.expect("a document").get_i32("_id").expect("an id")
        });
        let before = ids.len();
        ids.extend(documents);
        sizes.push(ids.len() - before);
        let fetched = b.watch().await.of("getMore").len();
        assert_eq!(fetched, sizes.len() - 1, "one reply for each batch");
    }
    assert!(batches.next().await.is_none(), "it stays over");
    assert_eq!(sizes, [7, 7, 7, 7, 5]);
    assert_eq!(ids, (0..DOCUMENTS).collect::<Vec<_>>());

    let none = items.aggregate([doc! { "$match": { "_id": -1 } }]).batch();
    let mut none = none.await.expect("aggregates");
    let empty = none.next().await.expect("one batch").expect("a batch");
    assert!(empty.doc_slices().expect("an array").is_empty());
    assert!(none.next().await.is_none());
}

pub(super) async fn whole_batches_are_killed_and_fail_as_documents_do<R>(b: &Bench<R>)
where
    R: Runtime + Default,
{
    let items = filled(b, "raw_batches_end").await;
    let query = || items.find(doc! {}).batch_size(BATCH).batch();
    let mut closed = query().await.expect("finds");
    closed.next().await.expect("more").expect("a batch");
    closed.close().await;
    assert_eq!(b.watch().await.of("killCursors").len(), 1);
    if b.client.options().load_balanced() {
        // Another mongos than that of the cursor could get the command below.
        return;
    }
    let mut lost = query().await.expect("finds");
    lost.next().await.expect("more").expect("a batch");
    kill_newest(b, &items).await;
    let error = lost.next().await.expect("an error");
    assert_eq!(error.expect_err("it is gone").code(), Some(43));
    assert!(lost.next().await.is_none());
}

/// Closes the cursor of the last `find` on the server, so that its next batch cannot be fetched.
async fn kill_newest<R: Runtime + Default>(b: &Bench<R>, items: &Collection<R, Document>) {
    let find = b.watch().await.of("find").pop().and_then(|sent| sent.reply);
    let find = find.expect("it succeeded");
    let cursor = find.get_document("cursor").expect("a cursor");
    let kill = doc! { "killCursors": items.name(), "cursors": [cursor.get_i64("id").expect("id")] };
    let database = b.client.database(&items.namespace().db);
    database.run_command(kill).await.expect("a reply");
}

pub(super) async fn two_cursors_take_turns<R: Runtime + Default>(b: &Bench<R>) {
    let items = filled(b, "turns").await;
    let query = |order| {
        items
            .find(doc! {})
            .sort(doc! { "_id": order })
            .batch_size(2)
    };
    let mut up = query(1).await.expect("finds");
    let mut down = query(-1).await.expect("finds");
    for expected in 0..DOCUMENTS {
        let rising = up.next().await.expect("more").expect("a document");
        let falling = down.next().await.expect("more").expect("a document");
        assert_eq!(id(&rising), expected);
        assert_eq!(id(&falling), DOCUMENTS - 1 - expected);
    }
    assert!(up.next().await.is_none());
    assert!(down.next().await.is_none());
}
