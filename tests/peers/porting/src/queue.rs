//! A job queue. Workers claim the job with the highest priority, and a job whose lease has ended
//! goes back to the queue.

use crate::driver::{
    Client, Collection, IndexModel,
    bson::{DateTime, Document, doc, oid::ObjectId},
    error::Result,
    options::{FindOneAndUpdateOptions, IndexOptions, ReturnDocument, WriteConcern},
};
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum State {
    Waiting,
    Claimed,
    Done,
    Failed,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Job {
    #[serde(rename = "_id")]
    id: ObjectId,
    name: String,
    priority: i32,
    state: State,
    attempts: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    worker: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lease_until: Option<DateTime>,
}

#[derive(Clone)]
struct Queue {
    jobs: Collection<Job>,
}

const MAX_ATTEMPTS: i32 = 2;

impl Queue {
    async fn open(client: &Client) -> Result<Self> {
        let jobs = client.database("porting_queue").collection::<Job>("jobs");
        jobs.drop().await?;
        let index = IndexModel::builder()
            .keys(doc! { "state": 1, "priority": -1, "_id": 1 })
            .options(IndexOptions::builder().name("claim".to_string()).build())
            .build();
        jobs.create_index(index).await?;
        Ok(Self { jobs })
    }

    async fn add(&self, name: &str, priority: i32) -> Result<ObjectId> {
        let job = Job {
            id: ObjectId::new(),
            name: name.to_string(),
            priority,
            state: State::Waiting,
            attempts: 0,
            worker: None,
            lease_until: None,
        };
        let result = self
            .jobs
            .insert_one(&job)
            .write_concern(WriteConcern::majority())
            .await?;
        Ok(result
            .inserted_id
            .as_object_id()
            .expect("the id of the job"))
    }

    async fn claim(&self, worker: &str, now: DateTime) -> Result<Option<Job>> {
        let until = DateTime::from_millis(now.timestamp_millis() + 30_000);
        self.jobs
            .find_one_and_update(
                doc! { "state": "waiting" },
                doc! {
                    "$set": { "state": "claimed", "worker": worker, "lease_until": until },
                    "$inc": { "attempts": 1 },
                },
            )
            .sort(doc! { "priority": -1, "_id": 1 })
            .return_document(ReturnDocument::After)
            .await
    }

    async fn finish(&self, job: &Job) -> Result<bool> {
        let filter = doc! { "_id": job.id, "worker": &job.worker, "state": "claimed" };
        let update = doc! { "$set": { "state": "done" }, "$unset": { "lease_until": "" } };
        let result = self.jobs.update_one(filter, update).await?;
        Ok(result.modified_count == 1)
    }

    async fn requeue(&self, id: ObjectId) -> Result<Option<Job>> {
        let options = FindOneAndUpdateOptions::builder()
            .return_document(ReturnDocument::After)
            .build();
        let update = vec![
            doc! { "$set": { "state": {
                "$cond": [{ "$gte": ["$attempts", MAX_ATTEMPTS] }, "failed", "waiting"],
            } } },
            doc! { "$unset": ["worker", "lease_until"] },
        ];
        self.jobs
            .find_one_and_update(doc! { "_id": id, "state": "claimed" }, update)
            .with_options(options)
            .await
    }

    async fn requeue_expired(&self, now: DateTime) -> Result<u64> {
        let result = self
            .jobs
            .update_many(
                doc! { "state": "claimed", "lease_until": { "$lt": now } },
                doc! {
                    "$set": { "state": "waiting" },
                    "$unset": { "worker": "", "lease_until": "" },
                },
            )
            .await?;
        Ok(result.modified_count)
    }
}

fn print_job(what: &str, job: Option<&Job>) {
    match job {
        Some(job) => println!(
            "{what}: {} {:?} by {:?}, attempt {}, lease {}",
            job.name,
            job.state,
            job.worker,
            job.attempts,
            job.lease_until.is_some()
        ),
        None => println!("{what}: no job"),
    }
}

pub async fn run(uri: &str) -> Result<()> {
    let client = Client::with_uri_str(uri).await?;
    let queue = Queue::open(&client).await?;
    let now = DateTime::from_millis(1_700_000_000_000);
    for (name, priority) in [("low", 1), ("high", 9), ("middle", 5), ("high too", 9)] {
        queue.add(name, priority).await?;
    }
    let first = queue.claim("ada", now).await?;
    print_job("claimed", first.as_ref());
    let second = queue.claim("bob", now).await?;
    print_job("claimed", second.as_ref());
    if let Some(job) = &first {
        println!("finished: {}", queue.finish(job).await?);
        println!("finished again: {}", queue.finish(job).await?);
        print_job("requeued", queue.requeue(job.id).await?.as_ref());
    }
    if let Some(job) = &second {
        print_job("requeued", queue.requeue(job.id).await?.as_ref());
    }
    let third = queue.claim("ada", now).await?;
    print_job("claimed", third.as_ref());
    if let Some(job) = &third {
        print_job("requeued", queue.requeue(job.id).await?.as_ref());
    }
    print_job("claimed", queue.claim("ada", now).await?.as_ref());
    let later = DateTime::from_millis(now.timestamp_millis() + 60_000);
    println!("expired: {}", queue.requeue_expired(later).await?);

    // No two workers claim the same job.
    let workers: Vec<_> = (0..4)
        .map(|number| {
            let queue = queue.clone();
            tokio::spawn(async move { queue.claim(&format!("worker {number}"), now).await })
        })
        .collect();
    let mut names = Vec::new();
    for worker in workers {
        names.extend(worker.await.expect("a worker")?.map(|job| job.name));
    }
    names.sort();
    println!("claimed at once: {names:?}");
    for state in [State::Waiting, State::Claimed, State::Done, State::Failed] {
        let text = crate::driver::bson::serialize_to_bson(&state)?;
        let number = queue.jobs.count_documents(doc! { "state": text }).await?;
        println!("{state:?}: {number}");
    }
    let raw = queue.jobs.clone_with_type::<Document>();
    let done = raw
        .find_one(doc! { "state": "done" })
        .projection(doc! { "_id": 0 })
        .await?;
    println!("{done:?}");
    queue.jobs.drop().await?;
    client.shutdown().await;
    Ok(())
}
