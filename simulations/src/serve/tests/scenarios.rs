//! Faults of scenarios on real sockets.

use super::{connect, is_primary, message, send_command, until};
use crate::serve::{Embedded, FaultOptions, ServeOptions};
use bson::rawdoc;
use onionskin_core::time::Instant as Time;
use onionskin_worlds::world::{Disaster, Rates};
use std::{
    io::{Read as _, Write as _},
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
        after(first, Disaster::Kill(0)),
        after(second, Disaster::Heal),
    ]);
    options.faults = Some(faults);
    let deployment = Embedded::start(options).expect("it starts");
    let addresses = deployment.addresses().to_vec();
    until("another primary", || {
        addresses[1..]
            .iter()
            .any(|address| is_primary(&address.to_string()) == Some(true))
    });
    until("the first member", || {
        is_primary(&addresses[0].to_string()).is_some()
    });
    let status = deployment.status().expect("it runs");
    assert_eq!(
        status.disasters,
        [(first, Disaster::Kill(0)), (second, Disaster::Heal)]
    );
}

#[test]
fn latency_delays_replies_and_keeps_their_order() {
    let mut faults = FaultOptions::default();
    faults.latency = (Duration::from_millis(20), Duration::from_millis(60));
    let (_deployment, address) = standalone(faults);
    let mut stream = connect(&address).expect("a connection");
    let start = Instant::now();
    let mut requests = Vec::new();
    for number in 0..8_i32 {
        let insert = rawdoc! {
            "insert": "numbers", "documents": [{ "_id": number }], "$db": "test"
        };
        requests.extend(message(&insert));
    }
    // One write, and each insert is answered in turn before the find.
    stream.write_all(&requests).expect("they are sent");
    let find = rawdoc! { "count": "numbers", "$db": "test" };
    let mut reply = send_command(&mut stream, &find).expect("a reply");
    while reply.get_i32("n").ok() != Some(8) {
        reply = send_command(&mut stream, &find).expect("a reply");
    }
    assert!(start.elapsed() >= Duration::from_millis(40));
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
fn lost_bytes_are_lost_until_clients_reach_the_members_again() {
    for (up, down) in [(true, false), (false, true)] {
        let mut faults = FaultOptions::default();
        let cut = Disaster::CutClient {
            client: 0,
            member: 0,
            up,
            down,
        };
        let join = Duration::from_millis(300);
        faults.plan.extend([
            after(Duration::ZERO, cut),
            after(join, Disaster::JoinClients),
        ]);
        let (deployment, address) = standalone(faults);
        let start = Instant::now();
        until("the cut", || {
            let status = deployment.status();
            status.is_some_and(|status| !status.disasters.is_empty())
        });
        let insert = rawdoc! { "insert": "lost", "documents": [{ "_id": 1 }], "$db": "test" };
        let mut stream = connect(&address).expect("a connection");
        // The connection breaks when bytes are no longer lost.
        assert!(send_command(&mut stream, &insert).is_none());
        assert!(start.elapsed() > join / 2);
        let mut stream = connect(&address).expect("a connection");
        let count = rawdoc! { "count": "lost", "$db": "test" };
        let reply = send_command(&mut stream, &count).expect("a reply");
        assert_eq!(reply.get_i32("n").ok(), Some(i32::from(down)));
    }
}
