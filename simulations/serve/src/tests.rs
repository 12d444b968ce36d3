//! Tests on real sockets of the loopback interface.

mod certificates;
mod hostile;
mod long_queries;
mod long_writes;
mod resets;
mod scenarios;
mod streams;
mod unsent_replies;

use super::{Embedded, ServeOptions};
use bson::{RawDocument, RawDocumentBuf, oid::ObjectId, rawdoc};
use onionskin_core::unstable::wire::{FrameDecoder, Message, MessageWriter};
use onionskin_deployment::deployment::{AuthMechanism, MemberState, User};
use onionskin_worlds::world::Disaster;
use rustls::pki_types::{CertificateDer, pem::PemObject as _};
use std::{
    io::{ErrorKind, Read, Write},
    net::{TcpListener, TcpStream},
    sync::Arc,
    time::{Duration, Instant},
};

const PATIENCE: Duration = Duration::from_secs(60);

fn addresses(uri: &str) -> Vec<String> {
    let hosts = uri
        .strip_prefix("mongodb://")
        .and_then(|u| u.split('/').next());
    let hosts = hosts.expect("hosts").split(',');
    hosts.map(str::to_owned).collect()
}

fn is_primary(address: &str) -> Option<bool> {
    let mut stream = connect(address)?;
    let hello = send_command(&mut stream, &rawdoc! { "hello": 1, "$db": "admin" })?;
    hello.get_bool("isWritablePrimary").ok()
}

fn connect(address: &str) -> Option<TcpStream> {
    let stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    Some(stream)
}

fn message(command: &RawDocument) -> Vec<u8> {
    let mut bytes = Vec::new();
    MessageWriter::begin(&mut bytes, 1, 0).body(command).end();
    bytes
}

