//! Conversions between types, truth values and parts of dates.

use bson::{Bson, DateTime};

use super::calendar::Local;
use super::format::{self, ISO_FORMAT, Zone};

use crate::store::decimal::Decimal;
use crate::store::error::StoreError;
use crate::store::number;
use crate::store::order::type_name;

/// True for every value except false, zero, null and undefined.
pub(crate) fn truthy(value: &Bson) -> bool {
    match value {
        Bson::Boolean(b) => *b,
        Bson::Null | Bson::Undefined => false,
        other if number::is_number(other) => !number::is_zero(other),
        _ => true,
    }
}

/// Converts a value to a type, as `$convert` does.
pub(super) fn convert(value: &Bson, to: &str) -> Result<Bson, StoreError> {
    let unsupported = || {
        let from = type_name(value);
        let text =
            format!("Unsupported conversion from {from} to {to} in $convert with no onError value");
        StoreError::new(241, text)
    };
    let failed = |text: &str| no_number(text, to);
    let overflow = || out_of_range(value).unwrap_or_else(unsupported);
    match (to, value) {
        ("bool", other) => Ok(Bson::Boolean(truthy(other))),
        ("string", other) => text(other).map(Bson::String).ok_or_else(unsupported),
        ("int" | "long" | "double" | "decimal", Bson::Boolean(b)) => {
            convert(&Bson::Int32(i32::from(*b)), to)
        }
        ("long" | "double" | "decimal", Bson::DateTime(date)) => {
            convert(&Bson::Int64(date.timestamp_millis()), to)
        }
        ("int", Bson::String(s)) => s.parse().map(Bson::Int32).map_err(|_| failed(s)),
        ("long", Bson::String(s)) => s.parse().map(Bson::Int64).map_err(|_| failed(s)),
        ("double", Bson::String(s)) => double(s).map(Bson::Double).ok_or_else(|| failed(s)),
        ("decimal", Bson::String(s)) => Decimal::parse(s)
            .map(|number| number.to_bson())
            .ok_or_else(|| failed(s)),
        ("int", other) => number::truncated(other)
            .and_then(|n| i32::try_from(n).ok())
            .map(Bson::Int32)
            .ok_or_else(overflow),
        ("long", other) => number::truncated(other)
            .map(Bson::Int64)
            .ok_or_else(overflow),
        ("double", other) => number::as_double(other)
            .map(Bson::Double)
            .ok_or_else(unsupported),
        ("decimal", other) => Decimal::of(other)
            .map(|number| number.to_bson())
            .ok_or_else(unsupported),
        ("date", Bson::DateTime(_)) => Ok(value.clone()),
        ("date", Bson::ObjectId(id)) => Ok(Bson::DateTime(id.timestamp())),
        ("date", Bson::Timestamp(t)) => Ok(Bson::DateTime(DateTime::from_millis(
            i64::from(t.time) * 1000,
        ))),
        ("date", Bson::String(s)) => format::parse(s, None, Zone::UTC, false)
            .map(|millis| Bson::DateTime(DateTime::from_millis(millis))),
        // Unlike the other numbers, an int is no number of milliseconds.
        ("date", Bson::Int32(_)) => Err(unsupported()),
        ("date", other) => number::truncated(other)
            .map(|ms| Bson::DateTime(DateTime::from_millis(ms)))
            .ok_or_else(overflow),
        ("objectId", Bson::ObjectId(_)) => Ok(value.clone()),
        ("objectId", Bson::String(s)) => bson::oid::ObjectId::parse_str(s)
            .map(Bson::ObjectId)
            .map_err(|_| no_object_id(s)),
        _ => Err(unsupported()),
    }
}

/// Returns the error of a number that is too large for an integer, or no number of finite size.
/// Returns `None` for a value that is no number.
fn out_of_range(value: &Bson) -> Option<StoreError> {
    if !number::is_number(value) {
        return None;
    }
    let number = number::as_double(value).unwrap_or_default();
    let reason = match number {
        _ if number.is_nan() => {
            "Attempt to convert NaN value to integer type in $convert with no onError value"
                .to_owned()
        }
        _ if number.is_infinite() => {
            "Attempt to convert infinity value to integer type in $convert with no onError value"
                .to_owned()
        }
        _ => format!(
            "Conversion would overflow target type in $convert with no onError value: {}",
            text(value).unwrap_or_default()
        ),
    };
    Some(StoreError::new(241, reason))
}

