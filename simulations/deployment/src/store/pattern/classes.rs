//! Classes of characters, such as `[a-z]`.

use super::effort::Size;
use super::folding::other_cases;
use super::translation::{Translator, invalid, refused};
use crate::store::error::StoreError;

/// The reason of PCRE2 for a class of another name.
const UNKNOWN_CLASS: &str = "unknown POSIX class name";

/// The names of classes such as `[:alpha:]`.
const CLASSES: [&str; 14] = [
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct",
    "space", "upper", "word", "xdigit",
];

impl Translator<'_> {
    /// Appends a class. Its characters are escaped, because the engines have a syntax of their own
    /// in classes.
    pub(super) fn class(&mut self) -> Result<(), StoreError> {
        if matches!(self.rest.peek(), Some(':' | '.' | '=')) && self.named_class().is_some() {
            return Err(invalid(
                "POSIX named classes are supported only within a class",
            ));
        }
        let properties = self.result.properties;
        let is_caseless = self.flags.caseless;
        self.push(if is_caseless { "(?-i:[" } else { "[" });
        self.skip_ends_of_quotes();
        if self.rest.next_if_eq(&'^').is_some() {
            self.push("^");
        }
        self.skip_ends_of_quotes();
        let mut ranges = Vec::new();
        self.members(&mut ranges)?;
        if is_caseless {
            for (first, last) in other_cases(&ranges) {
                self.push_char(first);
                self.push("-");
                self.push_char(last);
            }
        }
        self.push(if is_caseless { "])" } else { "]" });
        self.atom(match self.result.properties > properties {
            true => Size::PROPERTY,
            false => Size::CLASS,
        });
        Ok(())
    }

    /// Appends the members of a class. Adds its characters and ranges to `ranges`.
    fn members(&mut self, ranges: &mut Vec<(char, char)>) -> Result<(), StoreError> {
        let mut is_quoted = false;
        let mut next = self.rest.next_if_eq(&']').map(Member::Char);
        loop {
            let member = match next.take() {
                Some(member) => member,
                None => self.member(&mut is_quoted)?,
            };
            let start = match member {
                Member::End => return Ok(()),
                Member::Set(text) => {
                    self.push(&text);
                    None
                }
                Member::Hyphen => Some('-'),
                Member::Char(c) => Some(c),
            };
            if let Some(c) = start {
                self.push_char(c);
                ranges.push((c, c));
            }
            let hyphen = match self.member(&mut is_quoted)? {
                Member::Hyphen => self.member(&mut is_quoted)?,
                other => {
                    next = Some(other);
                    continue;
                }
            };
            let end = match hyphen {
                Member::Hyphen => Some('-'),
                Member::Char(c) => Some(c),
                Member::Set(_) | Member::End => None,
            };
            match (start, end) {
                (Some(start), Some(end)) if start <= end => {
                    self.push("-");
                    self.push_char(end);
                    ranges.push((start, end));
                }
                (Some(_), Some(_)) => {
                    return Err(invalid("range out of order in character class"));
                }
                _ if matches!(hyphen, Member::End) || !self.is_pcre2 => {
                    self.push_char('-');
                    next = Some(hyphen);
                }
                _ => return Err(invalid("invalid range in character class")),
            }
        }
    }

    /// Takes each `\E`, which has no meaning outside of quoted text, and each empty `\Q\E`.
    fn skip_ends_of_quotes(&mut self) {
        loop {
            let mut ahead = self.rest.clone();
            let is_end = ahead.next() == Some('\\')
                && match ahead.next() {
                    Some('E') => true,
                    Some('Q') => ahead.next() == Some('\\') && ahead.next() == Some('E'),
                    _ => false,
                };
            if !is_end {
                return;
            }
            self.rest = ahead;
        }
    }

    /// Takes the next member of a class. The members up to `\E` are text if `is_quoted` is true.
    fn member(&mut self, is_quoted: &mut bool) -> Result<Member, StoreError> {
        loop {
            let Some(c) = self.rest.next() else {
                return Err(invalid("missing terminating ] for character class"));
            };
            if c == '\\' && self.rest.next_if_eq(&'E').is_some() {
                *is_quoted = false;
                continue;
            }
            return Ok(match c {
                c if *is_quoted => Member::Char(c),
                '\\' if self.rest.next_if_eq(&'Q').is_some() => {
                    *is_quoted = true;
                    continue;
                }
                '\\' => return self.escape_in_class(),
                '[' => match self.named_class() {
                    None => Member::Char('['),
                    Some((':', name))
                        if CLASSES.contains(&name.strip_prefix('^').unwrap_or(&name)) =>
                    {
                        self.rest.nth(name.len() + 2);
                        let (negation, letters) = match name.strip_prefix('^') {
                            Some(letters) => ("^", letters),
                            None => ("", name.as_str()),
                        };
                        // Without regard to case, these are all letters.
                        let letters = match letters {
                            "lower" | "upper" if self.flags.caseless => "alpha",
                            letters => letters,
                        };
                        Member::Set(format!("[:{negation}{letters}:]"))
                    }
                    Some((':', name)) if matches!(name.as_str(), "<" | ">") => {
                        return Err(refused(&format!("[[:{name}:]]"), UNKNOWN_CLASS));
                    }
                    Some((':', _)) => return Err(invalid(UNKNOWN_CLASS)),
                    Some(_) => return Err(invalid("POSIX collating elements are not supported")),
                },
                ']' => Member::End,
                '-' => Member::Hyphen,
                c => Member::Char(c),
            });
        }
    }

    /// Returns the kind and the name of a class such as `[:alpha:]`, if the text after a bracket is
    /// the rest of one.
    fn named_class(&self) -> Option<(char, String)> {
        let mut ahead = self.rest.clone();
        let kind = ahead.next_if(|c| matches!(c, ':' | '.' | '='))?;
        let mut name = String::new();
        loop {
            let c = ahead.next()?;
            match (c, ahead.peek()) {
                (c, Some(']')) if c == kind => return Some((kind, name)),
                ('\\', Some(']' | '\\')) => name.extend([c, ahead.next()?]),
                ('[', Some(next)) if *next == kind => return None,
                (']', _) => return None,
                _ => name.push(c),
            }
        }
    }
}

/// A member of a class.
#[derive(Debug)]
pub(super) enum Member {
    Char(char),
    /// A set of characters, in the syntax of the engines.
    Set(String),
    /// A hyphen that is not escaped.
    Hyphen,
    /// The end of the class.
    End,
}
