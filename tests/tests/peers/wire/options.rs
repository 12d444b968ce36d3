//! The scene `options` of `tests/peers/pymongo/more_calls.py`: calls with options that the scene
//! `calls` does not have.

use super::{
    bulk,
    calls::{Things, by_name, calls, collation, filter, set, variables},
};
use bson::{Bson, Document, Timestamp, doc};
use futures_util::TryStreamExt as _;
use onionskin_tokio::{
    Client, Collection, Database, IndexModel, SearchIndexModel,
    error::Result,
    options::{
        Acknowledgment, ChangeStreamPreAndPostImages, ClusteredIndex, Collation,
        CollationAlternate, CollationCaseFirst, CollationMaxVariable, CollationStrength,
        CollectionOptions, CommitQuorum, CursorType, DeleteOneModel, FullDocumentType, Hint,
        IndexOptionDefaults, IndexOptions, IndexVersion, ReadConcern, ReturnDocument,
        SearchIndexType, Sphere2DIndexVersion, TextIndexVersion, TimeseriesGranularity,
        TimeseriesOptions, TransactionOptions, WriteConcern,
    },
};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(5);
const MINUTE: Duration = Duration::from_secs(60);

pub(super) async fn make(client: &Client) -> Result<()> {
    let db = client.database("app");
    let things: Things = db.collection("things");
    writes(client, &things).await?;
    finds_and_changes(client, &things).await?;
    reads(client, &db, &things).await?;
    lists(client, &db).await?;
    bulk::bulk_writes(client, &things).await?;
    bulk::unacknowledged(client, &db).await?;
    indexes(client, &things).await?;
    search_indexes(client, &things).await?;
    names(client, &db).await?;
    streams(client, &things).await?;
    sessions(client, &things).await
}

pub(super) fn none() -> Document {
    doc! { "a": 77 }
}

pub(super) fn items() -> Document {
    doc! { "$set": { "l.$[e]": 1 } }
}

pub(super) fn filters() -> [Document; 1] {
    [doc! { "e": 1 }]
}

fn comment() -> Bson {
    Bson::from("c")
}

/// Returns all documents of the cursor that a call returns.
pub(super) async fn all<T: serde::de::DeserializeOwned + Unpin + 'static>(
    call: impl IntoFuture<Output = Result<onionskin_tokio::Cursor<T>>>,
) -> Result<Vec<T>> {
    call.await?.try_collect().await
}

async fn writes(client: &Client, things: &Things) -> Result<()> {
    let up = IndexOptions::builder().name("a_1".to_owned()).build();
    let up = IndexModel::builder().keys(filter()).options(up).build();
    calls! { client,
        "an index for hints": things.create_index(up).await?;
        "insert_many with options": things
            .insert_many([doc! { "_id": 1 }, doc! { "_id": 2 }])
            .bypass_document_validation(true)
            .comment(comment())
            .await?;
        "update_many with options": things
            .update_many(none(), items())
            .array_filters(filters())
            .bypass_document_validation(true)
            .collation(collation())
            .hint(by_name())
            .let_vars(variables())
            .comment(comment())
            .await?;
        "replace_one with more options": things
            .replace_one(none(), filter())
            .bypass_document_validation(true)
            .collation(collation())
            .sort(filter())
            .await?;
        "delete_one with options": things
            .delete_one(none())
            .collation(collation())
            .hint(Hint::Keys(filter()))
            .let_vars(variables())
            .comment(comment())
            .await?;
    }
    Ok(())
}

async fn finds_and_changes(client: &Client, things: &Things) -> Result<()> {
    let one = CollectionOptions::builder().write_concern(WriteConcern::nodes(1));
    let db = client.database("app");
    let one: Things = db.collection_with_options("things", one.build());
    let durable = WriteConcern::builder().journal(true).build();
    let durable = CollectionOptions::builder().write_concern(durable);
    let durable: Things = db.collection_with_options("things", durable.build());
    calls! { client,
        "find_one_and_update with more options": things
            .find_one_and_update(none(), items())
            .array_filters(filters())
            .collation(collation())
            .max_time(LIMIT)
            .bypass_document_validation(true)
            .await?;
        "find_one_and_replace with options": things
            .find_one_and_replace(none(), doc! { "a": 2 })
            .projection(filter())
            .sort(filter())
            .upsert(true)
            .return_document(ReturnDocument::After)
            .hint(by_name())
            .let_vars(variables())
            .comment(comment())
            .collation(collation())
            .max_time(LIMIT)
            .bypass_document_validation(true)
            .await?;
        "find_one_and_delete with options": things
            .find_one_and_delete(none())
            .projection(filter())
            .hint(by_name())
            .let_vars(variables())
            .comment(comment())
            .collation(collation())
            .max_time(LIMIT)
            .await?;
        "delete_one with a journal": durable.delete_one(none()).await?;
        "find_one_and_delete with a concern": one.find_one_and_delete(none()).await?;
    }
    Ok(())
}

