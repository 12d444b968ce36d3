//! Tests of TLS messages that arrive on idle connections.

use super::*;
use crate::error::IoError;

#[test]
fn a_close_notify_on_an_idle_connection_closes_only_that_connection() {
    // A connection that its server has closed cannot be used again (CMAP-27).
    let uri = format!("{URI}&retryReads=false&retryWrites=false");
    for version in [&TLS12, &TLS13] {
        let (mut scene, mut exchange) = Scene::idle(&uri, version);
        let socket = exchange.socket();
        let peer = scene.peer(&exchange);
        peer.tls.send_close_notify();
        let bytes = peer.output();
        let error = check_idle(&mut exchange, &bytes).expect_err("it is closed");
        assert!(matches!(
            error.kind(),
            ErrorKind::Io(IoError {
                fault: NetworkFault::Closed,
                ..
            })
        ));
        let start = scene.client.refuse(scene.now, exchange, error);
        let mut exchange = scene.exchange_of(start);
        assert_ne!(exchange.socket(), socket);
        assert_eq!(scene.closed, [socket]);
        assert_eq!((scene.clears, scene.changes), (0, 0));
        assert_eq!(exchange.operation.retry.attempts, 1);
        let request = scene.send(&mut exchange);
        let peer = scene.peer(&exchange);
        peer.reply(request, &rawdoc! { "ok": 1, "n": 1 });
        let bytes = peer.output();
        assert!(feed(&mut exchange, &bytes).expect("a reply"));
    }
}

/// Probes a connection that was idle, by reads of at most 64 bytes.
fn check_idle(exchange: &mut Exchange, mut bytes: &[u8]) -> Result<(), Error> {
    while exchange.wants_idle_check() {
        let count = bytes.len().min(64);
        exchange.handle_idle_check(Some(&bytes[..count]).filter(|bytes| !bytes.is_empty()))?;
        bytes = &bytes[count..];
    }
    Ok(())
}

#[test]
fn an_idle_check_finds_a_close_notify_behind_other_tls_messages() {
    // The first read of an idle check has 64 bytes, which end before the `close_notify`.
    let (mut scene, mut exchange) = Scene::idle(URI, &TLS13);
    let peer = scene.peer(&exchange);
    let mut bytes = Vec::new();
    for _ in 0..5 {
        peer.tls.refresh_traffic_keys().expect("TLS 1.3");
        bytes.extend(peer.output());
    }
    peer.tls.send_close_notify();
    bytes.extend(peer.output());
    assert!(bytes.len() > 64);
    let error = check_idle(&mut exchange, &bytes).expect_err("it is closed");
    assert!(error.is_network(), "{error}");
}

#[test]
fn an_incomplete_record_on_an_idle_connection_closes_only_that_connection() {
    for count in [1, 4, 5, 20] {
        let (mut scene, mut exchange) = Scene::idle(URI, &TLS13);
        let peer = scene.peer(&exchange);
        peer.tls.send_close_notify();
        let bytes = peer.output();
        let error = check_idle(&mut exchange, &bytes[..count]).expect_err("the rest is on its way");
        assert!(
            matches!(error.kind(), ErrorKind::InvalidResponse { .. }),
            "{error}"
        );
        let start = scene.client.refuse(scene.now, exchange, error);
        scene.exchange_of(start);
        assert_eq!((scene.clears, scene.changes), (0, 0));
    }
}

#[test]
fn unexpected_data_on_an_idle_connection_fails_its_idle_check() {
    let (mut scene, mut exchange) = Scene::idle(URI, &TLS13);
    let peer = scene.peer(&exchange);
    peer.tls.writer().write_all(&[0; 3]).expect("room");
    let bytes = peer.output();
    check_idle(&mut exchange, &bytes).expect_err("nobody asked");
}

#[test]
fn a_key_update_on_an_idle_connection_is_answered_with_the_next_request() {
    let (mut scene, mut exchange) = Scene::idle(URI, &TLS13);
    let peer = scene.peer(&exchange);
    let mut bytes = Vec::new();
    for _ in 0..3 {
        peer.tls.refresh_traffic_keys().expect("TLS 1.3");
        bytes.extend(peer.output());
    }
    check_idle(&mut exchange, &bytes).expect("it is TLS's own");
    assert!(!exchange.wants_idle_check());
    // The client answers the key updates together with its next request, which the server can
    // decrypt.
    let request = scene.send(&mut exchange);
    let peer = scene.peer(&exchange);
    peer.reply(request, &rawdoc! { "ok": 1, "n": 1 });
    let bytes = peer.output();
    assert!(feed(&mut exchange, &bytes).expect("a reply"));
    assert!(scene.closed.is_empty());
}

#[test]
fn an_idle_check_that_reads_too_many_bytes_fails() {
    for (before, is_left) in [(MAX_IDLE_CHECK_BYTES, true), (0, false)] {
        let (mut scene, mut exchange) = Scene::idle(URI, &TLS13);
        exchange.operation.exchange.idle_bytes = before;
        let peer = scene.peer(&exchange);
        peer.tls.refresh_traffic_keys().expect("TLS 1.3");
        let bytes = peer.output();
        assert_eq!(check_idle(&mut exchange, &bytes).is_err(), is_left);
    }
}
