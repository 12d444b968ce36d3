//! Expressions on arrays.

use bson::Bson;

use super::operators::{bounds_of_search, exactly, is_null, list};
use super::selection::{of_array, sort_array};
use super::sets::{combine, compare_sets, kind_of, zip};
use super::{Evaluated, Scope};
use crate::store::error::StoreError;
use crate::store::order::display;
use crate::store::{Answer, number};

pub(super) fn arrays(name: &str, operand: &Bson, scope: &Scope<'_>) -> Evaluated {
    match name {
        "$in" => return contains(name, operand, scope),
        "$setEquals" | "$setIsSubset" | "$allElementsTrue" | "$anyElementTrue" => {
            return compare_sets(name, operand, scope);
        }
        "$zip" => return zip(name, operand, scope),
        "$sortArray" => return sort_array(name, operand, scope),
        "$firstN" | "$lastN" | "$minN" | "$maxN" => return of_array(name, operand, scope),
        _ => {}
    }
    let values = list(operand, scope)?;
    let first = values.first().and_then(Option::as_ref);
    match name {
        "$isArray" => return Ok(Some(matches!(first, Some(Bson::Array(_))).into())),
        "$range" => return range(&values, scope),
        "$concatArrays" | "$setUnion" | "$setIntersection" | "$setDifference" => {
            return combine(name, &values, scope);
        }
        _ => {}
    }
    if matches!(name, "$slice" | "$arrayElemAt") && values.get(1).is_none_or(is_null) {
        return Ok(Some(Bson::Null));
    }
    let Some(items) = array_operand(name, first)? else {
        return Ok(Some(Bson::Null));
    };
    if let Some(array) = first
        && matches!(name, "$reverseArray" | "$slice")
    {
        scope.context.budget.charge_copies(array, 1)?;
    }
    Ok(match name {
        "$size" => Some(Bson::Int32(i32::try_from(items.len()).unwrap_or(i32::MAX))),
        "$first" => items.first().cloned(),
        "$last" => items.last().cloned(),
        "$reverseArray" => Some(Bson::Array(items.iter().rev().cloned().collect())),
        "$arrayElemAt" => return element(items, values.get(1)),
        "$slice" => return part(items, &values),
        _ => return index_of(items, &values, scope),
    })
}

/// Returns the array that an operator works on, or `None` if the operand is null or missing. Any
/// other type is an error. For `$size`, null and missing are errors as well.
fn array_operand<'a>(name: &str, value: Option<&'a Bson>) -> Answer<Option<&'a Vec<Bson>>> {
    let kind = match value {
        Some(Bson::Array(items)) => return Ok(Some(items)),
        None | Some(Bson::Null | Bson::Undefined) if name != "$size" => return Ok(None),
        value => kind_of(value),
    };
    let (code, text) = match name {
        "$size" | "$reverseArray" => (
            if name == "$size" { 17124 } else { 34435 },
            format!("The argument to {name} must be an array, but was of type: {kind}"),
        ),
        "$slice" => (
            28724,
            format!("First argument to $slice must be an array, but is of type: {kind}"),
        ),
        "$indexOfArray" => (
            40090,
            format!("$indexOfArray requires an array as a first argument, found: {kind}"),
        ),
        "$arrayElemAt" => (
            28689,
            format!("$arrayElemAt's first argument must be an array, but is {kind}"),
        ),
        _ => (
            28689,
            format!("{name}'s argument must be an array, but is {kind}"),
        ),
    };
    Err(StoreError::new(code, text))
}

/// Returns an operand that must be a whole number of 32 bits. `codes` are the codes of the errors
/// for a value that is no number, and for a number that is not whole or too large.
fn int32(value: Option<&Option<Bson>>, what: &str, codes: [i32; 2]) -> Answer<i64> {
    let value = value.and_then(Option::as_ref);
    match value {
        Some(value) if number::is_number(value) => {
            number::as_int32(value).map(i64::from).ok_or_else(|| {
                let shown = display(value);
                let text =
                    format!("{what} that can be represented as a 32-bit integer, found: {shown}");
                StoreError::new(codes[1], text)
            })
        }
        other => {
            let kind = kind_of(other);
            let text = format!("{what} that is a number, found a value of type: {kind}");
            Err(StoreError::new(codes[0], text))
        }
    }
}

/// Evaluates `$arrayElemAt`.
fn element(items: &[Bson], place: Option<&Option<Bson>>) -> Evaluated {
    let what = "$arrayElemAt requires a second argument";
    let place = int32(place, what, [28690, 28691])?;
    let length = i64::try_from(items.len()).unwrap_or(i64::MAX);
    let place = if place < 0 { place + length } else { place };
    let place = usize::try_from(place).ok();
    Ok(place.and_then(|place| items.get(place).cloned()))
}

