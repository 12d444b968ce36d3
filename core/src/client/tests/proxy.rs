//! Tests of a client whose connections begin with the conversation of another layer, such as that
//! of a proxy.

use super::*;
use crate::{
    connection::{Layers, tests::ProxyPlan},
    error::Label,
};

/// Returns an open client of one server `a`, behind a proxy at `proxy:1080`.
fn client() -> silent_peer::SilentPeer {
    let options = uri::parse("mongodb://a/?replicaSet=rs&retryReads=false");
    let options = options.expect("a connection string").options;
    let config = ClientConfig::new(options, Seed::new([5; 32])).expect("options");
    let mut client = Client::new(config);
    let mut layers = Layers::default();
    layers.push(ProxyPlan(Address::tcp("proxy", 1080)));
    Arc::make_mut(&mut client.settings.handshake).layers = layers;
    client.open(Instant::ZERO);
    silent_peer::SilentPeer::new(client)
}

/// Connects a socket, replies as the proxy, and answers the hello of the connection.
fn establish(peer: &mut silent_peer::SilentPeer, socket: SocketId) {
    peer.connect(socket);
    assert_eq!(peer.sent(socket), b"TO a:27017\n");
    peer.receive(socket, b"OK\n");
    let hello = peer.sent(socket);
    peer.respond(socket, &hello, &primary());
}

/// Returns the error of an operation whose new connection is dialled and then fails by
/// `cause_failure`.
fn failed(cause_failure: impl FnOnce(&mut silent_peer::SilentPeer, SocketId)) -> Error {
    let mut peer = client();
    let monitor = peer.dialled_proxy();
    establish(&mut peer, monitor);
    let Progress::Waiting(id) = peer.client.start(peer.now, find()) else {
        panic!("there is no connection yet");
    };
    let socket = peer.dialled_proxy();
    cause_failure(&mut peer, socket);
    match peer.client.resume(peer.now, id) {
        Progress::Failed(error) => error,
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_connection_goes_through_the_proxy_and_reports_the_server_address() {
    // Every connection leads to the proxy first (SOCKS-11, SOCKS-12, SOCKS-16). Then the client
    // continues as if it were connected to the server (SOCKS-15), and events name the server
    // (SOCKS-20). The proxy of this test does not use SOCKS5, but these rules hold for it, too.
    let mut peer = client();
    let monitor = peer.dialled_proxy();
    establish(&mut peer, monitor);
    let Progress::Waiting(id) = peer.client.start(peer.now, find()) else {
        panic!("there is no connection yet");
    };
    let socket = peer.dialled_proxy();
    establish(&mut peer, socket);
    let Progress::Exchange(exchange) = peer.client.resume(peer.now, id) else {
        panic!("the connection is established");
    };
    assert_eq!(exchange.facts().address.to_string(), "a:27017");
}

#[test]
fn proxy_errors_are_network_errors_without_overload_labels() {
    // An error of the proxy is a network error (SOCKS-19) and gets no labels of overload (CMAP-46).
    let refused = || Error::network(NetworkFault::Refused, "refused");
    let at_dial = failed(|peer, socket| {
        peer.client.handle_failed(peer.now, socket, refused());
    });
    let at_proxy = failed(|peer, socket| {
        peer.connect(socket);
        peer.receive(socket, &[]);
    });
    let by_answer = failed(|peer, socket| {
        peer.connect(socket);
        peer.receive(socket, b"no\n");
    });
    for error in [at_dial, at_proxy, by_answer] {
        assert!(error.is_network() || error.is_pool_cleared(), "{error}");
        assert!(!error.has_label(&Label::SystemOverloadedError), "{error}");
        assert!(error.to_string().contains("a:27017"), "{error}");
    }
    // An error after the answer of the proxy is an error of the server.
    let at_hello = failed(|peer, socket| {
        peer.connect(socket);
        peer.receive(socket, b"OK\n");
        peer.receive(socket, &[]);
    });
    assert!(
        at_hello.has_label(&Label::SystemOverloadedError),
        "{at_hello}"
    );
}
