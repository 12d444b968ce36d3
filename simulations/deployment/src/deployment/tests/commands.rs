//! Malformed commands: each is refused as the server does, and changes nothing.

use super::world::{World, of_release};
use crate::{
    deployment::{ConnId, DeploymentOptions, ServerVersion},
    store::Store,
};
use bson::{
    Binary, Bson, DateTime, Document, RawDocumentBuf, Timestamp, doc, oid::ObjectId, raw::CString,
    spec::BinarySubtype,
};
use onionskin_core::{address::Address, unstable::wire::MessageWriter};

fn world(release: [u16; 3]) -> (World, ConnId) {
    let (mut world, conn) = of_release(release);
    let documents = [doc! { "_id": 1, "a": 1 }, doc! { "_id": 2, "a": 2 }];
    send(
        &mut world,
        conn,
        doc! { "insert": "c", "documents": documents },
    );
    (world, conn)
}

fn send(world: &mut World, conn: ConnId, mut command: Document) -> Document {
    if !command.contains_key("$db") {
        command.insert("$db", "d");
    }
    world.sent.clear();
    world.send_command(conn, &command).expect("a reply")
}

fn store(world: &World) -> Store {
    world.deployment.store(0).expect("a member").clone()
}

/// Returns the code and the message of an error, or 0 for success. A write error counts as well.
fn error(reply: &Document) -> (i32, String) {
    let failed = match reply.get_array("writeErrors") {
        Ok(errors) => errors[0].as_document().expect("an error").clone(),
        Err(_) => reply.clone(),
    };
    let text = failed.get_str("errmsg").unwrap_or_default().to_owned();
    (failed.get_i32("code").unwrap_or(0), text)
}

/// Returns valid commands, each with its required fields and some optional ones.
fn valid() -> Vec<Document> {
    vec![
        doc! { "find": "c", "filter": {}, "sort": { "a": 1 }, "limit": 1, "batchSize": 1, "skip": 0,
        "projection": {}, "singleBatch": true, "hint": "_id_", "let": {}, "$db": "d" },
        doc! { "aggregate": "c", "pipeline": [], "cursor": { "batchSize": 1 }, "let": {},
        "allowDiskUse": true, "hint": "_id_", "$db": "d" },
        doc! { "count": "c", "query": {}, "limit": 1, "skip": 0, "$db": "d" },
        doc! { "distinct": "c", "key": "a", "query": {}, "$db": "d" },
        doc! { "insert": "c", "documents": [{ "_id": 3 }], "ordered": true, "$db": "d" },
        doc! { "update": "c", "updates": [{ "q": {}, "u": { "$set": { "a": 3 } }, "multi": false,
        "upsert": false, "arrayFilters": [] }], "ordered": true, "let": {}, "$db": "d" },
        doc! { "delete": "c", "deletes": [{ "q": {}, "limit": 1 }], "ordered": true, "$db": "d" },
        doc! { "findAndModify": "c", "query": {}, "sort": {}, "fields": {}, "new": true,
        "update": { "a": 1 }, "upsert": false, "$db": "d" },
        doc! { "getMore": 5_i64, "collection": "c", "batchSize": 1, "$db": "d" },
        doc! { "killCursors": "c", "cursors": [1_i64], "$db": "d" },
        doc! { "create": "new", "capped": true, "size": 1000, "max": 5, "$db": "d" },
        doc! { "createIndexes": "c", "indexes": [{ "key": { "a": 1 }, "name": "a" }], "$db": "d" },
        doc! { "drop": "c", "$db": "d" },
        doc! { "dropDatabase": 1, "$db": "d" },
        doc! { "dropIndexes": "c", "index": "*", "$db": "d" },
        doc! { "listCollections": 1, "filter": {}, "nameOnly": true, "cursor": {}, "$db": "d" },
        doc! { "listIndexes": "c", "cursor": {}, "$db": "d" },
        doc! { "listDatabases": 1, "filter": {}, "nameOnly": true, "$db": "admin" },
        doc! { "renameCollection": "d.c", "to": "d.e", "dropTarget": true, "$db": "admin" },
        doc! { "collMod": "c", "validationLevel": "off", "$db": "d" },
        doc! { "ping": 1, "$db": "d" },
    ]
}

fn values() -> Vec<Bson> {
    let uuid = Binary {
        subtype: BinarySubtype::Uuid,
        bytes: vec![1; 16],
    };
    vec![
        Bson::Double(1.5),
        "text".into(),
        doc! {}.into(),
        Bson::Array(vec![]),
        uuid.into(),
        ObjectId::from_bytes([1; 12]).into(),
        true.into(),
        DateTime::from_millis(0).into(),
        1.into(),
        1_i64.into(),
        Timestamp {
            time: 1,
            increment: 1,
        }
        .into(),
        Bson::MinKey,
    ]
}

