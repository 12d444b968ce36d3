//! The files of the repository, and their text without comments or strings.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Directories without files of ours. `walk`, which lists the files if git is not available, skips
/// them.
const FOREIGN_DIRECTORIES: [&str; 4] = [".git", "node_modules", "target", "venv"];

/// The character that replaces string and character literals. With blanks instead, lines within a
/// string would not count as code.
const MASK: char = '_';

pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the crate lies in the workspace")
}

/// Returns the sorted paths of the files that git tracks or would track, relative to the root and
/// with `/` as separator.
pub(crate) fn files() -> Vec<String> {
    let listing = Command::new("git")
        .args([
            "ls-files",
            "--cached",
            "--others",
            "--exclude-standard",
            "-z",
        ])
        .current_dir(root())
        .output();
    let mut files: Vec<String> = match listing {
        Ok(output) if output.status.success() => String::from_utf8_lossy(&output.stdout)
            .split_terminator('\0')
            .map(str::to_owned)
            .filter(|path| root().join(path).is_file())
            .collect(),
        _ => walk(root()),
    };
    files.sort();
    files.dedup();
    assert!(
        files.iter().any(|path| path == "core/src/lib.rs"),
        "the listing is wrong: {files:?}"
    );
    files
}

fn walk(directory: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).expect("the directory is readable") {
        let path: PathBuf = entry.expect("the entry is readable").path();
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        if path.is_dir() {
            if !FOREIGN_DIRECTORIES.contains(&name.as_str()) {
                found.extend(walk(&path));
            }
        } else if let Ok(relative) = path.strip_prefix(root()) {
            found.push(relative.to_string_lossy().replace('\\', "/"));
        }
    }
    found
}

pub(crate) fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Returns Rust text with blanks in place of comments. Line numbers stay the same.
pub(crate) fn without_comments(text: &str) -> String {
    mask(text, false)
}

/// Returns Rust text with blanks in place of comments and [`MASK`] in place of string and character
/// literals. Line numbers stay the same.
pub(crate) fn code_only(text: &str) -> String {
    mask(text, true)
}

/// Returns the part of a file above its unit tests, which come last. Unit tests in a file of their
/// own are declared at the top and do not end this part.
pub(crate) fn above_tests(text: &str) -> &str {
    let mut declared = text.match_indices("#[cfg(test)]\nmod ");
    let within = declared.find(|(at, _)| {
        let line = text[*at..].lines().nth(1).unwrap_or_default();
        !line.trim_end().ends_with(';')
    });
    within.map_or(text, |(end, _)| &text[..end])
}

fn mask(text: &str, strings_too: bool) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut masked = String::with_capacity(text.len());
    let mut at = 0;
    while at < chars.len() {
        let rest = &chars[at..];
        let (length, fill) = if rest.starts_with(&['/', '/']) {
            (
                rest.iter().position(|c| *c == '\n').unwrap_or(rest.len()),
                ' ',
            )
        } else if rest.starts_with(&['/', '*']) {
            (block_comment(rest), ' ')
        } else if let Some(length) = literal(rest) {
            (length, MASK)
        } else {
            (1, '\0')
        };
        for character in &rest[..length] {
            let keep = fill == '\0' || (fill == MASK && !strings_too) || *character == '\n';
            masked.push(if keep { *character } else { fill });
        }
        at += length;
    }
    masked
}

fn block_comment(rest: &[char]) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < rest.len() {
        if rest[at..].starts_with(&['/', '*']) {
            (depth, at) = (depth + 1, at + 2);
        } else if rest[at..].starts_with(&['*', '/']) {
            (depth, at) = (depth - 1, at + 2);
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    rest.len()
}

/// Returns the length of the string or character literal at the start of the text, if there is one.
fn literal(rest: &[char]) -> Option<usize> {
    match rest[0] {
        '"' => Some(quoted(rest, 0)),
        'r' => {
            let hashes = rest[1..].iter().take_while(|c| **c == '#').count();
            (rest.get(1 + hashes) == Some(&'"')).then(|| raw(rest, hashes))
        }
        // A lifetime has no closing quote after its first character.
        '\'' if rest.get(1) == Some(&'\\') => {
            let close = rest[3..].iter().position(|c| *c == '\'')?;
            Some(3 + close + 1)
        }
        '\'' if rest.get(2) == Some(&'\'') => Some(3),
        _ => None,
    }
}

fn quoted(rest: &[char], start: usize) -> usize {
    let mut at = start + 1;
    while at < rest.len() {
        match rest[at] {
            '\\' => at += 2,
            '"' => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

fn raw(rest: &[char], hashes: usize) -> usize {
    let mut at = 2 + hashes;
    while at < rest.len() {
        let closing = rest[at] == '"'
            && rest.len() > at + hashes
            && rest[at + 1..=at + hashes].iter().all(|c| *c == '#');
        if closing {
            return at + 1 + hashes;
        }
        at += 1;
    }
    rest.len()
}

#[test]
fn masking_replaces_comments_and_the_content_of_strings() {
    let text = "a // x\nb /* y /* z */ y */ c \"d\\\"e\" r#\"f\"g\"# 'h' '\\'' &'i j";
    let blank = " ".repeat("/* y /* z */ y */".len());
    let masked = format!("a     \nb {blank} c ______ ________ ___ ____ &'i j");
    assert_eq!(code_only(text), masked);
    let kept = format!("a     \nb {blank} c \"d\\\"e\" r#\"f\"g\"# 'h' '\\'' &'i j");
    assert_eq!(without_comments(text), kept);
}

#[test]
fn above_tests_ends_at_an_inline_test_module_only() {
    let code = "#[cfg(test)]\nmod tests;\nmod other;\nfn f() {}\n";
    assert_eq!(above_tests(code), code);
    let both = format!("{code}#[cfg(test)]\nmod inner {{\n    fn g() {{}}\n}}\n");
    assert_eq!(above_tests(&both), code);
}

#[test]
fn every_file_that_git_lists_is_found_by_the_directory_walk() {
    let walked = walk(root());
    for path in files() {
        assert!(walked.contains(&path), "{path} is tracked but not walked");
    }
}
