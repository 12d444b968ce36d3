//! Runs one kind of operation many times, and prints the allocations, the time and, on Linux, the
//! processor time of each.
//!
//! `cost URI KIND COUNT [RUNTIME]`, where KIND is `ping`, `rush` (pings of 64 tasks at once),
//! `find`, `insert`, `insert-person`, `batch`, `scan`, `scan-borrowed`, `scan-document` or
//! `scan-raw` and RUNTIME is `tokio` (one thread, the default), `tokio-mt` (two threads),
//! `async-std` or `smol`. With `maxPoolSize=16` the tasks of a rush wait for connections, and each
//! operation hands its connection to the next one. The processor time is
//! that of one thread, so it is complete with the default runtime only. Run the program under
//! `strace -c -f` for system calls and under `valgrind --tool=callgrind` for instructions. The
//! difference between two runs with different values of COUNT is the cost of the operations alone.
//! `docs/performance.md` has the figures.

use onionskin::{
    Client, Collection, Database, Error, Runtime,
    bson::{DateTime, Document, doc},
};
use serde::{Deserialize, Serialize};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::{alloc::System, sync::Arc, time::Instant};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// The largest number of operations before the measurement. They connect and let buffers grow.
const WARM_UP: usize = 100;

/// The number of tasks of a rush.
const RUSH_TASKS: usize = 64;

/// The number of documents that a scan reads.
const SCAN_DOCUMENTS: i32 = 1000;

/// The number of documents that a batch reads.
const BATCH_DOCUMENTS: u32 = 200;

/// A document of about 225 bytes of BSON, with nine fields.
#[derive(Debug, Deserialize, Serialize)]
struct Person {
    #[serde(rename = "_id")]
    id: i32,
    name: String,
    email: String,
    age: i32,
    balance: f64,
    active: bool,
    created: DateTime,
    address: Address,
    tags: Vec<String>,
}

#[derive(Debug, Deserialize, Serialize)]
struct Address {
    city: String,
    zip: i32,
}

/// A [`Person`] whose texts are in the reply of the server.
#[derive(Debug, Deserialize)]
#[allow(dead_code, reason = "decoding is measured, not the use of the fields")]
struct BorrowedPerson<'a> {
    #[serde(rename = "_id")]
    id: i32,
    name: &'a str,
    email: &'a str,
    age: i32,
    balance: f64,
    active: bool,
    created: DateTime,
    #[serde(borrow)]
    address: BorrowedAddress<'a>,
    tags: [&'a str; 2],
}

#[derive(Debug, Deserialize)]
#[allow(dead_code, reason = "decoding is measured, not the use of the fields")]
struct BorrowedAddress<'a> {
    city: &'a str,
    zip: i32,
}

