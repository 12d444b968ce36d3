//! Benchmarks of the topology and of server selection, in replica sets of 3, 50 and 256 members.

use criterion::{Criterion, criterion_group, criterion_main};
use onionskin_core::unstable::selection::Criteria;
use onionskin_tests::loads::topology::{SIZES, Set, nearest, selector};
use std::hint::black_box;

fn hello(criterion: &mut Criterion) {
    for size in SIZES {
        let mut group = criterion.benchmark_group(format!("{size} members"));
        let mut set = Set::new(size, false);
        group.bench_function("hello, unchanged", |b| b.iter(|| set.hello_unchanged()));
        group.bench_function("hello, one changed", |b| b.iter(|| set.hello_changed()));
        group.bench_function("failover", |b| b.iter(|| set.failover()));
        let mut set = Set::new(size, true);
        group.bench_function("hello, unchanged, with a listener", |b| {
            b.iter(|| set.hello_unchanged());
        });
        group.finish();
    }
}

fn select(criterion: &mut Criterion) {
    for size in SIZES {
        let mut group = criterion.benchmark_group(format!("{size} members"));
        let (mut set, mut selector) = (Set::new(size, false), selector());
        for (name, criteria) in [("nearest", nearest()), ("writable", Criteria::Writable)] {
            group.bench_function(format!("select, {name}"), |b| {
                b.iter(|| black_box(set.select(&mut selector, &criteria)));
            });
            group.bench_function(format!("select, {name}, after an unchanged hello"), |b| {
                b.iter(|| {
                    set.hello_unchanged();
                    black_box(set.select(&mut selector, &criteria))
                });
            });
        }
        group.finish();
    }
}

criterion_group!(benches, hello, select);
criterion_main!(benches);
