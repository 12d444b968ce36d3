//! Bulk writes of a client: the prose tests of `crud/tests/README.md` about the command
//! `bulkWrite`, and those about the details of errors and about generated ids.
//!
//! The prose tests read the limits of the server from its `hello` reply, and so do these tests.
//! Most of them run with small limits, and those about sizes once with the limits of a real server.

mod batches;
mod cursors;
mod details;
mod sizes;

use crate::scene::{Watched, replica_set_of, sharded_alone, standalone};
use bson::{Document, doc};
use onionskin::{
    Collection, Error, Namespace,
    error::{BulkWriteError, ErrorKind},
    options::{InsertOneModel, WriteModel},
};
use onionskin_core::event::{CommandEvent, Event, EventKind};
use onionskin_deployment::deployment::{DeploymentOptions, ServerVersion};
use onionskin_worlds::world::SimRuntime;

/// The collection of the prose tests.
const COLLECTION: &str = "db.coll";

/// The limits in the `hello` reply of a server.
struct Limits {
    document_bytes: usize,
    message_bytes: usize,
    batch: usize,
}

/// A command that was sent.
struct Sent {
    command: Document,
    operation: u64,
}

impl Sent {
    fn operations(&self) -> usize {
        self.command.get_array("ops").expect("operations").len()
    }

    fn namespaces(&self) -> Vec<&str> {
        let all = self.command.get_array("nsInfo").expect("namespaces").iter();
        let names = all.map(|info| info.as_document().and_then(|info| info.get_str("ns").ok()));
        names.collect::<Option<_>>().expect("names")
    }
}

/// Returns the deployments of each topology with a server that has the command `bulkWrite`.
fn release_8() -> [DeploymentOptions; 3] {
    [standalone(), replica_set_of(1), sharded_alone()].map(|mut options| {
        options.version = ServerVersion::named("8.0").expect("a release");
        options
    })
}

/// Returns the deployments of [`release_8`] with small limits.
fn small() -> [DeploymentOptions; 3] {
    release_8().map(|mut options| {
        options.limits.max_document_bytes = 20_000;
        options.limits.max_message_bytes = 50_000;
        options.limits.max_write_batch = 40;
        options
    })
}

async fn limits(watched: &Watched) -> Limits {
    let admin = watched.client.database("admin");
    let hello = admin.run_command(doc! { "hello": 1 }).await;
    let hello = hello.expect("a reply");
    let limit = |name| usize::try_from(hello.get_i32(name).expect("a limit")).expect("positive");
    Limits {
        document_bytes: limit("maxBsonObjectSize"),
        message_bytes: limit("maxMessageSizeBytes"),
        batch: limit("maxWriteBatchSize"),
    }
}

fn namespace(name: &str) -> Namespace {
    name.parse().expect("a database and a collection")
}

fn collection(watched: &Watched) -> Collection<SimRuntime, Document> {
    watched.client.database("db").collection("coll")
}

fn insert(name: &str, document: Document) -> WriteModel {
    let model = InsertOneModel::builder().namespace(namespace(name));
    model.document(document).build().into()
}

/// Returns the insert of a document whose string has this number of bytes.
fn insert_text(name: &str, bytes: usize) -> WriteModel {
    insert(name, doc! { "a": "b".repeat(bytes) })
}

/// Returns the commands with this name that were sent, in order.
fn sent(watched: &Watched, name: &str) -> Vec<Sent> {
    watched.events.notes(|event| match &event.kind {
        EventKind::Command(CommandEvent::Started { facts, command, .. })
            if &*facts.name == name =>
        {
            Some(Sent {
                command: Document::try_from(&**command).expect("BSON"),
                operation: facts.operation_id,
            })
        }
        _ => None,
    })
}

/// Returns the number of operations of each `bulkWrite` command, all of which must have the same
/// operation id.
fn sizes(watched: &Watched) -> Vec<usize> {
    let all = sent(watched, "bulkWrite");
    assert!(
        all.windows(2)
            .all(|two| two[0].operation == two[1].operation)
    );
    all.iter().map(Sent::operations).collect()
}

fn failure(error: &Error) -> &BulkWriteError {
    match error.kind() {
        ErrorKind::BulkWrite(failure) => failure,
        _ => panic!("{error:?}"),
    }
}

/// Returns the reply of an event if it reports the success of a command with this name.
fn reply(event: &Event, name: &str) -> Option<Document> {
    match &event.kind {
        EventKind::Command(CommandEvent::Succeeded { facts, reply, .. })
            if &*facts.name == name =>
        {
            Document::try_from(&**reply).ok()
        }
        _ => None,
    }
}
