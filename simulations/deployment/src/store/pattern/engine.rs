//! The engines, which charge the budget for each attempt to match.

use std::sync::{Arc, OnceLock};

use fancy_regex::{RegexBuilder as FancyBuilder, RegexInput, RuntimeError};
use regex::{Regex, RegexBuilder};

use super::Groups;
use super::effort::{Effort, UNITS_PER_STEP};
use super::translation::{Translation, invalid};
use crate::store::budget::Budget;
use crate::store::error::StoreError;

/// The sizes of compiled patterns that are tried one after the other, in bytes.
const SIZES: [usize; 5] = [2_048, 32_768, 262_144, 2_097_152, MAX_BYTES];

/// The size of the largest compiled pattern, in bytes.
const MAX_BYTES: usize = 8 * 1024 * 1024;

/// The number of bytes of a compiled pattern that count as one step of its compilation.
const BYTES_PER_STEP_OF_COMPILATION: usize = 4;

/// The largest part for an automaton in a pattern with look-around or back-references, in bytes.
const MAX_PART_BYTES: usize = 256 * 1024;

/// The size of the cache of an automaton, in bytes.
const MAX_CACHE_BYTES: usize = 1024 * 1024;

/// The caches of a pattern may be larger than the pattern by this factor.
const CACHES_PER_PATTERN: usize = 4;

/// The numbers of failures on the engine with look-around after which an attempt ends. It begins
/// again with the next number, so that an attempt that fails seldom costs little.
const FAILURES: [usize; 5] = [16, 256, 4_096, 65_536, 1_048_576];

/// The longest text for a pattern with look-around or back-references, in bytes.
const MAX_BACKTRACKED_BYTES: usize = 1024 * 1024;

/// The number of bytes of a text that count as one step when an attempt begins again.
const BYTES_PER_STEP_OF_REPETITION: usize = 4;

/// The steps that count for the compilation of any pattern.
const STEPS_OF_COMPILATION: u64 = 5_000;

/// The further steps for each byte of the pattern in the syntax of an engine.
const STEPS_OF_BYTE: u64 = 10;

/// The further steps for each property of characters, such as `\p{L}`.
const STEPS_OF_PROPERTY: u64 = 5_000;

/// The further steps for each element on the engine with look-around.
const STEPS_OF_POSITION: u64 = 64;

#[derive(Clone, Debug)]
pub(super) enum Engine {
    Linear(Linear),
    Backtracking(Arc<Backtracking>),
}

/// The engine of linear time.
#[derive(Clone, Debug)]
pub(super) struct Linear {
    regex: Regex,
    /// The number of groups that capture.
    groups: usize,
    /// The units for each byte of a text.
    units: u64,
    /// The units for each byte of a match whose groups are wanted.
    units_of_groups: u64,
}

/// The engine with look-around.
#[derive(Debug)]
pub(super) struct Backtracking {
    text: String,
    options: String,
    effort: Effort,
    cache_bytes: usize,
    part_bytes: usize,
    /// The number of steps that each compilation takes from the budget.
    steps: u64,
    /// The compiled pattern for each number of failures.
    regexes: [OnceLock<fancy_regex::Regex>; FAILURES.len()],
}

