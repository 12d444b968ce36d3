//! The load of the demonstration: tasks that insert documents and read some of them back.

use super::{DemoOptions, Report, narrator::Narrator};
use onionskin::{
    Client, Collection, Error, Runtime,
    bson::{Bson, Document, doc, oid::ObjectId},
    options::{ReadPreference, WriteConcern},
};
use std::{
    collections::BTreeSet,
    future::poll_fn,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Poll, Waker},
    time::Duration,
};

/// The time limit of one operation, retries included.
const OPERATION_TIMEOUT: Duration = Duration::from_secs(8);

/// The number of writes of a task for each read.
const READ_EVERY: u64 = 4;

/// The database of the collection that the load writes to.
pub(super) const DATABASE: &str = "onionskin_demo";

/// The measurements of all tasks together.
#[derive(Debug, Default)]
pub struct Pace {
    pub(super) acknowledged: BTreeSet<(usize, u64)>,
    pub(super) reads: u64,
    pub(super) failures: Vec<String>,
    pub(super) failed: u64,
    pub(super) wrong_reads: u64,
    pub(super) slowest: Duration,
    pub(super) longest_stall: Duration,
    last_progress: Duration,
}

impl Pace {
    fn progress(&mut self, now: Duration, took: Duration) {
        self.slowest = self.slowest.max(took);
        self.longest_stall = self
            .longest_stall
            .max(now.saturating_sub(self.last_progress));
        self.last_progress = self.last_progress.max(now);
    }

    fn failure(&mut self, error: &Error) {
        self.failed += 1;
        let text = error.to_string();
        if self.failures.len() < 5 && !self.failures.contains(&text) {
            self.failures.push(text);
        }
    }
}

#[derive(Debug, Default)]
struct Shared {
    stop: AtomicBool,
    running: AtomicUsize,
    waker: Mutex<Option<Waker>>,
    pace: Mutex<Pace>,
}

/// The running tasks of the load.
#[derive(Debug)]
pub(super) struct Load {
    shared: Arc<Shared>,
    collection: String,
    tasks: usize,
    duration: Duration,
}

/// Returns a unique name for the load's collection.
pub(super) fn collection_name() -> String {
    format!("load_{}", ObjectId::new())
}

impl Load {
    /// Starts the tasks, which write to `collection`. At the end, [`finish`](Self::finish) drops
    /// the collection.
    pub(super) fn start<R: Runtime>(
        client: &Client<R>,
        runtime: impl Fn() -> R,
        options: &DemoOptions,
        collection: String,
    ) -> Self {
        let shared = Arc::new(Shared::default());
        let begin = runtime();
        let start = begin.now();
        for task in 0..options.tasks {
            let clock = runtime();
            let offset = start.saturating_sub(begin.now()) + clock.now();
            shared.running.fetch_add(1, Ordering::AcqRel);
            let ticket = Ticket(shared.clone());
            let collection = client
                .database(DATABASE)
                .collection::<Document>(&collection);
            begin.spawn(async move {
                work(task, &ticket.0, &collection, || {
                    clock.now().saturating_sub(offset)
                })
                .await;
                drop(ticket);
            });
        }
        Self {
            shared,
            collection,
            tasks: options.tasks,
            duration: options.duration,
        }
    }

    /// Stops the tasks, checks that every acknowledged write is in the collection, and drops the
    /// collection.
    pub(super) async fn finish<R: Runtime>(
        self,
        client: &Client<R>,
        narrator: &Narrator,
    ) -> Result<Report, Error> {
        self.shared.stop.store(true, Ordering::Release);
        poll_fn(|context| {
            *lock(&self.shared.waker) = Some(context.waker().clone());
            match self.shared.running.load(Ordering::Acquire) {
                0 => Poll::Ready(()),
                _ => Poll::Pending,
            }
        })
        .await;
        let pace = std::mem::take(&mut *lock(&self.shared.pace));
        narrator.print("the load has ended; every acknowledged write is looked for");
        let database = client.database(DATABASE);
        let found = look_for(&database.collection(&self.collection)).await;
        let dropped = database
            .run_command(doc! { "drop": &self.collection })
            .await;
        if let Err(error) = dropped {
            // The results are valid even if the collection could not be dropped.
            narrator.print(&format!(
                "the collection {DATABASE}.{} could not be dropped: {error}",
                self.collection
            ));
        }
        let (found, twice) = found?;
        let lost = pace.acknowledged.difference(&found).count();
        Ok(Report {
            tasks: self.tasks,
            duration: self.duration,
            pace,
            lost,
            twice,
            page: None,
            recording: None,
        })
    }
}

/// Returns the writes in the collection, and the number of surplus documents: all documents of a
/// write except the first.
async fn look_for<R: Runtime>(
    collection: &Collection<R, Document>,
) -> Result<(BTreeSet<(usize, u64)>, usize), Error> {
    let mut found = BTreeSet::new();
    let mut twice = 0;
    let mut cursor = collection
        .find(doc! {})
        .read_preference(ReadPreference::default())
        .batch_size(5000)
        .timeout(OPERATION_TIMEOUT)
        .await?;
    while let Some(document) = cursor.next().await {
        if let Some(key) = key_of(&document?) {
            twice += usize::from(!found.insert(key));
        }
    }
    Ok((found, twice))
}

struct Ticket(Arc<Shared>);

impl Drop for Ticket {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::AcqRel);
        if let Some(waker) = lock(&self.0.waker).take() {
            waker.wake();
        }
    }
}

async fn work<R: Runtime>(
    task: usize,
    shared: &Shared,
    collection: &Collection<R, Document>,
    now: impl Fn() -> Duration,
) {
    let mut number = 0;
    while !shared.stop.load(Ordering::Acquire) {
        let begin = now();
        let document = doc! { "task": task as i64, "number": number as i64 };
        let written = collection
            .insert_one(document)
            .write_concern(WriteConcern::majority())
            .timeout(OPERATION_TIMEOUT)
            .await;
        {
            let mut pace = lock(&shared.pace);
            match &written {
                Ok(_) => {
                    let end = now();
                    pace.acknowledged.insert((task, number));
                    pace.progress(end, end.saturating_sub(begin));
                }
                Err(error) => pace.failure(error),
            }
        }
        if let (Ok(written), 0) = (&written, number % READ_EVERY) {
            read_back(task, number, &written.inserted_id, shared, collection, &now).await;
        }
        number += 1;
    }
}

async fn read_back<R: Runtime>(
    task: usize,
    number: u64,
    id: &Bson,
    shared: &Shared,
    collection: &Collection<R, Document>,
    now: &impl Fn() -> Duration,
) {
    let begin = now();
    let read = collection
        .find_one(doc! { "_id": id })
        // A secondary may not have the write yet, so the mode `primary` overrides the read
        // preference of the connection string.
        .read_preference(ReadPreference::default())
        .timeout(OPERATION_TIMEOUT)
        .await;
    let mut pace = lock(&shared.pace);
    match read {
        Ok(found) => {
            let end = now();
            pace.reads += 1;
            pace.wrong_reads += u64::from(found.as_ref().and_then(key_of) != Some((task, number)));
            pace.progress(end, end.saturating_sub(begin));
        }
        Err(error) => pace.failure(&error),
    }
}

fn key_of(document: &Document) -> Option<(usize, u64)> {
    let task = usize::try_from(document.get_i64("task").ok()?).ok()?;
    let number = u64::try_from(document.get_i64("number").ok()?).ok()?;
    Some((task, number))
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
