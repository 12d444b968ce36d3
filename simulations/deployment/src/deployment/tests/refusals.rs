//! Commands that a server refuses, and the codes of its errors.

use super::{
    fidelity::{batch, code, cursor_id, fill},
    world::{World, send, standalone},
};
use crate::deployment::ConnId;
use bson::{Bson, Document, bson, doc};

fn aggregate(stages: &[Document]) -> Document {
    doc! { "aggregate": "c", "pipeline": stages.to_vec(), "cursor": {} }
}

fn refused(world: &mut World, conn: ConnId, cases: impl IntoIterator<Item = (Document, i32)>) {
    for (command, expected) in cases {
        let text = command.to_string();
        assert_eq!(code(world, conn, command), Some(expected), "{text}");
    }
}

#[test]
fn unknown_options_of_indexes_are_ignored_if_the_command_says_so() {
    let (mut world, conn) = standalone();
    let create = |key: Document, ignores: bool| {
        let index = doc! { "key": key, "name": "i", "foo": 1 };
        doc! { "createIndexes": "c", "indexes": [index], "ignoreUnknownIndexOptions": ignores }
    };
    let cases = [
        (create(doc! { "a": 1 }, false), 197),
        (create(doc! { "_id": -1 }, true), 2),
    ];
    refused(&mut world, conn, cases);
    assert_eq!(code(&mut world, conn, create(doc! { "a": 1 }, true)), None);
    let listed = send(&mut world, conn, doc! { "listIndexes": "c", "$db": "d" });
    assert!(!listed.to_string().contains("foo"), "{listed}");
}

#[test]
fn a_malformed_list_of_sessions_kills_nothing() {
    let (mut world, conn) = standalone();
    fill(&mut world, conn, 3);
    let opened = send(
        &mut world,
        conn,
        doc! { "find": "c", "batchSize": 1, "$db": "d" },
    );
    let cursor = opened
        .get_document("cursor")
        .and_then(|cursor| cursor.get_i64("id"));
    let cursor = cursor.expect("a cursor");
    let cases = [
        (doc! { "killSessions": 5 }, 14),
        (doc! { "killSessions": [5] }, 14),
        (doc! { "killSessions": [{}] }, 40414),
        (doc! { "killAllSessions": "x" }, 14),
    ];
    refused(&mut world, conn, cases);
    code(&mut world, conn, doc! { "killSessions": Bson::Null });
    let more = doc! { "getMore": cursor, "collection": "c", "$db": "d" };
    assert_eq!(code(&mut world, conn, more), None);
}

#[test]
fn inner_pipelines_do_not_write() {
    let (mut world, conn) = standalone();
    fill(&mut world, conn, 1);
    let cases = ["$out", "$merge"].into_iter().flat_map(|name| {
        let inner = vec![doc! { name: "d" }];
        let lookup = doc! { "from": "c", "pipeline": inner.clone(), "as": "found" };
        let union = doc! { "coll": "c", "pipeline": inner };
        [
            (aggregate(&[doc! { "$lookup": lookup }]), 51047),
            (aggregate(&[doc! { "$unionWith": union }]), 31441),
        ]
    });
    refused(&mut world, conn, cases);
}

#[test]
fn aggregates_of_a_database_begin_with_a_source() {
    let (mut world, conn) = standalone();
    fill(&mut world, conn, 1);
    let of_database = |stages: Vec<Document>| {
        doc! { "aggregate": 1, "pipeline": stages, "cursor": {} }
    };
    let made = |operand: Bson| of_database(vec![doc! { "$documents": operand }]);
    let sum = doc! { "x": { "$add": [1, 2] } };
    let cases = [
        (of_database(vec![]), 73),
        (of_database(vec![doc! { "$limit": 1 }]), 73),
        (made(bson!([sum.clone(), 5])), 40228),
        (made(bson!({ "x": 1 })), 5_858_203),
    ];
    refused(&mut world, conn, cases);
    let reply = send(&mut world, conn, made(bson!([sum])));
    assert_eq!(batch(&reply), [bson!({ "x": 3 })], "{reply}");
}

