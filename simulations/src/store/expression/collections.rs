//! Expressions on strings, arrays and documents.

use bson::{Bson, Document};

use super::operators::{argument, exactly, is_null, list, null_if_missing};
use super::values::text;
use super::{Evaluated, Scope, evaluate as eval};
use crate::store::error::StoreError;
use crate::store::number;
use crate::store::order::{equal, type_name};

/// The longest array that `$range` makes.
const MAX_RANGE: i64 = 1_000_000;

pub(super) fn strings(name: &str, operand: &Bson, scope: &Scope<'_>) -> Evaluated {
    let string = |s: String| Ok(Some(Bson::String(s)));
    if matches!(name, "$trim" | "$regexMatch") {
        return patterns(name, operand, scope);
    }
    let values = list(operand, scope)?;
    if name == "$concat" {
        return concat(&values);
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
            Some(by) if !is_null(&values[0]) => Ok(Some(Bson::Array(
                subject
                    .split(by)
                    .map(|part| Bson::String(part.to_owned()))
                    .collect(),
            ))),
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

/// `$trim` and `$regexMatch`, whose operands have names.
fn patterns(name: &str, operand: &Bson, scope: &Scope<'_>) -> Evaluated {
    let input = eval(&argument(name, operand, "input")?, scope)?;
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
        Bson::RegularExpression(r) => {
            crate::store::matcher::pattern(r.pattern.as_str(), r.options.as_str())?
        }
        other => {
            let value = eval(&other, scope)?;
            let text = value.as_ref().and_then(Bson::as_str).unwrap_or_default();
            crate::store::matcher::pattern(text, "")?
        }
    };
    Ok(Some(pattern.is_match(input).into()))
}

fn concat(values: &[Option<Bson>]) -> Evaluated {
    let mut joined = String::new();
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
    let values = list(operand, scope)?;
    let first = values.first().cloned().flatten();
    match name {
        "$isArray" => return Ok(Some(matches!(first, Some(Bson::Array(_))).into())),
        "$in" => return contains(name, operand, scope),
        "$range" => return range(&values),
        "$concatArrays" | "$setUnion" | "$setIntersection" | "$setDifference" => {
            return combine(name, &values);
        }
        _ => {}
    }
    let operand_list = |position: usize| match values.get(position) {
        Some(Some(Bson::Array(items))) => Ok(Some(items)),
        Some(value) if !is_null(value) && name != "$size" => Err(StoreError::new(
            28689,
            format!(
                "{name}'s argument must be an array, but is {}",
                kind_of(value)
            ),
        )),
        _ => Ok(None),
    };
    let Some(items) = operand_list(0)? else {
        if name == "$size" {
            let message = format!(
                "The argument to $size must be an array, but was of type: {}",
                kind_of(&first)
            );
            return Err(StoreError::new(17124, message));
        }
        return Ok(Some(Bson::Null));
    };
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
            let wanted = null_if_missing(values.get(1).cloned().flatten());
            let place = items.iter().position(|item| equal(item, &wanted));
            Some(Bson::Int32(
                place.and_then(|p| i32::try_from(p).ok()).unwrap_or(-1),
            ))
        }
    })
}

fn kind_of(value: &Option<Bson>) -> &'static str {
    value.as_ref().map_or("missing", type_name)
}

fn contains(name: &str, operand: &Bson, scope: &Scope<'_>) -> Evaluated {
    let [wanted, within] = exactly(name, operand, scope)?;
    let Some(Bson::Array(items)) = within else {
        let message = format!(
            "$in requires an array as a second argument, found: {}",
            kind_of(&within)
        );
        return Err(StoreError::new(40081, message));
    };
    let wanted = null_if_missing(wanted);
    Ok(Some(items.iter().any(|item| equal(item, &wanted)).into()))
}

