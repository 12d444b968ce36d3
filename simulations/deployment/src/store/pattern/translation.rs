//! Patterns of the server in the syntax of the engines.
//!
//! The server uses PCRE, since 6.1 PCRE2. The engines give some escapes and anchors another
//! meaning, or accept what PCRE refuses.

use std::iter::Peekable;
use std::str::Chars;

use super::effort::{Cut, Effort, Size};
use super::groups::{Frame, Kind};
use crate::store::error::StoreError;
use crate::store::release::Release;

/// The first release that uses PCRE2.
const PCRE2: Release = Release([6, 1, 0]);

macro_rules! after {
    () => {
        "(?<=(?-i:[0-9A-Za-z_]))"
    };
}

macro_rules! not_after {
    () => {
        "(?<!(?-i:[0-9A-Za-z_]))"
    };
}

macro_rules! before {
    () => {
        "(?=(?-i:[0-9A-Za-z_]))"
    };
}

macro_rules! not_before {
    () => {
        "(?!(?-i:[0-9A-Za-z_]))"
    };
}

/// The forms of anchors in the syntax of an engine.
#[derive(Clone, Copy, Debug)]
pub(super) struct Anchors {
    /// `\b`.
    pub(super) boundary: &'static str,
    /// `\Z`, and `$` without the option `m`.
    pub(super) end: &'static str,
    /// `^` and `$` with the option `m`.
    line_start: &'static str,
    line_end: &'static str,
    /// True if the anchors of lines and ends need the engine with look-around.
    is_hard: bool,
}

/// The anchors for the engine of linear time. It knows no place before a last newline, and takes
/// the place after a last newline as the start of a line, which PCRE does not.
pub(super) const LINEAR: Anchors = Anchors {
    boundary: r"(?-u:\b)",
    end: r"\z",
    line_start: "(?m:^)",
    line_end: "(?m:$)",
    is_hard: false,
};

/// The text of `\B`, which only the engine with look-around has for ASCII letters.
pub(super) const NO_BOUNDARY: &str = concat!(
    "(?:",
    after!(),
    before!(),
    "|",
    not_after!(),
    not_before!(),
    ")"
);

/// The anchors for the engine with look-around.
pub(super) const BACKTRACKING: Anchors = Anchors {
    boundary: concat!(
        "(?:",
        not_after!(),
        before!(),
        "|",
        after!(),
        not_before!(),
        ")"
    ),
    end: r"(?:\z|(?=\n\z))",
    line_start: r"(?:\A|(?<=\n)(?!\z))",
    line_end: r"(?:\z|(?=\n))",
    is_hard: true,
};

/// A pattern in the syntax of an engine.
#[derive(Debug)]
pub(super) struct Translation {
    pub(super) text: String,
    /// True for a pattern that the engine of linear time would read in another way.
    pub(super) needs_backtracking: bool,
    /// True for a pattern with a `^` under the option `m`.
    pub(super) has_line_starts: bool,
    /// The number of properties of characters.
    pub(super) properties: usize,
    /// The work that the pattern can take.
    pub(super) effort: Effort,
}

/// The longest text of a translated pattern, in bytes.
const MAX_TRANSLATED_BYTES: usize = 1024 * 1024;

/// The greatest product of the bounds of nested repetitions of a part that can be empty.
const MAX_EMPTIES: u64 = 65_535;

/// Returns a pattern in the syntax of an engine: with its anchors, with the escapes of PCRE, with
/// braces as text if they hold no numbers, and without the set operations that the engines have in
/// classes. The option `x` is applied here, because the engines take other characters as blanks.
///
/// # Errors
///
/// If the pattern is malformed in a way that the engines accept, or if it has an element that they
/// do not have.
pub(super) fn translated(
    pattern: &str,
    options: &str,
    anchors: &Anchors,
    release: Release,
) -> Result<Translation, StoreError> {
    let flags = Flags {
        lines: options.contains('m'),
        verbose: options.contains('x'),
        caseless: options.contains('i'),
        ungreedy: false,
    };
    let mut translator = Translator {
        rest: pattern.chars().peekable(),
        anchors,
        flags,
        outer: Vec::new(),
        frame: Frame::new(Kind::Group, flags, 0),
        groups: 0,
        greatest_reference: 0,
        names: Vec::new(),
        is_pcre2: release >= PCRE2,
        follows: Follows::Nothing,
        tail: Size::EMPTY,
        tail_of_alternatives: Size::EMPTY,
        result: Translation {
            text: String::with_capacity(pattern.len()),
            needs_backtracking: false,
            has_line_starts: false,
            properties: 0,
            effort: Effort {
                size: Size::EMPTY,
                cuts: Vec::new(),
                tail: Size::EMPTY,
                groups: 0,
                is_anchored: false,
            },
        },
    };
    while let Some(c) = translator.rest.next() {
        translator.element(c)?;
        if translator.result.text.len() > MAX_TRANSLATED_BYTES {
            return Err(too_large());
        }
    }
    if translator.greatest_reference > translator.groups {
        return Err(invalid("reference to non-existent subpattern"));
    }
    translator.finish()
}

