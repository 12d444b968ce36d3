//! Objects that represent values of other types.

use crate::{
    decimal128::parse_decimal128,
    error::{Error, Result},
    extjson::{
        date,
        number::{parse_double, parse_integer},
    },
    read::{self, Element, Elements, OLD_BINARY, kind},
    regex::sorted_options,
};
use base64::{Engine, engine::general_purpose::STANDARD};

/// The subtype of a UUID in the standard byte order.
const UUID: u8 = 4;

/// A type representation. Its name in an object decides what the object must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Special {
    ObjectId,
    Symbol,
    NumberInt,
    NumberLong,
    NumberDouble,
    NumberDecimal,
    Binary,
    Code,
    Timestamp,
    RegularExpression,
    DbPointer,
    Date,
    MinKey,
    MaxKey,
    Undefined,
    Uuid,
    /// The old form of regular expressions. Other objects with its name are query operators.
    Regex,
}

/// All type representations with their names. `$scope` and `$options` alone have no meaning.
const NAMES: [(&str, Special); 17] = [
    ("$oid", Special::ObjectId),
    ("$symbol", Special::Symbol),
    ("$numberInt", Special::NumberInt),
    ("$numberLong", Special::NumberLong),
    ("$numberDouble", Special::NumberDouble),
    ("$numberDecimal", Special::NumberDecimal),
    ("$binary", Special::Binary),
    ("$code", Special::Code),
    ("$timestamp", Special::Timestamp),
    ("$regularExpression", Special::RegularExpression),
    ("$dbPointer", Special::DbPointer),
    ("$date", Special::Date),
    ("$minKey", Special::MinKey),
    ("$maxKey", Special::MaxKey),
    ("$undefined", Special::Undefined),
    ("$uuid", Special::Uuid),
    ("$regex", Special::Regex),
];

impl Special {
    /// Returns the representation that the name of a field belongs to.
    pub(super) fn of_key(key: &[u8], legacy: bool) -> Option<Self> {
        if key.first() != Some(&b'$') {
            return None;
        }
        let found = NAMES.iter().find(|(name, _)| name.as_bytes() == key);
        let special = found.map(|(_, special)| *special);
        special.filter(|&special| legacy || special != Self::Regex)
    }

    fn name(self) -> &'static str {
        let found = NAMES.iter().find(|(_, special)| *special == self);
        found.map_or("", |(name, _)| name)
    }

    #[cold]
    fn has_wrong_keys(self) -> Error {
        let name = self.name();
        Error::extended_json(format_args!(
            "an object with `{name}` has other names than its type needs"
        ))
    }

    #[cold]
    fn has_wrong_value(self, expected: &str) -> Error {
        let name = self.name();
        Error::extended_json(format_args!("the value of `{name}` is not {expected}"))
    }
}

/// An object that was written as a document.
pub(super) struct Wrapper<'a> {
    pub(super) document: &'a [u8],
    /// The number of elements of the document.
    pub(super) count: usize,
    /// True if a value was an object that represents another type.
    pub(super) has_wrapper: bool,
    /// True if a value in a value was such an object.
    pub(super) has_inner_wrapper: bool,
    pub(super) legacy: bool,
}

