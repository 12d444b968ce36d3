//! The official tests of connection strings, as they are: `connection-string`, `uri-options`, the
//! connection strings of `auth` and those of `read-write-concern`.
//!
//! The tree is looked for at `$MONGODB_SPECIFICATIONS`, else beside the workspace. Where it is
//! missing the test says so and passes, except under `CI=true`.

use onionskin_core::{
    address::Address,
    error::ErrorKind,
    options::{Acknowledgment, Credential, Mechanism},
    uri::{self, OptionValue, ParsedUri},
};
use serde_json::Value;
use std::{
    env, fs,
    path::{Path, PathBuf},
};

/// Cases that do not hold here, by file and description, and why. One that passes is a failure.
const SKIPPED: [(&str, &str, &str); 4] = [
    (
        "single-threaded-options.json",
        "Valid options specific to single-threaded drivers are parsed correctly",
        "this driver monitors in parallel and has no serverSelectionTryOnce",
    ),
    (
        "connection-string.json",
        "should use username and password if specified (MONGODB-AWS)",
        "contradicts the newer cases of the same file, which refuse credentials (AUTH-49)",
    ),
    (
        "connection-string.json",
        "should use username, password and session token if specified (MONGODB-AWS)",
        "contradicts the newer cases of the same file, which refuse credentials (AUTH-49)",
    ),
    (
        "write-concern.json",
        "wtimeoutMS as an invalid number",
        "contradicts concern-options.json, where a negative wTimeoutMS is ignored with a warning",
    ),
];

type Outcome = Result<(), String>;

#[test]
fn official_connection_strings_are_read_as_written() {
    let Some(root) = specifications() else {
        return;
    };
    let mut tally = Tally::default();
    for (suite, path) in [
        ("connection-string", "connection-string/tests"),
        ("uri-options", "uri-options/tests"),
        ("auth", "auth/tests/legacy/connection-string.json"),
        (
            "read-write-concern",
            "read-write-concern/tests/connection-string",
        ),
    ] {
        let files = json_files(&root.join("source").join(path));
        assert!(
            !files.is_empty(),
            "{path} has no tests under {}",
            root.display()
        );
        tally.suite(suite, &files);
    }
    for (file, description, _) in SKIPPED {
        let known = tally.skipped.contains(&(file, description));
        assert!(
            known,
            "the skipped case {file}: {description} does not exist"
        );
    }
    assert!(
        tally.failed.is_empty(),
        "failed:\n{}",
        tally.failed.join("\n")
    );
}

fn specifications() -> Option<PathBuf> {
    let root = env::var_os("MONGODB_SPECIFICATIONS").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/specifications"),
        PathBuf::from,
    );
    if root.join("source").is_dir() {
        return Some(root);
    }
    let message = format!(
        "NOT RUN: no official tests at {}; set MONGODB_SPECIFICATIONS to a checkout",
        root.display()
    );
    assert!(env::var("CI").as_deref() != Ok("true"), "{message}");
    eprintln!("{message}");
    None
}

/// The file itself, or the JSON files of a folder, in order.
fn json_files(path: &Path) -> Vec<PathBuf> {
    if path.is_file() {
        return vec![path.to_owned()];
    }
    let mut files: Vec<PathBuf> = fs::read_dir(path)
        .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
        .unwrap_or_default();
    files.retain(|file| file.extension().is_some_and(|e| e == "json"));
    files.sort();
    files
}

#[derive(Default)]
struct Tally {
    failed: Vec<String>,
    skipped: Vec<(&'static str, &'static str)>,
}

impl Tally {
    fn suite(&mut self, suite: &str, files: &[PathBuf]) {
        let (mut passed, failed, skipped) = (0, self.failed.len(), self.skipped.len());
        for path in files {
            let file = path
                .file_name()
                .and_then(|n| n.to_str())
                .unwrap_or_default();
            let text = fs::read_to_string(path).expect("a file of the tree can be read");
            let content: Value = serde_json::from_str(&text).expect("the tests are JSON");
            for case in content["tests"].as_array().into_iter().flatten() {
                let description = case["description"].as_str().unwrap_or_default();
                let skip = SKIPPED.iter().find(|s| (s.0, s.1) == (file, description));
                match (run(case), skip) {
                    (Ok(()), None) => passed += 1,
                    (Err(reason), None) => {
                        self.failed
                            .push(format!("{suite}, {file}: {description}: {reason}"));
                    }
                    (Err(_), Some(skip)) => self.skipped.push((skip.0, skip.1)),
                    (Ok(()), Some(skip)) => {
                        self.skipped.push((skip.0, skip.1));
                        self.failed
                            .push(format!("{file}: {description}: skipped, yet it passes"));
                    }
                }
            }
        }
        let new_failures = &self.failed[failed..];
        let skipped = self.skipped.len() - skipped;
        println!(
            "{suite}: {passed} passed, {} failed, {skipped} skipped",
            new_failures.len()
        );
        for failure in new_failures {
            println!("  {failure}");
        }
    }
}

