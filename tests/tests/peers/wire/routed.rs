//! The scenes `routed` and `declared` of `tests/peers/pymongo/more_calls.py`: calls behind a
//! router, which gets read preferences, and calls of a client that declares its API.

use super::calls::{Things, calls, filter, set};
use bson::{Document, doc};
use futures_util::TryStreamExt as _;
use onionskin_tokio::{
    Client, IndexModel,
    error::Result,
    options::{
        CollectionOptions, DeleteOneModel, IndexOptions, ReadMode, ReadPreference,
        SelectionCriteria,
    },
};
use std::time::Duration;

fn none() -> Document {
    doc! { "a": 77 }
}

fn up() -> IndexModel {
    let options = IndexOptions::builder().name("a_1".to_owned()).build();
    IndexModel::builder()
        .keys(filter())
        .options(options)
        .build()
}

/// Reads all documents of the cursor that a call returns.
macro_rules! all {
    ($call:expr) => {
        $call.await?.try_collect::<Vec<_>>().await?
    };
}

pub(super) async fn make(client: &Client) -> Result<()> {
    let db = client.database("app");
    let things: Things = db.collection("things");
    let reading = |preference: ReadPreference| -> Things {
        let criteria = SelectionCriteria::from(preference);
        let options = CollectionOptions::builder().selection_criteria(criteria);
        db.collection_with_options("things", options.build())
    };
    let of_mode = |mode| reading(ReadPreference::new(mode));
    let tags = |pairs: &[(&str, &str)]| {
        let pairs = pairs.iter();
        pairs
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
            .collect()
    };
    let sets = vec![tags(&[("dc", "ny"), ("rack", "1")]), tags(&[])];
    let tagged = ReadPreference::new(ReadMode::Secondary).with_tag_sets(sets)?;
    let fresh = ReadPreference::new(ReadMode::Nearest);
    let fresh = fresh.with_max_staleness(Duration::from_secs(120))?;
    let (tagged, fresh) = (reading(tagged), reading(fresh));
    let secondary = of_mode(ReadMode::Secondary);
    let preferred = of_mode(ReadMode::SecondaryPreferred);
    let primary_preferred = of_mode(ReadMode::PrimaryPreferred);
    let on_secondary = ReadPreference::new(ReadMode::Secondary);
    let delete = DeleteOneModel::builder().filter(none()).build();
    calls! { client,
        "insert_one": things.insert_many((0..5).map(|n| doc! { "_id": n })).await?;
        "find": all!(things.find(none()));
        "find on tagged members": all!(tagged.find(none()));
        "find on fresh members": all!(fresh.find(none()));
        "find on a secondary": all!(secondary.find(none()));
        "find where a secondary is preferred": all!(preferred.find(none()));
        "find where the primary is preferred": all!(primary_preferred.find(none()));
        "find in batches": all!(secondary.find(doc! {}).batch_size(2));
        "aggregate on a secondary": all!(secondary.aggregate([doc! { "$match": none() }]));
        "aggregate into a collection": all!(secondary.aggregate([doc! { "$out": "others" }]));
        "count_documents on a secondary": secondary.count_documents(none()).await?;
        "estimated count on a secondary": secondary.estimated_document_count().await?;
        "distinct on a secondary": secondary.distinct("a", none()).await?;
        "list_indexes where a secondary is preferred": all!(preferred.list_indexes());
        "update_one": secondary.update_one(none(), set()).await?;
        "find_one_and_delete": things.find_one_and_delete(none()).await?;
        "bulk_write": things.bulk_write([delete]).await?;
        "run_command on a secondary": db
            .run_command(doc! { "count": "things" })
            .read_preference(on_secondary)
            .await?;
        "list_collections": all!(db.list_collections());
        "list_databases": client.list_databases().await?;
        "create_index": things.create_index(up()).await?;
        "drop": things.drop().await?;
    }
    Ok(())
}

/// Makes calls, of which the servers refuse those that the API does not have.
pub(super) async fn declare(client: &Client) -> Result<()> {
    let db = client.database("app");
    let things: Things = db.collection("things");
    calls! { client,
        "insert_many": things.insert_many((0..5).map(|n| doc! { "_id": n })).await?;
        "find in batches": all!(things.find(doc! {}).batch_size(2));
        "aggregate": all!(things.aggregate([doc! { "$match": none() }]));
        "count_documents": things.count_documents(none()).await?;
        "estimated_document_count": things.estimated_document_count().await?;
        "distinct": drop(things.distinct("a", doc! {}).await);
        "update_one": things.update_one(none(), set()).await?;
        "find_one_and_delete": things.find_one_and_delete(none()).await?;
        "list_collections": all!(db.list_collections());
        "create_index": things.create_index(up()).await?;
        "list_indexes": all!(things.list_indexes());
        "run_command": db.run_command(doc! { "hello": 1 }).await?;
        "a transaction": {
            let mut session = client.start_session().await?;
            session.start_transaction().await?;
            things.insert_one(doc! { "_id": 91 }).session(&mut session).await?;
            things.find_one(none()).session(&mut session).await?;
            session.commit_transaction().await?;
        };
        "find and close": things.find(doc! {}).batch_size(2).await?.close().await;
        "drop": things.drop().await?;
    }
    Ok(())
}
