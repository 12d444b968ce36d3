//! The writer of Extended JSON, which reads the bytes of a document once.

use super::{Mode, date, number, text::plain_length};
use crate::{
    error::{Error, Result},
    read::{self, Element, kind},
    regex::sorted_options,
    walk::{Container, Levels},
};
use base64::{Engine, engine::general_purpose::STANDARD};
use bson::Timestamp;
use std::fmt;

/// The mark in place of a value, or of the rest of a text, that cannot be shown.
pub(super) const ELLIPSIS: &str = "...";

/// The number of bytes of binary data that are encoded at once. Three bytes have four characters.
const BINARY_CHUNK_BYTES: usize = 768;

/// The number of bytes of a regular expression's options above which a lossy writer does not sort
/// them. There are six options.
const MAX_OPTIONS_BYTES: usize = 64;

/// The reason why a writer stops.
pub(super) enum Stop {
    /// The output refuses more text.
    Output,
    /// A value cannot be written.
    Value(Error),
}

impl From<fmt::Error> for Stop {
    fn from(_: fmt::Error) -> Self {
        Self::Output
    }
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Value(error)
    }
}

/// Writes values to `out`.
pub(super) struct Writer<'o, W: ?Sized> {
    out: &'o mut W,
    mode: Mode,
    /// The number of bytes after which `out` refuses text, for a writer that shows `...` in place
    /// of values it cannot read. `None` for a writer that fails at such values.
    lossy_limit: Option<usize>,
}

/// A text whose UTF-8 is valid.
#[derive(Clone, Copy)]
struct Text<'de> {
    valid: &'de str,
    /// True if bytes follow that are not UTF-8.
    is_cut: bool,
}

impl<'o, W: fmt::Write + ?Sized> Writer<'o, W> {
    pub(super) fn new(out: &'o mut W, mode: Mode, lossy_limit: Option<usize>) -> Self {
        Self {
            out,
            mode,
            lossy_limit,
        }
    }

    /// Writes all elements of `levels`, which has one level.
    pub(super) fn all(&mut self, levels: &mut Levels<'_>) -> Result<(), Stop> {
        self.opening(levels)?;
        while let Some(level) = levels.innermost() {
            let (container, index) = (level.container, level.count);
            let next = level.next();
            if index > 0 && !matches!(next, Ok(None)) {
                self.put(",")?;
            }
            match next {
                Ok(Some(element)) => self.element(element, container, index, levels)?,
                Ok(None) => self.closing(levels)?,
                Err(_) if self.lossy_limit.is_some() => {
                    // Elements after an unreadable one cannot be located.
                    let is_array = container == Container::Array;
                    self.put(if is_array { "\"...\"" } else { "\"...\":null" })?;
                    self.closing(levels)?;
                }
                Err(error) => return Err(levels.locate(error).into()),
            }
        }
        Ok(())
    }

    fn opening(&mut self, levels: &mut Levels<'_>) -> Result<(), Stop> {
        match levels.innermost().map(|level| level.container) {
            Some(Container::Document | Container::Scope) => self.put("{"),
            Some(Container::Array) => self.put("["),
            Some(Container::Frame) | None => Ok(()),
        }
    }

    fn closing(&mut self, levels: &mut Levels<'_>) -> Result<(), Stop> {
        let container = levels.innermost().map(|level| level.container);
        levels.leave();
        match container {
            Some(Container::Document) => self.put("}"),
            Some(Container::Array) => self.put("]"),
            Some(Container::Scope) => self.put("}}"),
            Some(Container::Frame) | None => Ok(()),
        }
    }

