//! The options of commands on databases, collections and indexes that a server refuses.

use super::world::{World, of_release, send, standalone, with_primary};
use crate::deployment::ConnId;
use bson::{Bson, Document, bson, doc};

/// Checks the codes and the ends of the messages of commands that fail.
fn refused(
    world: &mut World,
    conn: ConnId,
    cases: impl IntoIterator<Item = (Document, i32, &'static str)>,
) {
    for (command, code, text) in cases {
        let reply = send(world, conn, command.clone());
        assert_eq!(reply.get_i32("code").ok(), Some(code), "{command}: {reply}");
        let message = reply.get_str("errmsg").unwrap_or_default();
        assert!(message.ends_with(text), "{command}: {message}");
    }
}

/// Sends a command that must succeed, and returns its reply.
fn done(world: &mut World, conn: ConnId, command: Document) -> Document {
    let reply = send(world, conn, command.clone());
    assert_eq!(reply.get_f64("ok").ok(), Some(1.0), "{command}: {reply}");
    reply
}

fn create(options: Document) -> Document {
    let mut command = doc! { "create": "new" };
    command.extend(options);
    command
}

#[test]
fn a_database_is_dropped_by_the_number_one_only() {
    let texts = [
        ([4, 4, 29], 20, "have to pass 1 as db parameter"),
        ([7, 0, 0], 5_255_100, "Have to pass 1 as 'drop' parameter"),
    ];
    for (release, code, text) in texts {
        let (mut world, conn) = of_release(release);
        done(&mut world, conn, create(doc! {}));
        refused(&mut world, conn, [(doc! { "dropDatabase": 2 }, code, text)]);
        let reply = done(&mut world, conn, doc! { "dropDatabase": 1 });
        assert_eq!(reply.get_str("dropped").ok(), Some("d"), "{reply}");
    }
}

#[test]
fn options_of_new_collections_are_checked() {
    let (mut world, conn) = standalone();
    let id = |index: Document| create(doc! { "idIndex": index });
    let series = doc! { "timeField": "t" };
    let cases = [
        (
            id(doc! { "key": { "x": 1 } }),
            9,
            "The 'name' field is a required property of an index specification",
        ),
        (
            id(doc! { "key": { "x": 1 }, "name": "x_1" }),
            2,
            "The field 'key' for an _id index must be {_id: 1}, but got { x: 1 }",
        ),
        (
            id(doc! { "key": { "_id": 1 }, "name": "_id_", "sparse": true }),
            197,
            "sparse: true }",
        ),
        (
            create(doc! { "autoIndexId": false }),
            50001,
            "autoIndexId:false is not allowed for collection d.new because it can be replicated",
        ),
        (
            create(doc! { "storageEngine": { "foo": {} } }),
            72,
            "foo is not a registered storage engine for this server",
        ),
        (
            create(doc! { "storageEngine": { "wiredTiger": 1 } }),
            2,
            "'storageEngine.wiredTiger' has to be an embedded document.",
        ),
        (
            create(doc! { "indexOptionDefaults": { "foo": 1 } }),
            40415,
            "BSON field 'create.indexOptionDefaults.foo' is an unknown field.",
        ),
        (
            create(doc! { "changeStreamPreAndPostImages": {} }),
            40414,
            "'create.changeStreamPreAndPostImages.enabled' is missing but a required field",
        ),
        (
            create(doc! { "encryptedFields": {} }),
            40414,
            "BSON field 'create.encryptedFields.fields' is missing but a required field",
        ),
        (create(doc! { "viewOn": "" }), 2, "'viewOn' cannot be empty"),
        (
            create(doc! { "timeseries": series, "expireAfterSeconds": -5 }),
            72,
            "TTL index 'expireAfterSeconds' option cannot be less than 0",
        ),
    ];
    refused(&mut world, conn, cases);
}

#[test]
fn known_options_of_new_collections_are_accepted() {
    let (mut world, conn) = standalone();
    let engine = doc! { "wiredTiger": {} };
    done(
        &mut world,
        conn,
        create(doc! {
            "idIndex": { "key": { "_id": 1 }, "name": "_id_" }, "storageEngine": engine.clone(),
            "indexOptionDefaults": { "storageEngine": engine },
        }),
    );
    let noted = doc! { "create": "noted", "autoIndexId": true };
    let reply = done(&mut world, conn, noted);
    let note = reply.get_str("note").unwrap_or_default();
    assert!(note.contains("autoIndexId option is deprecated"), "{reply}");
}

#[test]
fn collections_of_the_server_have_no_validator() {
    let (mut world, conn) = standalone();
    for database in ["admin", "local", "config"] {
        let validator = doc! { "validator": { "a": 1 }, "$db": database };
        let reply = send(&mut world, conn, create(validator.clone()));
        assert_eq!(reply.get_i32("code").ok(), Some(72), "{reply}");
        let text = reply.get_str("errmsg").unwrap_or_default();
        let start =
            format!("Document validators are not allowed on collection {database}.new with UUID ");
        assert!(text.starts_with(&start), "{text}");
        let end = format!(" in the {database} internal database");
        assert!(text.ends_with(&end), "{text}");
        done(&mut world, conn, create(doc! { "$db": database }));
        let mut change = doc! { "collMod": "new" };
        change.extend(validator);
        let reply = send(&mut world, conn, change);
        assert_eq!(reply.get_i32("code").ok(), Some(72), "{reply}");
    }
}

#[test]
fn a_collection_stays_replicated_or_unreplicated() {
    let rename = |from: &str, to: &str| {
        doc! { "renameCollection": from, "to": to, "$db": "admin" }
    };
    let text = "Cannot rename collections between a replicated and an unreplicated database";
    let (mut world, _, conn) = with_primary();
    done(&mut world, conn, doc! { "create": "c", "$db": "local" });
    done(&mut world, conn, create(doc! {}));
    let cases = [
        (rename("local.c", "d.z"), 20, text),
        (rename("d.new", "local.z"), 20, text),
    ];
    refused(&mut world, conn, cases);
    done(&mut world, conn, rename("local.c", "local.z"));
    let (mut world, conn) = standalone();
    done(&mut world, conn, doc! { "create": "c", "$db": "local" });
    done(&mut world, conn, rename("local.c", "d.z"));
}

#[test]
fn the_index_of_ids_stays_and_indexes_are_named_by_texts() {
    let (mut world, conn) = standalone();
    done(&mut world, conn, create(doc! {}));
    let drop = |index: Bson| doc! { "dropIndexes": "new", "index": index };
    let cases = [
        (drop(bson!({ "_id": 1 })), 72, "cannot drop _id index"),
        (drop(bson!("_id_")), 72, "cannot drop _id index"),
        (
            drop(bson!([5])),
            14,
            "'dropIndexes.index.0' is the wrong type 'int', expected type 'string'",
        ),
        (
            drop(bson!({ "x": 1 })),
            27,
            "can't find index with key: { x: 1 }",
        ),
    ];
    refused(&mut world, conn, cases);
}

#[test]
fn a_view_is_only_changed_to_another_view() {
    let view = doc! { "create": "view", "viewOn": "new", "pipeline": [] };
    let change = |name: &str, options: Document| {
        let mut command = doc! { "collMod": name };
        command.extend(options);
        command
    };
    let texts = [
        ([4, 4, 29], "'viewOn' option only supported on a view"),
        ([7, 0, 0], "option only supported on a view: viewOn"),
    ];
    for (release, text) in texts {
        let (mut world, conn) = of_release(release);
        done(&mut world, conn, create(doc! {}));
        done(&mut world, conn, view.clone());
        let of_view = doc! { "viewOn": "new", "pipeline": [] };
        let cases = [
            (
                change("view", doc! { "validator": { "a": 1 } }),
                72,
                "option not supported on a view: validator",
            ),
            (
                change("view", doc! { "index": { "name": "a", "hidden": true } }),
                72,
                "option not supported on a view: index",
            ),
            (change("new", of_view.clone()), 72, text),
        ];
        refused(&mut world, conn, cases);
        done(&mut world, conn, change("view", of_view));
    }
}

#[test]
fn the_members_that_an_index_waits_for_exist() {
    let index = |key: &str, quorum: Bson| {
        let mut command = doc! {
            "createIndexes": "new", "indexes": [{ "key": { key: 1 }, "name": key }],
        };
        if quorum != Bson::Null {
            command.insert("commitQuorum", quorum);
        }
        command
    };
    let (mut world, conn) = standalone();
    let text = "Standalones can't specify commitQuorum";
    refused(&mut world, conn, [(index("a", "majority".into()), 2, text)]);
    let reply = done(&mut world, conn, index("a", Bson::Null));
    assert!(!reply.contains_key("commitQuorum"), "{reply}");
    let (mut world, _, conn) = with_primary();
    let reply = done(&mut world, conn, index("a", Bson::Null));
    assert!(
        !reply.contains_key("commitQuorum"),
        "a new collection: {reply}"
    );
    let cases = [
        (
            index("b", "foo".into()),
            79,
            "No write concern mode named 'foo' found in replica set configuration",
        ),
        (
            index("b", 4.into()),
            278,
            "Commit quorum cannot be satisfied with the current replica set configuration",
        ),
        (
            index("b", 99.into()),
            9,
            "commitQuorum has to be a non-negative number and not greater than 50",
        ),
        (
            index("b", true.into()),
            9,
            "commitQuorum has to be a number or a string",
        ),
    ];
    refused(&mut world, conn, cases);
    for (key, given, shown) in [
        ("b", Bson::Null, Bson::from("votingMembers")),
        ("c", "majority".into(), "majority".into()),
        ("d", 3.into(), 3.into()),
    ] {
        let reply = done(&mut world, conn, index(key, given));
        assert_eq!(reply.get("commitQuorum"), Some(&shown), "{reply}");
    }
    let reply = done(&mut world, conn, index("d", Bson::Null));
    assert!(
        !reply.contains_key("commitQuorum"),
        "nothing built: {reply}"
    );
}

#[test]
fn a_change_of_an_index_that_fails_changes_no_option_either() {
    let (mut world, conn) = standalone();
    done(&mut world, conn, create(doc! {}));
    let change = doc! {
        "collMod": "new", "validator": { "x": 1 }, "index": { "name": "none", "hidden": true },
    };
    refused(&mut world, conn, [(change, 27, "for ns d.new")]);
    let insert = doc! { "insert": "new", "documents": [{ "x": 2 }] };
    let reply = done(&mut world, conn, insert);
    assert_eq!(reply.get_i32("n").ok(), Some(1), "{reply}");
}
