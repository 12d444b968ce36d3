//! Answers that the suites of other drivers look at.

use super::world::{World, of_release, send, set_of, standalone, with_primary};
use crate::{
    deployment::{DeploymentOptions, ServerVersion},
    legacy::{LegacyQuery, LegacyReply},
};
use bson::{Binary, Bson, Document, Timestamp, bson, doc, rawdoc, spec::BinarySubtype};
use onionskin_core::address::Address;

fn error(reply: &Document) -> (Option<i32>, &str) {
    let text = reply.get_str("errmsg").unwrap_or_default();
    (reply.get_i32("code").ok(), text)
}

#[test]
fn commands_in_op_query_run_before_5_1_and_few_of_them_later() {
    let cases = [
        ([5, 0, 0], "d.$cmd", "ping", None),
        ([5, 0, 0], "d.$cmd", "buildInfo", None),
        (
            [7, 0, 0],
            "d.$cmd",
            "ping",
            Some((352, "Unsupported OP_QUERY command: ping. The")),
        ),
        ([7, 0, 0], "d.$cmd", "buildInfo", None),
        (
            [7, 0, 0],
            "d.c",
            "x",
            Some((5_739_101, "OP_QUERY is no longer supported. The")),
        ),
    ];
    for (release, collection, name, expected) in cases {
        let (mut world, conn) = of_release(release);
        let mut command = bson::RawDocumentBuf::new();
        command.append(bson::raw::CString::try_from(name).expect("a name"), 1);
        let mut bytes = Vec::new();
        LegacyQuery {
            collection,
            command: &command,
        }
        .encode(&mut bytes, 9);
        world.send_bytes(conn, &bytes);
        let (_, sent) = world.sent.last().expect("an answer");
        let reply = LegacyReply::decode(sent).expect("an OP_REPLY").body;
        let reply = Document::try_from(reply).expect("BSON");
        match expected {
            None => assert_eq!(reply.get_f64("ok").ok(), Some(1.0), "{name}: {reply}"),
            Some((code, text)) => {
                assert_eq!(error(&reply).0, Some(code), "{name}: {reply}");
                assert!(error(&reply).1.starts_with(text), "{name}: {reply}");
            }
        }
    }
}

#[test]
fn the_digest_of_a_file_is_that_of_its_chunks_in_order() {
    let (mut world, conn) = standalone();
    let chunk = |n: i32, bytes: &[u8]| {
        let data = Binary {
            subtype: BinarySubtype::Generic,
            bytes: bytes.to_vec(),
        };
        bson!({ "files_id": 7, "n": n, "data": data })
    };
    let chunks = [chunk(1, b"onionskin"), chunk(0, b"hello ")];
    let insert = doc! { "insert": "fs.chunks", "documents": chunks };
    send(&mut world, conn, insert);
    let digest = send(&mut world, conn, doc! { "filemd5": 7, "root": "fs" });
    assert_eq!(digest.get_i32("numChunks").ok(), Some(2));
    // printf 'hello onionskin' | md5sum
    assert_eq!(
        digest.get_str("md5").ok(),
        Some("a80fe0527f570dd09d472a6b75472126")
    );
    let none = send(&mut world, conn, doc! { "filemd5": 8 });
    assert_eq!(
        none.get_str("md5").ok(),
        Some("d41d8cd98f00b204e9800998ecf8427e")
    );
    let gap = doc! { "insert": "fs.chunks", "documents": [chunk(3, b"!")] };
    send(&mut world, conn, gap);
    let reply = send(&mut world, conn, doc! { "filemd5": 7 });
    assert_eq!(error(&reply).0, Some(10040));
}

#[test]
fn an_unacknowledged_write_whose_client_waits_says_nothing_of_its_result() {
    let (mut world, conn) = standalone();
    let twice = doc! {
        "insert": "c", "documents": [{ "_id": 1 }, { "_id": 1 }], "writeConcern": { "w": 0 },
    };
    assert_eq!(send(&mut world, conn, twice), doc! { "ok": 1.0 });
    let count = send(&mut world, conn, doc! { "count": "c" });
    assert_eq!(count.get_i32("n").ok(), Some(1));
}