impl<'a> Wrapper<'a> {
    /// Appends the value that the object represents to `out`. Returns its type; `None` if the
    /// object is a document.
    pub(super) fn convert(&self, special: Special, out: &mut Vec<u8>) -> Result<Option<u8>> {
        if special == Special::Regex {
            return self.regex(out);
        }
        // Two representations can have two names (EJSON-8).
        if self.count == 2 {
            return match special {
                Special::Code => self.code_with_scope(out).map(Some),
                Special::Binary if self.legacy => self.old_binary(out).map(Some),
                _ => Err(special.has_wrong_keys()),
            };
        }
        let mut elements = Elements::of_document(self.document)?;
        let element = elements.next()?.filter(|_| self.count == 1);
        let element = element.ok_or_else(|| special.has_wrong_keys())?;
        match special {
            Special::Binary
            | Special::Timestamp
            | Special::RegularExpression
            | Special::DbPointer => self.nested(special, element, out),
            Special::Date => self.date(element, out),
            Special::MinKey | Special::MaxKey => {
                // The number is a JSON number.
                let is_one = element.kind == kind::INT32 && element.value == 1_i32.to_le_bytes();
                if !is_one || self.has_wrapper {
                    return Err(special.has_wrong_value("the number 1"));
                }
                Ok(match special {
                    Special::MinKey => kind::MIN_KEY,
                    _ => kind::MAX_KEY,
                })
            }
            Special::Undefined if (element.kind, element.value) == (kind::BOOLEAN, &[1]) => {
                Ok(kind::UNDEFINED)
            }
            Special::Undefined => Err(special.has_wrong_value("`true`")),
            _ => {
                let text = text(element).ok_or_else(|| special.has_wrong_value("a string"))?;
                from_string(special, text, out)
            }
        }
        .map(Some)
    }

    /// Converts a representation whose value is an object with two fields.
    fn nested(&self, special: Special, element: Element<'a>, out: &mut Vec<u8>) -> Result<u8> {
        let wrong = |expected| special.has_wrong_value(expected);
        let pair = |first, second| {
            let inner = Some(element).filter(|element| element.kind == kind::DOCUMENT);
            inner.and_then(|element| pair(element.value, [first, second]))
        };
        match special {
            Special::Timestamp => {
                let expected = "an object with two unsigned integers `t` and `i`";
                let numbers = pair("t", "i").filter(|_| !self.has_inner_wrapper);
                let [time, increment] = numbers.ok_or_else(|| wrong(expected))?;
                for part in [increment, time] {
                    let number = unsigned(part).ok_or_else(|| wrong(expected))?;
                    out.extend_from_slice(&number.to_le_bytes());
                }
                Ok(kind::TIMESTAMP)
            }
            Special::RegularExpression => {
                let expected = "an object with two strings `pattern` and `options`";
                let parts =
                    pair("pattern", "options").and_then(|[a, b]| Some((text(a)?, text(b)?)));
                let (pattern, options) = parts.ok_or_else(|| wrong(expected))?;
                append_regex(pattern, options, out)
            }
            Special::DbPointer => {
                let expected = "an object with a string `$ref` and an ObjectId `$id`";
                let [namespace, id] = pair("$ref", "$id").ok_or_else(|| wrong(expected))?;
                if (namespace.kind, id.kind) != (kind::STRING, kind::OBJECT_ID) {
                    return Err(wrong(expected));
                }
                out.extend_from_slice(namespace.value);
                out.extend_from_slice(id.value);
                Ok(kind::DB_POINTER)
            }
            _ => {
                let expected = "an object with two strings `base64` and `subType`";
                let parts = pair("base64", "subType").and_then(|[a, b]| Some((text(a)?, text(b)?)));
                let (data, subtype) = parts.ok_or_else(|| wrong(expected))?;
                append_binary(data, subtype, out)
            }
        }
    }

    /// Converts a date: a string, a `$numberLong`, or in the old form a number (EJSON-5).
    fn date(&self, element: Element<'_>, out: &mut Vec<u8>) -> Result<u8> {
        let number = match element.kind {
            kind::INT64 => Some(i64::from_le_bytes(read::fixed(element.value)?)),
            kind::INT32 if !self.has_wrapper => {
                Some(i32::from_le_bytes(read::fixed(element.value)?).into())
            }
            _ => None,
        };
        let millis = match text(element) {
            Some(text) => date::parse(text, self.legacy),
            None => number.filter(|_| self.has_wrapper || self.legacy),
        };
        let expected = "a `$numberLong`, or a string with a date and time of RFC 3339 that has at \
                        most milliseconds";
        let millis = millis.ok_or_else(|| Special::Date.has_wrong_value(expected))?;
        out.extend_from_slice(&millis.to_le_bytes());
        Ok(kind::DATE_TIME)
    }

