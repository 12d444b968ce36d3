//! Tests of the messages that a client sends: their op codes and flags, and the fields that the
//! client must not change.

use super::*;
use crate::{
    connection::closed_by_peer,
    options::{ServerApi, ServerApiVersion},
    wire::{Flags, HEADER_BYTES, OpCode},
};
use bson::{doc, oid::ObjectId};

const URI: &str = "mongodb://a/?replicaSet=rs";

/// Returns the op code and the flags of each message in these bytes.
fn messages(bytes: &[u8]) -> Vec<(OpCode, u32)> {
    let mut decoder = FrameDecoder::new();
    decoder.extend(bytes);
    let mut found = Vec::new();
    while let Some((header, frame)) = decoder.frame().expect("messages") {
        let flags = frame[HEADER_BYTES..].first_chunk().copied();
        found.push((header.op_code, u32::from_le_bytes(flags.expect("flags"))));
        let length = header.length;
        decoder.consume(length);
    }
    assert!(decoder.is_empty(), "whole messages are sent");
    found
}

/// A server that supports streaming and refuses authentication. The server does not reply to
/// awaitable hellos.
struct Refusing {
    peer: silent_peer::SilentPeer,
    hello: RawDocumentBuf,
    /// The op code and the flags of each message to the server.
    all: Vec<(OpCode, u32)>,
}

impl Peer for Refusing {
    fn parts(&mut self) -> Parts<'_> {
        self.peer.parts()
    }

    fn transmitted(&mut self, socket: SocketId, bytes: Vec<u8>) {
        self.all.extend(messages(&bytes));
        let body = Message::decode(&bytes).expect("a message").body;
        let name = body.iter().next().expect("a name").expect("BSON").0;
        let is_hello = ["hello", "isMaster"].contains(&name.as_str());
        let is_push = matches!(body.get("maxAwaitTimeMS"), Ok(Some(_)));
        let refused = rawdoc! { "ok": 0, "code": 18 };
        if !is_push {
            let reply = if is_hello {
                self.hello.clone()
            } else {
                refused
            };
            self.respond(socket, &bytes, &reply);
        }
    }

    fn woken(&mut self, operation: OperationId) {
        let Parts { client, now, .. } = self.parts();
        if let Progress::Exchange(mut exchange) = client.resume(now, operation) {
            exchange.begin(now).expect("it fits");
            self.all.extend(messages(exchange.output()));
        }
    }
}

/// Returns all messages of a client that discovers its server and then runs an operation.
fn sent(text: &str, api: Option<ServerApi>) -> Vec<(OpCode, u32)> {
    let version = rawdoc! { "processId": ObjectId::from_bytes([1; 12]), "counter": 1_i64 };
    let mut hello = primary();
    hello.append(bson::raw::cstr!("topologyVersion"), version);
    let mut options = uri::parse(text).expect("a connection string").options;
    options.server_api = api;
    let config = ClientConfig::new(options, Seed::new([5; 32])).expect("options");
    let mut peer = Refusing {
        peer: silent_peer::SilentPeer::new(Client::new(config)),
        hello,
        all: Vec::new(),
    };
    let Parts { client, now, .. } = peer.parts();
    client.open(now);
    let start = client.start(now, ping());
    harness::drain(&mut peer);
    assert!(matches!(start, Progress::Waiting(_)), "{start:?}");
    peer.all
}

#[test]
fn every_message_is_an_op_msg() {
    // All messages are OP_MSG (MSG-28), with an API version (MSG-29) and without (MSG-30).
    // Authentication uses OP_MSG and no compression (MSG-31).
    let user = "mongodb://user:pencil@a/?replicaSet=rs&authMechanism=SCRAM-SHA-1";
    let api = ServerApi::new(ServerApiVersion::V1);
    for (text, api) in [
        (URI, None),
        (URI, Some(api)),
        (user, None),
        (user, Some(api)),
    ] {
        let sent = sent(text, api);
        assert!(sent.len() >= 4, "{sent:?}");
        assert!(
            sent.iter().all(|(kind, _)| *kind == OpCode::Msg),
            "{sent:?}"
        );
    }
}

#[test]
fn only_an_awaitable_hello_has_the_flag_exhaust_allowed() {
    // Of these messages, only the awaitable hello has a flag, `exhaustAllowed` (MSG-23, MSG-24).
    // Unused bits are 0 (MSG-14), and no checksum is sent (MSG-16).
    let sent = sent(URI, None);
    let flags: Vec<u32> = sent
        .iter()
        .map(|(_, flags)| *flags)
        .filter(|f| *f != 0)
        .collect();
    assert_eq!(flags, [Flags::EXHAUST_ALLOWED.bits()], "{sent:?}");
    let mut world = World::new(URI, primary());
    for command in [ping(), find(), insert()] {
        let exchange = world.begin_exchange(command);
        assert_eq!(messages(exchange.output()), [(OpCode::Msg, 0)]);
        world.check_in(exchange, Outcome::Abandoned);
    }
}

#[test]
fn the_fields_of_a_user_command_are_sent_unchanged() {
    // The fields of the user's document stay as they are (MSG-27), with the command name first
    // (MSG-13). The driver adds `$db` (MSG-25) and `lsid`, and no default `$readPreference`
    // (MSG-26).
    let user = doc! {
        "find": "c", "filter": { "$readPreference": { "mode": "x" }, "b": [1, { "a": 2.5 }] },
        "documents": [{ "_id": 1 }], "comment": "ok",
    };
    let command = Command::from_document(&user, "db").expect("a command");
    let mut world = World::new(URI, primary());
    let exchange = world.begin_exchange(command);
    let sent = World::request(&exchange);
    let (kept, added): (Vec<_>, Vec<_>) = sent.iter().partition(|(key, _)| user.contains_key(key));
    assert!(kept.into_iter().eq(user.iter()), "{sent}");
    let added: Vec<&str> = added.into_iter().map(|(key, _)| key.as_str()).collect();
    assert_eq!(added, ["$db", "lsid"]);
    assert_eq!(sent.keys().next().map(String::as_str), Some("find"));
    assert_eq!(sent.get_str("$db").ok(), Some("db"));
}

#[test]
fn the_operation_after_a_lost_unacknowledged_write_fails_with_a_network_error() {
    // An unacknowledged write has the flag `moreToCome` and no reply (MSG-18). A server that steps
    // down during the write closes the connection, which the next operation notices (MSG-19).
    let mut world = World::new("mongodb://a/?replicaSet=rs&retryReads=false", primary());
    let mut command = insert();
    command.set_unacknowledged();
    let mut exchange = world.begin_exchange(command);
    assert_eq!(messages(exchange.output()), [(OpCode::Msg, 2)]);
    let socket = exchange.socket();
    exchange.sent(exchange.output().len());
    let after = world.check_in(exchange, Outcome::Completed);
    assert!(matches!(after, AfterExchange::Done(Ok(()))), "{after:?}");
    // The server has stepped down and closed the connection, which nothing reads from.
    let exchange = world.begin_exchange(find());
    assert_eq!(exchange.socket(), socket);
    let after = world.check_in(exchange, Outcome::Failed(closed_by_peer()));
    let AfterExchange::Done(Err(error)) = after else {
        panic!("{after:?}");
    };
    assert!(error.is_network(), "{error}");
    assert!(world.closed.contains(&socket));
}
