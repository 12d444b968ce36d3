//! Expressions on numbers, and the accumulators of numbers.

use bson::Bson;

use super::operators::{exactly, is_null, list};
use super::{Evaluated, EvaluationContext, Scope, numeric};
use crate::store::error::StoreError;
use crate::store::number;
use crate::store::order::display;

pub(super) fn arithmetic(name: &str, operand: &Bson, scope: &Scope<'_>) -> Evaluated {
    let values = list(operand, scope)?;
    if !matches!(name, "$add" | "$multiply") && values.len() != 2 {
        exactly::<2>(name, operand, scope)?;
    }
    if values.iter().any(is_null) {
        return Ok(Some(Bson::Null));
    }
    let values: Vec<Bson> = values.into_iter().flatten().collect();
    if values.iter().any(|v| matches!(v, Bson::DateTime(_))) {
        return date_sum(name, &values);
    }
    for value in &values {
        numeric(name, Some(value.clone()))?;
    }
    let overflow = || StoreError::new(15, format!("integer overflow in {name}"));
    let fold = |start: i32, step: fn(&Bson, &Bson) -> Option<Bson>| {
        values
            .iter()
            .try_fold(Bson::Int32(start), |sum, value| {
                step(&sum, value).or_else(|| {
                    let both = (number::as_double(&sum)?, number::as_double(value)?);
                    Some(Bson::Double(if start == 0 {
                        both.0 + both.1
                    } else {
                        both.0 * both.1
                    }))
                })
            })
            .ok_or_else(overflow)
            .map(Some)
    };
    let double = |i: usize| number::as_double(&values[i]).unwrap_or(f64::NAN);
    match name {
        "$add" => fold(0, number::add),
        "$multiply" => fold(1, number::multiply),
        "$subtract" => Ok(Some(
            number::subtract(&values[0], &values[1]).ok_or_else(overflow)?,
        )),
        "$divide" if double(1) == 0.0 => Err(StoreError::bad_value("can't $divide by zero")),
        "$divide" => {
            let quotient = double(0) / double(1);
            let decimal = values.iter().any(|v| matches!(v, Bson::Decimal128(_)));
            Ok(Some(if decimal {
                number::decimal(quotient)
            } else {
                Bson::Double(quotient)
            }))
        }
        "$mod" if double(1) == 0.0 => Err(StoreError::new(16610, "can't $mod by zero")),
        "$mod" => Ok(Some(remainder(&values[0], &values[1]))),
        "$log" => logarithm(&values, double(0), double(1)),
        "$atan2" => Ok(Some(like(&values, double(0).atan2(double(1))))),
        _ => {
            let power = double(0).powf(double(1));
            let whole = values
                .iter()
                .all(|v| matches!(v, Bson::Int32(_) | Bson::Int64(_)));
            let small = whole && power.fract() == 0.0 && power.abs() < 9e15;
            let int32 = values.iter().all(|v| matches!(v, Bson::Int32(_)));
            Ok(Some(match (small, int32) {
                (true, true) if power.abs() < 2e9 => Bson::Int32(power as i32),
                (true, _) => Bson::Int64(power as i64),
                _ => Bson::Double(power),
            }))
        }
    }
}

/// Returns a number as a decimal if one of the operands is a decimal, and as a double otherwise.
fn like(values: &[Bson], result: f64) -> Bson {
    match values
        .iter()
        .any(|value| matches!(value, Bson::Decimal128(_)))
    {
        true => number::decimal(result),
        false => Bson::Double(result),
    }
}

fn logarithm(values: &[Bson], x: f64, base: f64) -> Evaluated {
    if x <= 0.0 {
        let shown = display(&values[0]);
        let text = format!("$log's argument must be a positive number, but is {shown}");
        return Err(StoreError::new(28758, text));
    }
    if base <= 0.0 || base == 1.0 {
        let shown = display(&values[1]);
        let text = format!("$log's base must be a positive number not equal to 1, but is {shown}");
        return Err(StoreError::new(28759, text));
    }
    Ok(Some(like(values, x.ln() / base.ln())))
}

pub(super) fn trigonometry(name: &str, operand: &Bson, scope: &Scope<'_>) -> Evaluated {
    let [value] = exactly(name, operand, scope)?;
    let Some(value) = numeric(name, value)? else {
        return Ok(Some(Bson::Null));
    };
    let x = number::as_double(&value).unwrap_or(f64::NAN);
    let (is_valid, range) = match name {
        "$sin" | "$cos" | "$tan" => (!x.is_infinite(), "(-inf,inf)"),
        "$asin" | "$acos" | "$atanh" => (x.is_nan() || x.abs() <= 1.0, "[-1,1]"),
        "$acosh" => (x.is_nan() || x >= 1.0, "[1,inf]"),
        _ => (true, ""),
    };
    if !is_valid {
        let shown = display(&value);
        let text = format!("cannot apply {name} to {shown}, value must be in {range}");
        return Err(StoreError::new(50989, text));
    }
    let result = match name {
        "$sin" => x.sin(),
        "$cos" => x.cos(),
        "$tan" => x.tan(),
        "$asin" => x.asin(),
        "$acos" => x.acos(),
        "$atan" => x.atan(),
        "$sinh" => x.sinh(),
        "$cosh" => x.cosh(),
        "$tanh" => x.tanh(),
        "$asinh" => x.asinh(),
        "$acosh" => x.acosh(),
        "$atanh" => x.atanh(),
        "$degreesToRadians" => x.to_radians(),
        _ => x.to_degrees(),
    };
    Ok(Some(like(std::slice::from_ref(&value), result)))
}

