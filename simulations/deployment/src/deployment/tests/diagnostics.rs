//! Commands that describe data, and `fsync`.

use super::{
    fidelity::{code, fill},
    world::{World, send, standalone},
};
use crate::deployment::ConnId;
use bson::{Document, doc};

#[test]
fn explain_describes_a_query_and_validate_a_collection() {
    let (mut world, conn) = standalone();
    fill(&mut world, conn, 4);
    let find = doc! { "find": "c", "filter": { "n": { "$gt": 1 } } };
    let explain = doc! { "explain": find, "verbosity": "executionStats" };
    let reply = send(&mut world, conn, explain);
    let planner = reply.get_document("queryPlanner").expect("a plan");
    let winning = planner.get_document("winningPlan").expect("a stage");
    assert_eq!(winning.get_str("stage").ok(), Some("COLLSCAN"));
    let statistics = reply.get_document("executionStats").expect("statistics");
    assert_eq!(statistics.get_i32("nReturned").ok(), Some(2));
    let hinted = doc! { "explain": { "find": "c", "hint": "none" } };
    assert_eq!(code(&mut world, conn, hinted), Some(2));
    let odd = doc! { "explain": { "find": "c", "fitler": {} } };
    assert_eq!(code(&mut world, conn, odd), Some(40415));
    let aggregate = doc! { "aggregate": "c", "pipeline": [], "explain": true };
    assert!(send(&mut world, conn, aggregate).contains_key("queryPlanner"));
    let reply = send(&mut world, conn, doc! { "validate": "c" });
    assert_eq!(reply.get_bool("valid").ok(), Some(true), "{reply}");
    assert_eq!(reply.get_i32("nrecords").ok(), Some(4));
    assert_eq!(
        code(&mut world, conn, doc! { "validate": "none" }),
        Some(26)
    );
    let both = doc! { "validate": "c", "full": true, "background": true };
    assert_eq!(code(&mut world, conn, both), Some(72));
}

/// Returns the name of the index that the plan of a query reads, and whether it is a partial one.
fn planned(world: &mut World, conn: ConnId, find: Document) -> Option<(String, bool)> {
    let reply = send(world, conn, doc! { "explain": find });
    let planner = reply.get_document("queryPlanner").expect("a plan");
    let winning = planner.get_document("winningPlan").expect("a stage");
    let scan = winning.get_document("inputStage").ok()?;
    let name = scan.get_str("indexName").expect("a name").to_owned();
    Some((name, scan.get_bool("isPartial").expect("a flag")))
}

#[test]
fn a_plan_names_the_index_of_the_query() {
    let (mut world, conn) = standalone();
    let index = doc! {
        "key": { "x": 1 }, "name": "x_1", "partialFilterExpression": { "a": { "$lte": 1.5 } },
    };
    let plain = doc! { "key": { "y": -1 }, "name": "y_-1" };
    let create = doc! { "createIndexes": "c", "indexes": [index, plain] };
    assert_eq!(code(&mut world, conn, create), None);
    let partial = Some(("x_1".to_owned(), true));
    for (filter, expected) in [
        (doc! { "x": 6, "a": 1 }, &partial),
        (doc! { "x": { "$gt": 1 }, "a": 1 }, &partial),
        (doc! { "x": 6, "a": { "$lte": 1 } }, &partial),
        (doc! { "x": 6, "a": { "$in": [1, 1.5] } }, &partial),
        (doc! { "x": 6, "a": { "$lte": 1.6 } }, &None),
        (doc! { "x": 6, "a": { "$gte": 1 } }, &None),
        (doc! { "x": 6, "a": { "$in": [1, 2] } }, &None),
        (doc! { "x": 6 }, &None),
        (doc! { "y": 6 }, &Some(("y_-1".to_owned(), false))),
        (doc! { "z": 6 }, &None),
    ] {
        let find = doc! { "find": "c", "filter": filter.clone() };
        assert_eq!(&planned(&mut world, conn, find), expected, "{filter}");
    }
    let sorted = doc! { "find": "c", "sort": { "y": 1 } };
    let plain = Some(("y_-1".to_owned(), false));
    assert_eq!(planned(&mut world, conn, sorted), plain);
    let hinted = doc! { "find": "c", "hint": { "y": -1 } };
    assert_eq!(planned(&mut world, conn, hinted), plain);
    let hinted = doc! { "find": "c", "hint": "_id_" };
    let of_ids = Some(("_id_".to_owned(), false));
    assert_eq!(planned(&mut world, conn, hinted), of_ids);
}

#[test]
fn fsync_has_nothing_to_write_and_no_lock() {
    let (mut world, conn) = standalone();
    let fsync = |lock: bool| doc! { "fsync": 1, "lock": lock, "$db": "admin" };
    let reply = send(&mut world, conn, fsync(false));
    assert_eq!(reply.get_i32("numFiles").ok(), Some(1), "{reply}");
    assert_eq!(code(&mut world, conn, fsync(true)), Some(115));
}
