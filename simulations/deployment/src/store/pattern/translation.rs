//! Patterns of the server in the syntax of the engines.
//!
//! The server uses PCRE, since 6.1 PCRE2. The engines give some escapes and anchors another
//! meaning, or accept what PCRE refuses.

use std::iter::Peekable;
use std::str::Chars;

use crate::store::error::StoreError;

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
}

/// The anchors for the engine of linear time. It knows no place before a last newline, and takes
/// the place after a last newline as the start of a line, which PCRE does not.
pub(super) const LINEAR: Anchors = Anchors {
    boundary: r"(?-u:\b)",
    end: r"\z",
    line_start: "(?m:^)",
    line_end: "(?m:$)",
};

/// The anchors for the engine with look-around.
pub(super) const BACKTRACKING: Anchors = Anchors {
    boundary: r"\b",
    end: r"(?=\n?\z)",
    line_start: r"(?:\A|(?<=\n)(?!\z))",
    line_end: r"(?=\n|\z)",
};

/// A pattern in the syntax of an engine.
#[derive(Debug)]
pub(super) struct Translation {
    pub(super) text: String,
    /// True for a pattern that the engine of linear time would read in another way.
    pub(super) needs_backtracking: bool,
    /// True for a pattern with a `^` under the option `m`.
    pub(super) has_line_starts: bool,
}

/// Returns a pattern in the syntax of an engine: with its anchors, with the escapes of PCRE, with
/// braces as text if they hold no numbers, and without the set operations that the engines have in
/// classes.
///
/// # Errors
///
/// If the pattern is malformed in a way that the engines accept, or if it has an element that they
/// do not have.
pub(super) fn translated(
    pattern: &str,
    options: &str,
    anchors: &Anchors,
) -> Result<Translation, StoreError> {
    let flags = Flags {
        lines: options.contains('m'),
        verbose: options.contains('x'),
    };
    let mut translator = Translator {
        rest: pattern.chars().peekable(),
        anchors,
        flags,
        outer: Vec::new(),
        groups: 0,
        follows: Follows::Nothing,
        result: Translation {
            text: String::with_capacity(pattern.len()),
            needs_backtracking: false,
            has_line_starts: false,
        },
    };
    while let Some(c) = translator.rest.next() {
        translator.element(c)?;
    }
    Ok(translator.result)
}

/// Returns the error for a malformed pattern.
pub(super) fn invalid(reason: &str) -> StoreError {
    StoreError::new(51091, format!("Regular expression is invalid: {reason}"))
}

pub(super) fn refused(element: &str) -> StoreError {
    let text = format!("this simulated server does not implement {element} in regular expressions");
    StoreError::new(238, text)
}

/// The options that a part of the pattern can change.
#[derive(Clone, Copy, Debug)]
struct Flags {
    lines: bool,
    verbose: bool,
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
    flags: Flags,
    /// The options outside of each open group.
    outer: Vec<Flags>,
    /// The number of capturing groups that have begun.
    pub(super) groups: usize,
    pub(super) follows: Follows,
    pub(super) result: Translation,
}