async fn reads(client: &Client, db: &Database, things: &Things) -> Result<()> {
    let local = CollectionOptions::builder().read_concern(ReadConcern::local());
    let local: Things = db.collection_with_options("things", local.build());
    let whole = Collation::builder()
        .locale("en")
        .case_level(true)
        .case_first(CollationCaseFirst::Upper)
        .strength(CollationStrength::Tertiary)
        .numeric_ordering(true)
        .alternate(CollationAlternate::Shifted)
        .max_variable(CollationMaxVariable::Punct)
        .normalization(true)
        .backwards(false)
        .build();
    let merge = doc! { "$merge": { "into": "others" } };
    calls! { client,
        "find with a whole collation": all(things.find(none()).collation(whole)).await?;
        "find with partial results": all(things.find(doc! {}).allow_partial_results(true)).await?;
        "find a negative number": all(things.find(doc! {}).limit(-2)).await?;
        "find with an exact batch": all(things.find(doc! {}).limit(2).batch_size(2)).await?;
        "find_one with more options": things
            .find_one(none())
            .projection(filter())
            .collation(collation())
            .hint(Hint::Keys(filter()))
            .max(doc! { "a": 9 })
            .min(doc! { "a": 0 })
            .return_key(true)
            .show_record_id(true)
            .let_vars(variables())
            .max_time(LIMIT)
            .allow_partial_results(true)
            .await?;
        "find with the level local": all(local.find(none())).await?;
        "count_documents in time": things.count_documents(none()).max_time(LIMIT).await?;
        "count_documents locally": local.count_documents(none()).await?;
        "estimated_document_count in time": things
            .estimated_document_count()
            .max_time(Duration::from_millis(5))
            .await?;
        "distinct in time": things.distinct("a", none()).max_time(LIMIT).await?;
        "distinct locally": local.distinct("a", none()).await?;
        "aggregate into another collection": all(
            things
                .aggregate([doc! { "$match": none() }, merge])
                .bypass_document_validation(true)
                .batch_size(3)
        )
        .await?;
        "aggregate without a first batch": all(things.aggregate([]).batch_size(0)).await?;
        "aggregate on a database with options": all(
            db.aggregate([doc! { "$documents": [{ "a": 1 }] }])
                .comment(comment())
                .let_vars(variables())
                .max_time(LIMIT)
        )
        .await?;
    }
    Ok(())
}

async fn lists(client: &Client, db: &Database) -> Result<()> {
    calls! { client,
        "run_cursor_command": all(
            db.run_cursor_command(doc! { "find": "things", "batchSize": 1 }).comment(comment())
        )
        .await?;
        "run_cursor_command of another command": all(
            db.run_cursor_command(doc! { "listCollections": 1, "nameOnly": true })
        )
        .await?;
        "list_collection_names with a filter": db.list_collection_names().filter(none()).await?;
        "list_collections with options": all(
            db.list_collections().comment(comment()).authorized_collections(true)
        )
        .await?;
    }
    Ok(())
}

