//! Expressions on strings, arrays and documents.

use std::collections::BTreeSet;

use bson::{Bson, Document};

use super::operators::{argument, exactly, is_null, list, null_if_missing};
use super::values::text;
use super::{Evaluated, EvaluationContext, Scope, evaluate as eval};
use crate::store::error::StoreError;
use crate::store::order::{Key, type_name};
use crate::store::{Answer, number, size};

pub(super) fn strings(name: &str, operand: &Bson, scope: &Scope<'_>) -> Evaluated {
    let string = |s: String| Ok(Some(Bson::String(s)));
    if matches!(name, "$trim" | "$regexMatch") {
        return patterns(name, operand, scope);
    }
    let values = list(operand, scope)?;
    if name == "$concat" {
        return concat(&values, scope);
    }
    let subject = values
        .first()
        .and_then(Option::as_ref)
        .and_then(text)
        .unwrap_or_default();
    let place = |i: usize| {
        values
            .get(i)
            .and_then(Option::as_ref)
            .and_then(number::truncated)
    };
    match name {
        "$toUpper" => string(subject.to_ascii_uppercase()),
        "$toLower" => string(subject.to_ascii_lowercase()),
        "$strLenCP" => Ok(Some(Bson::Int32(
            i32::try_from(subject.chars().count()).unwrap_or(0),
        ))),
        "$strLenBytes" => Ok(Some(Bson::Int32(i32::try_from(subject.len()).unwrap_or(0)))),
        "$split" => match values
            .get(1)
            .and_then(Option::as_ref)
            .and_then(Bson::as_str)
        {
            Some("") => Err(StoreError::new(
                40087,
                "$split requires a non-empty separator",
            )),
            Some(by) if !is_null(&values[0]) => {
                let budget = &scope.context.budget;
                let parts = subject.split(by).count();
                budget.charge(subject.len().saturating_add(parts * size_of::<Bson>()))?;
                let parts = subject.split(by);
                let parts = parts.map(|part| Bson::String(part.to_owned()));
                Ok(Some(Bson::Array(parts.collect())))
            }
            _ => Ok(Some(Bson::Null)),
        },
        "$substrCP" => {
            let start = usize::try_from(place(1).unwrap_or(0)).unwrap_or(0);
            let length = usize::try_from(place(2).unwrap_or(0)).unwrap_or(usize::MAX);
            string(subject.chars().skip(start).take(length).collect())
        }
        _ => {
            let start = usize::try_from(place(1).unwrap_or(0)).unwrap_or(0);
            let length = usize::try_from(place(2).unwrap_or(-1)).unwrap_or(usize::MAX);
            let bytes: Vec<u8> = subject.bytes().skip(start).take(length).collect();
            String::from_utf8(bytes)
                .map(Bson::String)
                .map(Some)
                .map_err(|_| {
                    StoreError::new(
                        28656,
                        "$substrBytes:  Invalid range, starting or ending index is \
                                        in the middle of a UTF-8 character.",
                    )
                })
        }
    }
}

/// Evaluates `$trim` and `$regexMatch`, whose operand is a document of named arguments.
fn patterns(name: &str, operand: &Bson, scope: &Scope<'_>) -> Evaluated {
    let input = eval(argument(name, operand, "input")?, scope)?;
    let Some(input) = input.as_ref().and_then(Bson::as_str) else {
        return Ok(Some(if name == "$trim" {
            Bson::Null
        } else {
            false.into()
        }));
    };
    if name == "$trim" {
        return Ok(Some(Bson::String(input.trim().to_owned())));
    }
    let pattern = match argument(name, operand, "regex")? {
        Bson::RegularExpression(r) => scope
            .context
            .pattern(r.pattern.as_str(), r.options.as_str())?,
        other => {
            let value = eval(other, scope)?;
            let text = value.as_ref().and_then(Bson::as_str).unwrap_or_default();
            scope.context.pattern(text, "")?
        }
    };
    Ok(Some(pattern.is_match(input, &scope.context.budget)?.into()))
}

fn concat(values: &[Option<Bson>], scope: &Scope<'_>) -> Evaluated {
    let strings = values.iter().flatten().filter_map(Bson::as_str);
    let bytes = strings.map(str::len).sum();
    size::check_intermediate(bytes)?;
    scope.context.budget.charge(bytes)?;
    let mut joined = String::with_capacity(bytes);
    for value in values {
        match value {
            Some(Bson::String(s)) => joined.push_str(s),
            value if is_null(value) => return Ok(Some(Bson::Null)),
            other => {
                let kind = other.as_ref().map_or("missing", type_name);
                let message = format!("$concat only supports strings, not {kind}");
                return Err(StoreError::new(16702, message));
            }
        }
    }
    Ok(Some(Bson::String(joined)))
}

pub(super) fn arrays(name: &str, operand: &Bson, scope: &Scope<'_>) -> Evaluated {
    if name == "$in" {
        return contains(name, operand, scope);
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

fn kind_of(value: Option<&Bson>) -> &'static str {
    value.map_or("missing", type_name)
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

/// Evaluates `$concatArrays` and the operators on sets. The result is null if an operand is null or
/// missing and all others are arrays.
fn combine(name: &str, values: &[Option<Bson>], scope: &Scope<'_>) -> Evaluated {
    let lists: Option<Vec<&Vec<Bson>>> = values
        .iter()
        .map(|v| v.as_ref().and_then(Bson::as_array))
        .collect();
    if lists.is_some() {
        for value in values.iter().flatten() {
            // The operators on sets make a key of each element as well.
            let copies = if name == "$concatArrays" { 1 } else { 2 };
            scope.context.budget.charge_copies(value, copies)?;
        }
    }
    match (name, lists) {
        ("$concatArrays", Some(lists)) => Ok(Some(Bson::Array(
            lists.into_iter().flatten().cloned().collect(),
        ))),
        (_, Some(lists)) => Ok(Some(Bson::Array(sets(name, &lists, scope.context)))),
        (_, None) => {
            match values
                .iter()
                .find(|v| !is_null(v) && !matches!(v, Some(Bson::Array(_))))
            {
                Some(other) => Err(StoreError::new(
                    28664,
                    format!(
                        "{name} only supports arrays, not {}",
                        kind_of(other.as_ref())
                    ),
                )),
                None => Ok(Some(Bson::Null)),
            }
        }
    }
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

fn set_of(list: &[Bson], context: &EvaluationContext) -> BTreeSet<Key> {
    list.iter().map(|value| context.key(value)).collect()
}

fn sets(name: &str, lists: &[&Vec<Bson>], context: &EvaluationContext) -> Vec<Bson> {
    let distinct = |values: &mut dyn Iterator<Item = &Bson>| {
        let mut seen = BTreeSet::new();
        let fresh = values.filter(|value| seen.insert(context.key(value)));
        fresh.cloned().collect()
    };
    match (name, lists) {
        ("$setUnion", lists) => distinct(&mut lists.iter().flat_map(|l| l.iter())),
        ("$setIntersection", [first, rest @ ..]) => {
            let rest: Vec<_> = rest.iter().map(|list| set_of(list, context)).collect();
            let common = |v: &&Bson| rest.iter().all(|list| list.contains(&context.key(v)));
            distinct(&mut first.iter().filter(common))
        }
        (_, [first, second, ..]) => {
            let second = set_of(second, context);
            distinct(&mut first.iter().filter(|v| !second.contains(&context.key(v))))
        }
        _ => Vec::new(),
    }
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

pub(super) fn objects(name: &str, operand: &Bson, scope: &Scope<'_>) -> Evaluated {
    match name {
        "$getField" => return get_field(name, operand, scope),
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
