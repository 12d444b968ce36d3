//! Tests of the client on real sockets: an operation that is polled late, a panic while a reply is
//! decoded, a client that is dropped before its cursor and its operation, and a cursor that is
//! dropped outside of the runtime.

use onionskin_serve::{Embedded, ServeOptions};
use onionskin_tokio::{
    Client, Cursor, TokioRuntime,
    bson::{Document, doc},
};
use serde::{Deserialize, Deserializer};
use std::{
    future::{Future, IntoFuture, poll_fn},
    pin::Pin,
    task::Poll,
    time::Duration,
};

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime")
}

/// Returns a client of `server` with `maxPoolSize=1` and one connection, which is ready.
async fn client_with_idle_connection(server: &Embedded) -> Client {
    let uri = server.uri();
    let uri = if uri.contains('?') {
        format!("{uri}&maxPoolSize=1")
    } else {
        format!("{}/?maxPoolSize=1", uri.trim_end_matches('/'))
    };
    let client = Client::builder_from_uri(TokioRuntime::default(), &uri)
        .and_then(onionskin_tokio::ClientBuilder::build)
        .expect("a client");
    let ping = client.database("db");
    ping.run_command(doc! { "ping": 1 })
        .await
        .expect("an answer");
    client
}

async fn open_cursor(client: &Client, name: &str) -> Cursor<Document> {
    let collection = client.database("db").collection::<Document>(name);
    let documents: Vec<Document> = (0..10).map(|n| doc! { "n": n }).collect();
    collection.insert_many(&documents).await.expect("inserted");
    collection
        .find(doc! {})
        .batch_size(2)
        .await
        .expect("a cursor")
}

#[test]
fn an_expired_time_limit_does_not_interrupt_the_next_operation() {
    let server = Embedded::start(ServeOptions::standalone()).expect("a server");
    runtime().block_on(async {
        let client = client_with_idle_connection(&server).await;
        let database = client.database("db");
        let limit = Duration::from_millis(500);
        let mut slow = database
            .run_command(doc! { "ping": 1 })
            .timeout(limit)
            .into_future();
        // The request is sent. The task is then not polled until the limit has passed, while the
        // reply waits in the socket.
        let first = poll_fn(|context| Poll::Ready(Pin::new(&mut slow).poll(context))).await;
        assert!(first.is_pending());
        tokio::time::sleep(limit + limit / 2).await;
        slow.await.expect("the reply is there");
        let next = database.run_command(doc! { "ping": 1 }).await;
        assert!(next.is_ok(), "{next:?}");
        client.shutdown().await;
    });
}

struct Unreadable;

impl<'de> Deserialize<'de> for Unreadable {
    fn deserialize<D: Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
        panic!("as a caller's own code may")
    }
}

#[test]
fn after_a_panic_while_a_reply_is_decoded_the_connection_is_checked_in() {
    let server = Embedded::start(ServeOptions::standalone()).expect("a server");
    runtime().block_on(async {
        let client = client_with_idle_connection(&server).await;
        let collection = client.database("db").collection::<Document>("panics");
        collection
            .insert_one(doc! { "a": 1 })
            .await
            .expect("inserted");
        let unreadable = collection.clone_with_type::<Unreadable>();
        let task = tokio::spawn(async move { unreadable.find_one(doc! {}).await.map(|_| ()) });
        assert!(task.await.is_err_and(|error| error.is_panic()));
        assert_eq!(client.counts().in_use, 0);
        let found = collection
            .find_one(doc! {})
            .timeout(Duration::from_secs(5))
            .await;
        assert!(found.expect("an answer").is_some());
        client.shutdown().await;
    });
}

#[test]
fn cursors_and_operations_keep_their_client_open() {
    let server = Embedded::start(ServeOptions::standalone()).expect("a server");
    runtime().block_on(async {
        let client = client_with_idle_connection(&server).await;
        let cursor = open_cursor(&client, "outlives").await;
        let database = client.database("db");
        let ping = database.run_command(doc! { "ping": 1 }).into_future();
        drop((database, client));
        ping.await.expect("an answer");
        let documents = cursor.into_vec().await.expect("all batches");
        assert_eq!(documents.len(), 10);
    });
}

#[test]
fn a_cursor_may_be_dropped_outside_of_the_runtime() {
    let server = Embedded::start(ServeOptions::standalone()).expect("a server");
    let runtime = runtime();
    let (client, cursor) = runtime.block_on(async {
        let client = client_with_idle_connection(&server).await;
        let cursor = open_cursor(&client, "dropped").await;
        (client, cursor)
    });
    drop(cursor);
    runtime.block_on(client.shutdown());
}
