//! Tests of the records in replies, and of messages that are no replies.

use super::*;
use hickory_proto::rr::rdata::TXT;

#[test]
fn srv_records_give_hosts_ports_and_the_smallest_time_to_live() {
    let mut bench = srv_bench();
    let sent = bench.last();
    assert_eq!(sent.name(), "_mongodb._tcp.c.example.net.");
    let edns = sent.message.edns.as_ref().expect("EDNS options");
    assert_eq!(edns.max_payload(), message::MAX_DATAGRAM_BYTES);
    // Priority and weight are ignored (DNS-16), and letter case does not count (DNS-40).
    let answers = vec![
        srv("DB2.Example.net.", 27018, 300),
        srv("db1.example.net.", 27017, 86),
        address("db1.example.net."),
    ];
    bench.answer(ResponseCode::NoError, answers);
    let answer = bench.result().expect("an answer");
    let expected = [
        service("db2.example.net", 27018),
        service("db1.example.net", 27017),
    ];
    assert_eq!(answer.records, expected);
    assert_eq!(answer.ttl, Some(Duration::from_secs(86)));
}

#[test]
fn the_strings_of_a_txt_record_are_joined() {
    // The strings of one record are joined with nothing between them (DNS-28).
    let query = DnsQuery::new("c.example.net", RecordKind::Txt);
    let mut bench = Bench::new(query, ONE_SERVER);
    let strings = ["replicaSet=", "rs0&auth", "Source=users"].map(str::to_owned);
    let text = RData::TXT(TXT::new(strings.to_vec()));
    let other = RData::TXT(TXT::from_bytes(vec![&b"\xff=1"[..]]));
    let answers = vec![
        record("c.example.net.", 1, text),
        record("c.example.net.", u32::MAX, other),
    ];
    bench.answer(ResponseCode::NoError, answers);
    let answer = bench.result().expect("an answer");
    let expected = ["replicaSet=rs0&authSource=users", "\u{fffd}=1"];
    let expected = expected.map(|text| DnsData::Text(text.to_owned()));
    assert_eq!(answer.records, expected);
    assert_eq!(answer.ttl, Some(Duration::from_secs(1)));
}

#[test]
fn messages_that_are_not_the_reply_are_ignored() {
    let mut bench = srv_bench();
    let sent = bench.last();
    let right = sent.reply(ResponseCode::NoError, vec![srv("evil.example.net.", 1, 1)]);
    let mut other_id = right.clone();
    other_id.metadata.id ^= 1;
    let mut other_name = right.clone();
    other_name.queries[0].set_name(name("_mongodb._tcp.d.example.net."));
    let mut other_type = right.clone();
    other_type.queries[0].set_query_type(hickory_proto::rr::RecordType::TXT);
    let mut two_questions = right.clone();
    two_questions.queries.push(right.queries[0].clone());
    let mut no_question = right.clone();
    no_question.queries.clear();
    let mut query = right.clone();
    query.metadata.message_type = MessageType::Query;
    let forged = [
        other_id,
        other_name,
        other_type,
        two_questions,
        no_question,
        query,
    ];
    for message in &forged {
        bench.reply(&sent, message);
    }
    let bytes = right.to_vec().expect("a reply");
    let (now, lookup) = (bench.now, &mut bench.lookup);
    for source in ["10.0.0.2:53", "10.0.0.1:54", "[::1]:53"] {
        let source = source.parse().expect("an address");
        lookup.handle_datagram(now, sent.socket, source, &bytes);
    }
    lookup.handle_datagram(now, sent.socket, sent.server, &[]);
    lookup.handle_datagram(now, sent.socket, sent.server, &bytes[..11]);
    // A datagram socket takes no bytes of a stream, and an unknown socket none at all.
    lookup.handle_received(now, sent.socket, &framed(&bytes));
    lookup.handle_datagram(now, LookupSocket(99), sent.server, &bytes);
    bench.collect();
    assert_eq!((bench.sent.len(), bench.closed.len()), (1, 0));
    bench.answer(
        ResponseCode::NoError,
        vec![srv("db.example.net.", 27017, 9)],
    );
    let answer = bench.result().expect("an answer");
    assert_eq!(answer.records, [service("db.example.net", 27017)]);
}

