//! Tests of documents with a time to live.

use super::world::{World, set_of};
use bson::{DateTime, doc};
use std::time::Duration;

fn count(world: &mut World, member: usize) -> Option<i32> {
    let conn = world.connect(member);
    let preference = doc! { "mode": "nearest" };
    let count = doc! { "count": "c", "$readPreference": preference, "$db": "d" };
    let reply = world.send_command(conn, &count).expect("a reply");
    reply.get_i32("n").ok()
}

#[test]
fn the_primary_deletes_expired_documents_each_minute_on_all_members() {
    let mut world = World::new(set_of(3), 1);
    let limit = Duration::from_secs(30);
    let (primary, _) = world.until_primary(limit).expect("a primary");
    let conn = world.connect(primary);
    let old = DateTime::from_millis(0);
    for command in [
        doc! { "insert": "c", "documents": [{ "at": old }, { "at": "never" }] },
        doc! {
            "createIndexes": "c",
            "indexes": [{ "key": { "at": 1 }, "name": "at_1", "expireAfterSeconds": 3600 }],
        },
    ] {
        let mut command = command;
        command.insert("$db", "d");
        let reply = world.send_command(conn, &command).expect("a reply");
        assert_eq!(reply.get_f64("ok").ok(), Some(1.0), "{reply}");
    }
    assert_eq!(count(&mut world, primary), Some(2));
    world.run_for(Duration::from_secs(65));
    for member in 0..3 {
        assert_eq!(count(&mut world, member), Some(1), "member {member}");
    }
    // The next primary deletes as well.
    world.deployment.kill(world.now, primary);
    world.run_for(Duration::from_secs(30));
    let (next, _) = world.until_primary(limit).expect("a primary");
    let conn = world.connect(next);
    let insert = doc! { "insert": "c", "documents": [{ "at": old }], "$db": "d" };
    world.send_command(conn, &insert).expect("a reply");
    world.run_for(Duration::from_secs(65));
    assert_eq!(count(&mut world, next), Some(1));
}
