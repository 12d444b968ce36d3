//! Finds constants that several files define with the same value. One of them could be changed
//! without the others.

use std::collections::BTreeMap;

use crate::modules::Files;
use crate::source::{above_tests, without_comments};

/// Returns a message for each constant outside of tests that has the same name and the same value
/// in several files.
pub(crate) fn defined_twice(files: &Files) -> Vec<String> {
    let mut places: BTreeMap<(String, String), Vec<&str>> = BTreeMap::new();
    for (path, text) in files {
        for constant in constants(&without_comments(above_tests(text))) {
            places.entry(constant).or_default().push(path);
        }
    }
    places.retain(|_, paths| paths.len() > 1);
    let twice = places.iter();
    twice
        .map(|((name, _), paths)| format!("`{name}` is the same in {}", paths.join(", ")))
        .collect()
}

/// Returns the names and values of a module's constants. Associated constants, whose lines are
/// indented, are left out.
fn constants(code: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("const ") {
        let line = code[..at].rsplit('\n').next().unwrap_or_default();
        let is_declaration = line.is_empty() || line.starts_with("pub");
        let Some((declared, value)) = code[at + "const ".len()..].split_once(" = ") else {
            continue;
        };
        let Some((name, _)) = declared.split_once(": ").filter(|_| is_declaration) else {
            continue;
        };
        let value = value.split(';').next().unwrap_or_default();
        found.push((name.to_owned(), value.to_owned()));
    }
    found
}

#[test]
fn constants_with_the_same_name_and_value_in_two_files_are_found() {
    let files: Files = [
        (
            "a.rs",
            "/// Text.\npub const A: u8 = 1;\nconst B: u8 = 1;\n",
        ),
        (
            "b.rs",
            "use x;\nconst A: u8 = 1; // same\npub(crate) const B: u8 = 2;\n",
        ),
        (
            "c.rs",
            "impl C {\n    const A: u8 = 1;\n    pub const fn f(a: A) -> u8 { 1 }\n}\n",
        ),
        (
            "d.rs",
            "// const A: u8 = 1;\n#[cfg(test)]\nmod tests {\nconst A: u8 = 1;\n}\n",
        ),
        ("e.rs", "pub(super) const B: u8 = 1;\n"),
    ]
    .map(|(path, text)| (path.to_owned(), text.to_owned()))
    .into();
    assert_eq!(
        defined_twice(&files),
        [
            "`A` is the same in a.rs, b.rs",
            "`B` is the same in a.rs, e.rs"
        ]
    );
}