#[test]
fn single_commands_refuse_what_has_no_effect() {
    let (mut world, conn) = standalone();
    fill(&mut world, conn, 1);
    let large = |id: i32| doc! { "_id": id, "v": id.to_string().repeat(400_000) };
    for first in [100, 110] {
        let documents: Vec<Document> = (first..first + 10).map(large).collect();
        send(
            &mut world,
            conn,
            doc! { "insert": "large", "documents": documents },
        );
    }
    let bits = doc! { "q": {}, "u": { "$bit": { "a": {} } } };
    let remove = doc! {
        "findAndModify": "c", "query": {}, "remove": true, "arrayFilters": [{ "x": 1 }],
    };
    let cases = [
        (remove, 9),
        (doc! { "distinct": "large", "key": "v" }, 17217),
    ];
    refused(&mut world, conn, cases);
    let reply = send(&mut world, conn, doc! { "update": "c", "updates": [bits] });
    assert!(
        reply.to_string().contains("at least one bitwise"),
        "{reply}"
    );
}

#[test]
fn a_view_has_a_valid_pipeline_and_does_not_depend_on_itself() {
    let (mut world, conn) = standalone();
    let view = |name: &str, on: &str, stages: Vec<Document>| {
        doc! { "create": name, "viewOn": on, "pipeline": stages }
    };
    let cases = [
        (view("v", "c", vec![doc! { "$out": "d" }]), 167),
        (view("v", "c", vec![doc! { "$merge": "d" }]), 167),
        (view("v", "c", vec![doc! { "$bogus": 1 }]), 40324),
        (view("v", "c", vec![doc! { "$match": { "$bogus": 1 } }]), 2),
        (view("v", "v", vec![]), 5),
    ];
    refused(&mut world, conn, cases);
    assert_eq!(code(&mut world, conn, view("a", "b", vec![])), None);
    refused(&mut world, conn, [(view("b", "a", vec![]), 5)]);
    let change = doc! { "collMod": "a", "viewOn": "a", "pipeline": [] };
    let rename = doc! { "renameCollection": "d.a", "to": "d.z", "$db": "admin" };
    refused(&mut world, conn, [(change, 5), (rename, 166)]);
    for depth in 0..20 {
        let (name, on) = (format!("w{}", depth + 1), format!("w{depth}"));
        assert_eq!(code(&mut world, conn, view(&name, &on, vec![])), None);
    }
    refused(&mut world, conn, [(view("w21", "w20", vec![]), 165)]);
}

#[test]
fn a_cursor_ends_with_its_collection() {
    let ends = [
        doc! { "drop": "c" },
        doc! { "dropDatabase": 1 },
        doc! { "renameCollection": "d.c", "to": "d.d", "$db": "admin" },
    ];
    for end in ends {
        let (mut world, conn) = standalone();
        fill(&mut world, conn, 9);
        let open = [
            doc! { "find": "c", "batchSize": 2 },
            doc! { "aggregate": "c", "pipeline": [], "cursor": { "batchSize": 2 } },
        ];
        let ids = open.map(|command| cursor_id(&send(&mut world, conn, command)));
        assert_eq!(code(&mut world, conn, end), None);
        for id in ids {
            let more = doc! { "getMore": id, "collection": "c" };
            refused(&mut world, conn, [(more.clone(), 175), (more, 43)]);
        }
    }
}

#[test]
fn time_limits_and_names_have_bounds() {
    let (mut world, conn) = standalone();
    fill(&mut world, conn, 1);
    let limits = [
        (Bson::Int32(-1), 2),
        (Bson::Int64(1 << 40), 2),
        ("1".into(), 14),
    ];
    for (limit, code) in limits {
        let limited = |name: &str, value: Bson| doc! { name: value, "maxTimeMS": limit.clone() };
        let find = limited("find", "c".into());
        let ping = limited("ping", 1.into());
        refused(&mut world, conn, [(find, code), (ping, code)]);
    }
    let insert = |database: &str, collection: &str| {
        doc! { "insert": collection, "documents": [{ "_id": 1 }], "$db": database }
    };
    let cases = [
        (insert(&"x".repeat(64), "c"), 73),
        (doc! { "create": "c", "$db": "D" }, 13297),
        (insert("d", "system.foo"), 73),
        (doc! { "create": "system.foo" }, 73),
        (doc! { "dropDatabase": 1, "$db": "admin" }, 20),
        (doc! { "dropDatabase": 1, "$db": "local" }, 20),
    ];
    refused(&mut world, conn, cases);
}