async fn indexes(client: &Client, things: &Things) -> Result<()> {
    let one = |keys: Document, options: IndexOptions| {
        things.create_index(IndexModel::builder().keys(keys).options(options).build())
    };
    let named = |name: &str| IndexOptions::builder().name(name.to_owned());
    let pair = IndexModel::builder().keys(doc! { "m": 1, "n": -1 });
    let single = IndexModel::builder().keys(doc! { "o": 1 });
    let both = [
        pair.options(named("m_n").build()).build(),
        single.options(named("o_1").build()).build(),
    ];
    let words = named("words")
        .weights(doc! { "text": 2 })
        .default_language("german".to_owned())
        .language_override("language".to_owned())
        .text_index_version(TextIndexVersion::V3);
    let stored = named("v_1")
        .version(IndexVersion::V2)
        .background(true)
        .storage_engine(doc! { "wiredTiger": {} });
    let sphere = named("sphere").sphere_2d_index_version(Sphere2DIndexVersion::V3);
    calls! { client,
        "an index that expires": one(doc! { "t": 1 }, named("t_1").expire_after(MINUTE).build())
            .await?;
        "an index of texts": one(doc! { "text": "text" }, words.build()).await?;
        "an index of a plane": one(
            doc! { "p": "2d" },
            named("plane").bits(20).min(-9.5).max(9.5).build()
        )
        .await?;
        "an index of a sphere": one(doc! { "s": "2dsphere" }, sphere.build()).await?;
        "an index of all fields": one(
            doc! { "$**": 1 },
            named("all").wildcard_projection(filter()).build()
        )
        .await?;
        "an index with storage": one(doc! { "v": 1 }, stored.build()).await?;
        "create_indexes with options": things
            .create_indexes(both)
            .commit_quorum(CommitQuorum::Majority)
            .max_time(LIMIT)
            .comment(comment())
            .await?;
        "an index without a name": one(doc! { "q": 1, "r": -1 }, IndexOptions::default()).await?;
        "drop_index with options": things
            .drop_index("m_n")
            .comment(comment())
            .max_time(LIMIT)
            .await?;
        "drop_indexes": things.drop_indexes().comment(comment()).await?;
    }
    Ok(())
}

/// Makes the calls for search indexes, which only Atlas has. The servers refuse all of them.
async fn search_indexes(client: &Client, things: &Things) -> Result<()> {
    let definition = || doc! { "mappings": { "dynamic": true } };
    let model = || SearchIndexModel::builder().definition(definition());
    let vectors = model()
        .name("s".to_owned())
        .index_type(SearchIndexType::VectorSearch);
    let two = [model().build(), model().name("t".to_owned()).build()];
    calls! { client,
        "create_search_index": drop(things.create_search_index(vectors.build()).await);
        "create_search_indexes": drop(things.create_search_indexes(two).await);
        "update_search_index": drop(things.update_search_index("s", definition()).await);
        "drop_search_index": drop(things.drop_search_index("s").await);
        "list_search_indexes": drop(things.list_search_indexes().await);
        "list_search_indexes by name": drop(things.list_search_indexes().name("s").await);
    }
    Ok(())
}

async fn names(client: &Client, db: &Database) -> Result<()> {
    let series = TimeseriesOptions::builder().time_field("t");
    let series = series
        .meta_field("m".to_owned())
        .granularity(TimeseriesGranularity::Minutes);
    let buckets = TimeseriesOptions::builder().time_field("t");
    let buckets = buckets.bucket_max_span(MINUTE).bucket_rounding(MINUTE);
    let images = ChangeStreamPreAndPostImages::builder()
        .enabled(true)
        .build();
    let engine = || doc! { "wiredTiger": {} };
    let defaults = IndexOptionDefaults::builder()
        .storage_engine(engine())
        .build();
    let stored: Things = db.collection("stored");
    let majority = CollectionOptions::builder().write_concern(WriteConcern::majority());
    let kept: Things = db.collection_with_options("kept", majority.build());
    calls! { client,
        "a clustered collection": db
            .create_collection("clustered")
            .clustered_index(ClusteredIndex::default())
            .expire_after_seconds(MINUTE)
            .await?;
        "a time series": db
            .create_collection("series")
            .timeseries(series.build())
            .expire_after_seconds(MINUTE)
            .await?;
        "a time series with buckets": db
            .create_collection("buckets")
            .timeseries(buckets.build())
            .await?;
        "a view": db
            .create_collection("view")
            .view_on("things")
            .pipeline([doc! { "$match": none() }])
            .await?;
        "images of changes": db
            .create_collection("images")
            .change_stream_pre_and_post_images(images)
            .await?;
        "a collection with storage": db
            .create_collection("stored")
            .storage_engine(engine())
            .index_option_defaults(defaults)
            .await?;
        "create_collection with a concern": db
            .create_collection("durable")
            .write_concern(WriteConcern::majority())
            .await?;
        "rename with a comment": stored.rename("kept").comment(comment()).await?;
        "drop with a concern": kept.drop().await?;
        "list_databases with options": client
            .list_databases()
            .filter(doc! { "name": "app" })
            .authorized_databases(true)
            .await?;
        "list_database_names with a comment": client
            .list_database_names()
            .comment(comment())
            .await?;
        "drop_database with a comment": client.database("gone").drop().comment(comment()).await?;
    }
    Ok(())
}

