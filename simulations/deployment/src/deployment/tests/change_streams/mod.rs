//! Tests of change streams.

mod errors;
mod events;
mod resume;

use super::world::{World, send, set_of};
use crate::deployment::ConnId;
use bson::{Bson, Document, doc};
use std::time::Duration;

/// A world with a replica set, or a sharded cluster, that claims to be of a release.
fn world_of(release: [u16; 3]) -> (World, ConnId) {
    let mut options = set_of(3);
    options.version.release = release;
    let mut world = World::new(options, 1);
    let (primary, _) = world
        .until_primary(Duration::from_secs(60))
        .expect("a primary");
    let conn = world.connect(primary);
    (world, conn)
}

/// An open change stream, and the token of its last reply.
struct Stream {
    id: i64,
    collection: String,
    database: String,
    token: Document,
    /// The events that were read and not yet taken.
    events: Vec<Document>,
}

/// Returns the command that opens a change stream on a collection.
fn watch(options: Document, stages: Vec<Document>) -> Document {
    let mut pipeline = vec![doc! { "$changeStream": options }];
    pipeline.extend(stages);
    doc! { "aggregate": "c", "pipeline": pipeline, "cursor": {}, "$db": "d" }
}

impl Stream {
    /// Opens a stream by a command, which must succeed.
    fn open(world: &mut World, conn: ConnId, command: Document) -> Self {
        let reply = send(world, conn, command.clone());
        assert_eq!(reply.get_f64("ok").ok(), Some(1.0), "{reply}");
        let collection = command.get_str("aggregate").unwrap_or("$cmd.aggregate");
        let mut stream = Self {
            id: 0,
            collection: collection.to_owned(),
            database: command.get_str("$db").expect("a database").to_owned(),
            token: Document::new(),
            events: Vec::new(),
        };
        stream.take(&reply);
        stream
    }

    fn take(&mut self, reply: &Document) {
        let cursor = reply.get_document("cursor").expect("a cursor");
        let batch = cursor.get_array("firstBatch");
        let batch = batch.or_else(|_| cursor.get_array("nextBatch"));
        let batch = batch.expect("a batch").iter();
        self.events
            .extend(batch.filter_map(Bson::as_document).cloned());
        self.id = cursor.get_i64("id").expect("an id");
        let token = cursor.get_document("postBatchResumeToken");
        self.token = token.expect("a token").clone();
    }

    fn get_more(&self) -> Document {
        doc! {
            "getMore": self.id, "collection": self.collection.as_str(), "maxTimeMS": 500,
            "$db": self.database.as_str(),
        }
    }

    /// Sends a `getMore`, and keeps the events of the reply.
    fn more(&mut self, world: &mut World, conn: ConnId) {
        let reply = send(world, conn, self.get_more());
        assert_eq!(reply.get_f64("ok").ok(), Some(1.0), "{reply}");
        self.take(&reply);
    }

    /// Returns the next event.
    fn next(&mut self, world: &mut World, conn: ConnId) -> Document {
        for _ in 0..5 {
            if !self.events.is_empty() {
                return self.events.remove(0);
            }
            self.more(world, conn);
        }
        panic!("there is no event");
    }

    /// Returns the kinds of the next events, until none follow or the stream has ended.
    fn kinds(&mut self, world: &mut World, conn: ConnId) -> Vec<String> {
        let mut kinds = Vec::new();
        loop {
            let events = std::mem::take(&mut self.events);
            let kind = |event: &Document| event.get_str("operationType").map(str::to_owned);
            kinds.extend(events.iter().map(|event| kind(event).expect("a kind")));
            if self.id == 0 {
                return kinds;
            }
            self.more(world, conn);
            if self.events.is_empty() {
                return kinds;
            }
        }
    }

    fn fails(&self, world: &mut World, conn: ConnId) -> Document {
        let reply = send(world, conn, self.get_more());
        assert_eq!(reply.get_f64("ok").ok(), Some(0.0), "{reply}");
        reply
    }
}

/// Inserts documents with these `_id`s into the collection.
fn insert(world: &mut World, conn: ConnId, ids: std::ops::Range<i32>) {
    let documents: Vec<Document> = ids.map(|id| doc! { "_id": id }).collect();
    let reply = send(world, conn, doc! { "insert": "c", "documents": documents });
    assert_eq!(reply.get_f64("ok").ok(), Some(1.0), "{reply}");
}

fn update(world: &mut World, conn: ConnId, update: impl Into<Bson>) {
    let statement = doc! { "q": { "_id": 1 }, "u": update.into() };
    let reply = send(world, conn, doc! { "update": "c", "updates": [statement] });
    assert_eq!(reply.get_i32("nModified").ok(), Some(1), "{reply}");
}

fn code(reply: &Document) -> i32 {
    reply.get_i32("code").unwrap_or(0)
}
