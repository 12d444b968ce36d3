//! Shows that the comparison of pool and model finds errors: for each mistake of the model, one of
//! the random programs makes pool and model differ.

use crate::{
    bench::Bench,
    program::{Program, programs},
};
use onionskin_models::pool::Mistake;
use proptest::{
    strategy::{Strategy, ValueTree},
    test_runner::TestRunner,
};

/// The number of random programs in which a mistake must show.
const PROGRAMS: usize = 1000;

/// Draws random programs, which are the same in every run.
fn drawn() -> Vec<Program> {
    let mut runner = TestRunner::deterministic();
    let strategy = programs(60);
    let mut draw = || strategy.new_tree(&mut runner).expect("it can be drawn");
    (0..PROGRAMS).map(|_| draw().current()).collect()
}

fn disagreement(program: &Program, mistake: Mistake) -> Option<String> {
    let bench = Bench::paired(&program.options, program.subscribed, Some(mistake));
    match bench {
        Ok(mut bench) => program.play(&mut bench).err(),
        Err(what) => Some(what),
    }
}

/// Asserts that each mistake is found by one of the programs.
fn are_all_found(mistakes: &[Mistake]) {
    let programs = drawn();
    let mut missed = Vec::new();
    for &mistake in mistakes {
        let found = programs
            .iter()
            .enumerate()
            .find_map(|(i, program)| Some((i, disagreement(program, mistake)?)));
        match found {
            Some((i, what)) => println!("{mistake:?}: program {i}, {what}"),
            None => missed.push(mistake),
        }
    }
    assert!(missed.is_empty(), "not found: {missed:?}");
}

#[test]
fn random_inputs_find_model_mistakes_about_the_cmap_traps() {
    are_all_found(&Mistake::TRAPS);
}

#[test]
fn random_inputs_find_model_mistakes_about_other_pool_rules() {
    are_all_found(&Mistake::OTHERS);
}

#[test]
fn random_inputs_find_model_mistakes_about_load_balanced_pools() {
    are_all_found(&Mistake::BALANCED);
}
