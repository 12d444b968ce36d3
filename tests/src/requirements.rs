//! The rules of `docs/requirements`, and the places that cite them.

use std::collections::{BTreeMap, BTreeSet};

/// The folder that defines the rules, one file for each specification.
pub const FOLDER: &str = "docs/requirements/";

/// The file about rules that are not implemented yet, and about rules that ask nothing of this
/// driver.
pub const LATER: &str = "docs/requirements/later.md";

/// The first line of a table of rules.
const RULES_HEADER: &str = "| number | rule | official tests |";

/// The first words of citations such as "table A.8", "timer T-3" and "scenario 28", which have no
/// prefix.
const NAMED: [&str; 3] = ["table", "timer", "scenario"];

/// A rule, or another entry that code may cite by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The file that defines the rule.
    pub file: String,
    /// The anchor: a number such as `CMAP-17`, or a name such as `table-A.8`.
    pub anchor: String,
    /// The text that states the rule or describes the entry.
    pub text: String,
    /// The official tests that show the rule: paths of files (without extension) and folders below
    /// `source/`, or patterns such as `discover_*`.
    pub official: Vec<String>,
    /// True for a rule of a specification, false for any other entry, such as a table, a timer, a
    /// scenario or a trap.
    pub is_numbered: bool,
}

/// Returns the rules that a file of [`FOLDER`] defines.
///
/// # Errors
///
/// If a row with an anchor lacks its text or, for a rule, the matching number or the official
/// tests.
pub fn rules(file: &str, text: &str) -> Result<Vec<Rule>, String> {
    let mut found = Vec::new();
    let mut is_numbered = false;
    for (number, line) in (1..).zip(text.lines()) {
        if line.starts_with('|') && !line.contains("<a id=") {
            is_numbered = line == RULES_HEADER || (is_numbered && line.starts_with("|---"));
        }
        let Some(rest) = line.strip_prefix("| <a id=\"") else {
            continue;
        };
        let rule = parse_row(file, rest, is_numbered);
        found.push(rule.ok_or_else(|| format!("{file}:{number}: a malformed row"))?);
    }
    Ok(found)
}

fn parse_row(file: &str, rest: &str, is_numbered: bool) -> Option<Rule> {
    let (anchor, rest) = rest.split_once("\"></a>")?;
    let row = rest.trim_end().strip_suffix(" |")?.replace("\\|", "\u{1}");
    let cells: Vec<&str> = row.split(" | ").collect();
    let (name, text, official) = match cells[..] {
        [name, text, official] if is_numbered => (name, text, official),
        [name, text] if !is_numbered => (name, text, ""),
        _ => return None,
    };
    if text.trim().is_empty() || (is_numbered && name.trim() != anchor) {
        return None;
    }
    let quoted = official.split('`').skip(1).step_by(2);
    Some(Rule {
        file: file.to_owned(),
        anchor: anchor.to_owned(),
        text: text.replace('\u{1}', "|"),
        official: quoted.map(str::to_owned).collect(),
        is_numbered,
    })
}

/// Returns the prefixes of the numbers of these rules, such as `CMAP`.
#[must_use]
pub fn prefixes(rules: &[Rule]) -> BTreeSet<String> {
    let numbered = rules.iter().filter(|rule| rule.is_numbered);
    let prefix = numbered.filter_map(|rule| rule.anchor.split_once('-'));
    prefix.map(|(prefix, _)| prefix.to_owned()).collect()
}

/// Returns the anchors of everything that one line of text cites: numbers with one of these
/// prefixes, tables, timers and scenarios.
#[must_use]
pub fn citations(line: &str, prefixes: &BTreeSet<String>) -> Vec<String> {
    let mut found = Vec::new();
    for (at, _) in line.match_indices('-') {
        let before = &line[..at];
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let start = before.trim_end_matches(is_part).len();
        let prefix = &before[start..];
        let number = number(&line[at + 1..]);
        if prefixes.contains(prefix) && !number.is_empty() && !before[..start].ends_with('-') {
            found.push(format!("{prefix}-{number}"));
        }
    }
    let words: Vec<&str> = line.split_whitespace().collect();
    for pair in words.windows(2) {
        let word = pair[0].trim_start_matches(['(', '"', '`']).to_lowercase();
        let name = pair[1].trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
        if NAMED.contains(&word.as_str()) && is_name(&word, name) {
            found.push(format!("{word}-{name}"));
        }
    }
    found
}

/// Returns the number of a rule at the start of a text: digits, or for a prose test `P3` or `P6.1`.
/// Returns an empty text if there is no number.
fn number(text: &str) -> &str {
    let rest = text.strip_prefix('P').unwrap_or(text);
    let mut end = text.len() - rest.len();
    let digits = |from: usize| text[from..].bytes().take_while(u8::is_ascii_digit).count();
    let whole = digits(end);
    if whole == 0 {
        return "";
    }
    end += whole;
    if text[end..].starts_with('.') && end > whole {
        let part = digits(end + 1);
        end += if part > 0 { part + 1 } else { 0 };
    }
    let is_longer = text[end..].starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
    if is_longer { "" } else { &text[..end] }
}

/// True for the name of a table ("A.8"), of a timer ("T-3") or of a scenario ("28").
fn is_name(word: &str, name: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    match word {
        "table" => {
            let mut parts = name.split('.');
            let letter = parts.next().unwrap_or_default();
            let is_letter = matches!(letter.as_bytes(), [b'A'..=b'E']);
            is_letter && name.len() > 1 && parts.all(is_number)
        }
        "timer" => name.strip_prefix("T-").is_some_and(is_number),
        _ => is_number(name),
    }
}

