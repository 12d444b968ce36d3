//! Compares the store of the simulated server with the npm package mingo, which implements
//! MongoDB's queries, updates and pipelines in JavaScript.
//!
//! `ONIONSKIN_MINGO_CASES` sets the number of cases of each kind, and `ONIONSKIN_MINGO_SEED` the
//! seed.

use onionskin_tests::{
    mingo::{Comparison, Kind, compare},
    peers::{self, Scratch},
};
use std::{fs, process::Command, time::Duration};

/// The number of cases of each kind.
const CASES: usize = 2_000;

/// The largest share of cases that are not compared: one in this number.
const UNCOMPARED: usize = 50;

const RUN_TIMEOUT: Duration = Duration::from_secs(600);

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Returns a line for each case with mingo's answer.
fn answers(script: &std::path::Path, lines: &str) -> Vec<String> {
    let scratch = Scratch::new().expect("a folder");
    let input = scratch.path().join("cases.json");
    fs::write(&input, lines).expect("a file");
    let mut command = Command::new("node");
    command.arg(script).arg(&input);
    let output = peers::run(command, RUN_TIMEOUT).expect("it runs");
    assert!(output.status.success(), "{}", output.stderr);
    let answers = fs::read_to_string(input.with_extension("json.answers")).expect("the answers");
    answers.lines().map(str::to_owned).collect()
}

#[test]
fn mingo_answers_random_operations_alike() {
    let Some(script) = peers::mingo_script() else {
        return;
    };
    let count = number("ONIONSKIN_MINGO_CASES").map_or(CASES, |count| count as usize);
    let seed = number("ONIONSKIN_MINGO_SEED").unwrap_or(1);
    for kind in Kind::ALL {
        let cases = kind.cases(seed, count);
        let lines: Vec<String> = cases.iter().map(|case| case.line() + "\n").collect();
        let answers = answers(&script, &lines.concat());
        assert_eq!(answers.len(), count, "each case has an answer");
        let mut uncompared = 0;
        for (case, theirs) in cases.iter().zip(&answers) {
            match compare(case, theirs) {
                Comparison::Equal => {}
                Comparison::Explained(_) | Comparison::Refused(_) => uncompared += 1,
                Comparison::Different { ours, theirs } => panic!(
                    "{} of seed {seed}: {}\nours  {ours}\nmingo {theirs}",
                    kind.name(),
                    case.line()
                ),
            }
        }
        let name = kind.name();
        println!("{name}, seed {seed}: {count} cases, {uncompared} of them not compared");
        assert!(
            uncompared <= count / UNCOMPARED,
            "{name}: {uncompared} of {count}"
        );
    }
}
