//! Faults of scenarios on real sockets.

use super::{connect, is_primary, message, send_command, until};
use crate::{Embedded, FaultOptions, ServeOptions};
use bson::rawdoc;
use onionskin_core::{
    time::Instant as Time,
    unstable::wire::{FrameDecoder, MessageWriter},
};
use onionskin_deployment::deployment::MemberEvent;
use onionskin_worlds::world::{Disaster, Rates, SlowMember, Span, VoidEvent};
use std::{
    io::{ErrorKind, Read as _, Write as _},
    time::{Duration, Instant},
};

fn standalone(faults: FaultOptions) -> (Embedded, String) {
    let mut options = ServeOptions::standalone();
    options.faults = Some(faults);
    let deployment = Embedded::start(options).expect("it starts");
    let address = deployment.addresses()[0].to_string();
    (deployment, address)
}

fn rates(set: impl FnOnce(&mut Rates)) -> FaultOptions {
    let mut faults = FaultOptions::default();
    set(&mut faults.rates);
    faults
}

/// Returns faults that delay messages by times between these, in milliseconds.
fn delayed(least: u64, most: u64) -> FaultOptions {
    FaultOptions {
        latency: (Duration::from_millis(least), Duration::from_millis(most)),
        ..FaultOptions::default()
    }
}

fn after(time: Duration, disaster: Disaster) -> (Time, Disaster) {
    (Time::ZERO + time, disaster)
}

/// Pings on a new connection. Returns false if the connection breaks.
fn pings(address: &str) -> bool {
    let ping = rawdoc! { "ping": 1, "$db": "admin" };
    connect(address).is_some_and(|mut stream| send_command(&mut stream, &ping).is_some())
}

#[test]
fn the_disasters_of_a_schedule_happen_at_their_times() {
    let mut options = ServeOptions::replica_set("rs0", 3);
    let mut faults = FaultOptions::default();
    let (first, second) = (Duration::from_millis(50), Duration::from_millis(90));
    faults.plan.extend([
        after(first, Disaster::Kill(1)),
        after(second, Disaster::Heal),
    ]);
    options.faults = Some(faults);
    let deployment = Embedded::start(options).expect("it starts");
    let status = || deployment.status().expect("it runs");
    until("the end of all faults", || status().disasters.len() == 2);
    assert_eq!(
        status().disasters,
        [(first, Disaster::Kill(1)), (second, Disaster::Heal)]
    );
    let of_member = |event: &&MemberEvent| {
        matches!(
            event,
            MemberEvent::Killed { member: 1 } | MemberEvent::Restarted { member: 1 }
        )
    };
    until("the member", || {
        status().events.iter().filter(of_member).count() == 2
    });
    let address = deployment.addresses()[1].to_string();
    until("its socket", || is_primary(&address).is_some());
}

#[test]
fn latency_delays_replies_and_keeps_their_order() {
    let (_deployment, address) = standalone(delayed(20, 60));
    let mut stream = connect(&address).expect("a connection");
    let start = Instant::now();
    let mut requests = Vec::new();
    for id in 1..=8 {
        let ping = rawdoc! { "ping": 1, "$db": "admin" };
        MessageWriter::begin(&mut requests, id, 0).body(&ping).end();
    }
    stream.write_all(&requests).expect("they are sent");
    let mut decoder = FrameDecoder::new();
    let mut answered = Vec::new();
    while answered.len() < 8 {
        while let Some((header, _)) = decoder.frame().expect("a frame") {
            answered.push(header.response_to);
            decoder.consume(header.length);
        }
        if answered.len() < 8 {
            let spare = decoder.spare().expect("room");
            let count = stream.read(spare).expect("bytes");
            assert!(count > 0, "the connection is open");
            decoder.filled(count);
        }
    }
    assert_eq!(answered, [1, 2, 3, 4, 5, 6, 7, 8]);
    // The requests came in one read, whose latency is added to that of the replies.
    assert!(start.elapsed() >= Duration::from_millis(40));
}

