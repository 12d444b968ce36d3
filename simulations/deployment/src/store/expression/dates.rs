//! Expressions on dates.

use bson::{Bson, DateTime, Document, doc};

use super::arguments::Arguments;
use super::calendar::{self, Local};
use super::format::{self, Zone};
use super::operators::is_null;
use super::{Evaluated, Scope, evaluate as eval};
use crate::store::error::StoreError;
use crate::store::number;
use crate::store::order::{display, type_name};

type Answer<T> = Result<T, StoreError>;

/// Evaluates the operators on dates whose operand is a document of named arguments, and those on
/// timestamps.
pub(super) fn dates(name: &str, operand: &Bson, scope: &Scope<'_>) -> Evaluated {
    if matches!(name, "$tsSecond" | "$tsIncrement") {
        return part_of_timestamp(name, operand, scope);
    }
    let arguments = Arguments::new(name, operand, scope)?;
    match name {
        "$dateToString" => to_string(&arguments),
        "$dateToParts" => to_parts(&arguments),
        "$dateFromString" => from_string(&arguments),
        "$dateFromParts" => from_parts(&arguments),
        "$dateDiff" => difference(&arguments),
        "$dateTrunc" => truncate(&arguments),
        _ => add(&arguments),
    }
}

fn part_of_timestamp(name: &str, operand: &Bson, scope: &Scope<'_>) -> Evaluated {
    let operand = match operand {
        Bson::Array(items) if items.len() == 1 => &items[0],
        other => other,
    };
    match eval(operand, scope)? {
        Some(Bson::Timestamp(t)) => Ok(Some(Bson::Int64(i64::from(match name {
            "$tsSecond" => t.time,
            _ => t.increment,
        })))),
        value if is_null(&value) => Ok(Some(Bson::Null)),
        other => {
            let shown = other.map(|other| display(&other)).unwrap_or_default();
            let code = match name {
                "$tsSecond" => 5_687_301,
                _ => 5_687_302,
            };
            let text = format!("Argument to {name} must be a timestamp, but is {shown}");
            Err(StoreError::new(code, text))
        }
    }
}

/// Returns the milliseconds of a date, a timestamp or an ObjectId.
pub(super) fn millis(value: &Bson) -> Answer<i64> {
    match value {
        Bson::DateTime(date) => Ok(date.timestamp_millis()),
        Bson::Timestamp(t) => Ok(i64::from(t.time) * 1000),
        Bson::ObjectId(id) => Ok(id.timestamp().timestamp_millis()),
        other => Err(StoreError::new(
            16006,
            format!("can't convert from BSON type {} to Date", type_name(other)),
        )),
    }
}

/// Evaluates an operator such as `$year`, whose operand is a date or a document with `date` and
/// `timezone`.
pub(super) fn part(name: &str, operand: &Bson, scope: &Scope<'_>) -> Evaluated {
    let is_named = operand
        .as_document()
        .is_some_and(|d| d.contains_key("date"));
    let (value, zone) = if is_named {
        let arguments = Arguments::new(name, operand, scope)?;
        (arguments.value("date")?, arguments.zone()?)
    } else {
        let operand = match operand {
            Bson::Array(items) if items.len() == 1 => &items[0],
            Bson::Array(_) => {
                let text = format!("{name} accepts exactly one argument if given an array");
                return Err(StoreError::new(40536, text));
            }
            other => other,
        };
        (eval(operand, scope)?, Some(Zone::UTC))
    };
    let (Some(value), Some(zone)) = (value.filter(|v| !is_null(&Some(v.clone()))), zone) else {
        return Ok(Some(Bson::Null));
    };
    let local = Local::of(zone.to_local(millis(&value)?));
    let part = local.part(name);
    Ok(Some(match i32::try_from(part) {
        Ok(part) if name != "$isoWeekYear" => Bson::Int32(part),
        _ => Bson::Int64(part),
    }))
}

fn to_string(arguments: &Arguments<'_>) -> Evaluated {
    let (date, zone) = (arguments.required("date")?, arguments.zone()?);
    let given = arguments.text("format", 18533)?;
    let Some(date) = date else {
        return on_null(arguments);
    };
    let Some(zone) = zone.filter(|_| given.is_some() || !arguments.has("format")) else {
        return Ok(Some(Bson::Null));
    };
    let local = Local::of(zone.to_local(millis(&date)?));
    let default = match arguments.has("timezone") && zone.is_offset() {
        true => "%Y-%m-%dT%H:%M:%S.%L",
        false => format::ISO_FORMAT,
    };
    let text = format::print(given.as_deref().unwrap_or(default), &local, zone)?;
    Ok(Some(Bson::String(text)))
}

fn on_null(arguments: &Arguments<'_>) -> Evaluated {
    let given = arguments
        .operand
        .as_document()
        .and_then(|d| d.get("onNull"));
    given.map_or(Ok(Some(Bson::Null)), |given| eval(given, arguments.scope))
}

