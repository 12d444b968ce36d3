//! Expressions that compute with several numbers.

use bson::{Bson, DateTime};

use super::operators::{exactly, is_null, list, null_if_missing};
use super::sets::kind_of;
use super::{Evaluated, Scope};
use crate::store::decimal::Decimal;
use crate::store::error::StoreError;
use crate::store::order::{display, type_name};
use crate::store::{Answer, number};

/// The steps of an operation on decimals.
pub(super) const DECIMAL: u64 = 16;

/// The steps of a logarithm, a power or a root of a decimal.
pub(super) const SERIES: u64 = 10_000;

/// The steps of a quotient or a remainder of decimals.
const QUOTIENT: u64 = 200;

/// Counts the steps of an operation if it computes with decimals. Returns whether it does.
pub(super) fn charge<'a>(
    values: impl IntoIterator<Item = &'a Bson>,
    steps: u64,
    scope: &Scope<'_>,
) -> Answer<bool> {
    let is_decimal = values.into_iter().any(number::is_decimal);
    scope
        .context
        .budget
        .step(if is_decimal { steps } else { 0 })?;
    Ok(is_decimal)
}

/// Returns a number as a decimal.
pub(super) fn decimal(number: &Bson) -> Decimal {
    Decimal::of(number).unwrap_or(Decimal::NotANumber)
}

pub(super) fn arithmetic(name: &str, operand: &Bson, scope: &Scope<'_>) -> Evaluated {
    if matches!(name, "$add" | "$multiply") {
        return sum(name, operand, scope);
    }
    let [a, b] = exactly(name, operand, scope)?;
    // The first operand is checked before the second one is looked at.
    if name == "$atan2" && !is_null(&a) {
        numeric_operand(name, a.as_ref())?;
    }
    if is_null(&a) || is_null(&b) {
        return Ok(Some(Bson::Null));
    }
    let (a, b) = (null_if_missing(a), null_if_missing(b));
    if name == "$subtract" && matches!(a, Bson::DateTime(_)) {
        return date_difference(&a, &b);
    }
    if !number::is_number(&a) || !number::is_number(&b) {
        return Err(wrong_operands(name, &a, &b));
    }
    let steps = match name {
        "$log" | "$pow" => SERIES,
        "$divide" | "$mod" => QUOTIENT,
        _ => DECIMAL,
    };
    let is_decimal = charge([&a, &b], steps, scope)?;
    let double = |value: &Bson| number::as_double(value).unwrap_or(f64::NAN);
    match name {
        "$subtract" => Ok(Some(number::subtract(&a, &b).unwrap_or_else(|| {
            // A difference that is no int64 is a double.
            Bson::Double(double(&a) - double(&b))
        }))),
        "$divide" if number::is_zero(&b) => Err(StoreError::bad_value("can't $divide by zero")),
        "$divide" if is_decimal => Ok(Some(decimal(&a).divide(&decimal(&b)).to_bson())),
        "$divide" => Ok(Some(Bson::Double(double(&a) / double(&b)))),
        "$mod" if number::is_zero(&b) => {
            let code = if is_decimal { 5_733_415 } else { 16610 };
            Err(StoreError::new(code, "can't $mod by zero"))
        }
        "$mod" if is_decimal => Ok(Some(decimal(&a).remainder(&decimal(&b)).to_bson())),
        "$mod" => Ok(Some(remainder(&a, &b))),
        "$log" => logarithm(&a, &b, is_decimal),
        "$atan2" => {
            let angle = double(&a).atan2(double(&b));
            Ok(Some(match is_decimal {
                true => number::decimal(angle),
                false => Bson::Double(angle),
            }))
        }
        _ => power(&a, &b, is_decimal),
    }
}

/// Evaluates `$add` and `$multiply`. An operand that is null or missing decides the result, unless
/// a wrong operand is before it.
fn sum(name: &str, operand: &Bson, scope: &Scope<'_>) -> Evaluated {
    let values = list(operand, scope)?;
    let (mut total, mut has_date) = (Bson::Int32(i32::from(name == "$multiply")), false);
    for value in &values {
        let value = match value {
            value if is_null(value) => return Ok(Some(Bson::Null)),
            Some(Bson::DateTime(_)) if has_date => {
                let text = "only one date allowed in an $add expression";
                return Err(StoreError::new(16612, text));
            }
            Some(Bson::DateTime(date)) if name == "$add" => {
                has_date = true;
                &Bson::Int64(date.timestamp_millis())
            }
            value => numeric_operand(name, value.as_ref())?,
        };
        charge([&total, value], DECIMAL, scope)?;
        let both = |value: &Bson| number::as_double(value).unwrap_or(f64::NAN);
        // A result that is no int64 is a double.
        total = match name {
            "$add" => number::add(&total, value)
                .unwrap_or_else(|| Bson::Double(both(&total) + both(value))),
            _ => number::multiply(&total, value)
                .unwrap_or_else(|| Bson::Double(both(&total) * both(value))),
        };
    }
    match has_date {
        true => date_of(rounded(&total), name),
        false => Ok(Some(total)),
    }
}

/// Returns a number as an integer, rounded to the nearest.
fn rounded(value: &Bson) -> Option<i64> {
    match value {
        Bson::Int32(_) | Bson::Int64(_) => number::as_integer(value),
        other => number::as_integer(&Bson::Double(number::as_double(other)?.round())),
    }
}

fn date_of(millis: Option<i64>, name: &str) -> Evaluated {
    let overflow = || StoreError::new(15, format!("date overflow in {name}"));
    let millis = millis.ok_or_else(overflow)?;
    Ok(Some(Bson::DateTime(DateTime::from_millis(millis))))
}

