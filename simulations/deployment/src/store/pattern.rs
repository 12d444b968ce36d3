//! Regular expressions with a bound on their work.
//!
//! A pattern runs on an engine of linear time, if it needs neither look-around nor back-references.
//! An attempt charges the budget of the query: by the length of the text on this engine, and by the
//! limit of its steps on the other one. The size of a compiled pattern is bounded, because the
//! engine of linear time takes time in proportion to it. Classes such as `\w` have only ASCII
//! characters, as in the server.

mod translation;

use std::sync::{Arc, OnceLock};

use fancy_regex::RegexBuilder as FancyBuilder;
use regex::{Regex, RegexBuilder};

use super::budget::Budget;
use super::error::StoreError;
use translation::translated;

/// The length of the longest pattern, in bytes.
const MAX_PATTERN_BYTES: usize = 16_384;

/// The size up to which a compiled pattern costs one step for each [`BYTES_PER_STEP`] of the text.
const SMALL_BYTES: usize = 16 * 1024;

/// The size of the largest compiled pattern, in bytes.
const MAX_BYTES: usize = 256 * 1024;

/// The number of bytes of a text that count as one step for a small pattern.
const BYTES_PER_STEP: usize = 16;

/// The number of bytes of a large compiled pattern that count as one step for each byte of a text.
const PATTERN_BYTES_PER_STEP: usize = 64;

/// The most steps of an attempt to match with look-around or back-references.
const MAX_BACKTRACKS: usize = 20_000;

/// The longest text for a pattern with look-around or back-references, in bytes.
const MAX_BACKTRACKED_BYTES: usize = 1024 * 1024;

/// The steps that count for the compilation of a pattern.
pub(crate) const STEPS_OF_COMPILATION: u64 = 5_000;

/// The end of a text, or the place before a newline there, for the engine with look-around.
const END: &str = r"(?=\n?\z)";

/// A compiled pattern.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    engine: Engine,
    /// The pattern for texts that end with a newline, if it has a `$` or `\Z`, which also fit
    /// before that newline. The engine of linear time only knows the end of the text.
    end: Option<Arc<End>>,
}

#[derive(Clone, Debug)]
enum Engine {
    Small(Regex),
    Large(Regex),
    Backtracking(Box<fancy_regex::Regex>),
}

/// A pattern that was not yet compiled for the engine with look-around.
#[derive(Debug)]
struct End {
    text: String,
    options: String,
    max_bytes: usize,
    /// True if the pattern has one `$` and nothing follows it, so that it is enough to try the text
    /// without its newline.
    is_last: bool,
    engine: OnceLock<Option<Engine>>,
}

impl End {
    /// Returns what is needed for texts that end with a newline, or `None` if nothing is.
    fn of(text: &str, options: &str, max_bytes: usize) -> Option<Self> {
        let translated = translated(text, options, (r"\b", END));
        let (before, last) = translated.rsplit_once(END)?;
        // The text of a further `$` contains `\z` as well.
        let has_other_end = before.contains(r"\z");
        Some(Self {
            is_last: last.chars().all(|c| c == ')') && !has_other_end,
            text: text.to_owned(),
            options: options.to_owned(),
            max_bytes: MAX_BYTES.min(max_bytes),
            engine: OnceLock::new(),
        })
    }

    fn engine(&self, budget: &Budget) -> Result<&Engine, StoreError> {
        if self.engine.get().is_none() {
            budget.step(STEPS_OF_COMPILATION)?;
        }
        let engine = self.engine.get_or_init(|| {
            let regex = backtracking(&self.text, &self.options, self.max_bytes).ok()?;
            Some(Engine::Backtracking(Box::new(regex)))
        });
        engine.as_ref().ok_or_else(|| {
            let text = "a regular expression with $ is too large for a text with a last newline";
            StoreError::new(51091, text)
        })
    }
}

