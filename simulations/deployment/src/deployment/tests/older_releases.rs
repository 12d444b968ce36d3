//! Commands that older releases refuse.

use super::world::{World, of_release, send};
use crate::deployment::ConnId;
use bson::{Bson, Document, doc};

/// Makes a world of a standalone of a release with one document, and a connection to it.
fn standalone(release: [u16; 3]) -> (World, ConnId) {
    let (mut world, conn) = of_release(release);
    let insert = doc! { "insert": "c", "documents": [{ "_id": 1, "x": 1 }] };
    send(&mut world, conn, insert);
    (world, conn)
}

/// Returns the code and the message of an error, or 0 for success. A write error counts as well.
fn error(world: &mut World, conn: ConnId, command: Document) -> (i32, String) {
    let reply = send(world, conn, command);
    let failed = match reply.get_array("writeErrors") {
        Ok(errors) => errors[0].as_document().expect("an error").clone(),
        Err(_) => reply,
    };
    let text = failed.get_str("errmsg").unwrap_or_default().to_owned();
    (failed.get_i32("code").unwrap_or(0), text)
}

/// Returns commands of all kinds that take a `let` or a `comment`.
fn commands() -> Vec<Document> {
    vec![
        doc! { "find": "c" },
        doc! { "aggregate": "c", "pipeline": [], "cursor": {} },
        doc! { "update": "c", "updates": [{ "q": {}, "u": { "$set": { "x": 2 } } }] },
        doc! { "delete": "c", "deletes": [{ "q": { "_id": 5 }, "limit": 1 }] },
        doc! { "findAndModify": "c", "query": { "_id": 5 }, "remove": true },
    ]
}

#[test]
fn variables_are_unknown_before_5_0() {
    let (mut world, conn) = standalone([4, 4, 29]);
    let expected = [
        (9, "Unrecognized field 'let'."),
        (9, "unrecognized field 'let'"),
        (40415, "BSON field 'update.let' is an unknown field."),
        (40415, "BSON field 'delete.let' is an unknown field."),
        (51177, "BSON field 'let' is an unknown field."),
    ];
    for (mut command, (code, text)) in commands().into_iter().zip(expected) {
        command.insert("let", doc! { "v": 1 });
        let (found, message) = error(&mut world, conn, command);
        assert_eq!(found, code, "{message}");
        assert!(message.contains(text), "{message}");
    }
    let (mut world, conn) = standalone([5, 0, 0]);
    for mut command in commands() {
        command.insert("let", doc! { "v": 1 });
        assert_eq!(error(&mut world, conn, command), (0, String::new()));
    }
}

#[test]
fn only_queries_have_a_comment_before_4_4() {
    let (mut world, conn) = standalone([4, 2, 25]);
    let codes = [0, 0, 40415, 40415, 51177];
    for (mut command, code) in commands().into_iter().zip(codes) {
        command.insert("comment", "text");
        let (found, message) = error(&mut world, conn, command);
        assert_eq!(found, code, "{message}");
    }
    let insert = doc! { "insert": "c", "documents": [{}], "comment": "text" };
    let (code, message) = error(&mut world, conn, insert);
    assert_eq!(code, 40415);
    assert!(message.contains("'insert.comment'"), "{message}");
}

#[test]
fn a_find_with_a_wrong_type_is_not_parsed_before_5_0() {
    for (option, value, reason) in [
        ("filter", Bson::Int32(5), "of BSON type object"),
        ("sort", Bson::Boolean(true), "of BSON type object"),
        ("limit", "1".into(), "numeric"),
        ("singleBatch", Bson::Int32(1), "of BSON type bool"),
        ("hint", Bson::Int32(1), "either a string or nested object"),
    ] {
        let mut command = doc! { "find": "c" };
        command.insert(option, value);
        let (mut world, conn) = standalone([4, 4, 29]);
        let (code, text) = error(&mut world, conn, command.clone());
        assert_eq!(code, 9, "{command}: {text}");
        let expected = format!("'{option}' field must be {reason}.");
        assert!(text.ends_with(&expected), "{text}");
        let (mut world, conn) = standalone([5, 0, 31]);
        assert_eq!(error(&mut world, conn, command.clone()).0, 14, "{command}");
    }
}