/// Evaluates `$subtract` for a date. A number is a number of milliseconds.
fn date_difference(date: &Bson, other: &Bson) -> Evaluated {
    let millis = |value: &Bson| match value {
        Bson::DateTime(date) => Some(date.timestamp_millis()),
        other => rounded(other),
    };
    let difference = || millis(date)?.checked_sub(millis(other)?);
    match other {
        Bson::DateTime(_) => {
            let overflow = || StoreError::new(15, "date overflow in $subtract");
            Ok(Some(Bson::Int64(difference().ok_or_else(overflow)?)))
        }
        other if number::is_number(other) => date_of(difference(), "$subtract"),
        other => Err(wrong_operands("$subtract", date, other)),
    }
}

/// Returns an operand if it is a number.
fn numeric_operand<'a>(name: &str, value: Option<&'a Bson>) -> Answer<&'a Bson> {
    value
        .filter(|value| number::is_number(value))
        .ok_or_else(|| {
            let kind = kind_of(value);
            let (code, wanted) = match name {
                "$add" => (14, "numeric or date types"),
                "$atan2" => (51044, "numeric types"),
                _ => (14, "numeric types"),
            };
            StoreError::new(code, format!("{name} only supports {wanted}, not {kind}"))
        })
}

/// Returns the error for two operands of which one at least is no number.
fn wrong_operands(name: &str, a: &Bson, b: &Bson) -> StoreError {
    let (first, second) = (type_name(a), type_name(b));
    let is_first = !number::is_number(a);
    let wrong = if is_first { first } else { second };
    let both = format!("{name} only supports numeric types, not {first} and {second}");
    let (code, text) = match name {
        "$subtract" => {
            let from = if first == "date" { "Date" } else { first };
            (14, format!("can't $subtract {second} from {from}"))
        }
        "$divide" => (14, both),
        "$mod" => (16611, both),
        "$log" if is_first => (
            28756,
            format!("$log's argument must be numeric, not {wrong}"),
        ),
        "$log" => (28757, format!("$log's base must be numeric, not {wrong}")),
        "$pow" if is_first => (28762, format!("$pow's base must be numeric, not {wrong}")),
        "$pow" => (
            28763,
            format!("$pow's exponent must be numeric, not {wrong}"),
        ),
        _ => (
            51045,
            format!("{name} only supports numeric types, not {wrong}"),
        ),
    };
    StoreError::new(code, text)
}

fn logarithm(argument: &Bson, base: &Bson, is_decimal: bool) -> Evaluated {
    let double = |value: &Bson| number::as_double(value).unwrap_or(f64::NAN);
    if !is_positive(argument) {
        let shown = display(argument);
        let text = format!("$log's argument must be a positive number, but is {shown}");
        return Err(StoreError::new(28758, text));
    }
    if !is_positive(base) || number::compare(base, &Bson::Int32(1)).is_eq() {
        let shown = display(base);
        let text = format!("$log's base must be a positive number not equal to 1, but is {shown}");
        return Err(StoreError::new(28759, text));
    }
    Ok(Some(match is_decimal {
        true => {
            let base = decimal(base).logarithm();
            decimal(argument).logarithm().divide(&base).to_bson()
        }
        false => Bson::Double(double(argument).ln() / double(base).ln()),
    }))
}

/// True for a number above zero, and for NaN.
pub(super) fn is_positive(value: &Bson) -> bool {
    let is_nan = number::as_double(value).is_some_and(f64::is_nan);
    is_nan || number::compare(value, &Bson::Int32(0)).is_gt()
}

fn power(base: &Bson, exponent: &Bson, is_decimal: bool) -> Evaluated {
    let is_negative = number::compare(exponent, &Bson::Int32(0)).is_lt()
        && !number::as_double(exponent).is_some_and(f64::is_nan);
    if number::is_zero(base) && is_negative {
        let text = "$pow cannot take a base of 0 and a negative exponent";
        return Err(StoreError::new(28764, text));
    }
    if is_decimal {
        return Ok(Some(decimal(base).power(&decimal(exponent)).to_bson()));
    }
    let double = |value: &Bson| number::as_double(value).unwrap_or(f64::NAN);
    let as_double = Bson::Double(double(base).powf(double(exponent)));
    let whole = |value: &Bson| match value {
        Bson::Double(_) => None,
        other => number::as_integer(other),
    };
    let (Some(x), Some(y)) = (whole(base), whole(exponent)) else {
        return Ok(Some(as_double));
    };
    let result = match (x, u32::try_from(y)) {
        (1, _) => Some(1),
        (-1, _) => Some(if y % 2 == 0 { 1 } else { -1 }),
        (0, _) => Some(i64::from(y == 0)),
        (_, Ok(y)) => x.checked_pow(y),
        _ => None,
    };
    let are_small = matches!((base, exponent), (Bson::Int32(_), Bson::Int32(_)));
    Ok(Some(
        match result.map(|result| (result, i32::try_from(result))) {
            Some((_, Ok(small))) if are_small => Bson::Int32(small),
            Some((result, _)) => Bson::Int64(result),
            None => as_double,
        },
    ))
}

fn remainder(a: &Bson, b: &Bson) -> Bson {
    let whole = |v: &Bson| number::as_integer(v).unwrap_or(1);
    let double = |v: &Bson| number::as_double(v).unwrap_or(f64::NAN);
    match (a, b) {
        (Bson::Int32(a), Bson::Int32(b)) => Bson::Int32(a.wrapping_rem(*b)),
        (Bson::Int32(_) | Bson::Int64(_), Bson::Int32(_) | Bson::Int64(_)) => {
            Bson::Int64(whole(a).wrapping_rem(whole(b)))
        }
        _ => Bson::Double(double(a) % double(b)),
    }
}
