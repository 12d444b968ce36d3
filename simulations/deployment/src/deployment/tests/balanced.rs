//! Tests of services behind a load balancer.

use super::world::{World, set_of};
use crate::deployment::{ConnId, DeploymentOptions, MemberState};
use bson::{Document, doc, oid::ObjectId};
use onionskin_core::{address::Address, random::Seed};

fn options(services: usize) -> DeploymentOptions {
    let balancer = Address::tcp("balancer", 27017);
    let services = (0..services).map(|i| Address::tcp(&format!("service{i}"), 27017));
    DeploymentOptions::load_balanced(balancer, services.collect())
}

fn services(count: usize) -> World {
    World::new(options(count), 1)
}

fn balanced_hello() -> Document {
    doc! { "hello": 1, "loadBalanced": true, "$db": "admin" }
}

/// Connects through the load balancer and sends a hello. Returns the member, the connection and the
/// `serviceId`.
fn connect_and_hello(world: &mut World) -> (usize, ConnId, ObjectId) {
    let (member, conn) = world.connect_balanced().expect("a service runs");
    let hello = world
        .send_command(conn, &balanced_hello())
        .expect("a reply");
    assert_eq!(hello.get_f64("ok").ok(), Some(1.0), "{hello}");
    assert_eq!(hello.get_str("msg").ok(), Some("isdbgrid"), "{hello}");
    let service = hello.get_object_id("serviceId").expect("a service");
    assert_ne!(service.bytes(), [0; 12]);
    (member, conn, service)
}

fn insert(world: &mut World, conn: ConnId, count: i32) {
    let documents: Vec<Document> = (0..count).map(|n| doc! { "_id": n }).collect();
    let insert = doc! { "insert": "c", "documents": documents, "$db": "db" };
    let inserted = world.send_command(conn, &insert).expect("a reply");
    assert_eq!(inserted.get_i32("n").ok(), Some(count), "{inserted}");
}

/// Opens a cursor that has documents left to fetch, and returns its id.
fn open_cursor(world: &mut World, conn: ConnId) -> i64 {
    let find = doc! { "find": "c", "batchSize": 2, "$db": "db" };
    let found = world.send_command(conn, &find).expect("a reply");
    let cursor = found.get_document("cursor").expect("a cursor");
    cursor.get_i64("id").expect("an id")
}

fn get_more(id: i64) -> Document {
    doc! { "getMore": id, "collection": "c", "batchSize": 1, "$db": "db" }
}

fn open_cursors(world: &mut World, conn: ConnId) -> i32 {
    let status = doc! { "serverStatus": 1, "$db": "admin" };
    let status = world.send_command(conn, &status).expect("a reply");
    let cursors = status
        .get_document("metrics")
        .and_then(|metrics| metrics.get_document("cursor"))
        .and_then(|cursor| cursor.get_document("open"));
    cursors
        .and_then(|open| open.get_i32("total"))
        .expect("a count")
}

fn code(reply: &Document) -> Option<i32> {
    reply.get_i32("code").ok()
}

/// A service has a constant `serviceId` of its own (LB-57).
#[test]
fn connections_use_services_in_turn_and_each_service_has_its_own_id() {
    let mut world = services(3);
    let arrivals: Vec<_> = (0..7).map(|_| connect_and_hello(&mut world)).collect();
    let members: Vec<usize> = arrivals.iter().map(|(member, ..)| *member).collect();
    assert_eq!(members, [0, 1, 2, 0, 1, 2, 0]);
    for (one, _, service) in &arrivals {
        for (other, _, other_service) in &arrivals {
            assert_eq!(one == other, service == other_service, "{arrivals:?}");
        }
    }
    let mut elsewhere = World::new(options(3), 2);
    assert_ne!(connect_and_hello(&mut elsewhere).2, arrivals[0].2);
    // The services share their data, because they belong to one cluster.
    insert(&mut world, arrivals[0].1, 1);
    let find = doc! { "find": "c", "$db": "db" };
    let found = world.send_command(arrivals[1].1, &find).expect("a reply");
    let cursor = found.get_document("cursor").expect("a cursor");
    assert_eq!(cursor.get_array("firstBatch").map(Vec::len).ok(), Some(1));
}

