//! Properties of the connection pool for all inputs: it agrees with the model, and its actions and
//! events are consistent.

use crate::{
    bench::Bench,
    cases,
    program::{Program, programs},
};
use proptest::{prelude::*, test_runner::TestCaseError};

fn failed(what: String) -> TestCaseError {
    TestCaseError::fail(what)
}

fn paired(program: &Program) -> Result<Bench, TestCaseError> {
    Bench::paired(&program.options, program.subscribed, None).map_err(failed)
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn the_model_agrees_after_each_input(program in programs(120)) {
        let mut bench = paired(&program)?;
        program.play(&mut bench).map_err(failed)?;
    }

    // The watcher checks the counts, the limits, the order of the wait queue and the generations.
    // Each check out and each connection must end once.
    #[test]
    fn everybody_is_served_and_everything_comes_back(program in programs(60)) {
        let mut bench = paired(&program)?;
        program.play(&mut bench).map_err(failed)?;
        bench.settle().map_err(failed)?;
        bench.close().map_err(failed)?;
    }

    #[test]
    fn a_close_at_any_time_leaves_nothing(program in programs(40)) {
        let mut bench = paired(&program)?;
        program.play(&mut bench).map_err(failed)?;
        bench.close().map_err(failed)?;
    }

    #[test]
    fn subscribers_change_nothing(program in programs(60)) {
        let orders = |subscribed| -> Result<_, TestCaseError> {
            let mut bench = Bench::alone(&program.options, subscribed).map_err(failed)?;
            bench.log = Some(Vec::new());
            program.play(&mut bench).map_err(failed)?;
            let mut outputs = bench.log.unwrap_or_default();
            outputs.retain(|output| !output.is_event());
            Ok((outputs, bench.pool.counts(), bench.pool.deadline()))
        };
        prop_assert_eq!(orders(true)?, orders(false)?);
    }
}
