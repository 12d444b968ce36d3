//! The update operators on arrays.

use std::collections::BTreeSet;

use bson::{Bson, Document};

use super::operators::id_of;
use super::{Answer, Effect, Operation};
use crate::store::error::StoreError;
use crate::store::expression::{EvaluationContext, slice};
use crate::store::number;
use crate::store::order::{Key, type_name};
use crate::store::sort::Sort;

/// Returns an error if the modifiers of `$push` or `$addToSet` are malformed.
pub(super) fn check(operator: &str, modifiers: &Document) -> Answer<()> {
    if !modifiers.contains_key("$each") {
        return Ok(());
    }
    for (name, value) in modifiers {
        match (operator, name.as_str(), value) {
            (_, "$each", Bson::Array(_)) => {}
            (_, "$each", other) => {
                return Err(if operator == "$push" {
                    let kind = type_name(other);
                    StoreError::bad_value(format!(
                        "The argument to $each in $push must be an array but it was of type: \
                         {kind}"
                    ))
                } else {
                    StoreError::type_mismatch(format!(
                        "The argument to $each in $addToSet must be an array but it was of type {}",
                        type_name(other)
                    ))
                });
            }
            ("$push", "$slice" | "$position", value) => {
                if number::as_integer(value).is_none() {
                    return Err(StoreError::bad_value(format!(
                        "The value for {name} must be an integer value but was given type: {}",
                        type_name(value)
                    )));
                }
            }
            ("$push", "$sort", value) => {
                element_sort(value)?;
            }
            ("$push", _, _) => {
                let text = format!("Unrecognized clause in $push: {name}");
                return Err(StoreError::bad_value(text));
            }
            _ => {
                let text = format!("Found unexpected fields after $each in $addToSet: {name}");
                return Err(StoreError::bad_value(text));
            }
        }
    }
    Ok(())
}

enum ElementSort {
    Whole(bool),
    Fields(Sort),
}

fn element_sort(value: &Bson) -> Answer<ElementSort> {
    match (number::as_integer(value), value) {
        (Some(1), _) => Ok(ElementSort::Whole(false)),
        (Some(-1), _) => Ok(ElementSort::Whole(true)),
        (_, Bson::Document(pattern)) => {
            check_pattern(pattern)?;
            Ok(ElementSort::Fields(Sort::new(pattern)?))
        }
        _ if number::is_number(value) => Err(StoreError::bad_value(
            "The $sort element value must be either 1 or -1",
        )),
        _ => Err(StoreError::bad_value(
            "The $sort is invalid: use 1/-1 to sort the whole element, or {field:1/-1} to sort \
             embedded fields",
        )),
    }
}

fn check_pattern(pattern: &Document) -> Answer<()> {
    if pattern.is_empty() {
        let text = "The $sort pattern is empty when it should be a set of fields.";
        return Err(StoreError::bad_value(text));
    }
    for (name, direction) in pattern {
        if !matches!(number::as_integer(direction), Some(1 | -1)) {
            let text = "The $sort element value must be either 1 or -1";
            return Err(StoreError::bad_value(text));
        }
        if name.is_empty() {
            return Err(StoreError::bad_value("The $sort field cannot be empty"));
        }
        if name.split('.').any(str::is_empty) {
            let text = format!("The $sort field is a dotted field but has an empty part: {name}");
            return Err(StoreError::bad_value(text));
        }
    }
    Ok(())
}