#[test]
fn a_comment_of_a_query_is_a_string_before_4_4() {
    let mut queries = commands();
    queries.truncate(2);
    queries.push(doc! { "count": "c" });
    queries.push(doc! { "distinct": "c", "key": "x" });
    for (release, codes) in [
        ([4, 2, 25], [9, 14, 14, 14]),
        ([4, 4, 13], [0, 0, 14, 14]),
        ([4, 4, 14], [0, 0, 0, 0]),
    ] {
        let (mut world, conn) = standalone(release);
        for (mut query, code) in queries.clone().into_iter().zip(codes) {
            query.insert("comment", doc! { "key": "value" });
            let (found, message) = error(&mut world, conn, query);
            assert_eq!(found, code, "{release:?}: {message}");
        }
    }
}

#[test]
fn fields_with_a_dollar_sign_are_not_stored_before_5_0() {
    let own = doc! { "insert": "c", "documents": [{ "_id": 2, "$a": 1 }] };
    let inner = doc! { "insert": "c", "documents": [{ "_id": 3, "a": { "$b": 1 } }] };
    let update = |u: Document| doc! { "update": "c", "updates": [{ "q": { "_id": 1 }, "u": u }] };
    let replace = update(doc! { "_id": 1, "a": { "$b": 1 } });
    let set = update(doc! { "$set": { "a": [{ "$b": 1 }] } });
    let reference = update(doc! { "a": { "$ref": "c", "$id": 5 }, "b.c": 1 });
    let modify = doc! {
        "findAndModify": "c", "query": { "_id": 1 }, "update": { "_id": 1, "a": { "$b": 1 } },
    };
    let elsewhere = doc! {
        "findAndModify": "c", "query": { "_id": 9 }, "update": { "a": { "$b": 1 } },
    };
    let (mut world, conn) = standalone([4, 4, 29]);
    for (command, code, text) in [
        (own, 2, "Document can't have $ prefixed field names: $a"),
        (inner, 0, ""),
        (
            replace.clone(),
            52,
            "field '$b' in 'a.$b' is not valid for storage.",
        ),
        (
            set.clone(),
            52,
            "field '$b' in 'a.0.$b' is not valid for storage.",
        ),
        (modify, 52, "field '$b' in 'a.$b' is not valid for storage."),
        (elsewhere, 0, ""),
    ] {
        let (found, message) = error(&mut world, conn, command);
        assert_eq!(found, code, "{message}");
        assert!(message.contains(text), "{message}");
    }
    let reply = send(
        &mut world,
        conn,
        doc! { "find": "c", "filter": { "_id": 1 } },
    );
    let cursor = reply.get_document("cursor").expect("a cursor");
    let batch = cursor.get_array("firstBatch").expect("a batch");
    assert_eq!(
        batch,
        &[doc! { "_id": 1, "x": 1 }.into()],
        "nothing changed"
    );
    assert_eq!(error(&mut world, conn, reference).0, 0);
    let (mut world, conn) = standalone([5, 0, 0]);
    for command in [replace, set] {
        assert_eq!(error(&mut world, conn, command), (0, String::new()));
    }
}

#[test]
fn a_nonce_is_returned_before_6_2() {
    let (mut world, conn) = standalone([6, 1, 0]);
    let reply = send(&mut world, conn, doc! { "getnonce": 1 });
    assert_eq!(reply.get_str("nonce").map_or(0, str::len), 16, "{reply}");
    let (mut world, conn) = standalone([6, 2, 0]);
    assert_eq!(error(&mut world, conn, doc! { "getnonce": 1 }).0, 59);
}

