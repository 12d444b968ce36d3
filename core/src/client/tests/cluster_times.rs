//! Tests of cluster times that servers refuse. A server must not make the others refuse commands.

use super::*;
use crate::{
    client::SessionId,
    description::ServerType,
    operation::{ClusterTime, IGNORED_FOR, SessionOptions, SessionUse},
    options::Monitoring,
};
use bson::Timestamp;
use std::time::Duration;

const MONGOSES: &str = "mongodb://a,b/";
const THREE: &str = "mongodb://a,b,c/";

/// Returns a successful reply with this time.
fn at(time: u32) -> RawDocumentBuf {
    let clock = Timestamp { time, increment: 1 };
    rawdoc! { "ok": 1, "$clusterTime": { "clusterTime": clock } }
}

fn refused() -> RawDocumentBuf {
    rawdoc! {
        "ok": 0, "code": 205, "codeName": "ClusterTimeFailsRateLimiter",
        "errmsg": "New cluster time is too far from this node's wall clock time",
    }
}

/// Begins an exchange with this server.
fn exchange_with(world: &mut World, host: &str, command: fn() -> Command) -> Exchange {
    for _ in 0..100 {
        let mut exchange = world.begin_exchange(command());
        if exchange.facts().address.host() == host {
            return exchange;
        }
        World::answer(&mut exchange, &rawdoc! { "ok": 1 });
        world.check_in(exchange, Outcome::Completed);
    }
    panic!("server {host} is never selected");
}

/// Runs a ping on this server, which replies with this document.
fn ping_on(world: &mut World, host: &str, reply: &RawDocument) {
    let mut exchange = exchange_with(world, host, ping);
    World::answer(&mut exchange, reply);
    world.check_in(exchange, Outcome::Completed);
}

fn sent_time(exchange: &Exchange) -> Option<u32> {
    let request = World::request(exchange);
    let gossip = request.get_document("$clusterTime").ok()?;
    gossip.get_timestamp("clusterTime").map(|t| t.time).ok()
}

/// Runs a command on a server, which refuses its cluster time `time` and runs the command without
/// one.
fn refuse_on(world: &mut World, host: &str, time: u32, command: fn() -> Command) {
    let mut exchange = exchange_with(world, host, command);
    assert_eq!(sent_time(&exchange), Some(time));
    World::answer(&mut exchange, &refused());
    let AfterExchange::Again(start) = world.check_in(exchange, Outcome::Completed) else {
        panic!("the operation is tried again without a cluster time");
    };
    let mut exchange = world.exchange_of(start);
    assert_eq!(sent_time(&exchange), None);
    assert_eq!(exchange.operation.retry.attempts, 1);
    World::answer(&mut exchange, &rawdoc! { "ok": 1, "n": 1 });
    let after = world.check_in(exchange, Outcome::Completed);
    assert!(matches!(after, AfterExchange::Done(Ok(()))), "{after:?}");
}

/// Returns the time that the next command to this server has.
fn time_for(world: &mut World, host: &str) -> Option<u32> {
    let exchange = exchange_with(world, host, ping);
    let time = sent_time(&exchange);
    world.check_in(exchange, Outcome::Abandoned);
    time
}

#[test]
fn the_times_of_a_server_are_ignored_for_ten_minutes_once_two_others_refused_them() {
    for command in [ping, insert, find] {
        let mut world = World::new(THREE, mongos());
        ping_on(&mut world, "b", &at(7));
        for refuser in ["b", "c"] {
            ping_on(&mut world, "a", &at(u32::MAX));
            refuse_on(&mut world, refuser, u32::MAX, command);
        }
        ping_on(&mut world, "a", &at(u32::MAX));
        ping_on(&mut world, "b", &at(8));
        assert_eq!(time_for(&mut world, "c"), Some(8));
        world.now = world.now + IGNORED_FOR;
        ping_on(&mut world, "a", &at(9));
        assert_eq!(time_for(&mut world, "b"), Some(9));
    }
}

