//! Runs COUNT operations on a warm pool of 100 connections: `pool COUNT [listener]`. With a second
//! argument the pool emits events.
//!
//! Run it under `valgrind --tool=callgrind` with two values of COUNT: the difference between the
//! two counts is the cost of the operations alone, in instructions. `docs/performance.md` has the
//! figures.

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
