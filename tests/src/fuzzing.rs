//! What must hold for any bytes that a peer sends: the bodies of the fuzz targets in `fuzz/`, which
//! an ordinary test runs on the corpus that the repository keeps.

use bson::{RawDocumentBuf, oid::ObjectId};
use onionskin_core::{
    description::{ServerType, TopologyId, TopologyType},
    hello::{HelloReply, MAX_MEMBERS, MAX_NAMES, MAX_WRITE_BATCH_SIZE},
    sdam::{Action, CheckId, MAX_SERVERS, Sdam, SdamOptions},
    time::Instant,
    wire::MAX_MESSAGE_BYTES,
};
use std::time::Duration;

const ROUND_TRIP: Duration = Duration::from_millis(1);

/// Reads `fields`, the inside of a BSON document, as a reply to `hello`, and lets each kind of
/// client discover a deployment by it.
pub fn hello(fields: &[u8]) {
    let Some(reply) = document(fields) else {
        return;
    };
    let hello = HelloReply::parse(&reply);
    for list in [&hello.hosts, &hello.passives, &hello.arbiters] {
        assert!(list.len() <= MAX_MEMBERS);
        assert!(list.is_sorted_by(|a, b| a < b), "sorted, each once");
    }
    assert!(hello.tags.len() <= MAX_NAMES && hello.compression.len() <= MAX_NAMES);
    assert!((1..=MAX_MESSAGE_BYTES).contains(&hello.max_bson_object_size));
    assert!((1..=MAX_MESSAGE_BYTES).contains(&hello.max_message_size_bytes));
    assert!((1..=MAX_WRITE_BATCH_SIZE).contains(&hello.max_write_batch_size));
    assert_eq!(hello.ok, hello.server_type != ServerType::Unknown);

    discover(&reply, |_| {});
    discover(&reply, |options| options.direct_connection = true);
    discover(&reply, |options| {
        options.replica_set = Some("rs".to_owned())
    });
    discover(&reply, |options| {
        options.seeds.push("b".parse().expect("an address"));
    });
}

/// The document with these fields, if they are no more than fields.
fn document(fields: &[u8]) -> Option<RawDocumentBuf> {
    let length = i32::try_from(fields.len() + 5).ok()?;
    let mut bytes = length.to_le_bytes().to_vec();
    bytes.extend_from_slice(fields);
    bytes.push(0);
    RawDocumentBuf::from_bytes(bytes).ok()
}

/// Every server says the same, three times over.
fn discover(reply: &RawDocumentBuf, change: impl FnOnce(&mut SdamOptions)) {
    let seed = "a".parse().expect("an address");
    let mut options = SdamOptions::new(TopologyId(ObjectId::from_bytes([0; 12])), vec![seed]);
    change(&mut options);
    let mut sdam = Sdam::new(options);
    sdam.start(Instant::ZERO);
    for round in 1..=3 {
        let now = Instant::ZERO + Duration::from_secs(20 * round);
        let mut opened: Vec<CheckId> = Vec::new();
        let mut asked: Vec<CheckId> = Vec::new();
        while let Some(action) = sdam.poll_action() {
            match action {
                Action::Open { check, .. } => opened.push(check),
                Action::SendHello { check, .. } => asked.push(check),
                _ => {}
            }
        }
        for check in opened {
            sdam.handle_connected(now, check, reply, ROUND_TRIP);
        }
        for check in asked {
            sdam.handle_reply(now, check, reply, ROUND_TRIP, round == 2);
        }
        sdam.handle_timeout(now);
        let description = sdam.description();
        assert!(description.servers.len() <= MAX_SERVERS);
        let servers = || description.servers.values();
        let primaries = servers().filter(|s| s.server_type == ServerType::RsPrimary);
        let with_primary = description.topology_type == TopologyType::ReplicaSetWithPrimary;
        let count = primaries.count();
        if description.topology_type != TopologyType::Single {
            assert_eq!(count, usize::from(with_primary), "{description}");
        }
    }
    sdam.close(Instant::ZERO + Duration::from_secs(100));
    assert_eq!(sdam.deadline(), None);
}