#[test]
fn a_collection_that_exists_is_an_error_before_7_0() {
    let cases = [
        ([4, 2, 24], "a collection 'd.c' already exists"),
        ([6, 0, 0], "Collection already exists. NS: d.c"),
    ];
    for (release, text) in cases {
        let (mut world, conn) = of_release(release);
        send(&mut world, conn, doc! { "create": "c" });
        let reply = send(&mut world, conn, doc! { "create": "c" });
        assert_eq!(error(&reply), (Some(48), text), "{release:?}");
    }
    let (mut world, conn) = standalone();
    for _ in 0..2 {
        let reply = send(&mut world, conn, doc! { "create": "c" });
        assert_eq!(error(&reply).0, None);
    }
    let options = DeploymentOptions {
        version: ServerVersion {
            release: [6, 0, 0],
            ..ServerVersion::default()
        },
        ..DeploymentOptions::sharded(vec![Address::tcp("r0", 1)])
    };
    let mut world = World::new(options, 1);
    let conn = world.connect(0);
    for _ in 0..2 {
        let create = doc! { "create": "c", "$db": "d" };
        let reply = world.send_command(conn, &create).expect("a reply");
        assert_eq!(error(&reply).0, None, "{reply}");
    }
}

#[test]
fn a_router_passes_on_the_newest_cluster_time_that_it_was_told() {
    let options = DeploymentOptions::sharded(vec![Address::tcp("r0", 1), Address::tcp("r1", 1)]);
    let mut world = World::new(options, 1);
    let conns = [world.connect(0), world.connect(1)];
    let time = |reply: &Document| {
        let cluster = reply.get_document("$clusterTime").expect("it is sent");
        cluster.get_timestamp("clusterTime").expect("a time")
    };
    let insert = doc! { "insert": "c", "documents": [{}], "$db": "d" };
    let newer = world.send_command(conns[0], &insert).expect("a reply");
    let ping = doc! { "ping": 1, "$db": "d", "$clusterTime": newer.get("$clusterTime") };
    let reply = world.send_command(conns[1], &ping).expect("a reply");
    assert_eq!(time(&reply), time(&newer));
    assert_ne!(
        time(&reply),
        Timestamp {
            time: 0,
            increment: 0
        }
    );
    // A time that is too far ahead is refused, and not passed on.
    let ahead = doc! { "clusterTime": Timestamp { time: u32::MAX - 1, increment: 7 } };
    let forged = doc! { "ping": 1, "$db": "d", "$clusterTime": ahead };
    let refused = world.send_command(conns[1], &forged).expect("a reply");
    assert_eq!(error(&refused).0, Some(205));
    assert_eq!(time(&refused), time(&newer));
    let status = doc! { "replSetGetStatus": 1, "$db": "admin" };
    let status = world.send_command(conns[0], &status).expect("a reply");
    assert_eq!(
        error(&status).1,
        "replSetGetStatus is not supported through mongos"
    );
    assert_eq!(status.get_str("info").ok(), Some("mongos"));
}

#[test]
fn errors_after_which_no_stream_resumes_are_labelled_in_every_command() {
    let (mut world, conn) = standalone();
    for (code, labels) in [(280, Some("NonResumableChangeStreamError")), (1, None)] {
        let fail = doc! {
            "configureFailPoint": "failCommand", "mode": { "times": 1 },
            "data": { "failCommands": ["find"], "errorCode": code }, "$db": "admin",
        };
        send(&mut world, conn, fail);
        let reply = send(&mut world, conn, doc! { "find": "c" });
        let found = reply.get_array("errorLabels").ok();
        let found = found.and_then(|labels| labels[0].as_str());
        assert_eq!(found, labels, "{reply}");
    }
}