#[test]
fn replies_under_way_arrive_before_the_connection_ends() {
    let (_deployment, address) = standalone(delayed(30, 30));
    let mut stream = connect(&address).expect("a connection");
    let ping = message(&rawdoc! { "ping": 1, "$db": "admin" });
    stream.write_all(&ping).expect("it is sent");
    stream.shutdown(std::net::Shutdown::Write).expect("an end");
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).expect("a reply and an end");
    assert_eq!(bytes.len(), 38, "the reply to a ping");
}

#[test]
fn a_long_message_is_delayed_once_and_a_long_stream_of_replies_is_paced() {
    let (deployment, address) = standalone(delayed(100, 100));
    let mut stream = connect(&address).expect("a connection");
    let text = "x".repeat(15 * 1024 * 1024);
    let start = Instant::now();
    let insert = rawdoc! { "insert": "long", "documents": [{ "_id": 1, "t": text }], "$db": "d" };
    let reply = send_command(&mut stream, &insert).expect("a reply");
    assert_eq!(reply.get_i32("n").ok(), Some(1));
    // With a delay for each of its 240 parts it would take 24 seconds.
    assert!(
        start.elapsed() < Duration::from_secs(20),
        "{:?}",
        start.elapsed()
    );
    // More replies are asked for than may wait for the client.
    let find = message(&rawdoc! { "find": "long", "$db": "d" });
    let asked = 8;
    let requests = find.repeat(asked);
    stream.write_all(&requests).expect("they are sent");
    let mut received = 0;
    let mut buffer = vec![0; 1024 * 1024];
    while received < asked * 15 * 1024 * 1024 {
        let count = stream.read(&mut buffer).expect("bytes");
        assert!(count > 0, "the connection is open");
        received += count;
    }
    let status = deployment.status().expect("it runs");
    assert!(status.most_unsent_bytes < 40 * 1024 * 1024, "{status:?}");
}

#[test]
fn each_rate_breaks_or_silences_connections_until_all_faults_end() {
    type Set = fn(&mut Rates);
    let sets: [(&str, Set); 4] = [
        ("refuse", |rates| rates.refuse = 1000),
        ("reset", |rates| rates.reset = 1000),
        ("truncate", |rates| rates.truncate = 1000),
        ("vanish", |rates| rates.vanish = 1000),
    ];
    for (name, set) in sets {
        let mut faults = rates(set);
        let end = Duration::from_millis(100);
        faults.plan.push_back(after(end, Disaster::Heal));
        let (deployment, address) = standalone(faults);
        let is_healed = || {
            let status = deployment.status();
            status.is_some_and(|status| !status.disasters.is_empty())
        };
        // A connection without an answer breaks when the faults end.
        assert!(!pings(&address) || is_healed(), "{name}");
        until("healing", is_healed);
        assert!(pings(&address), "{name}");
    }
}

#[test]
fn a_slow_or_corrupt_reply_has_the_length_of_the_whole() {
    let ping = message(&rawdoc! { "ping": 1, "$db": "admin" });
    let reply = |faults| {
        let (_deployment, address) = standalone(faults);
        let mut stream = connect(&address).expect("a connection");
        stream.write_all(&ping).expect("it is sent");
        let mut bytes = vec![0; 38];
        stream.read_exact(&mut bytes).expect("a reply");
        bytes
    };
    let plain = reply(FaultOptions::default());
    assert_eq!(plain[16..], reply(rates(|rates| rates.slow = 1000))[16..]);
    let corrupt = reply(rates(|rates| rates.corrupt = 1000));
    let bits = plain.iter().zip(&corrupt);
    // The number of the reply, in the bytes 4 to 7, differs between the deployments.
    let differing = bits.map(|(one, other)| (one ^ other).count_ones());
    assert_eq!(differing.sum::<u32>(), 1);
}

