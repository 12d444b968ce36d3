//! Tests with replies that are made to cost much or to break the resolver.

use super::*;
use hickory_proto::rr::rdata::AAAA;
use proptest::prelude::*;

/// Returns a reply whose names consist of pointers, with as many records as fit into a message.
fn reply_of_pointers(id: u16) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(id.to_be_bytes());
    bytes.extend([0x84, 0, 0, 1, 0x15, 0, 0, 0, 0, 0]);
    for label in ["_mongodb", "_tcp", "c", "example", "net"] {
        bytes.push(u8::try_from(label.len()).expect("short"));
        bytes.extend(label.bytes());
    }
    bytes.extend([0, 0, 33, 0, 1]);
    while bytes.len() < 65_500 {
        bytes.extend([0xc0, 12, 0, 5, 0, 1, 0, 0, 0, 9, 0, 2, 0xc0, 12]);
    }
    bytes
}

#[test]
fn a_reply_of_compressed_names_is_read_once() {
    let mut bench = srv_bench();
    let sent = bench.last();
    let bytes = reply_of_pointers(sent.message.metadata.id);
    bench
        .lookup
        .handle_datagram(bench.now, sent.socket, sent.server, &bytes);
    bench.collect();
    // The count of records in the header does not fit, or all records say that the name is an alias
    // of itself.
    assert!(bench.sent.len() > 1 || bench.lookup.take_result().is_some());
}

proptest! {
    #[test]
    fn no_bytes_make_a_lookup_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        cut in any::<prop::sample::Index>(),
        is_stream: bool,
    ) {
        let mut config = ResolverConfig::parse(ONE_SERVER.as_bytes());
        config.use_tcp = is_stream;
        let mut bench = Bench::with(DnsQuery::new(SRV_NAME, RecordKind::Srv), config);
        let sent = bench.last();
        let answers = vec![
            srv("a.example.net.", 1, 9),
            alias("b.example.net.", "c.example.net."),
            record("c.example.net.", 5, RData::AAAA(AAAA([0; 8].into()))),
        ];
        let mut reply = sent.reply(ResponseCode::NoError, answers).to_vec().expect("a reply");
        for (place, value) in changes {
            let place = 2 + place.index(reply.len() - 2);
            reply[place] = value;
        }
        reply.truncate(cut.index(reply.len() + 1));
        for message in [bytes, reply] {
            let Some(socket) = bench.sent.last().map(|sent| sent.socket) else { continue };
            let framed = framed(&message);
            bench.lookup.handle_received(bench.now, socket, &framed);
            bench.lookup.handle_datagram(bench.now, socket, sent.server, &message);
            bench.collect();
        }
        for _ in 0..8 {
            if bench.lookup.deadline().is_some() {
                bench.wait_for_deadline();
            }
        }
        let _ = bench.result();
    }
}