fn to_parts(arguments: &Arguments<'_>) -> Evaluated {
    let (date, zone) = (arguments.required("date")?, arguments.zone()?);
    let is_iso = match arguments.value("iso8601")? {
        None if arguments.has("iso8601") => return Ok(Some(Bson::Null)),
        None => false,
        Some(Bson::Boolean(is_iso)) => is_iso,
        Some(other) => {
            let text = format!(
                "iso8601 must evaluate to a bool, found {}",
                type_name(&other)
            );
            return Err(StoreError::new(40521, text));
        }
    };
    let (Some(date), Some(zone)) = (date, zone) else {
        return Ok(Some(Bson::Null));
    };
    let local = Local::of(zone.to_local(millis(&date)?));
    let part = |name: &str| i32::try_from(local.part(name)).unwrap_or(i32::MAX);
    let mut parts = match is_iso {
        true => doc! {
            "isoWeekYear": part("$isoWeekYear"), "isoWeek": part("$isoWeek"),
            "isoDayOfWeek": part("$isoDayOfWeek"),
        },
        false => doc! {
            "year": part("$year"), "month": part("$month"), "day": part("$dayOfMonth"),
        },
    };
    parts.extend(doc! {
        "hour": part("$hour"), "minute": part("$minute"), "second": part("$second"),
        "millisecond": part("$millisecond"),
    });
    Ok(Some(Bson::Document(parts)))
}

fn from_string(arguments: &Arguments<'_>) -> Evaluated {
    let zone = arguments.zone()?;
    let format = arguments.text("format", 40684)?;
    let Some(given) = arguments.required("dateString")? else {
        return on_null(arguments);
    };
    let Some(zone) = zone.filter(|_| format.is_some() || !arguments.has("format")) else {
        return Ok(Some(Bson::Null));
    };
    let parsed = match &given {
        Bson::String(text) => {
            format::parse(text, format.as_deref(), zone, arguments.has("timezone"))
        }
        other => {
            let text = format!(
                "$dateFromString requires that 'dateString' be a string, found: {} with value {}",
                type_name(other),
                display(other)
            );
            Err(StoreError::new(241, text))
        }
    };
    let on_error = arguments
        .operand
        .as_document()
        .and_then(|d| d.get("onError"));
    match (parsed, on_error) {
        (Ok(millis), _) => date(millis),
        (Err(error), Some(fallback)) if error.code == 241 => eval(fallback, arguments.scope),
        (Err(error), _) => Err(error),
    }
}

fn date(millis: i64) -> Evaluated {
    Ok(Some(Bson::DateTime(DateTime::from_millis(millis))))
}

/// Checks that the arguments of `$dateFromParts` are of one calendar.
pub(super) fn check_parts(given: &Document) -> Answer<()> {
    let is_iso = given.contains_key("isoWeekYear");
    if !is_iso && !given.contains_key("year") {
        let text = "$dateFromParts requires either 'year' or 'isoWeekYear' to be present";
        return Err(StoreError::new(40516, text));
    }
    let mixed: &[&str] = match is_iso {
        true => &["year", "month", "day"],
        false => &["isoWeek", "isoDayOfWeek"],
    };
    if !mixed.iter().any(|name| given.contains_key(name)) {
        return Ok(());
    }
    let text = "$dateFromParts does not allow mixing natural dates with ISO dates";
    let is_natural = given.contains_key("year");
    Err(StoreError::new(
        if is_natural { 40489 } else { 40525 },
        text,
    ))
}

fn from_parts(arguments: &Arguments<'_>) -> Evaluated {
    let is_iso = arguments.has("isoWeekYear");
    let mut missing = false;
    let mut read = |name: &str, default: i64| -> Answer<i64> {
        if !arguments.has(name) {
            return Ok(default);
        }
        let Some(value) = arguments.value(name)? else {
            missing = true;
            return Ok(default);
        };
        let part = number::as_integer(&value).ok_or_else(|| {
            let text = format!(
                "'{name}' must evaluate to an integer, found {} with value {}",
                type_name(&value),
                display(&value)
            );
            StoreError::new(40515, text)
        })?;
        let (least, most, code) = match name {
            "year" | "isoWeekYear" => (1, 9999, 40523),
            _ => (-32768, 32767, 31034),
        };
        if name == "second" || name == "millisecond" || (least..=most).contains(&part) {
            return Ok(part);
        }
        let text = format!(
            "'{name}' must evaluate to an integer in the range {least} to {most}, found {part}"
        );
        Err(StoreError::new(code, text))
    };
    let days = match is_iso {
        true => calendar::days_of_iso(
            read("isoWeekYear", 1970)?,
            read("isoWeek", 1)?,
            read("isoDayOfWeek", 1)?,
        ),
        false => {
            let (year, month) = (read("year", 1970)?, read("month", 1)?);
            calendar::days_of_month(year, month) + read("day", 1)? - 1
        }
    };
    let seconds = (read("hour", 0)? * 60 + read("minute", 0)?) * 60;
    let seconds = seconds.saturating_add(read("second", 0)?);
    let millis = seconds
        .saturating_mul(1000)
        .saturating_add(read("millisecond", 0)?);
    match arguments.zone()? {
        Some(zone) if !missing => date(zone.to_utc((days * calendar::DAY).saturating_add(millis))),
        _ => Ok(Some(Bson::Null)),
    }
}