/// The files that cite each rule. Citations in tests are kept apart.
#[derive(Debug, Default)]
pub struct Citations {
    /// Files that cite the rule outside of tests.
    pub code: BTreeMap<String, BTreeSet<String>>,
    /// Files whose tests cite the rule: test files, and files that end with a module of tests.
    pub tests: BTreeMap<String, BTreeSet<String>>,
}

impl Citations {
    /// Adds the citations of one file.
    pub fn add(&mut self, file: &str, text: &str, prefixes: &BTreeSet<String>) {
        let mut is_test = file.starts_with("tests/")
            || file.contains("/tests/")
            || file.ends_with("/tests.rs")
            || file.ends_with("_tests.rs");
        let mut lines = text.lines().peekable();
        while let Some(line) = lines.next() {
            let next = lines.peek().copied().unwrap_or_default().trim_end();
            is_test |= line == "#[cfg(test)]" && next.starts_with("mod ") && !next.ends_with(';');
            for anchor in citations(line, prefixes) {
                let of = if is_test {
                    &mut self.tests
                } else {
                    &mut self.code
                };
                of.entry(anchor).or_default().insert(file.to_owned());
            }
        }
    }
}

/// True if one of the folders that the runners read holds one of the rule's official tests.
#[must_use]
pub fn has_official_test(rule: &Rule, folders: &BTreeSet<String>) -> bool {
    let is_run = |test: &String| {
        let mut folders = folders.iter();
        folders.any(|folder| test == folder || test.starts_with(&format!("{folder}/")))
    };
    rule.official.iter().any(is_run)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "# Pools\n\n| number | rule | official tests |\n|---|---|---|\n\
        | <a id=\"CMAP-1\"></a>CMAP-1 | A pool \\| is kept. | `a/tests/b`, prose 3 |\n\
        | <a id=\"CMAP-P2.1\"></a>CMAP-P2.1 | A test. | none |\n\n\
        | name | meaning |\n|---|---|\n| <a id=\"table-A.8\"></a>table A.8 | Errors. |\n";

    #[test]
    fn a_table_of_rules_is_read() {
        let rules = rules("docs/requirements/x.md", TABLE).expect("well formed");
        let anchors: Vec<&str> = rules.iter().map(|rule| &*rule.anchor).collect();
        assert_eq!(anchors, ["CMAP-1", "CMAP-P2.1", "table-A.8"]);
        assert_eq!(rules[0].text, "A pool | is kept.");
        assert_eq!(rules[0].official, ["a/tests/b"]);
        assert!(!rules[2].is_numbered);
        assert_eq!(prefixes(&rules), BTreeSet::from(["CMAP".to_owned()]));
    }

    #[test]
    fn a_malformed_row_of_rules_is_an_error() {
        for row in [
            "| <a id=\"A-1\"></a>A-1 | x |",
            "| <a id=\"A-1\"></a>A-2 | x | none |",
            "| <a id=\"A-1\"></a>A-1 |  | none |",
        ] {
            let text = format!("{RULES_HEADER}\n|---|---|---|\n{row}\n");
            assert!(rules("x.md", &text).is_err(), "{row}");
        }
    }

    #[test]
    fn citations_of_rules_are_found_in_a_line() {
        let prefixes = BTreeSet::from(["CMAP".to_owned(), "RW".to_owned()]);
        let cited = |line| citations(line, &prefixes);
        assert_eq!(
            cited("é-1 or éCMAP-1"),
            ["CMAP-1"],
            "other letters are no part of a prefix"
        );
        assert_eq!(
            cited("// A pool is kept (CMAP-1, RW-P6.1)."),
            ["CMAP-1", "RW-P6.1"]
        );
        assert_eq!(
            cited("as table A.8 says, and scenario 28."),
            ["table-A.8", "scenario-28"]
        );
        assert_eq!(cited("timer T-3"), ["timer-T-3"]);
        assert_eq!(cited("SHA-256, X-CMAP-1, CMAP-x, a table of 8"), [""; 0]);
        assert_eq!(cited("[CMAP-7]: crate::requirements::pool#CMAP-7").len(), 2);
    }

    #[test]
    fn citations_in_tests_are_distinguished_from_those_in_code() {
        let prefixes = BTreeSet::from(["RW".to_owned()]);
        let mut citations = Citations::default();
        let text = "// RW-1\n#[cfg(test)]\nmod tests {\n// RW-2\n}\n";
        citations.add("core/src/a.rs", text, &prefixes);
        citations.add("core/src/tests/b.rs", "// RW-3\n", &prefixes);
        assert!(citations.code.contains_key("RW-1"));
        let tests: Vec<&String> = citations.tests.keys().collect();
        assert_eq!(tests, ["RW-2", "RW-3"]);
    }

    #[test]
    fn an_official_test_counts_only_if_its_folder_is_run() {
        let rule = |path: &str| Rule {
            file: String::new(),
            anchor: String::new(),
            text: String::new(),
            official: vec![path.to_owned()],
            is_numbered: true,
        };
        let folders = BTreeSet::from(["a/tests".to_owned()]);
        assert!(has_official_test(&rule("a/tests/b"), &folders));
        assert!(!has_official_test(&rule("a/tests2/b"), &folders));
    }
}
