//! Regular expressions with a bound on their work.
//!
//! A pattern runs on an engine of linear time, if it needs neither look-around nor back-references.
//! An attempt charges the budget of the query: by the length of the text on this engine, and by the
//! limit of its steps on the other one. The size of a compiled pattern is bounded, because the
//! engine of linear time takes time in proportion to it. Classes such as `\w` have only ASCII
//! characters, as in the server.

mod classes;
mod escapes;
mod translation;

use std::sync::{Arc, OnceLock};

use fancy_regex::RegexBuilder as FancyBuilder;
use regex::{Regex, RegexBuilder};

use super::budget::Budget;
use super::error::StoreError;
use super::release::Release;
use translation::{Anchors, BACKTRACKING, LINEAR, Translation, invalid, translated};

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

/// The steps that count for the compilation of any pattern.
const STEPS_OF_COMPILATION: usize = 5_000;

/// The further steps for each byte of the pattern in the syntax of an engine.
const STEPS_OF_BYTE: usize = 10;

/// The further steps for each property of characters, such as `\p{L}`.
const STEPS_OF_PROPERTY: usize = 5_000;

/// A compiled pattern.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    engine: Engine,
    /// The pattern for texts that end with a newline, if it has an anchor which the engine of
    /// linear time reads in another way there.
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
    release: Release,
    max_bytes: usize,
    form: EndForm,
    /// The number of steps that the compilation takes from the budget.
    steps: u64,
    engine: OnceLock<Option<Engine>>,
}

/// The anchors of a pattern that have another meaning in a text that ends with a newline.
#[derive(Clone, Copy, Debug, PartialEq)]
enum EndForm {
    /// One `$`, and nothing follows it. It is enough to try the text without its newline.
    Last,
    /// `^` with the option `m`, which does not fit after the last newline.
    Lines,
    /// Any other pattern. `$` and `\Z` also match before the last newline.
    Other,
}

impl EndForm {
    fn of(translation: &Translation) -> Option<Self> {
        let end = translation.text.rsplit_once(BACKTRACKING.end);
        match (end, translation.has_line_starts) {
            (None, false) => None,
            (None, true) => Some(Self::Lines),
            (Some(_), true) => Some(Self::Other),
            // The text of a further `$` contains `\z` as well.
            (Some((before, last)), false) => {
                let is_last = last.chars().all(|c| c == ')') && !before.contains(r"\z");
                Some(if is_last { Self::Last } else { Self::Other })
            }
        }
    }
}

impl End {
    /// Returns what is needed for texts that end with a newline, or `None` if nothing is.
    fn of(
        text: &str,
        options: &str,
        release: Release,
        max_bytes: usize,
    ) -> Result<Option<Self>, StoreError> {
        let translation = translated(text, options, &BACKTRACKING, release)?;
        let (form, steps) = (EndForm::of(&translation), steps(&translation));
        Ok(form.map(|form| Self {
            text: text.to_owned(),
            options: options.to_owned(),
            release,
            max_bytes: MAX_BYTES.min(max_bytes),
            form,
            steps,
            engine: OnceLock::new(),
        }))
    }

    fn engine(&self, budget: &Budget) -> Result<&Engine, StoreError> {
        if self.engine.get().is_none() {
            budget.step(self.steps)?;
        }
        let engine = self.engine.get_or_init(|| {
            let translation =
                translated(&self.text, &self.options, &BACKTRACKING, self.release).ok()?;
            let regex = backtracking(&translation, &self.options, self.max_bytes).ok()?;
            Some(Engine::Backtracking(Box::new(regex)))
        });
        engine.as_ref().ok_or_else(|| {
            let text =
                "a regular expression with anchors is too large for a text with a last newline";
            StoreError::new(51091, text)
        })
    }
}

