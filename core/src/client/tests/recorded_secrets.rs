//! Tests of recordings of clients with secrets: the recordings do not have the secrets, and are
//! replayed without them.

use super::{
    recordings::{assert_same, has_text},
    *,
};

/// Returns an open client that records itself.
fn open(uri: &str) -> silent_peer::SilentPeer {
    let options = uri::parse(uri).expect("a connection string").options;
    let config = ClientConfig::new(options, Seed::new([5; 32])).expect("options");
    let config = config.with_recording(RecordingOptions::whole(1 << 20));
    let mut client = Client::new(config.expect("it can be recorded"));
    client.open(Instant::ZERO);
    silent_peer::SilentPeer::new(client)
}

/// Connects a socket, replies as the proxy, and answers the hello of the connection. `pieces` are
/// the replies of the proxy to the greeting and to the login.
fn log_in_to_proxy(
    peer: &mut silent_peer::SilentPeer,
    socket: SocketId,
    password: &str,
    pieces: &[&[u8]],
) {
    peer.connect(socket);
    assert_eq!(peer.sent(socket), [5, 2, 0, 2]);
    let mut sent = Vec::new();
    for piece in pieces {
        peer.receive(socket, piece);
        sent.extend(peer.sent(socket));
    }
    assert!(has_text(&sent, password));
    peer.receive(socket, &[5, 0, 0, 3, 1, b'x', 0, 1]);
    let hello = peer.sent(socket);
    peer.respond(socket, &hello, &primary());
}

/// Returns the recording of a client behind a proxy with this user name and password.
fn behind_proxy(user: &str, password: &str) -> Vec<u8> {
    let mut peer = open(&format!(
        "mongodb://a/?replicaSet=rs&proxyHost=proxy&proxyUsername={user}&proxyPassword={password}"
    ));
    let monitor = peer.dialled_proxy();
    log_in_to_proxy(&mut peer, monitor, password, &[&[5, 2], &[1, 0]]);
    let Progress::Waiting(id) = peer.client.start(peer.now, find()) else {
        panic!("there is no connection yet");
    };
    let socket = peer.dialled_proxy();
    // The proxy answers before it is asked, so that login and request are sent at once.
    log_in_to_proxy(&mut peer, socket, password, &[&[5, 2, 1, 0]]);
    let progress = peer.client.resume(peer.now, id);
    assert!(matches!(progress, Progress::Exchange(_)), "{progress:?}");
    peer.client.recording().expect("the client records itself")
}

#[test]
fn the_login_of_a_proxy_is_replaced_and_leaves_no_trace() {
    let file = behind_proxy("someone", "pencil");
    assert!(!has_text(&file, "someone") && !has_text(&file, "pencil"));
    assert_same(&file);
    // Neither the texts nor their lengths have an effect on the recording, digests included.
    assert_eq!(file, behind_proxy("me", "a-much-longer-password"));
}

#[test]
fn a_proxy_without_credentials_is_replayed() {
    let mut peer = open("mongodb://a/?replicaSet=rs&proxyHost=proxy");
    let monitor = peer.dialled_proxy();
    peer.connect(monitor);
    peer.receive(monitor, &[5, 0]);
    peer.receive(monitor, &[5, 5, 0, 1, 0, 0, 0, 0, 0, 0]);
    let file = peer.client.recording().expect("the client records itself");
    assert_same(&file);
}
