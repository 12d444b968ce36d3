//! Measures the cost of monitoring a deployment.
//!
//! `topology KIND SIZE COUNT` runs one kind of work COUNT times on a replica set of SIZE members,
//! and prints the allocations. KIND is `hello` (an unchanged reply), `changed` (new tags of one
//! member), `failover`, `select`, or a selection after each reply (`hello-select`,
//! `changed-select`). Under `valgrind --tool=callgrind`, the difference between two runs with
//! different values of COUNT is the cost of the work alone, in instructions.
//!
//! `topology memory SIZE` prints the memory of the topology for each member.
//!
//! `topology client URI` prints the memory of a whole client for each member of a real deployment,
//! with the buffers of its sockets and with its tasks. `docs/performance.md` has the figures.

use onionskin::bson::doc;
use onionskin_tests::loads::topology::{Set, nearest, selector};
use onionskin_tokio::Client;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::{alloc::System, hint::black_box, time::Duration};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        ["memory", size] => {
            let size = size.parse()?;
            let region = Region::new(ALLOCATOR);
            // `into_topology` drops the prepared replies, so that only the topology's memory is
            // measured.
            let set = Set::new(size, false).into_topology();
            tell_memory(&region, size);
            drop(set);
        }
        ["client", uri] => client(uri)?,
        [kind, size, count] => work(kind, size.parse()?, count.parse()?)?,
        _ => return Err("usage: topology KIND SIZE COUNT | memory SIZE | client URI".into()),
    }
    Ok(())
}

fn work(kind: &str, size: usize, count: usize) -> Result<(), String> {
    let (mut set, mut selector, criteria) = (Set::new(size, false), selector(), nearest());
    let mut once = || match kind {
        "hello" => set.hello_unchanged(),
        "changed" => set.hello_changed(),
        "failover" => set.failover(),
        "hello-select" => {
            set.hello_unchanged();
            black_box(set.select(&mut selector, &criteria));
        }
        "changed-select" => {
            set.hello_changed();
            black_box(set.select(&mut selector, &criteria));
        }
        _ => {
            black_box(set.select(&mut selector, &criteria));
        }
    };
    let kinds = [
        "hello",
        "changed",
        "failover",
        "select",
        "hello-select",
        "changed-select",
    ];
    if !kinds.contains(&kind) {
        return Err(format!("no such kind of work: {kind}"));
    }
    once();
    let region = Region::new(ALLOCATOR);
    for _ in 0..count {
        once();
    }
    let change = region.change();
    let each = |n: usize| n as f64 / count as f64;
    println!(
        "{kind}, {size} members: {:.2} allocations, {:.0} bytes",
        each(change.allocations + change.reallocations),
        each(change.bytes_allocated),
    );
    Ok(())
}

fn client(uri: &str) -> Result<(), Box<dyn std::error::Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let region = Region::new(ALLOCATOR);
        let client = Client::with_uri_str(uri).await?;
        client
            .database("admin")
            .run_command(doc! { "ping": 1 })
            .await?;
        // The monitors need some time until all of them stream and measure round trip times.
        tokio::time::sleep(Duration::from_secs(3)).await;
        let topology = client.topology();
        let known = topology.servers.values();
        let known = known.filter(|s| s.server_type.is_available()).count();
        tell_memory(&region, known);
        client.shutdown().await;
        Ok(())
    })
}

fn tell_memory(region: &Region<'_, System>, members: usize) {
    let change = region.change();
    let live = change.bytes_allocated as i64 - change.bytes_deallocated as i64;
    println!(
        "{members} members: {live} bytes, {} each",
        live / members.max(1) as i64
    );
}
