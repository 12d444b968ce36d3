//! The scene `calls` of `tests/peers/pymongo/calls.py`: the same calls, in the same order and with
//! the same names.

use bson::{Bson, Document, doc};
use futures_util::TryStreamExt as _;
use onionskin_tokio::{
    Client, ClientSession, Collection, Database, IndexModel, Namespace,
    error::Result,
    options::{
        Acknowledgment, Collation, CollationStrength, CollectionOptions, CursorType,
        DeleteManyModel, DeleteOneModel, FullDocumentBeforeChangeType, FullDocumentType, Hint,
        IndexOptions, InsertOneModel, ReadConcern, ReadMode, ReadPreference, ReplaceOneModel,
        ReturnDocument, UpdateManyModel, UpdateOneModel, ValidationAction, ValidationLevel,
        WriteConcern, WriteModel,
    },
};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(5);

pub(super) type Things = Collection<Document>;

/// Tells the name of the next call, and makes it.
macro_rules! calls {
    ($client:ident, $($name:literal: $call:expr;)+) => {
        $(
            let ping = doc! { "ping": 1, "comment": $name };
            $client.database("admin").run_command(ping).await?;
            $call;
        )+
    };
}

pub(super) use calls;

pub(super) async fn make(client: &Client) -> Result<()> {
    let db = client.database("app");
    let things: Things = db.collection("things");
    writes(client, &things).await?;
    indexes(client, &things).await?;
    finds(client, &db, &things).await?;
    summaries(client, &db, &things).await?;
    changes(client, &things).await?;
    bulk(client, &things).await?;
    collections(client, &db).await?;
    sessions(client, &db, &things).await
}

pub(super) fn filter() -> Document {
    doc! { "a": 1 }
}

pub(super) fn set() -> Document {
    doc! { "$set": { "b": 2 } }
}

pub(super) fn variables() -> Document {
    doc! { "x": 1 }
}

pub(super) fn by_name() -> Hint {
    Hint::Name("a_1".to_owned())
}

pub(super) fn collation() -> Collation {
    let english = Collation::builder().locale("en");
    english.strength(CollationStrength::Secondary).build()
}

/// Returns the collection with the concerns of a majority.
fn majority(db: &Database) -> Things {
    let concern = WriteConcern::builder().w(Acknowledgment::Majority);
    let concern = concern.w_timeout(Duration::from_millis(500)).build();
    let options = CollectionOptions::builder().write_concern(concern);
    let options = options.read_concern(ReadConcern::majority()).build();
    db.collection_with_options("things", options)
}

async fn writes(client: &Client, things: &Things) -> Result<()> {
    let numbered = (3..6).map(|n| doc! { "_id": n, "a": n });
    let majority = majority(&client.database("app"));
    calls! { client,
        "insert_one": things.insert_one(doc! { "_id": 1, "a": 1 }).await?;
        "insert_one with options": things
            .insert_one(doc! { "_id": 2 })
            .bypass_document_validation(true)
            .comment(Bson::from("c"))
            .await?;
        "insert_many": things.insert_many(numbered).await?;
        "insert_many unordered": things.insert_many([doc! { "_id": 6 }]).ordered(false).await?;
        "insert with a concern": majority.insert_one(doc! { "_id": 7 }).await?;
    }
    Ok(())
}

async fn indexes(client: &Client, things: &Things) -> Result<()> {
    let index = |keys: Document, options: IndexOptions| {
        IndexModel::builder().keys(keys).options(options).build()
    };
    let named = |name: &str| IndexOptions::builder().name(name.to_owned());
    let own = named("own").sparse(true).hidden(true);
    let part = named("d_1").unique(true).collation(collation());
    let part = part.partial_filter_expression(doc! { "d": { "$gt": 1 } });
    calls! { client,
        "create_index": things.create_index(index(filter(), named("a_1").build())).await?;
        "create_index with options": things
            .create_index(index(doc! { "b": -1, "c": 1 }, own.build()))
            .comment(Bson::from("c"))
            .await?;
        "create_indexes": things
            .create_indexes([index(doc! { "d": 1 }, part.build())])
            .await?;
        "list_indexes": drop(
            things.list_indexes().comment(Bson::from("c")).await?.try_collect::<Vec<_>>().await?
        );
        "drop_index": things.drop_index("own").await?;
    }
    Ok(())
}