impl Engine {
    pub(super) fn is_match(&self, text: &str, budget: &Budget) -> Result<bool, StoreError> {
        match self {
            Self::Linear(linear) => {
                linear.charge(text, budget)?;
                Ok(linear.regex.is_match(text))
            }
            Self::Backtracking(engine) => {
                let search = |regex: &fancy_regex::Regex, input: RegexInput<'_, str>| {
                    let found = regex.find_input(input)?;
                    Ok(found.map(|found| ((), found.end())))
                };
                Ok(engine.attempt(text, 0, budget, search)?.is_some())
            }
        }
    }

    /// Returns the end of a match, which is the shortest one on the engine of linear time.
    pub(super) fn shortest(
        &self,
        text: &str,
        budget: &Budget,
    ) -> Result<Option<usize>, StoreError> {
        match self {
            Self::Linear(linear) => {
                linear.charge(text, budget)?;
                Ok(linear.regex.shortest_match(text))
            }
            Self::Backtracking(_) => Ok(self.is_match(text, budget)?.then_some(text.len())),
        }
    }

    pub(super) fn captures(
        &self,
        text: &str,
        start: usize,
        budget: &Budget,
    ) -> Result<Option<Groups>, StoreError> {
        let (mut found, groups) = match self {
            Self::Linear(linear) => (linear.captures(text, start, budget)?, linear.groups),
            Self::Backtracking(engine) => {
                let search = |regex: &fancy_regex::Regex, input: RegexInput<'_, str>| {
                    let found = regex.captures_input(input)?;
                    Ok(found.map(|found| {
                        let parts = found.iter();
                        let bounds = parts.map(|part| part.map(|part| (part.start(), part.end())));
                        let end = found.get(0).map_or(0, |whole| whole.end());
                        (bounds.collect::<Groups>(), end)
                    }))
                };
                let found = engine.attempt(text, start, budget, search)?;
                (found, engine.effort.groups)
            }
        };
        // An engine may leave out the last groups if they cannot take part.
        if let Some(found) = &mut found {
            found.resize(groups + 1, None);
        }
        Ok(found)
    }

    /// Compiles a pattern for the engine of linear time.
    pub(super) fn linear(
        pattern: &Translation,
        options: &str,
        max_bytes: usize,
        budget: &Budget,
    ) -> Result<Result<Self, regex::Error>, StoreError> {
        budget.step(steps(pattern))?;
        let cache_bytes = cache_bytes(max_bytes);
        let mut sizes = SIZES.map(|size| size.min(max_bytes)).to_vec();
        sizes.dedup();
        let mut last = Err(regex::Error::CompiledTooBig(max_bytes));
        for size in sizes {
            budget.step((size / BYTES_PER_STEP_OF_COMPILATION) as u64)?;
            last = RegexBuilder::new(&pattern.text)
                .case_insensitive(options.contains('i'))
                .dot_matches_new_line(options.contains('s'))
                .size_limit(size)
                .dfa_size_limit(cache_bytes)
                .build();
            if !matches!(last, Err(regex::Error::CompiledTooBig(_))) {
                break;
            }
        }
        let effort = &pattern.effort;
        let slow_units = effort.size.slow_units_of_byte();
        Ok(last.map(|regex| {
            Self::Linear(Linear {
                regex,
                groups: effort.groups,
                units: effort.size.units_of_byte(cache_bytes as u64),
                units_of_groups: if effort.groups == 0 { 0 } else { slow_units },
            })
        }))
    }

    /// Compiles a pattern for the engine with look-around.
    pub(super) fn backtracking(
        pattern: Translation,
        options: &str,
        max_bytes: usize,
        budget: &Budget,
    ) -> Result<Self, StoreError> {
        let effort = pattern.effort.clone();
        let positions = effort.size.positions.saturating_mul(STEPS_OF_POSITION);
        let engine = Backtracking {
            steps: steps(&pattern).saturating_add(positions),
            text: pattern.text,
            options: options.to_owned(),
            cache_bytes: cache_bytes(max_bytes),
            part_bytes: MAX_PART_BYTES.min(max_bytes),
            effort,
            regexes: [const { OnceLock::new() }; FAILURES.len()],
        };
        engine.regex(0, budget)?;
        Ok(Self::Backtracking(Arc::new(engine)))
    }
}

impl Linear {
    /// Charges an attempt to match a text.
    fn charge(&self, text: &str, budget: &Budget) -> Result<(), StoreError> {
        let units = self.units.saturating_mul(text.len() as u64);
        budget.step(1 + units / UNITS_PER_STEP)
    }