fn range(values: &[Option<Bson>]) -> Evaluated {
    let read = |i: usize| {
        values
            .get(i)
            .and_then(Option::as_ref)
            .and_then(number::truncated)
    };
    let (start, end, step) = (read(0).unwrap_or(0), read(1).unwrap_or(0), read(2));
    let step = step.unwrap_or(1);
    if step == 0 {
        return Err(StoreError::new(
            34449,
            "$range requires a non-zero step value",
        ));
    }
    let count = (end.saturating_sub(start) / step)
        .saturating_add(1)
        .clamp(0, MAX_RANGE);
    let inside = |n: &i64| if step > 0 { *n < end } else { *n > end };
    let numbers = (0..count).map(|i| start + i * step).take_while(inside);
    let numbers = numbers.map(|n| i32::try_from(n).map_or(Bson::Int64(n), Bson::Int32));
    Ok(Some(Bson::Array(numbers.collect())))
}

/// The operators on several arrays; null if one of them is.
fn combine(name: &str, values: &[Option<Bson>]) -> Evaluated {
    let lists: Option<Vec<&Vec<Bson>>> = values
        .iter()
        .map(|v| v.as_ref().and_then(Bson::as_array))
        .collect();
    match (name, lists) {
        ("$concatArrays", Some(lists)) => Ok(Some(Bson::Array(
            lists.into_iter().flatten().cloned().collect(),
        ))),
        (_, Some(lists)) => Ok(Some(Bson::Array(sets(name, &lists)))),
        (_, None) => {
            match values
                .iter()
                .find(|v| !is_null(v) && !matches!(v, Some(Bson::Array(_))))
            {
                Some(other) => Err(StoreError::new(
                    28664,
                    format!("{name} only supports arrays, not {}", kind_of(other)),
                )),
                None => Ok(Some(Bson::Null)),
            }
        }
    }
}

/// A part of an array: the first or, if negative, the last ones, or some after a start.
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

fn sets(name: &str, lists: &[&Vec<Bson>]) -> Vec<Bson> {
    let mut result: Vec<Bson> = Vec::new();
    let add = |item: &Bson, result: &mut Vec<Bson>| {
        if !result.iter().any(|r| equal(r, item)) {
            result.push(item.clone());
        }
    };
    let contains = |list: &[Bson], item: &Bson| list.iter().any(|i| equal(i, item));
    match (name, lists) {
        ("$setUnion", lists) => {
            lists
                .iter()
                .flat_map(|l| l.iter())
                .for_each(|item| add(item, &mut result));
        }
        ("$setIntersection", [first, rest @ ..]) => first
            .iter()
            .filter(|item| rest.iter().all(|list| contains(list, item)))
            .for_each(|item| add(item, &mut result)),
        (_, [first, second, ..]) => first
            .iter()
            .filter(|item| !contains(second, item))
            .for_each(|item| add(item, &mut result)),
        _ => {}
    }
    result
}

fn get_field(name: &str, operand: &Bson, scope: &Scope<'_>) -> Evaluated {
    let (field, input) = match operand {
        Bson::Document(d) if d.contains_key("field") => {
            let input = d
                .get("input")
                .map_or(Ok(Some(Bson::Document(scope.root.clone()))), |input| {
                    eval(input, scope)
                })?;
            (argument(name, operand, "field")?, input)
        }
        other => (other.clone(), Some(Bson::Document(scope.root.clone()))),
    };
    let field = eval(&field, scope)?;
    let field = field.as_ref().and_then(Bson::as_str).unwrap_or_default();
    Ok(input
        .as_ref()
        .and_then(Bson::as_document)
        .and_then(|d| d.get(field))
        .cloned())
}

pub(super) fn objects(name: &str, operand: &Bson, scope: &Scope<'_>) -> Evaluated {
    if name == "$getField" {
        return get_field(name, operand, scope);
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
            Some(Bson::Document(document)) => Bson::Array(
                document
                    .into_iter()
                    .map(|(k, v)| Bson::Document(bson::doc! { "k": k, "v": v }))
                    .collect(),
            ),
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