async fn finds(client: &Client, db: &Database, things: &Things) -> Result<()> {
    let all = |cursor: onionskin_tokio::Cursor<Document>| cursor.try_collect::<Vec<_>>();
    let comment = || Bson::from("c");
    let secondary = ReadPreference::new(ReadMode::SecondaryPreferred);
    let majority = majority(db);
    calls! { client,
        "find": all(things.find(filter()).await?).await?;
        "find with shape": all(
            things
                .find(filter())
                .projection(doc! { "a": 1 })
                .sort(filter())
                .skip(1)
                .limit(5)
                .batch_size(2)
                .await?
        )
        .await?;
        "find with options": all(
            things
                .find(filter())
                .collation(collation())
                .comment(comment())
                .let_vars(variables())
                .allow_disk_use(true)
                .no_cursor_timeout(true)
                .max_time(LIMIT)
                .hint(Hint::Name("_id_".to_owned()))
                .await?
        )
        .await?;
        "find with bounds": all(
            things
                .find(doc! {})
                .hint(Hint::Keys(filter()))
                .min(doc! { "a": 0 })
                .max(doc! { "a": 9 })
                .return_key(true)
                .await?
        )
        .await?;
        "find with places": all(things.find(doc! {}).show_record_id(true).limit(2).await?).await?;
        "find in batches": all(things.find(doc! {}).batch_size(2).comment(comment()).await?)
            .await?;
        "find and close": things.find(doc! {}).batch_size(2).await?.close().await;
        "find_one": things.find_one(filter()).await?;
        "find_one with options": things
            .find_one(filter())
            .sort(filter())
            .skip(1)
            .comment(comment())
            .await?;
        "find with a concern": all(majority.find(filter()).await?).await?;
        "find on a secondary": all(things.find(filter()).read_preference(secondary).await?).await?;
    }
    Ok(())
}

async fn summaries(client: &Client, db: &Database, things: &Things) -> Result<()> {
    let all = |cursor: onionskin_tokio::Cursor<Document>| cursor.try_collect::<Vec<_>>();
    let comment = || Bson::from("c");
    let majority = majority(db);
    calls! { client,
        "aggregate": all(things.aggregate([doc! { "$match": filter() }]).await?).await?;
        "aggregate with options": all(
            things
                .aggregate([doc! { "$match": filter() }])
                .allow_disk_use(true)
                .batch_size(3)
                .hint(Hint::Keys(filter()))
                .let_vars(variables())
                .comment(comment())
                .collation(collation())
                .max_time(LIMIT)
                .await?
        )
        .await?;
        "aggregate to a collection": all(
            majority.aggregate([doc! { "$out": "copies" }]).await?
        )
        .await?;
        "aggregate on a database": all(
            db.aggregate([doc! { "$documents": [{ "a": 1 }] }]).await?
        )
        .await?;
        "count_documents": things.count_documents(filter()).await?;
        "count_documents with options": things
            .count_documents(filter())
            .skip(1)
            .limit(2)
            .hint(by_name())
            .collation(collation())
            .comment(comment())
            .await?;
        "estimated_document_count": things.estimated_document_count().comment(comment()).await?;
        "distinct": things.distinct("a", doc! {}).await?;
        "distinct with options": things
            .distinct("a", filter())
            .collation(collation())
            .comment(comment())
            .hint(by_name())
            .await?;
    }
    Ok(())
}

async fn changes(client: &Client, things: &Things) -> Result<()> {
    let comment = || Bson::from("c");
    calls! { client,
        "update_one": things.update_one(filter(), set()).await?;
        "update_one with options": things
            .update_one(doc! { "a": 77 }, doc! { "$set": { "l.$[e]": 1 } })
            .array_filters([doc! { "e": 1 }])
            .hint(by_name())
            .collation(collation())
            .let_vars(variables())
            .comment(comment())
            .sort(filter())
            .bypass_document_validation(true)
            .await?;
        "update_one with a pipeline": things.update_one(filter(), vec![set()]).upsert(true).await?;
        "update_many": things.update_many(filter(), set()).await?;
        "update_many with an upsert": things
            .update_many(doc! { "_id": 20 }, set())
            .upsert(true)
            .await?;
        "replace_one": things.replace_one(doc! { "_id": 1 }, filter()).await?;
        "replace_one with options": things
            .replace_one(doc! { "_id": 21 }, filter())
            .upsert(true)
            .hint(Hint::Name("_id_".to_owned()))
            .comment(comment())
            .let_vars(variables())
            .await?;
        "delete_one": things.delete_one(doc! { "_id": 20 }).await?;
        "delete_many with options": things
            .delete_many(doc! { "a": 77 })
            .hint(by_name())
            .collation(collation())
            .comment(comment())
            .let_vars(variables())
            .await?;
        "find_one_and_update": things.find_one_and_update(filter(), set()).await?;
        "find_one_and_update with options": things
            .find_one_and_update(filter(), set())
            .projection(filter())
            .sort(filter())
            .upsert(true)
            .return_document(ReturnDocument::After)
            .hint(by_name())
            .let_vars(variables())
            .comment(comment())
            .await?;
        "find_one_and_replace": things
            .find_one_and_replace(doc! { "_id": 21 }, doc! { "a": 2 })
            .await?;
        "find_one_and_delete": things
            .find_one_and_delete(doc! { "_id": 21 })
            .sort(filter())
            .await?;
    }
    Ok(())
}

fn models() -> [WriteModel; 6] {
    let id = || doc! { "_id": 30 };
    let update = UpdateOneModel::builder().filter(id()).update(set());
    let many = UpdateManyModel::builder().filter(filter()).update(set());
    let replace = ReplaceOneModel::builder().filter(id());
    let deleted = DeleteManyModel::builder().filter(doc! { "a": 77 });
    [
        InsertOneModel::builder().document(id()).build().into(),
        update.upsert(true).build().into(),
        many.hint(Bson::from("a_1")).build().into(),
        replace.replacement(doc! { "a": 3 }).build().into(),
        DeleteOneModel::builder().filter(id()).build().into(),
        deleted
            .collation(doc! { "locale": "en", "strength": 2 })
            .build()
            .into(),
    ]
}

