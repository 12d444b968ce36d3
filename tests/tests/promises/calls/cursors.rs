//! Options of the batches of a cursor, which are sent with `getMore`.

use super::is;
use crate::wire::{Sent, on_tokio};
use bson::{Document, doc};
use onionskin_serve::{Embedded, ServeOptions};
use onionskin_tokio::{TokioRuntime, options::CursorType};
use std::time::Duration;

#[test]
fn options_of_a_cursor_command_are_sent_with_each_batch() {
    // The options of `run_cursor_command` are those of `getMore` (RUN-33). A comment of `find` is
    // repeated in each `getMore`.
    on_tokio(async {
        let deployment = Embedded::start(ServeOptions::sharded(1)).expect("a deployment");
        let sent = Sent::new(TokioRuntime::default(), deployment.uri(), "appName=calls");
        let client = sent.client.clone();
        let database = client.database("promises");
        let numbers = database.collection::<Document>("numbers");
        let all = (0..5).map(|n| doc! { "_id": n });
        numbers.insert_many(all).await.expect("a reply");
        let command = || database.run_cursor_command(doc! { "find": "numbers", "batchSize": 2 });
        let cursor = command().batch_size(3).comment("why").await;
        let found = cursor.expect("a cursor").into_vec().await;
        assert_eq!(found.expect("documents").len(), 5);
        assert_eq!(sent.path("getMore", "batchSize").await, is(3));
        assert_eq!(sent.path("getMore", "comment").await, is("why"));
        let cursor = command().max_time(Duration::from_millis(9)).await;
        let found = cursor.expect("a cursor").into_vec().await;
        found.expect_err("the cursor does not wait");
        assert_eq!(sent.path("getMore", "maxTimeMS").await, is(9));
        let find = numbers.find(doc! {}).batch_size(2).comment(5).await;
        find.expect("a cursor").into_vec().await.expect("documents");
        assert_eq!(sent.path("getMore", "comment").await, is(5));
        let no_cursor = database.run_cursor_command(doc! { "ping": 1 }).await;
        no_cursor.expect_err("it has no cursor");
        client.shutdown().await;
    });
}

#[test]
fn a_tailable_cursor_waits_for_its_own_time() {
    // `maxAwaitTimeMS` is sent as the `maxTimeMS` of each `getMore`.
    on_tokio(async {
        let deployment = Embedded::start(ServeOptions::sharded(1)).expect("a deployment");
        let sent = Sent::new(TokioRuntime::default(), deployment.uri(), "appName=calls");
        let client = sent.client.clone();
        let database = client.database("promises");
        let create = database.create_collection("log").capped(true).size(4096);
        create.await.expect("a reply");
        let log = database.collection::<Document>("log");
        log.insert_one(doc! { "a": 1 }).await.expect("a reply");
        let find = log.find(doc! {}).cursor_type(CursorType::TailableAwait);
        let wait = Duration::from_millis(7);
        let mut cursor = find.max_await_time(wait).await.expect("a cursor");
        let first = cursor.next().await.expect("a document");
        first.expect("a document");
        let next = tokio::time::timeout(Duration::from_secs(1), cursor.next());
        assert!(next.await.is_err(), "there is one document");
        assert_eq!(sent.path("getMore", "maxTimeMS").await, is(7));
        drop(cursor);
        // The server accepts the time for change streams only.
        let aggregate = log.aggregate([]).batch_size(0);
        let aggregate = aggregate.max_await_time(Duration::from_millis(8));
        let mut cursor = aggregate.await.expect("a cursor");
        cursor
            .next()
            .await
            .expect("an error")
            .expect_err("it cannot wait");
        assert_eq!(sent.path("getMore", "maxTimeMS").await, is(8));
        client.shutdown().await;
    });
}

#[test]
fn raw_data_is_not_sent_to_servers_before_8_2() {
    on_tokio(async {
        let deployment = Embedded::start(ServeOptions::sharded(1)).expect("a deployment");
        let sent = Sent::new(TokioRuntime::default(), deployment.uri(), "appName=calls");
        let client = sent.client.clone();
        let things = client.database("promises").collection::<Document>("things");
        let found = things.find_one(doc! {}).raw_data(true).await;
        found.expect("an older server refuses the field");
        assert_eq!(sent.field("find", "rawData").await, None);
        client.shutdown().await;
    });
}

#[test]
fn a_cursor_goes_on_after_a_batch_without_documents() {
    on_tokio(async {
        let deployment = Embedded::start(ServeOptions::standalone()).expect("a deployment");
        let sent = Sent::new(TokioRuntime::default(), deployment.uri(), "appName=calls");
        let client = sent.client.clone();
        let database = client.database("promises");
        let create = database.create_collection("news").capped(true).size(4096);
        create.await.expect("a reply");
        let news = database.collection::<Document>("news");
        news.insert_one(doc! { "_id": 1 }).await.expect("a reply");
        let find = news.find(doc! {}).cursor_type(CursorType::Tailable);
        let mut cursor = find.await.expect("a cursor");
        let first = cursor.next_if_any().await.expect("a batch");
        assert_eq!(first, Some(doc! { "_id": 1 }));
        assert_eq!(cursor.next_if_any().await.expect("a batch"), None);
        let insert = async {
            tokio::time::sleep(Duration::from_millis(20)).await;
            news.insert_one(doc! { "_id": 2 }).await.expect("a reply");
        };
        let (advanced, ()) = tokio::join!(cursor.advance(), insert);
        assert!(advanced.expect("a batch"), "a tailable cursor has no end");
        client.shutdown().await;
    });
}
