//! Commands that a server refuses, and the codes of its errors.

use super::{
    fidelity::{batch, code, cursor_id, fill},
    world::{World, send, standalone},
};
use crate::deployment::ConnId;
use bson::{Bson, Document, doc};

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
    let limits = [Bson::Int32(-1), Bson::Int64(1 << 40), Bson::from("1")];
    for limit in limits {
        let limited = |name: &str, value: Bson| doc! { name: value, "maxTimeMS": limit.clone() };
        let find = limited("find", "c".into());
        refused(
            &mut world,
            conn,
            [(find, 2), (limited("ping", 1.into()), 2)],
        );
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
        (aggregate(&[doc! { "$out": series }]), 238),
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
fn what_a_server_has_is_refused_by_name() {
    let (mut world, conn) = standalone();
    fill(&mut world, conn, 1);
    let find = |filter: Document| (doc! { "find": "c", "filter": filter }, 238);
    let group = |operator: &str| {
        let group = doc! { "_id": null, "x": { operator: { "input": "$n" } } };
        (aggregate(&[doc! { "$group": group }]), 238)
    };
    let stage = |name: &str| (aggregate(&[doc! { name: {} }]), 238);
    let cases = [
        find(doc! { "n": { "$near": [0, 0] } }),
        find(doc! { "n": { "$geoWithin": { "$box": [[0, 0], [1, 1]] } } }),
        find(doc! { "$sampleRate": 0.5 }),
        group("$median"),
        group("$percentile"),
        stage("$planCacheStats"),
        stage("$listSessions"),
    ];
    refused(&mut world, conn, cases);
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
