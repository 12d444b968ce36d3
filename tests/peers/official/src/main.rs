//! Follows a step-down with the official MongoDB driver.
//!
//! Usage: `official-driver-peer URI [--without-step-down]`, or `official-driver-peer --authenticate
//! URI TOKEN_DIRECTORY` for the cases of `authenticate.rs`, or `official-driver-peer --cost URI
//! KIND COUNT` for the measurements of `cost.rs`, or `official-driver-peer --scenario URI SECONDS`
//! for the run of `scenario.rs`
//!
//! Inserts documents and reads them back in small batches. Then asks the primary to step down while
//! inserts continue as retryable writes, and reads every acknowledged document back. Prints one
//! JSON object. The exit code is 0 on success, 1 if an operation or a check failed, and 2 if the
//! arguments are wrong.

mod authenticate;
mod cost;
mod scenario;

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::Duration;

use futures_util::TryStreamExt;
use mongodb::bson::{Document, doc};
use mongodb::options::{ClientOptions, ReadConcern, WriteConcern};
use mongodb::{Client, Collection};
use serde_json::{Value, json};

/// The number of documents that each phase inserts: before, during and after the step-down.
const DOCUMENTS_PER_PHASE: i32 = 100;
/// The batch size of the cursor, which does not divide the number of documents.
const BATCH_SIZE: u32 = 7;
/// The time limit of the whole run.
const RUN_TIMEOUT: Duration = Duration::from_secs(120);
/// The number of seconds for which the old primary cannot be elected again.
const STEP_DOWN_SECONDS: i32 = 10;

pub(crate) type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// The result of inserts: the ids of the acknowledged ones, and the errors of the others.
#[derive(Default)]
struct Written {
    acknowledged: BTreeSet<i32>,
    errors: Vec<String>,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let is_cost = arguments.first().is_some_and(|first| first == "--cost");
    let mut builder = match is_cost {
        true => tokio::runtime::Builder::new_current_thread(),
        false => tokio::runtime::Builder::new_multi_thread(),
    };
    match builder.enable_all().build() {
        Ok(runtime) => runtime.block_on(start(arguments)),
        Err(error) => fail(&error.to_string()),
    }
}

async fn start(arguments: Vec<String>) -> ExitCode {
    if let [flag, uri, kind, count] = arguments.as_slice()
        && flag == "--cost"
    {
        let Ok(count) = count.parse() else {
            return fail("the count is no number");
        };
        return match cost::run(uri, kind, count).await {
            Ok(line) => {
                println!("{line}");
                ExitCode::SUCCESS
            }
            Err(error) => fail(&error.to_string()),
        };
    }
    if let [flag, uri, tokens] = arguments.as_slice()
        && flag == "--authenticate"
    {
        let run = authenticate::run(uri, tokens);
        return match tokio::time::timeout(RUN_TIMEOUT, run).await {
            Ok(Ok(results)) => {
                println!("{results}");
                ExitCode::SUCCESS
            }
            Ok(Err(error)) => fail(&error.to_string()),
            Err(_) => fail("the run did not end in time"),
        };
    }
    if let [flag, uri, seconds] = arguments.as_slice()
        && flag == "--scenario"
    {
        let Ok(seconds) = seconds.parse() else {
            return fail("the time is no number of seconds");
        };
        return ended(scenario::run(uri, Duration::from_secs(seconds))).await;
    }
    let (uri, step_down) = match arguments.as_slice() {
        [uri] => (uri, true),
        [uri, flag] if flag == "--without-step-down" => (uri, false),
        _ => {
            eprintln!("usage: official-driver-peer URI [--without-step-down]");
            return ExitCode::from(2);
        }
    };
    ended(run(uri, step_down)).await
}