#[test]
fn hidden_indexes_capped_collections_and_dotted_ids_are_refused() {
    let (mut world, conn) = standalone();
    fill(&mut world, conn, 1);
    let index = doc! { "key": { "n": 1 }, "name": "n_1", "hidden": true };
    let create = doc! { "createIndexes": "c", "indexes": [index] };
    assert_eq!(code(&mut world, conn, create), None);
    let capped = doc! { "create": "small", "capped": true, "size": 4096 };
    assert_eq!(code(&mut world, conn, capped), None);
    let series = doc! { "db": "d", "coll": "t", "timeseries": { "timeField": "at" } };
    let upsert = doc! { "q": { "_id.a": 1 }, "u": { "$set": { "z": 1 } }, "upsert": true };
    let cases = [
        (doc! { "find": "c", "hint": "n_1" }, 2),
        (doc! { "find": "c", "hint": { "n": 1 } }, 2),
        (aggregate(&[doc! { "$out": "small" }]), 17152),
        (aggregate(&[doc! { "$out": series }]), 40415),
    ];
    refused(&mut world, conn, cases);
    let reply = send(
        &mut world,
        conn,
        doc! { "update": "c", "updates": [upsert] },
    );
    let errors = reply.get_array("writeErrors").expect("it fails");
    let error = errors[0].as_document().expect("an error");
    assert_eq!(error.get_i32("code").ok(), Some(111));
}

#[test]
fn nan_lies_between_the_extreme_keys_and_explain_skips() {
    let (mut world, conn) = standalone();
    let documents = [doc! { "_id": 1, "x": f64::NAN }, doc! { "_id": 2, "x": 1 }];
    let insert = doc! { "insert": "n", "documents": documents.to_vec() };
    assert_eq!(code(&mut world, conn, insert), None);
    for index in [false, true] {
        if index {
            let index = doc! { "key": { "x": 1 }, "name": "x_1" };
            let create = doc! { "createIndexes": "n", "indexes": [index] };
            assert_eq!(code(&mut world, conn, create), None);
        }
        for filter in [
            doc! { "$gt": Bson::MinKey },
            doc! { "$gte": Bson::MinKey },
            doc! { "$lt": Bson::MaxKey },
        ] {
            let reply = send(
                &mut world,
                conn,
                doc! { "find": "n", "filter": { "x": filter } },
            );
            assert_eq!(batch(&reply).len(), 2, "{reply}");
        }
    }
    let explained = doc! { "find": "n", "filter": {}, "skip": 1 };
    let explain = doc! { "explain": explained, "verbosity": "executionStats" };
    let reply = send(&mut world, conn, explain);
    let statistics = reply
        .get_document("executionStats")
        .expect("they are there");
    assert_eq!(statistics.get_i32("nReturned").ok(), Some(1), "{reply}");
}

#[test]
fn a_limit_ends_a_pipeline_before_later_documents_fail() {
    let (mut world, conn) = standalone();
    let documents = [1, 2, 0, 3].map(|a| doc! { "_id": a, "a": a });
    let insert = doc! { "insert": "c", "documents": documents.to_vec() };
    assert_eq!(code(&mut world, conn, insert), None);
    let quotient = doc! { "$divide": [1, "$a"] };
    let matching = doc! { "$match": { "$expr": { "$gt": [quotient.clone(), 0] } } };
    let computed = doc! { "$project": { "x": quotient } };
    for stages in [
        vec![matching.clone(), doc! { "$limit": 2 }],
        vec![computed.clone(), doc! { "$limit": 2 }],
        vec![
            computed.clone(),
            doc! { "$match": {} },
            doc! { "$skip": 1 },
            doc! { "$limit": 1 },
        ],
    ] {
        let reply = send(&mut world, conn, aggregate(&stages));
        let expected: &[i32] = if stages.len() == 4 { &[2] } else { &[1, 2] };
        let found = batch(&reply).iter();
        let ids = found.filter_map(|found| found.as_document()?.get_i32("_id").ok());
        let ids: Vec<_> = ids.collect();
        assert_eq!(ids, expected, "{stages:?}");
    }
    for stages in [
        vec![matching, doc! { "$limit": 3 }],
        vec![computed, doc! { "$skip": 2 }, doc! { "$limit": 1 }],
    ] {
        refused(&mut world, conn, [(aggregate(&stages), 2)]);
    }
}

