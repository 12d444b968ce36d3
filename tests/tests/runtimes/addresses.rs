//! Host names with several addresses, in virtual time. An address that does not answer delays the
//! address after it by 250 ms (RFC 8305).

use bson::doc;
use onionskin::{Client, Runtime};
use onionskin_core::{dial::ATTEMPT_DELAY, error::ErrorKind, time::Instant};
use onionskin_tests::{
    compressors::with_compressors,
    conformance::{Host, server::Server, simulated::SimHost},
};
use onionskin_worlds::world::SimRuntime;
use std::{
    net::{IpAddr, Ipv4Addr},
    time::Duration,
};

const NAME: &str = "db.example";

fn ip(last: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(192, 0, 2, last))
}

/// Gives `NAME` a number of addresses that do not answer, and then the address of the server. The
/// number is `holes`.
fn name(runtime: &SimRuntime, server: &Server, holes: u8) {
    let mut all: Vec<IpAddr> = (1..=holes).map(ip).collect();
    for hole in &all {
        runtime.swallow(*hole);
    }
    all.push(
        server
            .address()
            .parse::<std::net::SocketAddr>()
            .expect("an address")
            .ip(),
    );
    runtime.name_addresses(NAME, &all);
}

fn client(server: &Server, options: &str) -> Client<SimRuntime> {
    let uri = format!("mongodb://{NAME}:{}/?{options}", server.port());
    let builder =
        Client::builder_from_uri(SimHost::runtime(), &with_compressors(&uri)).expect("a builder");
    builder.build().expect("a client")
}

/// Returns the time of the first connection attempt to each address.
fn first_attempts(runtime: &SimRuntime) -> Vec<(Duration, IpAddr)> {
    let mut first: Vec<(Duration, IpAddr)> = Vec::new();
    for (at, ip) in runtime.attempts() {
        if first.iter().all(|(_, known)| *known != ip) {
            first.push((at - Instant::ZERO, ip));
        }
    }
    first
}

#[test]
fn each_address_of_a_host_is_tried_250_ms_after_the_one_before() {
    for holes in [1_u8, 2, 3] {
        SimHost::block_on(async move {
            let runtime = SimHost::runtime();
            let server = Server::plain::<SimHost>();
            name(&runtime, &server, holes);
            let client = client(
                &server,
                "connectTimeoutMS=12000&serverSelectionTimeoutMS=30000",
            );
            let admin = client.database("admin");
            admin
                .run_command(doc! { "ping": 1 })
                .await
                .expect("the last address answers");
            let attempts = first_attempts(&runtime);
            assert_eq!(attempts.len(), usize::from(holes) + 1, "{attempts:?}");
            let start = attempts[0].0;
            for (place, (at, _)) in attempts.iter().enumerate() {
                let due = ATTEMPT_DELAY * u32::try_from(place).expect("few");
                let late = (*at - start).saturating_sub(due);
                assert!(
                    *at - start >= due && late < Duration::from_millis(100),
                    "{attempts:?}"
                );
            }
            client.shutdown().await;
        });
    }
}

#[test]
fn all_unresponsive_addresses_of_a_host_name_share_one_connect_timeout() {
    SimHost::block_on(async {
        let runtime = SimHost::runtime();
        let server = Server::plain::<SimHost>();
        runtime.name_addresses(NAME, &[ip(1), ip(2)]);
        runtime.swallow(ip(1));
        runtime.swallow(ip(2));
        let client = client(
            &server,
            "connectTimeoutMS=1000&serverSelectionTimeoutMS=1400",
        );
        let before = runtime.now();
        let result = client
            .database("admin")
            .run_command(doc! { "ping": 1 })
            .await;
        let error = result.expect_err("nobody answers");
        let is_selection = matches!(error.kind(), ErrorKind::ServerSelection { .. });
        assert!(is_selection, "{error}");
        assert_eq!(runtime.now() - before, Duration::from_millis(1400));
        let topology = client.topology();
        let known = topology.servers.values().next().expect("one server");
        let cause = known.error.as_ref().expect("an error");
        assert!(cause.is_timeout(), "{cause}");
        let [(one, _), (other, _), ..] = runtime.attempts()[..] else {
            panic!("two addresses");
        };
        assert_eq!(other - one, ATTEMPT_DELAY);
        client.shutdown().await;
    });
}

#[test]
fn the_only_address_of_a_host_name_gets_the_full_connect_timeout() {
    SimHost::block_on(async {
        let runtime = SimHost::runtime();
        let server = Server::plain::<SimHost>();
        runtime.name_addresses(NAME, &[ip(1)]);
        runtime.swallow(ip(1));
        let client = client(
            &server,
            "connectTimeoutMS=1000&serverSelectionTimeoutMS=2400",
        );
        let result = client
            .database("admin")
            .run_command(doc! { "ping": 1 })
            .await;
        result.expect_err("nobody answers");
        let attempts = runtime.attempts();
        assert!(
            attempts[1].0 - attempts[0].0 >= Duration::from_millis(1000),
            "{attempts:?}"
        );
        client.shutdown().await;
    });
}
