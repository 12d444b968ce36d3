//! Finds words that must not occur in the repository, doc comments without a named subject, and
//! invisible white space.

/// The banned words, each with the alternative. The words are split, so that this file does not
/// contain them.
const BANNED: [(&str, &str); 9] = [
    (concat!("todo", "!"), "finish it, or leave it out"),
    (concat!("unimplemented", "!"), "finish it, or leave it out"),
    (concat!("dbg", "!"), "remove it"),
    (concat!("FIX", "ME"), "fix it"),
    (concat!("TO", "DO"), "do it"),
    (concat!("XX", "X"), "say what is wrong, or put it right"),
    (concat!("HA", "CK"), "say why it must be so"),
    (
        concat!("#[ign", "ore]"),
        "a test that cannot run says so at run time; else give a reason",
    ),
    (
        concat!("thread::", "sleep"),
        "wait for what is waited for, with a bound",
    ),
];

pub(crate) fn banned_words(path: &str, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        for (word, instead) in BANNED {
            if contains_word(line, word) {
                found.push(format!("{path}:{number}: `{word}`: {instead}"));
            }
        }
    }
    found
}

/// First words of doc comments that have no named subject.
const VAGUE_SUBJECTS: [&str; 9] = [
    "Who", "Whoever", "Whose", "What", "Which", "That", "It", "Its", "They",
];

/// Returns a message for each doc comment that begins with one of the words in [`VAGUE_SUBJECTS`].
pub(crate) fn vague_subjects(path: &str, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut was_doc = false;
    for (number, line) in (1..).zip(text.lines()) {
        let trimmed = line.trim_start();
        let doc = trimmed
            .strip_prefix("///")
            .or_else(|| trimmed.strip_prefix("//!"));
        let first = doc
            .and_then(|doc| doc.split_whitespace().next())
            .unwrap_or_default();
        if !was_doc && VAGUE_SUBJECTS.contains(&first) {
            found.push(format!(
                "{path}:{number}: a doc comment begins with `{first}`: name the thing"
            ));
        }
        was_doc = doc.is_some();
    }
    found
}

pub(crate) fn white_space(path: &str, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        if line.ends_with([' ', '\t', '\r']) {
            found.push(format!("{path}:{number}: white space at the end"));
        }
        if path.ends_with(".rs") && line.contains('\t') {
            found.push(format!("{path}:{number}: a tab; in a string write \\t"));
        }
    }
    if !text.is_empty() && !text.ends_with('\n') {
        found.push(format!("{path}: the last line does not end"));
    }
    found
}

/// True if the text contains the word, and not only as a part of a longer word.
pub(crate) fn contains_word(text: &str, word: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).any(|(at, _)| {
        let open = word.starts_with(part) && text[..at].ends_with(part);
        let close = word.ends_with(part) && text[at + word.len()..].starts_with(part);
        !open && !close
    })
}

#[test]
fn every_banned_word_is_found() {
    for (word, _) in BANNED {
        let text = format!("fn f() {{\n    {word} \n}}\n");
        assert_eq!(banned_words("a.rs", &text).len(), 1, "{word}");
    }
    assert!(banned_words("a.rs", "#[ignore = \"needs a server\"]\nlet AXXXB = 1;\n").is_empty());
}

#[test]
fn invisible_white_space_is_found() {
    assert_eq!(white_space("a.md", "a \nb\t\n\tc\n").len(), 2);
    assert_eq!(white_space("a.rs", "\ta\n").len(), 1);
    assert_eq!(white_space("a.rs", "a").len(), 1);
    assert!(white_space("a.rs", "a\n\n    b\n").is_empty());
}

#[test]
fn doc_comments_without_a_named_subject_are_found() {
    let text = "/// What it is.\nfn a() {}\n/// The size.\n/// What follows.\nfn b() {}\n";
    assert_eq!(vague_subjects("a.rs", text).len(), 1);
    assert!(vague_subjects("a.rs", "// What follows\n").is_empty());
}
