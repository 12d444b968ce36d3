//! The bodies of the fuzz targets in `fuzz/`: assertions that hold for all bytes that a peer can
//! send, and for all connection strings. A test also runs them on the corpus of the repository.

mod documents;
mod layers;

pub use documents::{bson, extended_json};
pub use layers::{http, ocsp, socks5};

use crate::loads::hostile::{Victim, standalone};
use bson::{RawDocument, RawDocumentBuf, oid::ObjectId};
use onionskin_core::{
    address::Address,
    description::{ServerType, TopologyId, TopologyType},
    dns::{
        DnsData, DnsQuery, HostsFile, Lookup, LookupAction, MAX_ALIASES, MAX_NAME_SERVERS,
        RecordKind, ResolverConfig,
    },
    error::{
        CommandError, Error, ErrorKind, InsertManyError, Labels, MAX_CAUSE_TEXT_BYTES,
        MAX_MESSAGE_TEXT_BYTES, MAX_WRITE_ERRORS,
    },
    options::{ClientOptions, Compressor},
    random::Seed,
    text::is_unprintable,
    time::Instant,
    unstable::{
        compression::{Compression, CompressionPlan},
        hello::HelloAnswer,
        hello::{HelloReply, MAX_MEMBERS, MAX_NAMES, MAX_WRITE_BATCH_SIZE},
        sdam::{MAX_SERVERS, MonitorConnectionId, Order, Sdam, SdamOptions},
        wire::{HEADER_BYTES, Header, MAX_MESSAGE_BYTES, MAX_SEQUENCES, Message, OpCode},
    },
    uri::{self, ConnectionString},
};
use std::{sync::Arc, time::Duration};

/// The maximum size of a decompressed message of the target `compressed`, in bytes.
const MAX_COMPRESSED_BYTES: usize = 1 << 20;

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
        while let Some(order) = sdam.poll_order() {
            match order {
                Order::Open { connection, .. } => opened.push(connection),
                Order::SendHello { connection, .. } => asked.push(connection),
                _ => {}
            }
        }
        for connection in opened {
            sdam.handle_connected(
                now,
                connection,
                HelloAnswer::new(reply.to_owned()),
                ROUND_TRIP,
            );
        }
        for connection in asked {
            sdam.handle_reply(
                now,
                connection,
                HelloAnswer::new(reply.to_owned()),
                ROUND_TRIP,
                round == 2,
            );
        }
        sdam.handle_timeout(now);
        let description = sdam.description();
        assert_printable(&description.to_string());
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
        let error = ErrorKind::Command(CommandError::from_reply(message.body));
        assert_bounded(&error.into(), message.body);
        if let Ok(Some(fault)) = InsertManyError::from_reply(message.body) {
            assert!(fault.errors().len() <= MAX_WRITE_ERRORS);
            assert_bounded(&ErrorKind::InsertMany(fault).into(), message.body);
        }
    }
    for options in ["serverMonitoringMode=poll", "serverMonitoringMode=stream"] {
        let mut victim = Victim::watched(options, true);
        victim.receive_hello(&mut frame, 7);
        assert!(victim.servers() <= MAX_SERVERS);
        assert_printable(&victim.topology());
        assert!(victim.topology().len() < (MAX_CAUSE_TEXT_BYTES + 1024) * MAX_SERVERS);
    }
    let mut victim = Victim::watched("directConnection=true", false);
    victim.receive_hello(&mut standalone(), usize::MAX);
    let exchange = victim.operation();
    match victim.reply(exchange, &mut frame) {
        Ok(Some(mut cursor)) => {
            let mut count = 0;
            while let Some(result) = cursor.advance() {
                count += 1;
                assert_eq!(result.is_ok(), cursor.current().is_some());
                if result.is_err() {
                    assert!(cursor.is_batch_empty());
                }
            }
            assert!(count <= rest.len());
        }
        Ok(None) => {}
        Err(error) => {
            assert_printable(&error.to_string());
            assert!(error.to_string().len() < 4 * MAX_MESSAGE_TEXT_BYTES);
        }
    }
}

/// Asserts that a text about a peer has no character by which the peer could forge a line of a log,
/// or control a terminal.
fn assert_printable(text: &str) {
    assert!(!text.contains(is_unprintable), "{text:?}");
}

/// Asserts that the size of an error is bounded, however long the reply is that the error was made
/// from.
fn assert_bounded(error: &Error, reply: &RawDocument) {
    assert_printable(&error.to_string());
    assert!(error.to_string().len() < 4 * MAX_MESSAGE_TEXT_BYTES);
    let labelled = error.clone().with_labels(&Labels::from_reply(reply));
    assert!(labelled.labels().iter().count() <= 16);
    assert_eq!(labelled.code(), error.code());
}

