//! Rules about the crates that a package depends on, its own ones and those of others.

use crate::{
    report,
    source::{read, root},
};
use std::{collections::BTreeSet, process::Command};

/// The list of crates that the core may depend on, each with a reason.
const CORE_DEPENDENCIES: &str = "tests/tests/tidy/core-dependencies.txt";

/// The largest number of crates that the simulated servers and worlds add to the tests of an
/// application that uses `onionskin-tokio`.
const ADDED_MAX: usize = 25;

/// Crates on which deployments on sockets do not depend without a Cargo feature: clients, TLS,
/// other runtimes, and the command line.
const NOT_FOR_SOCKETS: [&str; 8] = [
    "async-std",
    "clap",
    "indicatif",
    "onionskin",
    "onionskin-worlds",
    "rcgen",
    "rustls",
    "smol",
];

/// Returns the crates that packages depend on, one in each line, with the features that cargo
/// enables for these packages together.
fn tree(packages: &[&str], edges: &str, features: &str) -> String {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let packages = packages.iter().flat_map(|package| ["--package", *package]);
    let output = Command::new(cargo)
        .arg("tree")
        .args(packages)
        .args(["--edges", edges, "--features", features])
        .args(["--prefix", "none", "--locked", "--offline"])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Returns the crates of a tree, each with its version.
fn crates(tree: &str) -> BTreeSet<String> {
    let words = tree.lines().map(|line| line.split_whitespace().take(2));
    let crates = words.map(|words| words.collect::<Vec<_>>().join(" "));
    crates.filter(|name| !name.is_empty()).collect()
}

/// Returns the list of the crates that one tree has and the other one lacks, if it is too long.
fn too_many_added(alone: &str, together: &str, most: usize) -> Vec<String> {
    let (alone, together) = (crates(alone), crates(together));
    let added: Vec<&str> = together.difference(&alone).map(String::as_str).collect();
    if added.len() <= most {
        return Vec::new();
    }
    let (count, list) = (added.len(), added.join(", "));
    vec![format!(
        "{count} crates are added, more than {most}: {list}"
    )]
}

/// Finds crates of a tree that it must not have.
fn forbidden(tree: &str, names: &[&str]) -> Vec<String> {
    let crates = crates(tree);
    let present = crates.iter().filter_map(|entry| entry.split(' ').next());
    let present: BTreeSet<&str> = present.collect();
    let found = names.iter().filter(|name| present.contains(**name));
    found
        .map(|name| format!("{name}: make the dependency optional"))
        .collect()
}

/// Finds differences between the dependencies and the list of permitted ones, and entries of the
/// list that occur twice or have no reason.
fn dependencies(tree: &str, allowed: &str) -> Vec<String> {
    let name = |line: &str| line.split_whitespace().next().map(str::to_owned);
    let mut present: BTreeSet<String> = tree.lines().filter_map(name).collect();
    present.remove("onionskin-core");
    let mut listed = BTreeSet::new();
    let mut found = Vec::new();
    for line in allowed
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
    {
        let (name, reason) = line.split_once(':').unwrap_or((line, ""));
        if reason.trim().is_empty() {
            found.push(format!("{name}: no reason is given"));
        }
        if !listed.insert(name.trim().to_owned()) {
            found.push(format!("{name}: listed twice"));
        }
    }
    let new = present.difference(&listed);
    found.extend(new.map(|name| format!("{name}: a new dependency; list it with its reason")));
    let stale = listed.difference(&present);
    found.extend(stale.map(|name| format!("{name}: no longer a dependency; take it off the list")));
    found
}

#[test]
fn the_core_depends_only_on_listed_crates() {
    let tree = tree(&["onionskin-core"], "normal", "");
    let violations = dependencies(&tree, &read(CORE_DEPENDENCIES));
    assert!(
        violations.is_empty(),
        "{CORE_DEPENDENCIES}:\n{}",
        violations.join("\n")
    );
}

#[test]
fn the_servers_and_worlds_add_few_crates_to_an_application() {
    let edges = "normal,build";
    let alone = tree(&["onionskin-tokio"], edges, "");
    let packages = [
        "onionskin-tokio",
        "onionskin-deployment",
        "onionskin-worlds",
    ];
    let together = tree(&packages, edges, "onionskin-worlds/tokio");
    assert!(crates(&together).len() > crates(&alone).len(), "{together}");
    report(too_many_added(&alone, &together, ADDED_MAX));
}

#[test]
fn deployments_on_sockets_need_no_client_and_no_command_line() {
    let tree = tree(&["onionskin-serve"], "normal,build", "");
    assert!(tree.contains("onionskin-deployment"), "{tree}");
    report(forbidden(&tree, &NOT_FOR_SOCKETS));
}

#[test]
fn too_many_and_forbidden_crates_are_found() {
    let alone = "onionskin-tokio v0.1.0 (/x)\nbson v3.1.0\n";
    let together = format!("{alone}\nregex v1.13.1\nregex v1.13.1 (*)\nbson v4.0.0\n");
    assert!(too_many_added(alone, &together, 2).is_empty());
    assert_eq!(
        too_many_added(alone, &together, 1),
        ["2 crates are added, more than 1: bson v4.0.0, regex v1.13.1"]
    );
    assert!(forbidden(&together, &["onionskin"]).is_empty());
    assert_eq!(forbidden(&together, &["clap", "regex"]).len(), 1);
}

#[test]
fn new_stale_and_unexplained_dependencies_are_found() {
    let tree = "onionskin-core v0.1.0 (/x)\nbson v3.1.0\nsha2 v0.10.9\nsha2 v0.10.9 (*)\n";
    assert!(dependencies(tree, "# a list\nbson: documents\nsha2: SCRAM\n").is_empty());
    assert_eq!(
        dependencies(tree, "bson: documents\nbson: again\nmd-5:\n"),
        [
            "bson: listed twice",
            "md-5: no reason is given",
            "sha2: a new dependency; list it with its reason",
            "md-5: no longer a dependency; take it off the list",
        ]
    );
}
