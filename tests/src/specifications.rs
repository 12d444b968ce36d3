//! The location of the official test files, and how they are read.

use serde_json::Value;
use std::{
    env, fs,
    io::{Write, stderr},
    path::{Path, PathBuf},
};

/// The environment variable with the folder that holds `source/<suite>/tests`. Default:
/// `../shared/specifications`, relative to the workspace.
pub const ROOT_VARIABLE: &str = "MONGODB_SPECIFICATIONS";

/// One JSON file of a suite.
#[derive(Clone, Debug)]
pub struct TestFile {
    /// The path below the suite's folder, with forward slashes.
    pub name: String,
    /// The content of the file, or the reason why it cannot be read.
    pub content: Result<Value, String>,
    /// The text of the file, whose documents have the order that `content` lacks; empty if the file
    /// cannot be read.
    pub text: String,
}

/// Returns all JSON files of `source/<path>`, sorted by path. If there is no checkout of the
/// specifications, prints a message that begins with `NOT RUN:` and returns `None`; with `CI=true`
/// it panics. Panics also if a checkout has no such folder, or no file in it.
#[must_use]
pub fn files(path: &str) -> Option<Vec<TestFile>> {
    let folder = folder(path);
    if !root().join("source").is_dir() {
        let message = format!(
            "NOT RUN: there are no official tests at {}; set {ROOT_VARIABLE} to a checkout of the \
             specifications",
            folder.display()
        );
        assert!(env::var("CI").as_deref() != Ok("true"), "{message}");
        // libtest does not capture this write. A closed standard error must not make the test fail.
        let _ = writeln!(stderr(), "\n{message}\n");
        return None;
    }
    let mut paths = Vec::new();
    walk(&folder, &mut paths);
    assert!(!paths.is_empty(), "{} has no test file", folder.display());
    paths.sort();
    let files = paths.iter().map(|path| TestFile {
        name: name_below(path, &folder),
        content: read(path),
        text: fs::read_to_string(path).unwrap_or_default(),
    });
    Some(files.collect())
}

/// Returns the folder `source/<path>`, whether or not it exists.
#[must_use]
pub fn folder(path: &str) -> PathBuf {
    root().join("source").join(path)
}

fn root() -> PathBuf {
    env::var_os(ROOT_VARIABLE).map_or_else(
        || {
            let default = concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/specifications");
            PathBuf::from(default)
        },
        PathBuf::from,
    )
}

fn walk(folder: &Path, paths: &mut Vec<PathBuf>) {
    let entries = fs::read_dir(folder)
        .unwrap_or_else(|error| panic!("{} cannot be listed: {error}", folder.display()));
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() {
            walk(&path, paths);
        } else if path
            .extension()
            .is_some_and(|extension| extension == "json")
        {
            paths.push(path);
        }
    }
}

fn name_below(path: &Path, folder: &Path) -> String {
    let below = path.strip_prefix(folder).unwrap_or(path);
    let parts = below.iter().map(|part| part.to_string_lossy());
    parts.collect::<Vec<_>>().join("/")
}

fn read(path: &Path) -> Result<Value, String> {
    let text = fs::read_to_string(path).map_err(|error| format!("cannot be read: {error}"))?;
    serde_json::from_str(&text).map_err(|error| format!("is not JSON: {error}"))
}