fn models_of_a_client() -> [WriteModel; 4] {
    let place = |name: &str| Namespace::new("app", name);
    let id = || doc! { "_id": 31 };
    let insert = InsertOneModel::builder().namespace(place("things"));
    let update = UpdateOneModel::builder().namespace(place("things"));
    let replace = ReplaceOneModel::builder().namespace(place("others"));
    let delete = DeleteManyModel::builder().namespace(place("things"));
    [
        insert.document(id()).build().into(),
        update
            .filter(id())
            .update(set())
            .upsert(true)
            .build()
            .into(),
        replace
            .filter(id())
            .replacement(doc! { "a": 3 })
            .build()
            .into(),
        delete
            .filter(doc! { "a": 77 })
            .collation(doc! { "locale": "en", "strength": 2 })
            .build()
            .into(),
    ]
}

async fn bulk(client: &Client, things: &Things) -> Result<()> {
    calls! { client,
        "bulk_write of a collection": things
            .bulk_write(models())
            .comment(Bson::from("c"))
            .let_vars(variables())
            .await?;
        "bulk_write of a client": client
            .bulk_write(models_of_a_client())
            .comment(Bson::from("c"))
            .verbose_results()
            .await?;
        "unacknowledged": things
            .insert_one(doc! { "_id": 40 })
            .write_concern(WriteConcern::nodes(0))
            .await?;
    }
    Ok(())
}

async fn collections(client: &Client, db: &Database) -> Result<()> {
    let plain: Things = db.collection("plain");
    let renamed: Things = db.collection("renamed");
    let comment = || Bson::from("c");
    calls! { client,
        "create_collection": db.create_collection("plain").await?;
        "create_collection with options": db
            .create_collection("small")
            .capped(true)
            .size(4096)
            .max(10)
            .validator(filter())
            .validation_level(ValidationLevel::Moderate)
            .validation_action(ValidationAction::Warn)
            .collation(collation())
            .comment(comment())
            .await?;
        "tailable": tail(&db.collection("small")).await?;
        "rename": plain.rename("renamed").drop_target(true).await?;
        "drop": renamed.drop().comment(comment()).await?;
        "list_collections": drop(
            db.list_collections().filter(doc! { "name": "small" }).await?
                .try_collect::<Vec<_>>()
                .await?
        );
        "list_collection_names": db.list_collection_names().await?;
        "list_databases": client.list_databases().comment(comment()).await?;
        "list_database_names": client.list_database_names().await?;
        "run_command": db.run_command(doc! { "count": "things", "query": filter() }).await?;
        "run_command on a secondary": db
            .run_command(doc! { "count": "things" })
            .read_preference(ReadPreference::new(ReadMode::Secondary))
            .await?;
    }
    Ok(())
}

/// Reads from a tailable cursor until it waits once in vain.
async fn tail(small: &Things) -> Result<()> {
    small.insert_one(doc! { "_id": 1, "a": 1 }).await?;
    let find = small.find(doc! {}).cursor_type(CursorType::TailableAwait);
    let mut cursor = find.max_await_time(Duration::from_millis(20)).await?;
    assert!(cursor.advance().await?);
    assert!(cursor.next_if_any().await?.is_none());
    cursor.close().await;
    Ok(())
}

async fn sessions(client: &Client, db: &Database, things: &Things) -> Result<()> {
    let comment = || Bson::from("c");
    calls! { client,
        "in a session": {
            let mut session = client.start_session().await?;
            things.find_one(filter()).session(&mut session).await?
        };
        "commit": {
            let mut session = begun(client, things, "commit_transaction").await?;
            session.commit_transaction().await?
        };
        "abort": {
            let mut session = begun(client, things, "abort_transaction").await?;
            session.abort_transaction().await?
        };
        "watch a collection": things.watch().await?.close().await;
        "watch with options": things
            .watch()
            .pipeline([doc! { "$match": filter() }])
            .full_document(FullDocumentType::UpdateLookup)
            .full_document_before_change(FullDocumentBeforeChangeType::WhenAvailable)
            .batch_size(3)
            .collation(collation())
            .show_expanded_events(true)
            .comment(comment())
            .await?
            .close()
            .await;
        "watch a database": db.watch().await?.close().await;
        "watch a client": client.watch().await?.close().await;
        "drop a database": db.drop().await?;
    }
    Ok(())
}

/// Starts a transaction that writes and reads.
async fn begun(client: &Client, things: &Things, id: &str) -> Result<ClientSession> {
    let mut session = client.start_session().await?;
    let transaction = session
        .start_transaction()
        .read_concern(ReadConcern::snapshot());
    transaction.write_concern(WriteConcern::majority()).await?;
    things
        .insert_one(doc! { "_id": id })
        .session(&mut session)
        .await?;
    let mut found = things.find(filter()).session(&mut session).await?;
    while found.advance(&mut session).await? {}
    Ok(session)
}
