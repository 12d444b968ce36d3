//! Properties of the connection pool for all inputs: it agrees with the model, and its orders and
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
    fn the_pool_agrees_with_its_model_after_each_random_input(program in programs(120)) {
        let mut bench = paired(&program)?;
        program.play(&mut bench).map_err(failed)?;
    }

    // The watcher checks the counts, the limits, the order of the wait queue and the generations.
    // Each check out and each connection must end once.
    #[test]
    fn every_check_out_gets_a_result_and_every_connection_is_closed(program in programs(60)) {
        let mut bench = paired(&program)?;
        program.play(&mut bench).map_err(failed)?;
        bench.settle().map_err(failed)?;
        bench.close().map_err(failed)?;
    }

    #[test]
    fn closing_a_pool_at_any_time_ends_all_check_outs_and_connections(program in programs(40)) {
        let mut bench = paired(&program)?;
        program.play(&mut bench).map_err(failed)?;
        bench.close().map_err(failed)?;
    }

    #[test]
    fn event_subscribers_do_not_change_pool_actions(program in programs(60)) {
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