/// The name that fuzzed lookups ask for.
const FUZZED_NAME: &str = "_mongodb._tcp.c.db.test";

/// The maximum number of queries of a fuzzed lookup: two name servers are asked twice for each name
/// of a chain of aliases, and each of them again without EDNS options and over TCP.
const MAX_QUERIES: usize = 2 * 2 * 4 * (MAX_ALIASES + 1);

/// Handles `input` as the reply of name servers. Its first byte chooses the type of the query and
/// whether the right question is put before the rest of the message. The right id always is.
pub fn dns(input: &[u8]) {
    let Some((mode, rest)) = input.split_first() else {
        return;
    };
    let kinds = [
        RecordKind::Srv,
        RecordKind::Txt,
        RecordKind::A,
        RecordKind::Aaaa,
    ];
    let kind = kinds[usize::from(mode & 3)];
    let config = ResolverConfig::parse(b"nameserver 10.0.0.1\nnameserver 10.0.0.2\n");
    let query = DnsQuery::new(FUZZED_NAME, kind);
    let random = Seed::new([1; 32]).random();
    let limit = Some(Duration::from_secs(10));
    let mut lookup = Lookup::new(Instant::ZERO, query, Arc::new(config), random, limit);
    let mut queries = 0;
    while let Some(action) = lookup.poll_action() {
        match action {
            LookupAction::SendDatagram {
                socket,
                server,
                bytes,
            } => {
                queries += 1;
                let reply = reply(*mode, &bytes, rest);
                lookup.handle_datagram(Instant::ZERO, socket, server, &reply);
            }
            LookupAction::SendStream { socket, bytes, .. } => {
                queries += 1;
                let reply = reply(*mode, &bytes[2..], rest);
                let length = u16::try_from(reply.len()).unwrap_or(u16::MAX);
                lookup.handle_received(Instant::ZERO, socket, &length.to_be_bytes());
                lookup.handle_received(Instant::ZERO, socket, &reply);
                lookup.handle_received(Instant::ZERO, socket, &[]);
            }
            LookupAction::Close { .. } => {}
        }
    }
    assert!(queries <= MAX_QUERIES, "{queries} queries");
    if lookup.deadline().is_some() {
        // An unusable datagram is ignored, and the lookup waits for another one.
        lookup.handle_timeout(Instant::ZERO + Duration::from_secs(10));
    }
    assert_eq!(lookup.deadline(), None);
    match lookup.take_result().expect("the lookup is over") {
        Ok(answer) => {
            assert!((1..=rest.len()).contains(&answer.records.len()));
            answer.records.iter().for_each(|data| check(kind, data));
        }
        Err(error) => {
            assert!(
                matches!(error.kind(), ErrorKind::DnsResolve { .. }),
                "{error:?}"
            );
            assert!(error.to_string().len() < 4_096, "{error}");
        }
    }
}

/// Returns a message with the id of a query and, in some modes, with its question.
fn reply(mode: u8, query: &[u8], rest: &[u8]) -> Vec<u8> {
    let mut reply = query[..2].to_vec();
    if mode & 4 == 0 {
        reply.extend_from_slice(rest);
        return reply;
    }
    // The flags and the counts of records are those of the input.
    let (header, records) = rest.split_at(rest.len().min(8));
    reply.extend_from_slice(&header[..header.len().min(2)]);
    reply.extend([0, 1]);
    reply.extend_from_slice(header.get(2..).unwrap_or(&[]));
    reply.resize(12, 0);
    let end = query[12..].iter().position(|byte| *byte == 0);
    let question = 12 + end.map_or(0, |end| end + 5);
    reply.extend_from_slice(&query[12..question]);
    reply.extend_from_slice(records);
    reply
}

fn check(kind: RecordKind, data: &DnsData) {
    match (kind, data) {
        (RecordKind::A, DnsData::Address(address)) => assert!(address.is_ipv4()),
        (RecordKind::Aaaa, DnsData::Address(address)) => assert!(address.is_ipv6()),
        (RecordKind::Txt, DnsData::Text(_)) => {}
        (RecordKind::Srv, DnsData::Service { host, port }) => {
            assert!(!host.is_empty() && host.is_ascii());
            if uri::is_below_srv_domain("c.db.test", &Address::tcp(host, *port)) {
                let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
                assert!(host.bytes().all(is_part), "{host}");
            }
        }
        _ => panic!("{data:?} is no {kind} record"),
    }
}

