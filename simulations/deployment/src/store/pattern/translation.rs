//! Patterns of the server in the syntax of the engines.
//!
//! The server uses PCRE, since 6.1 PCRE2. The engines give some escapes and anchors another
//! meaning, or accept what PCRE refuses.

use std::iter::Peekable;
use std::str::Chars;

use crate::store::error::StoreError;
use crate::store::release::Release;

/// The first release that uses PCRE2.
const PCRE2: Release = Release([6, 1, 0]);

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
    /// The number of properties of characters.
    pub(super) properties: usize,
}

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
    };
    let mut translator = Translator {
        rest: pattern.chars().peekable(),
        anchors,
        flags,
        outer: Vec::new(),
        groups: 0,
        greatest_reference: 0,
        names: Vec::new(),
        takes_hyphens: release < PCRE2,
        follows: Follows::Nothing,
        result: Translation {
            text: String::with_capacity(pattern.len()),
            needs_backtracking: false,
            has_line_starts: false,
            properties: 0,
        },
    };
    while let Some(c) = translator.rest.next() {
        translator.element(c)?;
    }
    if translator.greatest_reference > translator.groups {
        return Err(invalid("reference to non-existent subpattern"));
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
    /// The greatest number of a group that a reference or a condition has.
    pub(super) greatest_reference: usize,
    /// The names of the groups that have begun.
    names: Vec<String>,
    /// True if a hyphen beside a set such as `\w` in a class is text.
    pub(super) takes_hyphens: bool,
    pub(super) follows: Follows,
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
                // An anchor cannot be repeated.
                self.follows = Follows::Nothing;
                self.result.has_line_starts |= c == '^' && self.flags.lines;
                self.push(match (c, self.flags.lines) {
                    ('^', true) => self.anchors.line_start,
                    ('^', false) => r"\A",
                    (_, true) => self.anchors.line_end,
                    (_, false) => self.anchors.end,
                });
            }
            '*' | '+' | '?' => return self.quantifier(c, follows),
            '{' if is_repetition(self.rest.clone()) => {
                self.quantifier(c, follows)?;
                let bounds = self.until('}').unwrap_or_default();
                check_bounds(&bounds)?;
                self.push(&format!("{bounds}}}"));
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
            c if self.flags.verbose && is_blank(c) => self.follows = follows,
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
        match (ahead.next(), ahead.next()) {
            (Some('#'), _) => {
                self.follows = follows;
                match self.rest.any(|c| c == ')') {
                    true => Ok(()),
                    false => Err(invalid("missing ) after (?# comment")),
                }
            }
            (Some('R' | '&' | '+' | '0'..='9'), _)
            | (Some('P'), Some('>'))
            | (Some('-'), Some('0'..='9')) => Err(refused("recursion")),
            (Some('|'), _) => Err(refused("groups with a common number (?|")),
            (Some('C'), _) => Err(refused("callouts")),
            (Some('('), _) => self.condition(),
            (Some('P'), Some('=')) => {
                self.rest.nth(1);
                self.follows = Follows::Atom;
                let name = self.name(')')?;
                self.push(&format!("\\k<{name}>"));
                Ok(())
            }
            (Some(first @ ('=' | '!' | '>')), _) => {
                self.rest.next();
                self.outer.push(self.flags);
                self.result.text.extend(['(', '?', first]);
                Ok(())
            }
            (Some('<'), Some(second @ ('=' | '!'))) => {
                self.rest.nth(1);
                self.outer.push(self.flags);
                self.result.text.extend(['(', '?', '<', second]);
                Ok(())
            }
            (Some('P'), Some('<')) => {
                self.rest.nth(1);
                self.named_group('>')
            }
            (Some('<' | '\''), _) => {
                let end = if self.rest.next() == Some('<') {
                    '>'
                } else {
                    '\''
                };
                self.named_group(end)
            }
            _ => self.flags(),
        }
    }

    fn named_group(&mut self, end: char) -> Result<(), StoreError> {
        let name = self.name(end)?;
        if self.names.contains(&name) {
            return Err(invalid(
                "two named subpatterns have the same name (PCRE2_DUPNAMES not set)",
            ));
        }
        self.push(&format!("(?<{name}>"));
        self.names.push(name);
        self.groups += 1;
        self.outer.push(self.flags);
        Ok(())
    }

    /// Appends the start of a conditional group, whose condition is the number or name of a group.
    fn condition(&mut self) -> Result<(), StoreError> {
        self.rest.next();
        let condition: String = self.rest.by_ref().take_while(|c| *c != ')').collect();
        let inner = |start, end| condition.strip_prefix(start)?.strip_suffix(end);
        let name = inner('<', '>').or_else(|| inner('\'', '\''));
        match name {
            Some(name) if is_name(name) => self.push(&format!("(?(<{name}>)")),
            None if is_number(&condition, 10) => {
                let number = condition.parse().unwrap_or(usize::MAX);
                self.greatest_reference = self.greatest_reference.max(number);
                self.push(&format!("(?({number})"));
            }
            _ => {
                return Err(refused(
                    "conditions that are not the number or name of a group",
                ));
            }
        }
        self.outer.push(self.flags);
        Ok(())
    }

    /// Appends the options at the start of a group, or those that hold until the end of the group
    /// around them.
    fn flags(&mut self) -> Result<(), StoreError> {
        let outer = self.flags;
        let (mut on, mut off, mut is_on) = (String::new(), String::new(), true);
        loop {
            let c = self
                .rest
                .next()
                .ok_or_else(|| invalid("missing closing parenthesis"))?;
            match c {
                ':' | ')' => {
                    let minus = if off.is_empty() { "" } else { "-" };
                    match (c, on.is_empty() && off.is_empty()) {
                        (':', _) => self.push(&format!("(?{on}{minus}{off}:")),
                        (_, true) => {}
                        (_, false) => self.push(&format!("(?{on}{minus}{off})")),
                    }
                    if c == ':' {
                        self.outer.push(outer);
                    }
                    return Ok(());
                }
                '-' if is_on => is_on = false,
                '-' => return Err(invalid("invalid hyphen in option setting")),
                'x' if self.rest.peek() == Some(&'x') => return Err(refused("the option xx")),
                'x' => self.flags.verbose = is_on,
                'n' | 'J' | '^' => return Err(refused(&format!("the option {c}"))),
                'i' | 'm' | 's' | 'U' => {
                    if c == 'm' {
                        self.flags.lines = is_on;
                    }
                    let letters = if is_on { &mut on } else { &mut off };
                    if !letters.contains(c) {
                        letters.push(c);
                    }
                }
                _ => return Err(invalid("unrecognized character after (? or (?-")),
            }
        }
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

/// Returns an error if the bounds of a repetition are too large, or in the wrong order.
fn check_bounds(bounds: &str) -> Result<(), StoreError> {
    let (least, most) = bounds.split_once(',').unwrap_or((bounds, ""));
    let number = |digits: &str| match digits {
        "" => Ok(u16::MAX),
        digits => digits
            .parse::<u16>()
            .map_err(|_| invalid("number too big in {} quantifier")),
    };
    match number(least)? <= number(most)? {
        true => Ok(()),
        false => Err(invalid("numbers out of order in {} quantifier")),
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
