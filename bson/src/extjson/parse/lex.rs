//! The tokens of JSON.

use crate::{
    error::{Error, Result},
    extjson::text::plain_length,
};

/// A JSON text, and the place in it.
#[derive(Debug)]
pub(super) struct Cursor<'a> {
    text: &'a [u8],
    at: usize,
}

/// A JSON number as the smallest BSON type that holds it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Number {
    Int32(i32),
    Int64(i64),
    Double(f64),
}

impl<'a> Cursor<'a> {
    /// Starts at the beginning of a text, which is valid UTF-8.
    pub(super) const fn new(text: &'a [u8]) -> Self {
        Self { text, at: 0 }
    }

    /// Returns the offset of the next byte.
    pub(super) const fn offset(&self) -> usize {
        self.at
    }

    /// Returns the next byte after white space, and does not consume it.
    #[inline]
    pub(super) fn peek(&mut self) -> Option<u8> {
        loop {
            match self.text.get(self.at) {
                Some(b' ' | b'\n' | b'\r' | b'\t') => self.at += 1,
                other => return other.copied(),
            }
        }
    }

    /// Consumes the byte that was peeked at.
    pub(super) fn skip(&mut self) {
        self.at += 1;
    }

    /// Returns an error about the next byte.
    #[cold]
    pub(super) fn expected(&self, what: &str) -> Error {
        let found = match self.text.get(self.at) {
            None => "the text ends",
            Some(_) => "the text has another character",
        };
        self.error_at(self.at, &format!("{what} is expected, but {found}"))
    }

    #[cold]
    fn error_at(&self, offset: usize, message: &str) -> Error {
        Error::extended_json(message).at_offset(offset)
    }

    /// Consumes a literal such as `true`.
    pub(super) fn literal(&mut self, name: &str) -> Result<()> {
        let rest = self.text.get(self.at..).unwrap_or_default();
        if !rest.starts_with(name.as_bytes()) {
            return Err(self.expected("a value"));
        }
        self.at += name.len();
        Ok(())
    }

