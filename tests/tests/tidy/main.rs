//! The rules about the repository, one test for each. Most rules have another test, which shows
//! that the rule finds violations. `cargo tidy` runs them.

mod constants;
mod crates;
mod docs;
mod fences;
mod lengths;
mod logs;
mod messages;
mod modules;
mod order;
mod parts;
mod planted;
mod rules;
mod source;
mod surface;
mod syntax;
mod words;

use std::collections::BTreeSet;
use std::process::Command;

use modules::Files;
use source::{files, read, root};
use syntax::Module;

/// The endings of the files that contain our text and code.
const OURS: [&str; 8] = [".rs", ".md", ".toml", ".sh", ".py", ".js", ".txt", ".yml"];

/// The adapters to runtimes, which must have the same files.
const ADAPTERS: [&str; 3] = ["async-std", "smol", "tokio"];

/// The blocking adapter, which is a runtime itself.
const BLOCKING: &str = "blocking";

/// The names of the client, of its parts, and of types and modules that belong to them.
const NAMES: [&str; 19] = [
    "Client",
    "Connections",
    "connections",
    "Pools",
    "pools",
    "Pins",
    "pins",
    "Operations",
    "operations",
    "Questions",
    "questions",
    "SeedList",
    "seeds",
    "Sdam",
    "sdam",
    "Choice",
    "choice",
    "Timers",
    "Outbox",
];

/// The parts of the client that own state, each with the only [`NAMES`] that it may use.
const OWNERS: [(&str, &[&str]); 6] = [
    (
        "client::connections",
        &["Connections", "connections", "sdam"],
    ),
    ("client::pools", &["Pools", "pools"]),
    ("client::pins", &["Pins", "pins"]),
    (
        "client::attempts::operations",
        &["Operations", "operations"],
    ),
    ("client::questions::table", &["Questions", "questions"]),
    ("client::seeds::list", &["SeedList", "seeds", "list"]),
];

/// The names that must not occur in `choice`, `scanning` and `seed_lookup`.
const HIDDEN_FROM_VIEWERS: &[&str] = &[
    "Client",
    "Connections",
    "connections",
    "Pins",
    "pins",
    "Operations",
    "operations",
    "Questions",
    "questions",
    "Timers",
];

/// Parts of the client that are not in [`OWNERS`], each with the names that it must not use.
const OTHERS: [parts::Rule<'_>; 4] = [
    ("client::attempts::choice", HIDDEN_FROM_VIEWERS),
    ("client::attempts::scanning", HIDDEN_FROM_VIEWERS),
    ("client::seeds::lookup", HIDDEN_FROM_VIEWERS),
    (
        "client::control::outbox",
        &[
            "Client",
            "Connections",
            "Pools",
            "Pins",
            "Operations",
            "Questions",
            "Sdam",
            "Choice",
        ],
    ),
];

/// Returns the paths of the files that we write. Official test data is left out, because we do not
/// change it.
fn ours() -> Vec<String> {
    let ours = |path: &String| {
        let ending = OURS.iter().any(|ending| path.ends_with(ending)) || path.starts_with(".ci/");
        ending && !path.contains("specifications/")
    };
    files().into_iter().filter(ours).collect()
}

fn rust_under(folder: &str) -> Vec<String> {
    let inside = |path: &String| path.starts_with(folder) && path.ends_with(".rs");
    ours().into_iter().filter(inside).collect()
}

fn check(paths: Vec<String>, rule: impl Fn(&str, &str) -> Vec<String>) {
    report(
        paths
            .iter()
            .flat_map(|path| rule(path, &read(path)))
            .collect(),
    );
}

/// Returns the modules of the core without tests.
fn core_modules() -> Vec<Module> {
    let files = rust_under("core/src/").into_iter();
    let files: Files = files.map(|path| (path.clone(), read(&path))).collect();
    syntax::modules(&files, "core/src/lib.rs")
}

fn report(violations: Vec<String>) {
    assert!(
        violations.is_empty(),
        "{} violations:\n{}",
        violations.len(),
        violations.join("\n")
    );
}

#[test]
fn files_are_short() {
    check(rust_under(""), lengths::long_file);
}

#[test]
fn functions_are_short() {
    check(rust_under(""), lengths::long_functions);
}

#[test]
fn lines_fit_in_100_columns() {
    // `proptest` writes the files with the seeds of failed cases.
    let written = |path: &String| !path.contains("proptest-regressions/");
    check(
        ours().into_iter().filter(written).collect(),
        lengths::long_lines,
    );
}

#[test]
fn no_file_contains_a_banned_word() {
    // The files `clippy.toml` contain the names that they forbid.
    let others = ours()
        .into_iter()
        .filter(|path| !path.ends_with("clippy.toml"));
    check(others.collect(), words::banned_words);
}

