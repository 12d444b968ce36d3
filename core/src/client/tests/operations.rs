//! Tests of operations: what they send, when they are retried, and how their errors change the
//! topology.

use super::*;
use crate::{
    error::{ErrorKind, TlsFault},
    event::CommandEvent,
};
use bson::{Timestamp, doc};
use std::time::Duration;

const URI: &str = "mongodb://a/?replicaSet=rs";
const MONGOSES: &str = "mongodb://a,b/";

#[test]
fn a_time_limit_of_zero_disables_the_time_limit_and_the_socket_timeout() {
    let text = "mongodb://a/?replicaSet=rs&timeoutMS=0&socketTimeoutMS=1000";
    let mut world = World::new(text, primary());
    let exchange = world.begin_exchange(ping());
    world.wait(Duration::from_secs(3600));
    assert!(world.interrupted.is_empty(), "{:?}", world.interrupted);
    drop(exchange);
}

#[test]
fn a_retry_on_a_sharded_cluster_goes_to_another_server() {
    // On a sharded cluster, a retry deprioritizes the failed server (RR-13, RW-23).
    for command in [find, insert] {
        for _ in 0..8 {
            let mut world = World::new(MONGOSES, mongos());
            let mut exchange = world.begin_exchange(command());
            let first = exchange.facts().address.clone();
            let error = rawdoc! {
                "ok": 0, "code": 6, "errmsg": "x", "errorLabels": ["RetryableWriteError"],
            };
            World::answer(&mut exchange, &error);
            let AfterExchange::Again(start) = world.check_in(exchange, Outcome::Completed) else {
                panic!("it is tried again");
            };
            let second = world.exchange_of(start);
            assert_ne!(second.facts().address, first);
        }
    }
}

#[test]
fn a_very_large_cluster_time_is_not_gossiped() {
    let mut world = World::new(URI, primary());
    let time = Timestamp {
        time: 9,
        increment: 9,
    };
    let reply = |padding: usize| {
        rawdoc! { "ok": 1, "$clusterTime": { "clusterTime": time, "x": "x".repeat(padding) } }
    };
    world.perform(ping(), &reply(100_000));
    let exchange = world.begin_exchange(ping());
    assert!(!World::request(&exchange).contains_key("$clusterTime"));
    world.check_in(exchange, Outcome::Abandoned);
    world.perform(ping(), &reply(100));
    let exchange = world.begin_exchange(ping());
    assert!(World::request(&exchange).contains_key("$clusterTime"));
}

#[test]
fn a_tls_failure_of_an_operation_makes_the_server_unknown() {
    // A network error of an operation makes its server `Unknown` (SDAM-100). A TLS error counts as
    // a network error.
    let mut world = World::new(URI, primary());
    let exchange = world.begin_exchange(ping());
    let error = Error::new(ErrorKind::Tls {
        fault: TlsFault::Handshake,
        message: "bad record".into(),
    });
    let dialled = world.dialled.len();
    world.check_in(exchange, Outcome::Failed(error));
    let known = world.client.topology().servers.values().next().cloned();
    assert!(
        known.is_none_or(|s| !s.server_type.is_available()) || world.dialled.len() > dialled,
        "nobody looked after the server"
    );
}

#[test]
fn an_unacknowledged_write_is_not_retried_after_a_failed_lookup() {
    // An unacknowledged write is not retried (RW-9), except after overload (BP-2). A failure of DNS
    // is not overload.
    let mut world = World::new(URI, primary());
    let busy = world.begin_exchange(ping());
    let mut command = insert();
    command.set_unacknowledged();
    let Progress::Waiting(id) = world.client.start(world.now, command) else {
        panic!("a second connection has to be made");
    };
    let Some(Action::Dial { socket, .. }) = harness::next(&mut world) else {
        panic!("a second connection has to be made");
    };
    let error = Error::network(NetworkFault::NotResolved, "no such host");
    world.client.handle_failed(world.now, socket, error);
    world.run();
    assert!(matches!(
        world.client.resume(world.now, id),
        Progress::Failed(_)
    ));
    drop(busy);
}

