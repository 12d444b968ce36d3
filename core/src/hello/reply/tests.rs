//! Tests of the parsing of replies, hostile ones included.

use super::*;
use bson::{DateTime, Timestamp, rawdoc};

#[test]
fn the_server_type_follows_from_the_first_matching_rule() {
    // The list covers rows 1 to 9 of table A.2.2, and the first row that matches decides (SDAM-40).
    // So `hidden` comes before primary and secondary. `ismaster` counts only without
    // `isWritablePrimary` (SDAM-39; A.11, trap 2).
    for (reply, expected) in [
        (rawdoc! {}, ServerType::Unknown),
        (rawdoc! { "ok": 0, "msg": "isdbgrid" }, ServerType::Unknown),
        (rawdoc! { "ok": 1 }, ServerType::Standalone),
        (
            rawdoc! { "ok": 1.0, "ismaster": true },
            ServerType::Standalone,
        ),
        (rawdoc! { "ok": 1, "msg": "isdbgrid" }, ServerType::Mongos),
        (
            rawdoc! { "ok": 1, "isreplicaset": true, "setName": "rs", "msg": "isdbgrid" },
            ServerType::RsGhost,
        ),
        (
            rawdoc! { "ok": 1, "setName": "rs", "hidden": true, "secondary": true },
            ServerType::RsOther,
        ),
        (
            rawdoc! { "ok": 1, "setName": "rs", "isWritablePrimary": true },
            ServerType::RsPrimary,
        ),
        (
            rawdoc! { "ok": 1, "setName": "rs", "ismaster": true },
            ServerType::RsPrimary,
        ),
        (
            rawdoc! {
                "ok": 1, "setName": "rs", "isWritablePrimary": false, "ismaster": true,
                "secondary": true,
            },
            ServerType::RsSecondary,
        ),
        (
            rawdoc! { "ok": 1, "setName": "rs", "arbiterOnly": true },
            ServerType::RsArbiter,
        ),
        (rawdoc! { "ok": 1, "setName": "rs" }, ServerType::RsOther),
    ] {
        assert_eq!(HelloReply::parse(&reply).server_type, expected, "{reply:?}");
    }
}

#[test]
fn size_limits_in_a_hello_reply_are_clamped() {
    for (sent, expected) in [
        (1_i64, (1, 1, 1)),
        (0, (16_777_216, MAX_MESSAGE_BYTES, 100_000)),
        (-5, (16_777_216, MAX_MESSAGE_BYTES, 100_000)),
        (i64::MAX, (MAX_MESSAGE_BYTES, MAX_MESSAGE_BYTES, 100_000)),
    ] {
        let reply = HelloReply::parse(&rawdoc! {
            "ok": 1, "maxBsonObjectSize": sent, "maxMessageSizeBytes": sent,
            "maxWriteBatchSize": sent,
        });
        let sizes = (
            reply.max_bson_object_size,
            reply.max_message_size_bytes,
            reply.max_write_batch_size,
        );
        assert_eq!(sizes, expected, "{sent}");
    }
}

#[test]
fn member_addresses_are_validated_lower_cased_sorted_and_bounded() {
    // Host names are turned into lower case (SDAM-53). Entries that are not valid TCP addresses are
    // dropped.
    let reply = HelloReply::parse(&rawdoc! {
        "ok": 1, "setName": "rs", "me": "B:1", "primary": "A:1",
        "hosts": ["B:1", "a:1", "b:1", 7, "a:0", "x y z:", "/run/other.sock"],
        "passives": "c:1",
    });
    assert_eq!(reply.hosts, [Address::tcp("a", 1), Address::tcp("b", 1)]);
    assert_eq!(
        (reply.passives.len(), reply.me),
        (0, Some(Address::tcp("b", 1)))
    );
    assert_eq!(reply.primary, Some(Address::tcp("a", 1)));
    let mut many = bson::RawArrayBuf::new();
    for port in 1..=2000 {
        many.push(format!("a:{port}"));
    }
    let reply = HelloReply::parse(&rawdoc! { "ok": 1, "hosts": many });
    assert_eq!(reply.hosts.len(), MAX_MEMBERS);
}