#[test]
fn doc_comments_name_their_subject() {
    check(rust_under(""), words::vague_subjects);
}

#[test]
fn no_file_contains_invisible_white_space() {
    check(ours(), words::white_space);
}

#[test]
fn every_file_is_part_of_a_target() {
    let wanted = |path: &String| path.ends_with(".rs") || path.ends_with("Cargo.toml");
    let files = files().into_iter().filter(wanted);
    report(modules::dead_files(
        &files.map(|path| (path.clone(), read(&path))).collect(),
    ));
}

#[test]
fn core_modules_use_only_modules_that_are_declared_above_them() {
    let order = order::declared_modules(&read("core/src/lib.rs"));
    assert!(!order.is_empty());
    let modules = core_modules();
    report(
        modules
            .iter()
            .flat_map(|module| order::looks_down(&order, module))
            .collect(),
    );
}

#[test]
fn parts_of_the_core_client_do_not_use_each_other() {
    let modules = core_modules();
    let mut found = parts::breaches(&modules, &OTHERS);
    for (part, own) in OWNERS {
        let foreign = NAMES.iter().copied().filter(|name| !own.contains(name));
        let foreign: Vec<&str> = foreign.collect();
        found.extend(parts::breaches(&modules, &[(part, &foreign)]));
    }
    report(found);
}

#[test]
fn constants_of_the_core_are_defined_once() {
    let is_test = |path: &String| path.contains("/tests/") || path.ends_with("/tests.rs");
    let files = rust_under("core/src/").into_iter();
    let files = files.filter(|path| !is_test(path));
    report(constants::defined_twice(
        &files.map(|path| (path.clone(), read(&path))).collect(),
    ));
}

#[test]
fn the_core_performs_no_io_and_is_deterministic() {
    for folder in ["bson/src/", "core/src/"] {
        check(rust_under(folder), fences::io_or_nondeterminism);
    }
}

#[test]
fn the_core_decodes_messages_only_in_the_listed_files() {
    check(rust_under("core/src/"), messages::decodes_messages);
}

#[test]
fn only_the_test_harness_polls_the_actions_of_a_client() {
    for folder in ["core/src/client/tests/", "tests/src/loads/"] {
        check(rust_under(folder), messages::polls_actions);
    }
}

#[test]
fn patterns_for_network_errors_also_match_tls_errors() {
    for folder in ["core/src/", "adapters/"] {
        check(rust_under(folder), fences::patterns_without_tls);
    }
}

#[test]
fn adapters_make_no_protocol_decisions() {
    for adapter in ADAPTERS.into_iter().chain([BLOCKING]) {
        check(
            rust_under(&format!("adapters/{adapter}/src/")),
            fences::protocol_words,
        );
    }
}

#[test]
fn the_async_client_makes_no_protocol_decisions() {
    check(rust_under("adapters/client/src/"), fences::decisions);
}

#[test]
fn errors_of_sockets_are_converted_in_one_place() {
    let converts = |path: &String| {
        let text = read(path);
        let code = source::code_only(source::above_tests(&text));
        ["NetworkFault", "ConnectionReset"]
            .iter()
            .all(|word| code.contains(word))
    };
    let folders = ["adapters/", "check/src/"].map(rust_under);
    let found: Vec<String> = folders.into_iter().flatten().filter(converts).collect();
    assert_eq!(found, ["adapters/client/src/system.rs"]);
}

#[test]
fn adapters_do_not_exceed_their_line_limits() {
    let wrappers = ADAPTERS.map(|adapter| (adapter, fences::ADAPTER_LINES_MAX));
    for (adapter, limit) in wrappers
        .into_iter()
        .chain([(BLOCKING, fences::BLOCKING_LINES_MAX)])
    {
        let files = rust_under(&format!("adapters/{adapter}/src/"));
        let lines = files
            .iter()
            .map(|path| fences::logic_lines(&read(path)))
            .sum();
        report(fences::oversized_adapter(adapter, lines, limit));
    }
}

#[test]
fn the_blocking_client_can_run_every_call() {
    let calls: Vec<String> = rust_under("adapters/client/src/")
        .iter()
        .flat_map(|path| fences::calls(&read(path)))
        .collect();
    assert!(calls.len() >= 8, "{calls:?}");
    let run = read("adapters/blocking/src/run.rs");
    report(fences::calls_without(&calls, &run));
}

#[test]
fn adapters_have_the_same_files() {
    let names = ADAPTERS.map(|adapter| {
        let folder = format!("adapters/{adapter}/");
        let inside = |path: String| path.strip_prefix(&folder).map(str::to_owned);
        let names: BTreeSet<String> = rust_under(&folder).into_iter().filter_map(inside).collect();
        (adapter, names)
    });
    report(fences::unlike_names(&names));
}