async fn streams(client: &Client, things: &Things) -> Result<()> {
    let time = Timestamp {
        time: 1,
        increment: 1,
    };
    let required = FullDocumentType::Required;
    calls! { client,
        "watch and read": token(things, 41).await?;
        "watch after a token": {
            let token = token(things, 42).await?;
            things.watch().resume_after(token).await?.close().await
        };
        "watch from a token on": {
            let token = token(things, 43).await?;
            things.watch().start_after(token).await?.close().await
        };
        "watch from a time on": things.watch().start_at_operation_time(time).await?.close().await;
        "watch with images": things.watch().full_document(required).await?.close().await;
        "watch and wait": {
            let watch = things.watch().max_await_time(Duration::from_millis(20));
            let mut stream = watch.await?;
            assert!(stream.next_if_any().await?.is_none());
            stream.close().await
        };
        "a tailable cursor": {
            let db = client.database("app");
            db.create_collection("small").capped(true).size(4096).await?;
            let small: Collection<Document> = db.collection("small");
            small.insert_one(doc! { "_id": 1 }).await?;
            let mut cursor = small.find(doc! {}).cursor_type(CursorType::Tailable).await?;
            assert!(cursor.advance().await?);
            cursor.close().await
        };
    }
    Ok(())
}

/// Returns the token of the event of an insert.
async fn token(
    things: &Things,
    number: i32,
) -> Result<onionskin_tokio::change_stream::event::ResumeToken> {
    let mut stream = things.watch().await?;
    things.insert_one(doc! { "_id": number }).await?;
    assert!(stream.try_next().await?.is_some());
    let token = stream.resume_token().expect("the stream has read an event");
    stream.close().await;
    Ok(token)
}

async fn sessions(client: &Client, things: &Things) -> Result<()> {
    let options = TransactionOptions::builder()
        .read_concern(ReadConcern::majority())
        .write_concern(
            WriteConcern::builder()
                .w(Acknowledgment::Majority)
                .w_timeout(Duration::from_millis(500))
                .build(),
        )
        .max_commit_time(LIMIT)
        .build();
    let delete = || DeleteOneModel::builder().filter(none()).build();
    calls! { client,
        "a causal session": {
            let mut session = client.start_session().await?;
            things.insert_one(doc! { "_id": 51 }).session(&mut session).await?;
            things.find_one(none()).session(&mut session).await?;
            things.count_documents(none()).session(&mut session).await?;
            things.distinct("a", none()).session(&mut session).await?;
            things.update_one(none(), set()).session(&mut session).await?;
            let mut found = things.aggregate([]).session(&mut session).await?;
            while found.advance(&mut session).await? {}
        };
        "a session without order": {
            let mut session = client.start_session().causal_consistency(false).await?;
            things.insert_one(doc! { "_id": 52 }).session(&mut session).await?;
            things.find_one(none()).session(&mut session).await?;
        };
        "a snapshot": {
            let mut session = client.start_session().snapshot(true).await?;
            things.find_one(none()).session(&mut session).await?;
            let mut found = things.aggregate([]).session(&mut session).await?;
            while found.advance(&mut session).await? {}
            things.distinct("a", doc! {}).session(&mut session).await?;
        };
        "a transaction with defaults": {
            let start = client.start_session().default_transaction_options(options);
            let mut session = start.await?;
            session.start_transaction().await?;
            things.update_many(none(), set()).session(&mut session).await?;
            things.find_one_and_delete(none()).session(&mut session).await?;
            things.bulk_write([delete()]).session(&mut session).await?;
            let distinct = doc! { "distinct": "things", "key": "a" };
            client.database("app").run_command(distinct).session(&mut session).await?;
            session.commit_transaction().await?;
            session.commit_transaction().await?;
        };
        "a transaction without operations": {
            let mut session = client.start_session().await?;
            session.start_transaction().await?;
            session.commit_transaction().await?;
        };
    }
    Ok(())
}
