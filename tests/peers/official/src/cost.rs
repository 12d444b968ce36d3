//! Runs one kind of operation many times with the official driver, and prints the processor time of
//! each.

use crate::Result;
use futures_util::{AsyncReadExt, AsyncWriteExt, TryStreamExt};
use mongodb::{
    Client,
    bson::{Document, doc},
    options::InsertOneModel,
};
use std::sync::LazyLock;

/// The number of operations before the measurement. They connect and let buffers grow.
const WARM_UP: usize = 100;

/// The number of documents in the collection, which `tests/costs` has filled.
const BATCH_DOCUMENTS: u32 = 200;

/// The size of a file, as in `tests/costs`, which has stored one.
const FILE_BYTES: usize = 15 * 1024 * 1024;

/// The number of documents that an operation of many writes inserts.
const MANY_DOCUMENTS: i32 = 10_000;

/// Runs `count` operations of a kind: `ping`, `insert`, `insert-many`, `bulk-write`, `batch`,
/// `transaction`, `upload` or `download`.
pub(crate) async fn run(uri: &str, kind: &str, count: usize) -> Result<String> {
    let client = Client::with_uri_str(uri).await?;
    for _ in 0..WARM_UP.min(count) {
        once(&client, kind).await?;
    }
    let begun = std::time::Instant::now();
    let start = processor_time()?;
    for _ in 0..count {
        once(&client, kind).await?;
    }
    let used = processor_time()? - start;
    Ok(format!(
        "{kind}: {:.2} us CPU, {:.2} us each",
        used as f64 / 1000.0 / count as f64,
        begun.elapsed().as_secs_f64() * 1e6 / count as f64
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
        "insert" => {
            let inserted = client.database("cost").collection::<Document>("inserted");
            inserted.insert_one(doc! { "x": 1 }).await?;
        }
        "insert-many" | "bulk-write" => insert_many(client, kind).await?,
        "transaction" => {
            let inserted = client.database("cost").collection::<Document>("inserted");
            let mut session = client.start_session().await?;
            session.start_transaction().await?;
            for x in [1, 2] {
                let insert = inserted.insert_one(doc! { "x": x });
                insert.session(&mut session).await?;
            }
            session.commit_transaction().await?;
        }
        "upload" => {
            let bucket = client.database("cost").gridfs_bucket(None);
            static CONTENT: LazyLock<Vec<u8>> = LazyLock::new(|| vec![7; FILE_BYTES]);
            let mut stream = bucket.open_upload_stream("another").await?;
            stream.write_all(&CONTENT).await?;
            stream.close().await?;
        }
        "download" => {
            let bucket = client.database("cost").gridfs_bucket(None);
            let mut stream = bucket.open_download_stream_by_name("stored").await?;
            let mut piece = vec![0; 64 * 1024];
            let mut all = 0;
            loop {
                match stream.read(&mut piece).await? {
                    0 => break,
                    count => all += count,
                }
            }
            assert_eq!(all, FILE_BYTES);
        }
        other => return Err(format!("no such kind: {other}").into()),
    }
    Ok(())
}

/// Inserts many documents by one call.
async fn insert_many(client: &Client, kind: &str) -> Result<()> {
    let inserted = client.database("cost").collection::<Document>("inserted");
    let documents = (0..MANY_DOCUMENTS).map(|x| doc! { "x": x });
    if kind == "insert-many" {
        let result = inserted.insert_many(documents).await?;
        assert_eq!(result.inserted_ids.len(), MANY_DOCUMENTS as usize);
        return Ok(());
    }
    let namespace = inserted.namespace();
    let models = documents.map(|document| {
        InsertOneModel::builder()
            .namespace(namespace.clone())
            .document(document)
            .build()
    });
    let result = client.bulk_write(models).await?;
    assert_eq!(result.inserted_count, i64::from(MANY_DOCUMENTS));
    Ok(())
}

/// Returns the processor time of this thread in nanoseconds, which runs all tasks.
fn processor_time() -> Result<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    let first = text.split(' ').next().unwrap_or_default();
    Ok(first.parse()?)
}
