//! Tests of the order and the time in which name servers are asked.

use super::*;

#[test]
fn each_server_is_asked_as_often_as_configured() {
    let mut bench = srv_bench();
    for _ in 0..4 {
        bench.answer(ResponseCode::ServFail, Vec::new());
    }
    let servers: Vec<String> = bench.sent.iter().map(|s| s.server.to_string()).collect();
    let expected = ["10.0.0.1:53", "10.0.0.2:53", "10.0.0.1:53", "10.0.0.2:53"];
    assert_eq!(servers, expected);
    let mut ids: Vec<u16> = bench.sent.iter().map(|s| s.message.metadata.id).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 4, "each query has a new id");
    let (failure, text) = bench.failure();
    assert_eq!(failure, DnsFailure::Refused);
    assert_eq!(
        text,
        "DNS: the lookup of SRV _mongodb._tcp.c.example.net failed: 10.0.0.2:53 answered: Server \
         Failure; check the name servers of this machine and the network"
    );
    assert_eq!(bench.lookup.negative_ttl(), Duration::ZERO);
}

#[test]
fn silence_is_bounded_by_the_limit_of_the_lookup() {
    // Two servers with two attempts share ten seconds.
    let mut bench = srv_bench();
    for _ in 0..3 {
        assert_eq!(bench.wait_for_deadline(), Duration::from_millis(2500));
    }
    assert_eq!(bench.sent.len(), 4);
    assert_eq!(bench.closed, [], "a late reply is still accepted");
    assert_eq!(bench.wait_for_deadline(), Duration::from_millis(2500));
    let (failure, text) = bench.failure();
    assert_eq!(failure, DnsFailure::Unreachable);
    assert!(
        text.contains("no answer within 10000 ms from 10.0.0.1:53, 10.0.0.2:53"),
        "{text}"
    );
    // One server gets the timeout of `resolv.conf` for each try.
    let mut bench = host_bench("db.example.net", "nameserver 10.0.0.1\noptions timeout:2\n");
    assert_eq!(bench.wait_for_deadline(), Duration::from_secs(2));
    assert_eq!(bench.wait_for_deadline(), Duration::from_secs(2));
    assert!(bench.failure().1.contains("no answer from 10.0.0.1:53"));
}

#[test]
fn a_late_reply_to_an_earlier_try_is_accepted() {
    let mut bench = srv_bench();
    let first = bench.last();
    bench.wait_for_deadline();
    bench.wait_for_deadline();
    let reply = first.reply(ResponseCode::NoError, vec![srv("a.example.net.", 1, 9)]);
    bench.reply(&first, &reply);
    assert_eq!(bench.sent.len(), 3);
    assert!(bench.result().is_ok());
}

#[test]
fn a_failed_socket_leads_to_the_next_server_unless_another_try_runs() {
    let mut bench = srv_bench();
    let first = bench.last();
    bench
        .lookup
        .handle_failed(bench.now, first.socket, "connection refused");
    bench.collect();
    let second = bench.last();
    assert_eq!(second.server.to_string(), "10.0.0.2:53");
    bench.wait_for_deadline();
    let third = bench.last();
    bench
        .lookup
        .handle_failed(bench.now, third.socket, "network is unreachable");
    bench.collect();
    assert_eq!(bench.sent.len(), 3, "the second try still runs");
    bench.lookup.handle_failed(bench.now, third.socket, "again");
    let reply = second.reply(ResponseCode::NoError, vec![srv("a.example.net.", 1, 9)]);
    bench.reply(&second, &reply);
    assert!(bench.result().is_ok());
}

#[test]
fn a_refusal_does_not_end_the_lookup_while_another_try_is_under_way() {
    let mut bench = srv_bench();
    let slow = bench.last();
    for _ in 0..2 {
        bench.wait_for_deadline();
        // The second server refuses at once, and the first one is asked again.
        bench.answer(ResponseCode::ServFail, Vec::new());
    }
    assert_eq!(bench.sent.len(), 4);
    let reply = slow.reply(ResponseCode::NoError, vec![srv("a.example.net.", 1, 9)]);
    bench.reply(&slow, &reply);
    assert!(bench.result().is_ok());
}

#[test]
fn a_referral_is_no_answer_and_the_next_server_is_asked() {
    let mut bench = srv_bench();
    let sent = bench.last();
    let mut referral = sent.reply(ResponseCode::NoError, Vec::new());
    let ns = hickory_proto::rr::rdata::NS(name("ns.example.net."));
    referral.add_authority(record("example.net.", 60, RData::NS(ns)));
    bench.reply(&sent, &referral);
    assert_eq!(bench.last().server.to_string(), "10.0.0.2:53");
}
