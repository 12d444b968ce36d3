//! The update operators on single values, and the checks of all operands.

use bson::{Bson, Document, Timestamp};

use super::{Answer, Effect, Operation, arrays};
use crate::store::error::StoreError;
use crate::store::expression::EvaluationContext;
use crate::store::order::{display, identical, type_name};
use crate::store::{number, path};

/// Returns an error if an operand is malformed. No document is needed for this check.
pub(super) fn check(operator: &str, path: &str, operand: &Bson) -> Answer<()> {
    match (operator, operand) {
        ("$inc" | "$mul", value) if !number::is_number(value) => {
            let verb = if operator == "$inc" {
                "increment"
            } else {
                "multiply"
            };
            Err(StoreError::type_mismatch(format!(
                "Cannot {verb} with non-numeric argument: {{{path}: {}}}",
                display(value)
            )))
        }
        ("$rename", Bson::String(to)) => {
            super::paths::check(to)?;
            check_rename(path, to)
        }
        ("$rename", other) => Err(StoreError::bad_value(format!(
            "The 'to' field for $rename must be a string: {path}: {}",
            display(other)
        ))),
        ("$pullAll", value) if !matches!(value, Bson::Array(_)) => {
            let kind = type_name(value);
            let text = format!("$pullAll requires an array argument but was given a {kind}");
            Err(StoreError::bad_value(text))
        }
        ("$pop", value) => match number::as_integer(value) {
            Some(1 | -1) => Ok(()),
            Some(n) => Err(StoreError::failed_to_parse(format!(
                "$pop expects 1 or -1, found: {n}"
            ))),
            None => Err(StoreError::failed_to_parse(format!(
                "Expected a number in: {path}: {}",
                display(value)
            ))),
        },
        ("$push" | "$addToSet", Bson::Document(modifiers)) => arrays::check(operator, modifiers),
        ("$currentDate", value) => date_kind(value).map(|_| ()),
        ("$bit", Bson::Document(given)) => check_bits(given),
        ("$bit", value) => Err(StoreError::bad_value(format!(
            "The $bit modifier is not compatible with a {}. You must pass in an embedded \
                 document: {{$bit: {{field: {{and/or/xor: #}}}}",
            type_name(value)
        ))),
        _ => Ok(()),
    }
}

fn check_rename(from: &str, to: &str) -> Answer<()> {
    let is_above = |a: &str, b: &str| b.strip_prefix(a).is_some_and(|rest| rest.starts_with('.'));
    if from == to {
        return Err(StoreError::bad_value(format!(
            "The source and target field for $rename must differ: {from}: \"{to}\""
        )));
    }
    if is_above(from, to) || is_above(to, from) {
        return Err(StoreError::bad_value(format!(
            "The source and target field for $rename must not be on the same path: {from}: \
             \"{to}\""
        )));
    }
    for (side, path) in [("source", from), ("destination", to)] {
        if super::paths::is_dynamic(path) {
            let text = format!("The {side} field for $rename may not be dynamic: {path}");
            return Err(StoreError::bad_value(text));
        }
    }
    Ok(())
}

fn date_kind(value: &Bson) -> Answer<&'static str> {
    match value {
        Bson::Boolean(_) => Ok("date"),
        Bson::Document(inner) if inner.keys().any(|name| name != "$type") => {
            let other = inner.keys().find(|name| *name != "$type");
            let text = format!(
                "Unrecognized $currentDate option: {}",
                other.map_or("", String::as_str)
            );
            Err(StoreError::bad_value(text))
        }
        Bson::Document(inner) => match inner.get_str("$type") {
            Ok("date") => Ok("date"),
            Ok("timestamp") => Ok("timestamp"),
            _ => Err(StoreError::bad_value(
                "The '$type' string field is required to be 'date' or 'timestamp': \
                 {$currentDate: {field : {$type: 'date'}}}",
            )),
        },
        other => Err(StoreError::bad_value(format!(
            "{} is not valid type for $currentDate. Please use a boolean ('true') or a $type \
             expression ({{$type: 'timestamp/date'}}).",
            type_name(other)
        ))),
    }
}

