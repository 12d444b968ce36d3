//! Decodes or encodes one kind of document many times, for the count of instructions.
//!
//! `documents KIND WAY COUNT`, where KIND is `person`, `wide`, `deep`, `texts` or `large`, and WAY
//! is `typed`, `borrowed`, `document`, `raw`, `encode`, `encode-document`, or one of these with
//! `crate-` before it for the functions of the crate `bson`. Run the program under
//! `valgrind --tool=callgrind`. The difference between two runs with different values of COUNT is
//! the cost of the documents alone.

#[path = "../benches/samples/mod.rs"]
mod samples;

use samples::{Kind, Way};
use std::hint::black_box;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let usage = "usage: documents KIND WAY COUNT";
    let [kind, way, count] = arguments.as_slice() else {
        panic!("{usage}");
    };
    let kind = Kind::named(kind).expect(usage);
    let way = Way::named(way).expect(usage);
    let count: usize = count.parse().expect(usage);
    let run = samples::run(kind, way).unwrap_or_else(|| panic!("{kind:?} has no such way"));
    for _ in 0..count {
        black_box(run());
    }
}
