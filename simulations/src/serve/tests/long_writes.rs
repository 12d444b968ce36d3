//! Long writes over sockets.

use super::{addresses, connect, send_command};
use crate::serve::{Embedded, ServeOptions};
use bson::{Document, RawDocumentBuf, doc};
use std::{
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
};

/// The least number of pings that are answered between the start and the end of a command. If the
/// command blocked the server, at most three would be.
const PINGS: usize = 10;

/// Ends the pings when the test is over, also after a panic.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn documents(count: i32) -> Vec<Document> {
    let document = |n: i32| doc! { "_id": n, "n": n % 7, "s": "x".repeat(20) };
    (0..count).map(document).collect()
}

/// Commands that a client sends one after the other. Each takes long, except for the first.
fn commands() -> Vec<Document> {
    let scan = || doc! { "q": { "s": "none" }, "u": { "$set": { "n": 1 } }, "multi": true };
    let scans: Vec<_> = (0..1000).map(|_| scan()).collect();
    let add = doc! { "$set": { "m": { "$add": ["$n", 1] } } };
    let all = doc! { "q": {}, "u": [add], "multi": true };
    let index = |n: i32| {
        let field = if n % 2 == 0 { "n" } else { "s" };
        let other = format!("f{n}");
        doc! { "key": { field: 1, other: 1 }, "name": format!("index {n}") }
    };
    let indexes: Vec<_> = (0..10).map(index).collect();
    let into = |stage: Document| doc! { "aggregate": "c", "pipeline": [stage], "cursor": {} };
    vec![
        doc! { "insert": "small", "documents": documents(1000) },
        doc! { "insert": "c", "documents": documents(20_000) },
        doc! { "update": "c", "updates": [all] },
        into(doc! { "$merge": { "into": "merged" } }),
        into(doc! { "$out": "out" }),
        doc! { "update": "small", "updates": scans },
        doc! { "createIndexes": "c", "indexes": indexes },
        doc! { "validate": "c" },
        doc! { "delete": "merged", "deletes": [{ "q": {}, "limit": 0 }] },
    ]
}

/// Sends each command. Returns its name, and the number of pings of another client until its reply.
fn run(address: &str) -> Vec<(String, usize)> {
    let (pings, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        let _over = Over(&is_over);
        scope.spawn(|| {
            let mut stream = connect(address).expect("connects");
            let ping = RawDocumentBuf::try_from(&doc! { "ping": 1, "$db": "admin" });
            let ping = ping.expect("a command");
            while !is_over.load(Ordering::Relaxed) {
                send_command(&mut stream, &ping).expect("a reply");
                pings.fetch_add(1, Ordering::Relaxed);
            }
        });
        let mut stream = connect(address).expect("connects");
        let counted = commands().into_iter().map(|mut command| {
            let name = command.keys().next().cloned().unwrap_or_default();
            command.insert("$db", "d");
            let raw = RawDocumentBuf::try_from(&command).expect("a command");
            let before = pings.load(Ordering::Relaxed);
            let reply = send_command(&mut stream, &raw).expect("a reply");
            let count = pings.load(Ordering::Relaxed) - before;
            assert_eq!(reply.get_f64("ok").ok(), Some(1.0), "{reply:?}");
            assert!(reply.get_array("writeErrors").is_err(), "{reply:?}");
            (name, count)
        });
        counted.collect()
    })
}

#[test]
fn pings_are_answered_while_another_client_writes() {
    let deployment = Embedded::start(ServeOptions::replica_set("rs0", 3)).expect("starts");
    let address = addresses(deployment.uri()).remove(0);
    for (name, pings) in run(&address).into_iter().skip(1) {
        assert!(pings >= PINGS, "{name}: {pings} pings were answered");
    }
    deployment.check_members().expect("equal data");
}
