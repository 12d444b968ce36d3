//! Long queries over sockets.

use super::{addresses, connect, send_command, until};
use crate::{Embedded, ServeOptions};
use bson::{RawDocumentBuf, rawdoc};
use std::thread;

/// The number of pings that are answered beside eight long queries. If these blocked the server,
/// few more than eight would be.
const PINGS: usize = 100;

#[test]
fn pings_are_answered_while_other_clients_run_long_queries() {
    let deployment = Embedded::start(ServeOptions::standalone()).expect("starts");
    let address = addresses(deployment.uri()).remove(0);
    let mut stream = connect(&address).expect("connects");
    let text = "a".repeat(5000);
    let documents: bson::RawArrayBuf = (0..20)
        .map(|n| rawdoc! { "_id": n, "t": text.clone() })
        .collect();
    let insert = rawdoc! { "insert": "c", "documents": documents, "$db": "d" };
    send_command(&mut stream, &insert).expect("a reply");
    let clients: Vec<_> = (0..4)
        .map(|_| {
            let address = address.clone();
            thread::spawn(move || {
                let mut stream = connect(&address).expect("connects");
                let filter = rawdoc! { "t": { "$regex": "(a{1,100}){1,100}b" } };
                let inner = rawdoc! { "$sum": { "$range": [0, 5000] } };
                let pipeline = rawdoc! {
                    "aggregate": "c", "cursor": {}, "$db": "d",
                    "pipeline": [{ "$match": { "$expr": { "$lt": [{
                        "$sum": { "$map": { "input": { "$range": [0, 2000] }, "in": inner } }
                    }, 0] } } }],
                };
                send_command(
                    &mut stream,
                    &rawdoc! { "find": "c", "filter": filter, "$db": "d" },
                );
                send_command(&mut stream, &pipeline).expect("a reply")
            })
        })
        .collect();
    let mut pings = 0;
    while !clients.iter().all(thread::JoinHandle::is_finished) {
        send_command(&mut stream, &rawdoc! { "ping": 1, "$db": "admin" }).expect("a reply");
        pings += 1;
    }
    assert!(pings >= PINGS, "{pings} pings were answered");
    for client in clients {
        client.join().expect("no panic");
    }
}

/// The number of long queries of one client: more than run at the same time.
const LONG: usize = 12;

/// A query that takes at least this number of steps.
fn counting(steps: i32) -> RawDocumentBuf {
    let inner = rawdoc! { "$sum": { "$range": [0, 1000] } };
    let count = steps / 1000;
    let outer = rawdoc! { "$range": [0, count] };
    let sum = rawdoc! { "$sum": { "$map": { "input": outer, "in": inner } } };
    rawdoc! {
        "aggregate": "c", "cursor": {}, "$db": "d",
        "pipeline": [{ "$match": { "$expr": { "$gte": [sum, 0] } } }],
    }
}

#[test]
fn a_short_query_does_not_wait_for_the_ends_of_long_ones() {
    let deployment = Embedded::start(ServeOptions::standalone()).expect("starts");
    let address = addresses(deployment.uri()).remove(0);
    let mut stream = connect(&address).expect("connects");
    let insert = rawdoc! { "insert": "c", "documents": [{ "_id": 1 }], "$db": "d" };
    send_command(&mut stream, &insert).expect("a reply");
    let clients: Vec<_> = (0..LONG)
        .map(|_| {
            let mut stream = connect(&address).expect("connects");
            thread::spawn(move || send_command(&mut stream, &counting(40_000_000)))
        })
        .collect();
    let current = rawdoc! { "currentOp": 1, "command.aggregate": "c", "$db": "admin" };
    until("the long queries", || {
        let reply = send_command(&mut stream, &current).expect("a reply");
        let running = reply.get_array("inprog").expect("operations");
        running.into_iter().count() == LONG
    });
    let reply = send_command(&mut stream, &counting(30_000)).expect("a reply");
    assert_eq!(reply.get_f64("ok").ok(), Some(1.0), "{reply:?}");
    let ended = clients.iter().filter(|client| client.is_finished()).count();
    assert_eq!(ended, 0, "long queries have ended before");
    drop(deployment);
    for client in clients {
        client.join().expect("no panic");
    }
}
