//! Tests of probes: the reports of each step, and the steps in which failures are reported.

use super::*;
use crate::{
    description::{TopologyId, TopologyType},
    error::NetworkFault,
    options::{
        CanonicalizeHostName, Credential, Kerberos, KerberosTarget, ReadMode, SecurityContext,
    },
    random::Seed,
    tls::tests::{Authority, NOW},
    wire::{Header, MAX_MESSAGE_BYTES, MessageWriter},
};
use bson::{RawDocument, oid::ObjectId, rawdoc};
use rustls::{ServerConnection, version::TLS13};
use std::io::{Read, Write};

const START: Instant = Instant::ZERO;

fn probe_of(options: ClientOptions) -> Probe {
    let config = ClientConfig::new(options, Seed::new([7; 32])).expect("they are valid");
    Probe::new(START, Address::tcp("db.example.net", 27017), config, NOW)
}

/// Returns the message with which a server replies to these bytes.
fn reply_to(request: &[u8], body: &RawDocument) -> Vec<u8> {
    let request = Header::decode(request, MAX_MESSAGE_BYTES).expect("a request");
    let mut bytes = Vec::new();
    MessageWriter::begin(&mut bytes, 1, request.request_id)
        .body(body)
        .end();
    bytes
}

fn request_of(probe: &mut Probe) -> Vec<u8> {
    let mut request = Vec::new();
    while probe.poll_transmit(&mut request) {}
    request
}

fn failed_step(probe: &mut Probe) -> ProbeStep {
    match probe.poll_output() {
        Some(ProbeOutput::Failed { step, .. }) => step,
        other => panic!("{other:?}"),
    }
}

/// A reply to `hello` of a primary, which names the mechanism of the user.
fn primary() -> RawDocumentBuf {
    rawdoc! {
        "ok": 1, "isWritablePrimary": true, "setName": "rs", "hosts": ["a:1"],
        "maxWireVersion": 21, "saslSupportedMechs": ["SCRAM-SHA-256"],
    }
}

#[test]
fn a_probe_without_a_credential_is_ready_after_hello() {
    let mut probe = probe_of(ClientOptions::default());
    probe.handle_connected(START);
    let request = request_of(&mut probe);
    assert!(
        probe.poll_output().is_none(),
        "without TLS there are no facts of TLS"
    );
    let later = START + Duration::from_millis(4);
    probe.handle_received(later, &reply_to(&request, &primary()));
    match probe.poll_output() {
        Some(ProbeOutput::HelloAnswered {
            reply,
            description,
            round_trip,
            compression: None,
        }) => {
            assert_eq!(reply, primary());
            assert_eq!(description.server_type, ServerType::RsPrimary);
            assert_eq!(description.address, Address::tcp("db.example.net", 27017));
            assert_eq!(round_trip, Duration::from_millis(4));
        }
        other => panic!("{other:?}"),
    }
    assert!(matches!(
        probe.poll_output(),
        Some(ProbeOutput::Ready { mechanism: None })
    ));
    assert!(probe.poll_output().is_none());
}

#[test]
fn a_failure_belongs_to_the_step_that_is_under_way() {
    let refused = || Error::network(NetworkFault::Refused, "refused");
    let mut probe = probe_of(ClientOptions::default());
    probe.handle_failed(refused());
    assert_eq!(failed_step(&mut probe), ProbeStep::Connect);

    let mut probe = probe_of(ClientOptions::default());
    probe.handle_connected(START);
    probe.handle_closed();
    assert_eq!(failed_step(&mut probe), ProbeStep::Hello);

    let mut options = ClientOptions::default();
    options.tls = Some(Authority::new().options().into());
    let mut probe = probe_of(options);
    probe.handle_connected(START);
    probe.handle_closed();
    assert_eq!(failed_step(&mut probe), ProbeStep::Tls);

    let mut options = ClientOptions::default();
    let credential = Credential::password("user", "wrong");
    options.credential = Some(credential);
    let mut probe = probe_of(options);
    probe.handle_connected(START);
    let request = request_of(&mut probe);
    probe.handle_received(START, &reply_to(&request, &primary()));
    assert!(matches!(
        probe.poll_output(),
        Some(ProbeOutput::HelloAnswered { .. })
    ));
    let request = request_of(&mut probe);
    let refusal = rawdoc! { "ok": 0, "code": 18, "errmsg": "Authentication failed." };
    probe.handle_received(START, &reply_to(&request, &refusal));
    assert_eq!(failed_step(&mut probe), ProbeStep::Authentication);
    assert!(probe.poll_output().is_none());
}

