//! Long writes over sockets.

use super::{addresses, connect, send_command};
use crate::{Embedded, ServeOptions};
use bson::{Binary, Document, RawDocumentBuf, doc, rawdoc, spec::BinarySubtype};
use onionskin_core::unstable::wire::{Flags, FrameDecoder, Message, MessageWriter};
use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
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

/// Calls a function while another client sends pings. The function gets their number so far.
fn beside_pings<T>(address: &str, run: impl FnOnce(&AtomicUsize) -> T) -> T {
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
        run(&pings)
    })
}

/// Sends each command. Returns its name, and the number of pings of another client until its reply.
fn run(address: &str) -> Vec<(String, usize)> {
    beside_pings(address, |pings| {
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

#[test]
fn pings_are_answered_while_another_client_commits_many_documents() {
    let deployment = Embedded::start(ServeOptions::replica_set("rs0", 3)).expect("starts");
    let address = addresses(deployment.uri()).remove(0);
    let mut stream = connect(&address).expect("connects");
    let mut send = |mut command: Document, database: &str| {
        let id = Binary {
            subtype: BinarySubtype::Uuid,
            bytes: vec![7; 16],
        };
        command.extend(doc! { "lsid": { "id": id }, "txnNumber": 1_i64, "autocommit": false });
        command.insert("$db", database);
        let raw = RawDocumentBuf::try_from(&command).expect("a command");
        let reply = send_command(&mut stream, &raw).expect("a reply");
        assert_eq!(reply.get_f64("ok").ok(), Some(1.0), "{reply:?}");
        assert!(reply.get_array("writeErrors").is_err(), "{reply:?}");
    };
    let insert = |to: &str| doc! { "insert": to, "documents": documents(20_000) };
    let mut first = insert("c");
    first.insert("startTransaction", true);
    send(first, "d");
    send(insert("other"), "d");
    let pings = beside_pings(&address, |pings| {
        let before = pings.load(Ordering::Relaxed);
        let concern = doc! { "w": 3 };
        send(
            doc! { "commitTransaction": 1, "writeConcern": concern },
            "admin",
        );
        pings.load(Ordering::Relaxed) - before
    });
    assert!(pings >= PINGS, "{pings} pings were answered");
    let mut stream = connect(&address).expect("connects");
    let count = rawdoc! { "count": "other", "$db": "d" };
    let reply = send_command(&mut stream, &count).expect("a reply");
    assert_eq!(reply.get_i32("n").ok(), Some(20_000), "{reply:?}");
    deployment.check_members().expect("equal data");
}

/// The number of documents of a large message, which has 10 MB.
const DOCUMENTS: i32 = 40_000;

/// The least number of pings that are answered while a large message is decoded. If it were decoded
/// while the other clients wait, few would be: one for each MiB that the server has still to read,
/// of which the system buffers some.
const PINGS_BESIDE_DECODING: usize = 30;

/// Returns the message of an insert with a document sequence. The command has this further field.
fn large_message(field: &str) -> Vec<u8> {
    let document = |n: i32| doc! { "_id": n, "a": n, "b": [n, n], "s": "x".repeat(200) };
    insert_message(field, Flags::default(), (0..DOCUMENTS).map(document))
}

fn insert_message(field: &str, flags: Flags, documents: impl Iterator<Item = Document>) -> Vec<u8> {
    let documents = documents.map(|document| document.to_vec().expect("valid"));
    let documents: Vec<u8> = documents.flatten().collect();
    let mut body = doc! { "insert": "large", "$db": "d" };
    body.insert(field, true);
    let body = RawDocumentBuf::try_from(&body).expect("a command");
    let mut bytes = Vec::new();
    MessageWriter::begin(&mut bytes, 1, 0)
        .flags(flags)
        .body(&body)
        .sequence("documents", &documents)
        .end();
    bytes
}

/// Reads one reply.
fn reply(stream: &mut TcpStream) -> Document {
    let mut decoder = FrameDecoder::new();
    loop {
        if let Some((_, frame)) = decoder.frame().expect("a frame") {
            let message = Message::decode(frame).expect("a message");
            return Document::try_from(message.body).expect("a document");
        }
        let count = stream.read(decoder.spare().expect("room")).expect("read");
        assert!(count > 0, "the connection is open");
        decoder.filled(count);
    }
}

#[test]
fn pings_are_answered_while_the_large_message_of_another_client_is_decoded() {
    for options in [
        ServeOptions::replica_set("rs0", 3),
        ServeOptions::sharded(1),
    ] {
        answers_pings_while_it_decodes(options);
    }
}

fn answers_pings_while_it_decodes(options: ServeOptions) {
    let deployment = Embedded::start(options).expect("starts");
    let address = addresses(deployment.uri()).remove(0);
    // An insert of a wrong form ends when its message is decoded and its form was checked.
    for (field, code, n) in [
        ("unknown", Some(40415), None),
        ("ordered", None, Some(DOCUMENTS)),
    ] {
        let message = large_message(field);
        let (reply, pings) = beside_pings(&address, |pings| {
            let mut stream = connect(&address).expect("connects");
            stream.write_all(&message).expect("written");
            let before = pings.load(Ordering::Relaxed);
            let reply = reply(&mut stream);
            (reply, pings.load(Ordering::Relaxed) - before)
        });
        assert_eq!(reply.get_i32("code").ok(), code, "{reply}");
        assert_eq!(reply.get_i32("n").ok(), n, "{reply}");
        assert!(
            pings >= PINGS_BESIDE_DECODING,
            "{pings} pings were answered"
        );
    }
    deployment.check_members().expect("equal data");
}

#[test]
fn a_client_that_sends_messages_faster_than_they_are_decoded_has_to_wait() {
    let deployment = Embedded::start(ServeOptions::standalone()).expect("starts");
    let address = addresses(deployment.uri()).remove(0);
    // Each message has 39 MB. It has no reply, and is refused when it is decoded.
    let document = |n: i32| doc! { "_id": n, "s": "x".repeat(400) };
    let documents = (0..90_000).map(document);
    let message = insert_message("unknown", Flags::MORE_TO_COME, documents);
    let pings = beside_pings(&address, |pings| {
        let mut stream = connect(&address).expect("connects");
        let before = pings.load(Ordering::Relaxed);
        for _ in 0..3 {
            stream.write_all(&message).expect("the connection is open");
        }
        let ping = bson::rawdoc! { "ping": 1, "$db": "admin" };
        let reply = send_command(&mut stream, &ping).expect("the connection is open");
        assert_eq!(reply.get_f64("ok").ok(), Some(1.0), "{reply:?}");
        pings.load(Ordering::Relaxed) - before
    });
    assert!(pings >= PINGS, "{pings} pings were answered");
}