#[test]
fn sensitive_commands_and_their_replies_are_redacted_in_events() {
    // Events do not show sensitive commands and their replies (AUTH-22), in any spelling of the
    // name (HELLO-1).
    for (name, body, secret) in [
        (
            "createUser",
            doc! { "createUser": "u", "pwd": "hunter2" },
            true,
        ),
        (
            "SASLStart",
            doc! { "SASLStart": 1, "payload": "hunter2" },
            true,
        ),
        (
            "hello",
            doc! { "hello": 1, "speculativeAuthenticate": { "p": "hunter2" } },
            true,
        ),
        ("hello", doc! { "hello": 1 }, false),
        ("ping", doc! { "ping": 1 }, false),
    ] {
        for ok in [1, 0] {
            let subscriptions = Subscriptions::all();
            let mut world = World::with_subscriptions(URI, primary(), subscriptions);
            let command = Command::from_document(&body, "admin").expect("a name");
            let start = world.client.start(world.now, command);
            world.run();
            let Progress::Waiting(id) = start else {
                panic!("the pool is empty")
            };
            let Progress::Exchange(mut exchange) = world.client.resume(world.now, id) else {
                panic!("no connection came");
            };
            exchange.begin(world.now).expect("it fits");
            let started = exchange.poll_event(world.now);
            let Some(CommandEvent::Started { command, .. }) = started else {
                panic!("somebody listens");
            };
            assert_eq!(command.is_empty(), secret, "{name}");
            World::answer(
                &mut exchange,
                &rawdoc! { "ok": ok, "token": "hunter2", "errmsg": "hunter2" },
            );
            exchange.end(&Outcome::Completed);
            let ended = exchange.poll_event(world.now);
            assert!(ended.is_some());
            let shown = format!("{ended:?}");
            // The debug output of raw documents is hexadecimal.
            let is_shown = shown.contains("hunter2") || shown.contains("68756e74657232");
            assert_eq!(is_shown, !secret, "{name}: {shown}");
        }
    }
}

/// Returns a document of `levels` documents, each inside the one before.
fn nested(levels: usize) -> RawDocumentBuf {
    let mut bytes = Vec::new();
    for level in 0..levels {
        let length = i32::try_from(5 + 7 * (levels - 1 - level)).expect("small");
        bytes.extend_from_slice(&length.to_le_bytes());
        if level + 1 < levels {
            bytes.extend_from_slice(&[3, 0]);
        }
    }
    bytes.resize(bytes.len() + levels, 0);
    RawDocumentBuf::from_bytes(bytes).expect("BSON")
}

#[test]
fn a_deeply_nested_reply_does_not_overflow_the_stack() {
    // Parts of a reply that are nested deeper than `MAX_DEPTH` are not decoded into a tree.
    for levels in [50, 100_000] {
        let deep = nested(levels);
        let mut world = World::new(URI, primary());
        let error = rawdoc! {
            "ok": 1, "n": 0,
            "writeErrors": [{ "index": 0, "code": 121, "errmsg": "x", "errInfo": deep.clone() }],
            "writeConcernError": { "code": 64, "errmsg": "x", "errInfo": deep.clone() },
        };
        let after = world.perform(insert(), &error);
        assert!(matches!(after, AfterExchange::Done(Err(_))));
        let reply = rawdoc! { "ok": 1, "n": 1, "upserted": [{ "index": 0, "_id": deep }] };
        let result = crate::operation::crud::UpdateResult::read(&reply, 0);
        assert_eq!(result.is_ok(), levels == 50);
    }
}

#[test]
fn the_succeeded_event_of_an_unacknowledged_write_has_the_reply_ok_1() {
    // No reply follows an unacknowledged write (MSG-18). The succeeded event of the write has the
    // reply `{ok: 1}`.
    let mut world = World::with_subscriptions(URI, primary(), Subscriptions::all());
    let mut command = insert();
    command.set_unacknowledged();
    let mut exchange = world.begin_exchange(command);
    exchange.sent(exchange.output().len());
    assert!(exchange.poll_event(world.now).is_some(), "it started");
    exchange.end(&Outcome::Completed);
    let ended = exchange.poll_event(world.now);
    let Some(CommandEvent::Succeeded { reply, .. }) = ended else {
        panic!("{ended:?}");
    };
    assert_eq!(reply, rawdoc! { "ok": 1 });
}

