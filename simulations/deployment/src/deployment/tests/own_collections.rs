//! The collections of the server itself.

use super::{
    fidelity::{batch, code},
    world::{World, of_release, send, set_of, standalone, with_primary},
};
use bson::{Document, bson, doc};

fn not_simulated(reply: &Document) -> &str {
    let information = reply.get_document("errInfo");
    let what = information.and_then(|information| information.get_str("notSimulated"));
    what.unwrap_or_default()
}

#[test]
fn the_oplog_and_its_like_are_refused() {
    let (mut world, _, conn) = with_primary();
    for (database, collection) in [
        ("local", "oplog.rs"),
        ("local", "startup_log"),
        ("config", "transactions"),
        ("config", "system.sessions"),
    ] {
        for command in [
            doc! { "find": collection },
            doc! { "aggregate": collection, "pipeline": [], "cursor": {} },
            doc! { "count": collection },
            doc! { "distinct": collection, "key": "_id" },
            doc! { "explain": { "find": collection } },
            doc! { "collStats": collection },
            doc! { "drop": collection },
        ] {
            let mut command = command;
            command.insert("$db", database);
            let reply = send(&mut world, conn, command.clone());
            assert_eq!(reply.get_i32("code").ok(), Some(13), "{command}: {reply}");
            let text = reply.get_str("errmsg").unwrap_or_default();
            let start = format!("not authorized on {database} to execute command {{ ");
            assert!(text.starts_with(&start), "{text}");
            let what = not_simulated(&reply);
            assert!(
                what.ends_with(&format!("{database}.{collection}")),
                "{what}"
            );
        }
    }
    let (mut world, conn) = standalone();
    let find = doc! { "find": "oplog.rs", "$db": "local" };
    assert!(batch(&send(&mut world, conn, find)).is_empty(), "no set");
    let find = doc! { "find": "startup_log", "$db": "local" };
    assert_eq!(code(&mut world, conn, find), Some(13));
}

#[test]
fn the_compatible_version_is_a_document() {
    let expected = doc! { "_id": "featureCompatibilityVersion", "version": "6.0" };
    let (mut world, conn) = of_release([6, 0, 0]);
    for command in [
        doc! { "find": "system.version" },
        doc! { "find": "system.version", "filter": { "_id": "featureCompatibilityVersion" } },
        doc! { "aggregate": "system.version", "pipeline": [], "cursor": {} },
    ] {
        let mut command = command;
        command.insert("$db", "admin");
        let reply = send(&mut world, conn, command);
        assert_eq!(batch(&reply), [expected.clone().into()], "{reply}");
    }
    let count = doc! { "count": "system.version", "$db": "admin" };
    let reply = send(&mut world, conn, count);
    assert_eq!(reply.get_i32("n").ok(), Some(1), "{reply}");
    let insert = doc! { "insert": "system.version", "documents": [{}], "$db": "admin" };
    assert_eq!(code(&mut world, conn, insert), Some(13));
    let insert = doc! { "insert": "c", "documents": [{}] };
    assert_eq!(code(&mut world, conn, insert), None);
    let reply = send(&mut world, conn, doc! { "count": "c" });
    assert_eq!(reply.get_i32("n").ok(), Some(1), "in the store: {reply}");
}

#[test]
fn the_configuration_of_a_set_is_a_document() {
    let (mut world, _, conn) = with_primary();
    let config = doc! { "replSetGetConfig": 1, "$db": "admin" };
    let config: Document = send(&mut world, conn, config);
    let config = config.get_document("config").expect("a configuration");
    for level in ["local", "majority"] {
        let find = doc! {
            "find": "system.replset", "readConcern": { "level": level }, "$db": "local",
        };
        let reply = send(&mut world, conn, find);
        assert_eq!(batch(&reply), [config.clone().into()], "{reply}");
    }
}

#[test]
fn only_the_server_writes_the_profile_and_the_oplog() {
    let profile = doc! { "insert": "system.profile", "documents": [{}] };
    let mut views = profile.clone();
    views.insert("insert", "system.views");
    let (mut world, conn) = of_release([7, 0, 0]);
    for (command, text) in [
        (profile.clone(), "cannot write to d.system.profile"),
        (views.clone(), "cannot write to d.system.views"),
        (
            doc! { "delete": "system.profile", "deletes": [{ "q": {}, "limit": 0 }] },
            "cannot write to d.system.profile",
        ),
    ] {
        let reply = send(&mut world, conn, command);
        assert_eq!(reply.get_i32("code").ok(), Some(73), "{reply}");
        assert_eq!(reply.get_str("errmsg").ok(), Some(text));
    }
    let (mut world, conn) = of_release([4, 2, 25]);
    let reply = send(&mut world, conn, profile);
    let text = "cannot write to 'd.system.profile'";
    assert_eq!(reply.get_str("errmsg").ok(), Some(text), "{reply}");
    let mut world = World::new(set_of(1), 1);
    world
        .until_primary(std::time::Duration::from_secs(30))
        .expect("a primary");
    let conn = world.connect(0);
    let oplog = doc! { "insert": "oplog.rs", "documents": bson!([{}]), "$db": "local" };
    assert_eq!(code(&mut world, conn, oplog), Some(73));
}

#[test]
fn a_source_that_is_a_collection_of_the_server_is_refused() {
    let (mut world, _, conn) = with_primary();
    let aggregate = |stage: Document| {
        doc! { "aggregate": "c", "pipeline": [stage], "cursor": {}, "$db": "local" }
    };
    let union = doc! { "$unionWith": "oplog.rs" };
    let lookup = doc! { "$lookup": {
        "from": "system.replset", "pipeline": [], "as": "found",
    } };
    let inner = doc! { "$unionWith": { "coll": "c", "pipeline": [&union] } };
    for command in [
        doc! { "create": "v", "viewOn": "oplog.rs", "$db": "local" },
        doc! { "create": "v", "viewOn": "c", "pipeline": [&lookup], "$db": "local" },
        doc! {
            "explain": { "aggregate": "c", "pipeline": [&union], "cursor": {} }, "$db": "local",
        },
        aggregate(union.clone()),
        aggregate(lookup),
        aggregate(inner),
        aggregate(doc! { "$facet": { "a": [&union] } }),
        aggregate(doc! { "$graphLookup": {
            "from": "startup_log", "startWith": "$a", "connectFromField": "a",
            "connectToField": "b", "as": "found",
        } }),
    ] {
        let reply = send(&mut world, conn, command.clone());
        assert_eq!(reply.get_i32("code").ok(), Some(13), "{command}: {reply}");
        let what = not_simulated(&reply);
        assert!(what.contains("its own collection local."), "{what}");
    }
    let other = doc! { "$unionWith": "other" };
    assert_eq!(code(&mut world, conn, aggregate(other)), None);
}