/// Evaluates `$dateAdd` and `$dateSubtract`.
fn add(arguments: &Arguments<'_>) -> Evaluated {
    let operator = arguments.operator;
    if !["startDate", "unit", "amount"]
        .iter()
        .all(|name| arguments.has(name))
    {
        let text = format!("{operator} requires startDate, unit, and amount to be present");
        return Err(StoreError::new(5_166_402, text));
    }
    let (start, unit) = (arguments.value("startDate")?, arguments.unit(5_166_404)?);
    let (amount, zone) = (arguments.value("amount")?, arguments.zone()?);
    let (Some(start), Some(unit), Some(amount), Some(zone)) = (start, unit, amount, zone) else {
        return Ok(Some(Bson::Null));
    };
    let start = millis(&start).map_err(|_| {
        let text = format!("{operator} requires startDate to be convertible to a date");
        StoreError::new(5_166_403, text)
    })?;
    let given = number::as_integer(&amount).ok_or_else(|| {
        let text = format!("{operator} expects integer amount of time units");
        StoreError::new(5_166_405, text)
    })?;
    let amount = match operator {
        "$dateAdd" => Some(given),
        _ => given.checked_neg(),
    };
    let moved = amount.and_then(|amount| calendar::add(zone.to_local(start), unit, amount));
    let moved = moved.ok_or_else(|| {
        let text = format!("invalid {operator} 'amount' parameter value: {given} {unit:?}");
        StoreError::new(5_976_500, text)
    })?;
    date(zone.to_utc(moved))
}

fn difference(arguments: &Arguments<'_>) -> Evaluated {
    for (name, code) in [
        ("startDate", 5_166_303),
        ("endDate", 5_166_304),
        ("unit", 5_166_305),
    ] {
        if !arguments.has(name) {
            let text = format!("Missing '{name}' parameter to $dateDiff");
            return Err(StoreError::new(code, text));
        }
    }
    let (start, end) = (arguments.value("startDate")?, arguments.value("endDate")?);
    let (unit, zone) = (arguments.unit(5_439_013)?, arguments.zone()?);
    let (Some(start), Some(end), Some(unit), Some(zone)) = (start, end, unit, zone) else {
        return Ok(Some(Bson::Null));
    };
    let Some(first_day) = arguments.start_of_week()? else {
        return Ok(Some(Bson::Null));
    };
    let bin = |value: &Bson| -> Answer<i64> {
        let millis = millis(value).map_err(|_| {
            let kind = type_name(value);
            let text = format!("$dateDiff requires dates, but found a {kind}");
            StoreError::new(5_166_307, text)
        })?;
        Ok(calendar::bin(zone.to_local(millis), unit, 1, first_day))
    };
    Ok(Some(Bson::Int64(bin(&end)?.saturating_sub(bin(&start)?))))
}

fn truncate(arguments: &Arguments<'_>) -> Evaluated {
    for (name, code) in [("date", 5_439_009), ("unit", 5_439_010)] {
        if !arguments.has(name) {
            let text = format!("Missing '{name}' parameter to $dateTrunc");
            return Err(StoreError::new(code, text));
        }
    }
    let size = match arguments.value("binSize")? {
        None if arguments.has("binSize") => return Ok(Some(Bson::Null)),
        None => 1,
        Some(size) => match number::as_integer(&size) {
            Some(size) if size > 0 => size,
            Some(_) => {
                let text = "$dateTrunc requires 'binSize' to be greater than 0";
                return Err(StoreError::new(5_439_018, text));
            }
            None => {
                let text = "$dateTrunc requires 'binSize' to be a 64-bit integer";
                return Err(StoreError::new(5_439_017, text));
            }
        },
    };
    let (given, unit) = (arguments.value("date")?, arguments.unit(5_439_013)?);
    let (zone, first_day) = (arguments.zone()?, arguments.start_of_week()?);
    let (Some(given), Some(unit), Some(zone), Some(first_day)) = (given, unit, zone, first_day)
    else {
        return Ok(Some(Bson::Null));
    };
    let millis = millis(&given).map_err(|_| {
        let text = "$dateTrunc requires 'date' to be a date";
        StoreError::new(5_439_012, text)
    })?;
    let bin = calendar::bin(zone.to_local(millis), unit, size, first_day);
    let start = calendar::start_of(bin, unit, size, first_day);
    let start = start.ok_or_else(|| StoreError::new(5_439_005, "'binSize' is too large"))?;
    date(zone.to_utc(start))
}