#[test]
fn a_started_command_emits_one_final_event_with_its_duration() {
    let mut world = World::with_subscriptions(URI, primary(), Subscriptions::all());
    for (outcome, is_failure) in [(Outcome::Completed, false), (Outcome::Abandoned, true)] {
        let mut exchange = world.begin_exchange(ping());
        World::answer(&mut exchange, &rawdoc! { "ok": 1 });
        assert!(exchange.has_events());
        let started = exchange.poll_event(world.now);
        assert!(matches!(started, Some(CommandEvent::Started { .. })));
        assert!(!exchange.has_events());
        exchange.end(&outcome);
        exchange.end(&Outcome::Abandoned);
        world.now = world.now + Duration::from_millis(3);
        let ended = exchange.poll_event(world.now);
        let (is_failed, duration) = match &ended {
            Some(CommandEvent::Failed { duration, .. }) => (true, *duration),
            Some(CommandEvent::Succeeded { duration, .. }) => (false, *duration),
            _ => panic!("{ended:?}"),
        };
        assert_eq!(is_failed, is_failure);
        assert_eq!(duration, Duration::from_millis(3));
        assert!(!exchange.has_events() && exchange.poll_event(world.now).is_none());
        world.check_in(exchange, outcome);
    }
}

#[test]
fn the_number_of_operations_that_wait_for_a_server_is_limited() {
    // The number of waiting operations is limited (SEL-37).
    let mut world = World::new("mongodb://a/?replicaSet=other", primary());
    world.client.attempts.operations.set_room(2);
    let waits = |start: &Progress| matches!(start, Progress::Waiting(_));
    let (one, other) = (
        world.client.start(world.now, ping()),
        world.client.start(world.now, ping()),
    );
    assert!(waits(&one) && waits(&other));
    let Progress::Failed(error) = world.client.start(world.now, ping()) else {
        panic!("there is no room for a third");
    };
    assert!(matches!(error.kind(), ErrorKind::Limit { .. }), "{error}");
    let Progress::Waiting(leaves) = one else {
        panic!("it waits");
    };
    world.client.cancel(world.now, leaves);
    let third = world.client.start(world.now, ping());
    assert!(waits(&third), "there is room again");
}

/// Starts an operation with this time limit. Asserts that the operation waits.
fn waits(world: &mut World, limit: Option<Duration>) -> OperationId {
    let mut command = ping();
    command.set_timeout(limit);
    match world.client.start(world.now, command) {
        Progress::Waiting(id) => id,
        other => panic!("it does not wait: {other:?}"),
    }
}

#[test]
fn a_time_limit_replaces_the_wait_queue_timeout() {
    // `waitQueueTimeoutMS` does not apply to an operation with a time limit (CMAP-153).
    let text = "mongodb://a/?replicaSet=rs&maxPoolSize=1&waitQueueTimeoutMS=10";
    let mut world = World::new(text, primary());
    let exchange = world.begin_exchange(ping());
    let bounded = waits(&mut world, Some(Duration::from_millis(500)));
    let endless = waits(&mut world, Some(Duration::ZERO));
    let old = waits(&mut world, None);
    let mut fails_after = |millis, id| {
        world.wait(Duration::from_millis(millis));
        let Progress::Failed(error) = world.client.resume(world.now, id) else {
            return false;
        };
        matches!(error.kind(), ErrorKind::WaitQueueTimeout { .. })
    };
    assert!(fails_after(10, old));
    assert!(!fails_after(480, bounded));
    assert!(fails_after(10, bounded));
    world.check_in(exchange, Outcome::Completed);
    world.exchange_of(Progress::Waiting(endless));
}

