//! Tests of deployments that are used for one test after the other.

use super::{addresses, connect, send_command};
use crate::{Embedded, ServeOptions};
use bson::{Document, RawDocumentBuf, doc, rawdoc};
use std::{net::TcpStream, time::Duration};

fn count(stream: &mut TcpStream) -> i32 {
    let command = rawdoc! {
        "count": "people", "$db": "app", "$readPreference": { "mode": "secondaryPreferred" },
    };
    let reply = send_command(stream, &command).expect("a reply");
    reply.get_i32("n").expect("a number")
}

fn run(stream: &mut TcpStream, command: Document) -> RawDocumentBuf {
    let command = RawDocumentBuf::try_from(&command).expect("it is BSON");
    send_command(stream, &command).expect("a reply")
}

fn people(count: i32) -> Vec<Document> {
    (0..count).map(|id| doc! { "_id": id }).collect()
}

fn shapes() -> [ServeOptions; 4] {
    [
        ServeOptions::standalone(),
        ServeOptions::replica_set("rs0", 3),
        ServeOptions::sharded(2),
        ServeOptions::load_balanced(2),
    ]
}

#[test]
fn inserted_documents_are_on_all_members_until_a_reset() {
    for (options, is_balanced) in shapes().into_iter().zip([false, false, false, true]) {
        let deployment = Embedded::start(options).expect("starts");
        let hosts = addresses(deployment.uri());
        let mut streams: Vec<TcpStream> = hosts
            .iter()
            .map(|host| connect(host.trim_end_matches('/')).expect("connects"))
            .collect();
        if is_balanced {
            let hello = doc! { "hello": 1, "loadBalanced": true, "$db": "admin" };
            assert!(
                run(&mut streams[0], hello)
                    .get_object_id("serviceId")
                    .is_ok()
            );
        }
        deployment
            .insert("app", "people", people(3))
            .expect("inserted");
        for stream in &mut streams {
            assert_eq!(count(stream), 3, "{hosts:?}");
        }
        deployment.reset().expect("there is a primary");
        for stream in &mut streams {
            assert_eq!(count(stream), 0, "the connection stays: {hosts:?}");
        }
        deployment
            .insert("app", "people", people(2))
            .expect("inserted");
        assert_eq!(count(&mut streams[0]), 2);
        deployment.check_members().expect("equal members");
    }
}

#[test]
fn a_reset_ends_what_a_test_left_behind() {
    let mut options = ServeOptions::replica_set("rs0", 3);
    options.election_timeout = Duration::from_millis(200);
    options.heartbeat_interval = Duration::from_millis(50);
    let deployment = Embedded::start(options).expect("starts");
    let members = addresses(deployment.uri());
    let mut stream = connect(&members[0]).expect("connects");
    let user = doc! { "createUser": "u", "pwd": "p", "roles": [], "$db": "app" };
    let left = [
        user.clone(),
        doc! { "setParameter": 1, "transactionLifetimeLimitSeconds": 7, "$db": "admin" },
        doc! {
            "insert": "people", "documents": [{ "_id": 1 }], "startTransaction": true,
            "autocommit": false, "txnNumber": 1_i64, "$db": "app",
            "lsid": { "id": bson::Uuid::from_bytes([1; 16]) },
        },
        doc! {
            "configureFailPoint": "failCommand", "mode": "alwaysOn", "$db": "admin",
            "data": { "failCommands": ["ping"], "errorCode": 2 },
        },
    ];
    deployment
        .insert("app", "people", people(9))
        .expect("inserted");
    let find = doc! { "find": "people", "batchSize": 2, "$db": "app" };
    let cursor = run(&mut stream, find);
    let cursor = cursor.get_document("cursor").expect("a cursor");
    let cursor = cursor.get_i64("id").expect("its id");
    for command in left {
        let name = command.keys().next().cloned();
        assert_eq!(
            run(&mut stream, command).get_f64("ok").ok(),
            Some(1.0),
            "{name:?}"
        );
    }
    let ping = doc! { "ping": 1, "$db": "admin" };
    assert_eq!(run(&mut stream, ping.clone()).get_f64("ok").ok(), Some(0.0));
    deployment.kill(1);
    deployment.partition(&[0]);

    deployment.reset().expect("there is a primary");
    assert!(connect(&members[1]).is_some(), "member 1 runs");
    let primary = deployment.status().and_then(|status| status.primary);
    let mut stream = connect(&members[primary.expect("a primary")]).expect("connects");
    for (command, ok) in [
        (ping, 1.0),
        (user, 1.0),
        (
            doc! { "getMore": cursor, "collection": "people", "$db": "app" },
            0.0,
        ),
        (doc! { "create": "people", "$db": "app" }, 1.0),
    ] {
        let name = command.keys().next().cloned();
        let reply = run(&mut stream, command);
        assert_eq!(reply.get_f64("ok").ok(), Some(ok), "{name:?}: {reply:?}");
    }
    let get = doc! { "getParameter": 1, "transactionLifetimeLimitSeconds": 1, "$db": "admin" };
    let seconds = run(&mut stream, get);
    assert_eq!(
        seconds.get_i32("transactionLifetimeLimitSeconds").ok(),
        Some(60)
    );
    deployment.check_members().expect("equal members");
}

#[test]
fn documents_that_cannot_be_inserted_change_nothing() {
    let deployment = Embedded::start(ServeOptions::standalone()).expect("starts");
    let mut documents = people(2);
    documents.push(doc! { "_id": 1 });
    let twice = deployment.insert("app", "people", documents);
    assert!(twice.is_err_and(|why| why.contains("E11000")));
    let names = [
        ("app", "a$b"),
        ("a.b", "people"),
        ("", "people"),
        ("app", ""),
    ];
    for (database, collection) in names {
        let named = deployment.insert(database, collection, people(1));
        assert!(named.is_err(), "{database:?} {collection:?}");
    }
    let large = vec![doc! { "a": "x".repeat(17 * 1024 * 1024) }];
    let too_large = deployment.insert("app", "people", large);
    assert!(too_large.is_err_and(|why| why.contains("too large")));
    let mut stream =
        connect(addresses(deployment.uri())[0].trim_end_matches('/')).expect("connects");
    assert_eq!(count(&mut stream), 0);
}

#[test]
fn each_test_can_end_with_a_step_down() {
    let mut options = ServeOptions::replica_set("rs0", 3);
    options.election_timeout = Duration::from_millis(500);
    options.heartbeat_interval = Duration::from_millis(50);
    let deployment = Embedded::start(options).expect("starts");
    let start = std::time::Instant::now();
    for _ in 0..4 {
        deployment.reset().expect("there is a primary");
        assert!(deployment.step_down());
    }
    // A member that has stepped down otherwise starts no election for a minute.
    assert!(start.elapsed() < Duration::from_secs(50));
}
