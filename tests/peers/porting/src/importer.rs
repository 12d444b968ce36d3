//! A bulk importer: unordered inserts with duplicate keys, and a bulk write to two collections.

use crate::driver::{
    Client, Collection, Namespace,
    bson::{Bson, Document, doc},
    error::{BulkWriteError, Error, ErrorKind, InsertManyError, PartialBulkWriteResult, Result},
    options::{
        BulkWriteOptions, DeleteManyModel, DeleteOneModel, InsertOneModel, ReplaceOneModel,
        UpdateManyModel, UpdateOneModel, WriteModel,
    },
    results::{SummaryBulkWriteResult, VerboseBulkWriteResult},
};

fn line(number: i32) -> Document {
    doc! { "_id": number % 40, "line": number, "text": format!("line {number}") }
}

/// Inserts lines in batches. Returns the numbers of inserted lines and of duplicates.
async fn import(lines: &Collection<Document>, batch_size: usize) -> Result<(usize, usize)> {
    let all: Vec<Document> = (0..100).map(line).collect();
    let (mut inserted, mut duplicates) = (0, 0);
    for batch in all.chunks(batch_size) {
        match lines.insert_many(batch).ordered(false).await {
            Ok(result) => inserted += result.inserted_ids.len(),
            Err(error) => {
                let failed = count_duplicates(error)?;
                duplicates += failed;
                inserted += batch.len() - failed;
            }
        }
    }
    Ok((inserted, duplicates))
}

/// Returns the number of duplicate keys, or the error if it has another reason.
fn count_duplicates(error: Error) -> Result<usize> {
    if let ErrorKind::InsertMany(InsertManyError {
        write_errors: Some(writes),
        write_concern_error: None,
        ..
    }) = error.kind.as_ref()
    {
        if writes.iter().all(|write| write.code == 11000) {
            return Ok(writes.len());
        }
    }
    Err(error)
}

async fn ordered(lines: &Collection<Document>) -> Result<()> {
    let batch = [line(201), line(202), line(1), line(203)];
    let error = lines.insert_many(batch).await.unwrap_err();
    let ErrorKind::InsertMany(failed) = *error.kind else {
        return Err(error);
    };
    let writes = failed.write_errors.unwrap_or_default();
    let indexes: Vec<_> = writes.iter().map(|write| write.index).collect();
    println!("ordered: failed at {indexes:?}");
    let first = &writes[0];
    println!("{} {}", first.code, first.message.starts_with("E11000"));
    println!("{}", first.details.is_some());
    Ok(())
}

fn models(lines: &Namespace, log: &Namespace) -> Vec<WriteModel> {
    vec![
        WriteModel::InsertOne(
            InsertOneModel::builder()
                .namespace(lines.clone())
                .document(doc! { "_id": 1000, "text": "new" })
                .build(),
        ),
        UpdateOneModel::builder()
            .namespace(lines.clone())
            .filter(doc! { "_id": 1 })
            .update(doc! { "$set": { "text": "changed" } })
            .build()
            .into(),
        WriteModel::UpdateMany(
            UpdateManyModel::builder()
                .namespace(lines.clone())
                .filter(doc! { "_id": { "$lt": 3 } })
                .update(doc! { "$inc": { "line": 1 } })
                .build(),
        ),
        WriteModel::ReplaceOne(
            ReplaceOneModel::builder()
                .namespace(log.clone())
                .filter(doc! { "_id": "import" })
                .replacement(doc! { "state": "done" })
                .upsert(true)
                .build(),
        ),
        WriteModel::DeleteOne(
            DeleteOneModel::builder()
                .namespace(lines.clone())
                .filter(doc! { "_id": 39 })
                .build(),
        ),
        WriteModel::DeleteMany(
            DeleteManyModel::builder()
                .namespace(lines.clone())
                .filter(doc! { "_id": { "$gte": 36 } })
                .build(),
        ),
    ]
}

async fn bulk(
    client: &Client,
    lines: &Collection<Document>,
    log: &Collection<Document>,
) -> Result<()> {
    let models = models(&lines.namespace(), &log.namespace());
    let summary: SummaryBulkWriteResult = client.bulk_write(models.clone()).await?;
    println!(
        "{} {} {} {} {}",
        summary.inserted_count,
        summary.matched_count,
        summary.modified_count,
        summary.upserted_count,
        summary.deleted_count
    );
    lines.delete_one(doc! { "_id": 1000 }).await?;
    let verbose: VerboseBulkWriteResult = client
        .bulk_write(models)
        .verbose_results()
        .comment(Bson::String("again".to_string()))
        .await?;
    println!(
        "{} {}",
        verbose.summary.inserted_count, verbose.summary.matched_count
    );
    let mut inserts: Vec<_> = verbose.insert_results.iter().collect();
    inserts.sort_by_key(|(index, _)| **index);
    for (index, result) in inserts {
        println!("{index}: {}", result.inserted_id);
    }
    let mut updates: Vec<_> = verbose.update_results.iter().collect();
    updates.sort_by_key(|(index, _)| **index);
    for (index, result) in updates {
        println!("{index}: {} {:?}", result.matched_count, result.upserted_id);
    }
    let mut deletes: Vec<_> = verbose.delete_results.iter().collect();
    deletes.sort_by_key(|(index, _)| **index);
    for (index, result) in deletes {
        println!("{index}: {}", result.deleted_count);
    }
    Ok(())
}

async fn bulk_errors(client: &Client, lines: &Collection<Document>) -> Result<()> {
    let insert = |number: i32| lines.insert_one_model(line(number));
    let models = vec![insert(1)?, insert(38)?, insert(2)?];
    let mut options = BulkWriteOptions::default();
    options.ordered = Some(false);
    let error = client
        .bulk_write(models.clone())
        .with_options(options)
        .await
        .unwrap_err();
    let failed = match *error.kind {
        ErrorKind::BulkWrite(failed) => failed,
        _ => return Err(error),
    };
    let BulkWriteError {
        write_errors,
        write_concern_errors,
        partial_result,
        ..
    } = failed;
    let mut writes: Vec<_> = write_errors.into_iter().collect();
    writes.sort_by_key(|(index, _)| *index);
    for (index, write) in writes {
        println!("{index} {}", write.code);
    }
    println!("{}", write_concern_errors.len());
    match partial_result {
        Some(PartialBulkWriteResult::Summary(result)) => {
            println!("summary {}", result.inserted_count);
        }
        Some(PartialBulkWriteResult::Verbose(result)) => {
            println!("verbose {}", result.summary.inserted_count);
        }
        None => println!("no result"),
    }
    let error = client.bulk_write(models).ordered(true).await.unwrap_err();
    if let ErrorKind::BulkWrite(failed) = error.kind.as_ref() {
        println!(
            "{:?} {}",
            failed.write_errors.keys(),
            failed.partial_result.is_none()
        );
    }
    Ok(())
}

pub async fn run(uri: &str) -> Result<()> {
    let client = Client::with_uri_str(uri).await?;
    let db = client.database("porting_importer");
    db.drop().await?;
    let lines = db.collection::<Document>("lines");
    let log = db.collection::<Document>("log");
    let (inserted, duplicates) = import(&lines, 30).await?;
    println!("{inserted} inserted, {duplicates} duplicates");
    println!("{}", lines.count_documents(doc! {}).await?);
    ordered(&lines).await?;
    bulk(&client, &lines, &log).await?;
    bulk_errors(&client, &lines).await?;
    println!("{}", lines.count_documents(doc! {}).await?);
    println!("{:?}", log.find_one(doc! {}).await?);
    db.drop().await?;
    client.shutdown().await;
    Ok(())
}
