//! Finds Rust files that are not part of any target, and saved seeds that no test replays.

use std::collections::{BTreeMap, BTreeSet};

use crate::source::{code_only, without_comments};

/// The texts of files, by path.
pub(crate) type Files = BTreeMap<String, String>;

/// Finds Rust files that no target of any package reaches by `mod`.
pub(crate) fn dead_files(files: &Files) -> Vec<String> {
    let packages: Vec<&str> = files
        .keys()
        .filter_map(|path| path.strip_suffix("Cargo.toml"))
        .collect();
    let mut alive = BTreeSet::new();
    let mut ahead: Vec<String> = Vec::new();
    for path in files.keys().filter(|path| path.ends_with(".rs")) {
        let package = packages
            .iter()
            .filter(|package| path.starts_with(**package));
        let Some(package) = package.max_by_key(|package| package.len()) else {
            continue;
        };
        let manifest = &files[&format!("{package}Cargo.toml")];
        let inside = &path[package.len()..];
        if is_root(inside) || manifest.contains(&format!("path = \"{inside}\"")) {
            ahead.push(path.clone());
        }
    }
    while let Some(path) = ahead.pop() {
        if let Some(text) = files.get(&path) {
            ahead.extend(children(&path, text));
            alive.insert(path);
        }
        // Removes candidates of `children` that do not exist, and files that were visited before.
        ahead.retain(|path| files.contains_key(path) && !alive.contains(path));
    }
    files
        .keys()
        .filter(|path| path.ends_with(".rs") && !alive.contains(*path))
        .map(|path| format!("{path}: no `mod` leads to it"))
        .collect()
}

/// True if cargo takes the file as the root of a target without an entry in the manifest.
fn is_root(inside: &str) -> bool {
    let parts: Vec<&str> = inside.split('/').collect();
    matches!(
        parts.as_slice(),
        ["build.rs"]
            | ["src", "lib.rs" | "main.rs"]
            | ["src", "bin", _]
            | ["src", "bin", _, "main.rs"]
            | ["tests" | "benches" | "examples", _]
            | ["tests" | "benches" | "examples", _, "main.rs"]
    )
}

/// Returns the possible paths of the modules that a file declares.
fn children(path: &str, text: &str) -> Vec<String> {
    let (directory, name) = path.rsplit_once('/').unwrap_or(("", path));
    let stem = name.strip_suffix(".rs").unwrap_or(name);
    let of_root = is_root_name(path, stem);
    let below = if of_root {
        directory.to_owned()
    } else {
        format!("{directory}/{stem}")
    };
    let mut found = Vec::new();
    for line in code_only(text).lines() {
        let Some(rest) = line.trim().strip_suffix(';') else {
            continue;
        };
        let Some((before, module)) = rest.rsplit_once("mod ") else {
            continue;
        };
        if before.is_empty() || before.ends_with([' ', ')', ']']) {
            found.push(format!("{below}/{module}.rs"));
            found.push(format!("{below}/{module}/mod.rs"));
        }
    }
    for line in without_comments(text).lines() {
        let given = line.trim().strip_prefix("#[path = \"");
        if let Some((given, _)) = given.and_then(|rest| rest.split_once('"')) {
            found.push(format!("{directory}/{given}"));
        }
    }
    found
}

fn is_root_name(path: &str, stem: &str) -> bool {
    let parent = path.rsplit('/').nth(1).unwrap_or_default();
    ["lib", "main", "mod"].contains(&stem)
        || parent == "bin"
        // Below `src`, a folder `tests` has modules. Elsewhere, its files are targets.
        || ["tests", "benches", "examples"].contains(&parent) && !path.contains("/src/")
}

/// Returns a message for each file with seeds of property tests whose test module does not exist.
/// Such seeds are never replayed.
pub(crate) fn orphaned_seeds(paths: &[String]) -> Vec<String> {
    let mut found = Vec::new();
    for path in paths {
        let Some((package, below)) = path.split_once("/proptest-regressions/") else {
            continue;
        };
        let Some(module) = below.strip_suffix(".txt") else {
            continue;
        };
        let sources = ["src", "tests"].map(|folder| format!("{package}/{folder}/{module}.rs"));
        if !sources.iter().any(|source| paths.contains(source)) {
            found.push(format!("{path}: there is no module {module}.rs"));
        }
    }
    found
}

#[test]
fn a_file_that_no_mod_reaches_is_found() {
    let files: Files = [
        ("a/Cargo.toml", "[[bin]]\npath = \"commands/run.rs\"\n"),
        (
            "a/src/lib.rs",
            "mod used;\npub mod folder;\n// mod dead;\nconst S: &str = \"mod dead;\";",
        ),
        (
            "a/src/used.rs",
            "pub(crate) mod child;\n#[cfg(test)]\nmod tests;",
        ),
        ("a/src/used/child.rs", ""),
        ("a/src/used/tests/mod.rs", "mod group;"),
        ("a/src/used/tests/group.rs", "mod scene;"),
        ("a/src/used/tests/group/scene.rs", ""),
        ("a/src/folder/mod.rs", "#[cfg(test)]\nmod tests;"),
        ("a/src/folder/tests.rs", ""),
        ("a/src/dead.rs", "mod child;"),
        ("a/src/dead/child.rs", ""),
        ("a/commands/run.rs", ""),
        ("a/tests/suite.rs", "mod common;"),
        ("a/tests/common/mod.rs", ""),
        ("a/tests/other/lonely.rs", ""),
    ]
    .map(|(path, text)| (path.to_owned(), text.to_owned()))
    .into();
    let dead = [
        "a/src/dead.rs",
        "a/src/dead/child.rs",
        "a/tests/other/lonely.rs",
    ];
    assert_eq!(
        dead_files(&files),
        dead.map(|path| format!("{path}: no `mod` leads to it"))
    );
}

#[test]
fn seeds_without_a_test_are_found() {
    let paths = [
        "a/src/b.rs",
        "a/proptest-regressions/b.txt",
        "a/proptest-regressions/c.txt",
    ];
    let found = orphaned_seeds(&paths.map(str::to_owned));
    assert_eq!(found.len(), 1);
    assert!(found[0].contains("c.rs"), "{found:?}");
}
