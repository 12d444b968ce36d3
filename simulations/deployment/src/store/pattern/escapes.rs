//! The escapes of PCRE in the syntax of the engines.

use super::translation::{Follows, Translator, invalid, refused};
use crate::store::error::StoreError;

/// The characters of `\h` and `\v`.
const HORIZONTAL: &str = r"\t\x20\x{A0}\x{1680}\x{180E}\x{2000}-\x{200A}\x{202F}\x{205F}\x{3000}";
const VERTICAL: &str = r"\n\x0B\x0C\r\x{85}\x{2028}\x{2029}";

impl Translator<'_> {
    /// Appends an escape in a class.
    pub(super) fn escape_in_class(&mut self) -> Result<(), StoreError> {
        match self.rest.next() {
            Some('Q') => {
                self.quote();
                Ok(())
            }
            Some('b') => self.push_code(0x08),
            Some('B' | 'R' | 'X') => Err(invalid("escape sequence is invalid in character class")),
            Some(digit @ '0'..='7') => self.octal(digit),
            Some(digit @ '8'..='9') => self.push_code(u32::from(digit)),
            Some(escaped) => self.common_escape(escaped, true),
            None => Err(invalid("\\ at end of pattern")),
        }
    }

    /// Appends an escape outside of a class.
    pub(super) fn escape(&mut self, follows: Follows) -> Result<(), StoreError> {
        let Some(escaped) = self.rest.next() else {
            return Err(invalid("\\ at end of pattern"));
        };
        match escaped {
            'Q' => self.quote(),
            'E' => self.follows = follows,
            'b' => self.push(self.anchors.boundary),
            'Z' => self.push(self.anchors.end),
            'A' | 'B' | 'z' | 'G' | 'K' => self.result.text.extend(['\\', escaped]),
            'N' if self.rest.peek() == Some(&'{') => {
                return Err(invalid("\\N{name} is not supported"));
            }
            'N' => self.push(r"[^\n]"),
            'R' => {
                self.result.needs_backtracking = true;
                self.push(&format!(r"(?>\r\n|[{VERTICAL}])"));
            }
            'X' | 'C' => return Err(refused(&format!("\\{escaped}"))),
            'g' => return self.reference(),
            'k' => {
                let name = self
                    .name()
                    .ok_or_else(|| invalid("\\k is not followed by a name"))?;
                self.push(&format!("\\k<{name}>"));
            }
            '0' => return self.octal('0'),
            '1'..='9' => return self.number(escaped),
            other => return self.common_escape(other, false),
        }
        Ok(())
    }

    /// Appends an escape that means the same in a class and outside of classes.
    fn common_escape(&mut self, escaped: char, in_class: bool) -> Result<(), StoreError> {
        let spaces = r"\t\n\x0B\x0C\r\x20";
        let (is_negated, members) = match escaped {
            'd' | 'D' => (escaped == 'D', "0-9"),
            'w' | 'W' => (escaped == 'W', "0-9A-Za-z_"),
            's' | 'S' => (escaped == 'S', spaces),
            'h' | 'H' => (escaped == 'H', HORIZONTAL),
            'v' | 'V' => (escaped == 'V', VERTICAL),
            _ => return self.character(escaped, in_class),
        };
        let negation = if is_negated { "^" } else { "" };
        self.push(&format!("[{negation}{members}]"));
        Ok(())
    }

    /// Appends an escape that stands for a character or for a property of characters.
    fn character(&mut self, escaped: char, in_class: bool) -> Result<(), StoreError> {
        match escaped {
            'a' => self.push_code(0x07),
            'e' => self.push_code(0x1b),
            'f' => self.push_code(0x0c),
            'n' => self.push_code(0x0a),
            'r' => self.push_code(0x0d),
            't' => self.push_code(0x09),
            'c' => match self.rest.next() {
                Some(c @ ' '..='~') => self.push_code(u32::from(c.to_ascii_uppercase()) ^ 0x40),
                _ => Err(invalid(
                    "\\c must be followed by a printable ASCII character",
                )),
            },
            'E' if in_class => Ok(()),
            'x' => self.hexadecimal(),
            'o' => match self.in_braces() {
                Some(digits) => match u32::from_str_radix(&digits, 8) {
                    Ok(code) => self.push_code(code),
                    Err(_) => Err(invalid("non-octal character in \\o{}")),
                },
                None => Err(invalid("missing opening brace after \\o")),
            },
            'p' | 'P' => {
                self.result.text.extend(['\\', escaped]);
                if let Some(name) = self.in_braces() {
                    self.push(&format!("{{{name}}}"));
                }
                Ok(())
            }
            other if other.is_ascii_alphanumeric() => {
                Err(invalid("unrecognized character follows \\"))
            }
            other => self.push_code(u32::from(other)),
        }
    }

    /// Appends the character with a hexadecimal code of up to two digits, or of any number of them
    /// in braces.
    fn hexadecimal(&mut self) -> Result<(), StoreError> {
        if let Some(digits) = self.in_braces() {
            return match u32::from_str_radix(&digits, 16) {
                Ok(code) => self.push_code(code),
                Err(_) => Err(invalid(
                    "non-hex character in \\x{} (closing brace missing?)",
                )),
            };
        }
        let mut code = 0;
        for _ in 0..2 {
            let Some(digit) = self.rest.peek().and_then(|c| c.to_digit(16)) else {
                break;
            };
            self.rest.next();
            code = code * 16 + digit;
        }
        self.push_code(code)
    }

    /// Appends the character with an octal code of up to three digits.
    fn octal(&mut self, first: char) -> Result<(), StoreError> {
        let mut code = first.to_digit(8).unwrap_or_default();
        for _ in 0..2 {
            let Some(digit) = self.rest.peek().and_then(|c| c.to_digit(8)) else {
                break;
            };
            self.rest.next();
            code = code * 8 + digit;
        }
        self.push_code(code)
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
            return self.octal(first);
        }
        self.rest = ahead;
        self.push(&format!("\\{number}"));
        Ok(())
    }

    /// Appends the back-reference of a `\g`.
    fn reference(&mut self) -> Result<(), StoreError> {
        if matches!(self.rest.peek(), Some('<' | '\'')) {
            return Err(refused("recursion"));
        }
        let given = match self.in_braces() {
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
        let relative = given.strip_prefix('-').map(str::parse::<usize>);
        let number = match relative {
            Some(back) => back
                .ok()
                .and_then(|back| (self.groups + 1).checked_sub(back)),
            None => given.parse().ok(),
        };
        match number.filter(|number| *number > 0) {
            Some(number) => self.push(&format!("\\{number}")),
            None if is_name(&given) => self.push(&format!("\\k<{given}>")),
            None => return Err(invalid("a numbered reference must not be zero")),
        }
        Ok(())
    }

    /// Takes the name of a group after `\k`.
    fn name(&mut self) -> Option<String> {
        let end = match self.rest.next()? {
            '<' => '>',
            '\'' => '\'',
            '{' => '}',
            _ => return None,
        };
        let name: String = self.rest.by_ref().take_while(|c| *c != end).collect();
        is_name(&name).then_some(name)
    }

    /// Takes a text in braces, if there is one.
    fn in_braces(&mut self) -> Option<String> {
        self.rest.next_if_eq(&'{')?;
        Some(self.rest.by_ref().take_while(|c| *c != '}').collect())
    }

    /// Appends the text up to `\E` as it is.
    fn quote(&mut self) {
        while let Some(c) = self.rest.next() {
            if c == '\\' && self.rest.next_if_eq(&'E').is_some() {
                return;
            }
            self.push(&regex::escape(c.encode_utf8(&mut [0; 4])));
        }
    }
}

fn is_name(name: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    name.chars().all(is_part) && name.starts_with(|c: char| !c.is_ascii_digit())
}
