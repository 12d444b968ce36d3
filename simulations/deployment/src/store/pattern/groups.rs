//! Groups, which begin with a parenthesis.

use super::effort::Size;
use super::translation::{
    Flags, Follows, Translation, Translator, UNKNOWN_GROUP, invalid, is_name, is_number, refused,
};
use crate::store::error::StoreError;

/// The length of the longest name of a group, in bytes.
const MAX_NAME_BYTES: usize = 32;

/// The kinds of groups.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind {
    Group,
    Atomic,
    LookAhead,
    LookBehind,
    /// A conditional group such as `(?(1)a|b)`, with the length of its start (`(?(1)`) in bytes.
    Condition(usize),
}

impl Kind {
    /// True for a group that keeps no way back.
    pub(super) const fn is_cut(self) -> bool {
        matches!(self, Self::Atomic | Self::LookAhead | Self::LookBehind)
    }

    const fn is_look_around(self) -> bool {
        matches!(self, Self::LookAhead | Self::LookBehind)
    }
}

/// An open group.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) kind: Kind,
    /// The options outside of the group.
    flags: Flags,
    /// The position of the group in the translated text.
    start: usize,
    /// The number of alternatives that have begun.
    pub(super) alternatives: u64,
    /// The size of the alternatives that have ended.
    ended: Option<Size>,
    /// The size of the alternative that has begun, without its last element.
    sequence: Size,
    /// The size of the last element, which a quantifier can repeat.
    pub(super) last: Size,
    /// The position of the last element in the translated text.
    pub(super) last_start: usize,
    /// The number of cuts before the last element.
    pub(super) cuts: usize,
    /// The part that needs no backtracking before the last element.
    pub(super) tail: Size,
    /// True if the bounds of a repetition, or the lengths of alternatives, differ.
    pub(super) is_varied: bool,
    /// True if an element needs backtracking.
    pub(super) is_hard: bool,
    /// True if the last element is a group with an element that needs backtracking.
    pub(super) is_last_hard: bool,
}

impl Frame {
    pub(super) const fn new(kind: Kind, flags: Flags, start: usize) -> Self {
        Self {
            kind,
            flags,
            start,
            alternatives: 1,
            ended: None,
            sequence: Size::EMPTY,
            last: Size::EMPTY,
            last_start: start,
            cuts: 0,
            tail: Size::EMPTY,
            is_varied: false,
            is_hard: false,
            is_last_hard: false,
        }
    }

    /// Begins an element after a translated text.
    pub(super) fn begin(&mut self, before: &Translation, tail: Size) {
        self.sequence = self.sequence.then(self.last);
        self.last = Size::EMPTY;
        self.last_start = before.text.len();
        self.cuts = before.effort.cuts.len();
        self.tail = tail;
        self.is_last_hard = false;
    }

    /// Notes the length of the alternative that ends. Fails if it is one of a look-behind and can
    /// have several lengths.
    fn end_length(&mut self) -> Result<(), StoreError> {
        let own = self.sequence.then(self.last);
        let is_behind = self.kind == Kind::LookBehind;
        let differs = self.ended.is_some_and(|ended| !ended.is_as_long_as(own));
        self.is_varied |= differs && !is_behind;
        match is_behind && self.is_varied {
            true => Err(invalid("lookbehind assertion is not fixed length")),
            false => Ok(()),
        }
    }

    /// Returns the size of the group.
    pub(super) fn size(&self) -> Size {
        let own = self.sequence.then(self.last);
        let all = self.ended.map_or(own, |ended| ended.or(own));
        all.with_alternatives(self.alternatives)
    }
}

