//! Tests of `run_command`, and of errors, time limits and dropped operations.

use super::Bench;
use bson::{Bson, Document, doc};
use onionskin::{
    Runtime,
    error::{ErrorKind, Responsible},
};
use std::{
    future::{Future as _, IntoFuture as _, poll_fn},
    pin::Pin,
    task::Poll,
    time::Duration,
};

/// The server's code for a command that it does not know.
const COMMAND_NOT_FOUND: i32 = 59;

pub(super) async fn commands_run_as_they_are<R: Runtime + Default>(b: &Bench<R>) {
    let admin = b.client.database("admin");
    for name in ["ping", "hello", "buildInfo"] {
        let reply = admin.run_command(doc! { name: 1 }).await;
        let reply = reply.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(reply.get("ok"), Some(&Bson::from(1.0)), "{name}: {reply}");
        let known = match name {
            "hello" => reply.contains_key("maxWireVersion"),
            "buildInfo" => reply.contains_key("version"),
            _ => true,
        };
        assert!(known, "{name}: {reply}");
    }
}

pub(super) async fn an_unknown_command_is_the_servers_error<R: Runtime + Default>(b: &Bench<R>) {
    let admin = b.client.database("admin");
    let error = admin
        .run_command(doc! { "onionskinNoSuchCommand": 1 })
        .await;
    let error = error.expect_err("nobody knows it");
    let ErrorKind::Command(fault) = error.kind() else {
        panic!("{error:?} is not the server's");
    };
    assert_eq!(fault.code, COMMAND_NOT_FOUND);
    assert_eq!(fault.code_name, "CommandNotFound");
    assert_eq!(error.kind().responsible(), Responsible::Peer);
    let server = error.server().expect("the server that said so");
    assert!(b.client.topology().servers.contains_key(server), "{error}");
    assert!(error.to_string().contains(&server.to_string()), "{error}");
    assert!(admin.run_command(doc! { "ping": 1 }).await.is_ok());
}

pub(super) async fn a_deadline_that_has_passed_is_a_timeout<R: Runtime + Default>(b: &Bench<R>) {
    let items = b.empty::<Document>("deadline").await;
    let hasty = Duration::from_nanos(1);
    let errors = [
        items.find_one(doc! {}).timeout(hasty).await.err(),
        items
            .insert_one(doc! { "_id": 1 })
            .timeout(hasty)
            .await
            .err(),
        items.count_documents(doc! {}).timeout(hasty).await.err(),
        items.find(doc! {}).timeout(hasty).await.err(),
    ];
    for error in errors {
        let error = error.expect("no time is left");
        assert!(error.is_timeout(), "{error:?}");
    }
    let ample = Duration::from_secs(20);
    let insert = items.insert_one(doc! { "_id": 2 }).timeout(ample);
    insert.await.expect("there is time");
    let mut cursor = items
        .find(doc! { "_id": 2 })
        .timeout(ample)
        .await
        .expect("finds");
    assert!(matches!(cursor.next().await, Some(Ok(_))));
}

pub(super) async fn a_dropped_operation_disturbs_no_other<R: Runtime + Default>(b: &Bench<R>) {
    let items = b.empty::<Document>("left").await;
    for id in 0..20 {
        items.insert_one(doc! { "_id": id }).await.expect("inserts");
        // The operation is dropped after one poll, before or after its request was sent. The next
        // operation must not get the reply to that request.
        let mut left = items.find_one(doc! { "_id": -1 }).into_future();
        poll_fn(|context| {
            drop(Pin::new(&mut left).poll(context));
            Poll::Ready(())
        })
        .await;
        drop(left);
        let other = items.find_one(doc! { "_id": id }).await;
        assert_eq!(other, Ok(Some(doc! { "_id": id })));
    }
    b.until("the exchanges", || b.client.counts().in_use == 0)
        .await;
}