#[test]
fn an_exchange_of_another_client_is_refused() {
    // The client refuses an exchange of another client (CMAP-19, CMAP-87), although a connection
    // and an operation of its own have the same ids.
    let uri = "mongodb://a/?replicaSet=rs";
    let options = uri::parse(uri).expect("a connection string").options;
    let mut world = World::new(uri, primary());
    let subscriptions = Subscriptions::default();
    let mut other = World::with_seed(options, primary(), subscriptions, Seed::new([9; 32]));
    let mut own = world.begin_exchange(ping());
    let [foreign, unused] = [(); 2].map(|()| other.begin_exchange(ping()));
    assert_eq!(own.socket(), foreign.socket());
    let before = world.client.counts();
    let after = world.check_in(foreign, reset());
    let AfterExchange::Done(Err(error)) = after else {
        panic!("it was taken: {after:?}");
    };
    let kind = error.kind();
    assert!(
        matches!(kind, ErrorKind::InvalidArgument { .. }),
        "{error:?}"
    );
    let error = Error::network(NetworkFault::Closed, "closed");
    let start = world.client.refuse(world.now, unused, error);
    assert!(matches!(start, Progress::Failed(_)), "{start:?}");
    world.run();
    assert_eq!(world.client.counts(), before);
    assert!(world.closed.is_empty() && world.client.topology().servers.len() == 1);
    World::answer(&mut own, &rawdoc! { "ok": 1 });
    let after = world.check_in(own, Outcome::Completed);
    assert!(matches!(after, AfterExchange::Done(Ok(()))), "{after:?}");
    assert_eq!(world.client.counts().in_use, 0);
}

#[test]
fn a_second_hello_reply_is_not_accepted_as_the_reply_to_a_command() {
    let options = uri::parse("mongodb://lb/?loadBalanced=true").expect("fine");
    let config = ClientConfig::new(options.options, Seed::new([5; 32])).expect("options");
    let (mut peer, now) = (
        silent_peer::SilentPeer::new(Client::new(config)),
        Instant::ZERO,
    );
    peer.client.open(now);
    let Progress::Waiting(id) = peer.client.start(now, ping()) else {
        panic!("it waits");
    };
    let Some(Action::Dial { socket, .. }) = harness::next(&mut peer) else {
        panic!("it is dialled");
    };
    peer.connect(socket);
    let Some(Action::Transmit { bytes, .. }) = harness::next(&mut peer) else {
        panic!("hello is answered");
    };
    let asked = Header::decode(&bytes, 1 << 20).expect("a request");
    let mut hello = mongos();
    let service = ObjectId::from_bytes([1; 12]);
    hello.append(bson::cstr!("serviceId"), service);
    let reply = framed(asked.request_id, &hello);
    peer.receive(socket, &reply);
    let Progress::Exchange(mut exchange) = peer.client.resume(now, id) else {
        panic!("it is ready");
    };
    exchange.begin(now).expect("it fits");
    exchange.sent(exchange.output().len());
    exchange.input().expect("room")[..reply.len()].copy_from_slice(&reply);
    let error = exchange
        .received(reply.len())
        .expect_err("it answers nothing");
    assert!(
        matches!(error.kind(), ErrorKind::InvalidResponse { .. }),
        "{error}"
    );
}

#[test]
fn a_shell_reads_its_clock_for_a_request_with_a_time_limit() {
    let mut world = World::new("mongodb://a/", primary());
    for limit in [None, Some(Duration::from_secs(1))] {
        world.perform(ping(), &rawdoc! { "ok": 1 });
        let mut command = ping();
        command.set_timeout(limit);
        let Progress::Exchange(mut exchange) = world.client.start(world.now, command) else {
            panic!("a connection is idle");
        };
        assert_eq!(exchange.begin_uses_time(), limit.is_some());
        // A listener ran for two seconds between the grant and the framing of the request.
        let late = world.now + Duration::from_secs(2);
        assert_eq!(exchange.begin(late).is_err(), limit.is_some());
        world.check_in(exchange, Outcome::Abandoned);
    }
}

/// CSOT prose 2, "maxTimeMS is not set for commands sent to mongocryptd".
#[test]
fn a_command_to_mongocryptd_has_no_max_time() {
    for is_cryptd in [false, true] {
        let hello = rawdoc! {
            "ok": 1, "isWritablePrimary": true, "maxWireVersion": 21, "iscryptd": is_cryptd,
        };
        let mut world = World::new("mongodb://a/?timeoutMS=10000", hello);
        let exchange = world.begin_exchange(ping());
        assert_eq!(
            World::request(&exchange).contains_key("maxTimeMS"),
            !is_cryptd
        );
        world.check_in(exchange, Outcome::Abandoned);
    }
}
