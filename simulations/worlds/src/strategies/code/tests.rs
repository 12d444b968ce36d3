//! Tests of the code of values. Most of them compare the code of a value with the code that has
//! made the value.

use super::super::{
    Cause, ClientCause, Failure, Hello, History, Incident, Role, Step, address, failures,
    incident_histories, incidents_code, lying_histories, replica_set_histories, replica_set_steps,
    reply_code, server_code, topology_code, topology_version_code,
};
use bson::rawdoc;
use proptest::prelude::*;

/// Removes white space and commas at the end of a list, which do not change the value.
fn tokens(code: &str) -> String {
    let mut text: String = code.chars().filter(|c| !c.is_whitespace()).collect();
    for end in ["]", "}", ")"] {
        text = text.replace(&format!(",{end}"), end);
    }
    text
}

fn assert_code<T>(code: impl Fn(&T) -> String, value: &T, expected: &str) {
    assert_eq!(tokens(&code(value)), tokens(expected));
}

/// Asserts that each value prints the expression by which it is given here. `$code` returns the
/// code of a value.
macro_rules! assert_codes {
    ($code:expr; $($value:expr),+ $(,)?) => {
        $(assert_code($code, &$value, stringify!($value));)+
    };
}

#[test]
fn each_type_of_a_reply_has_its_code() {
    assert_codes!(
        |reply: &bson::RawDocumentBuf| reply_code(reply);
        bson::rawdoc! {},
        bson::rawdoc! { "ok": 1_i32, "counter": -2_i64, "half": 1.5_f64, "yes": true },
        bson::rawdoc! { "quoted": "x\"y", "none": null, "list": ["s", [], { "t": 1_i32 }, {}] },
        bson::rawdoc! {
            "id": bson::oid::ObjectId::from_bytes([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]),
            "date": bson::DateTime::from_millis(5),
            "timestamp": bson::Timestamp { time: 7, increment: 1 },
            "bytes": bson::Binary {
                subtype: bson::spec::BinarySubtype::Generic,
                bytes: vec![1, 2],
            }
        },
        bson::RawDocumentBuf::from_bytes(vec![8, 0, 0, 0, 127, 97, 0, 0]).unwrap(),
    );
}

#[test]
fn a_reply_that_the_macro_cannot_have_is_printed_as_bytes() {
    let names: bson::RawArrayBuf = (0..50).map(|number| number.to_string()).collect();
    let mut long = bson::RawDocumentBuf::new();
    long.append(bson::cstr!("hosts"), names);
    for reply in [long, rawdoc! { "odd": f64::NAN }] {
        let code = reply_code(&reply);
        let bytes = format!("{:?}", reply.as_bytes());
        assert_eq!(
            code,
            format!("bson::RawDocumentBuf::from_bytes(vec!{bytes}).unwrap()")
        );
    }
}

#[test]
fn each_cause_of_a_failure_has_its_code() {
    assert_codes!(
        Failure::code;
        Failure {
            phase: onionskin_core::unstable::sdam::Phase::Proxy,
            cause: Cause::Network(onionskin_core::error::NetworkFault::Reset),
            overloaded: false,
        },
        Failure {
            phase: onionskin_core::unstable::sdam::Phase::Hello,
            cause: Cause::Timeout,
            overloaded: true,
        },
        Failure {
            phase: onionskin_core::unstable::sdam::Phase::Authentication,
            cause: Cause::Tls(onionskin_core::error::TlsFault::HostName),
            overloaded: false,
        },
        Failure {
            phase: onionskin_core::unstable::sdam::Phase::Hello,
            cause: Cause::Nonsense,
            overloaded: false,
        },
        Failure {
            phase: onionskin_core::unstable::sdam::Phase::Operation,
            cause: Cause::Reply(bson::rawdoc! { "ok": 0_i32, "code": 91_i32 }),
            overloaded: false,
        },
        Failure {
            phase: onionskin_core::unstable::sdam::Phase::Authentication,
            cause: Cause::Refused(bson::rawdoc! { "ok": 0_i32, "errmsg": "not master" }),
            overloaded: false,
        },
        Failure {
            phase: onionskin_core::unstable::sdam::Phase::Operation,
            cause: Cause::Client(ClientCause::WaitQueueTimeout),
            overloaded: false,
        },
    );
}

#[test]
fn incidents_have_code() {
    assert_codes!(
        |incidents: &Vec<Incident>| incidents_code(incidents);
        vec![
            Incident {
                server: address(1),
                age: 2,
                failure: Failure {
                    phase: onionskin_core::unstable::sdam::Phase::Operation,
                    cause: Cause::Timeout,
                    overloaded: false,
                },
            },
            Incident {
                server: "h.example.net:1"
                    .parse::<onionskin_core::address::Address>()
                    .unwrap(),
                age: 0,
                failure: Failure {
                    phase: onionskin_core::unstable::sdam::Phase::Hello,
                    cause: Cause::Nonsense,
                    overloaded: false,
                },
            },
        ],
    );
}