/// True if the value has another type than the field of a valid command.
fn is_foreign(field: &Bson, value: &Bson) -> bool {
    let is_number = |value: &Bson| {
        matches!(
            value,
            Bson::Int32(_) | Bson::Int64(_) | Bson::Double(_) | Bson::Boolean(_)
        )
    };
    !(is_number(field) && is_number(value)) && field.element_type() != value.element_type()
}

/// The fields that take values of several types, and are checked when a command is executed.
const OPEN: [&str; 9] = [
    "hint",
    "u",
    "update",
    "index",
    "dropTarget",
    "aggregate",
    "ping",
    "listCollections",
    "listDatabases",
];

#[test]
fn unknown_missing_and_mistyped_fields_are_refused_and_change_nothing() {
    let (mut world, conn) = world([7, 0, 12]);
    let before = store(&world);
    let mut refused = |command: Document, expected: &[i32]| {
        let reply = send(&mut world, conn, command.clone());
        let (code, text) = error(&reply);
        assert!(expected.contains(&code), "{command}: {code} {text}");
        assert_eq!(store(&world), before, "{command}");
    };
    for command in valid() {
        let name = command.keys().next().expect("a name").clone();
        let mut unknown = command.clone();
        unknown.insert("mutli", true);
        refused(unknown, &[40415]);
        for (field, value) in &command {
            if field.starts_with('$') {
                continue;
            }
            let required = matches!(
                field.as_str(),
                "documents"
                    | "updates"
                    | "deletes"
                    | "pipeline"
                    | "key"
                    | "cursors"
                    | "indexes"
                    | "to"
                    | "index"
                    | "collection"
            ) && *field != name;
            if required {
                let mut without = command.clone();
                without.remove(field);
                refused(without, &[40414]);
            }
            for wrong in values() {
                if is_foreign(value, &wrong) && !OPEN.contains(&field.as_str()) {
                    // Other values that are no name have the error 2 or 73.
                    let codes: &[i32] = if *field != name { &[14] } else { &[2, 14, 73] };
                    let mut mistyped = command.clone();
                    mistyped.insert(field.clone(), wrong);
                    refused(mistyped, codes);
                }
            }
        }
    }
}

#[test]
fn valid_commands_are_not_refused() {
    for command in valid() {
        let (mut world, conn) = world([7, 0, 12]);
        let reply = send(&mut world, conn, command.clone());
        let (code, text) = error(&reply);
        // No cursor is open, which `getMore` needs.
        assert!(code == 0 || code == 43, "{command}: {code} {text}");
    }
}

/// Returns commands on documents that are wrong in some part, with the codes of their errors.
fn odd_writes_and_queries() -> Vec<(Document, i32)> {
    let update = |part: Document| {
        let mut statement = doc! { "q": {}, "u": { "$set": { "a": 5 } } };
        statement.extend(part);
        doc! { "update": "c", "updates": [statement] }
    };
    let delete = |limit: Bson| doc! { "delete": "c", "deletes": [{ "q": {}, "limit": limit }] };
    let find = |part: Document| {
        let mut command = doc! { "find": "c" };
        command.extend(part);
        command
    };
    vec![
        (delete((-1).into()), 9),
        (delete(2.into()), 9),
        (delete("1".into()), 9),
        (delete(0.5.into()), 9),
        (
            doc! { "findAndModify": "c", "filter": { "_id": 1 }, "remove": true },
            40415,
        ),
        (find(doc! { "limit": "1" }), 14),
        (find(doc! { "limit": -1 }), 51024),
        (find(doc! { "sort": true }), 14),
        (find(doc! { "hint": "none" }), 2),
        (find(doc! { "hint": { "zz": 1 } }), 2),
        (find(doc! { "min": { "a": 1 } }), 51173),
        (update(doc! { "mutli": true }), 40415),
        (update(doc! { "multi": 1 }), 14),
        (update(doc! { "hint": "none" }), 2),
        (update(doc! { "sort": { "a": 1 } }), 40415),
        (update(doc! { "arrayFilters": [{ "x": 1 }] }), 9),
    ]
}

