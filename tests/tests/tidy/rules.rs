//! Checks that each cited rule is defined once in `docs/requirements`, and that public docs link to
//! it.

use onionskin_tests::requirements::{FOLDER, LATER, Rule, citations, prefixes, rules};
use std::collections::{BTreeMap, BTreeSet};

use crate::source::{files, read};

/// Returns all rules, and messages about errors in the files that define them.
pub(crate) fn defined() -> (Vec<Rule>, Vec<String>) {
    let (mut found, mut wrong) = (Vec::new(), Vec::new());
    for file in files().iter().filter(|file| file.starts_with(FOLDER)) {
        if file == LATER {
            continue;
        }
        match rules(file, &read(file)) {
            Ok(more) => found.extend(more),
            Err(error) => wrong.push(error),
        }
    }
    wrong.extend(defined_twice(&found));
    (found, wrong)
}

fn defined_twice(rules: &[Rule]) -> Vec<String> {
    let mut files: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for rule in rules {
        files.entry(&rule.anchor).or_default().push(&rule.file);
    }
    let twice = files.iter().filter(|(_, files)| files.len() > 1);
    twice
        .map(|(anchor, files)| format!("{anchor} is defined more than once: {files:?}"))
        .collect()
}

/// The rules in the form in which each file is compared with them.
pub(crate) struct Index {
    prefixes: BTreeSet<String>,
    /// The file that defines each rule, by the anchor of the rule.
    files: BTreeMap<String, String>,
}

impl Index {
    pub(crate) fn new(rules: &[Rule]) -> Self {
        let files = rules.iter().map(|r| (r.anchor.clone(), r.file.clone()));
        Self {
            prefixes: prefixes(rules),
            files: files.collect(),
        }
    }
}

/// Returns a message for each citation of a rule that is not defined.
pub(crate) fn undefined(index: &Index, path: &str, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        for cited in citations(line, &index.prefixes) {
            if !index.files.contains_key(&cited) {
                found.push(format!("{path}:{number}: {cited} is not in {FOLDER}"));
            }
        }
    }
    found
}

/// Returns a message for each link of the docs that leads to another file than the one that defines
/// the rule.
pub(crate) fn astray(index: &Index, path: &str, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let Some((_, link)) = line.split_once("::requirements::") else {
            continue;
        };
        let Some((module, anchor)) = link.trim_end().split_once('#') else {
            continue;
        };
        let file = format!("{FOLDER}{}.md", module.replace('_', "-"));
        if index.files.get(anchor) != Some(&file) {
            found.push(format!("{path}:{number}: {anchor} is not in {file}"));
        }
    }
    found
}

/// Returns a message for each number that the docs of a public item cite without a link. The
/// variants and fields of a public enum and the functions of a public trait are public items.
pub(crate) fn unlinked(index: &Index, path: &str, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut block = Vec::new();
    // The indents of the public enums and traits around the line.
    let mut open: Vec<usize> = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let trimmed = line.trim_start();
        let indent = line.len() - trimmed.len();
        if trimmed.starts_with("///") {
            block.push((number, trimmed));
            continue;
        }
        if trimmed.starts_with("#[") || trimmed.starts_with("// ") {
            continue;
        }
        if is_public(trimmed) || !open.is_empty() {
            for (number, line) in &block {
                let numbers = citations(line, &index.prefixes).into_iter();
                let bare = numbers.filter(|cited| !line.contains(&format!("[{cited}]")));
                let bare = bare.filter(|cited| !cited.starts_with(|c: char| c.is_lowercase()));
                found.extend(bare.map(|cited| format!("{path}:{number}: {cited} is no link")));
            }
        }
        block.clear();
        let is_container = ["pub enum ", "pub trait "]
            .iter()
            .any(|p| trimmed.starts_with(p));
        if is_container && trimmed.ends_with('{') {
            open.push(indent);
        } else if trimmed.starts_with('}') && open.last() == Some(&indent) {
            open.pop();
        }
    }
    found
}

/// True for the first line of a public item, as far as one line shows.
fn is_public(line: &str) -> bool {
    line.starts_with("pub ") && !line.starts_with("pub use ")
}

/// Finds names of Rust files in backquotes that are no files, or no ends of paths of files.
pub(crate) fn missing_files(files: &[String], path: &str, text: &str) -> Vec<String> {
    let is_file = |name: &&str| name.ends_with(".rs") && !name.contains(char::is_whitespace);
    let exists = |name: &str| {
        let is_end = |file: &String| {
            let rest = file.strip_suffix(name);
            rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('/'))
        };
        files.iter().any(is_end)
    };
    let named = text.split('`').skip(1).step_by(2).filter(is_file);
    let missing = named.filter(|name| !exists(name));
    missing
        .map(|name| format!("{path}: there is no file `{name}`"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(anchor: &str, file: &str) -> Rule {
        Rule {
            file: format!("{FOLDER}{file}"),
            anchor: anchor.to_owned(),
            text: "x".to_owned(),
            official: Vec::new(),
            is_numbered: true,
        }
    }

    #[test]
    fn a_rule_that_is_defined_twice_is_found() {
        let rules = [rule("LB-1", "a.md"), rule("LB-1", "b.md")];
        assert_eq!(defined_twice(&rules).len(), 1);
        assert!(defined_twice(&rules[..1]).is_empty());
    }

    #[test]
    fn a_citation_of_an_undefined_rule_is_found() {
        let index = Index::new(&[rule("LB-1", "a.md")]);
        let text = concat!("// LB", "-1\n// LB", "-99\n");
        let found = undefined(&index, "x.rs", text);
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("x.rs:2: "), "{found:?}");
    }

    #[test]
    fn a_link_to_the_wrong_rule_file_is_found() {
        let index = Index::new(&[rule("LB-1", "load-balancers.md")]);
        let link = |module| format!("/// [LB-1]: crate::requirements::{module}#LB-1\n");
        assert!(astray(&index, "x.rs", &link("load_balancers")).is_empty());
        assert_eq!(astray(&index, "x.rs", &link("pool")).len(), 1);
    }

    #[test]
    fn a_rule_number_without_a_link_in_public_docs_is_found() {
        let index = Index::new(&[rule("LB-1", "a.md")]);
        let doc = "    /// Pins (LB-1).\n    #[must_use]\n";
        let public = format!("{doc}    pub fn pin() {{}}\n");
        assert_eq!(unlinked(&index, "x.rs", &public).len(), 1);
        let private = format!("{doc}    fn pin() {{}}\n");
        assert!(unlinked(&index, "x.rs", &private).is_empty());
        let variant = "pub enum E {\n    /// Pins (LB-1).\n    A,\n}\n/// LB-1.\nfn f() {}\n";
        assert_eq!(unlinked(&index, "x.rs", variant).len(), 1);
        let linked = public.replace("(LB-1)", "([LB-1])");
        assert!(unlinked(&index, "x.rs", &linked).is_empty());
    }

    #[test]
    fn finds_files_that_do_not_exist() {
        let files = ["core/src/client/end.rs".to_owned()];
        let text =
            "`client/end.rs`, `end.rs` and `core/src/client/end.rs`, not `nd.rs`, `x/end.rs`";
        assert_eq!(missing_files(&files, "a.md", text).len(), 2);
    }
}