    fn element<'de>(
        &mut self,
        element: Element<'de>,
        container: Container,
        index: usize,
        levels: &mut Levels<'de>,
    ) -> Result<(), Stop> {
        let number;
        let name = if container == Container::Array {
            number = index.to_string();
            number.as_bytes()
        } else {
            element.key
        };
        let within = |error: Error| match container {
            Container::Frame => error.at(element.value),
            _ => error.at(element.value).within(name),
        };
        if matches!(container, Container::Document | Container::Scope) {
            let key = self.text(element.key);
            let key = key.map_err(|error| levels.locate(within(error)))?;
            self.quoted(key)?;
            self.put(":")?;
        }
        match self.value(element, levels) {
            Err(Stop::Value(_)) if self.lossy_limit.is_some() => self.put("\"...\""),
            Err(Stop::Value(error)) => Err(levels.locate(within(error)).into()),
            other => other,
        }
    }

    /// Writes a value, or the start of a document, array or code with scope, which it enters. Fails
    /// before it writes a part of a value that is not valid.
    fn value<'de>(&mut self, element: Element<'de>, levels: &mut Levels<'de>) -> Result<(), Stop> {
        let Element { key, value, .. } = element;
        match element.kind {
            kind::STRING => {
                let text = self.text(read::string_bytes(value))?;
                self.quoted(text)
            }
            kind::INT32 => {
                let number = i32::from_le_bytes(read::fixed(value)?);
                self.integer("$numberInt", number.into())
            }
            kind::INT64 => {
                let number = i64::from_le_bytes(read::fixed(value)?);
                self.integer("$numberLong", number)
            }
            kind::DOUBLE => self.double(f64::from_le_bytes(read::fixed(value)?)),
            kind::DOCUMENT | kind::ARRAY => {
                let is_array = element.kind == kind::ARRAY;
                let container = if is_array {
                    Container::Array
                } else {
                    Container::Document
                };
                levels.enter(key, value, container)?;
                self.opening(levels)
            }
            kind::BOOLEAN => {
                let value = read::boolean(value)?;
                self.put(if value { "true" } else { "false" })
            }
            kind::NULL => self.put("null"),
            kind::DATE_TIME => self.date(i64::from_le_bytes(read::fixed(value)?)),
            _ => self.wrapped(element, levels),
        }
    }

    /// Writes a value that is an object in both modes.
    fn wrapped<'de>(
        &mut self,
        element: Element<'de>,
        levels: &mut Levels<'de>,
    ) -> Result<(), Stop> {
        let Element { key, value, .. } = element;
        match element.kind {
            kind::OBJECT_ID => {
                self.put(r#"{"$oid":""#)?;
                self.hex(value)?;
                self.put("\"}")
            }
            kind::BINARY => {
                let (subtype, data) = read::binary(value)?;
                self.binary(subtype, data)
            }
            kind::REGEX => {
                let (pattern, options) = read::regex(value)?;
                let pattern = self.text(pattern)?;
                let options = self.options(options)?;
                self.regex(pattern, options)
            }
            kind::CODE | kind::SYMBOL => {
                let is_code = element.kind == kind::CODE;
                let text = self.text(read::string_bytes(value))?;
                self.put(if is_code {
                    r#"{"$code":"#
                } else {
                    r#"{"$symbol":"#
                })?;
                self.quoted(text)?;
                self.put("}")
            }
            kind::CODE_WITH_SCOPE => {
                let (code, scope) = read::code_with_scope(value)?;
                let code = self.text(read::string_bytes(code))?;
                levels.enter(key, scope, Container::Scope)?;
                self.put(r#"{"$code":"#)?;
                self.quoted(code)?;
                self.put(r#","$scope":{"#)
            }
            kind::DB_POINTER => {
                let (namespace, id) = read::db_pointer(value)?;
                let namespace = self.text(namespace)?;
                self.put(r#"{"$dbPointer":{"$ref":"#)?;
                self.quoted(namespace)?;
                self.put(r#","$id":{"$oid":""#)?;
                self.hex(&id)?;
                self.put("\"}}}")
            }
            kind::TIMESTAMP => {
                let Timestamp { time, increment } = read::timestamp(value)?;
                self.format(format_args!(
                    r#"{{"$timestamp":{{"t":{time},"i":{increment}}}}}"#
                ))
            }
            kind::DECIMAL128 => {
                let number = bson::Decimal128::from_bytes(read::fixed(value)?);
                self.format(format_args!(r#"{{"$numberDecimal":"{number}"}}"#))
            }
            kind::UNDEFINED => self.put(r#"{"$undefined":true}"#),
            kind::MIN_KEY => self.put(r#"{"$minKey":1}"#),
            kind::MAX_KEY => self.put(r#"{"$maxKey":1}"#),
            other => Err(read::not_a_type(other).into()),
        }
    }

    fn put(&mut self, text: &str) -> Result<(), Stop> {
        Ok(self.out.write_str(text)?)
    }

    fn format(&mut self, arguments: fmt::Arguments<'_>) -> Result<(), Stop> {
        Ok(self.out.write_fmt(arguments)?)
    }

    fn integer(&mut self, wrapper: &str, number: i64) -> Result<(), Stop> {
        match self.mode {
            Mode::Canonical => self.format(format_args!(r#"{{"{wrapper}":"{number}"}}"#)),
            Mode::Relaxed => self.format(format_args!("{number}")),
        }
    }

    fn double(&mut self, number: f64) -> Result<(), Stop> {
        // All kinds of NaN have the same name, also those with a sign.
        let name = match number {
            _ if number.is_nan() => "NaN",
            f64::INFINITY => "Infinity",
            f64::NEG_INFINITY => "-Infinity",
            _ if self.mode == Mode::Relaxed => return Ok(number::write_double(self.out, number)?),
            _ => {
                self.put(r#"{"$numberDouble":""#)?;
                number::write_double(self.out, number)?;
                return self.put("\"}");
            }
        };
        self.format(format_args!(r#"{{"$numberDouble":"{name}"}}"#))
    }

    fn date(&mut self, millis: i64) -> Result<(), Stop> {
        if self.mode == Mode::Canonical || !(0..=date::LAST_MILLIS).contains(&millis) {
            return self.format(format_args!(r#"{{"$date":{{"$numberLong":"{millis}"}}}}"#));
        }
        self.put(r#"{"$date":""#)?;
        date::write(self.out, millis)?;
        self.put("\"}")
    }

    /// Writes binary data. Only a chunk of it is encoded after the output is full.
    fn binary(&mut self, subtype: u8, data: &[u8]) -> Result<(), Stop> {
        self.put(r#"{"$binary":{"base64":""#)?;
        let mut buffer = [0; BINARY_CHUNK_BYTES / 3 * 4];
        for chunk in data.chunks(BINARY_CHUNK_BYTES) {
            // The buffer is large enough, and base64 is ASCII.
            let length = STANDARD.encode_slice(chunk, &mut buffer).unwrap_or(0);
            let text = buffer.get(..length).map(std::str::from_utf8);
            self.put(text.and_then(|text| text.ok()).unwrap_or_default())?;
        }
        self.put(r#"","subType":""#)?;
        self.hex(&[subtype])?;
        self.put("\"}}")
    }

    /// Writes a regular expression. Its options are sorted, because a value that is built by hand
    /// can have them in any order (BSON-9).
    fn regex(&mut self, pattern: Text<'_>, options: Text<'_>) -> Result<(), Stop> {
        self.put(r#"{"$regularExpression":{"pattern":"#)?;
        self.quoted(pattern)?;
        self.put(r#","options":"#)?;
        if self.lossy_limit.is_some() && options.valid.len() > MAX_OPTIONS_BYTES {
            self.quoted(options)?;
            return self.put("}}");
        }
        self.quoted(Text {
            valid: &sorted_options(options.valid),
            ..options
        })?;
        self.put("}}")
    }

    /// Writes up to 12 bytes in hexadecimal.
    fn hex(&mut self, bytes: &[u8]) -> Result<(), Stop> {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = [b'0'; 24];
        for (place, byte) in text.chunks_exact_mut(2).zip(bytes) {
            place[0] = DIGITS[usize::from(byte >> 4)];
            place[1] = DIGITS[usize::from(byte & 15)];
        }
        let shown = text.get(..2 * bytes.len()).unwrap_or(&text);
        self.put(std::str::from_utf8(shown).unwrap_or_default())
    }

    /// Checks a text. A lossy writer reads at most the part that can be shown.
    fn text<'de>(&self, bytes: &'de [u8]) -> Result<Text<'de>> {
        Self::checked(bytes, self.lossy_limit)
    }

    /// Checks the options of a regular expression. All options that are sorted are read.
    fn options<'de>(&self, bytes: &'de [u8]) -> Result<Text<'de>> {
        let limit = self.lossy_limit.map(|limit| limit.max(MAX_OPTIONS_BYTES));
        Self::checked(bytes, limit)
    }

    fn checked(bytes: &[u8], lossy_limit: Option<usize>) -> Result<Text<'_>> {
        let Some(limit) = lossy_limit else {
            let valid = read::text(bytes)?;
            return Ok(Text {
                valid,
                is_cut: false,
            });
        };
        // A character at the end that is cut has up to 3 bytes, and one byte more than the limit
        // shows that the output is full.
        let shown = &bytes[..bytes.len().min(limit.saturating_add(4))];
        let chunk = shown.utf8_chunks().next();
        let valid = chunk.map(|chunk| chunk.valid()).unwrap_or_default();
        Ok(Text {
            valid,
            is_cut: valid.len() < bytes.len(),
        })
    }

    fn quoted(&mut self, text: Text<'_>) -> Result<(), Stop> {
        self.put("\"")?;
        let mut rest = text.valid;
        loop {
            // All special characters have one byte, so that the text can be split at them.
            let (plain, special) = rest.split_at(plain_length(rest.as_bytes()));
            self.put(plain)?;
            let Some(&byte) = special.as_bytes().first() else {
                break;
            };
            match byte {
                b'"' => self.put("\\\"")?,
                b'\\' => self.put("\\\\")?,
                b'\n' => self.put("\\n")?,
                b'\r' => self.put("\\r")?,
                b'\t' => self.put("\\t")?,
                // DEL has no meaning in a text, and terminals act on it.
                _ => self.format(format_args!("\\u{byte:04x}"))?,
            }
            rest = &special[1..];
        }
        if text.is_cut {
            self.put(ELLIPSIS)?;
        }
        self.put("\"")
    }
}
