//! Commands of administration: logs, parameters, fail points, users and roles.

use super::{
    fidelity::{code, fill},
    world::{World, of_release, send, set_of, standalone, with_primary},
};
use crate::deployment::{ConnId, DeploymentOptions};
use bson::{Bson, Document, Timestamp, bson, doc, spec::BinarySubtype};
use onionskin_core::address::Address;

fn router() -> (World, ConnId) {
    let options = DeploymentOptions::sharded(vec![Address::tcp("r", 1)]);
    let mut world = World::new(options, 1);
    let conn = world.connect(0);
    (world, conn)
}

/// Sends a command to the database `admin`.
fn administer(world: &mut World, conn: ConnId, mut command: Document) -> Document {
    command.insert("$db", "admin");
    send(world, conn, command)
}

fn error(reply: &Document) -> (i32, &str) {
    let text = reply.get_str("errmsg").unwrap_or_default();
    (reply.get_i32("code").unwrap_or(0), text)
}

#[test]
fn commands_that_are_not_implemented_are_unknown() {
    let is_refused = |reply: &Document| {
        assert_eq!(error(reply).0, 59, "{reply}");
        reply.contains_key("errInfo")
    };
    let everywhere = ["rolesInfo", "createRole", "listCommands", "compact"];
    let (mut single, single_conn) = standalone();
    let (mut router, router_conn) = router();
    for name in everywhere {
        let reply = administer(&mut single, single_conn, doc! { name: "x" });
        assert!(is_refused(&reply), "{reply}");
        assert_eq!(reply.get_str("codeName").ok(), Some("CommandNotFound"));
        let reply = administer(&mut router, router_conn, doc! { name: "x" });
        assert_eq!(is_refused(&reply), name != "compact", "{reply}");
    }
    for name in ["split", "moveChunk", "balancerStatus"] {
        let reply = administer(&mut router, router_conn, doc! { name: "d.c" });
        assert!(is_refused(&reply), "{reply}");
        let reply = administer(&mut single, single_conn, doc! { name: "d.c" });
        assert!(!is_refused(&reply), "{reply}");
    }
    for (release, expected) in [([5, 0, 31], true), ([5, 1, 0], false)] {
        let (mut world, conn) = of_release(release);
        let reply = administer(&mut world, conn, doc! { "getLastError": 1 });
        assert_eq!(is_refused(&reply), expected, "{release:?}: {reply}");
    }
    for (release, expected) in [([4, 2, 25], 16149), ([4, 4, 29], 31264)] {
        let (mut world, conn) = of_release(release);
        let reply = administer(&mut world, conn, doc! { "mapReduce": "c" });
        assert_eq!(error(&reply).0, expected, "{release:?}: {reply}");
    }
}

#[test]
fn a_set_is_initialized_and_other_servers_have_no_set() {
    let initiate = || doc! { "replSetInitiate": {} };
    let (mut world, _, conn) = with_primary();
    let reply = administer(&mut world, conn, initiate());
    assert_eq!(error(&reply), (23, "already initialized"));
    assert_eq!(reply.get_str("codeName").ok(), Some("AlreadyInitialized"));
    let (mut world, conn) = standalone();
    let reply = administer(&mut world, conn, initiate());
    let text = "This node was not started with replication enabled.";
    assert_eq!(error(&reply), (76, text));
    let (mut world, conn) = router();
    let reply = administer(&mut world, conn, initiate());
    assert_eq!(error(&reply).0, 59, "{reply}");
}

#[test]
fn logs_have_names() {
    let (mut world, conn) = standalone();
    let reply = administer(&mut world, conn, doc! { "getLog": "*" });
    let names = reply.get_array("names").expect("names");
    assert_eq!(names, &[Bson::from("global"), "startupWarnings".into()]);
    let reply = administer(&mut world, conn, doc! { "getLog": "global" });
    assert_eq!(reply.get_array("log").map(Vec::len).ok(), Some(0));
    for (name, expected) in [
        (Bson::from("foo"), (96, "No log named 'foo'")),
        (
            Bson::Null,
            (
                40414,
                "BSON field 'getLog.getLog' is missing but a required field",
            ),
        ),
        (
            5.into(),
            (
                14,
                "BSON field 'getLog.getLog' is the wrong type 'int', expected type 'string'",
            ),
        ),
    ] {
        let reply = administer(&mut world, conn, doc! { "getLog": name });
        assert_eq!(error(&reply), expected);
    }
}