#[test]
fn every_package_inherits_the_workspace_lints() {
    let manifest =
        |path: &String| path.ends_with("Cargo.toml") && !path.starts_with("tests/peers/");
    check(
        files().into_iter().filter(manifest).collect(),
        fences::without_lints,
    );
}

#[test]
fn files_that_documents_name_exist() {
    let files = files();
    let documents = ours().into_iter().filter(|path| path.ends_with(".md"));
    check(documents.collect(), |path, text| {
        rules::missing_files(&files, path, text)
    });
}

#[test]
fn every_cited_rule_is_defined_once() {
    let (rules, mut found) = rules::defined();
    assert!(rules.len() > 1_000, "{} rules", rules.len());
    // These files have examples of citations.
    let examples = ["tests/src/requirements.rs", "tests/tests/tidy/rules.rs"];
    let others = |path: &String| !examples.contains(&path.as_str());
    let index = rules::Index::new(&rules);
    for path in ours().into_iter().filter(others) {
        let text = read(&path);
        found.extend(rules::undefined(&index, &path, &text));
        found.extend(rules::astray(&index, &path, &text));
    }
    report(found);
}

#[test]
fn rule_numbers_in_public_docs_link_to_their_rules() {
    let index = rules::Index::new(&rules::defined().0);
    for folder in ["core/src/", "adapters/"] {
        let is_public = |path: &String| !path.contains("/tests/") && !path.ends_with("/tests.rs");
        let paths = rust_under(folder).into_iter().filter(is_public);
        check(paths.collect(), |path, text| {
            rules::unlinked(&index, path, text)
        });
    }
}

#[test]
fn each_key_of_log_messages_reaches_tracing() {
    let trace = read(logs::TRACE);
    let (mut count, mut found) = (0, Vec::new());
    // The macro in `table.rs` has examples.
    let tables = rust_under(logs::TABLES).into_iter();
    for path in tables.filter(|path| !path.ends_with("/table.rs")) {
        let keys = logs::keys(&read(&path));
        count += keys.len();
        found.extend(logs::lost_keys(&path, &keys, &trace));
    }
    assert!(count > 30, "{count} keys");
    report(found);
}

#[test]
fn every_seed_file_of_property_tests_has_a_test_module() {
    let paths = files();
    assert!(
        paths
            .iter()
            .any(|path| path.contains("/proptest-regressions/"))
    );
    report(modules::orphaned_seeds(&paths));
}

/// Returns the modules of the core that are public, and those of its module `unstable`.
fn public_modules() -> [BTreeSet<String>; 2] {
    let text = read("core/src/lib.rs");
    let names = |indent: &str, end: &str| {
        let lines = text.lines().filter_map(|line| line.strip_prefix(indent));
        let names = lines.filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(end));
        names.map(str::to_owned).collect::<BTreeSet<_>>()
    };
    let found = [names("", ";"), names("    ", " {")];
    assert!(found.iter().all(|names| names.len() > 10), "{found:?}");
    found
}

#[test]
fn core_examples_use_only_the_stable_api() {
    check(rust_under("core/examples/"), |path, text| {
        let is_used = text.contains("onionskin_core::unstable") || text.contains("    unstable::");
        let found = is_used.then(|| format!("{path}: the module `unstable` is used"));
        found.into_iter().collect()
    });
}

#[test]
fn the_document_about_the_architecture_lists_the_public_modules() {
    let text = read("docs/architecture.md");
    let section = text.split("## Public surface of the core").nth(1);
    let section = section.expect("a section").split("\n## ").next();
    let mut lists = section
        .expect("a section")
        .split("modules are always public:");
    let rest = lists.nth(1).expect("a list");
    let (first, rest) = rest.split_once('.').expect("a sentence");
    let second = rest.split("these machines:").nth(1).expect("a list");
    let second = second.split('.').next().expect("a sentence");
    let named = [first, second].map(|list| {
        let names = list.split('`').skip(1).step_by(2);
        names.map(str::to_owned).collect::<BTreeSet<_>>()
    });
    assert_eq!(named, public_modules());
}

#[test]
fn the_lock_files_of_other_workspaces_are_current() {
    let locks = files()
        .into_iter()
        .filter(|path| path.ends_with("/Cargo.lock"));
    let mut count = 0;
    for path in locks {
        count += 1;
        let folder = path
            .strip_suffix("Cargo.lock")
            .expect("the filter's suffix");
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let output = Command::new(cargo)
            .args(["metadata", "--locked", "--offline", "--format-version=1"])
            .current_dir(root().join(folder))
            .output()
            .expect("cargo runs");
        let text = String::from_utf8_lossy(&output.stderr);
        // Another failure is that of a dependency that was never downloaded.
        assert!(!text.contains("update the lock file"), "{path}: {text}");
    }
    assert!(count > 0, "no lock file was found");
}