pub(super) fn effect(
    operation: &Operation,
    document: &Document,
    target: &str,
    current: Option<&Bson>,
    context: &EvaluationContext,
) -> Answer<Effect> {
    let operator = operation.operator;
    let adding = matches!(operator, "$push" | "$addToSet");
    let items = match current {
        Some(Bson::Array(items)) => items.clone(),
        None if adding => Vec::new(),
        None => return Ok(Effect::Keep),
        Some(other) => return Err(not_an_array(operation, document, target, other)),
    };
    let before = items.len();
    let result = match operator {
        "$push" => push(items, &operation.operand, context)?,
        "$addToSet" => add_to_set(items, &operation.operand, context),
        "$pop" => pop(items, &operation.operand),
        "$pullAll" => {
            let gone = operation
                .operand
                .as_array()
                .map(Vec::as_slice)
                .unwrap_or_default();
            let gone: BTreeSet<Key> = gone.iter().map(|value| context.key(value)).collect();
            items
                .into_iter()
                .filter(|item| !gone.contains(&context.key(item)))
                .collect()
        }
        _ => {
            let mut kept = Vec::new();
            for item in items {
                let gone = match &operation.pull {
                    Some(matcher) => matcher.matches(&item, context)?,
                    None => false,
                };
                if !gone {
                    kept.push(item);
                }
            }
            kept
        }
    };
    let same = operator != "$push" && result.len() == before && current.is_some();
    Ok(if same {
        Effect::Keep
    } else {
        Effect::Set(Bson::Array(result))
    })
}

fn not_an_array(
    operation: &Operation,
    document: &Document,
    target: &str,
    other: &Bson,
) -> StoreError {
    let kind = type_name(other);
    match operation.operator {
        "$push" => StoreError::bad_value(format!(
            "The field '{target}' must be an array but is of type {kind} in document {}",
            id_of(document)
        )),
        "$addToSet" => StoreError::bad_value(format!(
            "Cannot apply $addToSet to non-array field. Field named '{target}' has non-array type \
             {kind}"
        )),
        "$pop" => StoreError::type_mismatch(format!(
            "Path '{target}' contains an element of non-array type '{kind}'"
        )),
        _ => StoreError::bad_value("Cannot apply $pull to a non-array value"),
    }
}

fn push(mut items: Vec<Bson>, operand: &Bson, context: &EvaluationContext) -> Answer<Vec<Bson>> {
    let modifiers = operand.as_document().filter(|d| d.contains_key("$each"));
    let Some(modifiers) = modifiers else {
        items.push(operand.clone());
        return Ok(items);
    };
    let each = modifiers.get_array("$each").cloned().unwrap_or_default();
    let length = i64::try_from(items.len()).unwrap_or(i64::MAX);
    let place = modifiers
        .get("$position")
        .and_then(number::as_integer)
        .unwrap_or(length);
    let place = if place < 0 {
        (length + place.max(-length)).max(0)
    } else {
        place.min(length)
    };
    let place = usize::try_from(place).unwrap_or(items.len());
    items.splice(place..place, each);
    if let Some(order) = modifiers.get("$sort") {
        match element_sort(order)? {
            ElementSort::Whole(descending) => items.sort_by(|a, b| {
                let order = context.compare(a, b);
                if descending { order.reverse() } else { order }
            }),
            ElementSort::Fields(sort) => {
                let empty = Document::new();
                items.sort_by_cached_key(|item| {
                    sort.exact_key(item.as_document().unwrap_or(&empty), context)
                });
            }
        }
    }
    if let Some(count) = modifiers.get("$slice").and_then(number::as_integer) {
        items = slice(&items, None, count);
    }
    Ok(items)
}

fn add_to_set(mut items: Vec<Bson>, operand: &Bson, context: &EvaluationContext) -> Vec<Bson> {
    let each = operand
        .as_document()
        .and_then(|d| d.get_array("$each").ok());
    let wanted = each.map_or_else(|| std::slice::from_ref(operand), Vec::as_slice);
    let mut present: BTreeSet<Key> = items.iter().map(|value| context.key(value)).collect();
    let fresh = wanted
        .iter()
        .filter(|value| present.insert(context.key(value)));
    let fresh: Vec<Bson> = fresh.cloned().collect();
    items.extend(fresh);
    items
}

fn pop(mut items: Vec<Bson>, operand: &Bson) -> Vec<Bson> {
    if number::as_integer(operand) == Some(-1) && !items.is_empty() {
        items.remove(0);
    } else {
        items.pop();
    }
    items
}