#[test]
fn write_concerns_that_cannot_be_satisfied_have_the_errors_of_the_server() {
    let insert = |w: Bson| {
        doc! { "insert": "c", "documents": [{}], "writeConcern": { "w": w } }
    };
    let (mut world, conn) = standalone();
    let alone = [
        (
            bson!(99),
            9,
            "w has to be a non-negative number and not greater than 50",
        ),
        (
            bson!(2),
            2,
            "cannot use 'w' > 1 when a host is not replicated",
        ),
        (
            bson!("x"),
            2,
            "cannot use non-majority 'w' mode x when a host is not a member of a replica set",
        ),
    ];
    for (w, code, text) in alone {
        let reply = send(&mut world, conn, insert(w));
        assert_eq!(error(&reply), (Some(code), text));
    }
    let (mut world, _, conn) = with_primary();
    let reply = send(&mut world, conn, insert(bson!("x")));
    let concern = reply.get_document("writeConcernError").expect("an error");
    assert_eq!(
        error(concern),
        (
            Some(79),
            "No write concern mode named 'x' found in replica set configuration"
        )
    );
}

#[test]
fn a_server_counts_its_connections_and_names_the_applications() {
    let mut world = World::new(set_of(1), 1);
    let conns = [world.connect(0), world.connect(0)];
    let hello = rawdoc! { "hello": 1, "$db": "admin", "client": {
        "application": { "name": "app" }, "driver": { "name": "d", "version": "1" },
        "os": { "type": "x" },
    } };
    let hello = Document::try_from(&hello).expect("BSON");
    world.send_command(conns[1], &hello).expect("a reply");
    let status = doc! { "serverStatus": 1, "$db": "admin" };
    let status = world.send_command(conns[1], &status).expect("a reply");
    let connections = status.get_document("connections").expect("counts");
    assert_eq!(connections.get_i32("totalCreated").ok(), Some(2));
    for (conn, count) in [(conns[0], 0), (conns[1], 1)] {
        let current = doc! { "currentOp": 1, "appName": "app", "$db": "admin" };
        let current = world.send_command(conn, &current).expect("a reply");
        let found = current.get_array("inprog").expect("operations");
        assert_eq!(found.len(), count, "{current}");
    }
}

#[test]
fn an_explanation_has_the_port_of_the_server() {
    let (mut world, conn) = of_release([7, 0, 0]);
    let explain = doc! { "explain": { "find": "c" } };
    let reply = send(&mut world, conn, explain);
    let server = reply.get_document("serverInfo").expect("the server");
    assert_eq!(server.get_i32("port").ok(), Some(27019));
}

#[test]
fn a_pipeline_that_is_none_has_the_errors_of_the_server() {
    let (mut world, conn) = standalone();
    let aggregate = |pipeline: Bson| doc! { "aggregate": "c", "pipeline": pipeline, "cursor": {} };
    let cases = [
        (bson!(1), "'pipeline' option must be specified as an array"),
        (
            bson!([{ "$limit": 1 }, 42]),
            "Each element of the 'pipeline' array must be an object",
        ),
    ];
    for (pipeline, text) in cases {
        let reply = send(&mut world, conn, aggregate(pipeline.clone()));
        assert_eq!(error(&reply), (Some(14), text));
        let view = doc! { "create": "v", "viewOn": "c", "pipeline": pipeline };
        let reply = send(&mut world, conn, view);
        assert_eq!(error(&reply), (Some(14), text));
    }
}

#[test]
fn the_commands_without_a_row_exist() {
    let (mut world, conn) = of_release([4, 2, 24]);
    for name in crate::server::OTHERS {
        let command = doc! { name: 1, "$db": "admin" };
        let reply = world.send_command(conn, &command).expect("a reply");
        assert_ne!(error(&reply).0, Some(59), "{name}");
    }
    let reply = send(&mut world, conn, doc! { "pong": 1 });
    assert_eq!(error(&reply).0, Some(59));
}
