//! Parses a typical connection string COUNT times: `connection_string COUNT`.
//!
//! Run the program under `valgrind --tool=callgrind` to count instructions. The difference between
//! two runs with different values of COUNT is the cost of parsing alone. `docs/performance.md` has
//! the figures.

use onionskin_tests::loads::connection_string::{TYPICAL, options};
use std::hint::black_box;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let usage = "usage: connection_string COUNT";
    let count: u64 = std::env::args().nth(1).ok_or(usage)?.parse()?;
    for _ in 0..count {
        black_box(options(black_box(TYPICAL)));
    }
    Ok(())
}