#[test]
fn all_other_hello_fields_are_parsed_or_have_defaults() {
    let id = ObjectId::from_bytes([5; 12]);
    let reply = HelloReply::parse(&rawdoc! {
        "ok": 1, "helloOk": true, "setVersion": 3.0, "electionId": id, "serviceId": id,
        "tags": { "dc": "ny", "odd": 1 },
        "lastWrite": {
            "lastWriteDate": DateTime::from_millis(12),
            "opTime": { "ts": Timestamp { time: 3, increment: 4 }, "t": 5_i64 },
        },
        "minWireVersion": 6, "maxWireVersion": 21_i64, "logicalSessionTimeoutMinutes": 30,
        "connectionId": 9, "compression": ["zlib", 1], "saslSupportedMechs": ["SCRAM-SHA-1"],
        "speculativeAuthenticate": { "done": false }, "iscryptd": true,
    });
    assert_eq!((reply.set_version, reply.election_id), (Some(3), Some(id)));
    assert_eq!((reply.service_id, reply.hello_ok), (Some(id), true));
    assert_eq!(reply.tags, Tags::from([("dc".to_owned(), "ny".to_owned())]));
    assert_eq!(reply.last_write_date, Some(WallTime::from_unix_millis(12)));
    let timestamp = Timestamp {
        time: 3,
        increment: 4,
    };
    let term = Some(5);
    assert_eq!(reply.op_time, Some(OpTime { timestamp, term }));
    assert_eq!((reply.min_wire_version, reply.max_wire_version), (6, 21));
    assert_eq!(reply.logical_session_timeout_minutes, Some(30));
    assert_eq!((reply.connection_id, reply.is_cryptd), (Some(9), true));
    assert_eq!(reply.compression, ["zlib"]);
    assert_eq!(
        reply.sasl_supported_mechs,
        Some(vec!["SCRAM-SHA-1".to_owned()])
    );
    assert_eq!(
        reply.speculative_authenticate,
        Some(rawdoc! { "done": false })
    );

    let bare = HelloReply::parse(&rawdoc! { "ok": 1 });
    assert_eq!((bare.min_wire_version, bare.max_wire_version), (0, 0));
    assert_eq!(
        (bare.sasl_supported_mechs, bare.last_write_date),
        (None, None)
    );
    assert_eq!(
        (bare.set_name, bare.set_version, bare.hello_ok),
        (None, None, false)
    );
}

#[test]
fn an_op_time_without_term_is_parsed_and_an_invalid_one_is_ignored() {
    // An `opTime` may lack a term, and one without a timestamp counts as absent (SDAM-50).
    let timestamp = Timestamp {
        time: 3,
        increment: 4,
    };
    let term = None;
    for (sent, expected) in [
        (
            rawdoc! { "opTime": timestamp },
            Some(OpTime { timestamp, term }),
        ),
        (
            rawdoc! { "opTime": { "ts": timestamp, "t": "x" } },
            Some(OpTime { timestamp, term }),
        ),
        (rawdoc! { "opTime": { "t": 5 } }, None),
        (rawdoc! { "opTime": 7 }, None),
        (rawdoc! {}, None),
    ] {
        let reply = HelloReply::parse(&rawdoc! { "ok": 1, "lastWrite": sent });
        assert_eq!(reply.op_time, expected);
    }
}

#[test]
fn oversized_hello_fields_count_as_absent() {
    let long = "x".repeat(MAX_NAME_BYTES + 1);
    let host = "h".repeat(MAX_HOST_BYTES + 1);
    let version = rawdoc! {
        "processId": ObjectId::from_bytes([1; 12]), "counter": 1_i64, "x": long.as_str(),
    };
    let mut tags = rawdoc! { "rack": "one", "long": long.as_str() };
    tags.append(
        bson::raw::CString::try_from(long.clone()).expect("no NUL"),
        "x",
    );
    let reply = rawdoc! {
        "ok": 1, "setName": long.as_str(), "isWritablePrimary": true,
        "hosts": ["a:1", host.as_str()], "me": host.as_str(), "primary": host.as_str(),
        "tags": tags, "compression": ["zlib", long.as_str()],
        "saslSupportedMechs": [long.as_str(), "SCRAM-SHA-1"],
        "topologyVersion": version,
        "lastWrite": { "lastWriteDate": DateTime::from_millis(1), "x": long.as_str() },
        "speculativeAuthenticate": { "payload": "x".repeat(MAX_SPECULATIVE_BYTES) },
    };
    let hello = HelloReply::parse(&reply);
    assert_eq!(
        (&hello.set_name, hello.server_type),
        (&None, ServerType::Standalone)
    );
    assert_eq!((&hello.me, &hello.primary), (&None, &None));
    assert_eq!(hello.hosts, [Address::tcp("a", 1)]);
    assert_eq!(hello.tags.keys().collect::<Vec<_>>(), ["rack"]);
    assert_eq!(hello.compression, ["zlib"]);
    assert_eq!(
        hello.sasl_supported_mechs,
        Some(vec!["SCRAM-SHA-1".to_owned()])
    );
    assert_eq!(
        (hello.topology_version, hello.last_write_date),
        (None, None)
    );
    assert_eq!(hello.speculative_authenticate, None);
}

#[test]
fn names_of_members_follow_the_rules_of_connection_strings() {
    let names = [
        "10.0.0.7\0.mongodb.net:27017",
        "a\nb:1",
        "\x1b[31m:1",
        "a\u{202e}b:1",
        "[x]:1",
        "a%b:1",
        "[2001:db8::66%]:1",
        "a b:1",
    ];
    let hosts = rawdoc! { "ok": 1, "setName": "rs", "me": "a\0:1" };
    let mut reply: bson::Document = (&hosts).try_into().expect("a document");
    reply.insert("hosts", names.map(str::to_owned).to_vec());
    let reply = RawDocumentBuf::try_from(&reply).expect("a document");
    let reply = HelloReply::parse(&reply);
    assert_eq!((reply.me, reply.hosts), (None, Vec::new()));
}