impl Translator<'_> {
    pub(super) fn push(&mut self, text: &str) {
        self.result.text.push_str(text);
    }

    pub(super) fn push_code(&mut self, code: u32) -> Result<(), StoreError> {
        let Some(c) = char::from_u32(code) else {
            return Err(invalid(
                "character code point value in \\x{} or \\o{} is too large",
            ));
        };
        self.push(&format!("\\x{{{:X}}}", u32::from(c)));
        Ok(())
    }

    fn element(&mut self, c: char) -> Result<(), StoreError> {
        let follows = std::mem::replace(&mut self.follows, Follows::Atom);
        match c {
            '\\' => return self.escape(follows),
            '^' if self.flags.lines => {
                self.result.has_line_starts = true;
                self.push(self.anchors.line_start);
            }
            '^' => self.push(r"\A"),
            '$' if self.flags.lines => self.push(self.anchors.line_end),
            '$' => self.push(self.anchors.end),
            '*' | '+' | '?' => return self.quantifier(c, follows),
            '{' if is_repetition(self.rest.clone()) => {
                self.quantifier(c, follows)?;
                while self.rest.peek().is_some_and(|c| *c != '}') {
                    self.result.text.extend(self.rest.next());
                }
                self.result.text.extend(self.rest.next());
            }
            '{' => self.push(r"\{"),
            '#' if self.flags.verbose => {
                self.follows = follows;
                while self.rest.next_if(|c| *c != '\n').is_some() {}
            }
            '[' => return self.class(),
            '(' => return self.group(follows),
            ')' => {
                if let Some(outer) = self.outer.pop() {
                    self.flags = outer;
                }
                self.push(")");
            }
            '|' => {
                self.follows = Follows::Nothing;
                self.push("|");
            }
            c if self.flags.verbose && c.is_ascii_whitespace() => {
                self.follows = follows;
                self.result.text.push(c);
            }
            other => self.result.text.push(other),
        }
        Ok(())
    }

    /// Appends a quantifier. After another one, `?` makes it lazy and `+` possessive.
    fn quantifier(&mut self, c: char, follows: Follows) -> Result<(), StoreError> {
        match (follows, c) {
            (Follows::Atom, _) => self.follows = Follows::Quantifier,
            (Follows::Quantifier, '?') => {}
            (Follows::Quantifier, '+') => self.result.needs_backtracking = true,
            _ => return Err(invalid("quantifier does not follow a repeatable item")),
        }
        if follows == Follows::Quantifier {
            self.follows = Follows::Nothing;
        }
        self.result.text.push(c);
        Ok(())
    }

    /// Appends the start of a group, with the options that it sets.
    fn group(&mut self, follows: Follows) -> Result<(), StoreError> {
        self.follows = Follows::Nothing;
        if self.rest.peek() == Some(&'*') {
            return Err(refused("verbs such as (*ACCEPT)"));
        }
        if self.rest.next_if_eq(&'?').is_none() {
            self.outer.push(self.flags);
            self.groups += 1;
            self.push("(");
            return Ok(());
        }
        let mut ahead = self.rest.clone();
        let first = ahead.next();
        let second = ahead.next();
        match (first, second) {
            (Some('#'), _) => {
                self.follows = follows;
                while self.rest.next().is_some_and(|c| c != ')') {}
                return Ok(());
            }
            (Some('R' | '&' | '+' | '0'..='9'), _)
            | (Some('P'), Some('>'))
            | (Some('-'), Some('0'..='9')) => return Err(refused("recursion")),
            (Some('|'), _) => return Err(refused("groups with a common number (?|")),
            (Some('C'), _) => return Err(refused("callouts")),
            (Some('\''), _) => {
                self.rest.next();
                self.groups += 1;
                self.push("(?<");
                for c in self.rest.by_ref().take_while(|c| *c != '\'') {
                    self.result.text.push(c);
                }
                self.push(">");
                self.outer.push(self.flags);
                return Ok(());
            }
            // The condition of a conditional group ends with a parenthesis of its own.
            (Some('('), _) => self.outer.push(self.flags),
            (Some('P'), Some('<')) => self.groups += 1,
            (Some('<'), Some(other)) if !matches!(other, '=' | '!') => self.groups += 1,
            _ => {}
        }
        self.outer.push(self.flags);
        self.push("(?");
        let mut is_on = true;
        while let Some(c) = self.rest.next_if(|c| c.is_ascii_alphabetic() || *c == '-') {
            self.result.text.push(c);
            match c {
                '-' => is_on = false,
                'm' => self.flags.lines = is_on,
                'x' => self.flags.verbose = is_on,
                'P' => break,
                _ => {}
            }
        }
        if self.rest.next_if_eq(&')').is_some() {
            // The options hold until the end of the group around them.
            self.outer.pop();
            self.push(")");
        } else if let Some(c) = self.rest.next() {
            self.result.text.push(c);
        }
        Ok(())
    }

    /// Appends a class.
    fn class(&mut self) -> Result<(), StoreError> {
        self.push("[");
        if self.rest.next_if_eq(&'^').is_some() {
            self.push("^");
        }
        if self.rest.next_if_eq(&']').is_some() {
            self.push(r"\]");
        }
        while let Some(c) = self.rest.next() {
            match c {
                '\\' => self.escape_in_class()?,
                '[' if self.rest.peek() != Some(&':') => self.push(r"\["),
                '[' => {
                    // A class such as `[:alpha:]` inside a class.
                    self.push("[");
                    for inner in self.rest.by_ref() {
                        self.result.text.push(inner);
                        if inner == ']' {
                            break;
                        }
                    }
                }
                ']' => {
                    self.push("]");
                    return Ok(());
                }
                '&' | '~' => self.result.text.extend(['\\', c]),
                '-' if self.result.text.ends_with('-') => self.push(r"\-"),
                // In the engines, the option `x` also holds in classes.
                c if c.is_ascii_whitespace() || c == '#' => self.push_code(u32::from(c))?,
                other => self.result.text.push(other),
            }
        }
        Ok(())
    }
}

/// True if the characters after a brace are the bounds of a repetition. The lower one must be
/// given.
fn is_repetition(mut characters: Peekable<Chars<'_>>) -> bool {
    let mut has_digits = false;
    while characters.next_if(char::is_ascii_digit).is_some() {
        has_digits = true;
    }
    if characters.next_if_eq(&',').is_some() {
        while characters.next_if(char::is_ascii_digit).is_some() {}
    }
    has_digits && characters.next() == Some('}')
}