/// Returns the effect of an operator on the value at a path.
pub(super) fn effect(
    operation: &Operation,
    document: &Document,
    target: &str,
    context: &EvaluationContext,
) -> Answer<Effect> {
    let current = path::exact(document, target);
    let operand = &operation.operand;
    let set = |value: Bson| match current {
        Some(before) if identical(before, &value) => Ok(Effect::Keep),
        _ => Ok(Effect::Set(value)),
    };
    match operation.operator {
        "$set" | "$setOnInsert" => set(operand.clone()),
        "$unset" if current.is_none() => Ok(Effect::Keep),
        "$unset" => Ok(Effect::Unset),
        "$inc" | "$mul" => match (current, arithmetic(operation, document, target, current)?) {
            // The server compares the numbers, and -0.0 equals 0.0.
            (Some(Bson::Double(before)), Bson::Double(after)) if *before == after => {
                Ok(Effect::Keep)
            }
            (_, value) => set(value),
        },
        "$min" | "$max" => {
            let wanted = if operation.operator == "$min" {
                std::cmp::Ordering::Less
            } else {
                std::cmp::Ordering::Greater
            };
            match current {
                Some(before) if context.compare(operand, before) != wanted => Ok(Effect::Keep),
                _ => Ok(Effect::Set(operand.clone())),
            }
        }
        "$currentDate" => match date_kind(operand)? {
            "date" => set(Bson::DateTime(context.now)),
            _ => {
                let Timestamp { time, increment } = context.timestamp;
                set(Bson::Timestamp(Timestamp { time, increment }))
            }
        },
        "$bit" => set(bitwise(operation, target, current)?),
        _ => arrays::effect(operation, document, target, current, context),
    }
}

/// Returns the document's `_id` as the server's messages print it.
pub(super) fn id_of(document: &Document) -> String {
    format!(
        "{{_id: {}}}",
        display(document.get("_id").unwrap_or(&Bson::Null))
    )
}

fn last_part(target: &str) -> &str {
    target.rsplit('.').next().unwrap_or(target)
}

fn arithmetic(
    operation: &Operation,
    document: &Document,
    target: &str,
    current: Option<&Bson>,
) -> Answer<Bson> {
    let adding = operation.operator == "$inc";
    let operand = &operation.operand;
    let Some(before) = current else {
        if adding {
            return Ok(operand.clone());
        }
        return Ok(number::multiply(&Bson::Int32(0), operand).unwrap_or(Bson::Int32(0)));
    };
    if !number::is_number(before) {
        return Err(StoreError::type_mismatch(format!(
            "Cannot apply {} to a value of non-numeric type. {} has the field '{}' of \
             non-numeric type {}",
            operation.operator,
            id_of(document),
            last_part(target),
            type_name(before)
        )));
    }
    let result = if adding {
        number::add(before, operand)
    } else {
        number::multiply(before, operand)
    };
    result.ok_or_else(|| {
        StoreError::bad_value(format!(
            "Failed to apply {} operations to current value ((NumberLong){}) for document {}",
            operation.operator,
            display(before),
            id_of(document)
        ))
    })
}

fn integer(value: &Bson) -> Option<i64> {
    match value {
        Bson::Int32(n) => Some(i64::from(*n)),
        Bson::Int64(n) => Some(*n),
        _ => None,
    }
}

/// Checks the operations of `$bit`.
fn check_bits(given: &Document) -> Answer<()> {
    if given.is_empty() {
        return Err(StoreError::bad_value(
            "You must pass in at least one bitwise operation. The format is: {$bit: {field: \
             {and/or/xor: #}}",
        ));
    }
    for (name, operand) in given {
        let shown = display(operand);
        if !matches!(name.as_str(), "and" | "or" | "xor") {
            return Err(StoreError::bad_value(format!(
                "The $bit modifier only supports 'and', 'or', and 'xor', not '{name}' which is an \
                 unknown operator: {{{name}: {shown}}}"
            )));
        }
        if integer(operand).is_none() {
            return Err(StoreError::bad_value(format!(
                "The $bit modifier field must be an Integer(32/64 bit); a '{}' is not supported \
                 here: {{{name}: {shown}}}",
                type_name(operand)
            )));
        }
    }
    Ok(())
}

fn bitwise(operation: &Operation, target: &str, current: Option<&Bson>) -> Answer<Bson> {
    let mut value = current.cloned().unwrap_or(Bson::Int32(0));
    for (name, operand) in operation.operand.as_document().into_iter().flatten() {
        let Some(before) = integer(&value) else {
            return Err(StoreError::bad_value(format!(
                "Cannot apply $bit to a value of non-integral type: the field '{}' has type {}",
                last_part(target),
                type_name(&value)
            )));
        };
        let bits = integer(operand).unwrap_or_default();
        let result = match name.as_str() {
            "and" => before & bits,
            "or" => before | bits,
            _ => before ^ bits,
        };
        value = match (&value, operand, i32::try_from(result)) {
            (Bson::Int32(_), Bson::Int32(_), Ok(small)) => Bson::Int32(small),
            _ => Bson::Int64(result),
        };
    }
    Ok(value)
}
