//! Conversions between types, truth values and parts of dates.

use bson::{Bson, DateTime};

use super::calendar::Local;
use super::format::{self, ISO_FORMAT, Zone};

use crate::store::error::StoreError;
use crate::store::number;
use crate::store::order::type_name;

/// True for every value except false, zero, null and undefined.
pub(crate) fn truthy(value: &Bson) -> bool {
    match value {
        Bson::Boolean(b) => *b,
        Bson::Null | Bson::Undefined => false,
        other if number::is_number(other) => number::as_double(other) != Some(0.0),
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
    let failed = |text: &str| {
        StoreError::new(
            241,
            format!("Failed to parse number '{text}' in $convert with no onError value"),
        )
    };
    match (to, value) {
        ("bool", other) => Ok(Bson::Boolean(truthy(other))),
        ("string", other) => text(other).map(Bson::String).ok_or_else(unsupported),
        ("int" | "long" | "double" | "decimal", Bson::Boolean(b)) => {
            convert(&Bson::Int32(i32::from(*b)), to)
        }
        ("int", Bson::String(s)) => s.parse().map(Bson::Int32).map_err(|_| failed(s)),
        ("long", Bson::String(s)) => s.parse().map(Bson::Int64).map_err(|_| failed(s)),
        ("double", Bson::String(s)) => s.parse().map(Bson::Double).map_err(|_| failed(s)),
        ("decimal", Bson::String(s)) => s.parse().map(Bson::Decimal128).map_err(|_| failed(s)),
        ("long", Bson::DateTime(d)) => Ok(Bson::Int64(d.timestamp_millis())),
        ("double", Bson::DateTime(d)) => Ok(Bson::Double(d.timestamp_millis() as f64)),
        ("int", other) => number::truncated(other)
            .and_then(|n| i32::try_from(n).ok())
            .map(Bson::Int32)
            .ok_or_else(unsupported),
        ("long", other) => number::truncated(other)
            .map(Bson::Int64)
            .ok_or_else(unsupported),
        ("double", other) => number::as_double(other)
            .map(Bson::Double)
            .ok_or_else(unsupported),
        ("decimal", Bson::Decimal128(_)) => Ok(value.clone()),
        ("decimal", Bson::Double(n)) => Ok(number::decimal(*n)),
        ("decimal", Bson::Int32(_) | Bson::Int64(_)) => {
            number::add(&number::decimal(0.0), value).ok_or_else(unsupported)
        }
        ("date", Bson::DateTime(_)) => Ok(value.clone()),
        ("date", Bson::ObjectId(id)) => Ok(Bson::DateTime(id.timestamp())),
        ("date", Bson::Timestamp(t)) => Ok(Bson::DateTime(DateTime::from_millis(
            i64::from(t.time) * 1000,
        ))),
        ("date", Bson::String(s)) => format::parse(s, None, Zone::UTC, false)
            .map(|millis| Bson::DateTime(DateTime::from_millis(millis))),
        ("date", other) => number::truncated(other)
            .map(|ms| Bson::DateTime(DateTime::from_millis(ms)))
            .ok_or_else(unsupported),
        ("objectId", Bson::ObjectId(_)) => Ok(value.clone()),
        ("objectId", Bson::String(s)) => bson::oid::ObjectId::parse_str(s)
            .map(Bson::ObjectId)
            .map_err(|_| failed(s)),
        _ => Err(unsupported()),
    }
}

/// Returns the text of a string, symbol, number, boolean, ObjectId or date, and `None` for other
/// values.
pub(super) fn text(value: &Bson) -> Option<String> {
    Some(match value {
        Bson::String(s) | Bson::Symbol(s) => s.clone(),
        Bson::Int32(n) => n.to_string(),
        Bson::Int64(n) => n.to_string(),
        Bson::Double(n) => n.to_string(),
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