#[test]
fn a_server_that_refuses_all_cluster_times_does_not_silence_the_others() {
    let mut world = World::new(THREE, mongos());
    for time in [10, 20, 30] {
        for (host, time) in [("a", time), ("b", time + 1)] {
            ping_on(&mut world, host, &at(time));
            refuse_on(&mut world, "c", time, ping);
        }
        ping_on(&mut world, "a", &at(time + 2));
        assert_eq!(time_for(&mut world, "b"), Some(time + 2));
    }
}

#[test]
fn refusals_that_are_far_apart_do_not_silence_a_server() {
    let mut world = World::new(THREE, mongos());
    for (refuser, time) in [("b", 7), ("c", 8), ("b", 9)] {
        ping_on(&mut world, "a", &at(time));
        refuse_on(&mut world, refuser, time, ping);
        world.now = world.now + IGNORED_FOR;
    }
    ping_on(&mut world, "a", &at(10));
    assert_eq!(time_for(&mut world, "b"), Some(10));
}

#[test]
fn an_operation_is_tried_once_without_its_cluster_time() {
    let mut world = World::new("mongodb://a/", mongos());
    world.perform(ping(), &at(7));
    let mut exchange = world.begin_exchange(ping());
    World::answer(&mut exchange, &refused());
    let AfterExchange::Again(start) = world.check_in(exchange, Outcome::Completed) else {
        panic!("the operation is tried again");
    };
    let mut exchange = world.exchange_of(start);
    World::answer(&mut exchange, &refused());
    let AfterExchange::Done(Err(error)) = world.check_in(exchange, Outcome::Completed) else {
        panic!("the operation is tried twice only");
    };
    assert_eq!(error.code(), Some(205));
    // A server that refuses its own time is not ignored.
    world.perform(ping(), &at(8));
    assert_eq!(sent_time(&world.begin_exchange(ping())), Some(8));
}

/// Runs a command with the time 7, which fails with this error. Returns the time of the next
/// command.
fn sent_after_error(command: fn() -> Command, code: i32, text: &str) -> Option<u32> {
    let mut world = World::new("mongodb://a/", mongos());
    world.perform(ping(), &at(7));
    let mut exchange = world.begin_exchange(command());
    World::answer(
        &mut exchange,
        &rawdoc! { "ok": 0, "code": code, "errmsg": text },
    );
    let AfterExchange::Done(Err(error)) = world.check_in(exchange, Outcome::Completed) else {
        panic!("the command is not sent again");
    };
    assert_eq!(error.code(), Some(code));
    sent_time(&world.begin_exchange(ping()))
}

fn merge() -> Command {
    let mut command = Command::new("aggregate", "app", CommandKind::WritingAggregate);
    command.body().str("aggregate", "log");
    command
}

#[test]
fn an_error_that_mentions_a_field_of_the_application_keeps_the_cluster_time() {
    let text = "Cannot apply $inc to a value of non-numeric type: the field 'clusterTime'";
    for command in [ping, insert, find, merge] {
        assert_eq!(sent_after_error(command, 14, text), Some(7));
    }
}

#[test]
fn a_command_that_may_have_begun_is_not_sent_again_without_its_cluster_time() {
    let text = "error on a shard :: caused by :: Cache Reader No keys found for HMAC";
    for command in [ping, insert, merge] {
        assert_eq!(sent_after_error(command, 211, text), None);
    }
}

#[test]
fn a_preliminary_ping_with_a_refused_cluster_time_leaves_the_server_selectable() {
    let options = uri::parse_for(MONGOSES, Monitoring::Scanning).expect("a URI");
    let mut world = World::with_options(options.options, mongos(), Subscriptions::default());
    ping_on(&mut world, "b", &at(7));
    ping_on(&mut world, "a", &at(u32::MAX));
    world.wait(Duration::from_secs(6));
    let mut exchange = loop {
        let exchange = world.begin_exchange(find());
        if exchange.is_preliminary() && exchange.facts().address.host() == "b" {
            break exchange;
        }
        world.check_in(exchange, Outcome::Abandoned);
    };
    World::answer(&mut exchange, &refused());
    let AfterExchange::Again(start) = world.check_in(exchange, Outcome::Completed) else {
        panic!("the operation follows");
    };
    let exchange = world.exchange_of(start);
    assert_eq!(exchange.facts().address.host(), "b");
    assert_eq!(sent_time(&exchange), None);
    let mut servers = world.client.topology().servers.values();
    assert!(servers.all(|server| server.server_type == ServerType::Mongos));
}