#[test]
fn capped_collections_lose_no_documents_by_deletes_before_5_0_7() {
    let delete = doc! { "delete": "f", "deletes": [{ "q": { "_id": 7 }, "limit": 1 }] };
    let remove = doc! { "findAndModify": "f", "query": { "_id": 1 }, "remove": true };
    for (release, expected) in [([4, 4, 29], 20), ([5, 0, 31], 0)] {
        let (mut world, conn) = standalone(release);
        let create = doc! { "create": "f", "capped": true, "size": 4096 };
        send(&mut world, conn, create);
        let insert = doc! { "insert": "f", "documents": [{ "_id": 1 }] };
        send(&mut world, conn, insert);
        for command in [&delete, &remove] {
            let (code, text) = error(&mut world, conn, command.clone());
            assert_eq!(code, expected, "{release:?}: {text}");
        }
        let other = doc! { "delete": "c", "deletes": [{ "q": { "_id": 1 }, "limit": 1 }] };
        assert_eq!(error(&mut world, conn, other).0, 0);
    }
}

/// Returns an aggregation on the collection with one document.
fn aggregate(stages: impl IntoIterator<Item = Document>) -> Document {
    let stages: Vec<Document> = stages.into_iter().collect();
    doc! { "aggregate": "c", "pipeline": stages, "cursor": {} }
}

/// Executes commands with a release and with the one before which the server refuses them.
fn check_since(since: [u16; 3], before: [u16; 3], refused: Vec<(Document, i32)>) {
    let (mut old, old_conn) = standalone(before);
    let (mut new, new_conn) = standalone(since);
    for (command, code) in refused {
        let (found, text) = error(&mut old, old_conn, command.clone());
        assert_eq!(found, code, "{before:?}: {command}: {text}");
        let (found, text) = error(&mut new, new_conn, command.clone());
        assert_eq!(found, 0, "{since:?}: {command}: {text}");
    }
}

#[test]
fn operators_of_expressions_are_unknown_before_their_release() {
    let set = |expression: Document| aggregate([doc! { "$set": { "y": expression } }]);
    let size = || doc! { "$bsonSize": "$$ROOT" };
    let update =
        doc! { "update": "c", "updates": [{ "q": {}, "u": [{ "$set": { "y": size() } }] }] };
    let modify = doc! {
        "findAndModify": "c", "query": {}, "update": [{ "$set": { "y": size() } }],
    };
    let filter = doc! { "$expr": { "$not": size() } };
    let delete = doc! { "delete": "c", "deletes": [{ "q": filter, "limit": 1 }] };
    let joined =
        doc! { "from": "c", "as": "z", "let": {}, "pipeline": [{ "$match": { "$expr": size() } }] };
    let commands = vec![
        (set(doc! { "$first": [[1, 2]] }), 168),
        (set(doc! { "$rand": {} }), 168),
        (aggregate([doc! { "$match": { "$expr": size() } }]), 168),
        (aggregate([doc! { "$group": { "_id": size() } }]), 168),
        (aggregate([doc! { "$lookup": joined }]), 168),
        (
            aggregate([doc! { "$facet": { "a": [{ "$project": { "y": size() } }] } }]),
            168,
        ),
        (doc! { "find": "c", "filter": { "$expr": size() } }, 168),
        (doc! { "count": "c", "query": { "$expr": size() } }, 168),
        (delete, 168),
        (update, 168),
        (modify, 168),
        (
            doc! { "create": "v", "viewOn": "c", "pipeline": [{ "$set": { "y": size() } }] },
            168,
        ),
        (
            doc! { "create": "k", "validator": { "$expr": size() } },
            168,
        ),
        (
            doc! { "listCollections": 1, "filter": { "$expr": size() } },
            168,
        ),
    ];
    check_since([4, 4, 29], [4, 2, 25], commands);
    let field = doc! { "$getField": "x" };
    let limited = doc! { "$filter": { "input": [1, 2], "cond": true, "limit": 1 } };
    let first = doc! { "$firstN": { "n": 1, "input": [1] } };
    let several = doc! { "$ifNull": ["$q", "$r", 1] };
    check_since(
        [5, 0, 31],
        [4, 4, 29],
        vec![(set(field), 168), (set(several), 16020)],
    );
    check_since(
        [6, 0, 20],
        [5, 0, 31],
        vec![(set(first), 168), (set(limited), 28647)],
    );
}