impl Pattern {
    /// Compiles a pattern with the options of a BSON regular expression. The compiled pattern may
    /// take at most `max_bytes`.
    pub(crate) fn new(text: &str, options: &str, max_bytes: usize) -> Result<Self, StoreError> {
        if text.len() > MAX_PATTERN_BYTES {
            return Err(StoreError::new(51091, "Regular expression is too long"));
        }
        if let Some(other) = options.chars().find(|option| !"imsxu".contains(*option)) {
            let text = format!("invalid flag in regex options: {other}");
            return Err(StoreError::new(51108, text));
        }
        let linear = |engine| Self {
            engine,
            end: End::of(text, options, max_bytes).map(Arc::new),
        };
        let small = plain(text, options, SMALL_BYTES.min(max_bytes));
        let reason = match small {
            Ok(regex) => return Ok(linear(Engine::Small(regex))),
            Err(regex::Error::CompiledTooBig(_)) => {
                match plain(text, options, MAX_BYTES.min(max_bytes)) {
                    Ok(regex) => return Ok(linear(Engine::Large(regex))),
                    Err(error) => error.to_string(),
                }
            }
            Err(error) => match backtracking(text, options, MAX_BYTES.min(max_bytes)) {
                Ok(regex) => {
                    let engine = Engine::Backtracking(Box::new(regex));
                    return Ok(Self { engine, end: None });
                }
                Err(_) => error.to_string(),
            },
        };
        let reason = reason.lines().last().unwrap_or_default();
        let text = format!("Regular expression is invalid: {reason}");
        Err(StoreError::new(51091, text))
    }

    /// True if the pattern matches a part of the text.
    ///
    /// # Errors
    ///
    /// If the work of the query exceeds its limit.
    pub(crate) fn is_match(&self, text: &str, budget: &Budget) -> Result<bool, StoreError> {
        if self.engine.is_match(text, budget)? {
            return Ok(true);
        }
        match (&self.end, text.strip_suffix('\n')) {
            (Some(end), Some(rest)) if end.is_last => self.engine.is_match(rest, budget),
            (Some(end), Some(_)) => end.engine(budget)?.is_match(text, budget),
            _ => Ok(false),
        }
    }

    /// Returns the first match that begins at `start` or later, as the bounds of the match and of
    /// each group. `start` is the position of a character, or the length of the text.
    ///
    /// # Errors
    ///
    /// If the work of the query exceeds its limit.
    pub(crate) fn captures(
        &self,
        text: &str,
        start: usize,
        budget: &Budget,
    ) -> Result<Option<Groups>, StoreError> {
        let (Some(end), Some(rest)) = (&self.end, text.strip_suffix('\n')) else {
            return self.engine.captures(text, start, budget);
        };
        if end.is_last {
            let whole = self.engine.captures(text, start, budget)?;
            let before = match start <= rest.len() {
                true => self.engine.captures(rest, start, budget)?,
                false => None,
            };
            let begins = |found: &Option<Groups>| found.as_ref()?.first().copied().flatten();
            match (begins(&whole), begins(&before)) {
                // Both are matches at one place: the pattern decides whether it wants the newline.
                (Some((one, _)), Some((other, _))) if one == other => {}
                (Some((one, _)), Some((other, _))) if one < other => return Ok(whole),
                (_, Some(_)) => return Ok(before),
                _ => return Ok(whole),
            }
        }
        end.engine(budget)?.captures(text, start, budget)
    }
}

impl Engine {
    fn is_match(&self, text: &str, budget: &Budget) -> Result<bool, StoreError> {
        self.charge(text, budget)?;
        match self {
            Self::Small(regex) | Self::Large(regex) => Ok(regex.is_match(text)),
            Self::Backtracking(regex) => regex.is_match(text).map_err(|e| failed(&e)),
        }
    }

