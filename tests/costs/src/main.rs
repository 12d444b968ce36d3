//! Runs one kind of operation many times, and prints the allocations, the time and, on Linux, the
//! processor time of each.
//!
//! `onionskin-costs URI KIND COUNT [RUNTIME]`, where KIND is one of these:
//!
//! - `ping`, and `rush`: pings of 64 tasks at once. `socket-ping` and `socket-rush`: the same bytes
//!   over bare sockets, in one task, and in 16 tasks with a socket each.
//! - `find`, `batch` and the scans `scan`, `scan-borrowed`, `scan-document`, `scan-raw`.
//! - `insert` and `insert-person`; `insert-many` and `bulk-write` of 10,000 documents.
//! - `connect`: a client makes COUNT connections, one after the other, and closes them.
//! - `transaction` of two inserts, and `three-commands`: two inserts and a ping in a session.
//! - `upload` and `download` of a GridFS file of 15 MiB, and `socket-upload` and `socket-download`
//!   of the same bytes over a bare socket.
//!
//! RUNTIME is `tokio` (one thread, the default), `tokio-mt` (two threads), `async-std` or `smol`.
//! With `maxPoolSize=16` the tasks of a rush wait for connections, and each operation hands its
//! connection to the next one. The processor time is that of one thread, so it is complete with the
//! default runtime only. Run the program under `strace -c -f` for system calls and under `valgrind
//! --tool=callgrind` for instructions. The difference between two runs with different values of
//! COUNT is the cost of the operations alone. `docs/performance.md` has the figures.

mod files;
mod operations;
mod people;
mod pings;

use onionskin::{Client, Error, Runtime};
use operations::Handles;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::{alloc::System, sync::Arc, time::Instant};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// The largest number of operations before the measurement. They connect and let buffers grow.
const WARM_UP: usize = 100;

/// The number of tasks of a rush.
const RUSH_TASKS: usize = 64;

/// The number of tasks of a rush over bare sockets, each with a socket of its own.
const SOCKET_TASKS: usize = 16;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [uri, kind, count, rest @ ..] = arguments.as_slice() else {
        return Err("usage: onionskin-costs URI KIND COUNT [RUNTIME]".into());
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
    let handles = Arc::new(Handles::new(&client, kind).await?);
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
async fn run<R: Runtime + Default>(
    client: &Client<R>,
    handles: &Arc<Handles<R>>,
    kind: &str,
    count: usize,
) -> Result<(), Error> {
    match kind {
        "rush" => {
            in_tasks(client, RUSH_TASKS, count, |count| {
                let handles = handles.clone();
                async move {
                    for _ in 0..count {
                        handles.once("ping").await?;
                    }
                    Ok(())
                }
            })
            .await
        }
        "socket-rush" => {
            in_tasks(client, SOCKET_TASKS, count, |count| {
                let client = client.clone();
                async move { pings::send(&client, count).await }
            })
            .await
        }
        "socket-ping" => pings::send(client, count).await,
        "connect" => {
            let mut options = client.options().clone();
            options.min_pool_size = u32::try_from(count).ok();
            options.max_pool_size = Some(0);
            let client = Client::<R>::builder(R::default(), options).build()?;
            client.warm_connection_pool().await;
            client.shutdown().await;
            Ok(())
        }
        kind => {
            for _ in 0..count {
                handles.once(kind).await?;
            }
            Ok(())
        }
    }
}

/// Divides operations among tasks. `run` returns the future of a task, which runs this number of
/// operations.
async fn in_tasks<R: Runtime, F: Future<Output = Result<(), Error>> + Send + 'static>(
    client: &Client<R>,
    tasks: usize,
    count: usize,
    run: impl Fn(usize) -> F,
) -> Result<(), Error> {
    let (sender, results) = smol::channel::bounded(tasks);
    for task in 0..tasks {
        let work = run((task..count).step_by(tasks).len());
        let sender = sender.clone();
        client.runtime().spawn(async move {
            let result = work.await;
            let sent = sender.send(result).await;
            sent.expect("the receiver waits for all tasks");
        });
    }
    for _ in 0..tasks {
        results.recv().await.expect("each task sends its result")?;
    }
    Ok(())
}

/// Returns the processor time of this thread in nanoseconds.
fn processor_time() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split(' ').next()?.parse().ok()
}
