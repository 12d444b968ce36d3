//! Tests of transactions of several statements.

mod bank;
mod conflicts;
mod errors;
mod isolation;
mod limits;
mod outcomes;
mod routers;
mod shard_sets;
mod shards;
mod statements;

use super::world::{World, send};
use crate::deployment::ConnId;
use bson::{Binary, Bson, Document, doc, spec::BinarySubtype};

/// A transaction of a client: its connection, its session and its number.
#[derive(Clone, Copy)]
struct Client {
    conn: ConnId,
    session: u8,
    number: i64,
}

fn client(conn: ConnId, session: u8) -> Client {
    Client {
        conn,
        session,
        number: 1,
    }
}

fn lsid(session: u8) -> Document {
    let id = Binary {
        subtype: BinarySubtype::Uuid,
        bytes: vec![session; 16],
    };
    doc! { "id": id }
}

impl Client {
    /// Adds the fields of this transaction to a command.
    fn part(self, mut command: Document) -> Document {
        command.extend(doc! {
            "lsid": lsid(self.session), "txnNumber": self.number, "autocommit": false,
        });
        command
    }

    fn starting(self, command: Document) -> Document {
        let mut command = self.part(command);
        command.insert("startTransaction", true);
        command
    }

    /// Sends the first statement.
    fn start(self, world: &mut World, command: Document) -> Document {
        send(world, self.conn, self.starting(command))
    }

    /// Sends a further statement.
    fn go_on(self, world: &mut World, command: Document) -> Document {
        send(world, self.conn, self.part(command))
    }

    fn end(self, world: &mut World, name: &str) -> Document {
        self.go_on(world, doc! { name: 1, "$db": "admin" })
    }

    fn commit(self, world: &mut World) -> Document {
        self.end(world, "commitTransaction")
    }

    fn abort(self, world: &mut World) -> Document {
        self.end(world, "abortTransaction")
    }

    const fn numbered(mut self, number: i64) -> Self {
        self.number = number;
        self
    }
}

fn insert(documents: &[Document]) -> Document {
    doc! { "insert": "c", "documents": documents.to_vec() }
}

fn set(id: i32, field: &str, value: impl Into<Bson>) -> Document {
    let change = doc! { "$set": { field: value.into() } };
    doc! { "update": "c", "updates": [{ "q": { "_id": id }, "u": change }] }
}

fn find_all() -> Document {
    doc! { "find": "c", "filter": {}, "sort": { "_id": 1 } }
}

/// Returns the documents of the first batch of a reply.
fn batch(reply: &Document) -> Vec<Document> {
    let cursor = reply.get_document("cursor").expect("a cursor");
    let batch = cursor.get_array("firstBatch").expect("a batch");
    let batch = batch.iter().filter_map(Bson::as_document);
    batch.cloned().collect()
}

/// Returns the documents that a reader outside of transactions sees.
fn seen(world: &mut World, conn: ConnId) -> Vec<Document> {
    let reply = send(world, conn, find_all());
    batch(&reply)
}

#[track_caller]
fn succeed(reply: &Document) {
    assert_eq!(reply.get_f64("ok").ok(), Some(1.0), "{reply}");
    assert!(!reply.contains_key("writeErrors"), "{reply}");
    assert!(!reply.contains_key("writeConcernError"), "{reply}");
}

/// Asserts that a command has failed with this code and these labels.
#[track_caller]
fn fail(reply: &Document, code: i32, labels: &[&str]) {
    assert_eq!(reply.get_f64("ok").ok(), Some(0.0), "{reply}");
    assert_eq!(reply.get_i32("code").ok(), Some(code), "{reply}");
    let found = reply.get_array("errorLabels").map(Vec::as_slice);
    let found = found.unwrap_or_default().iter();
    let found: Vec<&str> = found.filter_map(Bson::as_str).collect();
    assert_eq!(found, labels, "{reply}");
}

const TRANSIENT: &[&str] = &["TransientTransactionError"];

/// Runs until all members have the same data, and compares it.
fn check_members(world: &mut World) {
    world.run_for(std::time::Duration::from_secs(30));
    world.deployment.check_members().expect("equal members");
}
