//! The escapes of PCRE in the syntax of the engines.

use super::classes::Member;
use super::effort::Size;
use super::properties::property;
use super::translation::{
    Follows, NO_BOUNDARY, Translator, invalid, is_name, is_number, is_repetition, refused,
};
use crate::store::error::StoreError;

/// The characters of `\h` and `\v`.
const HORIZONTAL: &str = r"\t\x20\x{A0}\x{1680}\x{180E}\x{2000}-\x{200A}\x{202F}\x{205F}\x{3000}";
const VERTICAL: &str = r"\n\x0B\x0C\r\x{85}\x{2028}\x{2029}";

/// The reason for `\X` of a PCRE2 without Unicode.
const NO_CLUSTERS: &str = r"this version of PCRE2 does not have support for \P, \p, or \X";

/// The reason for `\C` of a PCRE2 that is built without it.
const NO_BYTES: &str = r"using \C is disabled in this PCRE2 library";

impl Translator<'_> {
    /// Takes an escape in a class.
    pub(super) fn escape_in_class(&mut self) -> Result<Member, StoreError> {
        let Some(escaped) = self.rest.next() else {
            return Err(invalid("\\ at end of pattern"));
        };
        Ok(Member::Char(match escaped {
            'b' => '\u{8}',
            'A' | 'B' | 'C' | 'G' | 'K' | 'R' | 'X' | 'Z' | 'k' | 'z' => {
                return Err(invalid("escape sequence is invalid in character class"));
            }
            'N' => self
                .named_character()?
                .ok_or_else(|| invalid("\\N is not supported in a class"))?,
            '0'..='7' => self.octal(escaped)?,
            '8' | '9' | 'g' => escaped,
            _ => match self.set(escaped)? {
                Some(set) => return Ok(Member::Set(set)),
                None => self.character(escaped)?,
            },
        }))
    }

    /// Appends an escape outside of a class.
    pub(super) fn escape(&mut self, follows: Follows) -> Result<(), StoreError> {
        let Some(escaped) = self.rest.next() else {
            return Err(invalid("\\ at end of pattern"));
        };
        match escaped {
            'Q' => self.quote(follows),
            'E' => self.follows = follows,
            'b' => self.hard_anchor(self.anchors.boundary),
            'Z' => self.hard_anchor(self.anchors.end),
            'A' => self.anchor(r"\A"),
            'B' => {
                self.anchor(NO_BOUNDARY);
                self.needs_backtracking();
            }
            'z' => self.anchor(r"\z"),
            'K' if self.is_in_look_around() => {
                return Err(invalid(
                    "\\K is not allowed in lookarounds (but see PCRE2_EXTRA_ALLOW_LOOKAROUND_BSK)",
                ));
            }
            'G' | 'K' => {
                self.anchor(if escaped == 'G' { r"\G" } else { r"\K" });
                self.needs_backtracking();
            }
            'N' => match self.named_character()? {
                Some(c) => self.literal(c),
                None => self.push_set(r"[^\n]", Size::CLASS),
            },
            'R' => {
                self.atom(Size::CLASS.then(Size::CLASS));
                self.cut_last();
                self.push(&format!(r"(?>\r\n|[{VERTICAL}])"));
            }
            'X' => return Err(refused(r"\X", NO_CLUSTERS)),
            'C' => return Err(refused(r"\C", NO_BYTES)),
            'g' => return self.reference(),
            'k' => {
                let name = match self.rest.next() {
                    Some('<') => self.name('>'),
                    Some('\'') => self.name('\''),
                    Some('{') => self.name('}'),
                    _ => Err(invalid("\\k is not followed by a name")),
                };
                let name = name?;
                self.push_named_reference(&name);
            }
            '0' => {
                let c = self.octal('0')?;
                self.literal(c);
            }
            '1'..='9' => return self.number(escaped),
            other => match self.set(other)? {
                Some(set) => {
                    let is_property = matches!(other, 'p' | 'P');
                    let size = if is_property {
                        Size::PROPERTY
                    } else {
                        Size::CLASS
                    };
                    self.push_set(&set, size);
                }
                None => {
                    let c = self.character(other)?;
                    self.literal(c);
                }
            },
        }
        Ok(())
    }

    /// Returns the set that an escape stands for, in the syntax of the engines, or `None` if it
    /// stands for a character.
    fn set(&mut self, escaped: char) -> Result<Option<String>, StoreError> {
        let members = match escaped {
            'd' | 'D' => "0-9",
            'w' | 'W' => "0-9A-Za-z_",
            's' | 'S' => r"\t\n\x0B\x0C\r\x20",
            'h' | 'H' => HORIZONTAL,
            'v' | 'V' => VERTICAL,
            'p' | 'P' => {
                self.result.properties += 1;
                let malformed = "malformed \\P or \\p sequence";
                let name = match self.in_braces(malformed)? {
                    Some(name) => name,
                    None => self.rest.next().ok_or_else(|| invalid(malformed))?.into(),
                };
                let (name, is_negated) = match name.strip_prefix('^') {
                    Some(name) => (name, escaped == 'p'),
                    None => (name.as_str(), escaped == 'P'),
                };
                let letter = if is_negated { 'P' } else { 'p' };
                let name = property(name, self.is_pcre2)?;
                return Ok(Some(format!("\\{letter}{{{name}}}")));
            }
            _ => return Ok(None),
        };
        let negation = if escaped.is_ascii_uppercase() {
            "^"
        } else {
            ""
        };
        Ok(Some(format!("[{negation}{members}]")))
    }

    /// Returns the character that an escape stands for.
    fn character(&mut self, escaped: char) -> Result<char, StoreError> {
        Ok(match escaped {
            'a' => '\u{7}',
            'e' => '\u{1b}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'c' => match self.rest.next() {
                Some(c @ ' '..='~') => from_code(u32::from(c.to_ascii_uppercase()) ^ 0x40)?,
                _ => {
                    return Err(invalid(
                        "\\c must be followed by a printable ASCII character",
                    ));
                }
            },
            'x' => self.hexadecimal()?,
            'o' => {
                let wrong = "non-octal character in \\o{} (closing brace missing?)";
                let digits = self.in_braces(wrong)?;
                from_digits(
                    &digits.ok_or_else(|| invalid("missing opening brace after \\o"))?,
                    8,
                    wrong,
                )?
            }
            other if other.is_ascii_alphanumeric() => {
                return Err(invalid("unrecognized character follows \\"));
            }
            other => other,
        })
    }

    /// Returns the character of a `\N{U+41}`, or `None` for another `\N`.
    fn named_character(&mut self) -> Result<Option<char>, StoreError> {
        let mut ahead = self.rest.clone();
        if ahead.next_if_eq(&'{').is_none() || is_repetition(ahead) {
            return Ok(None);
        }
        let wrong = "non-hex character in \\x{} (closing brace missing?)";
        match self
            .in_braces(wrong)?
            .unwrap_or_default()
            .strip_prefix("U+")
        {
            Some(digits) => from_digits(digits, 16, wrong).map(Some),
            None => Err(invalid(
                "PCRE2 does not support \\F, \\L, \\l, \\N{name}, \\U, or \\u",
            )),
        }
    }

    /// Returns the character with a hexadecimal code of up to two digits, or of any number of them
    /// in braces.
    fn hexadecimal(&mut self) -> Result<char, StoreError> {
        let wrong = "non-hex character in \\x{} (closing brace missing?)";
        match self.in_braces(wrong)? {
            Some(digits) => from_digits(&digits, 16, wrong),
            None => self.digits(0, 16),
        }
    }

    /// Returns the character with an octal code of up to three digits.
    fn octal(&mut self, first: char) -> Result<char, StoreError> {
        self.digits(first.to_digit(8).unwrap_or_default(), 8)
    }

    /// Takes up to two further digits of a code.
    fn digits(&mut self, mut code: u32, radix: u32) -> Result<char, StoreError> {
        for _ in 0..2 {
            let Some(digit) = self.rest.peek().and_then(|c| c.to_digit(radix)) else {
                break;
            };
            self.rest.next();
            code = code * radix + digit;
        }
        from_code(code)
    }

    /// Appends a back-reference, or the character with an octal code: a number of two digits or
    /// more is a code if there are not as many groups yet.
    fn number(&mut self, first: char) -> Result<(), StoreError> {
        let mut digits = String::from(first);
        let mut ahead = self.rest.clone();
        while let Some(digit) = ahead.next_if(char::is_ascii_digit) {
            digits.push(digit);
        }
        let number = digits.parse().unwrap_or(usize::MAX);
        if number >= 10 && number > self.groups && first < '8' {
            let c = self.octal(first)?;
            self.literal(c);
            return Ok(());
        }
        self.rest = ahead;
        self.push_reference(number);
        Ok(())
    }

    /// Appends the back-reference of a `\g`.
    fn reference(&mut self) -> Result<(), StoreError> {
        if matches!(self.rest.peek(), Some('<' | '\'')) {
            let reason = "\\g is not followed by a braced, angle-bracketed, or quoted name/number \
                          or by a plain number";
            return Err(refused("recursion", reason));
        }
        let given = match self.in_braces("a subpattern name must end with a brace")? {
            Some(given) => given,
            None => {
                let mut given = String::new();
                given.extend(self.rest.next_if(|c| matches!(c, '-' | '+')));
                while let Some(digit) = self.rest.next_if(char::is_ascii_digit) {
                    given.push(digit);
                }
                given
            }
        };
        if is_name(&given) {
            self.push_named_reference(&given);
            return Ok(());
        }
        let digits = given.strip_prefix(['-', '+']).unwrap_or(&given);
        if !is_number(digits, 10) {
            return Err(invalid("\\g is not followed by a name or a number"));
        }
        let number = digits.parse().ok().filter(|number| *number > 0);
        let number = match given.chars().next() {
            // The group that begins next is number one.
            Some('+') => number.and_then(|number: usize| self.groups.checked_add(number)),
            Some('-') => number.and_then(|number| (self.groups + 1).checked_sub(number)),
            _ => number,
        };
        match number.filter(|number| *number > 0) {
            Some(number) => self.push_reference(number),
            None => return Err(invalid("reference to non-existent subpattern")),
        }
        Ok(())
    }

    /// Appends the reference to a group. A group around it keeps it apart from digits that follow.
    fn push_reference(&mut self, number: usize) {
        self.greatest_reference = self.greatest_reference.max(number);
        self.atom(Size::ANCHOR);
        self.needs_backtracking();
        self.push(&format!("(?:\\{number})"));
    }

    /// Appends the reference to a group with a name.
    pub(super) fn push_named_reference(&mut self, name: &str) {
        self.atom(Size::ANCHOR);
        self.needs_backtracking();
        self.push(&format!("\\k<{name}>"));
    }

    /// Takes a name of a group and the character after it.
    pub(super) fn name(&mut self, end: char) -> Result<String, StoreError> {
        match self.until(end) {
            Some(name) if is_name(&name) => Ok(name),
            Some(name) if name.is_empty() => Err(invalid("subpattern name expected")),
            Some(name) if name.starts_with(|c: char| c.is_ascii_digit()) => {
                Err(invalid("subpattern name must start with a non-digit"))
            }
            _ => Err(invalid(
                "syntax error in subpattern name (missing terminator?)",
            )),
        }
    }

    /// Takes a text in braces. Returns `None` if no brace follows, and `error` if the closing brace
    /// is missing.
    fn in_braces(&mut self, error: &str) -> Result<Option<String>, StoreError> {
        if self.rest.next_if_eq(&'{').is_none() {
            return Ok(None);
        }
        self.until('}').map(Some).ok_or_else(|| invalid(error))
    }

    /// Takes the text up to a character, and this character.
    pub(super) fn until(&mut self, end: char) -> Option<String> {
        let mut text = String::new();
        loop {
            match self.rest.next()? {
                c if c == end => return Some(text),
                c => text.push(c),
            }
        }
    }

    /// Appends the text up to `\E` as it is.
    fn quote(&mut self, follows: Follows) {
        self.follows = follows;
        while let Some(c) = self.rest.next() {
            if c == '\\' && self.rest.next_if_eq(&'E').is_some() {
                return;
            }
            self.follows = Follows::Atom;
            self.literal(c);
        }
    }
}

fn from_code(code: u32) -> Result<char, StoreError> {
    char::from_u32(code)
        .ok_or_else(|| invalid("character code point value in \\x{} or \\o{} is too large"))
}

/// Returns the character whose code has these digits.
fn from_digits(digits: &str, radix: u32, wrong: &str) -> Result<char, StoreError> {
    if digits.is_empty() {
        return Err(invalid("digits missing in \\x{} or \\o{} or \\N{U+}"));
    }
    if !is_number(digits, radix) {
        return Err(invalid(wrong));
    }
    from_code(u32::from_str_radix(digits, radix).unwrap_or(u32::MAX))
}
