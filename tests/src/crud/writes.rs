//! Tests of inserts, updates and deletes.

use super::Bench;
use bson::{Bson, Document, doc, oid::ObjectId};
use onionskin::{Error, Runtime};

/// The server's code for a duplicate key.
const DUPLICATE_KEY: i32 = 11000;

/// The size of a text that takes several reads of a socket and fits into one message.
const LARGE_BYTES: usize = 3 * 1024 * 1024;

pub(super) async fn an_inserted_document_gets_an_object_id<R: Runtime + Default>(b: &Bench<R>) {
    let items = b.empty::<Document>("object_id").await;
    let result = items.insert_one(doc! { "n": 1 }).await.expect("inserts");
    let id = result.inserted_id.as_object_id().expect("an ObjectId");
    let found = items.find_one(doc! { "_id": id }).await.expect("finds");
    assert_eq!(found, Some(doc! { "_id": id, "n": 1 }));
}

pub(super) async fn a_given_id_is_kept<R: Runtime + Default>(b: &Bench<R>) {
    let items = b.empty::<Document>("given_id").await;
    for id in [Bson::from("name"), Bson::from(7), ObjectId::new().into()] {
        let document = doc! { "n": 1, "_id": id.clone() };
        let result = items.insert_one(&document).await.expect("inserts");
        assert_eq!(result.inserted_id, id);
        let found = items.find_one(doc! { "_id": id }).await.expect("finds");
        assert_eq!(found.expect("is there").get("n"), Some(&Bson::from(1)));
    }
}

pub(super) async fn many_are_inserted_in_order<R: Runtime + Default>(b: &Bench<R>) {
    let items = b.empty::<Document>("many").await;
    let documents = [doc! { "_id": 5 }, doc! { "n": 2 }, doc! { "_id": "x" }];
    let result = items.insert_many(&documents).await.expect("inserts");
    assert_eq!(result.inserted_ids.len(), 3);
    assert_eq!(result.inserted_ids[&0], Bson::from(5));
    assert_eq!(result.inserted_ids[&2], Bson::from("x"));
    let made = result.inserted_ids[&1].clone();
    let found = items.find_one(doc! { "_id": made }).await.expect("finds");
    assert_eq!(found.expect("is there").get("n"), Some(&Bson::from(2)));
    assert_eq!(items.count_documents(doc! {}).await, Ok(3));
}

/// Returns the index and the code of each write error.
fn write_errors(error: &Error) -> Vec<(usize, i32)> {
    let fault = error.write_errors().expect("is a write error");
    fault.errors().iter().map(|e| (e.index, e.code)).collect()
}

pub(super) async fn a_duplicate_key_is_a_write_error<R: Runtime + Default>(b: &Bench<R>) {
    let items = b.empty::<Document>("duplicate").await;
    items.insert_one(doc! { "_id": 1 }).await.expect("is new");
    let error = items
        .insert_one(doc! { "_id": 1 })
        .await
        .expect_err("twice");
    assert_eq!(write_errors(&error), [(0, DUPLICATE_KEY)]);
    assert_eq!(error.code(), Some(DUPLICATE_KEY));
    assert!(error.server().is_some(), "{error:?}");

    let documents = [0, 1, 2].map(|id| doc! { "_id": id });
    let error = items.insert_many(documents).await.expect_err("has one");
    assert_eq!(write_errors(&error), [(1, DUPLICATE_KEY)]);
    let two = items.find_one(doc! { "_id": 2 }).await;
    assert_eq!(two, Ok(None), "what follows a failure is not written");
}

pub(super) async fn an_unordered_insert_goes_on_after_a_failure<R>(b: &Bench<R>)
where
    R: Runtime + Default,
{
    let items = b.empty::<Document>("unordered").await;
    items.insert_one(doc! { "_id": 1 }).await.expect("is new");
    let documents = [0, 1, 2].map(|id| doc! { "_id": id });
    let insert = items.insert_many(documents).unordered();
    let error = insert.await.expect_err("one is there already");
    assert_eq!(write_errors(&error), [(1, DUPLICATE_KEY)]);
    assert_eq!(items.count_documents(doc! {}).await, Ok(3));
}

