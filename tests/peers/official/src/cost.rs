//! Runs one kind of operation many times with the official driver, and prints the processor time of
//! each.

use crate::Result;
use futures_util::TryStreamExt;
use mongodb::{
    Client,
    bson::{Document, doc},
};

/// The number of operations before the measurement. They connect and let buffers grow.
const WARM_UP: usize = 100;

/// The number of documents in the collection, which `tests/costs` has filled.
const BATCH_DOCUMENTS: u32 = 200;

/// Runs operations of this kind, `ping` or `batch`.
pub(crate) async fn run(uri: &str, kind: &str, count: usize) -> Result<String> {
    let client = Client::with_uri_str(uri).await?;
    for _ in 0..WARM_UP {
        once(&client, kind).await?;
    }
    let start = processor_time()?;
    for _ in 0..count {
        once(&client, kind).await?;
    }
    let used = processor_time()? - start;
    Ok(format!(
        "{kind}: {:.2} us CPU each",
        used as f64 / 1000.0 / count as f64
    ))
}

async fn once(client: &Client, kind: &str) -> Result<()> {
    match kind {
        "ping" => {
            client
                .database("admin")
                .run_command(doc! { "ping": 1 })
                .await?;
        }
        "batch" => {
            let people = client.database("cost").collection::<Document>("people");
            let cursor = people
                .find(doc! {})
                .limit(i64::from(BATCH_DOCUMENTS))
                .batch_size(BATCH_DOCUMENTS);
            let found: Vec<Document> = cursor.await?.try_collect().await?;
            assert_eq!(found.len(), BATCH_DOCUMENTS as usize);
        }
        other => return Err(format!("no such kind: {other}").into()),
    }
    Ok(())
}

/// Returns the processor time of this thread in nanoseconds, which runs all tasks.
fn processor_time() -> Result<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    let first = text.split(' ').next().unwrap_or_default();
    Ok(first.parse()?)
}
