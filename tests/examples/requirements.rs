//! Reports which rules of `docs/requirements` no test shows: neither one of ours that cites the
//! rule, nor an official test file that a runner reads.
//!
//! `cargo requirements` prints the figures of all specifications. `cargo requirements CMAP LB` also
//! lists the rules of these two that no test shows. A rule that `docs/requirements/later.md` cites
//! is not implemented or asks nothing of this driver. Such a rule is not reported as a rule without
//! a test.

use onionskin_tests::requirements::{
    Citations, FOLDER, LATER, Rule, citations, has_official_test, prefixes, rules,
};
use std::{
    collections::BTreeSet,
    env, fs,
    path::{Path, PathBuf},
};

fn main() -> Result<(), String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .ok_or("the crate lies in no workspace")?;
    let mut defined = Vec::new();
    for (file, text) in texts(root, &root.join(FOLDER))? {
        if file != LATER {
            defined.extend(rules(&file, &text)?);
        }
    }
    let prefixes = prefixes(&defined);
    let (mut cited, mut folders) = (Citations::default(), BTreeSet::new());
    for folder in ["core", "adapters", "simulations", "tests"] {
        for (file, text) in texts(root, &root.join(folder))? {
            if file.ends_with(".rs") {
                cited.add(&file, &text, &prefixes);
            }
            if file.starts_with("tests/tests/") || file.starts_with("tests/src/suites/") {
                folders.extend(official_folders(&text));
            }
        }
    }
    let later =
        fs::read_to_string(root.join(LATER)).map_err(|error| format!("{LATER}: {error}"))?;
    let later: BTreeSet<String> = later
        .lines()
        .flat_map(|line| citations(line, &prefixes))
        .collect();
    let wanted: Vec<String> = env::args().skip(1).collect();
    println!("{:8} rules  cited  in tests  official  not shown", "");
    for prefix in prefixes {
        let is_own = |rule: &&Rule| {
            let number = rule.anchor.split_once('-');
            rule.is_numbered && number.is_some_and(|(own, _)| own == prefix)
        };
        let own: Vec<&Rule> = defined.iter().filter(is_own).collect();
        let count = |is: &dyn Fn(&Rule) -> bool| own.iter().filter(|rule| is(rule)).count();
        let in_tests = |rule: &Rule| cited.tests.contains_key(&rule.anchor);
        let is_cited = |rule: &Rule| in_tests(rule) || cited.code.contains_key(&rule.anchor);
        let is_official = |rule: &Rule| has_official_test(rule, &folders);
        let is_missing =
            |rule: &Rule| !in_tests(rule) && !is_official(rule) && !later.contains(&rule.anchor);
        println!(
            "{prefix:8} {:5}  {:5}  {:8}  {:8}  {:9}",
            own.len(),
            count(&is_cited),
            count(&in_tests),
            count(&is_official),
            count(&is_missing)
        );
        if wanted.contains(&prefix) {
            for rule in own.iter().filter(|rule| is_missing(rule)) {
                let mark = if is_cited(rule) { "cited" } else { "" };
                println!("    {:8} {mark:5} {}", rule.anchor, rule.text);
            }
        }
    }
    Ok(())
}

/// Returns the folders of official tests that a runner reads: the strings in its text that contain
/// `/tests`.
fn official_folders(text: &str) -> impl Iterator<Item = String> {
    let strings = text.split('"').skip(1).step_by(2);
    strings
        .filter(|path| path.contains("/tests") && !path.contains(char::is_whitespace))
        .map(str::to_owned)
}

/// Returns the paths, relative to the root, and the texts of the Rust and Markdown files below a
/// folder. The folders `target` and `node_modules` are left out.
fn texts(root: &Path, folder: &Path) -> Result<Vec<(String, String)>, String> {
    let entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    let mut found = Vec::new();
    for path in paths {
        let name = path.file_name().unwrap_or_default();
        if path.is_dir() {
            if name != "target" && name != "node_modules" {
                found.extend(texts(root, &path)?);
            }
        } else if path.extension().is_some_and(|e| e == "rs" || e == "md") {
            let text = fs::read_to_string(&path);
            let text = text.map_err(|error| format!("{}: {error}", path.display()))?;
            let below = path.strip_prefix(root).unwrap_or(&path);
            found.push((below.to_string_lossy().replace('\\', "/"), text));
        }
    }
    Ok(found)
}