#[test]
fn the_connections_of_clients_to_a_member_break_at_a_scheduled_time() {
    let mut faults = FaultOptions::default();
    let event = Disaster::DisconnectClient {
        client: 0,
        member: 0,
    };
    faults.plan.push_back(after(Duration::from_secs(1), event));
    let (deployment, address) = standalone(faults);
    let mut stream = connect(&address).expect("a connection");
    let ping = rawdoc! { "ping": 1, "$db": "admin" };
    // Nothing else ends the connection.
    while send_command(&mut stream, &ping).is_some() {}
    until("the event", || {
        let status = deployment.status();
        status.is_some_and(|status| status.disasters.len() == 1)
    });
    assert!(pings(&address));
}

#[test]
fn lost_bytes_are_lost_until_clients_reach_the_members_again() {
    for (up, down) in [(true, false), (false, true)] {
        let mut faults = FaultOptions::default();
        let cut = Disaster::CutClient {
            client: 0,
            member: 0,
            up,
            down,
        };
        let join = Duration::from_secs(2);
        faults.plan.extend([
            after(Duration::ZERO, cut),
            after(join, Disaster::JoinClients),
        ]);
        let start = Instant::now();
        let (deployment, address) = standalone(faults);
        until("the cut", || {
            let status = deployment.status();
            status.is_some_and(|status| !status.disasters.is_empty())
        });
        let insert = rawdoc! { "insert": "lost", "documents": [{ "_id": 1 }], "$db": "test" };
        let mut stream = connect(&address).expect("a connection");
        // The connection breaks when bytes are no longer lost.
        assert!(send_command(&mut stream, &insert).is_none());
        assert!(start.elapsed() >= join);
        let mut stream = connect(&address).expect("a connection");
        let count = rawdoc! { "count": "lost", "$db": "test" };
        let reply = send_command(&mut stream, &count).expect("a reply");
        assert_eq!(reply.get_i32("n").ok(), Some(i32::from(down)));
    }
}

#[test]
fn a_connection_that_is_cut_in_both_directions_does_not_break() {
    let (client, member) = (0, 0);
    let cut = Disaster::CutClient {
        client,
        member,
        up: true,
        down: true,
    };
    let mut faults = FaultOptions::default();
    faults.plan.extend([
        after(Duration::ZERO, cut),
        after(
            Duration::from_secs(2),
            Disaster::DisconnectClient { client, member },
        ),
    ]);
    let (deployment, address) = standalone(faults);
    let mut stream = connect(&address).expect("a connection");
    until("both disasters", || disasters(&deployment).len() == 2);
    let status = deployment.status().expect("it runs");
    let reasons: Vec<&str> = status
        .void_events
        .iter()
        .map(|void| &*void.reason)
        .collect();
    let reason = "there is no connection to member 0 that is not cut";
    assert_eq!(reasons, [reason]);
    stream.set_nonblocking(true).expect("a socket");
    let read = stream.read(&mut [0; 1]).expect_err("it is open and silent");
    assert_eq!(read.kind(), ErrorKind::WouldBlock);
}

/// Starts a standalone that is slow, and waits until it is. `end` comes after the time.
fn slow_standalone(slow: SlowMember, time: Duration, end: Disaster) -> (Embedded, String) {
    let mut faults = FaultOptions::default();
    faults.plan.extend([
        after(Duration::ZERO, Disaster::SlowMember(slow)),
        after(time, end),
    ]);
    let (deployment, address) = standalone(faults);
    until("the slowness", || !disasters(&deployment).is_empty());
    (deployment, address)
}

fn disasters(deployment: &Embedded) -> Vec<(Duration, Disaster)> {
    deployment.status().expect("it runs").disasters
}

/// Returns the time that a ping on a new connection takes.
fn time_of_ping(address: &str) -> Duration {
    let mut stream = connect(address).expect("a connection");
    let start = Instant::now();
    let ping = rawdoc! { "ping": 1, "$db": "admin" };
    send_command(&mut stream, &ping).expect("a reply");
    start.elapsed()
}

