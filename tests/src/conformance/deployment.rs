//! Tests of clients against whole simulated deployments, which serve real sockets.

use super::{Host, builder, client, things, together, until, within};
use bson::{Bson, Document, doc};
use onionskin::{Client, Runtime};
use onionskin_core::{
    error::ErrorKind,
    event::{Event, EventKind, PoolEvent},
};
use onionskin_deployment::deployment::User;
use onionskin_serve::{Embedded, ServeOptions};
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// The number of documents in the collection that a cursor reads batch by batch.
const DOCUMENTS: i32 = 1_000;

/// The number of concurrent inserts of the failover test. Half of them start after the step-down.
const WRITES: i32 = 60;

/// A client with the right password reads documents over TLS in many batches. A client with a wrong
/// password gets an authentication error, which does not contain the password.
pub async fn an_authenticated_client_reads_over_tls_and_a_wrong_password_fails<H: Host>() {
    let mut options = ServeOptions::standalone();
    options.tls = true;
    options.users.push(User::new("user", "sesame"));
    let deployment = Embedded::start(options).expect("a deployment");
    let known = client::<H>(deployment.uri());
    let all: Vec<Document> = (0..DOCUMENTS).map(|id| doc! { "_id": id }).collect();
    let things_of_known = things(&known);
    things_of_known.insert_many(&all).await.expect("a reply");
    let by_id = doc! { "_id": 1 };
    let call = things_of_known.find(doc! {}).sort(by_id).batch_size(37);
    let cursor = call.await.expect("a reply");
    assert_eq!(cursor.into_vec().await, Ok(all));
    within::<H, _>(H::SLACK, "shutdown", known.shutdown()).await;

    let unknown = client::<H>(&deployment.uri().replace("sesame", "simsim"));
    let result = things(&unknown).find_one(doc! {}).await;
    let error = result.expect_err("the password is wrong");
    let is_authentication = matches!(error.kind(), ErrorKind::Authentication { .. });
    assert!(is_authentication, "{error:?}");
    let address = error.server().expect("the server's address").to_string();
    assert!(deployment.uri().contains(&address), "{address}");
    assert!(!format!("{error:?}").contains("simsim"));
    within::<H, _>(H::SLACK, "shutdown", unknown.shutdown()).await;
    until::<H>("the closing of all sockets", || {
        deployment
            .status()
            .is_some_and(|status| status.connections == 0)
    })
    .await;
}

/// The primary steps down between two groups of concurrent inserts. Afterwards all documents are
/// stored.
pub async fn each_write_is_stored_once_despite_a_failover<H: Host>() {
    let options = ServeOptions::replica_set("rs0", 3);
    let deployment = Embedded::start(options).expect("a deployment");
    let client = client::<H>(deployment.uri());
    things(&client)
        .insert_one(doc! { "_id": -1 })
        .await
        .expect("a primary was found");
    for half in 0..2 {
        if half == 1 {
            assert!(deployment.step_down(), "there was a primary");
        }
        let ids = (half * WRITES / 2)..((half + 1) * WRITES / 2);
        together::<H, _>(ids.map(|id| {
            let things = things(&client);
            async move {
                let result = things.insert_one(doc! { "_id": id }).await;
                result.expect("the write, perhaps at the second attempt");
            }
        }))
        .await;
    }
    let count = things(&client).count_documents(doc! {}).await;
    assert_eq!(count, Ok(u64::try_from(WRITES).unwrap_or_default() + 1));
    within::<H, _>(H::SLACK * 2, "shutdown", client.shutdown()).await;
    until::<H>("the closing of all sockets", || {
        deployment
            .status()
            .is_some_and(|status| status.connections == 0)
    })
    .await;
}

/// SDAM prose 10, "Connection Pool Backpressure", with and without TLS. The server limits the rate
/// of new connections and closes those beyond the limit, with TLS during the handshake. Check outs
/// fail, but these errors do not clear the pool (CMAP-44, CMAP-47).
pub async fn a_connection_rate_limit_of_the_server_does_not_clear_the_pool<H: Host>() {
    for tls in [false, true] {
        let mut options = ServeOptions::standalone();
        options.tls = tls;
        let deployment = Embedded::start(options).expect("a deployment");
        let counts = Arc::new([const { AtomicUsize::new(0) }; 3]);
        let counted = counts.clone();
        let listener = Arc::new(move |event: &Event| match &event.kind {
            EventKind::Pool(PoolEvent::CheckOutFailed { .. }) => {
                counted[0].fetch_add(1, Ordering::SeqCst);
            }
            EventKind::Pool(PoolEvent::Cleared { .. }) => {
                counted[1].fetch_add(1, Ordering::SeqCst);
            }
            _ => {}
        });
        let options = "maxConnecting=100&appname=crowd";
        let uri = deployment.uri();
        let mark = if uri.contains('?') { '&' } else { '?' };
        let builder = builder::<H>(&format!("{uri}{mark}{options}"));
        let client = builder.event_listener(listener).build().expect("a client");
        limit_connections(&client).await;
        together::<H, _>((0..100).map(|_| {
            let (things, counts) = (things(&client), counts.clone());
            async move {
                let result = things.find_one(doc! {}).await;
                counts[2].fetch_add(usize::from(result.is_ok()), Ordering::SeqCst);
            }
        }))
        .await;
        client.flush_events().await;
        let [failed, cleared, found] = [0, 1, 2].map(|count| counts[count].load(Ordering::SeqCst));
        assert!(failed >= 10, "TLS {tls}: {failed} checkouts failed");
        assert_eq!(cleared, 0, "TLS {tls}");
        assert!(found >= 10, "TLS {tls}: {found} finds succeeded");
        within::<H, _>(H::SLACK, "shutdown", client.shutdown()).await;
    }
}

/// Makes each find take 500 ms, and makes the server accept at most 20 new connections per second.
async fn limit_connections<R: Runtime>(client: &Client<R>) {
    let admin = client.database("admin");
    let slow = doc! {
        "failCommands": ["find"], "appName": "crowd", "blockConnection": true, "blockTimeMS": 500,
    };
    let slow = doc! { "configureFailPoint": "failCommand", "mode": "alwaysOn", "data": slow };
    admin.run_command(slow).await.expect("a reply");
    for (parameter, value) in [
        ("RatePerSec", Bson::from(20)),
        ("BurstCapacitySecs", 1.into()),
        ("MaxQueueDepth", 1.into()),
        ("RateLimiterEnabled", true.into()),
    ] {
        let name = format!("ingressConnectionEstablishment{parameter}");
        let set = doc! { "setParameter": 1, name: value };
        admin.run_command(set).await.expect("a reply");
    }
}