/// Returns the standard deviation of the values that are numbers, or null if there are too few.
fn deviation(name: &str, values: &[Bson]) -> Bson {
    let numbers = values.iter().filter(|value| number::is_number(value));
    let numbers: Vec<f64> = numbers.filter_map(number::as_double).collect();
    let count = numbers.len() as f64;
    let divisor = if name == "$stdDevPop" {
        count
    } else {
        count - 1.0
    };
    if divisor <= 0.0 {
        return Bson::Null;
    }
    let mean = numbers.iter().sum::<f64>() / count;
    let squares: f64 = numbers.iter().map(|x| (x - mean).powi(2)).sum();
    Bson::Double((squares / divisor).sqrt())
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

/// Evaluates `$add` and `$subtract` if an operand is a date. A number is a number of milliseconds.
fn date_sum(name: &str, values: &[Bson]) -> Evaluated {
    let millis = |v: &Bson| match v {
        Bson::DateTime(d) => Some(d.timestamp_millis()),
        other => number::truncated(other),
    };
    let read: Option<Vec<i64>> = values.iter().map(millis).collect();
    let date = |ms: i64| Ok(Some(Bson::DateTime(bson::DateTime::from_millis(ms))));
    match (name, read.as_deref()) {
        ("$add", Some(all)) => date(all.iter().fold(0, |a, b| a.saturating_add(*b))),
        ("$subtract", Some([a, b])) if matches!(values[1], Bson::DateTime(_)) => {
            Ok(Some(Bson::Int64(a.saturating_sub(*b))))
        }
        ("$subtract", Some([a, b])) => date(a.saturating_sub(*b)),
        _ => Err(StoreError::type_mismatch(format!(
            "{name} only supports numeric or date types"
        ))),
    }
}

pub(super) fn function(name: &str, operand: &Bson, scope: &Scope<'_>) -> Evaluated {
    let mut values = list(operand, scope)?.into_iter();
    let Some(value) = numeric(name, values.next().flatten())? else {
        return Ok(Some(Bson::Null));
    };
    let places = values
        .next()
        .flatten()
        .as_ref()
        .and_then(number::as_integer)
        .unwrap_or(0);
    let whole = matches!(value, Bson::Int32(_) | Bson::Int64(_));
    let x = number::as_double(&value).unwrap_or(f64::NAN);
    let result = match name {
        "$abs" if whole => {
            let negative = x < 0.0;
            let flipped = number::multiply(&value, &Bson::Int32(if negative { -1 } else { 1 }));
            return flipped
                .map(Some)
                .ok_or_else(|| StoreError::new(28680, "can't take $abs of long long min"));
        }
        "$abs" => x.abs(),
        "$floor" | "$ceil" | "$round" | "$trunc" if whole && places >= 0 => {
            return Ok(Some(value));
        }
        "$floor" => x.floor(),
        "$ceil" => x.ceil(),
        "$round" | "$trunc" => {
            let scale = 10f64.powi(i32::try_from(places.clamp(-20, 100)).unwrap_or(0));
            let scaled = x * scale;
            (if name == "$round" {
                scaled.round_ties_even()
            } else {
                scaled.trunc()
            }) / scale
        }
        "$sqrt" if x < 0.0 => {
            return Err(StoreError::new(
                28714,
                "$sqrt's argument must be greater than or equal to 0",
            ));
        }
        "$sqrt" => x.sqrt(),
        "$ln" | "$log10" if x <= 0.0 => {
            let shown = display(&value);
            let text = format!("{name}'s argument must be a positive number, but is {shown}");
            return Err(StoreError::new(
                if name == "$ln" { 28766 } else { 28761 },
                text,
            ));
        }
        "$log10" => x.log10(),
        "$exp" => x.exp(),
        _ => x.ln(),
    };
    Ok(Some(match value {
        Bson::Decimal128(_) => number::decimal(result),
        Bson::Int32(_) if matches!(name, "$round" | "$trunc") => Bson::Int32(result as i32),
        Bson::Int64(_) if matches!(name, "$round" | "$trunc") => Bson::Int64(result as i64),
        _ => Bson::Double(result),
    }))
}

/// Returns the `$sum`, `$avg`, `$min`, `$max` or standard deviation of values. All but `$min` and
/// `$max` ignore values that are not numbers.
pub(crate) fn summary(name: &str, values: &[Bson], context: &EvaluationContext) -> Bson {
    let present = values
        .iter()
        .filter(|v| !matches!(v, Bson::Null | Bson::Undefined));
    match name {
        "$stdDevPop" | "$stdDevSamp" => deviation(name, values),
        "$min" => present
            .min_by(|a, b| context.compare(a, b))
            .cloned()
            .unwrap_or(Bson::Null),
        "$max" => present
            .max_by(|a, b| context.compare(a, b))
            .cloned()
            .unwrap_or(Bson::Null),
        _ => {
            let numbers: Vec<&Bson> = values.iter().filter(|v| number::is_number(v)).collect();
            let sum = numbers.iter().fold(Bson::Int32(0), |sum, value| {
                number::add(&sum, value).unwrap_or_else(|| {
                    let double = |v: &Bson| number::as_double(v).unwrap_or(0.0);
                    Bson::Double(double(&sum) + double(value))
                })
            });
            match (name, &sum, numbers.len()) {
                ("$sum", _, _) => sum,
                (_, _, 0) => Bson::Null,
                (_, Bson::Decimal128(_), n) => {
                    number::decimal(number::as_double(&sum).unwrap_or(0.0) / n as f64)
                }
                (_, _, n) => Bson::Double(number::as_double(&sum).unwrap_or(0.0) / n as f64),
            }
        }
    }
}