/// Returns commands with wrong options, with the codes of their errors.
fn odd_options() -> Vec<(Document, i32)> {
    let find = |part: Document| {
        let mut command = doc! { "find": "c" };
        command.extend(part);
        command
    };
    let level = |level: &str| find(doc! { "readConcern": { "level": level } });
    vec![
        (level("bogus"), 9),
        (level("snapshot"), 123),
        (find(doc! { "readConcern": { "lvel": "local" } }), 72),
        (find(doc! { "apiVersion": "2" }), 322),
        (find(doc! { "apiVersion": 1 }), 14),
        (find(doc! { "apiStrict": true }), 4_886_600),
        (
            doc! { "distinct": "c", "key": "a", "apiVersion": "1", "apiStrict": true },
            323,
        ),
        (find(doc! { "lsid": { "id": 1 } }), 14),
        (find(doc! { "lsid": {} }), 40414),
        (find(doc! { "txnNumber": 1 }), 14),
        (doc! { "setParameter": 1, "bogus": 1, "$db": "admin" }, 72),
        (doc! { "getParameter": 1, "bogus": 1, "$db": "admin" }, 72),
        (doc! { "setParameter": 1, "bogus": 1 }, 13),
        (
            doc! { "configureFailPoint": "failCommand", "mode": "off" },
            13,
        ),
        (doc! { "renameCollection": "d.c", "to": "d.e" }, 13),
        (doc! { "create": "e", "cappde": true }, 40415),
        (doc! { "create": "e", "validator": { "$where": "1" } }, 2),
        (doc! { "create": "e", "validationLevel": "bogus" }, 2),
        (
            doc! { "createIndexes": "c", "indexes": [{ "key": { "a": 1 }, "name": "a", "x": 1 }] },
            197,
        ),
        (
            doc! { "createIndexes": "c", "indexes": [{ "key": { "a": 1 }, "name": "a",
            "partialFilterExpression": 5 }] },
            14,
        ),
        (
            doc! { "aggregate": "c", "pipeline": [], "cursor": { "batchsize": 1 } },
            40415,
        ),
        (doc! { "aggregate": "c", "pipeline": [1], "cursor": {} }, 14),
        (doc! { "aggregate": "c", "pipeline": [] }, 9),
        (doc! { "getMore": 5, "collection": "c" }, 14),
        (doc! { "killCursors": "c", "cursors": [1] }, 14),
    ]
}

#[test]
fn odd_commands_are_refused_with_the_errors_of_the_server() {
    let odd = odd_writes_and_queries().into_iter().chain(odd_options());
    for (command, expected) in odd {
        let (mut world, conn) = world([7, 0, 12]);
        let before = store(&world);
        let (code, text) = error(&send(&mut world, conn, command.clone()));
        assert_eq!(code, expected, "{command}: {text}");
        assert_eq!(store(&world), before, "{command}");
    }
}

#[test]
fn messages_name_the_field_and_the_types() {
    let (mut world, conn) = world([7, 0, 12]);
    for (command, expected) in [
        (
            doc! { "find": "c", "limit": "1" },
            "BSON field 'FindCommandRequest.limit' is the wrong type 'string', expected types \
             '[long, int, decimal, double']",
        ),
        (
            doc! { "findAndModify": "c", "remove": "yes" },
            "BSON field 'findAndModify.remove' is the wrong type 'string', expected types '[bool, \
             long, int, decimal, double']",
        ),
        (
            doc! { "find": "c", "maxTimeMS": "1" },
            "BSON field 'FindCommandRequest.maxTimeMS' is the wrong type 'string', expected types \
             '[long, int, decimal, double']",
        ),
        (
            doc! { "dropIndexes": "c", "index": true },
            "BSON field 'dropIndexes.index' is the wrong type 'bool', expected types '[string, \
             object']",
        ),
        (
            doc! { "insert": "c", "documents": [{}, 1] },
            "BSON field 'insert.documents.1' is the wrong type 'int', expected type 'object'",
        ),
        (
            doc! { "update": "c", "updates": [{ "q": {} }] },
            "BSON field 'update.updates.u' is missing but a required field",
        ),
        (
            doc! { "update": "c", "updates": [{ "q": {}, "u": {}, "x": 1 }] },
            "BSON field 'update.updates.x' is an unknown field.",
        ),
    ] {
        let (_, text) = error(&send(&mut world, conn, command));
        assert_eq!(text, expected);
    }
}

#[test]
fn fields_and_texts_follow_the_release() {
    let sorted = doc! { "update": "c", "updates": [{ "q": {}, "u": { "$set": { "a": 9 } },
    "sort": { "a": -1 } }] };
    let (mut world, conn) = world([8, 0, 0]);
    assert_eq!(error(&send(&mut world, conn, sorted)).0, 0);
    let (code, text) = error(&send(&mut world, conn, doc! { "find": "c", "limit": "1" }));
    assert_eq!(code, 14);
    assert!(text.ends_with("'[long, int, decimal, double]'"), "{text}");
    assert_eq!(
        error(&send(&mut world, conn, doc! { "find": "c", "skip": -1 })).0,
        2
    );
}