/// Returns the error for a malformed pattern.
pub(super) fn invalid(reason: &str) -> StoreError {
    StoreError::new(51091, format!("Regular expression is invalid: {reason}"))
}

fn too_large() -> StoreError {
    invalid("regular expression is too large")
}

/// Returns the error for an element that is not implemented: that of a PCRE2 which does not know
/// the element.
pub(super) fn refused(element: &str, reason: &str) -> StoreError {
    invalid(reason).not_simulated(&format!("{element} in regular expressions"))
}

/// The reason of PCRE2 for an unknown kind of a group, or an unknown option.
pub(super) const UNKNOWN_GROUP: &str = "unrecognized character after (? or (?-";

/// The options that a part of the pattern can change.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flags {
    pub(super) lines: bool,
    pub(super) verbose: bool,
    /// True if letters also fit those of the other case.
    pub(super) caseless: bool,
    /// True if a repetition is lazy unless `?` follows it.
    pub(super) ungreedy: bool,
}

/// The kind of the last element, which decides what a quantifier means.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Follows {
    Nothing,
    Atom,
    Quantifier,
}

pub(super) struct Translator<'a> {
    pub(super) rest: Peekable<Chars<'a>>,
    pub(super) anchors: &'a Anchors,
    pub(super) flags: Flags,
    /// The groups around the innermost open one.
    pub(super) outer: Vec<Frame>,
    /// The innermost open group, or the whole pattern.
    pub(super) frame: Frame,
    /// The number of capturing groups that have begun.
    pub(super) groups: usize,
    /// The greatest number of a group that a reference or a condition has.
    pub(super) greatest_reference: usize,
    /// The names of the groups that have begun.
    pub(super) names: Vec<String>,
    /// False for the older PCRE. There a hyphen beside a set such as `\w` in a class is text.
    pub(super) is_pcre2: bool,
    pub(super) follows: Follows,
    /// The part after the last element that needs backtracking.
    pub(super) tail: Size,
    /// The greatest such part at the end of an alternative.
    pub(super) tail_of_alternatives: Size,
    pub(super) result: Translation,
}