#[test]
fn parameters_that_are_not_implemented_are_unknown() {
    let (mut world, conn) = standalone();
    for command in ["setParameter", "getParameter"] {
        for (name, is_refused) in [("logLevel", true), ("bogus", false)] {
            let reply = administer(&mut world, conn, doc! { command: 1, name: 1 });
            assert_eq!(error(&reply).0, 72, "{reply}");
            assert_eq!(reply.contains_key("errInfo"), is_refused, "{reply}");
        }
    }
}

#[test]
fn an_unknown_parameter_is_refused_before_another_one_is_set() {
    let (mut world, conn) = standalone();
    let name = "transactionLifetimeLimitSeconds";
    let command = doc! { "setParameter": 1, name: 5, "bogus": 1, "$db": "admin" };
    let reply = administer(&mut world, conn, command);
    assert_eq!(error(&reply).0, 72, "{reply}");
    let reply = administer(&mut world, conn, doc! { "getParameter": 1, name: 1 });
    assert_eq!(reply.get_i32(name).ok(), Some(60), "{reply}");
    let reply = administer(&mut world, conn, doc! { "setParameter": 1 });
    let expected = "no option found to set, use help:true to see options ";
    assert_eq!(error(&reply), (72, expected));
}

#[test]
fn the_mode_of_a_fail_point_is_checked() {
    let (mut world, conn) = standalone();
    for (mode, expected) in [
        (
            bson!({ "times": "a" }),
            (
                14,
                "Expected field \"times\" to have numeric type, but found string",
            ),
        ),
        (
            bson!({ "times": -1 }),
            (2, "'times' option to 'mode' must be positive"),
        ),
        (
            bson!({ "skip": 2_147_483_648_i64 }),
            (2, "'skip' option to 'mode' is too large"),
        ),
        (
            bson!({ "activationProbability": 1.5 }),
            (
                2,
                "activationProbability must be between 0.0 and 1.0; found 1.5",
            ),
        ),
        ("on".into(), (2, "unknown mode: on")),
    ] {
        let set = doc! { "configureFailPoint": "failCommand", "mode": mode, "data": {} };
        let reply = administer(&mut world, conn, set);
        assert_eq!(error(&reply), expected);
    }
}

#[test]
fn a_fail_point_does_not_act_on_an_unknown_command() {
    let (mut world, conn) = standalone();
    let data = doc! { "failCommands": ["nope", "ping"], "errorCode": 8 };
    let set = doc! { "configureFailPoint": "failCommand", "mode": { "times": 1 }, "data": data };
    administer(&mut world, conn, set);
    assert_eq!(code(&mut world, conn, doc! { "nope": 1 }), Some(59));
    assert_eq!(code(&mut world, conn, doc! { "ping": 1 }), Some(8));
    assert_eq!(code(&mut world, conn, doc! { "ping": 1 }), None);
}

#[test]
fn users_have_ids_and_an_update_has_a_field() {
    let (mut world, conn) = standalone();
    for name in ["eve", "ada"] {
        let create = doc! { "createUser": name, "pwd": "x", "roles": [] };
        assert_eq!(error(&administer(&mut world, conn, create)).0, 0);
    }
    let reply = administer(&mut world, conn, doc! { "updateUser": "eve" });
    let text = "Must specify at least one field to update in updateUser";
    assert_eq!(error(&reply), (2, text));
    let reply = administer(&mut world, conn, doc! { "usersInfo": 1 });
    let users = reply.get_array("users").expect("users");
    let id = |user: &Bson| match user.as_document().and_then(|user| user.get("userId")) {
        Some(Bson::Binary(id)) => id.clone(),
        other => panic!("{other:?}"),
    };
    let (ada, eve) = (id(&users[0]), id(&users[1]));
    assert_eq!((ada.subtype, ada.bytes.len()), (BinarySubtype::Uuid, 16));
    assert_ne!(ada, eve);
}

#[test]
fn a_conversation_has_a_mechanism() {
    let (mut world, conn) = standalone();
    let reply = administer(&mut world, conn, doc! { "saslStart": 1, "payload": "" });
    let text = "BSON field 'saslStart.mechanism' is missing but a required field";
    assert_eq!(error(&reply), (40414, text));
}

