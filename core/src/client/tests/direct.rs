//! Tests of which servers run a command: direct connections, replica sets without a primary, and
//! the kinds of commands.

use super::*;
use crate::{error::ErrorKind, options::ReadMode};
use std::{sync::Arc, time::Duration};

const DIRECT: &str = "mongodb://a/?directConnection=true";

/// Returns the hello reply of a replica set member in this state.
fn member(state: &Document) -> RawDocumentBuf {
    let mut reply = bson::doc! {
        "ok": 1, "setName": "rs", "hosts": ["a:27017"], "maxWireVersion": 21,
        "logicalSessionTimeoutMinutes": 30,
    };
    reply.extend(state.clone());
    RawDocumentBuf::try_from(&reply).expect("BSON")
}

fn secondary() -> RawDocumentBuf {
    member(&bson::doc! { "secondary": true })
}

fn reading(mut command: Command, mode: ReadMode) -> Command {
    command.set_read_preference(Arc::new(ReadPreference::new(mode)));
    command
}

/// Returns a command of this kind.
fn of_kind(kind: CommandKind) -> Command {
    let mut command = Command::new("anything", "db", kind);
    command.body().str("anything", "c");
    command
}

const KINDS: [CommandKind; 4] = [
    CommandKind::Read,
    CommandKind::Run,
    CommandKind::Write,
    CommandKind::RetryableWrite,
];

#[test]
fn a_direct_connection_sends_every_command_to_a_server_of_any_type() {
    // A direct connection sends every command to a server of any type, even if the application sets
    // no read preference (SDAM-2, SDAM-3). A server refuses the commands that it cannot run.
    let ghost = rawdoc! { "ok": 1, "isreplicaset": true, "maxWireVersion": 21 };
    for hello in [
        secondary(),
        member(&bson::doc! { "arbiterOnly": true }),
        member(&bson::doc! { "hidden": true, "secondary": true }),
        member(&bson::doc! {}),
        ghost,
        mongos(),
        rawdoc! { "ok": 1, "maxWireVersion": 21 },
    ] {
        let mut world = World::new(DIRECT, hello);
        for kind in KINDS {
            let after = world.perform(of_kind(kind), &rawdoc! { "ok": 1 });
            assert!(matches!(after, AfterExchange::Done(Ok(()))), "{after:?}");
        }
        let refused = rawdoc! { "ok": 0, "code": 8000, "errmsg": "not here" };
        let after = world.perform(insert(), &refused);
        assert!(matches!(after, AfterExchange::Done(Err(_))), "{after:?}");
    }
}

#[test]
fn a_replica_set_without_primary_serves_only_reads_that_need_no_primary() {
    // A replica set without a primary can be used (SDAM-6). The rules of selection are the same for
    // every command (SEL-1). The kind of a command decides whether the command is a read.
    let mut world = World::new("mongodb://a/?replicaSet=rs", secondary());
    let reads = [CommandKind::Read, CommandKind::Run];
    for kind in reads {
        for mode in [
            ReadMode::PrimaryPreferred,
            ReadMode::Secondary,
            ReadMode::SecondaryPreferred,
            ReadMode::Nearest,
        ] {
            let command = reading(of_kind(kind), mode);
            let after = world.perform(command, &rawdoc! { "ok": 1 });
            assert!(matches!(after, AfterExchange::Done(Ok(()))), "{after:?}");
        }
    }
    for kind in KINDS {
        let preference = match kind {
            CommandKind::Read | CommandKind::Run => ReadMode::Primary,
            // A read preference has no effect on a write.
            _ => ReadMode::Nearest,
        };
        let command = reading(of_kind(kind), preference);
        let start = world.client.start(world.now, command);
        let Progress::Waiting(id) = start else {
            panic!("{kind:?}: {start:?}");
        };
        world.client.cancel(world.now, id);
    }
}

#[test]
fn a_network_error_closes_the_idle_connections_of_its_server() {
    // A network error closes the idle connections in the pool of the server (SDAM-107).
    let mut world = World::new("mongodb://a/?directConnection=true", primary());
    let exchanges = [ping(), ping(), ping()].map(|command| world.begin_exchange(command));
    let sockets = exchanges.each_ref().map(Exchange::socket);
    for mut exchange in exchanges {
        World::answer(&mut exchange, &rawdoc! { "ok": 1 });
        world.check_in(exchange, Outcome::Completed);
    }
    let exchange = world.begin_exchange(ping());
    assert!(sockets.contains(&exchange.socket()));
    world.check_in(exchange, reset());
    world.wait(Duration::ZERO);
    for socket in sockets {
        assert!(world.closed.contains(&socket), "{socket:?} is open");
    }
    world.wait(Duration::from_secs(10));
    let exchange = world.begin_exchange(ping());
    assert!(!sockets.contains(&exchange.socket()), "a new one");
}

#[test]
fn a_transaction_number_needs_retry_writes_and_is_not_added_to_user_commands() {
    // A write gets a transaction number if `retryWrites` is on (RW-1). A command of the user never
    // gets one (RW-20).
    let number = |text: &str, command: Command| {
        let mut world = World::new(text, primary());
        let exchange = world.begin_exchange(command);
        World::request(&exchange).contains_key("txnNumber")
    };
    let uri = "mongodb://a/?replicaSet=rs";
    assert!(number(uri, insert()));
    assert!(number(&format!("{uri}&retryWrites=true"), insert()));
    assert!(!number(&format!("{uri}&retryWrites=false"), insert()));
    let document = bson::doc! { "insert": "c", "documents": [{ "_id": 1 }] };
    let command = Command::from_document(&document, "db").expect("a command");
    assert!(!number(uri, command));
}

#[test]
fn a_client_with_a_credential_sends_an_arbiter_only_unauthenticated_commands() {
    // Connections to an arbiter do not authenticate (AUTH-16). Any server can claim to be an
    // arbiter. So a client with a credential sends such a server only commands that need no
    // authentication, such as `ping`.
    let arbiter = member(&bson::doc! { "arbiterOnly": true });
    let text = "mongodb://user:pencil@a/?directConnection=true";
    let mut world = World::new(text, arbiter.clone());
    for kind in KINDS {
        let start = world.client.start(world.now, of_kind(kind));
        world.run();
        let failed = match start {
            Progress::Waiting(id) => world.client.resume(world.now, id),
            start => start,
        };
        match failed {
            Progress::Failed(error) => assert!(
                matches!(error.kind(), ErrorKind::Authentication { .. }),
                "{error}"
            ),
            other => panic!("{kind:?} would be sent: {other:?}"),
        }
    }
    assert_eq!(world.client.counts().in_use, 0);
    let after = world.perform(ping(), &rawdoc! { "ok": 1 });
    assert!(matches!(after, AfterExchange::Done(Ok(()))), "{after:?}");
    // A client without a credential does not authenticate anywhere, so it sends its commands.
    let mut open = World::new(DIRECT, arbiter);
    open.begin_exchange(of_kind(CommandKind::Read));
}
