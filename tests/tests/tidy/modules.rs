//! Which files are modules, and which modules of the core may know of which.

use std::collections::{BTreeMap, BTreeSet};

use crate::source::{code_only, without_comments};
use crate::words::contains_word;

/// Files by path, with their text.
pub(crate) type Files = BTreeMap<String, String>;

/// Rust files that no target reaches by `mod`, among those of all packages.
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
        // The candidates of `children` that do not exist, and files visited before, end here.
        ahead.retain(|path| files.contains_key(path) && !alive.contains(path));
    }
    files
        .keys()
        .filter(|path| path.ends_with(".rs") && !alive.contains(*path))
        .map(|path| format!("{path}: no `mod` leads to it"))
        .collect()
}

/// Whether cargo takes the file for the root of a target without being told.
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

/// Where the modules that a file declares may lie.
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
        || ["tests", "benches", "examples", "bin"].contains(&parent)
}

/// The modules in the order in which `lib.rs` declares them.
pub(crate) fn declared_modules(lib: &str) -> Vec<String> {
    let declared = |line: &str| {
        let line = line.trim();
        let rest = line.strip_prefix("pub ").unwrap_or(line);
        Some(rest.strip_prefix("mod ")?.strip_suffix(';')?.to_owned())
    };
    code_only(lib).lines().filter_map(declared).collect()
}

/// Uses of a module by one that is declared above it. Unit tests may look down.
pub(crate) fn looks_down(order: &[String], path: &str, text: &str) -> Vec<String> {
    let inside = path.split("src/").nth(1).unwrap_or(path);
    let module = inside
        .split('/')
        .next()
        .unwrap_or(inside)
        .trim_end_matches(".rs");
    let Some(position) = order.iter().position(|name| name == module) else {
        return Vec::new();
    };
    let code = code_only(text);
    let code = crate::source::above_tests(&code);
    let below = &order[position + 1..];
    let uses = |name: &&String| contains_word(code, &format!("crate::{name}"));
    let found = below.iter().filter(uses);
    found
        .map(|name| format!("{path}: `{module}` names `{name}`, which is declared below it"))
        .collect()
}

#[test]
fn a_file_that_no_mod_reaches_is_found() {
    let files: Files = [
        ("a/Cargo.toml", "[[bin]]\npath = \"commands/run.rs\"\n"),
        (
            "a/src/lib.rs",
            "mod used;\npub mod folder;\n// mod dead;\nconst S: &str = \"mod dead;\";",
        ),
        ("a/src/used.rs", "pub(crate) mod child;"),
        ("a/src/used/child.rs", ""),
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
fn a_module_that_looks_down_is_found() {
    let order = declared_modules("/// First.\npub mod wire;\nmod pool;\npub use wire::Frame;\n");
    assert_eq!(order, ["wire", "pool"]);
    let down = "use crate::pool::Pool;\n";
    assert_eq!(looks_down(&order, "core/src/wire/frame.rs", down).len(), 1);
    assert!(looks_down(&order, "core/src/pool/mod.rs", "use crate::wire::Frame;\n").is_empty());
    assert!(looks_down(&order, "core/src/wire.rs", "// See crate::pool.\n").is_empty());
    let in_tests = format!("\n#[cfg(test)]\nmod tests {{\n    {down}}}\n");
    assert!(looks_down(&order, "core/src/wire.rs", &in_tests).is_empty());
}
