//! Tests that the guide names each key, rate and event of scenarios, and no others.

use onionskin_worlds::world::{
    Disaster, Expect, Pace, Rates, Scenario, Scheduled, Work, Workload, WorldClient, WorldMember,
    WorldProxy, WorldShape,
};
use serde::de::DeserializeOwned;
use std::collections::BTreeSet;

const GUIDE: &str = include_str!("../../../docs/simulation.md");

/// The tag in the examples of the guide, which has the form of a key.
const TAG: &str = "dc";

/// Returns the part of the guide about scenarios.
fn part() -> &'static str {
    let (_, part) = GUIDE
        .split_once("\n### Exit codes and scenarios\n")
        .expect("the heading before");
    let (part, _) = part
        .split_once("\n### Scenarios in tests\n")
        .expect("the heading after");
    part
}

/// Returns the blocks of code of the part, each with the name of its language at the beginning.
fn blocks() -> Vec<&'static str> {
    part().split("```").skip(1).step_by(2).collect()
}

/// Returns the code in the lines of the part.
fn spans() -> Vec<&'static str> {
    let prose = part().split("```").step_by(2);
    prose
        .flat_map(|text| text.split('`').skip(1).step_by(2))
        .collect()
}

/// Returns the names that are possible where a text of JSON has `nothing`, which its error lists.
fn names<T: DeserializeOwned>(json: &str) -> BTreeSet<String> {
    let Err(error) = serde_json::from_str::<T>(json) else {
        panic!("{json} is a value");
    };
    let error = error.to_string();
    let listed = error
        .split_once("expected ")
        .map_or("", |(_, listed)| listed);
    let names = listed.split('`').skip(1).step_by(2);
    names.map(str::to_owned).collect()
}

fn keys_of<T: DeserializeOwned>() -> BTreeSet<String> {
    names::<T>(r#"{"nothing":1}"#)
}

fn values_of<T: DeserializeOwned>() -> BTreeSet<String> {
    names::<T>(r#""nothing""#)
}

fn events() -> BTreeSet<String> {
    values_of::<Disaster>()
}

/// Returns all keys of the tables of a scenario, and of its events.
fn keys() -> BTreeSet<String> {
    let tables = [
        keys_of::<Scenario>(),
        keys_of::<WorldClient>(),
        keys_of::<WorldMember>(),
        keys_of::<Rates>(),
        keys_of::<Scheduled>(),
        keys_of::<Expect>(),
    ];
    let events = events().into_iter();
    let fields =
        events.flat_map(|event| names::<Disaster>(&format!(r#"{{"{event}":{{"nothing":1}}}}"#)));
    tables.into_iter().flatten().chain(fields).collect()
}

/// Returns the values that are names.
fn values() -> BTreeSet<String> {
    let values = [
        values_of::<WorldShape>(),
        values_of::<Workload>(),
        values_of::<WorldProxy>(),
        values_of::<Pace>(),
        values_of::<Work>(),
    ];
    values.into_iter().flatten().collect()
}

/// True if a character is no part of a name.
fn is_between(c: char) -> bool {
    !c.is_ascii_lowercase() && c != '-'
}

/// Returns the names in the first column of the table with this heading.
fn column(heading: &str) -> BTreeSet<String> {
    let (_, rows) = part().split_once(heading).expect("the table");
    let rows = rows.lines().skip(2).take_while(|row| row.starts_with('|'));
    let first = rows.filter_map(|row| row.split('|').nth(1));
    let names = first.flat_map(|cell| cell.split('`').skip(1).step_by(2));
    names
        .map(|name| name.trim_matches('"').to_owned())
        .collect()
}

#[test]
fn the_errors_list_the_names() {
    assert!(keys_of::<Rates>().contains("half-open"));
    assert!(events().contains("step-down"));
    assert!(keys().contains("handshakes"), "a field of `overload`");
    assert!(keys().contains("up"), "a field of `cut-client`");
    assert!(values().contains("mostly-reads"));
}

#[test]
fn the_guide_names_each_key_and_event() {
    let code = blocks().into_iter().chain(spans());
    let words = code.flat_map(|text| text.split(is_between));
    let words: BTreeSet<&str> = words.collect();
    let names = keys().into_iter().chain(events()).chain(values());
    let missing: Vec<String> = names
        .filter(|name| !words.contains(name.as_str()))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
    assert_eq!(column("| Rate | Fault |"), keys_of::<Rates>());
    assert_eq!(column("| Key | Expectation |"), keys_of::<Expect>());
}

#[test]
fn the_guide_names_no_other_keys_and_events() {
    let (keys, events, values) = (keys(), events(), values());
    let is_known = |name: &str| keys.contains(name) || events.contains(name) || name == TAG;
    let blocks = blocks();
    let blocks = blocks
        .iter()
        .filter_map(|block| block.strip_prefix("toml\n"));
    let lines = blocks.flat_map(|block| block.lines());
    let lines = lines.map(|line| line.split('#').next().unwrap_or_default());
    for text in lines.chain(spans()) {
        let words: Vec<&str> = text.split_whitespace().collect();
        for pair in words.windows(2) {
            let [name, sign] = pair else { continue };
            assert!(*sign != "=" || is_known(name), "{text}");
        }
        let value = text.strip_prefix("event = ").unwrap_or(text);
        if let Some(name) = value.strip_prefix('"') {
            let name = name.trim_end().trim_end_matches('"');
            assert!(events.contains(name) || values.contains(name), "{text}");
        }
        if let Some(table) = text.strip_prefix('[') {
            let table = table.trim_end().trim_matches(['[', ']']);
            assert!(table.split('.').all(is_known), "{text}");
        }
    }
    let noted = column("| Event | Case |");
    assert!(noted.is_subset(&events), "{noted:?}, {events:?}");
}
