//! The scene `own` of `tests/peers/pymongo/own_options.py`: calls that set a write concern, a read
//! concern or a read preference of their own.

use super::{
    calls::{Things, calls, filter, set},
    options::{all, none},
};
use bson::{Document, doc};
use onionskin_tokio::{
    Client, Database, IndexModel,
    error::Result,
    options::{
        CursorType, DeleteOneModel, IndexOptions, ReadConcern, ReadMode, ReadPreference,
        ReturnDocument, SelectionCriteria, WriteConcern,
    },
};
use std::time::Duration;

/// Makes calls with the write concern of a majority.
macro_rules! durable_calls {
    ($client:ident, $($name:literal: $call:expr;)+) => {
        calls! { $client, $($name: $call.write_concern(WriteConcern::majority()).await?;)+ }
    };
}

/// Sets the read concern of a majority, and that a secondary is preferred.
macro_rules! with_own_options {
    ($call:expr) => {
        $call
            .read_concern(ReadConcern::majority())
            .selection_criteria(criteria(ReadMode::SecondaryPreferred))
    };
}

pub(super) async fn make(client: &Client) -> Result<()> {
    let db = client.database("app");
    let things: Things = db.collection("things");
    writes(client, &things).await?;
    indexes(client, &things).await?;
    names(client, &db, &things).await?;
    reads(client, &db, &things).await?;
    cursor_commands(client, &db).await?;
    durable_calls! { client,
        "drop_database with a concern": db.drop().comment("c");
    }
    Ok(())
}

fn criteria(mode: ReadMode) -> SelectionCriteria {
    SelectionCriteria::ReadPreference(ReadPreference::new(mode))
}

async fn writes(client: &Client, things: &Things) -> Result<()> {
    let replacement = || doc! { "a": 1 };
    let delete = DeleteOneModel::builder().filter(none()).build();
    durable_calls! { client,
        "insert_one with a concern": things.insert_one(doc! { "_id": 1 });
        "insert_many with a concern": things.insert_many([doc! { "_id": 2 }, doc! { "_id": 3 }]);
        "update_one with a concern": things.update_one(none(), set());
        "update_many with a concern": things.update_many(none(), set());
        "replace_one with a concern": things.replace_one(none(), replacement());
        "delete_one with a concern": things.delete_one(none());
        "delete_many with a concern": things.delete_many(none());
        "find_one_and_update with a concern": things.find_one_and_update(none(), set());
        "find_one_and_replace with a concern": things
            .find_one_and_replace(none(), replacement())
            .upsert(true)
            .return_document(ReturnDocument::After);
        "find_one_and_delete with a concern": things.find_one_and_delete(none());
        "bulk_write with a concern": things.bulk_write([delete]);
    }
    Ok(())
}

async fn indexes(client: &Client, things: &Things) -> Result<()> {
    let index = |keys: Document, name: &str| {
        let options = IndexOptions::builder().name(name.to_owned()).build();
        IndexModel::builder().keys(keys).options(options).build()
    };
    durable_calls! { client,
        "create_index with a concern": things.create_index(index(filter(), "a_1"));
        "create_indexes with a concern": things.create_indexes([index(doc! { "b": 1 }, "b_1")]);
        "drop_index with a concern": things.drop_index("b_1");
        "drop_indexes with a concern": things.drop_indexes();
    }
    Ok(())
}

async fn names(client: &Client, db: &Database, things: &Things) -> Result<()> {
    let copies: Things = db.collection("copies");
    let renamed: Things = db.collection("renamed");
    let documents = doc! { "$documents": [{ "a": 1 }] };
    calls! { client,
        "aggregate with both concerns": all(
            things
                .aggregate([doc! { "$out": "copies" }])
                .read_concern(ReadConcern::majority())
                .write_concern(WriteConcern::majority())
        )
        .await?;
        "aggregate a database with a concern": all(
            db.aggregate([documents, doc! { "$out": "more" }])
                .write_concern(WriteConcern::majority())
        )
        .await?;
    }
    durable_calls! { client,
        "rename with a concern": copies.rename("renamed");
        "drop with a concern": renamed.drop();
    }
    Ok(())
}

async fn reads(client: &Client, db: &Database, things: &Things) -> Result<()> {
    let documents = doc! { "$documents": [{ "a": 1 }] };
    calls! { client,
        "find with own options": all(with_own_options!(things.find(doc! {}).batch_size(2))).await?;
        "find_one with own options": with_own_options!(things.find_one(none())).await?;
        "aggregate with own options": all(
            with_own_options!(things.aggregate([doc! { "$match": none() }]))
        )
        .await?;
        "aggregate a database with own options": all(
            with_own_options!(db.aggregate([documents]))
        )
        .await?;
        "count_documents with own options": with_own_options!(things.count_documents(none()))
            .await?;
        "estimated_document_count with own options":
            with_own_options!(things.estimated_document_count()).await?;
        "distinct with own options": with_own_options!(things.distinct("a", none())).await?;
        "watch with own options": with_own_options!(things.watch()).await?.close().await;
        "watch a database with own options": with_own_options!(db.watch()).await?.close().await;
    }
    Ok(())
}

async fn cursor_commands(client: &Client, db: &Database) -> Result<()> {
    let small: Things = db.collection("small");
    calls! { client,
        "run_cursor_command in batches": all(
            db.run_cursor_command(doc! { "find": "things", "batchSize": 1 })
                .batch_size(2)
                .selection_criteria(criteria(ReadMode::Secondary))
        )
        .await?;
        "a capped collection": db
            .run_command(doc! { "create": "small", "capped": true, "size": 4096 })
            .await?;
        "a document to tail": small.insert_one(doc! { "_id": 1 }).await?;
        "run_cursor_command that waits": tail(db).await?;
    }
    Ok(())
}

/// Reads from a cursor that waits for documents until it waits once in vain.
async fn tail(db: &Database) -> Result<()> {
    let find = doc! { "find": "small", "tailable": true, "awaitData": true, "batchSize": 1 };
    let find = db
        .run_cursor_command(find)
        .cursor_type(CursorType::TailableAwait);
    let mut cursor = find.max_time(Duration::from_millis(20)).await?;
    assert!(cursor.advance().await?);
    assert!(cursor.next_if_any().await?.is_none());
    cursor.close().await;
    Ok(())
}
