//! Tests of recordings of clients with TLS.

use super::{super::recordings::assert_same, *};
use crate::{
    operation::{CursorResources, SessionOptions, TransactionOptions, crud::Defaults},
    tls::tests::revocation::{RESPONDER, Response},
};

#[test]
fn the_recording_of_a_client_with_tls_is_replayed_without_it() {
    for version in [&TLS12, &TLS13] {
        let mut scene = Scene::new(URI, version);
        scene.perform(ping());
        scene.wait(Duration::from_secs(10));
        scene.wait(IDLE_CHECK_AFTER);
        scene.client.close(scene.now);
        scene.run();
        scene.assert_replayed();
    }
}

#[test]
fn a_transaction_is_replayed_without_tls() {
    for uri in [URI, "mongodb://db.example.net/?loadBalanced=true&tls=true"] {
        let mut scene = Scene::new(uri, &TLS13);
        let now = scene.now;
        let session = scene.client.start_session(now, &SessionOptions::default());
        let session = session.expect("the client is open").id;
        let options = TransactionOptions::default();
        let client = &mut scene.client;
        let started = client.start_transaction(now, session, &options, &Defaults::default());
        started.expect("no transaction is in progress");
        for mut command in [insert(), find()] {
            command.use_explicit_session(session);
            scene.perform(command);
        }
        let is_balanced = uri != URI;
        assert_eq!(scene.client.snapshot().pins.len(), usize::from(is_balanced));
        let commit = scene.client.commit_transaction(now, session, None);
        let commit = commit.expect("it is permitted").expect("operations ran");
        scene.perform(commit);
        let resources = CursorResources::of_session(session);
        scene.client.release_cursor(now, resources);
        scene.run();
        scene.assert_replayed();
    }
}

#[test]
fn bytes_of_tls_that_arrive_in_pieces_are_replayed() {
    let mut scene = Scene::new(URI, &TLS13);
    scene.is_slow = true;
    let start = scene.client.start(scene.now, ping());
    scene.run();
    let socket = *scene.peers.keys().last().expect("that of the pool");
    for _ in 0..4 {
        let bytes = scene.peers.get_mut(&socket).expect("a socket").output();
        for piece in bytes.chunks(100) {
            scene.client.handle_received(scene.now, socket, piece);
            scene.run();
        }
    }
    scene.is_slow = false;
    let exchange = scene.exchange_of(start);
    assert_eq!(exchange.socket(), socket);
    scene.assert_replayed();
}

#[test]
fn a_connection_that_cannot_begin_tls_is_replayed() {
    // The path of a socket is no host name for a certificate.
    let options = uri::parse("mongodb://%2Ftmp%2Fmongodb.sock/?tls=true");
    let options = options.expect("a connection string").options;
    let config = ClientConfig::new(options, Seed::new([5; 32])).expect("options");
    let config = config.with_recording(RecordingOptions::whole(1 << 20));
    let mut client = Client::new(config.expect("it can be recorded"));
    client.open(Instant::ZERO);
    let mut peer = silent_peer::SilentPeer::new(client);
    let Some(Action::Dial { socket, .. }) = harness::next(&mut peer) else {
        panic!("a monitor dials");
    };
    assert_eq!(harness::Peer::connect(&mut peer, socket), SocketUse::Closed);
    let file = peer.client.recording();
    assert_same(&file.expect("the client records itself"));
}

/// The status of the certificate is stapled at first and then cached, or nobody may be asked.
#[test]
fn a_certificate_about_which_nobody_is_asked_is_replayed() {
    for is_stapled in [true, false] {
        let authority = Authority::new();
        let issued = Issued::new(&authority, &[RESPONDER], false);
        let staple = Response::new(&authority).about(&issued, &authority);
        let staple = is_stapled.then_some(staple);
        let mut trust = authority.options();
        trust.disable_ocsp_endpoint_check = Some(!is_stapled);
        let mut scene = Scene::with_trust(URI, &TLS13, trust, authority, Some(issued), staple);
        scene.perform(ping());
        scene.wait(Duration::from_secs(10));
        assert!(scene.asked.is_empty() && scene.closed.is_empty());
        scene.assert_replayed();
    }
}

#[test]
fn a_certificate_that_is_known_to_be_revoked_is_replayed() {
    let authority = Authority::new();
    let issued = Issued::new(&authority, &[RESPONDER], false);
    let staple = Response::revoked(&authority).about(&issued, &authority);
    let trust = authority.options();
    let mut scene = Scene::with_trust(URI, &TLS13, trust, authority, Some(issued), Some(staple));
    // The next connection gets no staple.
    scene.wait(Duration::from_secs(10));
    assert!(scene.peers.len() > 1 && scene.closed.len() > 1 && scene.asked.is_empty());
    scene.assert_replayed();
}
