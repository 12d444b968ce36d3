//! Tests of what a connection accepts as the reply to a request, and how early it refuses other
//! messages.

use super::*;
use crate::{connection::tests::wrong_heads, error::ErrorKind};

const URI: &str = "mongodb://a/?replicaSet=rs&maxPoolSize=1";

/// Begins an exchange and sends its request. Returns the exchange and the request id.
fn sent(world: &mut World) -> (Exchange, i32) {
    let mut exchange = world.begin_exchange(ping());
    exchange.sent(exchange.output().len());
    let id = exchange.operation.exchange.context.request_id;
    (exchange, id)
}

#[test]
fn an_exchange_refuses_a_wrong_message_by_its_first_bytes() {
    for case in 0..wrong_heads(0).len() {
        let mut world = World::new(URI, primary());
        let (mut exchange, id) = sent(&mut world);
        let socket = exchange.socket();
        let (name, head) = wrong_heads(id).swap_remove(case);
        exchange.input().expect("room")[..head.len()].copy_from_slice(&head);
        let error = exchange.received(head.len()).expect_err(name);
        let is_protocol = matches!(error.kind(), ErrorKind::InvalidResponse { .. });
        assert!(is_protocol, "{name}: {error}");
        world.check_in(exchange, Outcome::Failed(error));
        assert!(world.closed.contains(&socket), "{name}");
    }
}

#[test]
fn a_late_reply_is_checked_like_an_ordinary_reply() {
    for case in 0..wrong_heads(0).len() {
        let mut world = World::new(URI, primary());
        let (exchange, id) = sent(&mut world);
        let socket = exchange.socket();
        world.check_in(exchange, Outcome::Abandoned);
        let (name, head) = wrong_heads(id).swap_remove(case);
        let socket_use = world.client.handle_received(world.now, socket, &head);
        assert_eq!(socket_use, SocketUse::Closed, "{name}");
    }
}

#[test]
fn a_reply_is_decoded_without_a_copy() {
    let mut world = World::new(URI, primary());
    let (mut exchange, id) = sent(&mut world);
    let mut bytes = Vec::new();
    MessageWriter::begin(&mut bytes, 9, id)
        .body(&rawdoc! { "ok": 1, "text": "x".repeat(500) })
        .end();
    let room = exchange.input().expect("room");
    room[..bytes.len()].copy_from_slice(&bytes);
    let read_into = room[..bytes.len()].as_ptr_range();
    assert_eq!(exchange.received(bytes.len()), Ok(true));
    let body = exchange.reply().expect("a reply").as_bytes().as_ptr_range();
    assert!(read_into.contains(&body.start) && body.end <= read_into.end);
    let reply = exchange.take_reply().expect("a reply");
    let moved = reply.document().as_bytes().as_ptr_range();
    assert_eq!(moved, body, "moved out with its buffer");
}