    fn code_with_scope(&self, out: &mut Vec<u8>) -> Result<u8> {
        let pair = pair(self.document, ["$code", "$scope"]);
        let [code, scope] = pair.ok_or_else(|| Special::Code.has_wrong_keys())?;
        if (code.kind, scope.kind) != (kind::STRING, kind::DOCUMENT) {
            return Err(Special::Code.has_wrong_value("a string with a document `$scope`"));
        }
        out.extend_from_slice(&super::length(4 + code.value.len() + scope.value.len())?);
        out.extend_from_slice(code.value);
        out.extend_from_slice(scope.value);
        Ok(kind::CODE_WITH_SCOPE)
    }

    /// Converts binary data in the old form, `{"$binary": "…", "$type": "00"}` (EJSON-5).
    fn old_binary(&self, out: &mut Vec<u8>) -> Result<u8> {
        let pair = pair(self.document, ["$binary", "$type"]);
        let [data, subtype] = pair.ok_or_else(|| Special::Binary.has_wrong_keys())?;
        match (text(data), text(subtype)) {
            (Some(data), Some(subtype)) => append_binary(data, subtype, out),
            _ => Err(Special::Binary.has_wrong_value("a string with a string `$type`")),
        }
    }

    /// Converts a regular expression in the old form. All other objects with `$regex` are query
    /// operators (EJSON-5).
    fn regex(&self, out: &mut Vec<u8>) -> Result<Option<u8>> {
        let pair = pair(self.document, ["$regex", "$options"]);
        let parts = pair.and_then(|[pattern, options]| Some((text(pattern)?, text(options)?)));
        match parts {
            Some((pattern, options)) => append_regex(pattern, options, out).map(Some),
            None => Ok(None),
        }
    }
}

/// Converts a representation whose value is a string.
fn from_string(special: Special, text: &str, out: &mut Vec<u8>) -> Result<u8> {
    let wrong = |expected| special.has_wrong_value(expected);
    match special {
        Special::ObjectId => {
            let expected = "a string of 24 hexadecimal digits";
            let id = hex::<12>(text.bytes()).ok_or_else(|| wrong(expected))?;
            out.extend_from_slice(&id);
            Ok(kind::OBJECT_ID)
        }
        Special::NumberInt => {
            let expected = "a string with a 32-bit integer";
            let number: i32 = parse_integer(text).ok_or_else(|| wrong(expected))?;
            out.extend_from_slice(&number.to_le_bytes());
            Ok(kind::INT32)
        }
        Special::NumberLong => {
            let expected = "a string with a 64-bit integer";
            let number: i64 = parse_integer(text).ok_or_else(|| wrong(expected))?;
            out.extend_from_slice(&number.to_le_bytes());
            Ok(kind::INT64)
        }
        Special::NumberDouble => {
            let expected = "a string with a double, `Infinity`, `-Infinity` or `NaN`";
            let number = parse_double(text).ok_or_else(|| wrong(expected))?;
            out.extend_from_slice(&number.to_le_bytes());
            Ok(kind::DOUBLE)
        }
        Special::NumberDecimal => {
            let number = parse_decimal128(text).map_err(Error::extended_json)?;
            out.extend_from_slice(&number.bytes());
            Ok(kind::DECIMAL128)
        }
        Special::Uuid => {
            let expected = "a string with a UUID of 8, 4, 4, 4 and 12 hexadecimal digits";
            let id = uuid(text).ok_or_else(|| wrong(expected))?;
            append_data(UUID, &id, out)
        }
        Special::Symbol => append_string(kind::SYMBOL, text, out),
        _ => append_string(kind::CODE, text, out),
    }
}

fn append_string(kind: u8, text: &str, out: &mut Vec<u8>) -> Result<u8> {
    out.extend_from_slice(&super::length(text.len() + 1)?);
    out.extend_from_slice(text.as_bytes());
    out.push(0);
    Ok(kind)
}