/// A document without `_id`, which the driver adds.
#[derive(Debug, Serialize)]
struct NewPerson {
    name: &'static str,
    email: &'static str,
    age: i32,
    balance: f64,
    active: bool,
    address: NewAddress,
    tags: [&'static str; 2],
}

#[derive(Debug, Serialize)]
struct NewAddress {
    city: &'static str,
    zip: i32,
}

impl Default for NewPerson {
    fn default() -> Self {
        Self {
            name: "Person number 00007",
            email: "person00007@example.net",
            age: 7,
            balance: 3.5,
            active: false,
            address: NewAddress {
                city: "Reykjavik",
                zip: 101,
            },
            tags: ["reader", "writer of texts"],
        }
    }
}

impl Person {
    fn new(id: i32) -> Self {
        Self {
            id,
            name: format!("Person number {id:05}"),
            email: format!("person{id:05}@example.net"),
            age: id % 90,
            balance: f64::from(id) * 0.5,
            active: id % 2 == 0,
            created: DateTime::from_millis(1_700_000_000_000 + i64::from(id)),
            address: Address {
                city: "Reykjavik".to_owned(),
                zip: 101,
            },
            tags: ["reader", "writer of texts"].map(str::to_owned).to_vec(),
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [uri, kind, count, rest @ ..] = arguments.as_slice() else {
        return Err("usage: cost URI KIND COUNT [RUNTIME]".into());
    };
    let count: usize = count.parse()?;
    match rest.first().map_or("tokio", String::as_str) {
        "tokio" => {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?;
            runtime.block_on(measure::<onionskin_tokio::TokioRuntime>(uri, kind, count))?;
        }
        "tokio-mt" => {
            let mut builder = tokio::runtime::Builder::new_multi_thread();
            let runtime = builder.worker_threads(2).enable_all().build()?;
            let task = (uri.clone(), kind.clone());
            runtime.block_on(async {
                tokio::spawn(async move {
                    measure::<onionskin_tokio::TokioRuntime>(&task.0, &task.1, count).await
                })
                .await
            })??;
        }
        "async-std" => async_std::task::block_on(measure::<onionskin_async_std::AsyncStdRuntime>(
            uri, kind, count,
        ))?,
        "smol" => {
            smol::block_on(measure::<onionskin_smol::SmolRuntime>(uri, kind, count))?;
        }
        other => return Err(format!("no such runtime: {other}").into()),
    }
    Ok(())
}

async fn measure<R: Runtime + Default>(uri: &str, kind: &str, count: usize) -> Result<(), Error> {
    let client = Client::<R>::with_uri_str(uri).await?;
    let people = client.database("cost").collection::<Person>("people");
    if people.count_documents(doc! {}).await? != SCAN_DOCUMENTS as u64 {
        people.delete_many(doc! {}).await?;
        people
            .insert_many((0..SCAN_DOCUMENTS).map(Person::new))
            .await?;
    }
    let inserted = client.database("cost").collection::<Document>("inserted");
    inserted.delete_many(doc! {}).await?;
    let handles = Arc::new(Handles {
        admin: client.database("admin"),
        documents: client.database("cost").collection::<Document>("people"),
        people,
        new_people: inserted.clone_with_type(),
        inserted,
    });
    run(&client, &handles, kind, WARM_UP.min(count)).await?;
    let region = Region::new(ALLOCATOR);
    let start = Instant::now();
    let used = processor_time();
    run(&client, &handles, kind, count).await?;
    let elapsed = start.elapsed();
    let used = processor_time().zip(used).map(|(end, start)| end - start);
    let change = region.change();
    let each = |n: usize| n as f64 / count as f64;
    println!(
        "{kind}: {:.2} allocations, {:.0} bytes, {:.2} us each",
        each(change.allocations + change.reallocations),
        each(change.bytes_allocated),
        elapsed.as_secs_f64() * 1e6 / count as f64,
    );
    if let Some(used) = used {
        println!(
            "{kind}: {:.2} us CPU each",
            used as f64 / 1000.0 / count as f64
        );
    }
    drop(handles);
    client.shutdown().await;
    Ok(())
}

/// Runs operations one after another, those of a rush in several tasks.
async fn run<R: Runtime>(
    client: &Client<R>,
    handles: &Arc<Handles<R>>,
    kind: &str,
    count: usize,
) -> Result<(), Error> {
    if kind != "rush" {
        for _ in 0..count {
            handles.once(kind).await?;
        }
        return Ok(());
    }
    let (sender, results) = smol::channel::bounded(RUSH_TASKS);
    for task in 0..RUSH_TASKS {
        let (handles, sender) = (handles.clone(), sender.clone());
        client.runtime().spawn(async move {
            let mut result = Ok(());
            for _ in (task..count).step_by(RUSH_TASKS) {
                result = result.and(handles.once("ping").await);
            }
            sender
                .send(result)
                .await
                .expect("the receiver waits for all tasks");
        });
    }
    for _ in 0..RUSH_TASKS {
        results.recv().await.expect("each task sends its result")?;
    }
    Ok(())
}

/// Returns the processor time of this thread in nanoseconds.
fn processor_time() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split(' ').next()?.parse().ok()
}

struct Handles<R: Runtime> {
    admin: Database<R>,
    people: Collection<R, Person>,
    documents: Collection<R, Document>,
    inserted: Collection<R, Document>,
    new_people: Collection<R, NewPerson>,
}

impl<R: Runtime> Handles<R> {
    async fn once(&self, kind: &str) -> Result<(), Error> {
        match kind {
            "ping" => {
                self.admin.run_command(doc! { "ping": 1 }).await?;
            }
            "find" => {
                let found = self.people.find_one(doc! { "_id": 7 }).await?;
                assert!(
                    found.is_some_and(|person| person.id == 7),
                    "the document is there"
                );
            }
            "insert" => {
                self.inserted.insert_one(doc! { "x": 1 }).await?;
            }
            "insert-person" => {
                self.new_people.insert_one(NewPerson::default()).await?;
            }
            "batch" => {
                let found = self
                    .documents
                    .find(doc! {})
                    .limit(i64::from(BATCH_DOCUMENTS));
                let mut cursor = found.batch_size(BATCH_DOCUMENTS).await?;
                let mut count = 0;
                while let Some(document) = cursor.next().await {
                    count += u32::from(!document?.is_empty());
                }
                assert_eq!(count, BATCH_DOCUMENTS, "all came");
            }
            "scan" => {
                let mut cursor = self.people.find(doc! {}).batch_size(1000).await?;
                let mut sum = 0;
                while let Some(person) = cursor.next().await {
                    sum += person?.id;
                }
                assert_eq!(sum, SCAN_DOCUMENTS * (SCAN_DOCUMENTS - 1) / 2, "all came");
            }
            "scan-borrowed" => {
                let mut cursor = self.people.find(doc! {}).batch_size(1000).await?;
                let mut sum = 0;
                while cursor.advance().await? {
                    sum += cursor.deserialize_current_as::<BorrowedPerson<'_>>()?.id;
                }
                assert_eq!(sum, SCAN_DOCUMENTS * (SCAN_DOCUMENTS - 1) / 2, "all came");
            }
            "scan-document" => {
                let mut cursor = self.documents.find(doc! {}).batch_size(1000).await?;
                let mut count = 0;
                while let Some(document) = cursor.next().await {
                    count += i32::from(!document?.is_empty());
                }
                assert_eq!(count, SCAN_DOCUMENTS, "all came");
            }
            "scan-raw" => {
                let mut cursor = self.documents.find(doc! {}).batch_size(1000).await?;
                let mut count = 0;
                while cursor.advance().await? {
                    count += i32::from(cursor.current().as_bytes().len() > 5);
                }
                assert_eq!(count, SCAN_DOCUMENTS, "all came");
            }
            other => {
                return Err(Error::argument(format!(
                    "no such kind of operation: {other}"
                )));
            }
        }
        Ok(())
    }
}
