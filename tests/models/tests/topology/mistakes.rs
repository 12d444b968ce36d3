//! Shows that the comparison of machine and model finds errors: for each mistake of the model, one
//! of the random scripts makes machine and model differ.

use crate::{
    bench::Bench,
    script::{Deployment, Script, scripts},
};
use onionskin_models::discovery::Mistake;
use proptest::{
    strategy::{Strategy, ValueTree},
    test_runner::TestRunner,
};

/// The number of random scripts for each deployment.
const SCRIPTS: usize = 300;

/// Draws random scripts, which are the same in every run.
fn drawn() -> Vec<Script> {
    let mut runner = TestRunner::deterministic();
    let mut drawn = Vec::new();
    let strategies = [
        scripts(Deployment::ReplicaSet).boxed(),
        scripts(Deployment::Lying).boxed(),
        scripts(Deployment::Sharded).boxed(),
        scripts(Deployment::Standalone).boxed(),
    ];
    for _ in 0..SCRIPTS {
        for strategy in &strategies {
            let tree = strategy.new_tree(&mut runner).expect("it can be drawn");
            drawn.push(tree.current());
        }
    }
    drawn
}

fn disagreement(script: &Script, mistake: Mistake) -> Option<String> {
    let mut bench = match Bench::paired(&script.config, Some(mistake)) {
        Ok(bench) => bench,
        Err(what) => return Some(what),
    };
    script.play(&mut bench).err()
}

/// Asserts that each mistake is found by one of the scripts.
fn are_all_found(mistakes: &[Mistake]) {
    let scripts = drawn();
    let mut missed = Vec::new();
    for &mistake in mistakes {
        let found = scripts
            .iter()
            .enumerate()
            .find_map(|(i, script)| Some((i, disagreement(script, mistake)?)));
        match found {
            Some((i, what)) => {
                let end = what.rfind(": ").map_or("", |at| &what[at..]);
                println!("{mistake:?}: script {i}{end}");
            }
            None => missed.push(mistake),
        }
    }
    assert!(missed.is_empty(), "not found: {missed:?}");
}

#[test]
fn random_inputs_find_model_mistakes_that_no_official_test_file_finds() {
    are_all_found(&Mistake::UNCHECKED);
}

#[test]
fn random_inputs_find_model_mistakes_that_official_test_files_find() {
    are_all_found(&Mistake::CHECKED);
}
