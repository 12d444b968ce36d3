//! Tests of TLS messages that arrive on pinned connections.

use super::*;
use crate::error::IoError;
use crate::operation::Cursor;

const URI: &str = "mongodb://db.example.net/?loadBalanced=true&tls=true";

/// Returns an open cursor, and the `close_notify` of its server if that was not sent with the first
/// batch.
fn cut_off(with_batch: bool) -> (Scene, Cursor, Vec<u8>) {
    let mut scene = Scene::new(URI, &TLS13);
    let mut exchange = scene.start(find());
    let request = scene.send(&mut exchange);
    let batch = rawdoc! { "ok": 1, "cursor": { "id": 5_i64, "ns": "db.c", "firstBatch": [] } };
    let peer = scene.peer(&exchange);
    peer.reply(request, &batch);
    let mut bytes = peer.output();
    peer.tls.send_close_notify();
    let mut server_close_notify = peer.output();
    if with_batch {
        bytes.append(&mut server_close_notify);
    }
    assert!(feed(&mut exchange, &bytes).expect("a reply"));
    let cursor = Cursor::from_exchange(&mut exchange, "db".into()).expect("a cursor");
    let after = scene.check_in(exchange, Outcome::Completed);
    assert!(matches!(after, AfterExchange::Done(Ok(()))));
    (scene, cursor, server_close_notify)
}

fn is_closed(error: &Error) -> bool {
    let closed = NetworkFault::Closed;
    matches!(error.kind(), ErrorKind::Io(IoError { fault, .. }) if *fault == closed)
}

#[test]
fn a_close_notify_after_a_batch_fails_the_next_command_of_the_cursor() {
    // The connection stays pinned after the network error, and is closed with the cursor (LB-36).
    let (mut scene, mut cursor, _) = cut_off(true);
    let command = cursor.more().expect("it is open");
    let Progress::Failed(error) = scene.client.start(scene.now, command) else {
        panic!("the connection is gone");
    };
    assert!(is_closed(&error), "{error:?}");
    cursor.handle_failure(&error);
    let resources = cursor.end().expect_err("it is out of reach");
    scene.client.release_cursor(scene.now, resources);
    scene.run();
    assert_eq!(scene.closed.len(), 1);
    scene.perform(ping());
}

#[test]
fn a_close_notify_on_an_idle_pinned_connection_fails_the_next_get_more() {
    let (mut scene, mut cursor, server_close_notify) = cut_off(false);
    scene.wait(IDLE_CHECK_AFTER);
    let command = cursor.more().expect("it is open");
    let mut exchange = scene.start(command);
    // The cursor can use no other connection, so its connection is not checked.
    assert!(!exchange.wants_idle_check());
    scene.send(&mut exchange);
    let error = feed(&mut exchange, &server_close_notify).expect_err("it is closed");
    assert!(is_closed(&error), "{error:?}");
    let after = scene.check_in(exchange, Outcome::Failed(error));
    assert!(matches!(after, AfterExchange::Done(Err(_))), "{after:?}");
}
