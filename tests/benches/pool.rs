//! What a check out and a check in cost on a warm pool, with 10 and 100 connections.

use criterion::{Criterion, criterion_group, criterion_main};
use onionskin_tests::loads::pool::{SIZES, Warm};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::{alloc::System, time::Duration};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Operations of which the allocations are counted.
const COUNTED: usize = 10_000;

fn operations(criterion: &mut Criterion) {
    for size in SIZES {
        let mut group = criterion.benchmark_group(format!("{size} connections"));
        let kinds = [
            ("operation", None, false),
            (
                "operation, with an idle limit",
                Some(Duration::from_secs(600)),
                false,
            ),
            ("operation, with a listener", None, true),
        ];
        for (name, max_idle, subscribed) in kinds {
            let mut warm = Warm::new(size, max_idle, subscribed);
            warm.operation();
            let region = Region::new(ALLOCATOR);
            (0..COUNTED).for_each(|_| warm.operation());
            let count = region.change().allocations as f64 / COUNTED as f64;
            println!("{size} connections, {name}: {count:.2} allocations each");
            assert!(count == 0.0, "a warm pool does not allocate");
            group.bench_function(name, |b| b.iter(|| warm.operation()));
        }
        let (mut warm, mut used) = (Warm::new(size, None, false), Vec::new());
        group.bench_function("one more than there are connections", |b| {
            b.iter(|| warm.rush(&mut used));
        });
        group.finish();
    }
}

criterion_group!(benches, operations);
criterion_main!(benches);