#[test]
fn stages_and_accumulators_are_unknown_before_their_release() {
    let group =
        |accumulator: Document| aggregate([doc! { "$group": { "_id": 1, "n": accumulator } }]);
    let documents =
        doc! { "aggregate": 1, "pipeline": [{ "$documents": [{ "a": 1 }] }], "cursor": {} };
    let top = doc! { "$top": { "output": "$x", "sortBy": { "x": 1 } } };
    let join = doc! {
        "from": "c", "as": "z", "localField": "x", "foreignField": "x", "pipeline": [],
    };
    let out = doc! { "$out": { "db": "test", "coll": "o" } };
    check_since(
        [4, 4, 29],
        [4, 2, 25],
        vec![
            (aggregate([doc! { "$unionWith": "c" }]), 40324),
            (aggregate([out]), 16990),
        ],
    );
    check_since(
        [5, 0, 31],
        [4, 4, 29],
        vec![
            (group(doc! { "$count": {} }), 15952),
            (aggregate([doc! { "$lookup": join }]), 9),
        ],
    );
    check_since(
        [6, 0, 20],
        [5, 0, 31],
        vec![(documents, 40324), (group(top), 15952)],
    );
    let sessions =
        doc! { "aggregate": 1, "pipeline": [{ "$listLocalSessions": {} }], "cursor": {} };
    let window = aggregate([doc! { "$setWindowFields": { "output": {} } }]);
    let median = group(doc! { "$median": { "input": "$x", "method": "approximate" } });
    let inner = aggregate([doc! { "$facet": { "a": [{ "$_given": [] }] } }]);
    let given = doc! { "aggregate": 1, "pipeline": [{ "$_given": [] }], "cursor": {} };
    for (release, command, code) in [
        ([4, 2, 25], &sessions, 0),
        ([7, 0, 24], &given, 40324),
        ([7, 0, 24], &inner, 40324),
        ([4, 4, 29], &window, 40324),
        ([5, 0, 31], &window, 40324),
        ([6, 0, 20], &median, 15952),
        ([7, 0, 24], &median, 15952),
    ] {
        let (mut world, conn) = standalone(release);
        assert_eq!(
            error(&mut world, conn, command.clone()).0,
            code,
            "{release:?}"
        );
    }
}

#[test]
fn forms_of_indexes_are_refused_before_their_release() {
    let create = |key: Document, options: Document| {
        let mut index = doc! { "key": key, "name": "i" };
        index.extend(options);
        doc! { "createIndexes": "c", "indexes": [index] }
    };
    let hidden = create(doc! { "h": 1 }, doc! { "hidden": true, "name": "h" });
    let hashed = create(doc! { "x": 1, "y": "hashed" }, doc! {});
    check_since([4, 4, 29], [4, 2, 25], vec![(hidden, 197), (hashed, 16763)]);
    let partial =
        |filter: Document| create(doc! { "p": 1 }, doc! { "partialFilterExpression": filter });
    check_since(
        [6, 0, 20],
        [5, 0, 31],
        vec![(partial(doc! { "x": { "$in": [1, 2] } }), 67)],
    );
    check_since(
        [6, 0, 20],
        [5, 0, 31],
        vec![(partial(doc! { "$or": [{ "x": 1 }, { "x": 2 }] }), 67)],
    );
    let wildcard = create(doc! { "a": 1, "w.$**": 1 }, doc! {});
    check_since([7, 0, 24], [6, 0, 20], vec![(wildcard, 67)]);
}

#[test]
fn updates_of_many_documents_have_no_order() {
    let sorted = |multi: bool| {
        let statement = doc! {
            "q": {}, "u": { "$set": { "y": 1 } }, "multi": multi, "sort": { "x": 1 },
        };
        doc! { "update": "c", "updates": [statement] }
    };
    let (mut world, conn) = standalone([8, 0, 4]);
    assert_eq!(error(&mut world, conn, sorted(false)).0, 0);
    let expected = (9, "Cannot specify sort with multi=true".to_owned());
    assert_eq!(error(&mut world, conn, sorted(true)), expected);
}
