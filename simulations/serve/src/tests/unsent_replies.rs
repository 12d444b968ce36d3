//! Tests of clients that request more than they read.

use super::{addresses, connect, send_command};
use crate::{Embedded, ServeOptions};
use bson::rawdoc;
use onionskin_core::unstable::wire::{FrameDecoder, MessageWriter};
use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
};

/// The size of the requested document, in bytes.
const DOCUMENT_BYTES: usize = 1_000_000;

/// The number of requests that are sent before a reply is read.
const REQUESTS: i32 = 200;

/// Starts a standalone with one large document. Returns the deployment and its address.
fn served() -> (Embedded, String) {
    let deployment = Embedded::start(ServeOptions::standalone()).expect("starts");
    let address = addresses(deployment.uri()).remove(0);
    let mut stream = connect(&address).expect("a connection");
    let document = rawdoc! { "text": "x".repeat(DOCUMENT_BYTES) };
    let insert = rawdoc! { "insert": "c", "documents": [document], "$db": "d" };
    let reply = send_command(&mut stream, &insert).expect("a reply");
    assert_eq!(reply.get_i32("n").ok(), Some(1));
    (deployment, address)
}

fn send_finds(stream: &mut TcpStream) {
    let find = rawdoc! { "find": "c", "$db": "d" };
    let mut bytes = Vec::new();
    for id in 1..=REQUESTS {
        MessageWriter::begin(&mut bytes, id, 0).body(&find).end();
    }
    stream.write_all(&bytes).expect("written");
}

#[test]
fn unsent_replies_to_a_client_that_does_not_read_are_bounded() {
    let (deployment, address) = served();
    let mut greedy = connect(&address).expect("a connection");
    send_finds(&mut greedy);
    let mut other = connect(&address).expect("a connection");
    for _ in 0..100 {
        send_command(&mut other, &rawdoc! { "ping": 1, "$db": "admin" }).expect("a reply");
    }
    let mut decoder = FrameDecoder::new();
    let mut answered = 0;
    while answered < REQUESTS {
        if let Some((header, _)) = decoder.frame().expect("a frame") {
            answered += 1;
            assert_eq!(header.response_to, answered, "in order");
            decoder.consume(header.length);
            continue;
        }
        let count = greedy.read(decoder.spare().expect("room")).expect("read");
        assert!(count > 0, "all requests are answered, not {answered}");
        decoder.filled(count);
    }
    let status = deployment.status().expect("it runs");
    let most = status.most_unsent_bytes;
    // A request is still handled when 1 MiB is unsent, and its reply is added.
    assert!(most <= DOCUMENT_BYTES + 1024 * 1024 + 1000, "{most}");
    assert!(most > 0, "the socket did not take them all at once");
    assert_eq!(status.unsent_bytes, 0);
}

#[test]
fn unsent_replies_are_dropped_when_the_client_disconnects() {
    let (deployment, address) = served();
    let mut greedy = connect(&address).expect("a connection");
    send_finds(&mut greedy);
    let waits = || deployment.status().is_some_and(|s| s.unsent_bytes > 0);
    super::until("a reply that waits", waits);
    drop(greedy);
    let is_clear = || deployment.status().is_some_and(|s| s.unsent_bytes == 0);
    super::until("its end", is_clear);
    let mut other = connect(&address).expect("a connection");
    send_command(&mut other, &rawdoc! { "ping": 1, "$db": "admin" }).expect("a reply");
}
