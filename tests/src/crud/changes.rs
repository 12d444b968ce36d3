//! Tests of replacements, and of the calls that change one document and return it.

use super::Bench;
use bson::{Bson, Document, doc};
use onionskin::{Collection, Runtime, options::ReturnDocument};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Job {
    #[serde(rename = "_id")]
    id: i32,
    state: String,
}

fn job(id: i32, state: &str) -> Job {
    let state = state.to_owned();
    Job { id, state }
}

async fn jobs<R: Runtime + Default>(b: &Bench<R>, case: &str) -> Collection<R, Job> {
    let jobs = b.empty::<Job>(case).await;
    let all = (1..=3).map(|id| job(id, "new"));
    jobs.insert_many(all).await.expect("they are new");
    jobs
}

pub(super) async fn a_replacement_keeps_the_id<R: Runtime + Default>(b: &Bench<R>) {
    let jobs = b.empty::<Document>("replaced").await;
    let all = [doc! { "_id": 1, "a": 1, "b": 2 }, doc! { "_id": 2, "a": 1 }];
    jobs.insert_many(all).await.expect("they are new");
    let result = jobs.replace_one(doc! { "a": 1 }, doc! { "c": 3 }).await;
    let result = result.expect("a reply");
    assert_eq!((result.matched_count, result.modified_count), (1, 1));
    let found = jobs.find_one(doc! { "_id": 1 }).await.expect("a reply");
    assert_eq!(found, Some(doc! { "_id": 1, "c": 3 }));
    let upsert = jobs.replace_one(doc! { "_id": 9 }, doc! { "c": 4 });
    let result = upsert.upsert(true).await.expect("a reply");
    assert_eq!(result.upserted_id, Some(Bson::from(9)));
    let operators = doc! { "$set": { "a": 1 } };
    let refused = jobs.replace_one(doc! {}, operators).await;
    refused.expect_err("operators are no replacement");
}

pub(super) async fn an_update_takes_a_pipeline<R: Runtime + Default>(b: &Bench<R>) {
    let items = b.empty::<Document>("pipelines").await;
    items
        .insert_one(doc! { "_id": 1, "a": 5 })
        .await
        .expect("new");
    let copy = vec![doc! { "$set": { "b": 7 } }];
    // FerretDB 1 does not run pipelines in updates.
    match items.update_one(doc! { "_id": 1 }, copy).await {
        Ok(result) => {
            assert_eq!(result.modified_count, 1);
            let found = items.find_one(doc! {}).await.expect("a reply");
            assert_eq!(found, Some(doc! { "_id": 1, "a": 5, "b": 7 }));
        }
        Err(error) => assert!(error.code().is_some(), "{error:?}"),
    }
}

pub(super) async fn a_job_is_taken_once<R: Runtime + Default>(b: &Bench<R>) {
    let jobs = jobs(b, "queue").await;
    let take = || {
        let taken = doc! { "$set": { "state": "taken" } };
        jobs.find_one_and_update(doc! { "state": "new" }, taken)
            .sort(doc! { "_id": -1 })
            .return_document(ReturnDocument::After)
    };
    for id in [3, 2, 1] {
        assert_eq!(take().await.expect("a reply"), Some(job(id, "taken")));
    }
    assert_eq!(take().await.expect("a reply"), None);
}

pub(super) async fn the_document_before_a_change_is_returned<R: Runtime + Default>(b: &Bench<R>) {
    let jobs = jobs(b, "before").await;
    let replaced = jobs.find_one_and_replace(doc! { "_id": 2 }, job(2, "done"));
    assert_eq!(replaced.await.expect("a reply"), Some(job(2, "new")));
    let deleted = jobs.find_one_and_delete(doc! { "state": "done" });
    assert_eq!(deleted.await.expect("a reply"), Some(job(2, "done")));
    let deleted = jobs.find_one_and_delete(doc! { "state": "done" });
    assert_eq!(deleted.await.expect("a reply"), None);
    let upsert = jobs
        .find_one_and_replace(doc! { "_id": 7 }, job(7, "new"))
        .upsert(true)
        .return_document(ReturnDocument::After);
    assert_eq!(upsert.await.expect("a reply"), Some(job(7, "new")));
}

pub(super) async fn values_are_listed_and_estimated<R: Runtime + Default>(b: &Bench<R>) {
    let jobs = jobs(b, "values").await;
    let change = doc! { "$set": { "state": "done" } };
    jobs.update_one(doc! { "_id": 2 }, change)
        .await
        .expect("a reply");
    let states = jobs.distinct("state", doc! {}).await.expect("a reply");
    assert_eq!(states, [Bson::from("done"), Bson::from("new")]);
    let states = jobs.distinct("state", doc! { "_id": 2 }).await;
    assert_eq!(states.expect("a reply"), [Bson::from("done")]);
    assert_eq!(jobs.estimated_document_count().await, Ok(3));
}