/// Reads `input` as a `resolv.conf` and, after the first zero byte, a hosts file. Then looks up the
/// addresses of a host without an answer of any name server.
pub fn resolver_files(input: &[u8]) {
    let middle = input.iter().position(|byte| *byte == 0);
    let (conf, hosts) = input.split_at(middle.unwrap_or(input.len()));
    let hosts = HostsFile::parse(&String::from_utf8_lossy(hosts));
    let config = ResolverConfig::parse(conf).with_hosts(hosts);
    assert!((1..=MAX_NAME_SERVERS).contains(&config.name_servers.len()));
    assert!(config.ndots <= 15 && (1..=5).contains(&config.attempts));
    let pause = config.try_timeout.as_secs();
    assert!((1..=30).contains(&pause) && config.search.len() <= 6);
    let candidates = config.candidates("db.test");
    assert!(candidates.len() <= 7 && candidates.iter().all(|name| name.ends_with('.')));
    let config = Arc::new(config);
    for kind in [RecordKind::A, RecordKind::Aaaa, RecordKind::Srv] {
        let query = DnsQuery::new("db.test", kind);
        let random = Seed::new([1; 32]).random();
        let mut lookup = Lookup::new(Instant::ZERO, query, config.clone(), random, None);
        let mut sockets = 0;
        while let Some(deadline) = lookup.deadline() {
            while lookup.poll_action().is_some() {
                sockets += 1;
            }
            lookup.handle_timeout(deadline);
        }
        assert!(sockets <= MAX_NAME_SERVERS * 5, "{sockets} sockets");
        assert!(lookup.take_result().is_some());
    }
}

/// Parses, prints and changes a connection string. Text that is not UTF-8 is skipped.
pub fn connection_string(text: &[u8]) {
    let Ok(text) = std::str::from_utf8(text) else {
        return;
    };
    let (string, parsed) = match (ConnectionString::parse(text), uri::parse(text)) {
        (Ok(string), Ok(parsed)) => (string, parsed),
        (string, parsed) => {
            assert_eq!(string.err(), parsed.err());
            return;
        }
    };
    let printed = string.to_secret();
    assert_eq!(uri::parse(printed.expose()).ok(), Some(parsed));
    assert_prints_itself(&string);
    // Encoded secrets are printed nowhere but in the whole string.
    let secret = "0pencil0";
    let mut changed = string.clone();
    let _ = changed.set_credentials("name", Some(secret));
    let _ = changed.set_option("tlsCertificateKeyFilePassword", secret);
    let _ = changed.add_option("unknown", secret);
    assert!(!format!("{changed} {changed:?}").contains(secret));
    let _ = changed.set_srv_host(text);
    let _ = changed.set_hosts(string.hosts());
    let _ = changed.set_database(text);
    let _ = changed.add_option("appName", text);
    let _ = changed.set_option(text, text);
    for (name, _) in string.options() {
        let _ = changed.remove_option(name);
    }
    assert_prints_itself(&changed);
}

fn assert_prints_itself(string: &ConnectionString) {
    let again = ConnectionString::parse(string.to_secret().expose());
    assert!(again.as_ref() == Ok(string), "{string}, {again:?}");
}

/// Decompresses `input`, a compressed message without its header, on a connection that has
/// announced all compressors. A message that is accepted is compressed again with each compressor.
pub fn compressed(input: &[u8]) {
    let mut options = ClientOptions::default();
    options.compressors = Some(Compressor::ALL.to_vec());
    let plan = CompressionPlan::new(&options).expect("available compressors");
    let mut state = Compression::new(plan);
    let header = Header {
        length: HEADER_BYTES + input.len(),
        request_id: 1,
        response_to: 2,
        op_code: OpCode::Compressed,
    };
    let frame = [&header.to_bytes(), input].concat();
    let Ok(Some(head)) = state.head(&header, &frame, MAX_COMPRESSED_BYTES) else {
        return;
    };
    loop {
        match state.unpack(&header, &head, &frame) {
            Ok(true) => break,
            Ok(false) => {}
            Err(_) => return,
        }
    }
    let message = state.take_unpacked().expect("a message");
    assert_eq!(message.len(), HEADER_BYTES + head.uncompressed);
    for compressor in Compressor::ALL {
        state.negotiate(&[compressor.name().to_owned()]);
        let mut packed = Vec::new();
        state.pack(&message, usize::MAX, &mut packed);
        let header = Header::decode(&packed, usize::MAX).expect("a header");
        let head = state.head(&header, &packed, MAX_COMPRESSED_BYTES);
        let head = head.expect("valid").expect("complete");
        while !state.unpack(&header, &head, &packed).expect("valid") {}
        assert_eq!(state.take_unpacked().as_ref(), Some(&message));
    }
}
