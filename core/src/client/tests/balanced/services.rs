//! Tests of services behind a load balancer: what their handshakes require, and which connections
//! an error concerns.

use super::*;

#[test]
fn a_load_balancer_is_not_monitored_and_gets_hello_with_load_balanced_true() {
    // The client opens no connection for monitoring (LB-14). The handshake of its first connection
    // is `hello` by OP_MSG (LB-27), with `loadBalanced: true` (LB-25).
    let options = uri::parse(URI).expect("a connection string").options;
    let config = ClientConfig::new(options, Seed::new([5; 32])).expect("options");
    let client = Client::new(config.with_subscriptions(Subscriptions::all()));
    let (mut peer, now) = (silent_peer::SilentPeer::new(client), Instant::ZERO);
    peer.client.open(now);
    assert!(harness::next(&mut peer).is_none());
    assert_eq!(peer.client.deadline(), None);
    let heartbeats = std::iter::from_fn(|| peer.client.poll_event())
        .filter(|e| matches!(&e.kind, EventKind::Sdam(SdamEvent::HeartbeatStarted { .. })));
    assert_eq!(heartbeats.count(), 0);
    assert!(matches!(
        peer.client.start(now, ping()),
        Progress::Waiting(_)
    ));
    let Some(Action::Dial { socket, .. }) = harness::next(&mut peer) else {
        panic!("it is dialled");
    };
    peer.connect(socket);
    let Some(Action::Transmit { bytes, .. }) = harness::next(&mut peer) else {
        panic!("hello is answered");
    };
    let mut decoder = FrameDecoder::new();
    decoder.extend(&bytes);
    let (header, frame) = decoder.frame().expect("a message").expect("whole");
    assert_eq!(header.op_code, crate::wire::OpCode::Msg);
    let hello = Message::decode(frame).expect("a message").body;
    assert_eq!(hello.get_i32("hello").ok(), Some(1));
    assert_eq!(hello.get_bool("loadBalanced").ok(), Some(true));
}

#[test]
fn a_hello_reply_without_service_id_fails_the_check_out_and_clears_no_pool() {
    // A hello reply without `serviceId` is an error (LB-28). SDAM does not handle it (LB-47).
    let mut world = World::with_subscriptions(URI, mongos(), Subscriptions::all());
    take_events(&mut world);
    for connection in [1, 2] {
        let Progress::Waiting(operation) = world.client.start(world.now, ping()) else {
            panic!("it waits");
        };
        world.run();
        let now = world.now;
        let Progress::Failed(error) = world.client.resume(now, operation) else {
            panic!("it fails");
        };
        let text = "Driver attempted to initialize in load balancing mode, but the server does not \
                    support this mode.";
        assert!(error.to_string().contains(text), "{error}");
        assert_eq!(
            take_events(&mut world),
            [
                "started".to_owned(),
                format!("created {connection}"),
                format!("closed {connection}: Error"),
                "failed: ConnectionError".into(),
            ]
        );
    }
}

#[test]
fn an_error_in_hello_clears_no_pool_and_a_later_error_clears_the_service() {
    // An error in hello clears nothing (LB-48), not even a shutdown error (LB trap 11). A later
    // error of establishment clears the service (LB-50).
    let mut world = World::with_subscriptions(URI, shutting_down(), Subscriptions::all());
    let started = world.client.start(world.now, ping());
    assert!(matches!(started, Progress::Waiting(_)));
    world.run();
    let events = take_events(&mut world);
    assert!(events.contains(&"closed 1: Error".into()), "{events:?}");
    assert!(
        !events.iter().any(|e| e.starts_with("cleared")),
        "{events:?}"
    );

    let text = "mongodb://user:pencil@lb/?loadBalanced=true";
    let mut world = World::with_subscriptions(text, service(1), Subscriptions::all());
    let started = world.client.start(world.now, ping());
    assert!(matches!(started, Progress::Waiting(_)));
    // The server answers each message with its hello reply. This is no valid reply to `saslStart`,
    // so the authentication fails.
    world.run();
    let events = take_events(&mut world);
    let after = events.iter().position(|e| e == "cleared 1");
    let after = after.unwrap_or_else(|| panic!("{events:?}"));
    assert_eq!(
        events[after + 1..],
        ["closed 1: Error", "failed: ConnectionError"]
    );
    let server = world.client.topology().servers.values().next().cloned();
    let kind = server.map(|server| server.server_type);
    assert_eq!(kind, Some(crate::description::ServerType::LoadBalancer));
}

#[test]
fn an_error_of_one_service_clears_only_the_connections_of_that_service() {
    // An error clears only the service of its connection (LB-51 to LB-54), not the whole pool
    // (scenario 24).
    let mut world = world();
    let first = world.begin_exchange(ping());
    let second = world.begin_exchange(ping());
    world.hello = service(2);
    let mut other = world.begin_exchange(ping());
    take_events(&mut world);
    let before = world.client.topology().clone();
    world.check_in(first, reset());
    assert_eq!(
        take_events(&mut world),
        ["cleared 1", "in 1", "closed 1: Error"]
    );
    // The connection is of the generation before the clear, so its error is ignored.
    world.check_in(second, reset());
    assert_eq!(take_events(&mut world), ["in 2", "closed 2: Error"]);
    World::answer(&mut other, &rawdoc! { "ok": 1 });
    world.check_in(other, Outcome::Completed);
    assert_eq!(take_events(&mut world), ["in 3"]);
    let mut other = world.begin_exchange(ping());
    World::answer(&mut other, &shutting_down());
    take_events(&mut world);
    world.check_in(other, Outcome::Completed);
    assert_eq!(
        take_events(&mut world),
        ["cleared 2", "in 3", "closed 3: Stale"]
    );
    assert!(Arc::ptr_eq(&before, world.client.topology()));
}

#[test]
fn behind_a_load_balancer_the_read_preference_is_sent_as_to_a_mongos() {
    // The single server suits every read preference (LB-23). The command sends the read preference
    // as to a mongos (LB-24).
    let mut world = world();
    for (mode, expected) in [
        (ReadMode::Primary, None),
        (ReadMode::SecondaryPreferred, Some("secondaryPreferred")),
        (ReadMode::Nearest, Some("nearest")),
    ] {
        let mut command = find();
        command.set_read_preference(Arc::new(ReadPreference::new(mode)));
        let mut exchange = world.begin_exchange(command);
        let request = World::request(&exchange);
        let sent = request.get_document("$readPreference").ok();
        assert_eq!(sent.and_then(|sent| sent.get_str("mode").ok()), expected);
        World::answer(&mut exchange, &cursor_reply(0, "firstBatch"));
        world.check_in(exchange, Outcome::Completed);
    }
}

#[test]
fn behind_a_load_balancer_sessions_are_supported_and_do_not_expire() {
    // Sessions are always supported (LB-21) and do not expire (LB-22).
    let hello = rawdoc! {
        "ok": 1, "isWritablePrimary": true, "msg": "isdbgrid", "maxWireVersion": 21,
        "serviceId": id(1),
    };
    let mut world = World::new(URI, hello);
    let mut lsids = Vec::new();
    for _ in 0..2 {
        let mut exchange = world.begin_exchange(ping());
        lsids.push(World::request(&exchange).get("lsid").cloned());
        World::answer(&mut exchange, &rawdoc! { "ok": 1 });
        world.check_in(exchange, Outcome::Completed);
        world.wait(std::time::Duration::from_secs(86_400));
    }
    assert!(lsids[0].is_some());
    assert_eq!(lsids[0], lsids[1]);
}
