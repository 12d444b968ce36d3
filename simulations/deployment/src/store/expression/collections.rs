//! Expressions on arrays and documents.

use bson::{Bson, Document};

use super::operators::{argument, exactly, is_null, list, null_if_missing};
use super::selection::{of_array, sort_array};
use super::sets::{combine, compare_sets, kind_of, zip};
use super::{Evaluated, Scope, evaluate as eval};
use crate::store::error::StoreError;
use crate::store::order::type_name;
use crate::store::{Answer, number, size};

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
    let Some(items) = array_operand(name, first)? else {
        return Ok(Some(Bson::Null));
    };
    if let Some(array) = first
        && matches!(name, "$reverseArray" | "$slice")
    {
        scope.context.budget.charge_copies(array, 1)?;
    }
    let number_at = |i: usize| {
        values
            .get(i)
            .and_then(Option::as_ref)
            .and_then(number::truncated)
    };
    Ok(match name {
        "$size" => Some(Bson::Int32(i32::try_from(items.len()).unwrap_or(i32::MAX))),
        "$first" => items.first().cloned(),
        "$last" => items.last().cloned(),
        "$reverseArray" => Some(Bson::Array(items.iter().rev().cloned().collect())),
        "$arrayElemAt" => {
            let place = number_at(1).unwrap_or(0);
            let length = i64::try_from(items.len()).unwrap_or(i64::MAX);
            let place = if place < 0 { place + length } else { place };
            usize::try_from(place)
                .ok()
                .and_then(|i| items.get(i).cloned())
        }
        "$slice" => {
            let (skip, take) = match (number_at(1), number_at(2)) {
                (Some(skip), Some(take)) => (Some(skip), take),
                (take, _) => (None, take.unwrap_or(0)),
            };
            Some(Bson::Array(slice(items, skip, take)))
        }
        _ => {
            let wanted = values.get(1).and_then(Option::as_ref);
            let wanted = wanted.unwrap_or(&Bson::Null);
            let place = items
                .iter()
                .position(|item| scope.context.equal(item, wanted));
            Some(Bson::Int32(
                place.and_then(|p| i32::try_from(p).ok()).unwrap_or(-1),
            ))
        }
    })
}

/// Returns the array that an operator works on, or `None` if the operand is null or missing. Any
/// other type is an error. For `$size`, null and missing are errors as well.
fn array_operand<'a>(name: &str, value: Option<&'a Bson>) -> Answer<Option<&'a Vec<Bson>>> {
    match value {
        Some(Bson::Array(items)) => Ok(Some(items)),
        _ if name == "$size" => {
            let kind = kind_of(value);
            let message =
                format!("The argument to $size must be an array, but was of type: {kind}");
            Err(StoreError::new(17124, message))
        }
        None | Some(Bson::Null | Bson::Undefined) => Ok(None),
        Some(other) => {
            let kind = type_name(other);
            let message = format!("{name}'s argument must be an array, but is {kind}");
            Err(StoreError::new(28689, message))
        }
    }
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
    let wanted = null_if_missing(wanted);
    Ok(Some(
        items
            .iter()
            .any(|item| scope.context.equal(item, &wanted))
            .into(),
    ))
}