    fn captures(
        &self,
        text: &str,
        start: usize,
        budget: &Budget,
    ) -> Result<Option<Groups>, StoreError> {
        self.charge(text.get(start..).unwrap_or_default(), budget)?;
        Ok(match self {
            Self::Small(regex) | Self::Large(regex) => {
                let found = regex.captures_at(text, start);
                found.map(|found| found.iter().map(|part| part.map(bounds)).collect())
            }
            Self::Backtracking(regex) => {
                let found = regex
                    .captures_from_pos(text, start)
                    .map_err(|e| failed(&e))?;
                found.map(|found| {
                    let parts = found.iter();
                    parts
                        .map(|part| part.map(|p| (p.start(), p.end())))
                        .collect()
                })
            }
        })
    }

    /// Charges an attempt to match a text.
    fn charge(&self, text: &str, budget: &Budget) -> Result<(), StoreError> {
        let steps = match self {
            Self::Small(_) => text.len() / BYTES_PER_STEP,
            Self::Large(_) => text
                .len()
                .saturating_mul(MAX_BYTES / PATTERN_BYTES_PER_STEP),
            Self::Backtracking(_) if text.len() > MAX_BACKTRACKED_BYTES => {
                let text = "a text is too long for a regular expression with look-around or \
                            back-references";
                return Err(StoreError::new(51156, text));
            }
            // An attempt can take all its steps on a short text.
            Self::Backtracking(_) => MAX_BACKTRACKS + text.len(),
        };
        budget.step(1 + steps as u64)
    }
}

/// The bounds of a match and of its groups. A group that did not take part has none.
pub(crate) type Groups = Vec<Option<(usize, usize)>>;

fn bounds(part: regex::Match<'_>) -> (usize, usize) {
    (part.start(), part.end())
}

fn failed(error: &fancy_regex::Error) -> StoreError {
    let text = format!("Error occurred while executing the regular expression: {error}");
    StoreError::new(51156, text)
}

fn plain(text: &str, options: &str, max_bytes: usize) -> Result<Regex, regex::Error> {
    RegexBuilder::new(&translated(text, options, (r"(?-u:\b)", r"\z")))
        .case_insensitive(options.contains('i'))
        .multi_line(options.contains('m'))
        .dot_matches_new_line(options.contains('s'))
        .ignore_whitespace(options.contains('x'))
        .size_limit(max_bytes)
        .dfa_size_limit(max_bytes)
        .build()
}

