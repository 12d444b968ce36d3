//! Real sockets on loopback.

use super::{Embedded, ServeOptions};
use crate::deployment::MemberState;
use bson::rawdoc;
use onionskin_core::wire::{FrameDecoder, Message, MessageWriter};
use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    time::{Duration, Instant},
};

const PATIENCE: Duration = Duration::from_secs(20);

fn addresses(uri: &str) -> Vec<String> {
    let hosts = uri
        .strip_prefix("mongodb://")
        .and_then(|u| u.split('/').next());
    let hosts = hosts.expect("hosts").split(',');
    hosts.map(str::to_owned).collect()
}

fn is_primary(address: &str) -> Option<bool> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    let mut bytes = Vec::new();
    MessageWriter::begin(&mut bytes, 1, 0)
        .body(&rawdoc! { "hello": 1, "$db": "admin" })
        .end();
    stream.write_all(&bytes).ok()?;
    let mut decoder = FrameDecoder::new();
    loop {
        if let Some((_, frame)) = decoder.frame().ok()? {
            let message = Message::decode(frame).ok()?;
            return message.body.get_bool("isWritablePrimary").ok();
        }
        let count = stream.read(decoder.spare().ok()?).ok()?;
        if count == 0 {
            return None;
        }
        decoder.filled(count);
    }
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "waited too long for {what}");
        std::thread::yield_now();
    }
}

#[test]
fn a_served_set_fails_over_and_killed_members_refuse_connections() {
    let mut options = ServeOptions::replica_set("rs0", 3);
    options.election_timeout = Duration::from_millis(200);
    options.heartbeat_interval = Duration::from_millis(50);
    let deployment = Embedded::start(options).expect("starts");
    let members = addresses(deployment.uri());
    assert_eq!(is_primary(&members[0]), Some(true));
    assert_eq!(is_primary(&members[1]), Some(false));

    assert!(deployment.step_down());
    let primary = || deployment.status().and_then(|s| s.primary);
    until("a new primary", || primary().is_some_and(|p| p != 0));

    let old = primary().expect("there is one");
    deployment.kill(old);
    until("a closed port", || is_primary(&members[old]).is_none());
    until("the third primary", || primary().is_some_and(|p| p != old));
    let status = deployment.status().expect("runs");
    assert_eq!(status.members[old], MemberState::Down);
    deployment.restart(old);
    until("the member's return", || {
        is_primary(&members[old]).is_some()
    });
    drop(deployment);
    assert!(
        TcpStream::connect(&members[0]).is_err(),
        "nothing listens any more"
    );
}

#[test]
fn a_standalone_needs_no_set_name() {
    let deployment = Embedded::start(ServeOptions::standalone()).expect("starts");
    assert!(!deployment.uri().contains("replicaSet"));
    assert_eq!(is_primary(&addresses(deployment.uri())[0]), Some(true));
}

#[test]
fn routers_are_served_at_a_port_each() {
    let deployment = Embedded::start(ServeOptions::sharded(2)).expect("starts");
    let routers = addresses(deployment.uri());
    assert_eq!(routers.len(), 2, "{}", deployment.uri());
    assert!(!deployment.uri().contains("replicaSet"));
    assert!(
        routers
            .iter()
            .all(|router| is_primary(router) == Some(true))
    );
    let status = deployment.status().expect("runs");
    assert_eq!(status.members, [MemberState::Router; 2]);
    deployment.kill(1);
    until("a closed port", || is_primary(&routers[1]).is_none());
    assert_eq!(is_primary(&routers[0]), Some(true));
}
