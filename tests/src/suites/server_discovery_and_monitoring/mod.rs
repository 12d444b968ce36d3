//! The runner of `server-discovery-and-monitoring`. For each phase of a file, the runner gives the
//! core's discovery machine the replies to its checks and the errors of operations. Then the runner
//! compares the events or the topology with the outcome of the phase.

mod error;
mod events;
mod outcome;
mod world;

use crate::{
    report::{Skip, Suite},
    specifications::{TestFile, files},
};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use world::World;

/// Cases that are not expected to pass.
const SKIPS: &[Skip] = &[];

/// The folders whose files are run.
const PLAYED: [&str; 6] = [
    "errors",
    "load-balanced",
    "monitoring",
    "rs",
    "sharded",
    "single",
];

/// Runs the suite and prints its report.
///
/// # Panics
///
/// If a case fails or none passes, and with `CI=true` if the official files are missing.
pub fn run() {
    let Some(files) = files("server-discovery-and-monitoring/tests") else {
        return;
    };
    let mut suite = Suite::new("server-discovery-and-monitoring", SKIPS);
    let mut not_played = BTreeMap::<String, u32>::new();
    for file in &files {
        let folder = file.name.split_once('/').map_or("", |(folder, _)| folder);
        if PLAYED.contains(&folder) {
            play(&mut suite, file);
        } else if folder == "unified" {
            *not_played.entry(folder.to_owned()).or_default() += 1;
        } else {
            suite.unreadable(&file.name, "lies in a folder that the suite does not know");
        }
    }
    for (folder, count) in not_played {
        suite.not_attempted(format!(
            "{folder}: {count} files of the unified test format"
        ));
    }
    suite.finish();
}

fn play(suite: &mut Suite, file: &TestFile) {
    let content = match &file.content {
        Ok(content) => content,
        Err(reason) => return suite.unreadable(&file.name, reason),
    };
    let description = content.get("description").and_then(Value::as_str);
    suite.case(&file.name, description.unwrap_or(""), || {
        play_file(content, Hints::Followed)?;
        play_file(&without_hints(content), Hints::Ignored)
    });
}

/// The client's use of the type `PossiblePrimary`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Hints {
    Followed,
    Ignored,
}

/// Returns the file for a client in which `PossiblePrimary` is the same as `Unknown` (SDAM-12).
fn without_hints(content: &Value) -> Value {
    match content {
        Value::String(text) if text == "PossiblePrimary" => Value::from("Unknown"),
        Value::Array(values) => values.iter().map(without_hints).collect(),
        Value::Object(fields) => {
            let fields = fields.iter();
            Value::Object(fields.map(|(k, v)| (k.clone(), without_hints(v))).collect())
        }
        other => other.clone(),
    }
}

fn play_file(content: &Value, hints: Hints) -> Result<(), String> {
    let content = object(content)?;
    only_keys(content, &["description", "uri", "phases", "_comment"])?;
    let uri = content.get("uri").and_then(Value::as_str).ok_or("no uri")?;
    let mut world = World::new(uri, hints == Hints::Followed)?;
    for (number, phase) in list(content.get("phases"))?.iter().enumerate() {
        play_phase(&mut world, phase).map_err(|reason| format!("phase {number}: {reason}"))?;
    }
    world.close()
}

fn play_phase(world: &mut World, phase: &Value) -> Result<(), String> {
    let phase = object(phase)?;
    only_keys(
        phase,
        &["description", "responses", "applicationErrors", "outcome"],
    )?;
    for response in list(phase.get("responses"))? {
        let [Value::String(address), reply] = list(Some(response))?.as_slice() else {
            return Err(format!("a response is a pair, not {response}"));
        };
        world.answer(address, reply)?;
    }
    for error in list(phase.get("applicationErrors"))? {
        error::report(world, object(error)?)?;
    }
    let outcome = object(phase.get("outcome").ok_or("no outcome")?)?;
    let happened = world.take_events();
    match outcome.get("events") {
        Some(expected) => {
            only_keys(outcome, &["events"])?;
            events::compare(list(Some(expected))?, &happened)
        }
        None => outcome::compare(outcome, world),
    }
}

fn object(value: &Value) -> Result<&Map<String, Value>, String> {
    value
        .as_object()
        .ok_or_else(|| format!("an object is expected, not {value}"))
}

/// Returns the entries of a list, or none if the list is missing.
fn list(value: Option<&Value>) -> Result<&Vec<Value>, String> {
    static EMPTY: Vec<Value> = Vec::new();
    match value {
        None => Ok(&EMPTY),
        Some(value) => value
            .as_array()
            .ok_or_else(|| format!("a list is expected, not {value}")),
    }
}

/// Fails on a key that this runner does not know, because the runner would not check its value.
fn only_keys(object: &Map<String, Value>, known: &[&str]) -> Result<(), String> {
    match object.keys().find(|key| !known.contains(&key.as_str())) {
        Some(key) => Err(format!("the key {key:?} is not known to the runner")),
        None => Ok(()),
    }
}

/// Returns an error with both values if they differ.
fn equal(what: &str, actual: &Value, expected: &Value) -> Result<(), String> {
    if actual == expected {
        return Ok(());
    }
    Err(format!("{what} is {actual}, not {expected}"))
}