pub(super) async fn updates_change_one_or_all_that_match<R: Runtime + Default>(b: &Bench<R>) {
    let items = b.empty::<Document>("update").await;
    let documents = (0..6).map(|n| doc! { "_id": n, "even": n % 2 == 0, "n": n });
    items.insert_many(documents).await.expect("inserts");

    let one = items.update_one(doc! { "even": true }, doc! { "$inc": { "n": 100 } });
    let one = one.await.expect("updates one");
    assert_eq!((one.matched_count, one.modified_count), (1, 1));
    let many = items.update_many(doc! { "even": true }, doc! { "$set": { "seen": 1 } });
    let many = many.await.expect("updates many");
    assert_eq!((many.matched_count, many.modified_count), (3, 3));
    let same = items.update_many(doc! { "even": true }, doc! { "$set": { "seen": 1 } });
    let same = same.await.expect("updates nothing");
    assert_eq!((same.matched_count, same.modified_count), (3, 0));
    let none = items.update_one(doc! { "_id": 77 }, doc! { "$set": { "seen": 1 } });
    let none = none.await.expect("matches nothing");
    assert_eq!((none.matched_count, none.upserted_id), (0, None));

    let raised = items.count_documents(doc! { "n": { "$gte": 100 } }).await;
    assert_eq!(raised, Ok(1));
    assert_eq!(items.count_documents(doc! { "seen": 1 }).await, Ok(3));
}

pub(super) async fn an_upsert_inserts_where_nothing_matches<R: Runtime + Default>(b: &Bench<R>) {
    let items = b.empty::<Document>("upsert").await;
    let upsert = || {
        items
            .update_one(doc! { "_id": "new" }, doc! { "$inc": { "n": 1 } })
            .upsert(true)
    };
    let first = upsert().await.expect("inserts");
    assert_eq!(first.matched_count, 0);
    assert_eq!(first.upserted_id, Some(Bson::from("new")));
    let second = upsert().await.expect("updates");
    assert_eq!((second.matched_count, second.modified_count), (1, 1));
    assert_eq!(second.upserted_id, None);
    let found = items.find_one(doc! {}).await.expect("finds");
    assert_eq!(found, Some(doc! { "_id": "new", "n": 2 }));
}

pub(super) async fn deletes_remove_one_or_all_that_match<R: Runtime + Default>(b: &Bench<R>) {
    let items = b.empty::<Document>("delete").await;
    let documents = (0..6).map(|n| doc! { "_id": n, "even": n % 2 == 0 });
    items.insert_many(documents).await.expect("inserts");
    let one = items.delete_one(doc! { "even": true }).await;
    assert_eq!(one.map(|r| r.deleted_count), Ok(1));
    let many = items.delete_many(doc! { "even": true }).await;
    assert_eq!(many.map(|r| r.deleted_count), Ok(2));
    let none = items.delete_many(doc! { "even": true }).await;
    assert_eq!(none.map(|r| r.deleted_count), Ok(0));
    assert_eq!(items.count_documents(doc! {}).await, Ok(3));
}

pub(super) async fn a_document_that_fills_several_reads_survives<R>(b: &Bench<R>)
where
    R: Runtime + Default,
{
    let items = b.empty::<Document>("large").await;
    let text: String = (0..LARGE_BYTES)
        .map(|n| char::from(b'a' + (n % 23) as u8))
        .collect();
    let large = doc! { "_id": 1, "text": text };
    items.insert_one(&large).await.expect("inserts");
    let found = items.find_one(doc! {}).await.expect("finds");
    assert!(found == Some(large), "the text has changed on the way");
}