/// On a connection through the load balancer, only the first hello reply has the `serviceId`.
#[test]
fn only_the_first_hello_reply_of_a_connection_has_a_service_id() {
    let mut world = services(2);
    let (_, conn, _) = connect_and_hello(&mut world);
    for again in [balanced_hello(), doc! { "hello": 1, "$db": "admin" }] {
        let hello = world.send_command(conn, &again).expect("a reply");
        assert_eq!(hello.get_f64("ok").ok(), Some(1.0), "{hello}");
        assert!(!hello.contains_key("serviceId"), "{hello}");
    }
}

#[test]
fn a_hello_through_the_balancer_without_load_balanced_is_refused() {
    let mut world = services(2);
    let unaware = [
        doc! { "hello": 1, "$db": "admin" },
        doc! { "isMaster": 1, "loadBalanced": false, "$db": "admin" },
    ];
    for hello in unaware {
        let (_, conn) = world.connect_balanced().expect("a service");
        let refused = world.send_command(conn, &hello).expect("a reply");
        assert_eq!(code(&refused), Some(354), "{refused}");
        let name = refused.get_str("codeName").ok();
        assert_eq!(name, Some("LoadBalancerSupportMismatch"));
        assert!(
            world.closed.contains(&conn),
            "it is closed behind the reply"
        );
    }
    assert_eq!(world.deployment.connections(), 0);
}

/// A client must refuse a hello reply without `serviceId` (LB-28). A server that is not reached
/// through a balancer ignores the field `loadBalanced`.
#[test]
fn a_direct_connection_gets_no_service_id() {
    let standalone = DeploymentOptions::standalone(Address::tcp("alone", 27017));
    let routers = DeploymentOptions::sharded(vec![Address::tcp("router", 27017)]);
    for options in [standalone, set_of(1), routers, options(2)] {
        let mut world = World::new(options, 1);
        let conn = world.connect(0);
        let hello = world
            .send_command(conn, &balanced_hello())
            .expect("a reply");
        assert_eq!(hello.get_f64("ok").ok(), Some(1.0), "{hello}");
        assert!(!hello.contains_key("serviceId"), "{hello}");
    }
}

#[test]
fn a_cursor_exists_only_on_the_service_that_created_it() {
    let mut world = services(2);
    let (_, one, _) = connect_and_hello(&mut world);
    let (_, other, _) = connect_and_hello(&mut world);
    insert(&mut world, one, 9);
    let id = open_cursor(&mut world, one);
    let refused = world.send_command(other, &get_more(id)).expect("a reply");
    assert_eq!(code(&refused), Some(43), "{refused}");
    let kill = doc! { "killCursors": "c", "cursors": [id, 1234_i64], "$db": "db" };
    let killed = world.send_command(other, &kill).expect("a reply");
    let ids = |reply: &Document, field: &str| -> Vec<i64> {
        let ids = reply.get_array(field).expect("ids");
        ids.iter().filter_map(bson::Bson::as_i64).collect()
    };
    assert_eq!(ids(&killed, "cursorsKilled"), [0; 0]);
    assert_eq!(ids(&killed, "cursorsNotFound"), [id, 1234]);
    // The refused commands have not closed the cursor.
    let more = world.send_command(one, &get_more(id)).expect("a reply");
    assert_eq!(code(&more), None, "{more}");
    let killed = world.send_command(one, &kill).expect("a reply");
    assert_eq!(ids(&killed, "cursorsKilled"), [id]);
    assert_eq!(ids(&killed, "cursorsNotFound"), [1234]);
    assert_eq!(open_cursors(&mut world, one), 0);
    let gone = world.send_command(one, &get_more(id)).expect("a reply");
    assert_eq!(code(&gone), Some(43), "{gone}");
}