#[test]
fn a_field_that_is_there_twice_is_refused() {
    for release in [[4, 2, 25], [5, 0, 31], [7, 0, 12], [8, 0, 4]] {
        let (mut world, conn) = world(release);
        let before = store(&world);
        for command in valid() {
            for field in command.keys() {
                let mut raw = RawDocumentBuf::try_from(&command).expect("a command");
                raw.append(CString::try_from(field.as_str()).expect("a name"), 2);
                let mut bytes = Vec::new();
                MessageWriter::begin(&mut bytes, 77, 0).body(&raw).end();
                world.send_bytes(conn, &bytes);
                let (_, _, reply) = world.reply(conn).expect("a reply");
                assert_eq!(error(&reply).0, 40413, "{field} {command}: {reply}");
                world.sent.clear();
            }
        }
        assert_eq!(store(&world), before, "{release:?}");
    }
}

#[test]
fn each_release_has_its_wire_version_and_its_commands() {
    for (name, wire, drops) in [
        ("4.2", 8, false),
        ("4.4", 9, false),
        ("5.0", 13, false),
        ("6.0", 17, false),
        ("7.0", 21, true),
        ("8.0", 25, true),
        ("8.2", 27, true),
    ] {
        let version = ServerVersion::named(name).expect(name);
        let mut options = DeploymentOptions::standalone(Address::tcp("m0", 27017));
        options.version = version;
        let mut world = World::new(options, 1);
        let conn = world.connect(0);
        let hello = send(&mut world, conn, doc! { "hello": 1 });
        assert_eq!(hello.get_i32("maxWireVersion").ok(), Some(wire), "{name}");
        let build = send(&mut world, conn, doc! { "buildInfo": 1 });
        assert!(
            build
                .get_str("version")
                .is_ok_and(|text| text.starts_with(name))
        );
        let missing = send(&mut world, conn, doc! { "drop": "none" });
        assert_eq!(
            missing.get_f64("ok").ok(),
            Some(f64::from(u8::from(drops))),
            "{name}"
        );
        let with_variables = send(&mut world, conn, doc! { "find": "c", "let": {} });
        let expected = if wire < 13 { 9 } else { 0 };
        assert_eq!(error(&with_variables).0, expected, "{name}");
    }
    assert_eq!(ServerVersion::named("3.6"), None);
}

#[test]
fn a_strict_api_has_not_all_stages() {
    let (mut world, conn) = world([8, 0, 0]);
    for (stage, expected) in [
        (doc! { "$listLocalSessions": {} }, 323),
        (doc! { "$indexStats": {} }, 323),
        (doc! { "$collStats": { "storageStats": {} } }, 323),
        (doc! { "$collStats": { "count": {} } }, 0),
        (doc! { "$match": {} }, 0),
    ] {
        let command = doc! {
            "aggregate": "c", "pipeline": [stage], "cursor": {}, "apiVersion": "1",
            "apiStrict": true,
        };
        let (code, text) = error(&send(&mut world, conn, command));
        assert_eq!(code, expected, "{text}");
    }
}

#[test]
fn time_limits_have_the_errors_of_their_release() {
    for (limit, code, text) in [
        (Bson::Double(1.5), 9, "Expected an integer: maxTimeMS: 1.5"),
        (
            Bson::Double(1e100),
            9,
            "Cannot represent as a 64-bit integer: maxTimeMS: ",
        ),
        (
            Bson::Int32(-1),
            2,
            "BSON field 'maxTimeMS' value must be >= 0, actual value '-1'",
        ),
        (
            Bson::Int64(1 << 40),
            2,
            "BSON field 'maxTimeMS' value must be <= 2147483647, actual value '1099511627776'",
        ),
    ] {
        let command = doc! { "find": "c", "maxTimeMS": limit };
        let (mut new, conn) = world([8, 2, 0]);
        let (found, message) = error(&send(&mut new, conn, command.clone()));
        assert_eq!(found, code, "{message}");
        assert!(message.starts_with(text), "{message}");
        let (mut old, conn) = world([7, 0, 12]);
        assert_eq!(error(&send(&mut old, conn, command)).0, 2);
    }
    let (mut old, conn) = world([4, 4, 29]);
    let command = doc! { "find": "c", "maxTimeMS": "1" };
    let (found, message) = error(&send(&mut old, conn, command));
    assert_eq!((found, &*message), (2, "maxTimeMS must be a number"));
}
