//! Measures how long the client's lock is held, for each place in the code that takes the lock.
//!
//! The client is connected to a replica set of fifty members and has a listener. Operations run
//! while the primary steps down, while members close all connections, and while members are killed
//! and restarted. Some operations have a short time limit, and some wait for a connection.
//!
//! `cargo run --release -p onionskin-tests --features lock-times --example lock [SECONDS]`
//!
//! Times are processor times of the thread, so that other threads do not count.

use bson::{Document, doc};
use onionskin::lock_times;
use onionskin_serve::{Embedded, ServeOptions};
use onionskin_tokio::{Client, TokioRuntime};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// The number of members, the most that a replica set can have.
const MEMBERS: usize = 50;

/// The number of tasks that run operations.
const TASKS: usize = 64;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let seconds = std::env::args()
        .nth(1)
        .map_or(Ok(10), |text| text.parse())?;
    let mut options = ServeOptions::replica_set("rs0", MEMBERS);
    for member in options.members.iter_mut().skip(7) {
        // At most seven members vote, and members without a vote have no priority.
        (member.votes, member.priority) = (false, 0);
    }
    let deployment = Embedded::start(options)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    runtime.block_on(load(&deployment, Duration::from_secs(seconds)))?;
    println!("{MEMBERS} members, {TASKS} tasks, {seconds} s; times under the lock by place:");
    for ((file, line), times) in lock_times::take() {
        println!("{file:>36}:{line:<4} {times}");
    }
    Ok(())
}

async fn load(deployment: &Embedded, time: Duration) -> Result<(), onionskin_tokio::Error> {
    let uri = format!(
        "{}&maxPoolSize=20&heartbeatFrequencyMS=500",
        deployment.uri()
    );
    let client = Client::builder_from_uri(TokioRuntime::default(), &uri)?
        .event_listener(Arc::new(|_| {}))
        .build()?;
    let until = Instant::now() + time;
    let mut tasks = Vec::new();
    for number in 0..TASKS {
        let client = client.clone();
        tasks.push(tokio::spawn(
            async move { work(&client, number, until).await },
        ));
    }
    let mut disasters = 0_usize;
    while Instant::now() < until {
        tokio::time::sleep(Duration::from_millis(700)).await;
        match disasters % 4 {
            0 => drop(deployment.step_down()),
            1 => (0..MEMBERS).for_each(|member| deployment.disconnect(member)),
            2 => (MEMBERS - 5..MEMBERS).for_each(|member| deployment.kill(member)),
            _ => (MEMBERS - 5..MEMBERS).for_each(|member| deployment.restart(member)),
        }
        disasters += 1;
    }
    let mut done = 0;
    for task in tasks {
        done += task.await.unwrap_or(0);
    }
    println!("{done} operations succeeded");
    client.shutdown().await;
    Ok(())
}

async fn work(client: &Client, number: usize, until: Instant) -> u64 {
    let app = client.database("app");
    let things = app.collection::<Document>("things");
    let limit = Duration::from_millis(if number % 4 == 0 { 20 } else { 2_000 });
    let mut done = 0;
    while Instant::now() < until {
        let is_done = match done % 3 {
            0 => things
                .insert_one(doc! { "n": 1 })
                .timeout(limit)
                .await
                .is_ok(),
            1 => things
                .find_one(doc! { "n": 1 })
                .timeout(limit)
                .await
                .is_ok(),
            _ => {
                let ping = app.run_command(doc! { "ping": 1 });
                ping.timeout(limit).await.is_ok()
            }
        };
        done += u64::from(is_done);
        if !is_done {
            tokio::task::yield_now().await;
        }
    }
    done
}
