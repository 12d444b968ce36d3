//! Transactions keep their connections, and share them with their cursors. Scripted, as the owner
//! of a transaction goes about it.

use super::*;

#[test]
fn a_transaction_and_its_cursor_share_a_connection() {
    // LB-39, LB-41, LB-42, LB-44
    let mut world = world();
    let (mut lease, pin) = lease_a_transaction(&mut world);
    let socket = lease.socket();
    World::answer(&mut lease, &rawdoc! { "ok": 1, "n": 1 });
    world.check_in(lease, Outcome::Completed);
    assert_eq!(
        told(&mut world),
        ["started", "created 1", "ready 1", "out 1"]
    );
    let mut command = find();
    command.set_pin(&pin);
    let mut lease = world.lease(command);
    assert_eq!(lease.socket(), socket);
    // No second command at the same time.
    let mut hasty = ping();
    hasty.set_pin(&pin);
    let start = world.client.start(world.now, hasty);
    assert!(matches!(start, Start::Failed(_)), "{start:?}");
    // Nobody else's operation runs on it either.
    let other = world.lease(ping());
    assert_ne!(other.socket(), socket);
    told(&mut world);
    World::answer(&mut lease, &cursor_reply(5, "firstBatch"));
    let mut cursor = Cursor::from_lease(&mut lease, "db".into()).expect("a cursor");
    world.check_in(lease, Outcome::Completed);
    let kill = cursor.end().expect("it is open");
    world.perform(kill, &rawdoc! { "ok": 1 });
    assert!(told(&mut world).is_empty(), "the transaction keeps it");
    world.client.release(world.now, pin);
    assert_eq!(told(&mut world), ["in 1"]);
}

#[test]
fn a_commit_that_broke_gives_its_connection_up_before_it_is_tried_on_another() {
    // LB-40, trap 9: scripted, as a transaction's owner does it.
    let mut world = world();
    let (mut lease, pin) = lease_a_transaction(&mut world);
    World::answer(&mut lease, &rawdoc! { "ok": 1, "n": 1 });
    world.check_in(lease, Outcome::Completed);
    let commit = || {
        let mut command = Command::new("commitTransaction", "admin", CommandKind::RetryableWrite);
        command.body().i32("commitTransaction", 1);
        command.set_session(SessionUse::None);
        command
    };
    let mut first = commit();
    first.set_pin(&pin);
    let lease = world.lease(first);
    let socket = lease.socket();
    told(&mut world);
    let verdict = world.check_in(lease, reset());
    // It is its owner who tries again, not the client, on the same connection.
    assert!(matches!(verdict, Verdict::Done(Err(_))), "{verdict:?}");
    assert_eq!(told(&mut world), ["cleared 1"]);
    world.client.release(world.now, pin);
    world.run();
    let mut lease = world.lease(commit());
    assert_ne!(lease.socket(), socket);
    assert_eq!(
        told(&mut world),
        [
            "in 1",
            "closed 1: Error",
            "started",
            "created 2",
            "ready 2",
            "out 2"
        ]
    );
    World::answer(&mut lease, &rawdoc! { "ok": 1 });
    world.check_in(lease, Outcome::Completed);
    assert_eq!(told(&mut world), ["in 2"]);
}

#[test]
fn a_pin_that_is_released_during_a_command_ends_with_it() {
    let mut world = world();
    let (lease, pin) = lease_a_transaction(&mut world);
    let mut lease = lease;
    World::answer(&mut lease, &rawdoc! { "ok": 1, "n": 1 });
    world.check_in(lease, Outcome::Completed);
    let mut command = ping();
    command.set_pin(&pin);
    let mut lease = world.lease(command);
    told(&mut world);
    world.client.release(world.now, pin);
    assert!(told(&mut world).is_empty());
    World::answer(&mut lease, &rawdoc! { "ok": 1 });
    world.check_in(lease, Outcome::Completed);
    assert_eq!(told(&mut world), ["in 1"]);
}
