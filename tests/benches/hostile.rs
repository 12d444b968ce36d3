//! Benchmarks of what a hostile peer can cost the client. Prints a table with the times of each
//! attack at 1, 10 and 100 % of the longest message. Then measures the attacks with criterion.

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput};
use onionskin_tests::loads::hostile::{ATTACKS, Attack};
use std::time::{Duration, Instant};

/// Sizes of messages, in percent of the longest message that the client accepts.
const PERCENT: [usize; 3] = [1, 10, 100];

/// The number of runs of each measurement. The table shows the fastest.
const RUNS: usize = 3;

fn fastest(attack: &Attack, bytes: usize) -> Duration {
    let runs = (0..RUNS).map(|_| {
        let act = attack.prepare(bytes);
        let began = Instant::now();
        act();
        began.elapsed()
    });
    runs.min().unwrap_or_default()
}

fn table(wanted: impl Fn(&str) -> bool) {
    println!("| attack | bytes | 1 % | 10 % | 100 % | ns for each byte |");
    println!("|---|---|---|---|---|---|");
    for attack in ATTACKS.iter().filter(|attack| wanted(attack.name)) {
        let bound = attack.target.bound();
        let times = PERCENT.map(|percent| (bound / 100 * percent, percent));
        let times = times.map(|(bytes, _)| (bytes, fastest(attack, bytes)));
        let shown = times.map(|(_, time)| format!("{time:.1?}")).join(" | ");
        let each = |(bytes, time): (usize, Duration)| time.as_nanos() as f64 / bytes as f64;
        let each = times.map(|time| format!("{:.2}", each(time))).join(", ");
        println!("| {} | {bound} | {shown} | {each} |", attack.name);
    }
}

fn statistics(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("hostile");
    group
        .sample_size(10)
        .warm_up_time(Duration::from_millis(200));
    group.measurement_time(Duration::from_millis(500));
    for attack in &ATTACKS {
        for percent in PERCENT {
            let bytes = attack.target.bound() / 100 * percent;
            group.throughput(Throughput::Bytes(bytes as u64));
            let id = BenchmarkId::new(attack.name, format!("{percent} %"));
            group.bench_function(id, |bencher| {
                bencher.iter_batched(
                    || attack.prepare(bytes),
                    |act| act(),
                    BatchSize::PerIteration,
                );
            });
        }
    }
    group.finish();
}

fn main() {
    let wanted = std::env::args()
        .skip(1)
        .find(|argument| !argument.starts_with('-'));
    table(|name| {
        wanted
            .as_ref()
            .is_none_or(|wanted| name.contains(wanted.as_str()))
    });
    let mut criterion = Criterion::default().configure_from_args();
    statistics(&mut criterion);
    criterion.final_summary();
}
