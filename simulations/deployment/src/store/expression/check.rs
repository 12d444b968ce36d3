//! Checks expressions when a pipeline or a filter is parsed.

use bson::{Bson, Document};

use super::dates::check_parts;
use super::known::{Count, Form, form_of};
use super::named;
use super::operator;
use super::sets::check_zip;
use crate::store::error::StoreError;
use crate::store::order::{display_document, type_name};
use crate::store::release::Release;
use crate::store::sort::Sort;
use crate::store::{Answer, path};

/// The largest depth of nested expressions.
const MAX_DEPTH: usize = 100;

/// Checks an expression before its evaluation. An operator that the release does not have, a
/// further field beside an operator, a wrong number of operands, an argument that is unknown or
/// missing, a malformed path or name of a field and too deep nesting are errors.
pub(crate) fn check(expression: &Bson, release: Release) -> Answer<()> {
    check_at(expression, release, 0)
}

fn check_at(expression: &Bson, release: Release, depth: usize) -> Answer<()> {
    if depth > MAX_DEPTH {
        return Err(StoreError::new(15, "Expression is nested too deeply"));
    }
    let check_inner = |inner: &Bson| check_at(inner, release, depth + 1);
    match expression {
        Bson::Array(items) => items.iter().try_for_each(check_inner),
        Bson::Document(document) => match operator(document) {
            Some(("$literal", _)) => Ok(()),
            Some((name, operand)) => {
                if document.len() > 1 {
                    return Err(StoreError::new(
                        15983,
                        format!(
                            "An object representing an expression must have exactly one field: {}",
                            display_document(document)
                        ),
                    ));
                }
                let form = form_of(name, release).ok_or_else(|| unrecognized(name))?;
                check_form(name, form, operand)?;
                check_operands(form, operand, release, depth + 1)
            }
            None => {
                let mut names = document.keys();
                names.try_for_each(|name| path::check_name(name))?;
                document.values().try_for_each(check_inner)
            }
        },
        Bson::String(text) if text == "$" => Err(StoreError::new(
            16872,
            "'$' by itself is not a valid FieldPath",
        )),
        Bson::String(text) => match (text.strip_prefix("$$"), text.strip_prefix('$')) {
            (Some(variable), _) if variable.is_empty() || variable.starts_with('.') => {
                Err(StoreError::new(9, "empty variable names are not allowed"))
            }
            (Some(path), _) | (None, Some(path)) => path::check_field(path),
            (None, None) => Ok(()),
        },
        _ => Ok(()),
    }
}

fn unrecognized(name: &str) -> StoreError {
    StoreError::new(168, format!("Unrecognized expression '{name}'"))
}

/// Checks the operand of an operator or of an accumulator, with the expressions in it.
pub(crate) fn check_operand(
    name: &str,
    form: Form,
    operand: &Bson,
    release: Release,
) -> Answer<()> {
    check_form(name, form, operand)?;
    check_operands(form, operand, release, 0)
}

/// Checks the expressions in the operand of an operator.
fn check_operands(form: Form, operand: &Bson, release: Release, depth: usize) -> Answer<()> {
    match (form, operand) {
        (Form::Named(_) | Form::Either(..), Bson::Document(given)) if operator(given).is_none() => {
            // A pattern of a sort is no expression.
            let mut given = given.iter().filter(|(name, _)| *name != "sortBy");
            given.try_for_each(|(_, argument)| check_at(argument, release, depth))
        }
        (_, operand) => check_at(operand, release, depth),
    }
}

/// Checks the operand of an operator, without the expressions in it.
fn check_form(name: &str, form: Form, operand: &Bson) -> Answer<()> {
    match form {
        Form::Free => Ok(()),
        Form::Refused => {
            let error = match name {
                "$accumulator" | "$function" => StoreError::without_javascript(),
                _ => unrecognized(name),
            };
            Err(error.not_simulated(name))
        }
        Form::Nothing => match operand {
            Bson::Document(given) if given.is_empty() => Ok(()),
            Bson::Array(given) if given.is_empty() => Ok(()),
            Bson::Document(_) | Bson::Array(_) => {
                let text = format!("{name} does not currently accept arguments");
                Err(StoreError::new(3_040_501, text))
            }
            _ => {
                let text = format!("invalid parameter: expected an object ({name})");
                Err(StoreError::new(10065, text))
            }
        },
        Form::List(count) => check_count(name, count, operand),
        Form::Either(named, count) => match operand {
            // Every document is named arguments of `$cond`, also one that begins as an operator.
            Bson::Document(given) if name == "$cond" || operator(given).is_none() => {
                named.check(name, operand).map(|_| ())
            }
            _ => check_count(name, count, operand),
        },
        Form::Named(named) => check_arguments(name, named.check(name, operand)?),
    }
}

