//! Finds files, functions and lines that are too long.

use crate::source::code_only;

/// The number of lines that a Rust file must not reach.
const FILE_LINES_LIMIT: usize = 500;
/// The largest number of lines in the body of a function, without blank lines and comments.
const FUNCTION_LINES_MAX: usize = 70;
/// The largest number of characters in a line.
const COLUMNS_MAX: usize = 100;

pub(crate) fn long_file(path: &str, text: &str) -> Vec<String> {
    let lines = text.lines().count();
    if lines < FILE_LINES_LIMIT {
        return Vec::new();
    }
    vec![format!(
        "{path}: {lines} lines; under {FILE_LINES_LIMIT} are allowed"
    )]
}

pub(crate) fn long_functions(path: &str, text: &str) -> Vec<String> {
    let code = code_only(text);
    let mut found = Vec::new();
    for (at, _) in code.match_indices("fn ") {
        let is_word = !code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
        let name: String = code[at + 3..]
            .chars()
            .take_while(|c| c.is_alphanumeric() || *c == '_')
            .collect();
        if !is_word || name.is_empty() {
            continue;
        }
        let Some(body) = body(&code[at..]) else {
            continue;
        };
        let lines = body.lines().filter(|line| !line.trim().is_empty()).count();
        if lines > FUNCTION_LINES_MAX {
            let line = code[..at].lines().count();
            found.push(format!(
                "{path}:{line}: `{name}` has {lines} lines; {FUNCTION_LINES_MAX} are allowed"
            ));
        }
    }
    found
}

/// Returns the text between the outermost braces of a function; `None` for a function without a
/// body.
fn body(code: &str) -> Option<&str> {
    let (mut nesting, mut braces, mut start) = (0_i32, 0_i32, 0);
    for (at, character) in code.char_indices() {
        match character {
            '(' | '[' if braces == 0 => nesting += 1,
            ')' | ']' if braces == 0 => nesting -= 1,
            ';' if braces == 0 && nesting == 0 => return None,
            '{' => {
                if braces == 0 {
                    start = at + 1;
                }
                braces += 1;
            }
            '}' => {
                braces -= 1;
                if braces == 0 {
                    return Some(&code[start..at]);
                }
            }
            _ => {}
        }
    }
    None
}

/// Finds lines that are too long. Lines with a URL, rows of a Markdown table and lines of a TOML
/// table are permitted, because they cannot be broken.
pub(crate) fn long_lines(path: &str, text: &str) -> Vec<String> {
    let table_row = |line: &str| {
        path.ends_with(".md") && line.starts_with('|')
            || path.ends_with(".toml") && line.trim_start().starts_with('{')
    };
    let mut found = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let columns = line.chars().count();
        if columns > COLUMNS_MAX && !line.contains("://") && !table_row(line) {
            found.push(format!(
                "{path}:{number}: {columns} columns; {COLUMNS_MAX} are allowed"
            ));
        }
    }
    found
}

#[test]
fn a_file_with_as_many_lines_as_the_limit_is_too_long() {
    assert!(long_file("a.rs", &"x\n".repeat(FILE_LINES_LIMIT - 1)).is_empty());
    assert_eq!(long_file("a.rs", &"x\n".repeat(FILE_LINES_LIMIT)).len(), 1);
}

#[test]
fn only_code_counts_towards_a_functions_length() {
    let function =
        |lines: &str| format!("impl A {{\n    fn f(x: [u8; 4]) -> u8 {{\n{lines}}}\n}}\n");
    let fits = "        x(\"{\");\n        // a comment\n\n".repeat(FUNCTION_LINES_MAX);
    assert_eq!(
        long_functions("a.rs", &function(&fits)),
        Vec::<String>::new()
    );
    let long = format!("{fits}        y();\n");
    let found = long_functions("a.rs", &function(&long));
    assert_eq!(found, ["a.rs:2: `f` has 71 lines; 70 are allowed"]);
    assert!(long_functions("a.rs", "trait A { fn f(); }").is_empty());
}

#[test]
fn long_lines_are_found_unless_they_cannot_be_broken() {
    let long = "x".repeat(COLUMNS_MAX + 1);
    assert!(long_lines("a.rs", &long[1..]).is_empty());
    assert_eq!(long_lines("a.rs", &long).len(), 1);
    assert!(long_lines("a.rs", &format!("// https://{long}")).is_empty());
    assert!(long_lines("a.md", &format!("| {long}")).is_empty());
    assert!(long_lines("a.toml", &format!("    {{ {long} }},")).is_empty());
    assert_eq!(long_lines("a.rs", &format!("| {long}")).len(), 1);
}
