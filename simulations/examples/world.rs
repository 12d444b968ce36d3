//! Runs seeds of the simulated world, and prints how fast virtual time passed.
//!
//! `cargo run --release -p onionskin-simulations --example world -- core 0 1000`
//!
//! The arguments are the way in which clients are driven (`core` or `runtime`), the first seed and
//! the number of seeds. Their defaults are `core`, 0 and 100. With a last argument `crowded`, many
//! callers share one connection to each server, connections stall or lose bytes, and callers poll
//! their operations late.

use onionskin_worlds::world::{Way, WorldOptions, run_seed};
use std::{
    env,
    process::ExitCode,
    time::{Duration, Instant},
};

fn main() -> ExitCode {
    let mut arguments = env::args().skip(1);
    let way = match arguments.next().as_deref() {
        Some("runtime") => Way::Runtime,
        _ => Way::Core,
    };
    let mut number = |default: u64| {
        let next = arguments.next();
        next.and_then(|text| text.parse().ok()).unwrap_or(default)
    };
    let (first, count) = (number(0), number(100));
    let crowded = arguments.next().as_deref() == Some("crowded");
    let keep_trace = count == 1;
    let began = Instant::now();
    let (mut simulated, mut steps, mut succeeded, mut failures) = (Duration::ZERO, 0, 0, 0_u64);
    for seed in first..first.saturating_add(count) {
        let mut options = WorldOptions::drawn(seed);
        if crowded {
            options = options.crowded();
        }
        options.keep_trace = keep_trace;
        let report = run_seed(seed, way, options);
        simulated += report.simulated;
        steps += report.steps;
        succeeded += report.tally.succeeded;
        if keep_trace {
            println!("{}", report.trace);
        }
        if report.failure.is_some() || keep_trace {
            println!("{report}");
        }
        failures += u64::from(report.failure.is_some());
    }
    let real = began.elapsed();
    println!(
        "{count} seeds ({way}): {failures} failed; {succeeded} operations succeeded in {steps} \
         steps; {:.0} virtual seconds in {:.2} real seconds: {:.0} to 1",
        simulated.as_secs_f64(),
        real.as_secs_f64(),
        simulated.as_secs_f64() / real.as_secs_f64(),
    );
    if failures == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