/// Sends a command and returns its reply, or `None` if the connection is closed. Panics if neither
/// happens in time.
fn send_command(stream: &mut (impl Read + Write), command: &RawDocument) -> Option<RawDocumentBuf> {
    stream.write_all(&message(command)).ok()?;
    let mut decoder = FrameDecoder::new();
    loop {
        if let Some((_, frame)) = decoder.frame().ok()? {
            return Some(Message::decode(frame).ok()?.body.to_owned());
        }
        let count = match stream.read(decoder.spare().ok()?) {
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                panic!("the connection is open, and {command:?} has no reply");
            }
            result => result.ok()?,
        };
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
fn a_member_that_is_killed_and_restarted_at_once_takes_connections_at_once() {
    let deployment = Embedded::start(ServeOptions::replica_set("rs0", 3)).expect("starts");
    let members = addresses(deployment.uri());
    for round in 0..20 {
        deployment.kill(1);
        assert!(connect(&members[1]).is_none(), "the port is free");
        deployment.kill(2);
        for member in [1, 2] {
            deployment.restart(member);
            assert!(
                connect(&members[member]).is_some(),
                "member {member} runs again: {round}"
            );
        }
    }
}

#[test]
#[should_panic(expected = "there are 3 members, and no member 3")]
fn a_member_that_does_not_exist_cannot_be_killed() {
    let deployment = Embedded::start(ServeOptions::replica_set("rs0", 3)).expect("starts");
    deployment.kill(3);
}

#[test]
fn members_that_ended_or_shut_down_run_again() {
    let deployment = Embedded::start(ServeOptions::replica_set("rs0", 3)).expect("starts");
    let members = addresses(deployment.uri());
    let is_down = |member: usize| {
        let status = deployment.status().expect("it runs");
        status.members[member] == MemberState::Down
    };
    deployment.isolate(0);
    deployment.kill(1);
    deployment.shut_down(2);
    assert!(is_down(1) && !is_down(2));
    deployment.heal();
    assert!(!is_down(1) && !is_down(2));
    for member in &members {
        assert!(connect(member).is_some(), "{member} takes connections");
    }
    // The process of a member that runs ends, and its connections with it.
    let mut stream = connect(&members[2]).expect("connects");
    deployment.restart(2);
    assert!(!is_down(2));
    let ping = rawdoc! { "ping": 1, "$db": "admin" };
    assert!(send_command(&mut stream, &ping).is_none(), "it was closed");
}

#[test]
#[should_panic(expected = "the deployment alone cannot have it")]
fn a_deployment_alone_cannot_close_clients() {
    let deployment = Embedded::start(ServeOptions::standalone()).expect("starts");
    deployment.strike(Disaster::CloseClient(0));
}

#[test]
fn a_replica_set_fails_over_and_killed_members_refuse_connections() {
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
    deployment.check_members().expect("they have the same data");
    drop(deployment);
    // Another process may already use one of the ports.
    let listens = |member: &&String| TcpStream::connect(member).is_ok();
    let listening = members.iter().filter(listens).count();
    assert!(listening <= 1, "nothing listens any more");
}

#[test]
fn a_member_that_is_down_keeps_its_port() {
    let deployment = Embedded::start(ServeOptions::standalone()).expect("starts");
    let address = deployment.addresses()[0];
    // Connections that were closed would also keep the port, so there are none.
    deployment.kill(0);
    until("the end of the member", || {
        let status = deployment.status().expect("runs");
        status.members[0] == MemberState::Down
    });
    let taken = TcpListener::bind(address);
    assert!(taken.is_err(), "another program got the port");
    deployment.restart(0);
    let address = address.to_string();
    until("the member's return", || is_primary(&address).is_some());

    // The member's end of a connection that it has closed remains for a minute.
    let _client = connect(&address).expect("a connection");
    deployment.kill(0);
    deployment.restart(0);
    let begun = Instant::now();
    until("the member's return", || is_primary(&address).is_some());
    assert!(
        begun.elapsed() < Duration::from_secs(30),
        "it took too long"
    );
}

#[test]
fn the_uri_logs_in_by_a_mechanism_that_is_permitted() {
    for (mechanism, has_login, query) in [
        (AuthMechanism::ScramSha256, true, None),
        (
            AuthMechanism::Plain,
            true,
            Some("authMechanism=PLAIN&authSource=%24external"),
        ),
        (AuthMechanism::Oidc, false, None),
    ] {
        let mut options = ServeOptions::standalone();
        options.users = vec![User::new("u", "p"), User::ldap("u", "p")];
        options.auth.mechanisms = vec![mechanism];
        let deployment = Embedded::start(options).expect("a server");
        let uri = deployment.uri();
        assert_eq!(uri.contains("u:p@"), has_login, "{uri}");
        assert_eq!(uri.split_once('?').map(|parts| parts.1), query, "{uri}");
    }
}

#[test]
fn the_uri_of_a_standalone_has_no_replica_set() {
    let deployment = Embedded::start(ServeOptions::standalone()).expect("starts");
    assert!(!deployment.uri().contains("replicaSet"));
    assert_eq!(is_primary(&addresses(deployment.uri())[0]), Some(true));
}

#[test]
fn each_router_has_its_own_port() {
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

fn balanced_hello() -> RawDocumentBuf {
    rawdoc! { "hello": 1, "loadBalanced": true, "$db": "admin" }
}

/// Connects, sends the header and a hello, and returns the `serviceId` of the reply. Returns `None`
/// if there is no such reply.
fn service(address: &str, header: &[u8]) -> Option<ObjectId> {
    let mut stream = connect(address)?;
    stream.write_all(header).ok()?;
    let hello = send_command(&mut stream, &balanced_hello())?;
    hello.get_object_id("serviceId").ok()
}

/// Returns a header of version 2 of the PROXY protocol, with a field after the addresses.
fn binary_header() -> Vec<u8> {
    let mut header = b"\r\n\r\n\0\r\nQUIT\n\x21\x11".to_vec();
    header.extend(17_u16.to_be_bytes());
    header.extend([127, 0, 0, 1, 127, 0, 0, 1, 0xc0, 0, 0x69, 0x89]);
    header.extend([0xea, 0, 2, 1, 2]);
    header
}

const TEXT_HEADER: &[u8] = b"PROXY TCP4 127.0.0.1 127.0.0.1 49152 27017\r\n";

#[test]
fn services_are_reachable_through_the_balancer_and_at_their_own_ports() {
    let deployment = Embedded::start(ServeOptions::load_balanced(2)).expect("starts");
    let uri = deployment.uri();
    assert!(uri.ends_with("/?loadBalanced=true"), "{uri}");
    let balancer = addresses(uri);
    let [balancer] = balancer.as_slice() else {
        panic!("{uri}");
    };
    let [one, other] = [(); 2].map(|()| service(balancer, &[]).expect("a service"));
    assert_ne!(one, other);
    assert_eq!(service(balancer, &[]), Some(one), "in turn");
    let services: Vec<String> = deployment
        .addresses()
        .iter()
        .map(|a| a.to_string())
        .collect();
    assert_eq!(services.len(), 2);
    assert!(!services.contains(balancer));
    assert_eq!(
        is_primary(&services[0]),
        None,
        "the client has to know of a balancer"
    );
    // Another load balancer may connect to a service, with or without a header.
    for header in [&[], TEXT_HEADER, &binary_header()] {
        assert_eq!(service(&services[0], header), Some(one), "{header:?}");
        assert_eq!(service(&services[1], header), Some(other), "{header:?}");
    }
    for malformed in [
        b"PROXY TCP4 nowhere\r\n".as_slice(),
        b"\r\n\r\n\0\r\nQUIT\n\x31\x11\0\x0c",
    ] {
        assert_eq!(service(&services[0], malformed), None, "{malformed:?}");
    }
    // The deployment's own balancer does not accept headers from clients.
    assert_eq!(service(balancer, TEXT_HEADER), None);
}

#[test]
fn a_proxy_header_may_arrive_in_pieces_and_together_with_a_message() {
    let deployment = Embedded::start(ServeOptions::load_balanced(1)).expect("starts");
    let address = deployment.addresses()[0].to_string();
    for header in [TEXT_HEADER, &binary_header()] {
        let mut stream = connect(&address).expect("a connection");
        stream.set_nodelay(true).expect("a socket");
        let (part, rest) = header.split_at(header.len() / 2);
        for byte in part {
            stream.write_all(&[*byte]).expect("written");
        }
        let hello = [rest, &message(&balanced_hello())].concat();
        stream.write_all(&hello).expect("written");
        let pong = send_command(&mut stream, &rawdoc! { "ping": 1, "$db": "admin" });
        let first = pong.expect("the hello's reply");
        assert!(first.get_object_id("serviceId").is_ok(), "{first:?}");
    }
}

#[test]
fn the_balancer_stays_open_when_its_services_are_killed() {
    let deployment = Embedded::start(ServeOptions::load_balanced(2)).expect("starts");
    let balancer = addresses(deployment.uri()).remove(0);
    let ping = rawdoc! { "ping": 1, "$db": "admin" };
    let mut streams = [(); 2].map(|()| connect(&balancer).expect("a connection"));
    let ids = streams.each_mut().map(|stream| {
        let hello = send_command(stream, &balanced_hello()).expect("a reply");
        hello.get_object_id("serviceId").expect("a service")
    });
    deployment.disconnect(0);
    assert!(
        send_command(&mut streams[0], &ping).is_none(),
        "its connections are closed"
    );
    assert!(send_command(&mut streams[1], &ping).is_some());
    assert_eq!(
        service(&balancer, &[]),
        Some(ids[0]),
        "and the service goes on"
    );
    deployment.kill(0);
    deployment.kill(1);
    assert!(send_command(&mut streams[1], &ping).is_none());
    assert_eq!(service(&balancer, &[]), None, "nobody is there");
    deployment.restart(1);
    let again = service(&balancer, &[]).expect("a service");
    assert!(!ids.contains(&again), "a new process is a new service");
}

#[test]
fn a_proxy_header_precedes_the_tls_handshake() {
    let directory = std::env::temp_dir().join(format!("onionskin-proxy-{}", std::process::id()));
    let mut options = ServeOptions::load_balanced(1);
    options.tls = true;
    options.tls_directory = Some(directory.clone());
    let deployment = Embedded::start(options).expect("starts");
    let authority = std::fs::read(directory.join("ca.pem")).expect("a certificate");
    let mut roots = rustls::RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(&authority).expect("a certificate"))
        .expect("a root");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let config = Arc::new(config);
    let address = deployment.addresses()[0].to_string();
    for header in [&[], TEXT_HEADER, &binary_header()] {
        let mut stream = connect(&address).expect("a connection");
        stream.write_all(header).expect("written");
        let name = "localhost".try_into().expect("a name");
        let tls = rustls::ClientConnection::new(config.clone(), name).expect("a client");
        let mut stream = rustls::StreamOwned::new(tls, stream);
        let hello = send_command(&mut stream, &balanced_hello()).expect("a reply");
        assert!(hello.get_object_id("serviceId").is_ok(), "{header:?}");
    }
    drop(deployment);
    std::fs::remove_dir_all(directory).expect("removed");
}

#[test]
fn service_ports_follow_the_port_of_the_balancer() {
    // Three free ports in a row can only be found by trying.
    let free = || -> Option<Embedded> {
        let base = TcpListener::bind("127.0.0.1:0").ok()?.local_addr().ok()?;
        let mut options = ServeOptions::load_balanced(2);
        options.port = Some(base.port());
        Embedded::start(options).ok()
    };
    let deployment = (0..50).find_map(|_| free()).expect("free ports");
    let balancer = addresses(deployment.uri()).remove(0);
    let first: std::net::SocketAddr = balancer.parse().expect("an address");
    let ports: Vec<u16> = deployment.addresses().iter().map(|a| a.port()).collect();
    assert_eq!(ports, [first.port() + 1, first.port() + 2]);
}