/// A service closes the cursors of a lost connection that came through the load balancer, because
/// the client cannot choose this service again.
#[test]
fn a_cursor_is_closed_with_its_connection_through_the_balancer() {
    let mut world = services(1);
    let (_, one, _) = connect_and_hello(&mut world);
    let (_, other, _) = connect_and_hello(&mut world);
    let direct = world.connect(0);
    insert(&mut world, one, 9);
    let lost = open_cursor(&mut world, one);
    let kept = open_cursor(&mut world, direct);
    assert_eq!(open_cursors(&mut world, other), 2);
    // A connection that only reads from another connection's cursor does not own the cursor.
    let more = world.send_command(other, &get_more(lost)).expect("a reply");
    assert_eq!(code(&more), None, "{more}");
    world.deployment.handle_disconnected(world.now, one);
    world.deployment.handle_disconnected(world.now, direct);
    let gone = world.send_command(other, &get_more(lost)).expect("a reply");
    assert_eq!(code(&gone), Some(43), "{gone}");
    let more = world.send_command(other, &get_more(kept)).expect("a reply");
    assert_eq!(code(&more), None, "{more}");
    assert_eq!(open_cursors(&mut world, other), 1);
    let shard = world.deployment.primary().expect("the shard");
    let at_shard = world.deployment.members[shard].open_cursors();
    assert_eq!(at_shard, 1, "the shard has ended it as well");
}

#[test]
fn the_balancer_skips_services_that_are_down() {
    let mut world = services(3);
    let (_, conn, first_service_id) = connect_and_hello(&mut world);
    world.deployment.kill(world.now, 0);
    world.drain();
    assert_eq!(world.closed, [conn]);
    let members: Vec<usize> = (0..4).map(|_| connect_and_hello(&mut world).0).collect();
    assert_eq!(members, [1, 2, 1, 2]);
    world.deployment.kill(world.now, 1);
    world.deployment.kill(world.now, 2);
    world.drain();
    assert_eq!(world.connect_balanced(), None, "nobody is there");
    world.deployment.restart(world.now, 0);
    world.drain();
    let (member, _, second_service_id) = connect_and_hello(&mut world);
    assert_eq!(member, 0);
    assert_ne!(
        first_service_id, second_service_id,
        "a new process is a new service"
    );
    assert_eq!(world.deployment.state(0), Some(MemberState::Router));
}

#[test]
fn the_connections_of_a_running_service_can_be_closed() {
    let mut world = services(2);
    let (_, one, service) = connect_and_hello(&mut world);
    let (_, other, _) = connect_and_hello(&mut world);
    world.deployment.disconnect(world.now, 0);
    world.drain();
    assert_eq!(world.closed, [one]);
    let ping = doc! { "ping": 1, "$db": "admin" };
    assert!(world.send_command(other, &ping).is_some());
    let (member, _, again) = connect_and_hello(&mut world);
    assert_eq!(
        (member, again),
        (0, service),
        "the same process, the same service"
    );
}

#[test]
fn a_fail_point_affects_only_the_service_where_it_is_configured() {
    let mut world = services(2);
    let (_, one, _) = connect_and_hello(&mut world);
    let (_, other, _) = connect_and_hello(&mut world);
    let point = doc! {
        "configureFailPoint": "failCommand", "mode": "alwaysOn", "$db": "admin",
        "data": { "failCommands": ["ping"], "errorCode": 11600 },
    };
    world.send_command(one, &point).expect("a reply");
    let ping = doc! { "ping": 1, "$db": "admin" };
    let failed = world.send_command(one, &ping).expect("a reply");
    assert_eq!(code(&failed), Some(11600), "{failed}");
    let pong = world.send_command(other, &ping).expect("a reply");
    assert_eq!(code(&pong), None, "{pong}");
}

#[test]
fn a_balancer_cannot_have_the_address_of_a_service() {
    let balancer = Address::tcp("a", 1);
    let options = DeploymentOptions::load_balanced(balancer.clone(), vec![balancer]);
    let built = crate::deployment::Deployment::new(options, &Seed::new([1; 32]));
    assert!(built.is_err_and(|error| error.to_string().contains("the address of a member")));
}
