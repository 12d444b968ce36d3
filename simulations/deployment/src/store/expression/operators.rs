//! Evaluates the operators of expressions.

use bson::Bson;

use super::collections::arrays;
use super::control::{control, conversion, iterate};
use super::dates::{dates, part};
use super::functions::{function, trigonometry};
use super::math::arithmetic;
use super::objects::objects;
use super::strings::strings;
use super::summary::summary;
use super::values::truthy;
use super::{Evaluated, Scope, evaluate as eval};
use crate::store::error::StoreError;
use crate::store::order::{display, type_name};
use crate::store::{Answer, number};

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
        "$add" | "$multiply" | "$subtract" | "$divide" | "$mod" | "$pow" | "$log" | "$atan2" => {
            arithmetic(name, operand, scope)
        }
        "$abs" | "$floor" | "$ceil" | "$round" | "$trunc" | "$sqrt" | "$exp" | "$ln" | "$log10" => {
            function(name, operand, scope)
        }
        "$sin" | "$cos" | "$tan" | "$asin" | "$acos" | "$atan" | "$sinh" | "$cosh" | "$tanh"
        | "$asinh" | "$acosh" | "$atanh" | "$degreesToRadians" | "$radiansToDegrees" => {
            trigonometry(name, operand, scope)
        }
        "$eq" | "$ne" | "$gt" | "$gte" | "$lt" | "$lte" | "$cmp" => {
            comparison(name, operand, scope)
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
        | "$substr" | "$substrBytes" | "$split" | "$trim" | "$ltrim" | "$rtrim" | "$regexMatch"
        | "$regexFind" | "$regexFindAll" | "$replaceOne" | "$replaceAll" | "$strcasecmp"
        | "$indexOfBytes" | "$indexOfCP" => strings(name, operand, scope),
        "$sum" | "$avg" | "$min" | "$max" | "$stdDevPop" | "$stdDevSamp" => {
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
        "$isNumber" => {
            let [value] = exactly(name, operand, scope)?;
            yes(value.is_some_and(|value| number::is_number(&value)))
        }
        "$convert" | "$toString" | "$toInt" | "$toLong" | "$toDouble" | "$toDecimal"
        | "$toBool" | "$toDate" | "$toObjectId" => conversion(name, operand, scope),
        "$year" | "$month" | "$dayOfMonth" | "$dayOfWeek" | "$dayOfYear" | "$hour" | "$minute"
        | "$second" | "$millisecond" | "$week" | "$isoWeek" | "$isoWeekYear" | "$isoDayOfWeek" => {
            part(name, operand, scope)
        }
        "$dateToString" | "$dateFromString" | "$dateAdd" | "$dateSubtract" | "$dateDiff"
        | "$dateTrunc" | "$dateToParts" | "$dateFromParts" | "$tsSecond" | "$tsIncrement" => {
            dates(name, operand, scope)
        }
        "$rand" => {
            let draw = scope.context.draw() >> 11;
            Ok(Some(Bson::Double(draw as f64 / (1u64 << 53) as f64)))
        }
        "$mergeObjects" | "$getField" | "$setField" | "$unsetField" | "$arrayToObject"
        | "$objectToArray" | "$binarySize" | "$bsonSize" => objects(name, operand, scope),
        _ => arrays(name, operand, scope),
    }
}

fn comparison(name: &str, operand: &Bson, scope: &Scope<'_>) -> Evaluated {
    // Undefined stands for a missing value, which comes before null in the sort order.
    let operands = exactly::<2>(name, operand, scope)?;
    let [a, b] = operands.map(|value| value.unwrap_or(Bson::Undefined));
    let order = scope.context.compare(&a, &b);
    Ok(Some(match name {
        "$eq" => order.is_eq().into(),
        "$ne" => order.is_ne().into(),
        "$gt" => order.is_gt().into(),
        "$gte" => order.is_ge().into(),
        "$lt" => order.is_lt().into(),
        "$lte" => order.is_le().into(),
        _ => Bson::Int32(order as i32),
    }))
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

/// Returns the start and the end of a search, which the operands after the first two give.
pub(super) fn bounds_of_search(
    name: &str,
    values: &[Option<Bson>],
) -> Answer<(usize, Option<usize>)> {
    let bound = |place: usize, what: &str| -> Answer<Option<usize>> {
        let Some(value) = values.get(place) else {
            return Ok(None);
        };
        let whole = value.as_ref().and_then(number::as_int32).ok_or_else(|| {
            let shown = value.as_ref().map(display).unwrap_or_default();
            let text = format!("{name} requires an integral {what} index, found: {shown}");
            StoreError::new(40096, text)
        })?;
        usize::try_from(whole).map(Some).map_err(|_| {
            let text = format!("{name} requires a nonnegative {what} index, found: {whole}");
            StoreError::new(40097, text)
        })
    };
    Ok((bound(2, "starting")?.unwrap_or(0), bound(3, "ending")?))
}