#[test]
fn a_silent_server_fails_the_probe_at_its_deadline() {
    let mut options = ClientOptions::default();
    options.connect_timeout = Some(Duration::from_secs(3));
    let mut probe = probe_of(options);
    probe.handle_connected(START);
    let deadline = probe.deadline().expect("a limit");
    assert_eq!(deadline, START + Duration::from_secs(3));
    probe.handle_timeout(deadline);
    assert_eq!(failed_step(&mut probe), ProbeStep::Hello);
}

#[test]
fn the_conversation_with_a_proxy_is_a_step_of_its_own() {
    let behind_proxy = || {
        let mut options = ClientOptions::default();
        options.socks5_proxy = Some(crate::options::Socks5Proxy::new("proxy"));
        let mut probe = probe_of(options);
        assert_eq!(probe.dial_address(), &Address::tcp("proxy", 1080));
        assert_eq!(probe.step(), ProbeStep::Connect);
        probe.handle_connected(START);
        assert_eq!(probe.step(), ProbeStep::Proxy);
        probe
    };
    let mut probe = behind_proxy();
    probe.handle_received(START, &[5, 0, 5, 4]);
    assert_eq!(failed_step(&mut probe), ProbeStep::Proxy);

    let mut probe = behind_proxy();
    probe.handle_closed();
    assert_eq!(failed_step(&mut probe), ProbeStep::Proxy);

    let mut probe = behind_proxy();
    probe.handle_received(START, &[5, 0, 5, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    let connected = probe.poll_output();
    assert!(matches!(connected, Some(ProbeOutput::ProxyConnected)));
    assert!(probe.poll_output().is_none());
    probe.handle_closed();
    assert_eq!(failed_step(&mut probe), ProbeStep::Hello);
}

/// Transfers bytes between a probe and a server until neither has any. Returns the plaintext that
/// the server received.
fn transfer(probe: &mut Probe, server: &mut ServerConnection) -> Vec<u8> {
    let mut plain = Vec::new();
    loop {
        let request = request_of(probe);
        let mut bytes = &request[..];
        while !bytes.is_empty() {
            server.read_tls(&mut bytes).expect("room");
            server.process_new_packets().expect("valid records");
        }
        let _blocked = server.reader().read_to_end(&mut plain);
        let mut reply = Vec::new();
        while server.wants_write() {
            server.write_tls(&mut reply).expect("a vector");
        }
        if request.is_empty() && reply.is_empty() {
            return plain;
        }
        probe.handle_received(START, &reply);
    }
}

#[test]
fn the_facts_of_tls_are_reported_before_the_reply_to_hello() {
    let authority = Authority::new();
    let mut options = ClientOptions::default();
    options.tls = Some(authority.options().into());
    let mut probe = probe_of(options);
    let mut server = authority.server(&TLS13, false);
    probe.handle_connected(START);
    let request = transfer(&mut probe, &mut server);
    match probe.poll_output() {
        Some(ProbeOutput::TlsEstablished(facts)) => {
            assert_eq!(facts.version, "TLS 1.3");
            assert!(facts.cipher_suite.starts_with("TLS13_"), "{facts:?}");
            assert_eq!(facts.certificates.len(), 1, "that of the server");
        }
        other => panic!("{other:?}"),
    }
    assert!(probe.poll_output().is_none());
    let reply = reply_to(&request, &primary());
    server.writer().write_all(&reply).expect("room");
    transfer(&mut probe, &mut server);
    assert!(matches!(
        probe.poll_output(),
        Some(ProbeOutput::HelloAnswered { .. })
    ));
    assert!(matches!(
        probe.poll_output(),
        Some(ProbeOutput::Ready { mechanism: None })
    ));
}

#[test]
fn eligible_servers_are_suitable_and_lie_in_the_latency_window() {
    // The latency window begins at the fastest suitable server (SEL-57).
    let mut topology = TopologyDescription::unknown(TopologyId(ObjectId::from_bytes([0; 12])));
    topology.topology_type = TopologyType::ReplicaSetWithPrimary;
    for (host, server_type, millis) in [
        ("a", ServerType::RsPrimary, 1),
        ("b", ServerType::RsSecondary, 30),
        ("c", ServerType::RsSecondary, 40),
        ("d", ServerType::RsSecondary, 90),
        ("e", ServerType::Unknown, 1),
    ] {
        let address = Address::tcp(host, 1);
        let mut server = ServerDescription::unknown(address.clone());
        server.server_type = server_type;
        server.round_trip_time = Some(Duration::from_millis(millis));
        topology.servers.insert(address, Arc::new(server));
    }
    let options = ClientOptions::default();
    for (mode, expected) in [
        (ReadMode::Primary, "a:1"),
        (ReadMode::PrimaryPreferred, "a:1"),
        (ReadMode::Secondary, "b:1 c:1"),
        (ReadMode::SecondaryPreferred, "b:1 c:1"),
        (ReadMode::Nearest, "a:1"),
    ] {
        let found = eligible_servers(&topology, &ReadPreference::new(mode), &options);
        let found: Vec<String> = found
            .expect("no limit")
            .iter()
            .map(Address::to_string)
            .collect();
        assert_eq!(found.join(" "), expected, "{mode:?}");
    }
    // A maximum staleness below 90 seconds is an error (STALE-6).
    let stale = ReadPreference::new(ReadMode::Nearest);
    let stale = stale
        .with_max_staleness(Duration::from_secs(89))
        .expect("positive");
    assert!(eligible_servers(&topology, &stale, &options).is_err());
}

/// A Kerberos library that gives one token.
struct OneToken;

impl Kerberos for OneToken {
    fn canonical_name(&self, _: &str, _: CanonicalizeHostName) -> Result<String, String> {
        Err("no name is made canonical".to_owned())
    }

    fn begin(&self, target: &KerberosTarget) -> Result<Box<dyn SecurityContext>, String> {
        assert_eq!(target.service, "mongodb/db.example.net@R");
        Ok(Box::new(Self))
    }
}

impl SecurityContext for OneToken {
    fn step(&mut self, _: Option<&[u8]>) -> Result<Option<Vec<u8>>, String> {
        Ok(Some(b"token".to_vec()))
    }

    fn is_complete(&self) -> bool {
        true
    }

    fn unwrap(&mut self, message: &[u8]) -> Result<Vec<u8>, String> {
        Ok(message.to_vec())
    }

    fn wrap(&mut self, content: &[u8]) -> Result<Vec<u8>, String> {
        Ok(content.to_vec())
    }
}

#[test]
fn a_probe_reports_the_steps_of_kerberos_and_the_mechanism() {
    let text = "mongodb://ada%40R@db.example.net/?authMechanism=GSSAPI";
    let mut options = crate::uri::parse(text).expect("valid").options;
    options.set_kerberos(Some(Arc::new(OneToken)));
    let mut probe = probe_of(options);
    probe.handle_connected(START);
    let request = request_of(&mut probe);
    probe.handle_received(START, &reply_to(&request, &primary()));
    let hello = probe.poll_output();
    assert!(matches!(hello, Some(ProbeOutput::HelloAnswered { .. })));
    // The token of the library, and the answer to the offer of the server.
    for payload in ["AQAAAA==", ""] {
        match probe.poll_output() {
            Some(ProbeOutput::KerberosStepNeeded(work)) => {
                probe.handle_kerberos_step(START, work.run());
            }
            other => panic!("{other:?}"),
        }
        let request = request_of(&mut probe);
        let reply = rawdoc! {
            "ok": 1, "conversationId": 1, "done": payload.is_empty(), "payload": payload,
        };
        probe.handle_received(START, &reply_to(&request, &reply));
    }
    let Some(ProbeOutput::Ready { mechanism }) = probe.poll_output() else {
        panic!("the probe is not ready");
    };
    assert_eq!(mechanism, Some(AuthMechanism::Gssapi));
}