fn check_count(name: &str, count: Count, operand: &Bson) -> Answer<()> {
    let given = operand.as_array().map_or(1, Vec::len);
    let (is_valid, code, text) = match count {
        Count::Any => return Ok(()),
        Count::Exactly(wanted) => (
            given == wanted,
            16020,
            format!("Expression {name} takes exactly {wanted} arguments. {given} were passed in."),
        ),
        Count::One(code) => (
            given == 1,
            code,
            format!("{name} requires a single argument, got {given}"),
        ),
        Count::AtLeastTwo(code) => (
            given >= 2,
            code,
            format!("{name} needs at least two arguments, had: {given}"),
        ),
        Count::Between(least, most) => (
            (least..=most).contains(&given),
            28667,
            format!(
                "Expression {name} takes at least {least} arguments, and at most {most}, but \
                 {given} were passed in."
            ),
        ),
    };
    match is_valid {
        true => Ok(()),
        false => Err(StoreError::new(code, text)),
    }
}

/// Checks the named arguments whose form is limited further.
fn check_arguments(name: &str, given: &Document) -> Answer<()> {
    match name {
        "$map" | "$filter" => match given.get("as") {
            None => Ok(()),
            Some(variable) => check_variable_name(variable.as_str().unwrap_or_default()),
        },
        "$let" => match given.get("vars") {
            Some(Bson::Document(variables)) => {
                let mut names = variables.keys().filter(|name| *name != "CURRENT");
                names.try_for_each(|name| check_variable_name(name))
            }
            _ => {
                let text = "invalid parameter: expected an object (vars)";
                Err(StoreError::new(10065, text))
            }
        },
        "$top" | "$bottom" | "$topN" | "$bottomN" => match given.get("sortBy") {
            Some(Bson::Document(pattern)) => Sort::new(pattern).map(|_| ()),
            _ => {
                let text = "invalid parameter: expected an object (sortBy)";
                Err(StoreError::new(10065, text))
            }
        },
        "$switch" => check_branches(given.get("branches")),
        "$zip" => check_zip(given),
        "$dateFromParts" => check_parts(given),
        _ => Ok(()),
    }
}

fn check_branches(branches: Option<&Bson>) -> Answer<()> {
    let Some(Bson::Array(branches)) = branches else {
        let kind = branches.map_or("missing", type_name);
        let text = format!("$switch expected an array for 'branches', found: {kind}");
        return Err(StoreError::new(40061, text));
    };
    if branches.is_empty() {
        let text = "$switch requires at least one branch";
        return Err(StoreError::new(40068, text));
    }
    let mut branches = branches.iter();
    branches.try_for_each(|branch| named::BRANCH.check("$switch branch", branch).map(|_| ()))
}

/// Returns an error if a user must not define a variable of this name.
pub(crate) fn check_variable_name(name: &str) -> Result<(), StoreError> {
    let Some(first) = name.chars().next() else {
        return Err(StoreError::new(
            16866,
            "empty variable names are not allowed",
        ));
    };
    if first.is_ascii() && !first.is_ascii_lowercase() {
        let text = format!("'{name}' starts with an invalid character for a user variable name");
        return Err(StoreError::new(16867, text));
    }
    let is_valid = |c: char| !c.is_ascii() || c.is_ascii_alphanumeric() || c == '_';
    match name.chars().find(|c| !is_valid(*c)) {
        None => Ok(()),
        Some(c) => {
            let text = format!("'{name}' contains an invalid character for a variable name: '{c}'");
            Err(StoreError::new(16868, text))
        }
    }
}
