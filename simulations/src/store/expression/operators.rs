//! Evaluates the operators of expressions.

use bson::Bson;

use super::collections::{arrays, objects, strings};
use super::control::{control, conversion, iterate};
use super::values::{date_part, truthy};
use super::{Evaluated, EvaluationContext, Scope, evaluate as eval, numeric};
use crate::store::error::StoreError;
use crate::store::number;
use crate::store::order::type_name;

/// The operators of expressions.
pub(crate) const KNOWN: &[&str] = &[
    "$literal",
    "$add",
    "$subtract",
    "$multiply",
    "$divide",
    "$mod",
    "$abs",
    "$floor",
    "$ceil",
    "$round",
    "$trunc",
    "$sqrt",
    "$pow",
    "$exp",
    "$ln",
    "$eq",
    "$ne",
    "$gt",
    "$gte",
    "$lt",
    "$lte",
    "$cmp",
    "$and",
    "$or",
    "$not",
    "$cond",
    "$ifNull",
    "$switch",
    "$concat",
    "$toUpper",
    "$toLower",
    "$strLenCP",
    "$strLenBytes",
    "$substrCP",
    "$substr",
    "$substrBytes",
    "$split",
    "$trim",
    "$regexMatch",
    "$size",
    "$arrayElemAt",
    "$first",
    "$last",
    "$slice",
    "$in",
    "$concatArrays",
    "$reverseArray",
    "$isArray",
    "$filter",
    "$map",
    "$reduce",
    "$range",
    "$setUnion",
    "$setIntersection",
    "$setDifference",
    "$indexOfArray",
    "$arrayToObject",
    "$objectToArray",
    "$mergeObjects",
    "$getField",
    "$setField",
    "$unsetField",
    "$let",
    "$type",
    "$isNumber",
    "$convert",
    "$toString",
    "$toInt",
    "$toLong",
    "$toDouble",
    "$toDecimal",
    "$toBool",
    "$toDate",
    "$toObjectId",
    "$sum",
    "$avg",
    "$min",
    "$max",
    "$year",
    "$month",
    "$dayOfMonth",
    "$dayOfWeek",
    "$dayOfYear",
    "$hour",
    "$minute",
    "$second",
    "$millisecond",
    "$rand",
];

pub(super) fn is_known(name: &str) -> bool {
    KNOWN.contains(&name)
}

/// Evaluates the operands as a list. A single operand is a list of one.
pub(super) fn list(operand: &Bson, scope: &Scope<'_>) -> Result<Vec<Option<Bson>>, StoreError> {
    match operand {
        Bson::Array(items) => items.iter().map(|item| eval(item, scope)).collect(),
        other => Ok(vec![eval(other, scope)?]),
    }
}

pub(super) fn exactly<const N: usize>(
    name: &str,
    operand: &Bson,
    scope: &Scope<'_>,
) -> Result<[Option<Bson>; N], StoreError> {
    let values = list(operand, scope)?;
    let given = values.len();
    values.try_into().map_err(|_| {
        let text =
            format!("Expression {name} takes exactly {N} arguments. {given} were passed in.");
        StoreError::new(16020, text)
    })
}

pub(super) fn null_if_missing(value: Option<Bson>) -> Bson {
    value.unwrap_or(Bson::Null)
}

/// True if an operand of `$and` or `$or` has this truth, and so decides the result. The operands
/// after it are not evaluated.
fn decides(operand: &Bson, truth: bool, scope: &Scope<'_>) -> Result<bool, StoreError> {
    let operands = match operand {
        Bson::Array(operands) => operands.as_slice(),
        one => std::slice::from_ref(one),
    };
    for operand in operands {
        if eval(operand, scope)?.as_ref().is_some_and(truthy) == truth {
            return Ok(true);
        }
    }
    Ok(false)
}

pub(super) fn is_null(value: &Option<Bson>) -> bool {
    matches!(value, None | Some(Bson::Null | Bson::Undefined))
}