/// Prints the summary of a run.
async fn ended(run: impl Future<Output = Result<Value>>) -> ExitCode {
    let summary = match tokio::time::timeout(RUN_TIMEOUT, run).await {
        Ok(Ok(summary)) => summary,
        Ok(Err(error)) => json!({ "ok": false, "error": error.to_string() }),
        Err(_) => json!({ "ok": false, "error": "the run did not end in time" }),
    };
    println!("{summary}");
    if summary["ok"] == true {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn fail(reason: &str) -> ExitCode {
    eprintln!("{reason}");
    ExitCode::FAILURE
}

async fn run(uri: &str, step_down: bool) -> Result<Value> {
    let client = Client::with_options(ClientOptions::parse(uri).await?)?;
    let database = client.database("onionskin_peers");
    let plain = database.collection::<Document>("official");
    plain.drop().await?;
    let mut majority = mongodb::options::CollectionOptions::default();
    if step_down {
        majority.write_concern = Some(WriteConcern::majority());
        majority.read_concern = Some(ReadConcern::majority());
    }
    let collection = database.collection_with_options::<Document>("official", majority);

    let before = hello(&client).await?;
    let mut written = insert(&collection, 0).await;
    let batched = read_back(&collection).await?;
    let batches_hold = batched == written.acknowledged;

    if step_down {
        let (asked, more) = tokio::join!(
            ask_to_step_down(&client),
            insert(&collection, DOCUMENTS_PER_PHASE)
        );
        asked?;
        written.acknowledged.extend(more.acknowledged);
        written.errors.extend(more.errors);
    }
    let more = insert(&collection, 2 * DOCUMENTS_PER_PHASE).await;
    written.acknowledged.extend(more.acknowledged);
    written.errors.extend(more.errors);

    let read = read_back(&collection).await?;
    let after = hello(&client).await?;
    let missing: Vec<_> = written.acknowledged.difference(&read).collect();
    let unexpected: Vec<_> = read.difference(&written.acknowledged).collect();
    let has_other_members = before.get_array("hosts").is_ok_and(|hosts| hosts.len() > 1);
    let moved = before.get_str("me").ok() != after.get_str("me").ok();
    let followed = !step_down || !has_other_members || moved;
    let ok = batches_hold
        && followed
        && written.errors.is_empty()
        && missing.is_empty()
        && unexpected.is_empty();
    Ok(json!({
        "ok": ok,
        "driver": "mongodb (Rust)",
        "stepped_down": step_down,
        "primary_before": before.get_str("me").ok(),
        "primary_after": after.get_str("me").ok(),
        "acknowledged": written.acknowledged.len(),
        "read": read.len(),
        "missing": missing,
        "unexpected": unexpected,
        "batches_hold": batches_hold,
        "errors": written.errors,
    }))
}

async fn hello(client: &Client) -> Result<Document> {
    Ok(client
        .database("admin")
        .run_command(doc! { "hello": 1 })
        .await?)
}

/// Inserts the documents of one phase one by one. An error does not end the phase.
async fn insert(collection: &Collection<Document>, first: i32) -> Written {
    let mut written = Written::default();
    for id in first..first + DOCUMENTS_PER_PHASE {
        match collection
            .insert_one(doc! { "_id": id, "text": "x".repeat(64) })
            .await
        {
            Ok(_) => drop(written.acknowledged.insert(id)),
            Err(error) => written.errors.push(format!("{id}: {error}")),
        }
    }
    written
}

async fn read_back(collection: &Collection<Document>) -> Result<BTreeSet<i32>> {
    let mut cursor = collection.find(doc! {}).batch_size(BATCH_SIZE).await?;
    let mut ids = BTreeSet::new();
    while let Some(document) = cursor.try_next().await? {
        let id = document.get_i32("_id")?;
        if !ids.insert(id) {
            return Err(format!("_id {id} was returned twice").into());
        }
    }
    Ok(ids)
}

/// Asks the primary to step down. A server before 4.2 closes every connection instead of sending a
/// reply, so an I/O error counts as success.
async fn ask_to_step_down(client: &Client) -> Result<()> {
    let command = doc! { "replSetStepDown": STEP_DOWN_SECONDS, "force": true };
    match client.database("admin").run_command(command).await {
        Ok(_) => Ok(()),
        Err(error) if matches!(*error.kind, mongodb::error::ErrorKind::Io(_)) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