/// Appends a regular expression. Its options are sorted (BSON-9).
fn append_regex(pattern: &str, options: &str, out: &mut Vec<u8>) -> Result<u8> {
    // BSON-5.
    if pattern.contains('\0') || options.contains('\0') {
        let message = "a regular expression contains a null character";
        return Err(Error::extended_json(message));
    }
    out.extend_from_slice(pattern.as_bytes());
    out.push(0);
    out.extend_from_slice(sorted_options(options).as_bytes());
    out.push(0);
    Ok(kind::REGEX)
}

/// Appends binary data from padded base64 (EJSON-22) and a subtype of one or two digits.
fn append_binary(base64: &str, subtype: &str, out: &mut Vec<u8>) -> Result<u8> {
    let data = STANDARD.decode(base64);
    let data = data.map_err(|_| Error::extended_json("binary data is not padded base64"))?;
    let two_digits = match subtype.len() {
        1 => hex::<1>(b"0".iter().copied().chain(subtype.bytes())),
        _ => hex::<1>(subtype.bytes()),
    };
    let message = "a binary subtype does not have one or two hexadecimal digits";
    let [subtype] = two_digits.ok_or_else(|| Error::extended_json(message))?;
    append_data(subtype, &data, out)
}

fn append_data(subtype: u8, data: &[u8], out: &mut Vec<u8>) -> Result<u8> {
    // The old subtype has a second length (BSON-12).
    let is_old = subtype == OLD_BINARY;
    let total = if is_old { data.len() + 4 } else { data.len() };
    out.extend_from_slice(&super::length(total)?);
    out.push(subtype);
    if is_old {
        out.extend_from_slice(&super::length(data.len())?);
    }
    out.extend_from_slice(data);
    Ok(kind::BINARY)
}

/// Returns the two fields of a document, in the order of `names`; `None` if it has others.
fn pair<'a>(document: &'a [u8], names: [&str; 2]) -> Option<[Element<'a>; 2]> {
    let mut elements = Elements::of_document(document).ok()?;
    let (first, second) = (elements.next().ok()??, elements.next().ok()??);
    if elements.next().ok()?.is_some() {
        return None;
    }
    let names = names.map(str::as_bytes);
    if [first.key, second.key] == names {
        return Some([first, second]);
    }
    ([second.key, first.key] == names).then_some([second, first])
}

/// Returns the text of a string.
fn text<'a>(element: Element<'a>) -> Option<&'a str> {
    let is_string = element.kind == kind::STRING;
    let bytes = is_string.then(|| read::string_bytes(element.value))?;
    read::text(bytes).ok()
}

/// Returns the value of an integer that fits into 32 bits without sign.
fn unsigned(element: Element<'_>) -> Option<u32> {
    match element.kind {
        kind::INT32 => i32::from_le_bytes(read::fixed(element.value).ok()?)
            .try_into()
            .ok(),
        kind::INT64 => i64::from_le_bytes(read::fixed(element.value).ok()?)
            .try_into()
            .ok(),
        _ => None,
    }
}

/// Parses a UUID, with or without hyphens and the prefix of URNs (EJSON-13).
fn uuid(text: &str) -> Option<[u8; 16]> {
    let text = text.strip_prefix("urn:uuid:").unwrap_or(text).as_bytes();
    if text.len() == 32 {
        return hex(text.iter().copied());
    }
    let is_hyphen = |at: usize| [8, 13, 18, 23].contains(&at);
    let hyphens = text.iter().enumerate().filter(|(at, _)| is_hyphen(*at));
    if text.len() != 36 || hyphens.into_iter().any(|(_, &byte)| byte != b'-') {
        return None;
    }
    let digits = text.iter().enumerate().filter(|(at, _)| !is_hyphen(*at));
    hex(digits.map(|(_, &byte)| byte))
}

/// Parses exactly `2 * N` hexadecimal digits of any case (EJSON-3).
fn hex<const N: usize>(digits: impl Iterator<Item = u8>) -> Option<[u8; N]> {
    let mut values = digits.map(|digit| char::from(digit).to_digit(16));
    let mut bytes = [0; N];
    for byte in &mut bytes {
        let (high, low) = (values.next()??, values.next()??);
        *byte = u8::try_from(high * 16 + low).ok()?;
    }
    values.next().is_none().then_some(bytes)
}