#[test]
fn a_cluster_time_has_a_time() {
    let zero = Timestamp {
        time: 0,
        increment: 1,
    };
    let (mut set, _, set_conn) = with_primary();
    let (mut single, single_conn) = standalone();
    for (time, expected) in [
        (doc! {}, 40414),
        (doc! { "clusterTime": 5 }, 14),
        (doc! { "clusterTime": zero }, 0),
    ] {
        let ping = doc! { "ping": 1, "$clusterTime": time };
        let reply = send(&mut set, set_conn, ping.clone());
        assert_eq!(error(&reply).0, expected, "{reply}");
        let reply = send(&mut single, single_conn, ping);
        assert_eq!(error(&reply).0, 0, "{reply}");
    }
}

#[test]
fn a_hint_has_a_direction_and_a_key_no_null_byte() {
    let (mut world, conn) = standalone();
    fill(&mut world, conn, 2);
    for natural in [Bson::Int32(2), "x".into(), 0.into()] {
        let hint = doc! { "$natural": natural };
        for collection in ["c", "none"] {
            let find = doc! { "find": collection, "hint": hint.clone() };
            let reply = send(&mut world, conn, find);
            let text = "$natural hint cannot be set to a value other than -1 or 1.";
            assert_eq!(error(&reply), (2, text));
        }
    }
    let find = doc! { "find": "c", "hint": { "$natural": 1.0 } };
    assert_eq!(code(&mut world, conn, find), None);
    let reply = send(&mut world, conn, doc! { "distinct": "c", "key": "a\0b" });
    let text = "Key field cannot contain an embedded null byte";
    assert_eq!(error(&reply), (31032, text));
}

#[test]
fn validation_shows_the_uuid_and_the_drop_of_a_view_no_indexes() {
    let (mut world, conn) = standalone();
    fill(&mut world, conn, 1);
    let view = doc! { "create": "v", "viewOn": "c", "pipeline": [] };
    assert_eq!(code(&mut world, conn, view), None);
    let listed = doc! { "listCollections": 1, "filter": { "name": "c" } };
    let listed = send(&mut world, conn, listed);
    let entry = super::fidelity::batch(&listed)[0].as_document();
    let info = entry.and_then(|entry| entry.get_document("info").ok());
    let uuid = info.and_then(|info| info.get("uuid")).expect("a UUID");
    let reply = send(&mut world, conn, doc! { "validate": "c" });
    assert_eq!(reply.get("uuid"), Some(uuid), "{reply}");
    let reply = send(&mut world, conn, doc! { "drop": "v" });
    assert_eq!(reply, doc! { "ns": "d.v", "ok": 1.0 });
}

#[test]
fn a_hello_checks_its_fields_and_has_those_of_a_server_in_their_order() {
    let mut world = World::new(set_of(1), 1);
    let conn = world.connect(0);
    let client = |client: Document| doc! { "hello": 1, "client": client };
    let long = "x".repeat(129);
    for (command, expected) in [
        (
            doc! { "hello": 1, "client": 5 },
            (14, "The client metadata document must be a document"),
        ),
        (
            client(doc! { "application": { "name": long } }),
            (
                184,
                "The 'application.name' field must be less then or equal to 128 bytes in length",
            ),
        ),
        (
            client(doc! { "application": { "name": 5 } }),
            (
                14,
                "The 'application.name' field must be a string in the client metadata document",
            ),
        ),
        (
            doc! { "isMaster": 1, "topologyVersion": 5, "maxAwaitTimeMS": 1 },
            (
                14,
                "BSON field 'hello.topologyVersion' is the wrong type 'int', expected type \
                 'object'",
            ),
        ),
        (
            doc! { "hello": 1, "saslSupportedMechs": 5 },
            (2, "UserName must be either a string or an object"),
        ),
    ] {
        let reply = administer(&mut world, conn, command);
        assert_eq!(error(&reply), expected);
    }
    let reply = administer(&mut world, conn, doc! { "hello": 1 });
    let last = [
        "localTime",
        "logicalSessionTimeoutMinutes",
        "connectionId",
        "minWireVersion",
        "maxWireVersion",
        "readOnly",
    ];
    let names: Vec<&str> = reply.keys().map(String::as_str).collect();
    let start = names.iter().position(|name| *name == last[0]);
    let start = start.expect("a time");
    assert_eq!(names[start..start + last.len()], last);
}
