//! The bodies of the fuzz targets in `fuzz/`: assertions that hold for all bytes that a peer can
//! send. A test also runs them on the corpus of the repository.

use crate::loads::hostile::{Victim, standalone};
use bson::{RawDocument, RawDocumentBuf, oid::ObjectId};
use onionskin_core::{
    description::{ServerType, TopologyId, TopologyType},
    error::{
        CommandError, Error, ErrorKind, Labels, MAX_CAUSE_TEXT_BYTES, MAX_MESSAGE_TEXT_BYTES,
        MAX_WRITE_ERRORS, WriteFailure,
    },
    hello::{HelloReply, MAX_MEMBERS, MAX_NAMES, MAX_WRITE_BATCH_SIZE},
    sdam::{Action, MAX_SERVERS, MonitorConnectionId, Sdam, SdamOptions},
    time::Instant,
    wire::{HEADER_BYTES, Header, MAX_MESSAGE_BYTES, MAX_SEQUENCES, Message, OpCode},
};
use std::time::Duration;

const ROUND_TRIP: Duration = Duration::from_millis(1);

/// Parses `fields`, the elements of a BSON document, as a reply to `hello`. Then discovers a
/// deployment whose servers send this reply, with several kinds of options.
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

/// Returns the document with these elements, or `None` if they are malformed.
fn document(fields: &[u8]) -> Option<RawDocumentBuf> {
    let length = i32::try_from(fields.len() + 5).ok()?;
    let mut bytes = length.to_le_bytes().to_vec();
    bytes.extend_from_slice(fields);
    bytes.push(0);
    RawDocumentBuf::from_bytes(bytes).ok()
}

/// Discovers a deployment whose servers all send the same reply, in three rounds of checks.
fn discover(reply: &RawDocumentBuf, change: impl FnOnce(&mut SdamOptions)) {
    let seed = "a".parse().expect("an address");
    let mut options = SdamOptions::new(TopologyId(ObjectId::from_bytes([0; 12])), vec![seed]);
    change(&mut options);
    let mut sdam = Sdam::new(options);
    sdam.start(Instant::ZERO);
    for round in 1..=3 {
        let now = Instant::ZERO + Duration::from_secs(20 * round);
        let mut opened: Vec<MonitorConnectionId> = Vec::new();
        let mut asked: Vec<MonitorConnectionId> = Vec::new();
        while let Some(action) = sdam.poll_action() {
            match action {
                Action::Open { connection, .. } => opened.push(connection),
                Action::SendHello { connection, .. } => asked.push(connection),
                _ => {}
            }
        }
        for connection in opened {
            sdam.handle_connected(now, connection, reply, ROUND_TRIP);
        }
        for connection in asked {
            sdam.handle_reply(now, connection, reply, ROUND_TRIP, round == 2);
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

/// Handles `rest`, a message without its header, as the reply to a `hello` and as the reply to an
/// operation. The reply to the operation can report write errors or open a cursor.
pub fn message(rest: &[u8]) {
    let length = HEADER_BYTES + rest.len();
    let mut frame = Vec::with_capacity(length);
    let header = Header {
        length,
        request_id: 1,
        response_to: 0,
        op_code: OpCode::Msg,
    };
    header.encode(&mut frame);
    frame.extend_from_slice(rest);
    if let Ok(message) = Message::decode(&frame) {
        assert!(message.steps() <= frame.len() + 100, "{}", message.steps());
        assert!(message.sections().count() <= MAX_SEQUENCES + 1);
        let error = ErrorKind::Command(Box::new(CommandError::from_reply(message.body)));
        assert_bounded(&error.into(), message.body);
        if let Some(fault) = WriteFailure::from_reply(message.body) {
            assert!(fault.errors.len() <= MAX_WRITE_ERRORS);
            assert_bounded(&ErrorKind::Write(Box::new(fault)).into(), message.body);
        }
    }
    for options in ["serverMonitoringMode=poll", "serverMonitoringMode=stream"] {
        let mut victim = Victim::watched(options, true);
        victim.receive_hello(&mut frame, 7);
        assert!(victim.servers() <= MAX_SERVERS);
        assert!(victim.topology().len() < (MAX_CAUSE_TEXT_BYTES + 1024) * MAX_SERVERS);
    }
    let mut victim = Victim::watched("directConnection=true", false);
    victim.receive_hello(&mut standalone(), usize::MAX);
    let exchange = victim.operation();
    match victim.reply(exchange, &mut frame) {
        Ok(Some(mut cursor)) => {
            let mut count = 0;
            while let Some(document) = cursor.next_document() {
                count += 1;
                if document.is_err() {
                    assert!(cursor.is_batch_empty());
                }
            }
            assert!(count <= rest.len());
        }
        Ok(None) => {}
        Err(error) => assert!(error.to_string().len() < 4 * MAX_MESSAGE_TEXT_BYTES),
    }
}

/// Asserts that the size of an error is bounded, however long the reply is that the error was made
/// from.
fn assert_bounded(error: &Error, reply: &RawDocument) {
    assert!(error.to_string().len() < 4 * MAX_MESSAGE_TEXT_BYTES);
    let labelled = error.clone().with_labels(&Labels::from_reply(reply));
    assert!(labelled.labels().iter().count() <= 16);
    assert_eq!(labelled.code(), error.code());
}
