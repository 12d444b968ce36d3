//! A replica set fails over under a program on tokio, in virtual time. The same number gives the
//! same run on the same machine:
//!
//!     cargo run -p onionskin-worlds --features tokio --example failover -- 7

use onionskin_tokio::{
    Client, TokioRuntime,
    bson::{Document, doc},
    event::{Event, EventKind, SdamEvent},
};
use onionskin_worlds::on_tokio::TokioWorld;
use std::{collections::BTreeSet, sync::Arc, time::Duration};
use tokio::{
    runtime,
    time::{Instant, sleep},
};

/// The number of tasks that write.
const TASKS: i32 = 8;

/// How long the tasks write.
const SALE: Duration = Duration::from_secs(40);

fn main() -> onionskin_tokio::Result<()> {
    let seed = std::env::args().nth(1).map_or(1, |argument| {
        argument.parse().expect("the seed is a whole number")
    });
    let real = std::time::Instant::now();
    // The clock of this runtime stands still while a task can run, and otherwise jumps to the next
    // timer.
    let runtime = runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()?;
    runtime.block_on(fail_over(seed))?;
    println!("All this took {:?} of real time.", real.elapsed());
    Ok(())
}

async fn fail_over(seed: u64) -> onionskin_tokio::Result<()> {
    let start = Instant::now();
    let say = move |text: &str| println!("{:>8.3} s  {text}", start.elapsed().as_secs_f64());
    let world = TokioWorld::replica_set(seed, 3);
    let client = Client::builder_from_uri(TokioRuntime::default(), world.uri())?
        .event_listener(Arc::new(move |event| {
            if let Some(text) = change(event) {
                say(&text);
            }
        }))
        .build()?;

    let tasks: Vec<_> = (0..TASKS)
        .map(|task| tokio::spawn(take_orders(client.clone(), task)))
        .collect();
    sleep(Duration::from_secs(10)).await;
    say("the primary steps down");
    world.step_down();
    sleep(Duration::from_secs(10)).await;
    let primary = world.primary().expect("an election takes no ten seconds");
    say(&format!("the process of member{primary} is killed"));
    world.kill(primary);
    sleep(Duration::from_secs(15)).await;
    say(&format!("member{primary} starts again"));
    world.restart(primary);

    let mut stored = BTreeSet::new();
    let mut slowest = Duration::ZERO;
    for task in tasks {
        let (orders, longest) = task.await.expect("the task does not panic")?;
        stored.extend(orders);
        slowest = slowest.max(longest);
    }
    let orders = client.database("shop").collection::<Document>("orders");
    let mut found = orders.find(doc! {}).await?;
    let mut lost = stored.clone();
    while let Some(order) = found.next().await {
        lost.remove(order?.get_str("_id").unwrap_or_default());
    }
    say(&format!(
        "{} writes were acknowledged, {} of them lost; the slowest took {slowest:?}",
        stored.len(),
        lost.len()
    ));
    client.shutdown().await;
    let digest = short(world.digest());
    println!("Seed {seed} has the digest {digest} each time on this machine.");
    Ok(())
}

/// Inserts orders one after the other. Returns those that were acknowledged, and the longest time
/// that one took.
async fn take_orders(
    client: Client,
    task: i32,
) -> onionskin_tokio::Result<(Vec<String>, Duration)> {
    let orders = client.database("shop").collection::<Document>("orders");
    let mut acknowledged = Vec::new();
    let mut longest = Duration::ZERO;
    let sale = Instant::now();
    while sale.elapsed() < SALE {
        let id = format!("{task}-{}", acknowledged.len());
        let start = Instant::now();
        orders.insert_one(doc! { "_id": &id }).await?;
        longest = longest.max(start.elapsed());
        acknowledged.push(id);
        sleep(Duration::from_millis(50)).await;
    }
    Ok((acknowledged, longest))
}

/// Returns a sentence about a change of a server.
fn change(event: &Event) -> Option<String> {
    let EventKind::Sdam(SdamEvent::ServerDescriptionChanged {
        address,
        previous,
        new,
        ..
    }) = &event.kind
    else {
        return None;
    };
    let (previous, new) = (previous.server_type, new.server_type);
    (previous != new).then(|| format!("the client sees {address}: {previous} -> {new}"))
}

/// Returns the first bytes as hexadecimal digits.
fn short(digest: [u8; 32]) -> String {
    digest[..8]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}