#[test]
fn histories_of_a_replica_set_have_code() {
    assert_codes!(
        History::code;
        History {
            seeds: vec![address(0), address(3)],
            set_name: Some("rs".to_owned()),
            hellos: vec![
                Hello {
                    server: address(3),
                    reply: Some(bson::rawdoc! { "ok": 1_i32, "hosts": ["a.example.net:27017"] }),
                },
                Hello {
                    server: address(0),
                    reply: None,
                },
            ],
        },
        History {
            seeds: vec![],
            set_name: None,
            hellos: vec![],
        },
    );
}

#[test]
fn steps_and_topology_versions_have_code() {
    assert_codes!(
        |step: &Step| step.code();
        Step::Elect(1),
        Step::Learn(0),
        Step::StepDown(1),
        Step::Stop(2),
        Step::Start(2),
        Step::Recover(3),
        Step::Add(4, Role::Arbiter),
        Step::Remove(4),
    );
    assert_codes!(
        |version: &onionskin_core::error::TopologyVersion| topology_version_code(*version);
        onionskin_core::error::TopologyVersion {
            process_id: bson::oid::ObjectId::from_bytes([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 1]),
            counter: -3,
        },
    );
}

#[test]
fn each_field_of_a_server_has_its_code() {
    assert_codes!(
        server_code;
        onionskin_core::description::ServerDescription {
            server_type: onionskin_core::description::ServerType::RsPrimary,
            error: Some(onionskin_core::error::Error::network(
                onionskin_core::error::NetworkFault::Refused,
                "nobody listens",
            )),
            min_wire_version: 6,
            max_wire_version: 21,
            round_trip_time: Some(std::time::Duration::new(1, 5000)),
            min_round_trip_time: std::time::Duration::new(0, 4000),
            last_update_time: Some(onionskin_core::time::Instant::from_nanos(8)),
            last_write_date: Some(onionskin_core::time::WallTime::from_unix_millis(9)),
            op_time: Some(onionskin_core::description::OpTime {
                timestamp: bson::Timestamp { time: 7, increment: 1 },
                term: Some(3),
            }),
            set_name: Some("rs".to_owned()),
            set_version: Some(4),
            election_id: Some(bson::oid::ObjectId::from_bytes([
                7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7
            ])),
            me: Some(address(1)),
            primary: Some(address(0)),
            hosts: vec![address(0), address(1)],
            passives: vec![address(2)],
            arbiters: vec![address(3)],
            tags: [
                ("dc".to_owned(), "east".to_owned()),
                ("rack".to_owned(), "1".to_owned()),
            ]
            .into(),
            logical_session_timeout_minutes: Some(30),
            topology_version: Some(onionskin_core::error::TopologyVersion {
                process_id: bson::oid::ObjectId::from_bytes([
                    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 1
                ]),
                counter: 5,
            }),
            is_cryptd: true,
            ..onionskin_core::description::ServerDescription::unknown(address(0))
        },
        onionskin_core::description::ServerDescription {
            ..onionskin_core::description::ServerDescription::unknown(address(4))
        },
    );
}

#[test]
fn each_field_of_a_topology_has_its_code() {
    assert_codes!(
        topology_code;
        onionskin_core::description::TopologyDescription {
            topology_type: onionskin_core::description::TopologyType::ReplicaSetNoPrimary,
            set_name: Some("rs".to_owned()),
            max_election_id: Some(bson::oid::ObjectId::from_bytes([
                7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7
            ])),
            max_set_version: Some(4),
            servers: [
                onionskin_core::description::ServerDescription {
                    ..onionskin_core::description::ServerDescription::unknown(address(0))
                },
                onionskin_core::description::ServerDescription {
                    max_wire_version: 21,
                    ..onionskin_core::description::ServerDescription::unknown(address(1))
                },
            ]
            .map(|server| (server.address.clone(), std::sync::Arc::new(server)))
            .into(),
            compatibility_error: Some("too old".to_owned()),
            logical_session_timeout_minutes: Some(30),
            ..onionskin_core::description::TopologyDescription::unknown(
                onionskin_core::description::TopologyId(bson::oid::ObjectId::from_bytes([
                    1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1
                ]))
            )
        },
    );
}

proptest! {
    #[test]
    fn each_history_has_code(
        history in prop_oneof![replica_set_histories(), lying_histories(false)],
    ) {
        let code = history.code();
        let lines = code.lines().filter(|line| line.contains("Hello {"));
        prop_assert_eq!(lines.count(), history.hellos.len());
    }

    #[test]
    fn different_values_have_different_code(
        failure in failures(),
        other in failures(),
        incidents in incident_histories(),
        step in replica_set_steps(),
        other_step in replica_set_steps(),
    ) {
        prop_assert_eq!(failure == other, failure.code() == other.code());
        prop_assert_eq!(step == other_step, step.code() == other_step.code());
        prop_assert_eq!(incidents_code(&incidents).lines().count(), incidents.len() + 2);
    }
}
