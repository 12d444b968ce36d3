//! Expressions that branch, bind variables, iterate over arrays and convert types.

use bson::Bson;

use super::operators::{argument, exactly, is_null, null_if_missing};
use super::values::{convert, truthy};
use super::{Evaluated, Scope, evaluate as eval};
use crate::store::error::StoreError;
use crate::store::order::{display, type_name, type_of_number};
use crate::store::{Answer, number};

pub(super) fn control(name: &str, operand: &Bson, scope: &Scope<'_>) -> Evaluated {
    match (name, operand) {
        ("$cond", Bson::Document(_)) => {
            let test = eval(argument(name, operand, "if")?, scope)?;
            let key = if test.as_ref().is_some_and(truthy) {
                "then"
            } else {
                "else"
            };
            eval(argument(name, operand, key)?, scope)
        }
        ("$cond", Bson::Array(items)) if items.len() == 3 => {
            let test = eval(&items[0], scope)?.as_ref().is_some_and(truthy);
            eval(&items[if test { 1 } else { 2 }], scope)
        }
        ("$ifNull", Bson::Array(items)) if items.len() > 1 => {
            for item in &items[..items.len() - 1] {
                let value = eval(item, scope)?;
                if !is_null(&value) {
                    return Ok(value);
                }
            }
            eval(&items[items.len() - 1], scope)
        }
        ("$switch", _) => {
            let Bson::Array(branches) = argument(name, operand, "branches")? else {
                return Err(StoreError::new(
                    40061,
                    "$switch expected an array for 'branches'",
                ));
            };
            for branch in branches {
                let test = eval(argument(name, branch, "case")?, scope)?;
                if test.as_ref().is_some_and(truthy) {
                    return eval(argument(name, branch, "then")?, scope);
                }
            }
            match operand.as_document().and_then(|d| d.get("default")) {
                Some(default) => eval(default, scope),
                None => Err(StoreError::new(
                    40066,
                    "$switch could not find a matching branch for an input, and no default was \
                     specified.",
                )),
            }
        }
        ("$let", _) => {
            let mut inner = scope.clone();
            if let Bson::Document(variables) = argument(name, operand, "vars")? {
                for (variable, value) in variables {
                    inner.bind_optional(variable, eval(value, scope)?);
                }
            }
            eval(argument(name, operand, "in")?, &inner)
        }
        _ => exactly::<3>(name, operand, scope).map(|_| None),
    }
}

pub(super) fn iterate(name: &str, operand: &Bson, scope: &Scope<'_>) -> Evaluated {
    let items = match eval(argument(name, operand, "input")?, scope)? {
        Some(Bson::Array(items)) => items,
        value if is_null(&value) => return Ok(Some(Bson::Null)),
        other => {
            let kind = other.as_ref().map_or("missing", type_name);
            let text = format!("input to {name} must be an array not {kind}");
            let code = match name {
                "$map" => 16883,
                "$filter" => 28651,
                _ => 40080,
            };
            return Err(StoreError::new(code, text));
        }
    };
    let variable = operand
        .as_document()
        .and_then(|d| d.get_str("as").ok())
        .unwrap_or("this");
    let budget = &scope.context.budget;
    let mut inner = scope.clone();
    let outer = inner.bound();
    if name == "$reduce" {
        let body = argument(name, operand, "in")?;
        let mark = budget.charged();
        let mut value = eval(argument(name, operand, "initialValue")?, scope)?;
        for item in items {
            inner.bind("this", item);
            inner.bind_optional("value", value);
            value = eval(body, &inner)?;
            inner.unbind_to(outer);
            // The previous value is dropped, so that only the new one is charged.
            budget.release_to(mark);
            if let Some(value) = &value {
                budget.hold_value(value)?;
            }
        }
        return Ok(value);
    }
    let most = filter_limit(name, operand, scope)?;
    let body = argument(name, operand, if name == "$map" { "in" } else { "cond" })?;
    let mut result = Vec::new();
    for item in items {
        let mark = budget.charged();
        if name == "$map" {
            inner.bind(variable, item);
            let value = eval(body, &inner)?;
            result.push(null_if_missing(value));
        } else {
            budget.charge_copies(&item, 1)?;
            inner.bind(variable, item.clone());
            let value = eval(body, &inner)?;
            budget.release_to(mark);
            if value.as_ref().is_some_and(truthy) {
                result.push(item);
            }
            if result.len() >= most {
                break;
            }
        }
        inner.unbind_to(outer);
    }
    Ok(Some(Bson::Array(result)))
}

