//! Tests of a client whose connections go through a SOCKS5 proxy.

use super::*;
use crate::error::Label;
use std::time::Duration;

const GREETING: &[u8] = &[5, 1, 0];
const CONNECTED: &[u8] = &[5, 0, 0, 3, 1, b'x', 0, 1];

fn client(options: &str) -> silent_peer::SilentPeer {
    let uri = format!("mongodb://a/?proxyHost=proxy&retryReads=false&{options}");
    let options = uri::parse(&uri).expect("a connection string").options;
    let config = ClientConfig::new(options, Seed::new([5; 32])).expect("options");
    let mut client = Client::new(config);
    client.open(Instant::ZERO);
    silent_peer::SilentPeer::new(client)
}

/// Connects a socket and replies as the proxy, up to the hello of the connection.
fn hello(peer: &mut silent_peer::SilentPeer, socket: SocketId) -> Vec<u8> {
    peer.connect(socket);
    assert_eq!(peer.sent(socket), GREETING);
    peer.receive(socket, &[5, 0]);
    assert_eq!(peer.sent(socket), b"\x05\x01\0\x03\x01a\x69\x89");
    peer.receive(socket, CONNECTED);
    peer.sent(socket)
}

fn establish(peer: &mut silent_peer::SilentPeer, socket: SocketId) {
    let hello = hello(peer, socket);
    peer.respond(socket, &hello, &primary());
}

/// Returns a client with a monitor's connection, and the socket of a new connection for an
/// operation.
fn started() -> (silent_peer::SilentPeer, OperationId, SocketId) {
    let mut peer = client("replicaSet=rs");
    let monitor = peer.dialled_proxy();
    establish(&mut peer, monitor);
    let Progress::Waiting(id) = peer.client.start(peer.now, find()) else {
        panic!("there is no connection yet");
    };
    let socket = peer.dialled_proxy();
    (peer, id, socket)
}

#[test]
fn monitors_and_pools_go_through_the_proxy() {
    // SOCKS-11, SOCKS-12, SOCKS-15, SOCKS-16. The connection names the server only (SOCKS-20).
    let (mut peer, id, socket) = started();
    establish(&mut peer, socket);
    let Progress::Exchange(exchange) = peer.client.resume(peer.now, id) else {
        panic!("the connection is established");
    };
    assert_eq!(exchange.facts().address.to_string(), "a:27017");
}

#[test]
fn each_failure_of_the_proxy_closes_one_connection_without_overload_labels() {
    // SOCKS-19, CMAP-46.
    let refused = || Error::network(NetworkFault::Refused, "refused");
    type Cause<'a> = &'a dyn Fn(&mut silent_peer::SilentPeer, SocketId);
    let causes: [(&str, Cause<'_>); 6] = [
        ("cannot connect to the proxy proxy:1080", &|peer, socket| {
            peer.client.handle_failed(peer.now, socket, refused());
        }),
        ("proxy:1080 closed the connection", &|peer, socket| {
            peer.connect(socket);
            peer.receive(socket, &[]);
        }),
        ("proxy:1080 requires authentication", &|peer, socket| {
            peer.connect(socket);
            peer.receive(socket, &[5, 255]);
        }),
        ("connection refused", &|peer, socket| {
            peer.connect(socket);
            peer.receive(socket, &[5, 0, 5, 5, 0, 1, 0, 0, 0, 0, 0, 0]);
        }),
        ("is it a SOCKS5 proxy?", &|peer, socket| {
            peer.connect(socket);
            peer.receive(socket, b"HTTP/1.1 400");
        }),
        ("took longer than", &|peer, socket| {
            peer.connect(socket);
            peer.now = peer.now + Duration::from_millis(10_000);
            harness::time_out(peer);
        }),
    ];
    for (words, cause) in causes {
        let (mut peer, id, socket) = started();
        cause(&mut peer, socket);
        let error = match peer.client.resume(peer.now, id) {
            Progress::Failed(error) => error,
            other => panic!("{words}: {other:?}"),
        };
        let is_network = error.is_network() || error.is_pool_cleared();
        assert!(
            is_network && error.to_string().contains(words),
            "{words}: {error}"
        );
        assert!(!error.has_label(&Label::SystemOverloadedError), "{error}");
        assert!(error.to_string().contains("a:27017"), "{error}");
        assert_eq!(peer.client.address_of(socket), None, "closed");
    }
}

#[test]
fn an_error_after_the_conversation_can_be_a_sign_of_overload() {
    let (mut peer, id, socket) = started();
    let _hello = hello(&mut peer, socket);
    peer.receive(socket, &[]);
    let Progress::Failed(error) = peer.client.resume(peer.now, id) else {
        panic!("the connection was closed");
    };
    assert!(error.has_label(&Label::SystemOverloadedError), "{error}");
}

#[test]
fn a_check_without_an_answer_names_the_hop_that_was_silent() {
    for (is_dialled, words) in [
        (false, "connecting to the proxy proxy:1080 took longer than"),
        (true, "the SOCKS5 handshake took longer than"),
    ] {
        let mut peer = client("");
        let monitor = peer.dialled_proxy();
        if is_dialled {
            peer.connect(monitor);
        }
        peer.now = peer.now + Duration::from_millis(10_000);
        harness::time_out(&mut peer);
        let description = peer.client.topology();
        let server = description.servers.values().next().expect("a server");
        let error = server.error.as_ref().expect("the check failed");
        assert!(error.to_string().contains(words), "{error}");
    }
}

#[test]
fn a_failed_check_reports_the_server_and_the_reason() {
    let mut peer = client("");
    let monitor = peer.dialled_proxy();
    peer.connect(monitor);
    peer.receive(monitor, &[5, 0, 5, 4]);
    let description = peer.client.topology();
    let (address, server) = description.servers.iter().next().expect("a server");
    assert_eq!(address.to_string(), "a:27017");
    let error = server.error.as_ref().expect("the check failed");
    assert_eq!(error.server(), Some(address));
    assert!(
        error.to_string().contains("could not reach the server"),
        "{error}"
    );
}
