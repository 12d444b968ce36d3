//! Benchmarks of connection strings: a typical one, which must be parsed in less than 5 µs, and
//! strings of up to one megabyte, which must take linear time.

use criterion::{BenchmarkId, Criterion, Throughput};
use onionskin_tests::loads::connection_string::{LENGTHS, PIECES, TYPICAL, long, options, string};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::{
    alloc::System,
    hint::black_box,
    time::{Duration, Instant},
};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// The time in which a typical string must be parsed.
const LIMIT: Duration = Duration::from_micros(5);

/// The number of strings in one measurement of the limit, and the number of measurements. The
/// fastest counts.
const COUNTED: u32 = 10_000;
const RUNS: u32 = 10;

fn typical(criterion: &mut Criterion) {
    let region = Region::new(ALLOCATOR);
    drop(black_box(options(TYPICAL)));
    println!("typical: {} allocations", region.change().allocations);
    let runs = (0..RUNS).map(|_| {
        let began = Instant::now();
        for _ in 0..COUNTED {
            black_box(options(black_box(TYPICAL)));
        }
        began.elapsed() / COUNTED
    });
    let fastest = runs.min().unwrap_or_default();
    println!("typical: {fastest:?}, the limit is {LIMIT:?}");
    assert!(fastest < LIMIT, "the limit is exceeded");
    let mut group = criterion.benchmark_group("typical");
    group.bench_function("options", |b| b.iter(|| options(black_box(TYPICAL))));
    group.bench_function("string", |b| b.iter(|| string(black_box(TYPICAL))));
    let parsed = string(TYPICAL);
    group.bench_function("redacted", |b| b.iter(|| parsed.to_string()));
    group.bench_function("whole", |b| b.iter(|| parsed.to_secret()));
    group.finish();
}

fn linear(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("long");
    group.sample_size(10);
    for (name, piece) in PIECES {
        for bytes in LENGTHS {
            let text = long(piece, bytes);
            group.throughput(Throughput::Bytes(text.len() as u64));
            group.bench_function(BenchmarkId::new(name, bytes), |b| {
                b.iter(|| options(black_box(&text)));
            });
        }
    }
    group.finish();
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    typical(&mut criterion);
    linear(&mut criterion);
    criterion.final_summary();
}