/// Evaluates `$slice`.
fn part(items: &[Bson], values: &[Option<Bson>]) -> Evaluated {
    let second = int32(
        values.get(1),
        "$slice requires a second argument",
        [28725, 28726],
    )?;
    let Some(third) = values.get(2) else {
        return Ok(Some(Bson::Array(slice(items, None, second))));
    };
    if is_null(third) {
        return Ok(Some(Bson::Null));
    }
    let what = "$slice requires a third argument";
    let count = int32(Some(third), what, [28727, 28728])?;
    if count <= 0 {
        let text = format!("Third argument to $slice must be positive: {count}");
        return Err(StoreError::new(28729, text));
    }
    Ok(Some(Bson::Array(slice(items, Some(second), count))))
}

/// Evaluates `$indexOfArray`.
fn index_of(items: &[Bson], values: &[Option<Bson>], scope: &Scope<'_>) -> Evaluated {
    let (start, end) = bounds_of_search("$indexOfArray", values)?;
    // Undefined stands for a missing value, which no element equals.
    let wanted = values.get(1).and_then(Option::as_ref);
    let wanted = wanted.unwrap_or(&Bson::Undefined);
    let inside = items.iter().enumerate().take(end.unwrap_or(usize::MAX));
    let mut inside = inside.skip(start);
    let place = inside.find(|(_, item)| scope.context.equal(item, wanted));
    let place = place.and_then(|(place, _)| i32::try_from(place).ok());
    Ok(Some(Bson::Int32(place.unwrap_or(-1))))
}

fn contains(name: &str, operand: &Bson, scope: &Scope<'_>) -> Evaluated {
    let [wanted, within] = exactly(name, operand, scope)?;
    let Some(Bson::Array(items)) = within else {
        let message = format!(
            "$in requires an array as a second argument, found: {}",
            kind_of(within.as_ref())
        );
        return Err(StoreError::new(40081, message));
    };
    let wanted = wanted.unwrap_or(Bson::Undefined);
    Ok(Some(
        items
            .iter()
            .any(|item| scope.context.equal(item, &wanted))
            .into(),
    ))
}

fn range(values: &[Option<Bson>], scope: &Scope<'_>) -> Evaluated {
    let read = |place: usize, what: &str, codes: [i32; 2]| {
        let what = format!("$range requires {what}");
        int32(values.get(place), &what, codes).map(i128::from)
    };
    let start = read(0, "a starting value", [34443, 34444])?;
    let end = read(1, "an ending value", [34445, 34446])?;
    let step = match values.len() {
        0..=2 => 1,
        _ => read(2, "a step value", [34447, 34448])?,
    };
    if step == 0 {
        return Err(StoreError::new(
            34449,
            "$range requires a non-zero step value",
        ));
    }
    // An i128 holds all differences and sums of the operands.
    let count = ((end - start) / step + 1).max(0);
    let bytes = usize::try_from(count).unwrap_or(usize::MAX);
    let bytes = bytes.saturating_mul(size_of::<Bson>());
    scope.context.budget.charge(bytes)?;
    let inside = |n: &i128| if step > 0 { *n < end } else { *n > end };
    let numbers = (0..count).map(|i| start + i * step).take_while(inside);
    let numbers = numbers.map(|n| match i32::try_from(n) {
        Ok(n) => Bson::Int32(n),
        Err(_) => Bson::Int64(i64::try_from(n).unwrap_or(i64::MAX)),
    });
    Ok(Some(Bson::Array(numbers.collect())))
}

/// Returns a part of an array. Without `skip`, the part is the first `take` elements, or the last
/// `-take` elements if `take` is negative. With `skip`, the part is `take` elements from position
/// `skip`. A negative `skip` counts from the end of the array.
pub(crate) fn slice(items: &[Bson], skip: Option<i64>, take: i64) -> Vec<Bson> {
    let length = i64::try_from(items.len()).unwrap_or(i64::MAX);
    let (start, count) = match skip {
        None if take < 0 => ((length + take.max(-length)).max(0), -take.max(-length)),
        None => (0, take),
        Some(skip) if skip < 0 => ((length + skip.max(-length)).max(0), take),
        Some(skip) => (skip, take),
    };
    let bound = |n: i64| usize::try_from(n).unwrap_or(0);
    items
        .iter()
        .skip(bound(start))
        .take(bound(count))
        .cloned()
        .collect()
}