fn backtracking(
    text: &str,
    options: &str,
    max_bytes: usize,
) -> Result<fancy_regex::Regex, fancy_regex::Error> {
    FancyBuilder::new(&translated(text, options, (r"\b", END)))
        .case_insensitive(options.contains('i'))
        .multi_line(options.contains('m'))
        .dot_matches_new_line(options.contains('s'))
        .verbose_mode(options.contains('x'))
        .backtrack_limit(MAX_BACKTRACKS)
        .delegate_size_limit(max_bytes)
        .delegate_dfa_size_limit(max_bytes)
        .build()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_match(pattern: &str, text: &str) -> bool {
        let pattern = Pattern::new(pattern, "", usize::MAX).expect(pattern);
        pattern.is_match(text, &Budget::default()).expect(text)
    }

    #[test]
    fn patterns_have_the_syntax_of_the_server() {
        for (pattern, fitting, other) in [
            (r"^\d+$", "12", "١٢"),
            (r"^\w$", "a", "ä"),
            (r"^[\w-]+$", "a-b", "a b"),
            (r"^[^\s]$", "\u{a0}", " "),
            (r"^\S\W\D$", "a-b", "a-1"),
            (r"\bfoo\b", "a foo b", "afoob"),
            (r"end\Z", "the end\n", "the end\n\n"),
            ("^[a[b]$", "[", "]"),
            ("^[]a]$", "]", "["),
            ("^[a&&b]$", "&", "c"),
            ("^[[:alpha:]]+$", "abc", "a1"),
            ("foo(?=bar)", "foobar", "foobaz"),
            ("(?<!a)b", "cb", "ab"),
            (r"(a|b)\1", "xaa", "ab"),
            (r"^(?>a+)b", "aab", "aac"),
            (r"^[\w-.]+@", "a-b.c@", "a b@"),
            (r"^[\s-a]$", "-", "5"),
            (r"^[\w-|]$", "-", "`"),
            ("^[+--]$", ",", "a"),
            (r"^\Qa.b*\E+$", "a.b**", "axb"),
            ("ab$", "ab\n", "ab\n\n"),
            ("^(ab|c$)", "c\n", "c\n\n"),
            (r"a$\n", "a\n", "a"),
            (r"(a$)\n", "a\n", "a"),
            (r"((a)$)\s", "a\n", "a"),
            (r"(a$|b)\n", "a\n", "a"),
            ("(a$|b$)", "b\n", "b\n\n"),
            (r"\(?m$", "m\n", "m\n\n"),
            (r"^a\z", "a", "a\n"),
            (r"(a\z|b$)", "b\n", "a\n"),
            ("(?m)a$", "a\nb", "ab"),
            ("[$]", "$", "a"),
            (r"a(?=b$)", "ab\n", "ab\nc"),
            ("^a{,3}$", "a{,3}", "aaa"),
            ("^a{2,3}$", "aaa", "a"),
            ("^{a}$", "{a}", "a"),
            (r"^\x{61}\p{Lu}$", "aB", "ab"),
        ] {
            assert!(is_match(pattern, fitting), "{pattern} {fitting}");
            assert!(!is_match(pattern, other), "{pattern} {other}");
        }
        let options = Pattern::new("A . b # c", "isx", usize::MAX).expect("a pattern");
        assert_eq!(options.is_match("a\nB", &Budget::default()), Ok(true));
        let end = Pattern::new("a\\n?$", "", usize::MAX).expect("a pattern");
        let lazy = Pattern::new("a\\n??$", "", usize::MAX).expect("a pattern");
        let found = |pattern: &Pattern| {
            let found = pattern
                .captures("a\n", 0, &Budget::default())
                .expect("no error");
            found.expect("a match")[0]
        };
        assert_eq!((found(&end), found(&lazy)), (Some((0, 2)), Some((0, 1))));
        let word = Pattern::new(r"(\w+)\.$", "", usize::MAX).expect("a pattern");
        let budget = Budget::default();
        for _ in 0..20_000 {
            let found = word.captures("line 7 some text ends here.\n", 0, &budget);
            let groups = found.expect("within the limit").expect("a match");
            assert_eq!(groups, [Some((22, 27)), Some((22, 26))]);
        }
        let commented = Pattern::new("a # [x\n[b]c", "x", usize::MAX).expect("a pattern");
        assert_eq!(commented.is_match("abc", &Budget::default()), Ok(true));
        for (pattern, options, code) in [("a", "q", 51108), ("(", "", 51091), ("(?=a", "", 51091)] {
            let error = Pattern::new(pattern, options, usize::MAX).expect_err(pattern);
            assert_eq!(error.code, code, "{pattern}");
        }
    }

    #[test]
    fn the_work_of_a_pattern_is_charged_or_refused() {
        let text = "a".repeat(5_000);
        for pattern in [
            "(a{1,100}){1,100}b",
            "(a{1,30}){1,30}b",
            "(a*)*(?=b)c",
            r"(a+)+\1b",
        ] {
            let budget = Budget::default();
            let Ok(pattern) = Pattern::new(pattern, "", usize::MAX) else {
                continue;
            };
            let attempts = 100_000;
            let over = (0..attempts).position(|_| pattern.is_match(&text, &budget).is_err());
            assert!(over.is_some_and(|at| at < 2_000), "{pattern:?} {over:?}");
        }
        let short = Pattern::new(r"(a*)*\1b", "", usize::MAX).expect("a pattern");
        let budget = Budget::default();
        let over = (0..10_000).position(|_| short.is_match("aaaaaaaaaaaaaa", &budget).is_err());
        assert!(over.is_some_and(|at| at < 3_000), "{over:?}");
        let small = Pattern::new("ab", "", usize::MAX).expect("a pattern");
        let budget = Budget::default();
        for _ in 0..100_000 {
            assert_eq!(small.is_match("a short text", &budget), Ok(false));
        }
    }
}