pub(super) fn evaluate(name: &str, operand: &Bson, scope: &Scope<'_>) -> Evaluated {
    let yes = |b: bool| Ok(Some(Bson::Boolean(b)));
    match name {
        "$literal" => {
            scope.context.budget.charge_copies(operand, 1)?;
            Ok(Some(operand.clone()))
        }
        "$add" | "$multiply" | "$subtract" | "$divide" | "$mod" | "$pow" => {
            arithmetic(name, operand, scope)
        }
        "$abs" | "$floor" | "$ceil" | "$round" | "$trunc" | "$sqrt" | "$exp" | "$ln" => {
            function(name, operand, scope)
        }
        "$eq" | "$ne" | "$gt" | "$gte" | "$lt" | "$lte" | "$cmp" => {
            let [a, b] = exactly(name, operand, scope)?;
            // Undefined stands for a missing value, which comes before null in the sort order.
            let [a, b] = [a, b].map(|value| value.unwrap_or(Bson::Undefined));
            let order = scope.context.compare(&a, &b);
            match name {
                "$eq" => yes(order.is_eq()),
                "$ne" => yes(order.is_ne()),
                "$gt" => yes(order.is_gt()),
                "$gte" => yes(order.is_ge()),
                "$lt" => yes(order.is_lt()),
                "$lte" => yes(order.is_le()),
                _ => Ok(Some(Bson::Int32(order as i32))),
            }
        }
        "$and" => Ok(Some((!decides(operand, false, scope)?).into())),
        "$or" => Ok(Some(decides(operand, true, scope)?.into())),
        "$not" => {
            let [value] = exactly(name, operand, scope)?;
            yes(!value.as_ref().is_some_and(truthy))
        }
        "$cond" | "$ifNull" | "$switch" | "$let" => control(name, operand, scope),
        "$filter" | "$map" | "$reduce" => iterate(name, operand, scope),
        "$concat" | "$toUpper" | "$toLower" | "$strLenCP" | "$strLenBytes" | "$substrCP"
        | "$substr" | "$substrBytes" | "$split" | "$trim" | "$regexMatch" => {
            strings(name, operand, scope)
        }
        "$sum" | "$avg" | "$min" | "$max" => {
            let mut values = list(operand, scope)?;
            let values = match values.as_mut_slice() {
                [Some(Bson::Array(items))] => std::mem::take(items),
                _ => values.into_iter().flatten().collect(),
            };
            Ok(Some(summary(name, &values, scope.context)))
        }
        "$type" => {
            let value = list(operand, scope)?.pop().flatten();
            let name = value.as_ref().map_or("missing", type_name);
            Ok(Some(Bson::String(name.to_owned())))
        }
        "$isNumber" => yes(eval(operand, scope)?.is_some_and(|v| number::is_number(&v))),
        "$convert" | "$toString" | "$toInt" | "$toLong" | "$toDouble" | "$toDecimal"
        | "$toBool" | "$toDate" | "$toObjectId" => conversion(name, operand, scope),
        "$year" | "$month" | "$dayOfMonth" | "$dayOfWeek" | "$dayOfYear" | "$hour" | "$minute"
        | "$second" | "$millisecond" => part_of_date(name, operand, scope),
        "$rand" => {
            let draw = scope.context.draw() >> 11;
            Ok(Some(Bson::Double(draw as f64 / (1u64 << 53) as f64)))
        }
        "$mergeObjects" | "$getField" | "$setField" | "$unsetField" | "$arrayToObject"
        | "$objectToArray" => objects(name, operand, scope),
        _ => arrays(name, operand, scope),
    }
}

fn part_of_date(name: &str, operand: &Bson, scope: &Scope<'_>) -> Evaluated {
    match list(operand, scope)?.pop().flatten() {
        Some(Bson::DateTime(d)) => {
            let part = date_part(name, d.timestamp_millis());
            Ok(Some(Bson::Int32(i32::try_from(part).unwrap_or(i32::MAX))))
        }
        value if is_null(&value) => Ok(Some(Bson::Null)),
        Some(other) => Err(StoreError::new(
            16006,
            format!("can't convert from BSON type {} to Date", type_name(&other)),
        )),
        None => Ok(Some(Bson::Null)),
    }
}

fn arithmetic(name: &str, operand: &Bson, scope: &Scope<'_>) -> Evaluated {
    let values = list(operand, scope)?;
    if !matches!(name, "$add" | "$multiply") && values.len() != 2 {
        exactly::<2>(name, operand, scope)?;
    }
    if values.iter().any(is_null) {
        return Ok(Some(Bson::Null));
    }
    let values: Vec<Bson> = values.into_iter().flatten().collect();
    if values.iter().any(|v| matches!(v, Bson::DateTime(_))) {
        return dates(name, &values);
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
fn dates(name: &str, values: &[Bson]) -> Evaluated {
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

fn function(name: &str, operand: &Bson, scope: &Scope<'_>) -> Evaluated {
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

/// Returns the `$sum`, `$avg`, `$min` or `$max` of values. A sum and an average ignore values that
/// are not numbers.
pub(crate) fn summary(name: &str, values: &[Bson], context: &EvaluationContext) -> Bson {
    let present = values
        .iter()
        .filter(|v| !matches!(v, Bson::Null | Bson::Undefined));
    match name {
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

pub(super) fn argument<'a>(
    name: &str,
    operand: &'a Bson,
    key: &str,
) -> Result<&'a Bson, StoreError> {
    operand
        .as_document()
        .and_then(|d| d.get(key))
        .ok_or_else(|| StoreError::new(17080, format!("Missing '{key}' parameter to {name}")))
}
