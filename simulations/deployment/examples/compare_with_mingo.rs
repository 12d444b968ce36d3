//! Compares the store with the npm package mingo on random operations.
//!
//! `compare_with_mingo SCRIPT KIND SEED COUNT`, where SCRIPT is the path that
//! `tests/peers/mingo/build.sh` prints, and KIND is `filter`, `find`, `update`, `expression`,
//! `pipeline` or `all`. Prints the first differences, and how many cases had each result.
//!
//! `compare_with_mingo cases KIND SEED COUNT` only prints the cases, each as a line of Extended
//! JSON.

// This module belongs to the crate of the common tests.
#[allow(unreachable_pub)]
#[path = "../../../tests/src/mingo/mod.rs"]
mod mingo;

use mingo::{Case, Comparison, Kind, compare};
use std::collections::BTreeMap;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};

/// The number of differences of a kind that are printed.
const PRINTED: usize = 20;

/// Returns a line for each case with mingo's answer.
fn answers(script: &str, cases: &[Case]) -> io::Result<Vec<String>> {
    let mut node = Command::new("node")
        .arg(script)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut input = node.stdin.take().expect("it is piped");
    let lines: Vec<String> = cases.iter().map(|case| case.line() + "\n").collect();
    let writer = std::thread::spawn(move || input.write_all(lines.concat().as_bytes()));
    let output = BufReader::new(node.stdout.take().expect("it is piped"));
    let answers = output.lines().collect::<io::Result<Vec<_>>>()?;
    writer.join().expect("it does not panic")?;
    node.wait()?;
    Ok(answers)
}

fn run(script: &str, kind: Kind, seed: u64, count: usize) -> io::Result<()> {
    let cases = kind.cases(seed, count);
    let answers = answers(script, &cases)?;
    let (mut counts, mut printed) = (BTreeMap::new(), 0);
    for (case, theirs) in cases.iter().zip(&answers) {
        let result = match compare(case, theirs) {
            Comparison::Equal => "equal",
            Comparison::Explained(reason) => reason,
            Comparison::Refused(_) => "refused",
            Comparison::Different { ours, theirs } => {
                if printed < PRINTED {
                    println!("{}\nours  {ours}\nmingo {theirs}\n", case.line());
                }
                printed += 1;
                "different"
            }
        };
        *counts.entry(result).or_insert(0_u64) += 1;
    }
    println!("{}, seed {seed}: {counts:?}", kind.name());
    Ok(())
}

fn print_cases(kind: Kind, seed: u64, count: usize) -> io::Result<()> {
    let mut output = io::stdout().lock();
    for case in kind.cases(seed, count) {
        writeln!(output, "{}", case.line())?;
    }
    Ok(())
}

fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [script, kind, seed, count] = arguments.as_slice() else {
        return Err(io::Error::other("usage: SCRIPT|cases KIND SEED COUNT"));
    };
    let seed = seed.parse().map_err(io::Error::other)?;
    let count = count.parse().map_err(io::Error::other)?;
    for known in Kind::ALL {
        if kind == "all" || kind == known.name() {
            match script.as_str() {
                "cases" => print_cases(known, seed, count)?,
                _ => run(script, known, seed, count)?,
            }
        }
    }
    Ok(())
}