#[test]
fn pipelines_and_updates_are_parsed_where_no_document_reaches_them() {
    let (mut world, conn) = standalone();
    let bogus = doc! { "$project": { "x": { "$foo": 1 } } };
    let lookup = doc! { "from": "t", "pipeline": [bogus.clone()], "as": "y" };
    let merge = doc! { "into": "x", "whenMatched": [{ "$match": {} }] };
    let update = |change: Bson| {
        doc! { "update": "c", "updates": [{ "q": {}, "u": change }] }
    };
    let filtered = doc! {
        "update": "c",
        "updates": [{ "q": {}, "u": [{ "$set": { "b": 1 } }], "arrayFilters": [{ "x": 1 }] }],
    };
    let bits = doc! { "$bit": { "a": { "foo": 1 } } };
    let cases = [
        (aggregate(&[doc! { "$lookup": lookup }]), 168),
        (aggregate(&[doc! { "$merge": merge }]), 72),
        (aggregate(&[doc! { "$facet": { "a.b": [] } }]), 16412),
        (aggregate(&[doc! { "$facet": { "$x": [] } }]), 16410),
        (aggregate(&[doc! { "$facet": { "": [] } }]), 40352),
        (aggregate(&[doc! { "$out": "system.views" }]), 17385),
        (
            aggregate(&[doc! { "$out": { "db": "admin", "coll": "x" } }]),
            31321,
        ),
        (aggregate(&[doc! { "$out": { "coll": "x" } }]), 40414),
        (aggregate(&[doc! { "$merge": "system.views" }]), 31319),
    ];
    refused(&mut world, conn, cases);
    // These errors are those of statements.
    for (command, expected) in [
        (update(vec![bogus].into()), 168),
        (update(doc! { "$set": { "a.$[x]": 1 } }.into()), 2),
        (update(bits.into()), 2),
        (filtered, 9),
    ] {
        let reply = send(&mut world, conn, command.clone());
        let errors = reply.get_array("writeErrors").ok();
        let first = errors.and_then(|errors| errors.first()?.as_document());
        let found = first.and_then(|error| error.get_i32("code").ok());
        assert_eq!(found, Some(expected), "{command} {reply}");
    }
    // A parse error comes before the errors of documents.
    fill(&mut world, conn, 1);
    let fails = doc! { "$project": { "x": { "$divide": [1, 0] } } };
    let group = doc! { "$group": { "x": 1 } };
    refused(&mut world, conn, [(aggregate(&[fails, group]), 40234)]);
}

#[test]
fn a_view_has_no_indexes_and_no_statistics() {
    let (mut world, conn) = standalone();
    fill(&mut world, conn, 1);
    let create = doc! { "create": "v", "viewOn": "c", "pipeline": [] };
    assert_eq!(code(&mut world, conn, create), None);
    let projected = |name: &str, value: Bson| doc! { "find": "v", "projection": { name: value } };
    let one = doc! { "find": "v", "singleBatch": true, "limit": 1, "projection": { "_id": 1 } };
    assert_eq!(code(&mut world, conn, one), None);
    let cases = [
        (doc! { "listIndexes": "v" }, 166),
        (doc! { "collStats": "v" }, 166),
        (doc! { "validate": "v" }, 166),
        (doc! { "dropIndexes": "v", "index": "*" }, 166),
        (doc! { "find": "v", "returnKey": true }, 168),
        (doc! { "find": "v", "showRecordId": true }, 168),
        (doc! { "find": "v", "tailable": true }, 168),
        (doc! { "find": "v", "noCursorTimeout": true }, 168),
        (doc! { "find": "v", "singleBatch": true, "limit": 2 }, 168),
        (doc! { "find": "v", "sort": { "$natural": 1 } }, 168),
        (
            projected("a", doc! { "$elemMatch": { "b": 1 } }.into()),
            168,
        ),
        (projected("a", doc! { "$slice": 1 }.into()), 28667),
        (projected("a.$", 1.into()), 31324),
        (
            doc! { "renameCollection": "d.c", "to": "d.v", "dropTarget": true, "$db": "admin" },
            48,
        ),
        (doc! { "create": "w", "pipeline": [] }, 72),
    ];
    refused(&mut world, conn, cases);
}

