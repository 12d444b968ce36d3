//! The time to decode and to encode documents, beside that of the crate `bson`.

mod samples;

use criterion::{Criterion, criterion_group, criterion_main};
use samples::{KINDS, WAYS};

fn documents(criterion: &mut Criterion) {
    for (kind_name, kind) in KINDS {
        let mut group = criterion.benchmark_group(kind_name);
        for (way_name, way) in WAYS {
            if let Some(run) = samples::run(kind, way) {
                group.bench_function(way_name, |bencher| bencher.iter(&run));
            }
        }
        group.finish();
    }
}

criterion_group!(benches, documents);
criterion_main!(benches);