    fn captures(
        &self,
        text: &str,
        start: usize,
        budget: &Budget,
    ) -> Result<Option<Groups>, StoreError> {
        self.charge(text.get(start..).unwrap_or_default(), budget)?;
        let Some(found) = self.regex.captures_at(text, start) else {
            return Ok(None);
        };
        let bounds = |part: regex::Match<'_>| (part.start(), part.end());
        let parts: Groups = found.iter().map(|part| part.map(bounds)).collect();
        if let Some(Some((first, last))) = parts.first() {
            let units = self.units_of_groups.saturating_mul((last - first) as u64);
            budget.step(units / UNITS_PER_STEP)?;
        }
        Ok(Some(parts))
    }
}

impl Backtracking {
    /// Returns the compiled pattern for a number of failures.
    fn regex(&self, level: usize, budget: &Budget) -> Result<&fancy_regex::Regex, StoreError> {
        let slot = &self.regexes[level];
        if let Some(regex) = slot.get() {
            return Ok(regex);
        }
        budget.step(self.steps)?;
        // The optimizer would take `(X+?)*` as `(X+?)?`.
        let regex = FancyBuilder::new(&self.text)
            .case_insensitive(self.options.contains('i'))
            .dot_matches_new_line(self.options.contains('s'))
            .backtrack_limit(FAILURES[level])
            .delegate_size_limit(self.part_bytes)
            .delegate_dfa_size_limit(self.cache_bytes)
            .optimize(false)
            .build()
            .map_err(|error| malformed(&error.to_string()))?;
        Ok(slot.get_or_init(|| regex))
    }

    /// Searches a text. `search` returns a result and the end of the match.
    fn attempt<T>(
        &self,
        text: &str,
        start: usize,
        budget: &Budget,
        search: impl Fn(
            &fancy_regex::Regex,
            RegexInput<'_, str>,
        ) -> Result<Option<(T, usize)>, fancy_regex::Error>,
    ) -> Result<Option<T>, StoreError> {
        let length = text.len().saturating_sub(start);
        if length > MAX_BACKTRACKED_BYTES {
            let text = "a text is too long for a regular expression with look-around or \
                        back-references";
            return Err(StoreError::new(51156, text));
        }
        let cache_bytes = self.cache_bytes as u64;
        for (level, failures) in FAILURES.into_iter().enumerate() {
            let regex = self.regex(level, budget)?;
            budget.step(self.effort.steps(failures, length, cache_bytes))?;
            let input = RegexInput::new(text)
                .from_pos(start)
                .anchored(self.effort.is_anchored);
            match search(regex, input) {
                Ok(None) => return Ok(None),
                Ok(Some((found, end))) => {
                    budget.step(end.saturating_sub(start) as u64)?;
                    return Ok(Some(found));
                }
                Err(fancy_regex::Error::RuntimeError(RuntimeError::BacktrackLimitExceeded))
                    if level + 1 < FAILURES.len() =>
                {
                    budget.step((length / BYTES_PER_STEP_OF_REPETITION) as u64)?;
                }
                Err(error) => return Err(failed(&error)),
            }
        }
        Ok(None)
    }
}

/// Returns the size of the cache of an automaton, for a pattern that may take so many bytes.
fn cache_bytes(max_bytes: usize) -> usize {
    MAX_CACHE_BYTES.min(max_bytes.saturating_mul(CACHES_PER_PATTERN))
}

/// Returns the steps that count for the compilation of a pattern.
fn steps(pattern: &Translation) -> u64 {
    let bytes = pattern.text.len() as u64 * STEPS_OF_BYTE;
    STEPS_OF_COMPILATION + bytes + pattern.properties as u64 * STEPS_OF_PROPERTY
}

/// Returns the error for a pattern that an engine refused.
pub(super) fn malformed(reason: &str) -> StoreError {
    invalid(reason.lines().last().unwrap_or_default())
}

fn failed(error: &fancy_regex::Error) -> StoreError {
    let text = format!("Error occurred while executing the regular expression: {error}");
    StoreError::new(51156, text)
}