/// Runs one case; fields that are absent or null assert nothing, except a null credential.
fn run(case: &Value) -> Outcome {
    let text = case["uri"].as_str().ok_or("the case has no uri")?;
    let parsed = match (uri::parse(text), case["valid"].as_bool()) {
        (Err(error), Some(false)) => {
            let kind = matches!(error.kind(), ErrorKind::InvalidUri { .. });
            return same("error of the connection string", &true, &kind);
        }
        (Err(error), _) => return Err(format!("refused: {error}")),
        (Ok(_), Some(false)) => return Err("accepted".to_owned()),
        (Ok(parsed), _) => parsed,
    };
    if let Some(expected) = case["warning"].as_bool() {
        let found = &parsed.warnings;
        same("warning", &expected, &!found.is_empty()).map_err(|e| format!("{e} {found:?}"))?;
    }
    hosts(case, &parsed)?;
    login(&case["auth"], &parsed)?;
    if case.get("credential").is_some() {
        credential(&case["credential"], parsed.options.credential())?;
    }
    for (name, expected) in case["options"].as_object().into_iter().flatten() {
        let found = parsed.option(name).map_or(Value::Null, to_json);
        same(name, expected, &found)?;
    }
    concerns(case, &parsed)
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, expected: &T, found: &T) -> Outcome {
    if expected == found {
        return Ok(());
    }
    Err(format!("{what}: expected {expected:?}, found {found:?}"))
}

fn hosts(case: &Value, parsed: &ParsedUri) -> Outcome {
    let Some(expected) = case["hosts"].as_array() else {
        return Ok(());
    };
    let found = parsed.options.hosts();
    same("number of hosts", &expected.len(), &found.len())?;
    for (expected, found) in expected.iter().zip(found) {
        same("host", &expected["host"].as_str(), &Some(found.host()))?;
        if let Some(port) = expected["port"].as_u64() {
            same("port", &Some(port), &found.port().map(u64::from))?;
        }
        let unix = matches!(found, Address::Unix { .. });
        same("socket", &(expected["type"] == "unix"), &unix)?;
    }
    Ok(())
}

fn login(expected: &Value, parsed: &ParsedUri) -> Outcome {
    if expected.is_null() {
        return Ok(());
    }
    let credential = parsed.options.credential();
    let username = credential.and_then(|c| c.username.as_deref());
    let password = credential
        .and_then(|c| c.password.as_ref())
        .map(|p| p.expose());
    same("username", &expected["username"].as_str(), &username)?;
    same("password", &expected["password"].as_str(), &password)?;
    same(
        "database",
        &expected["db"].as_str(),
        &parsed.options.default_database(),
    )
}

fn credential(expected: &Value, found: Option<&Credential>) -> Outcome {
    same("no credential", &expected.is_null(), &found.is_none())?;
    let Some(found) = found else {
        return Ok(());
    };
    same(
        "username",
        &expected["username"].as_str(),
        &found.username.as_deref(),
    )?;
    let password = found.password.as_ref().map(|p| p.expose());
    same("password", &expected["password"].as_str(), &password)?;
    same(
        "source",
        &expected["source"].as_str(),
        &Some(found.source.as_str()),
    )?;
    let mechanism = found.mechanism.map(Mechanism::name);
    same("mechanism", &expected["mechanism"].as_str(), &mechanism)?;
    for (name, value) in expected["mechanism_properties"]
        .as_object()
        .into_iter()
        .flatten()
    {
        let property = found.property(name).map(|p| p.expose());
        same(name, &value.as_str(), &property)?;
    }
    Ok(())
}

fn concerns(case: &Value, parsed: &ParsedUri) -> Outcome {
    if let Some(expected) = case["readConcern"].as_object() {
        let level = parsed.options.read_concern().map(|c| c.level.as_str());
        same(
            "level",
            &expected.get("level").and_then(Value::as_str),
            &level,
        )?;
    }
    if let Some(expected) = case["writeConcern"].as_object() {
        let found = parsed.options.write_concern();
        let w = found.and_then(|c| c.w.as_ref()).map(|w| match w {
            Acknowledgment::Nodes(nodes) => Value::from(*nodes),
            Acknowledgment::Mode(mode) => Value::from(mode.as_str()),
        });
        let journal = found.and_then(|c| c.journal).map(Value::from);
        let timeout = found.and_then(|c| c.timeout);
        let timeout = timeout
            .and_then(|t| u64::try_from(t.as_millis()).ok())
            .map(Value::from);
        same("w", &expected.get("w"), &w.as_ref())?;
        same("journal", &expected.get("journal"), &journal.as_ref())?;
        same("wtimeoutMS", &expected.get("wtimeoutMS"), &timeout.as_ref())?;
    }
    Ok(())
}

fn to_json(value: &OptionValue) -> Value {
    match value {
        OptionValue::Bool(value) => Value::from(*value),
        OptionValue::Int(value) => Value::from(*value),
        OptionValue::Text(value) => Value::from(value.as_str()),
        OptionValue::Secret(value) => Value::from(value.expose()),
        OptionValue::List(values) => Value::from(values.as_slice()),
        OptionValue::TagSets(sets) => sets
            .iter()
            .map(|tags| {
                let tags = tags
                    .iter()
                    .map(|(k, v)| (k.clone(), Value::from(v.as_str())));
                Value::Object(tags.collect())
            })
            .collect(),
        OptionValue::Properties(properties) => Value::Object(
            properties
                .iter()
                .map(|(k, v)| (k.clone(), Value::from(v.expose())))
                .collect(),
        ),
        other => Value::from(format!("{other:?}")),
    }
}