#[test]
fn an_index_has_a_valid_name_and_key() {
    let (mut world, conn) = standalone();
    fill(&mut world, conn, 1);
    let create = |index: Document| doc! { "createIndexes": "c", "indexes": [index] };
    let named = |name: &str| create(doc! { "key": { "n": 1 }, "name": name });
    let keyed = |key: Document| create(doc! { "key": key, "name": "x" });
    let wildcard = doc! { "key": { "n": 1 }, "name": "x", "wildcardProjection": { "a": 1 } };
    let cases = [
        (doc! { "createIndexes": "c", "indexes": [] }, 2),
        (create(doc! { "key": { "n": 1 } }), 9),
        (create(doc! { "key": { "n": 1 }, "name": 5 }), 14),
        (named(""), 67),
        (named("*"), 2),
        (named("a\0b"), 67),
        (named("_id_"), 2),
        (create(doc! { "key": { "_id": -1 }, "name": "_id_" }), 2),
        (keyed(doc! { "$a": 1 }), 67),
        (keyed(doc! { "n.$x": 1 }), 67),
        (keyed(doc! { "n": f64::NAN }), 67),
        (create(wildcard), 2),
    ];
    refused(&mut world, conn, cases);
    assert_eq!(code(&mut world, conn, keyed(doc! { "$**": 1 })), None);
}

#[test]
fn unstable_fields_are_refused_with_the_strict_stable_api() {
    let (mut world, conn) = standalone();
    let strict = |mut command: Document| {
        command.extend(doc! { "apiVersion": "1", "apiStrict": true });
        command
    };
    let sparse = doc! { "key": { "n": 1 }, "name": "x", "sparse": true };
    let cases = [
        (strict(doc! { "find": "c", "returnKey": true }), 323),
        (strict(doc! { "find": "c", "tailable": true }), 323),
        (
            strict(doc! { "create": "d", "capped": true, "size": 9 }),
            323,
        ),
        (
            strict(doc! { "createIndexes": "c", "indexes": [sparse] }),
            323,
        ),
    ];
    refused(&mut world, conn, cases);
    assert_eq!(
        code(&mut world, conn, strict(doc! { "find": "c", "limit": 1 })),
        None
    );
}

#[test]
fn valid_pipelines_are_not_run_when_they_are_parsed() {
    let (mut world, conn) = standalone();
    fill(&mut world, conn, 5);
    let count = doc! { "$group": { "_id": null, "n": { "$sum": 1 } } };
    let first = doc! { "$arrayElemAt": ["$all", 0] };
    let quotient = doc! { "$divide": [10, { "$size": "$all" }] };
    let equals = doc! { "$match": { "$expr": { "$eq": ["$x", "$$v"] } } };
    let documents = doc! { "$documents": [{ "x": 1 }, { "x": 2 }] };
    let lookup = doc! {
        "let": { "v": "$n" }, "pipeline": [documents.clone(), equals.clone()], "as": "y",
    };
    for stages in [
        vec![
            doc! { "$facet": { "all": [count] } },
            doc! { "$replaceRoot": { "newRoot": first } },
        ],
        vec![
            doc! { "$facet": { "all": [{ "$limit": 1 }] } },
            doc! { "$addFields": { "s": quotient } },
        ],
        vec![doc! { "$lookup": lookup }],
    ] {
        let command = aggregate(&stages);
        let reply = send(&mut world, conn, command.clone());
        assert!(!batch(&reply).is_empty(), "{command}: {reply}");
    }
    let command = doc! {
        "aggregate": 1, "pipeline": [documents, equals], "cursor": {}, "let": { "v": 1 },
    };
    let reply = send(&mut world, conn, command);
    assert_eq!(batch(&reply).len(), 1, "{reply}");
}
