//! Commands with the UUID of their collection.

use super::world::{World, send, standalone};
use crate::deployment::ConnId;
use bson::{Binary, Bson, Document, doc, spec::BinarySubtype};

/// Returns the UUID of a collection, as `listCollections` shows it.
fn uuid(world: &mut World, conn: ConnId, name: &str) -> Bson {
    let list = doc! { "listCollections": 1, "filter": { "name": name }, "$db": "d" };
    let reply = send(world, conn, list);
    let cursor = reply.get_document("cursor").expect("a cursor");
    let batch = cursor.get_array("firstBatch").expect("a batch");
    let entry = batch[0].as_document().expect("an entry");
    let info = entry.get_document("info").expect("information");
    info.get("uuid").expect("a UUID").clone()
}

fn commands() -> Vec<Document> {
    vec![
        doc! { "find": "c" },
        doc! { "aggregate": "c", "pipeline": [], "cursor": {} },
        doc! { "explain": { "find": "c" } },
        doc! { "createIndexes": "c", "indexes": [{ "key": { "a": 1 }, "name": "a" }] },
        doc! { "dropIndexes": "c", "index": "a" },
        doc! { "collMod": "c", "validationLevel": "off" },
        doc! { "renameCollection": "d.c", "to": "d.other", "$db": "admin" },
        doc! { "drop": "other" },
    ]
}

/// Adds a UUID to a command, or to the command that an `explain` explains.
fn with(mut command: Document, uuid: &Bson) -> Document {
    match command.get_mut("explain") {
        Some(Bson::Document(inner)) => inner.insert("collectionUUID", uuid.clone()),
        _ => command.insert("collectionUUID", uuid.clone()),
    };
    if !command.contains_key("$db") {
        command.insert("$db", "d");
    }
    command
}

#[test]
fn a_command_with_the_uuid_of_another_collection_fails() {
    let (mut world, conn) = standalone();
    for name in ["c", "x"] {
        let created = send(&mut world, conn, doc! { "create": name, "$db": "d" });
        assert_eq!(created.get_f64("ok").ok(), Some(1.0), "{created}");
    }
    let (own, other) = (uuid(&mut world, conn, "c"), uuid(&mut world, conn, "x"));
    let unknown = Bson::Binary(Binary {
        subtype: BinarySubtype::Uuid,
        bytes: vec![7; 16],
    });
    for command in commands() {
        for (wrong, actual) in [(&other, Bson::from("x")), (&unknown, Bson::Null)] {
            let reply = send(&mut world, conn, with(command.clone(), wrong));
            assert_eq!(reply.get_i32("code").ok(), Some(361), "{command}: {reply}");
            assert_eq!(reply.get_str("db").ok(), Some("d"));
            assert_eq!(reply.get("collectionUUID"), Some(wrong));
            assert_eq!(reply.get("actualCollection"), Some(&actual), "{reply}");
        }
        let reply = send(&mut world, conn, with(command.clone(), &own));
        assert_eq!(reply.get_f64("ok").ok(), Some(1.0), "{command}: {reply}");
    }
    let gone = send(&mut world, conn, with(doc! { "drop": "c" }, &own));
    assert_eq!(gone.get_str("expectedCollection").ok(), Some("c"), "{gone}");
}

#[test]
fn a_uuid_has_its_subtype_and_writes_refuse_it() {
    let (mut world, conn) = standalone();
    let general = Bson::Binary(Binary {
        subtype: BinarySubtype::Generic,
        bytes: vec![7; 16],
    });
    let reply = send(&mut world, conn, with(doc! { "find": "c" }, &general));
    let text = "BSON field 'FindCommandRequest.collectionUUID' is the wrong binData type \
                'general', expected type 'UUID'";
    assert_eq!(reply.get_str("errmsg").ok(), Some(text));
    let uuid = Bson::Binary(Binary {
        subtype: BinarySubtype::Uuid,
        bytes: vec![7; 16],
    });
    let insert = doc! { "insert": "c", "documents": [{ "_id": 1 }] };
    let reply = send(&mut world, conn, with(insert, &uuid));
    assert_eq!(reply.get_i32("code").ok(), Some(40415), "{reply}");
}

#[test]
fn a_uuid_in_place_of_a_name_is_refused() {
    let (mut world, conn) = standalone();
    send(&mut world, conn, doc! { "create": "c", "$db": "d" });
    let own = uuid(&mut world, conn, "c");
    for name in ["find", "count"] {
        let command = doc! { name: own.clone() };
        for mut command in [command.clone(), doc! { "explain": command }] {
            command.insert("$db", "d");
            let reply = send(&mut world, conn, command);
            assert_eq!(reply.get_i32("code").ok(), Some(2), "{name}: {reply}");
            let text = "Collection name must be provided. UUID is not valid in this context";
            assert_eq!(reply.get_str("errmsg").ok(), Some(text), "{name}");
            assert!(reply.contains_key("errInfo"), "{reply}");
        }
    }
}
