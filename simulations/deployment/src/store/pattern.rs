//! Regular expressions with a bound on their work.
//!
//! A pattern runs on an engine of linear time, if it needs neither look-around nor back-references.
//! Each attempt to match charges the budget of the query. The bound of its work is computed from
//! the pattern and from the length of the text. Classes such as `\w` have only ASCII characters, as
//! in the server.

mod classes;
mod effort;
mod engine;
mod escapes;
mod folding;
mod groups;
mod properties;
mod translation;

use std::sync::{Arc, OnceLock};

use super::budget::Budget;
use super::error::StoreError;
use super::release::Release;
use engine::{Engine, malformed};
use translation::{Anchors, BACKTRACKING, LINEAR, Translation, translated};

/// The length of the longest pattern, in bytes.
const MAX_PATTERN_BYTES: usize = 16_384;

/// A compiled pattern.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    engine: Engine,
    /// The pattern for texts that end with a newline, if it has an anchor which the engine of
    /// linear time reads in another way there.
    end: Option<Arc<End>>,
}

/// A pattern that was not yet compiled for the engine with look-around.
#[derive(Debug)]
struct End {
    text: String,
    options: String,
    release: Release,
    max_bytes: usize,
    form: EndForm,
    engine: OnceLock<Engine>,
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
        Ok(EndForm::of(&translation).map(|form| Self {
            text: text.to_owned(),
            options: options.to_owned(),
            release,
            max_bytes,
            form,
            engine: OnceLock::new(),
        }))
    }

    fn engine(&self, budget: &Budget) -> Result<&Engine, StoreError> {
        if let Some(engine) = self.engine.get() {
            return Ok(engine);
        }
        let translation = translated(&self.text, &self.options, &BACKTRACKING, self.release)?;
        let engine = Engine::backtracking(translation, &self.options, self.max_bytes, budget)?;
        Ok(self.engine.get_or_init(|| engine))
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
        let translate = |anchors: &Anchors| translated(text, options, anchors, release);
        let translation = translate(&LINEAR)?;
        if !translation.needs_backtracking {
            match Engine::linear(&translation, options, max_bytes, budget)? {
                Ok(engine) => {
                    let end = End::of(text, options, release, max_bytes)?.map(Arc::new);
                    return Ok(Self { engine, end });
                }
                Err(regex::Error::CompiledTooBig(size)) => {
                    return Err(malformed(&format!(
                        "Compiled regex exceeds size limit of {size} bytes."
                    )));
                }
                Err(error) => return Err(malformed(&error.to_string())),
            }
        }
        let translation = translate(&BACKTRACKING)?;
        let engine = Engine::backtracking(translation, options, max_bytes, budget)?;
        Ok(Self { engine, end: None })
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

/// The bounds of a match and of its groups. A group that did not take part has none.
pub(crate) type Groups = Vec<Option<(usize, usize)>>;

#[cfg(test)]
mod tests;