impl Translator<'_> {
    /// Appends the start of a group, with the options that it sets.
    pub(super) fn group(&mut self, follows: Follows) -> Result<(), StoreError> {
        self.follows = Follows::Nothing;
        if self.rest.peek() == Some(&'*') {
            return Err(refused(
                "verbs such as (*ACCEPT)",
                "(*VERB) not recognized or malformed",
            ));
        }
        if self.rest.next_if_eq(&'?').is_none() {
            self.open(Kind::Group, "(");
            self.groups += 1;
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
            | (Some('-'), Some('0'..='9')) => Err(refused("recursion", UNKNOWN_GROUP)),
            (Some('|'), _) => Err(refused("groups with a common number (?|", UNKNOWN_GROUP)),
            (Some('C'), _) => Err(refused("callouts", UNKNOWN_GROUP)),
            (Some('('), _) => self.condition(),
            (Some('P'), Some('=')) => {
                self.rest.nth(1);
                self.follows = Follows::Atom;
                let name = self.name(')')?;
                self.push_named_reference(&name);
                Ok(())
            }
            (Some(first @ ('=' | '!' | '>')), _) => {
                self.rest.next();
                let kind = if first == '>' {
                    Kind::Atomic
                } else {
                    Kind::LookAhead
                };
                self.open(kind, &format!("(?{first}"));
                Ok(())
            }
            (Some('<'), Some(second @ ('=' | '!'))) => {
                self.rest.nth(1);
                self.open(Kind::LookBehind, &format!("(?<{second}"));
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

    /// Appends the start of a group.
    fn open(&mut self, kind: Kind, text: &str) {
        self.frame.begin(&self.result, self.tail);
        let frame = Frame::new(kind, self.flags, self.result.text.len());
        self.outer.push(std::mem::replace(&mut self.frame, frame));
        self.push(text);
    }

    /// Appends the start of another alternative.
    pub(super) fn alternative(&mut self) -> Result<(), StoreError> {
        let frame = &mut self.frame;
        frame.end_length()?;
        frame.begin(&self.result, self.tail);
        let own = std::mem::replace(&mut frame.sequence, Size::EMPTY);
        frame.ended = Some(frame.ended.map_or(own, |ended| ended.or(own)));
        frame.alternatives += 1;
        if matches!(frame.kind, Kind::Condition(_)) && frame.alternatives > 2 {
            return Err(invalid(
                "conditional subpattern contains more than two branches",
            ));
        }
        self.tail_of_alternatives = self.tail_of_alternatives.or(self.tail);
        self.tail = Size::EMPTY;
        self.push("|");
        Ok(())
    }

    /// Appends the end of a group.
    pub(super) fn close(&mut self) -> Result<(), StoreError> {
        let Some(outer) = self.outer.pop() else {
            return Err(invalid("unmatched closing parenthesis"));
        };
        let mut inner = std::mem::replace(&mut self.frame, outer);
        inner.end_length()?;
        self.frame.is_varied |= inner.is_varied && !inner.kind.is_look_around();
        self.flags = inner.flags;
        self.frame.last = inner.size();
        self.frame.is_hard |= inner.is_hard;
        self.frame.is_last_hard = inner.is_hard;
        match inner.kind {
            Kind::Condition(length) => {
                let body = self.result.text.get(inner.start + length..);
                // The engine takes a group without alternatives as a condition that must hold.
                if matches!(body, Some("" | "|")) {
                    self.result.text.truncate(inner.start);
                    self.push("(?:");
                }
                self.tail_of_alternatives = self.tail_of_alternatives.or(self.tail);
                self.needs_backtracking();
            }
            Kind::Atomic => self.cut_last(),
            Kind::LookAhead | Kind::LookBehind => {
                self.cut_last();
                self.frame.last = inner.size().of_look_around();
            }
            Kind::Group => {}
        }
        self.push(")");
        Ok(())
    }

    /// True within a look-around.
    pub(super) fn is_in_look_around(&self) -> bool {
        let mut frames = self.outer.iter().chain([&self.frame]);
        frames.any(|frame| frame.kind.is_look_around())
    }

    fn named_group(&mut self, end: char) -> Result<(), StoreError> {
        let name = self.name(end)?;
        if name.len() > MAX_NAME_BYTES {
            return Err(invalid(
                "subpattern name is too long (maximum 32 code units)",
            ));
        }
        if self.names.contains(&name) {
            return Err(invalid(
                "two named subpatterns have the same name (PCRE2_DUPNAMES not set)",
            ));
        }
        self.open(Kind::Group, &format!("(?<{name}>"));
        self.names.push(name);
        self.groups += 1;
        Ok(())
    }

    /// Appends the start of a conditional group, whose condition is the number or name of a group.
    fn condition(&mut self) -> Result<(), StoreError> {
        self.rest.next();
        let condition: String = self.rest.by_ref().take_while(|c| *c != ')').collect();
        let inner = |start, end| condition.strip_prefix(start)?.strip_suffix(end);
        let name = inner('<', '>').or_else(|| inner('\'', '\''));
        let text = match name {
            Some(name) if is_name(name) => format!("(?(<{name}>)"),
            None if is_number(&condition, 10) => {
                let number = condition.parse().unwrap_or(usize::MAX);
                if number == 0 {
                    return Err(invalid("reference to non-existent subpattern"));
                }
                self.greatest_reference = self.greatest_reference.max(number);
                format!("(?({number})")
            }
            _ => {
                return Err(refused(
                    "conditions that are not the number or name of a group",
                    "malformed number or name after (?(",
                ));
            }
        };
        self.open(Kind::Condition(text.len()), &text);
        self.tail = Size::EMPTY;
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
                        (':', _) => {
                            let inner = std::mem::replace(&mut self.flags, outer);
                            self.open(Kind::Group, &format!("(?{on}{minus}{off}:"));
                            self.flags = inner;
                        }
                        (_, true) => {}
                        (_, false) => self.push(&format!("(?{on}{minus}{off})")),
                    }
                    return Ok(());
                }
                '-' if is_on => is_on = false,
                '-' => return Err(invalid("invalid hyphen in option setting")),
                'x' if self.rest.peek() == Some(&'x') => {
                    return Err(refused("the option xx", UNKNOWN_GROUP));
                }
                'x' => self.flags.verbose = is_on,
                'n' | 'J' | '^' => {
                    return Err(refused(&format!("the option {c}"), UNKNOWN_GROUP));
                }
                'm' => self.flags.lines = is_on,
                'U' => self.flags.ungreedy = is_on,
                'i' | 's' => {
                    if c == 'i' {
                        self.flags.caseless = is_on;
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
