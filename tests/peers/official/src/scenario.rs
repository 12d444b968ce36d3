//! Writes while the servers suffer from a scenario, and reads the documents afterwards.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use mongodb::bson::doc;
use mongodb::options::{ClientOptions, CollectionOptions, ReadConcern, WriteConcern};
use mongodb::{Client, Collection, bson::Document};
use serde_json::{Value, json};

use crate::{Result, Written, read_back};

/// The time between two checks of a server.
const HEARTBEAT: Duration = Duration::from_millis(500);

/// The pause after a failed insert.
const PAUSE: Duration = Duration::from_millis(50);

/// Inserts documents with the write concern `majority` for some time. An insert that fails is
/// counted: its document may be there or not. The result is good if each acknowledged document is
/// there once, and if an insert afterwards succeeds.
pub(crate) async fn run(uri: &str, duration: Duration) -> Result<Value> {
    let mut options = ClientOptions::parse(uri).await?;
    options.heartbeat_freq = Some(HEARTBEAT);
    let client = Client::with_options(options)?;
    let mut majority = CollectionOptions::default();
    majority.write_concern = Some(WriteConcern::majority());
    majority.read_concern = Some(ReadConcern::majority());
    let database = client.database("onionskin_peers");
    let log: Collection<Document> = database.collection_with_options("scenario", majority);
    let (mut written, mut failed) = (Written::default(), BTreeSet::new());
    let (end, mut number) = (Instant::now() + duration, 0);
    while Instant::now() < end {
        number += 1;
        match log.insert_one(doc! { "_id": number }).await {
            Ok(_) => drop(written.acknowledged.insert(number)),
            Err(error) => {
                failed.insert(number);
                written.errors.push(error.to_string());
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
    log.insert_one(doc! { "_id": number + 1 }).await?;
    written.acknowledged.insert(number + 1);
    let read = read_back(&log).await?;
    let lost: Vec<_> = written.acknowledged.difference(&read).collect();
    let known = &written.acknowledged | &failed;
    let unexpected: Vec<_> = read.difference(&known).collect();
    written.errors.truncate(3);
    Ok(json!({
        "ok": lost.is_empty() && unexpected.is_empty(),
        "driver": "mongodb (Rust)",
        "acknowledged": written.acknowledged.len(),
        "failed": failed.len(),
        "errors": written.errors,
        "lost": lost,
        "unexpected": unexpected,
    }))
}
