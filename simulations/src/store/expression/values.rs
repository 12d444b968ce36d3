//! Conversions between types, truth values and parts of dates.

use bson::{Bson, DateTime};

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
        ("date", Bson::String(s)) => DateTime::parse_rfc3339_str(s)
            .map(Bson::DateTime)
            .map_err(|_| failed(s)),
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
        Bson::DateTime(d) => d.try_to_rfc3339_string().ok()?,
        _ => return None,
    })
}

/// Returns the part of a date in UTC that an operator such as `$year` stands for.
pub(super) fn date_part(name: &str, millis: i64) -> i64 {
    const DAY: i64 = 86_400_000;
    let days = millis.div_euclid(DAY);
    let (year, month, day) = civil(days);
    match name {
        "$year" => year,
        "$month" => month,
        "$dayOfMonth" => day,
        "$dayOfWeek" => (days + 4).rem_euclid(7) + 1,
        "$dayOfYear" => days - days_before(year) + 1,
        "$hour" => millis.rem_euclid(DAY) / 3_600_000,
        "$minute" => millis.rem_euclid(3_600_000) / 60_000,
        "$second" => millis.rem_euclid(60_000) / 1000,
        _ => millis.rem_euclid(1000),
    }
}

/// Returns the number of days from 1970-01-01 to the first day of a year.
fn days_before(year: i64) -> i64 {
    let y = year - 1;
    y * 365 + y.div_euclid(4) - y.div_euclid(100) + y.div_euclid(400) - 719_162
}

/// Returns year, month and day for a number of days since 1970-01-01. Takes constant time, because
/// a client can send any date.
fn civil(days: i64) -> (i64, i64, i64) {
    // Days are counted from 0000-03-01, so that the leap day is the last day of its year.
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}