impl Translator<'_> {
    pub(super) fn push(&mut self, text: &str) {
        self.result.text.push_str(text);
    }

    pub(super) fn push_char(&mut self, c: char) {
        if c.is_ascii_alphanumeric() {
            self.result.text.push(c);
        } else {
            self.push(&format!("\\x{{{:X}}}", u32::from(c)));
        }
    }

    fn element(&mut self, c: char) -> Result<(), StoreError> {
        let follows = std::mem::replace(&mut self.follows, Follows::Atom);
        match c {
            '\\' => return self.escape(follows),
            '^' | '$' => {
                self.result.has_line_starts |= c == '^' && self.flags.lines;
                match (c, self.flags.lines) {
                    ('^', true) => self.hard_anchor(self.anchors.line_start),
                    ('^', false) => self.anchor(r"\A"),
                    (_, true) => self.hard_anchor(self.anchors.line_end),
                    (_, false) => self.hard_anchor(self.anchors.end),
                }
            }
            '*' | '+' | '?' => return self.quantifier(c, follows),
            '{' if is_repetition(self.rest.clone()) => {
                self.quantifier(c, follows)?;
            }
            '{' => self.literal('{'),
            '#' if self.flags.verbose => {
                self.follows = follows;
                while self.rest.next_if(|c| *c != '\n').is_some() {}
            }
            '[' => return self.class(),
            '(' => return self.group(follows),
            ')' => return self.close(),
            '|' => {
                self.follows = Follows::Nothing;
                return self.alternative();
            }
            c if self.flags.verbose && is_blank(c) => self.follows = follows,
            '.' => {
                self.atom(Size::CLASS);
                self.push(".");
            }
            other => {
                self.atom(Size::CHARACTER);
                self.result.text.push(other);
            }
        }
        Ok(())
    }

    /// Appends a quantifier. After another one, `?` makes it lazy and `+` possessive.
    fn quantifier(&mut self, c: char, follows: Follows) -> Result<(), StoreError> {
        match (follows, c) {
            (Follows::Atom, _) => {
                self.follows = Follows::Quantifier;
                self.make_repeatable();
                self.result.text.push(c);
                let (least, most) = match c {
                    '*' => (0, None),
                    '+' => (1, None),
                    '?' => (0, Some(1)),
                    _ => {
                        let bounds = self.until('}').unwrap_or_default();
                        self.push(&format!("{bounds}}}"));
                        parsed_bounds(&bounds)?
                    }
                };
                if self.flags.ungreedy {
                    self.push("?");
                }
                self.repeat(least, most);
            }
            (Follows::Quantifier, '?' | '+') => {
                self.follows = Follows::Nothing;
                // Without greed, a `?` follows already.
                if self.flags.ungreedy {
                    self.result.text.pop();
                }
                if c == '+' {
                    self.push("+");
                    self.cut_last();
                } else if !self.flags.ungreedy {
                    self.push("?");
                }
            }
            _ => return Err(invalid("quantifier does not follow a repeatable item")),
        }
        Ok(())
    }

    /// Appends a character that stands for itself.
    pub(super) fn literal(&mut self, c: char) {
        self.atom(Size::CHARACTER);
        self.push_char(c);
    }

    /// Appends a set of characters outside of a class. Its members do not depend on the case.
    pub(super) fn push_set(&mut self, set: &str, size: Size) {
        self.atom(size);
        match self.flags.caseless {
            true => self.push(&format!("(?-i:{set})")),
            false => self.push(set),
        }
    }

    /// Appends an anchor, which cannot be repeated.
    pub(super) fn anchor(&mut self, text: &str) {
        self.follows = Follows::Nothing;
        self.atom(Size::ANCHOR);
        self.push(text);
    }

    /// Appends an anchor that only the engine with look-around has in this form.
    pub(super) fn hard_anchor(&mut self, text: &str) {
        self.anchor(text);
        if self.anchors.is_hard {
            self.needs_backtracking();
        }
    }

    /// Begins an element of this size.
    pub(super) fn atom(&mut self, size: Size) {
        self.frame.begin(&self.result, self.tail);
        self.frame.last = size;
        self.tail = self.tail.then(size);
    }

    /// Notes that the last element needs the engine with look-around.
    pub(super) fn needs_backtracking(&mut self) {
        self.result.needs_backtracking = true;
        self.frame.is_hard = true;
        self.frame.is_last_hard = true;
        self.tail = Size::EMPTY;
    }

    /// Makes the last element one that keeps no way back.
    pub(super) fn cut_last(&mut self) {
        let cut = Cut::new(self.frame.last, self.frame.is_last_hard);
        self.result.effort.cuts.push(cut);
        self.needs_backtracking();
    }

    /// If the last element has no characters, makes a group of it and of `a{0}`, which fits the
    /// empty text. The engine with look-around refuses to repeat a look-around alone.
    fn make_repeatable(&mut self) {
        if self.frame.last.symbols == 0 && self.anchors.is_hard {
            self.result.text.insert_str(self.frame.last_start, "(?:");
            self.push("a{0})");
        }
    }

    /// Repeats the last element.
    fn repeat(&mut self, least: u64, most: Option<u64>) {
        let is_within_cut =
            self.frame.kind.is_cut() || self.outer.iter().any(|frame| frame.kind.is_cut());
        for cut in self.result.effort.cuts.iter_mut().skip(self.frame.cuts) {
            cut.repeat(least, most, is_within_cut);
        }
        self.frame.last = self.frame.last.repeated(least, most);
        self.frame.is_varied |= most != Some(least);
        if !self.frame.is_last_hard {
            self.tail = self.frame.tail.then(self.frame.last);
        }
    }

    /// Returns the translation of the whole pattern.
    fn finish(mut self) -> Result<Translation, StoreError> {
        let size = self.frame.size();
        if self.result.needs_backtracking && size.empties > MAX_EMPTIES {
            return Err(too_large());
        }
        let effort = &mut self.result.effort;
        effort.size = size;
        effort.tail = self.tail_of_alternatives.or(self.tail);
        effort.groups = self.groups;
        effort.is_anchored = self.result.text.starts_with(r"\A") && self.frame.alternatives == 1;
        Ok(self.result)
    }
}

/// True for a character that the option `x` ignores.
const fn is_blank(c: char) -> bool {
    matches!(
        c,
        '\t'..='\r' | ' ' | '\u{85}' | '\u{200e}' | '\u{200f}' | '\u{2028}' | '\u{2029}'
    )
}

pub(super) fn is_name(name: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    name.chars().all(is_part) && name.starts_with(|c: char| !c.is_ascii_digit())
}

pub(super) fn is_number(text: &str, radix: u32) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_digit(radix))
}

/// Returns the bounds of a repetition, or an error if they are too large or in the wrong order.
fn parsed_bounds(bounds: &str) -> Result<(u64, Option<u64>), StoreError> {
    let number = |digits: &str| {
        let number = digits.parse::<u16>();
        number.map_err(|_| invalid("number too big in {} quantifier"))
    };
    let (least, most) = match bounds.split_once(',') {
        Some((least, "")) => (number(least)?, None),
        Some((least, most)) => (number(least)?, Some(number(most)?)),
        None => (number(bounds)?, Some(number(bounds)?)),
    };
    match most {
        Some(most) if most < least => Err(invalid("numbers out of order in {} quantifier")),
        _ => Ok((least.into(), most.map(u64::from))),
    }
}

/// True if the characters after a brace are the bounds of a repetition. The lower one must be
/// given.
pub(super) fn is_repetition(mut characters: Peekable<Chars<'_>>) -> bool {
    let mut has_digits = false;
    while characters.next_if(char::is_ascii_digit).is_some() {
        has_digits = true;
    }
    if characters.next_if_eq(&',').is_some() {
        while characters.next_if(char::is_ascii_digit).is_some() {}
    }
    has_digits && characters.next() == Some('}')
}
