//! Expressions that branch, bind variables, iterate over arrays and convert types.

use bson::Bson;

use super::operators::{argument, exactly, is_null, null_if_missing};
use super::values::{convert, truthy};
use super::{Evaluated, Scope, evaluate as eval};
use crate::store::error::StoreError;
use crate::store::number;
use crate::store::order::type_name;

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
                    let value = null_if_missing(eval(value, scope)?);
                    inner.bind(variable, value);
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
            return Err(StoreError::new(28651, text));
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
            inner.bind("value", null_if_missing(value));
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
        }
        inner.unbind_to(outer);
    }
    Ok(Some(Bson::Array(result)))
}

pub(super) fn conversion(name: &str, operand: &Bson, scope: &Scope<'_>) -> Evaluated {
    if name == "$convert" {
        let input = eval(argument(name, operand, "input")?, scope)?;
        let to = match eval(argument(name, operand, "to")?, scope)? {
            Some(Bson::String(to)) => to,
            Some(code) => number::as_integer(&code)
                .and_then(crate::store::order::type_of_number)
                .unwrap_or_default()
                .to_owned(),
            None => return Ok(Some(Bson::Null)),
        };
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
