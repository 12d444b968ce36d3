//! So many operations on a warm pool of 100 connections, to be counted: `pool COUNT [listener]`.
//!
//! Under `valgrind --tool=callgrind` the difference between two counts is what the operations
//! between them take, in instructions. `docs/performance.md` has the figures.

use onionskin_tests::loads::pool::Warm;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let count: u64 = arguments.next().ok_or("how many?")?.parse()?;
    let mut warm = Warm::new(100, None, arguments.next().is_some());
    for _ in 0..count {
        warm.operation();
    }
    Ok(())
}