#[test]
fn a_slow_member_reads_and_writes_in_pieces() {
    let pause = Duration::from_millis(20);
    let request = message(&rawdoc! { "ping": 1, "$db": "admin" }).len();
    for (reads, length) in [(true, request), (false, 38)] {
        let slow = SlowMember {
            reads,
            writes: !reads,
            bytes: 7,
            pause: Some(Span(pause)),
            ..SlowMember::default()
        };
        let never = Duration::from_secs(3600);
        let (_deployment, address) = slow_standalone(slow, never, Disaster::EndSlowness);
        let pauses = u32::try_from(length.div_ceil(7) - 1).expect("few");
        let time = time_of_ping(&address);
        assert!(time >= pause * pauses, "reads {reads}: {time:?}");
    }
}

#[test]
fn the_end_of_slowness_ends_it_on_open_connections() {
    let nothing = SlowMember {
        writes: false,
        ..SlowMember::default()
    };
    let slowly = SlowMember {
        reads: false,
        bytes: 1,
        pause: Some(Span(Duration::from_secs(10))),
        ..SlowMember::default()
    };
    for slow in [nothing, slowly] {
        let time = Duration::from_secs(1);
        let (deployment, address) = slow_standalone(slow.clone(), time, Disaster::EndSlowness);
        let time = time_of_ping(&address);
        assert_eq!(disasters(&deployment).len(), 2, "{slow}: {time:?}");
        // The second byte of a slow reply would come after this time.
        assert!(time < Duration::from_secs(10), "{slow}: {time:?}");
        let time = time_of_ping(&address);
        assert!(time < Duration::from_secs(10), "{slow}: {time:?}");
    }
}

#[test]
fn a_killed_member_sends_no_further_pieces_and_is_not_slow_afterwards() {
    let slow = SlowMember {
        bytes: 1,
        reads: false,
        pause: Some(Span(Duration::from_millis(500))),
        ..SlowMember::default()
    };
    let time = Duration::from_secs(3);
    let (deployment, address) = slow_standalone(slow, time, Disaster::Kill(0));
    let mut stream = connect(&address).expect("a connection");
    let ping = message(&rawdoc! { "ping": 1, "$db": "admin" });
    stream.write_all(&ping).expect("it is sent");
    let mut bytes = Vec::new();
    // The end can be a reset.
    let _ = stream.read_to_end(&mut bytes);
    assert!((1..38).contains(&bytes.len()), "{}", bytes.len());
    deployment.restart(0);
    until("its socket", || pings(&address));
    // All pieces of a reply would take 18 seconds.
    let time = time_of_ping(&address);
    assert!(time < Duration::from_secs(10), "{time:?}");
}

#[test]
fn disasters_without_effect_are_noted() {
    let mut options = ServeOptions::replica_set("rs0", 3);
    let mut faults = FaultOptions::default();
    let event = |millis, disaster| after(Duration::from_millis(millis), disaster);
    let client = 0;
    faults.plan.extend([
        event(30, Disaster::Restart(1)),
        event(60, Disaster::Kill(1)),
        event(90, Disaster::DisconnectClient { client, member: 1 }),
        event(
            120,
            Disaster::SlowMember(SlowMember {
                member: Some(1),
                writes: false,
                ..SlowMember::default()
            }),
        ),
    ]);
    options.faults = Some(faults);
    let deployment = Embedded::start(options).expect("it starts");
    until("all disasters", || disasters(&deployment).len() == 4);
    let status = deployment.status().expect("it runs");
    let texts = status.void_events.iter().map(VoidEvent::to_string);
    assert_eq!(
        texts.collect::<Vec<_>>(),
        [
            "event 1 at 30ms had no effect: member 1 runs",
            "event 3 at 90ms had no effect: there is no connection to member 1",
            "event 4 at 120ms had no effect: member 1 does not run",
        ]
    );
}