/// Returns the error of a text that is not a number of the type `to`.
fn no_number(given: &str, to: &str) -> StoreError {
    if given.starts_with("0x") {
        let text = format!("Illegal hexadecimal input in $convert with no onError value: {given}");
        return StoreError::new(241, text);
    }
    let magnitude = given.strip_prefix(['+', '-']).unwrap_or(given);
    let after_point = magnitude.strip_prefix('.').unwrap_or(magnitude);
    let reason = match to {
        "decimal" => "Failed to parse string to decimal",
        "double" if given.is_empty() => "Empty string",
        "double" if given.starts_with(|c: char| c.is_ascii_whitespace()) => "Leading whitespace",
        "double" if !after_point.starts_with(|c: char| c.is_ascii_digit()) => {
            "Did not consume any digits"
        }
        "double" if given.parse::<f64>().is_ok() => "Out of range",
        "double" => "Did not consume whole string.",
        _ if magnitude.is_empty() => "No digits",
        _ if magnitude.bytes().all(|byte| byte.is_ascii_digit()) => "Overflow",
        _ => "Did not consume whole string.",
    };
    let text =
        format!("Failed to parse number '{given}' in $convert with no onError value: {reason}");
    StoreError::new(241, text)
}

/// Returns the error of a text that is not an ObjectId.
fn no_object_id(given: &str) -> StoreError {
    let reason = match given.chars().find(|digit| !digit.is_ascii_hexdigit()) {
        Some(digit) if given.len() == 24 => {
            format!("Invalid character found in hex string: {digit}")
        }
        _ => {
            let length = given.len();
            format!("Invalid string length for parsing to OID, expected 24 but found {length}")
        }
    };
    let text =
        format!("Failed to parse objectId '{given}' in $convert with no onError value: {reason}");
    StoreError::new(241, text)
}

/// Parses a double, in decimal or in hexadecimal digits. A number that is too large is refused.
fn double(text: &str) -> Option<f64> {
    let (is_negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let hexadecimal = digits
        .get(..2)
        .filter(|start| start.eq_ignore_ascii_case("0x"));
    if hexadecimal.is_none() {
        let value: f64 = text.parse().ok()?;
        let names_infinity = digits.starts_with(['i', 'I']);
        return (names_infinity || !value.is_infinite()).then_some(value);
    }
    // The server refuses this start, but only this one.
    if text.starts_with("0x") {
        return None;
    }
    let digits = digits.get(2..).filter(|digits| !digits.is_empty())?;
    let mut value = 0.0;
    for digit in digits.chars() {
        value = value * 16.0 + f64::from(digit.to_digit(16)?);
    }
    (!f64::is_infinite(value)).then_some(if is_negative { -value } else { value })
}

/// Returns the text of a string, symbol, number, boolean, ObjectId or date, and `None` for other
/// values.
fn text(value: &Bson) -> Option<String> {
    Some(match value {
        Bson::String(s) | Bson::Symbol(s) => s.clone(),
        Bson::Int32(n) => n.to_string(),
        Bson::Int64(n) => n.to_string(),
        Bson::Double(n) => text_of_double(*n),
        Bson::Decimal128(n) => n.to_string(),
        Bson::Boolean(b) => b.to_string(),
        Bson::ObjectId(id) => id.to_hex(),
        Bson::DateTime(d) => {
            let local = Local::of(d.timestamp_millis());
            format::print(ISO_FORMAT, &local, Zone::UTC).ok()?
        }
        _ => return None,
    })
}

/// Returns the text of an operand that an operator on strings converts, and `None` for a value that
/// it refuses. Null is an empty text.
pub(super) fn text_of_operand(value: &Bson) -> Option<String> {
    match value {
        Bson::Null | Bson::Undefined => Some(String::new()),
        Bson::Boolean(_) | Bson::ObjectId(_) => None,
        Bson::JavaScriptCode(code) => Some(code.clone()),
        Bson::Timestamp(t) => {
            let local = Local::of(i64::from(t.time) * 1000);
            let month = format::print("%b", &local, Zone::UTC).ok()?;
            let time = format::print("%H:%M:%S", &local, Zone::UTC).ok()?;
            let day = local.part("$dayOfMonth");
            Some(format!("{month} {day:>2} {time}:{:x}", t.increment))
        }
        other => text(other),
    }
}

/// The number of significant digits of a double in a text.
const DIGITS_OF_DOUBLE: usize = 16;

/// Returns the text of a double with 16 significant digits, without trailing zeros. Large and small
/// numbers have an exponent.
fn text_of_double(number: f64) -> String {
    if number.is_nan() {
        return "NaN".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 {
            "Infinity"
        } else {
            "-Infinity"
        }
        .to_owned();
    }
    let scientific = format!("{number:.0$e}", DIGITS_OF_DOUBLE - 1);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let without_zeros = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    let places = 15_i32.saturating_sub(exponent);
    match usize::try_from(places) {
        Ok(places) if exponent >= -4 => without_zeros(&format!("{number:.places$}")),
        _ => {
            let sign = if exponent < 0 { '-' } else { '+' };
            let mantissa = without_zeros(mantissa);
            format!("{mantissa}e{sign}{:02}", exponent.unsigned_abs())
        }
    }
}