    /// Appends the characters of a string to `out`. The next byte is the quotation mark at its
    /// start. Returns the offset of a null character, which only an escape can express.
    pub(super) fn string(&mut self, out: &mut Vec<u8>) -> Result<Option<usize>> {
        self.at += 1;
        let mut null = None;
        loop {
            let rest = self.text.get(self.at..).unwrap_or_default();
            let (plain, special) = rest.split_at(plain_length(rest));
            out.extend_from_slice(plain);
            self.at += plain.len();
            match special.first() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(null);
                }
                Some(b'\\') => {
                    let offset = self.at;
                    let character = self.escape()?;
                    if character == '\0' {
                        null.get_or_insert(offset);
                    }
                    let mut bytes = [0; 4];
                    out.extend_from_slice(character.encode_utf8(&mut bytes).as_bytes());
                }
                // JSON permits DEL.
                Some(0x7f) => {
                    out.push(0x7f);
                    self.at += 1;
                }
                Some(_) => {
                    let message = "a string contains a control character without an escape";
                    return Err(self.error_at(self.at, message));
                }
                None => return Err(self.expected("the end of a string")),
            }
        }
    }

    /// Reads an escape, whose backslash is the next byte.
    fn escape(&mut self) -> Result<char> {
        let start = self.at;
        let letter = self.text.get(start + 1).copied();
        self.at += 2;
        Ok(match letter {
            Some(letter @ (b'"' | b'\\' | b'/')) => char::from(letter),
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                let unit = self.code_unit(start)?;
                let code = match unit {
                    0xd800..0xdc00 => self.low_surrogate(unit, start)?,
                    unit => unit,
                };
                char::from_u32(code).ok_or_else(|| self.lone_surrogate(start))?
            }
            _ => return Err(self.error_at(start, "a string contains an unknown escape")),
        })
    }

    /// Reads four hexadecimal digits of the escape at `start`.
    fn code_unit(&mut self, start: usize) -> Result<u32> {
        let digits = self.text.get(self.at..self.at + 4);
        let unit = digits.and_then(|digits| {
            digits.iter().try_fold(0, |sum, &digit| {
                Some(sum * 16 + char::from(digit).to_digit(16)?)
            })
        });
        self.at += 4;
        unit.ok_or_else(|| self.error_at(start, "an escape does not have four hexadecimal digits"))
    }

    /// Reads the second escape of a surrogate pair. Returns the character of both.
    fn low_surrogate(&mut self, high: u32, start: usize) -> Result<u32> {
        let rest = self.text.get(self.at..).unwrap_or_default();
        if !rest.starts_with(b"\\u") {
            return Err(self.lone_surrogate(start));
        }
        self.at += 2;
        match self.code_unit(start)? {
            low @ 0xdc00..0xe000 => Ok(0x1_0000 + ((high - 0xd800) << 10) + (low - 0xdc00)),
            _ => Err(self.lone_surrogate(start)),
        }
    }

    #[cold]
    fn lone_surrogate(&self, start: usize) -> Error {
        self.error_at(start, "an escape is one half of a surrogate pair")
    }

    /// Reads a number. The next byte is a digit or the minus sign.
    pub(super) fn number(&mut self) -> Result<Number> {
        let start = self.at;
        let is_negative = self.text.get(start) == Some(&b'-');
        self.at += usize::from(is_negative);
        let leads_with_zero = self.text.get(self.at) == Some(&b'0');
        let first = self.at;
        let magnitude = self.digits()?;
        if leads_with_zero && self.at > first + 1 {
            return Err(self.error_at(start, "a number has a zero in front"));
        }
        let mut is_integer = true;
        if self.text.get(self.at) == Some(&b'.') {
            is_integer = false;
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.text.get(self.at) {
            is_integer = false;
            self.at += 1;
            let has_sign = matches!(self.text.get(self.at), Some(b'+' | b'-'));
            self.at += usize::from(has_sign);
            self.digits()?;
        }
        // The smallest type that holds the integer (EJSON-12).
        let integer = magnitude.filter(|_| is_integer).map(i128::from);
        let integer = integer.map(|number| if is_negative { -number } else { number });
        if let Some(number) = integer.and_then(|number| i64::try_from(number).ok()) {
            return Ok(i32::try_from(number).map_or(Number::Int64(number), Number::Int32));
        }
        let text = std::str::from_utf8(&self.text[start..self.at]).unwrap_or_default();
        match text.parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(Number::Double(number)),
            _ => Err(self.error_at(start, "a number is larger than the largest double")),
        }
    }

    /// Reads one or more digits. Returns their value if 64 bits can hold it.
    fn digits(&mut self) -> Result<Option<u64>> {
        let start = self.at;
        let mut value = Some(0_u64);
        while let Some(&digit @ b'0'..=b'9') = self.text.get(self.at) {
            let next = value.and_then(|value| value.checked_mul(10));
            value = next.and_then(|value| value.checked_add(u64::from(digit - b'0')));
            self.at += 1;
        }
        if self.at == start {
            return Err(self.expected("a digit"));
        }
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn string(text: &str) -> Result<String> {
        let mut out = Vec::new();
        Cursor::new(text.as_bytes()).string(&mut out)?;
        Ok(String::from_utf8(out).expect("the parser writes UTF-8"))
    }

    #[test]
    fn escapes_of_strings_are_read() {
        for (text, expected) in [
            (r#""\"\\\/\b\f\n\r\t""#, "\"\\/\u{8}\u{c}\n\r\t"),
            (r#""\u0041\u00e9\u20AC""#, "Aé€"),
            (r#""a\ud83d\uDE00b""#, "a😀b"),
            ("\"\u{7f}\u{2028}\"", "\u{7f}\u{2028}"),
            (r#""\u0000""#, "\0"),
        ] {
            assert_eq!(string(text).as_deref(), Ok(expected));
        }
    }

    #[test]
    fn malformed_strings_have_the_offset_of_the_defect() {
        for (text, offset) in [
            ("\"abc", 4),
            ("\"ab\n\"", 3),
            ("\"ab\0\"", 3),
            (r#""a\x""#, 2),
            (r#""a\"#, 2),
            (r#""a\u00""#, 2),
            (r#""a\u00g0""#, 2),
            (r#""a\u+123""#, 2),
            (r#""a\ud800""#, 2),
            (r#""a\ud800x""#, 2),
            (r#""a\ud800\n""#, 2),
            (r#""a\ud800\u0041""#, 2),
            (r#""a\ud800\ud800""#, 2),
            (r#""a\udc00""#, 2),
        ] {
            let error = string(text).expect_err("it is malformed");
            assert_eq!(error.offset(), Some(offset), "{text}: {error}");
        }
    }

    // EJSON-12.
    #[test]
    fn numbers_become_the_smallest_type_that_holds_them() {
        for (text, expected) in [
            ("0", Number::Int32(0)),
            ("-0", Number::Int32(0)),
            ("2147483647", Number::Int32(i32::MAX)),
            ("-2147483648", Number::Int32(i32::MIN)),
            ("2147483648", Number::Int64(2_147_483_648)),
            ("-2147483649", Number::Int64(-2_147_483_649)),
            ("9223372036854775807", Number::Int64(i64::MAX)),
            ("-9223372036854775808", Number::Int64(i64::MIN)),
            (
                "9223372036854775808",
                Number::Double(9_223_372_036_854_775_808.0),
            ),
            (
                "-9223372036854775809",
                Number::Double(-9_223_372_036_854_775_808.0),
            ),
            (
                "18446744073709551616",
                Number::Double(18_446_744_073_709_551_616.0),
            ),
            (
                "123456789012345678901234567890",
                Number::Double(1.2345678901234568e29),
            ),
            ("1.0", Number::Double(1.0)),
            ("-0.0", Number::Double(-0.0)),
            ("1e2", Number::Double(100.0)),
            ("1.5E+3", Number::Double(1500.0)),
            ("5e-324", Number::Double(5e-324)),
            ("1e-400", Number::Double(0.0)),
            ("0.1", Number::Double(0.1)),
            (
                "2.2250738585072011e-308",
                Number::Double(2.225_073_858_507_201e-308),
            ),
        ] {
            let mut cursor = Cursor::new(text.as_bytes());
            assert_eq!(cursor.number(), Ok(expected), "{text}");
            assert_eq!(cursor.offset(), text.len());
        }
    }

    #[test]
    fn malformed_numbers_are_refused() {
        for text in [
            "-", "01", "-01", "00", "1.", "1.e5", "1e", "1e+", "-a", "1e400", "-1e400",
        ] {
            assert!(Cursor::new(text.as_bytes()).number().is_err(), "{text}");
        }
    }
}