#[test]
fn a_flood_of_forged_replies_costs_one_name_server() {
    let mut bench = srv_bench();
    let sent = bench.last();
    for round in 1..=MAX_IGNORED_DATAGRAMS {
        assert_eq!(bench.sent.len(), 1, "before datagram {round}");
        bench
            .lookup
            .handle_datagram(bench.now, sent.socket, sent.server, b"forged");
        bench.collect();
    }
    assert_eq!(bench.last().server.to_string(), "10.0.0.2:53");
    bench.answer(
        ResponseCode::NoError,
        vec![srv("db.example.net.", 27017, 9)],
    );
    assert!(bench.result().is_ok());
}

#[test]
fn a_truncated_reply_is_asked_for_again_over_tcp() {
    let mut bench = srv_bench();
    let sent = bench.last();
    let mut truncated = sent.reply(ResponseCode::NoError, vec![srv("a.example.net.", 1, 9)]);
    truncated.metadata.truncation = true;
    bench.reply(&sent, &truncated);
    let again = bench.last();
    assert!(again.is_stream && again.server == sent.server);
    let hosts = (0..700).map(|number| srv(&format!("h{number}.example.net."), 27017, 30));
    let reply = again.reply(ResponseCode::NoError, hosts.collect());
    let mut bytes = framed(&reply.to_vec().expect("a reply"));
    assert!(bytes.len() > 20_000);
    bytes.extend(b"bytes after the reply");
    for piece in bytes.chunks(1000) {
        bench.lookup.handle_received(bench.now, again.socket, piece);
    }
    bench.collect();
    let answer = bench.result().expect("an answer");
    assert_eq!(answer.records.len(), 700);
}

#[test]
fn a_tcp_connection_that_ends_early_or_lies_costs_one_try() {
    let mut config = ResolverConfig::parse(b"nameserver 10.0.0.1\noptions use-vc attempts:5\n");
    config.try_timeout = LIMIT;
    let mut bench = Bench::with(DnsQuery::new(SRV_NAME, RecordKind::Srv), config);
    let first = bench.last();
    assert!(first.is_stream);
    let reply = first.reply(ResponseCode::NoError, vec![srv("a.example.net.", 1, 9)]);
    let bytes = framed(&reply.to_vec().expect("a reply"));
    let cut = &bytes[..bytes.len() - 1];
    bench.lookup.handle_received(bench.now, first.socket, cut);
    bench.lookup.handle_received(bench.now, first.socket, &[]);
    bench.collect();
    // The second connection gets the reply to the first one, whose id differs.
    let second = bench.last();
    assert_ne!(second.message.metadata.id, first.message.metadata.id);
    bench
        .lookup
        .handle_received(bench.now, second.socket, &bytes);
    bench.collect();
    // A reply over TCP cannot be truncated.
    let third = bench.last();
    let mut truncated = third.reply(ResponseCode::NoError, Vec::new());
    truncated.metadata.truncation = true;
    bench.reply(&third, &truncated);
    let fourth = bench.last();
    bench
        .lookup
        .handle_failed(bench.now, fourth.socket, "connection refused");
    bench.collect();
    let fifth = bench.last();
    bench
        .lookup
        .handle_received(bench.now, fifth.socket, &[0, 0]);
    bench.collect();
    assert_eq!(bench.sent.len(), 5);
    let (failure, text) = bench.failure();
    assert_eq!(failure, DnsFailure::Malformed, "{text}");
}

#[test]
fn a_server_that_knows_no_edns_is_asked_without_it() {
    for code in [ResponseCode::FormErr, ResponseCode::NotImp] {
        let mut bench = srv_bench();
        let mut refusal = bench.last().reply(code, Vec::new());
        // Some servers return the question, and some leave it out.
        if code == ResponseCode::FormErr {
            refusal.queries.clear();
        }
        bench.reply(&bench.last(), &refusal);
        let again = bench.last();
        assert_eq!(again.server.to_string(), "10.0.0.1:53");
        assert!(again.message.edns.is_none());
        // The same code without EDNS is a refusal, and the next server is asked.
        bench.answer(code, Vec::new());
        assert_eq!(bench.last().server.to_string(), "10.0.0.2:53");
        bench.answer(ResponseCode::NoError, vec![srv("a.example.net.", 1, 9)]);
        assert!(bench.result().is_ok());
    }
}