impl Pattern {
    /// Compiles a pattern with the options of a BSON regular expression. The compiled pattern may
    /// take at most `max_bytes`. The compilation is charged before it begins.
    pub(crate) fn new(
        text: &str,
        options: &str,
        release: Release,
        max_bytes: usize,
        budget: &Budget,
    ) -> Result<Self, StoreError> {
        if text.len() > MAX_PATTERN_BYTES {
            return Err(StoreError::new(51091, "Regular expression is too long"));
        }
        if let Some(other) = options.chars().find(|option| !"imsxu".contains(*option)) {
            let text = format!("invalid flag in regex options: {other}");
            return Err(StoreError::new(51108, text));
        }
        let max_bytes = MAX_BYTES.min(max_bytes);
        let translate = |anchors: &Anchors| translated(text, options, anchors, release);
        let translation = translate(&LINEAR)?;
        budget.step(steps(&translation))?;
        let reason = match linear(&translation, options, max_bytes) {
            Some(Ok(engine)) => {
                let end = End::of(text, options, release, max_bytes)?.map(Arc::new);
                return Ok(Self { engine, end });
            }
            Some(Err(regex::Error::CompiledTooBig(size))) => {
                format!("Compiled regex exceeds size limit of {size} bytes.")
            }
            other => {
                let translation = translate(&BACKTRACKING)?;
                budget.step(steps(&translation))?;
                match (backtracking(&translation, options, max_bytes), other) {
                    (Ok(regex), _) => {
                        let engine = Engine::Backtracking(Box::new(regex));
                        return Ok(Self { engine, end: None });
                    }
                    (Err(_), Some(Err(error))) => error.to_string(),
                    (Err(error), _) => error.to_string(),
                }
            }
        };
        Err(invalid(reason.lines().last().unwrap_or_default()))
    }

    /// True if the pattern matches a part of the text.
    ///
    /// # Errors
    ///
    /// If the work of the query exceeds its limit.
    pub(crate) fn is_match(&self, text: &str, budget: &Budget) -> Result<bool, StoreError> {
        let (Some(end), Some(rest)) = (&self.end, text.strip_suffix('\n')) else {
            return self.engine.is_match(text, budget);
        };
        match end.form {
            EndForm::Lines => match self.engine.shortest(text, budget)? {
                // A match that does not reach the end of the text needs no `^` there.
                Some(length) if length < text.len() => Ok(true),
                Some(_) => end.engine(budget)?.is_match(text, budget),
                None => Ok(false),
            },
            EndForm::Last => {
                Ok(self.engine.is_match(text, budget)? || self.engine.is_match(rest, budget)?)
            }
            EndForm::Other => end.engine(budget)?.is_match(text, budget),
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
        if end.form != EndForm::Other {
            let whole = self.engine.captures(text, start, budget)?;
            if end.form == EndForm::Lines {
                let bounds = |found: &Groups| found.first().copied().flatten();
                return match whole.as_ref().and_then(bounds) {
                    Some((_, last)) if last == text.len() => {
                        end.engine(budget)?.captures(text, start, budget)
                    }
                    _ => Ok(whole),
                };
            }
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

    /// Returns the end of a match, which is the shortest one on the engine of linear time.
    fn shortest(&self, text: &str, budget: &Budget) -> Result<Option<usize>, StoreError> {
        match self {
            Self::Small(regex) | Self::Large(regex) => {
                self.charge(text, budget)?;
                Ok(regex.shortest_match(text))
            }
            Self::Backtracking(_) => Ok(self.is_match(text, budget)?.then_some(text.len())),
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

/// Returns the steps that count for the compilation of a pattern.
fn steps(pattern: &Translation) -> u64 {
    let bytes = pattern.text.len() * STEPS_OF_BYTE;
    (STEPS_OF_COMPILATION + bytes + pattern.properties * STEPS_OF_PROPERTY) as u64
}

/// Compiles a pattern for the engine of linear time. Returns `None` if it needs the other one.
fn linear(
    pattern: &Translation,
    options: &str,
    max_bytes: usize,
) -> Option<Result<Engine, regex::Error>> {
    if pattern.needs_backtracking {
        return None;
    }
    Some(
        match plain(&pattern.text, options, SMALL_BYTES.min(max_bytes)) {
            Err(regex::Error::CompiledTooBig(_)) => {
                plain(&pattern.text, options, max_bytes).map(Engine::Large)
            }
            compiled => compiled.map(Engine::Small),
        },
    )
}

fn plain(text: &str, options: &str, max_bytes: usize) -> Result<Regex, regex::Error> {
    RegexBuilder::new(text)
        .case_insensitive(options.contains('i'))
        .dot_matches_new_line(options.contains('s'))
        .size_limit(max_bytes)
        .dfa_size_limit(max_bytes)
        .build()
}

fn backtracking(
    pattern: &Translation,
    options: &str,
    max_bytes: usize,
) -> Result<fancy_regex::Regex, fancy_regex::Error> {
    FancyBuilder::new(&pattern.text)
        .case_insensitive(options.contains('i'))
        .dot_matches_new_line(options.contains('s'))
        .backtrack_limit(MAX_BACKTRACKS)
        .delegate_size_limit(max_bytes)
        .delegate_dfa_size_limit(max_bytes)
        .build()
}

#[cfg(test)]
mod tests;