fn range(values: &[Option<Bson>], scope: &Scope<'_>) -> Evaluated {
    let read = |i: usize| {
        let value = values.get(i).and_then(Option::as_ref);
        value.and_then(number::truncated).map(i128::from)
    };
    let (start, end, step) = (read(0).unwrap_or(0), read(1).unwrap_or(0), read(2));
    let step = step.unwrap_or(1);
    if step == 0 {
        return Err(StoreError::new(
            34449,
            "$range requires a non-zero step value",
        ));
    }
    // An i128 holds all differences and sums of the i64 operands.
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

fn get_field(name: &str, operand: &Bson, scope: &Scope<'_>) -> Evaluated {
    let (field, input) = match operand {
        Bson::Document(d) if d.contains_key("field") => {
            (argument(name, operand, "field")?, d.get("input"))
        }
        other => (other, None),
    };
    let input = input.map_or(Ok(None), |input| eval(input, scope).map(Some))?;
    let field = eval(field, scope)?;
    let field = field.as_ref().and_then(Bson::as_str).unwrap_or_default();
    let from = match &input {
        None => Some(scope.root),
        Some(input) => input.as_ref().and_then(Bson::as_document),
    };
    from.and_then(|d| d.get(field))
        .map_or(Ok(None), |value| scope.copy(value))
}

/// Evaluates `$setField` and `$unsetField`. A missing value, such as `$$REMOVE`, removes the field.
fn set_field(name: &str, operand: &Bson, scope: &Scope<'_>) -> Evaluated {
    let Some(Bson::String(field)) = eval(argument(name, operand, "field")?, scope)? else {
        let text = format!("{name} requires 'field' to evaluate to a constant string");
        return Err(StoreError::new(4_161_107, text));
    };
    let value = match name {
        "$setField" => eval(argument(name, operand, "value")?, scope)?,
        _ => None,
    };
    match eval(argument(name, operand, "input")?, scope)? {
        Some(Bson::Document(mut input)) => {
            match value {
                Some(value) => {
                    input.insert(field, value);
                }
                None => {
                    input.remove(field);
                }
            }
            Ok(Some(Bson::Document(input)))
        }
        input if is_null(&input) => Ok(Some(Bson::Null)),
        _ => {
            let text = format!("{name} requires 'input' to evaluate to an object");
            Err(StoreError::new(4_161_105, text))
        }
    }
}

/// Evaluates `$binarySize` and `$bsonSize`.
fn encoded_size(name: &str, operand: &Bson, scope: &Scope<'_>) -> Evaluated {
    let [value] = exactly(name, operand, scope)?;
    let bytes = match (name, &value) {
        (_, value) if is_null(value) => return Ok(Some(Bson::Null)),
        ("$binarySize", Some(Bson::String(text))) => text.len(),
        ("$binarySize", Some(Bson::Binary(binary))) => binary.bytes.len(),
        ("$bsonSize", Some(Bson::Document(document))) => size::of(document),
        _ => {
            let kind = kind_of(value.as_ref());
            let (code, wanted) = match name {
                "$binarySize" => (51276, "a string or BinData"),
                _ => (31393, "an object"),
            };
            let text = format!("{name} requires {wanted}, found: {kind}");
            return Err(StoreError::new(code, text));
        }
    };
    Ok(Some(Bson::Int32(i32::try_from(bytes).unwrap_or(i32::MAX))))
}

pub(super) fn objects(name: &str, operand: &Bson, scope: &Scope<'_>) -> Evaluated {
    match name {
        "$getField" => return get_field(name, operand, scope),
        "$binarySize" | "$bsonSize" => return encoded_size(name, operand, scope),
        "$setField" | "$unsetField" => return set_field(name, operand, scope),
        _ => {}
    }
    let values = list(operand, scope)?;
    match name {
        "$mergeObjects" => {
            let values = match values.as_slice() {
                [Some(Bson::Array(items))] => items.iter().cloned().map(Some).collect(),
                _ => values,
            };
            let mut merged = Document::new();
            for value in values {
                match value {
                    Some(Bson::Document(document)) => merged.extend(document),
                    value if is_null(&value) => {}
                    _ => {
                        let text = "$mergeObjects requires object inputs";
                        return Err(StoreError::new(40400, text));
                    }
                }
            }
            Ok(Some(Bson::Document(merged)))
        }
        "$objectToArray" => Ok(Some(match values.into_iter().next().flatten() {
            Some(Bson::Document(document)) => Bson::Array({
                // Each field becomes a document of two fields.
                let bytes = document.len().saturating_mul(4 * size_of::<Bson>());
                scope.context.budget.charge(bytes)?;
                document
                    .into_iter()
                    .map(|(k, v)| Bson::Document(bson::doc! { "k": k, "v": v }))
                    .collect()
            }),
            _ => Bson::Null,
        })),
        _ => {
            let Some(Bson::Array(items)) = eval(operand, scope)? else {
                return Ok(Some(Bson::Null));
            };
            let mut document = Document::new();
            for item in &items {
                match item {
                    Bson::Document(pair) => {
                        if let (Ok(k), Some(v)) = (pair.get_str("k"), pair.get("v")) {
                            document.insert(k, v.clone());
                        }
                    }
                    Bson::Array(pair) => {
                        if let [Bson::String(k), v] = pair.as_slice() {
                            document.insert(k, v.clone());
                        }
                    }
                    _ => {}
                }
            }
            Ok(Some(Bson::Document(document)))
        }
    }
}
