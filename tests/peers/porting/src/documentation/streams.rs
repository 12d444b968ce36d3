//! Change streams.

use super::*;
use crate::driver::{
    change_stream::{
        ChangeStream,
        event::{ChangeStreamEvent, OperationType},
    },
    options::{ChangeStreamOptions, FullDocumentBeforeChangeType, FullDocumentType},
};

type Changes = ChangeStream<ChangeStreamEvent<Document>>;

fn describe_change(event: &ChangeStreamEvent<Document>) -> String {
    let operation = match event.operation_type {
        OperationType::Insert => "insert",
        OperationType::Update => "update",
        OperationType::Delete => "delete",
        _ => "another change",
    };
    let place = event.ns.as_ref().map(|ns| (&ns.db, &ns.coll));
    let changed = event
        .update_description
        .as_ref()
        .map(|update| (&update.updated_fields, &update.removed_fields));
    format!(
        "{operation} in {place:?} of {:?}: {:?}, {changed:?}",
        event.document_key, event.full_document
    )
}

async fn print_changes(stream: &mut Changes, number: usize) -> Result<()> {
    for _ in 0..number {
        match stream.next().await.transpose()? {
            Some(event) => println!("{}", describe_change(&event)),
            None => println!("the stream has ended"),
        }
    }
    Ok(())
}

pub(super) async fn change_streams(client: &Client, db: &Database) -> Result<()> {
    db.create_collection("orders").await?;
    let orders = db.collection::<Document>("orders");
    let mut stream = orders
        .watch()
        .full_document(FullDocumentType::UpdateLookup)
        .full_document_before_change(FullDocumentBeforeChangeType::Off)
        .max_await_time(Duration::from_millis(20))
        .await?;
    orders.insert_one(doc! { "_id": 1, "state": "new" }).await?;
    orders
        .update_one(doc! { "_id": 1 }, doc! { "$set": { "state": "paid" } })
        .await?;
    print_changes(&mut stream, 2).await?;
    println!(
        "{} {}",
        stream.next_if_any().await?.is_none(),
        stream.is_alive()
    );
    let token = stream.resume_token().expect("the stream has read events");
    drop(stream);

    // The application has stopped, and starts again.
    orders.delete_one(doc! { "_id": 1 }).await?;
    let mut stream = orders.watch().resume_after(token).await?;
    print_changes(&mut stream, 1).await?;
    drop(stream);

    let inserts = [doc! { "$match": { "operationType": "insert" } }];
    let mut stream = db.watch().pipeline(inserts).await?;
    let options = ChangeStreamOptions::builder().batch_size(1).build();
    let mut all = client.watch().with_options(options).await?;
    orders.insert_one(doc! { "_id": 2 }).await?;
    print_changes(&mut stream, 1).await?;
    print_changes(&mut all, 1).await?;
    drop((stream, all));
    in_a_session(client, &orders).await
}

async fn in_a_session(client: &Client, orders: &Collection<Document>) -> Result<()> {
    let mut session = client.start_session().await?;
    let mut stream = orders.watch().session(&mut session).await?;
    orders
        .insert_one(doc! { "_id": 3 })
        .session(&mut session)
        .await?;
    if let Some(event) = stream.next(&mut session).await? {
        println!("{}", describe_change(&event));
    }
    println!("{}", stream.resume_token().is_some());
    Ok(())
}
