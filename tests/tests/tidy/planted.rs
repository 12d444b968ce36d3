//! The rules about planted bugs (`tests/planted/run.sh`).

use crate::source::{files, read, root};
use std::{collections::BTreeSet, process::Command};

/// The smallest number of planted bugs.
const LEAST: usize = 20;

fn patches() -> Vec<String> {
    let is_patch = |path: &String| path.starts_with("tests/planted/") && path.ends_with(".patch");
    let patches: Vec<String> = files().into_iter().filter(is_patch).collect();
    assert!(patches.len() >= LEAST, "{patches:?}");
    patches
}

/// Returns a field of the head of a patch.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let head = text.split("\n\n").next().unwrap_or_default();
    let mut lines = head.lines();
    lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

/// Returns the name of the scenario that finds the bug of a patch.
fn scenario_of(text: &str) -> &str {
    let find = field(text, "Find").unwrap_or_default();
    find.split(' ').next().unwrap_or_default()
}

/// Returns what is wrong with the head of a patch.
fn fault(text: &str) -> Option<&'static str> {
    let find = field(text, "Find").unwrap_or_default();
    let name = scenario_of(text);
    let scenario = root().join(format!("simulations/scenarios/{name}.toml"));
    if !field(text, "Bug").is_some_and(|bug| bug.ends_with('.')) {
        return Some("`Bug` is not a sentence");
    }
    // `run.sh` replaces the last word by the seed that fails.
    let ends_with_seeds = find.rsplit(' ').nth(1) == Some("--seeds");
    if !scenario.is_file() || !ends_with_seeds {
        return Some("`Find` does not begin with a scenario and end with seeds");
    }
    let is_known = matches!(field(text, "Exit"), Some("3" | "4" | "5"));
    (!is_known).then_some("`Exit` is not 3, 4 or 5")
}

#[test]
fn planted_bugs_say_what_they_are_and_what_finds_them() {
    for path in patches() {
        assert_eq!(fault(&read(&path)), None, "{path}");
    }
    let head = "Bug: A write is lost.\nFind: mixed --seeds 0..9\nExit: 4\n\ndiff";
    assert_eq!(fault(head), None);
    for (part, other) in [
        ("lost.", "lost"),
        ("mixed", "other"),
        ("Exit: 4", "Exit: 2"),
    ] {
        assert!(fault(&head.replace(part, other)).is_some(), "{other}");
    }
}

#[test]
fn each_scenario_finds_a_planted_bug() {
    let found = patches().into_iter().map(|path| read(&path));
    let found: BTreeSet<String> = found.map(|text| scenario_of(&text).to_owned()).collect();
    let name = |path: String| {
        let file = path.strip_prefix("simulations/scenarios/")?;
        file.strip_suffix(".toml").map(str::to_owned)
    };
    let scenarios: BTreeSet<String> = files().into_iter().filter_map(name).collect();
    let missing: Vec<&String> = scenarios.difference(&found).collect();
    assert!(
        missing.is_empty(),
        "plant a bug in tests/planted for {missing:?}"
    );
}

/// A patch that no longer applies must be renewed with the code that it changes.
#[test]
fn planted_bugs_apply() {
    for path in patches() {
        let output = Command::new("git")
            .args(["apply", "--check", &path])
            .current_dir(root())
            .output();
        // Without git, for example in an unpacked archive, nothing can be checked.
        let Ok(output) = output else { return };
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{path}: {text}");
    }
}
