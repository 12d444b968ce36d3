//! Runs COUNT operations on a warm pool of 100 connections: `pool COUNT [listener]`. With a second
//! argument the pool emits events.
//!
//! Run the program under `valgrind --tool=callgrind` to count instructions. The difference between
//! two runs with different values of COUNT is the cost of the operations alone.
//! `docs/performance.md` has the figures.

use onionskin_tests::loads::pool::Warm;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let count: u64 = arguments
        .next()
        .ok_or("usage: pool COUNT [listener]")?
        .parse()?;
    let mut warm = Warm::new(100, None, arguments.next().is_some());
    for _ in 0..count {
        warm.operation();
    }
    Ok(())
}