/// Returns the most elements that a `$filter` keeps. Only `$filter` has the argument `limit`, and
/// null is no limit.
fn filter_limit(name: &str, operand: &Bson, scope: &Scope<'_>) -> Answer<usize> {
    let limit = match operand.as_document().and_then(|d| d.get("limit")) {
        Some(limit) if name == "$filter" => eval(limit, scope)?,
        _ => None,
    };
    if is_null(&limit) {
        return Ok(usize::MAX);
    }
    let limit = null_if_missing(limit);
    let Some(whole) = number::as_int32(&limit) else {
        let shown = display(&limit);
        let text =
            format!("$filter: limit must be represented as a 32-bit integral value: {shown}");
        return Err(StoreError::new(327_391, text));
    };
    let most = usize::try_from(whole).ok().filter(|most| *most > 0);
    most.ok_or_else(|| {
        let text = format!("$filter: limit must be greater than 0: {whole}");
        StoreError::new(327_392, text)
    })
}

pub(super) fn conversion(name: &str, operand: &Bson, scope: &Scope<'_>) -> Evaluated {
    if name == "$convert" {
        let input = eval(argument(name, operand, "input")?, scope)?;
        let to = eval(argument(name, operand, "to")?, scope)?;
        if is_null(&to) {
            return Ok(Some(Bson::Null));
        }
        let to = target(&null_if_missing(to))?;
        let option = |key: &str| operand.as_document().and_then(|d| d.get(key));
        if is_null(&input) {
            return option("onNull").map_or(Ok(Some(Bson::Null)), |e| eval(e, scope));
        }
        return match (convert(&null_if_missing(input), &to), option("onError")) {
            (Err(_), Some(fallback)) => eval(fallback, scope),
            (result, _) => result.map(Some),
        };
    }
    let [value] = exactly(name, operand, scope)?;
    if is_null(&value) {
        return Ok(Some(Bson::Null));
    }
    let to = match name {
        "$toString" => "string",
        "$toInt" => "int",
        "$toLong" => "long",
        "$toDouble" => "double",
        "$toDecimal" => "decimal",
        "$toBool" => "bool",
        "$toDate" => "date",
        _ => "objectId",
    };
    convert(&null_if_missing(value), to).map(Some)
}

/// Returns the name of the type that the argument `to` of `$convert` names, or whose number it is.
fn target(to: &Bson) -> Answer<String> {
    if let Bson::String(name) = to {
        let is_known = TYPES.contains(&name.as_str());
        let unknown = || StoreError::bad_value(format!("Unknown type name: {name}"));
        return is_known.then(|| name.clone()).ok_or_else(unknown);
    }
    if !number::is_number(to) {
        let text = format!(
            "$convert's 'to' argument must be a string or number, but is {}",
            type_name(to)
        );
        return Err(StoreError::failed_to_parse(text));
    }
    let Some(code) = number::as_int32(to) else {
        let text = "In $convert, numeric 'to' argument is not an integer";
        return Err(StoreError::failed_to_parse(text));
    };
    type_of_number(code.into())
        .map(str::to_owned)
        .ok_or_else(|| {
            let text = format!(
                "In $convert, numeric value for 'to' does not correspond to a BSON type: {code}"
            );
            StoreError::failed_to_parse(text)
        })
}

/// The names of the types of BSON.
const TYPES: [&str; 22] = [
    "missing",
    "double",
    "string",
    "object",
    "array",
    "binData",
    "undefined",
    "objectId",
    "bool",
    "date",
    "null",
    "regex",
    "dbPointer",
    "javascript",
    "symbol",
    "javascriptWithScope",
    "int",
    "timestamp",
    "long",
    "decimal",
    "minKey",
    "maxKey",
];