/// Sessions prose 20: the cluster time is neither sent with checks of servers nor taken from their
/// replies.
#[test]
fn checks_neither_send_nor_keep_cluster_times() {
    let mut world = World::new("mongodb://a/", mongos());
    ping_on(&mut world, "a", &at(10));
    let later = Timestamp {
        time: 20,
        increment: 1,
    };
    let mut hello = mongos();
    let field = bson::cstr!("$clusterTime");
    hello.append(field, rawdoc! { "clusterTime": later });
    world.hellos.insert(Address::tcp("a", 27017), hello);
    world.messages.clear();
    world.wait(Duration::from_secs(11));
    assert!(!world.messages.is_empty());
    for message in &world.messages {
        assert!(!World::decoded(message).contains_key("$clusterTime"));
    }
    assert_eq!(sent_time(&world.begin_exchange(ping())), Some(10));
}

#[test]
fn a_time_that_is_refused_in_a_session_is_dropped_from_the_client_as_well() {
    let mut world = World::new(MONGOSES, mongos());
    ping_on(&mut world, "a", &at(u32::MAX));
    let session = world
        .client
        .start_session(world.now, &SessionOptions::default());
    let session = session.expect("the client is open").id;
    let in_session = |world: &mut World| {
        let mut command = ping();
        command.set_session(SessionUse::Explicit(session));
        world.begin_exchange(command)
    };
    let mut exchange = loop {
        let exchange = in_session(&mut world);
        if exchange.facts().address.host() == "b" {
            break exchange;
        }
        world.check_in(exchange, Outcome::Abandoned);
    };
    assert_eq!(sent_time(&exchange), Some(u32::MAX));
    World::answer(&mut exchange, &refused());
    let AfterExchange::Again(start) = world.check_in(exchange, Outcome::Completed) else {
        panic!("the operation is tried again without a cluster time");
    };
    let exchange = world.exchange_of(start);
    assert_eq!(sent_time(&exchange), None);
    world.check_in(exchange, Outcome::Abandoned);
    let exchange = in_session(&mut world);
    assert_eq!(sent_time(&exchange), None);
    world.check_in(exchange, Outcome::Abandoned);
    assert_eq!(time_for(&mut world, "b"), None);
}

/// Starts a session of the application, and raises its cluster time to this one.
fn session_at(world: &mut World, time: u32) -> SessionId {
    let session = world
        .client
        .start_session(world.now, &SessionOptions::default());
    let session = session.expect("the client is open").id;
    let reply = at(time);
    let time = reply.get_document("$clusterTime").expect("a time");
    let time = ClusterTime::from_document(time).expect("a time");
    world.client.advance_cluster_time(session, &time);
    session
}

#[test]
fn a_foreign_time_of_a_session_that_is_refused_leaves_that_of_the_client() {
    let mut world = World::new("mongodb://a/", mongos());
    ping_on(&mut world, "a", &at(7));
    let session = session_at(&mut world, u32::MAX);
    let mut command = ping();
    command.set_session(SessionUse::Explicit(session));
    let mut exchange = world.begin_exchange(command);
    assert_eq!(sent_time(&exchange), Some(u32::MAX));
    World::answer(&mut exchange, &refused());
    world.check_in(exchange, Outcome::Completed);
    assert_eq!(time_for(&mut world, "a"), Some(7));
}

#[test]
fn a_time_of_a_session_is_that_of_the_client_once_a_reply_confirms_it() {
    let mut world = World::new("mongodb://a/", mongos());
    ping_on(&mut world, "a", &at(7));
    let session = session_at(&mut world, 9);
    // The first reply has a time between that of the client and that of the session.
    for (time, known) in [(8, 8), (9, 9)] {
        let mut command = ping();
        command.set_session(SessionUse::Explicit(session));
        let mut exchange = world.begin_exchange(command);
        assert_eq!(sent_time(&exchange), Some(9));
        World::answer(&mut exchange, &at(time));
        world.check_in(exchange, Outcome::Completed);
        assert_eq!(time_for(&mut world, "a"), Some(known));
    }
}
