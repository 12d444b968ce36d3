//! Fail points besides `failCommand`.

use super::{
    fidelity::{code, cursor_id, fill},
    world::{World, of_release, send, set_of, with_primary},
};
use bson::{Bson, Document, doc};
use std::time::Duration;

fn set(name: &str, mode: Bson, data: Document) -> Document {
    doc! { "configureFailPoint": name, "mode": mode, "data": data, "$db": "admin" }
}

#[test]
fn fail_points_of_the_server_act_on_their_commands() {
    let mut world = World::new(set_of(3), 1);
    let (primary, _) = world
        .until_primary(Duration::from_secs(60))
        .expect("a primary");
    let conn = world.connect(primary);
    fill(&mut world, conn, 3);
    send(
        &mut world,
        conn,
        set("maxTimeAlwaysTimeOut", "alwaysOn".into(), doc! {}),
    );
    let limited = doc! { "find": "c", "maxTimeMS": 1000 };
    assert_eq!(code(&mut world, conn, limited), Some(50));
    assert_eq!(code(&mut world, conn, doc! { "find": "c" }), None);
    send(
        &mut world,
        conn,
        set("maxTimeAlwaysTimeOut", "off".into(), doc! {}),
    );
    let reply = send(&mut world, conn, doc! { "find": "c", "batchSize": 1 });
    let once = doc! { "times": 1 };
    let data = doc! { "errorCode": 280 };
    send(
        &mut world,
        conn,
        set("failGetMoreAfterCursorCheckout", once.into(), data),
    );
    let more = doc! { "getMore": cursor_id(&reply), "collection": "c" };
    assert_eq!(code(&mut world, conn, more.clone()), Some(280));
    assert_eq!(code(&mut world, conn, more), Some(43));
}

/// Without their producers, or without the application of entries, the secondaries do not confirm a
/// write.
#[test]
fn members_that_fetch_or_apply_no_entries_confirm_no_writes() {
    for point in ["stopReplProducer", "rsSyncApplyStop"] {
        let (mut world, primary, conn) = with_primary();
        for member in (0..3).filter(|&member| member != primary) {
            let other = world.connect(member);
            send(&mut world, other, set(point, "alwaysOn".into(), doc! {}));
        }
        let concern = doc! { "w": 3, "wtimeout": 100 };
        let insert = doc! { "insert": "c", "documents": [{}], "writeConcern": concern };
        let reply = send(&mut world, conn, insert);
        let error = reply.get_document("writeConcernError").expect("an error");
        let info = error.get_document("errInfo").expect("its facts");
        let expected = doc! { "w": 3, "wtimeout": 100, "provenance": "clientSupplied" };
        assert_eq!(info.get_document("writeConcern").ok(), Some(&expected));
        assert_eq!(info.get_bool("wtimeout").ok(), Some(true));
        // The secondaries are alive, so the primary stays, and they catch up afterwards.
        let term = world.deployment.term(primary);
        world.run_for(Duration::from_secs(60));
        assert_eq!(world.deployment.primary(), Some(primary));
        assert_eq!(world.deployment.term(primary), term);
        for member in (0..3).filter(|&member| member != primary) {
            let other = world.connect(member);
            send(&mut world, other, set(point, "off".into(), doc! {}));
        }
        let insert = doc! { "insert": "c", "documents": [{}], "writeConcern": { "w": 3 } };
        assert!(!send(&mut world, conn, insert).contains_key("writeConcernError"));
    }
}

#[test]
fn a_process_begins_without_fail_points() {
    let (mut world, primary, conn) = with_primary();
    let (secondary, now) = ((primary + 1) % 3, world.now);
    let fail = doc! { "failCommands": ["ping"], "errorCode": 91 };
    world.deployment.kill(now, secondary);
    for (point, data) in [("failCommand", fail), ("stopReplProducer", doc! {})] {
        let command = set(point, "alwaysOn".into(), data);
        let set = world.deployment.configure_fail_point(secondary, &command);
        assert_eq!(set, Ok(()), "{point}");
    }
    world.deployment.restart(now, secondary);
    world.run_for(Duration::from_secs(10));
    let other = world.connect(secondary);
    assert_eq!(code(&mut world, other, doc! { "ping": 1 }), None);
    let concern = doc! { "w": 3, "wtimeout": 1000 };
    let insert = doc! { "insert": "c", "documents": [{}], "writeConcern": concern };
    let reply = send(&mut world, conn, insert);
    assert!(!reply.contains_key("writeConcernError"), "{reply}");
}

#[test]
fn a_member_applies_entries_again_only_after_both_fail_points_are_off() {
    let (mut world, primary, conn) = with_primary();
    let secondary = world.connect((primary + 1) % 3);
    for (point, mode) in [
        ("stopReplProducer", "alwaysOn"),
        ("rsSyncApplyStop", "alwaysOn"),
        ("stopReplProducer", "off"),
    ] {
        send(&mut world, secondary, set(point, mode.into(), doc! {}));
    }
    let concern = doc! { "w": 3, "wtimeout": 100 };
    let insert = doc! { "insert": "c", "documents": [{}], "writeConcern": concern };
    let reply = send(&mut world, conn, insert.clone());
    assert!(reply.contains_key("writeConcernError"), "{reply}");
    let off = set("rsSyncApplyStop", "off".into(), doc! {});
    send(&mut world, secondary, off);
    world.run_for(Duration::from_secs(10));
    let reply = send(&mut world, conn, insert);
    assert!(!reply.contains_key("writeConcernError"), "{reply}");
}

#[test]
fn a_fail_point_does_not_act_on_a_command_that_the_release_does_not_have() {
    let (mut world, conn) = of_release([7, 0, 12]);
    let data = doc! { "failCommands": ["bulkWrite", "listShards"], "errorCode": 91 };
    let fail = |mode: Bson| set("failCommand", mode, data.clone());
    send(&mut world, conn, fail("alwaysOn".into()));
    let operations = vec![doc! { "insert": 0, "document": {} }];
    let bulk = doc! {
        "bulkWrite": 1, "ops": operations, "nsInfo": [{ "ns": "d.c" }], "$db": "admin",
    };
    assert_eq!(code(&mut world, conn, bulk), Some(59));
    let list = doc! { "listShards": 1, "$db": "admin" };
    assert_eq!(code(&mut world, conn, list), Some(59));
    let reply = send(&mut world, conn, fail("off".into()));
    assert_eq!(
        reply.get("count"),
        Some(&Bson::Int64(0)),
        "nothing was used up"
    );
}
