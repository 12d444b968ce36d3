//! Expressions that combine arrays, as lists or as sets.

use std::collections::BTreeSet;

use bson::{Bson, Document};

use super::arguments::is_set;
use super::operators::{argument, is_null, list, null_if_missing};
use super::values::truthy;
use super::{Evaluated, EvaluationContext, Scope, evaluate as eval};
use crate::store::Answer;
use crate::store::error::StoreError;
use crate::store::order::{Key, type_name};

/// Evaluates `$concatArrays` and the operators on sets. The result is null if an operand is null or
/// missing. Operands before it that are no arrays are errors.
pub(super) fn combine(name: &str, values: &[Option<Bson>], scope: &Scope<'_>) -> Evaluated {
    if name == "$setDifference" && values.iter().any(is_null) {
        return Ok(Some(Bson::Null));
    }
    let mut lists = Vec::with_capacity(values.len());
    for (index, value) in values.iter().enumerate() {
        match value {
            Some(Bson::Array(items)) => lists.push(items),
            value if is_null(value) => return Ok(Some(Bson::Null)),
            other => return Err(no_array(name, index, kind_of(other.as_ref()))),
        }
    }
    for value in values.iter().flatten() {
        // The operators on sets make a key of each element as well.
        let copies = if name == "$concatArrays" { 1 } else { 2 };
        scope.context.budget.charge_copies(value, copies)?;
    }
    Ok(Some(Bson::Array(match name {
        "$concatArrays" => lists.into_iter().flatten().cloned().collect(),
        _ => sets(name, &lists, scope.context),
    })))
}

/// Returns the error for an operand that must be an array. `index` is its place in the operands.
fn no_array(name: &str, index: usize, kind: &str) -> StoreError {
    let (code, text) = match (name, index) {
        ("$concatArrays", _) => (28664, format!("{name} only supports arrays, not {kind}")),
        ("$setDifference", _) => (
            if index == 0 { 17048 } else { 17049 },
            format!("both operands of {name} must be arrays. One argument is of type: {kind}"),
        ),
        ("$setIsSubset", _) => (
            if index == 0 { 17046 } else { 17042 },
            format!("both operands of {name} must be arrays. One argument is of type: {kind}"),
        ),
        ("$setEquals", index) => (
            5_887_502,
            format!(
                "All operands of $setEquals must be arrays. {}-th argument is of type: {kind}",
                index + 1
            ),
        ),
        ("$setUnion" | "$setIntersection", _) => (
            if name == "$setUnion" { 17043 } else { 17047 },
            format!("All operands of {name} must be arrays. One argument is of type: {kind}"),
        ),
        _ => (
            if name == "$allElementsTrue" {
                17040
            } else {
                17041
            },
            format!("{name}'s argument must be an array, but is {kind}"),
        ),
    };
    StoreError::new(code, text)
}

pub(super) fn kind_of(value: Option<&Bson>) -> &'static str {
    value.map_or("missing", type_name)
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
            let is_other = |v: &&Bson| !second.contains(&context.key(v));
            distinct(&mut first.iter().filter(is_other))
        }
        _ => Vec::new(),
    }
}

/// Evaluates the operators that compare sets, and those that test the elements of a set.
pub(super) fn compare_sets(name: &str, operand: &Bson, scope: &Scope<'_>) -> Evaluated {
    let values = list(operand, scope)?;
    let mut lists = Vec::new();
    for (index, value) in values.iter().enumerate() {
        let Some(Bson::Array(items)) = value else {
            return Err(no_array(name, index, kind_of(value.as_ref())));
        };
        lists.push(items);
    }
    let set = |items: &Vec<Bson>| -> Answer<BTreeSet<Key>> {
        let memory = items.iter().map(crate::store::size::memory).sum();
        scope.context.budget.charge(memory)?;
        Ok(set_of(items, scope.context))
    };
    let answer = match (name, lists.as_slice()) {
        ("$allElementsTrue", [only]) => only.iter().all(truthy),
        ("$anyElementTrue", [only]) => only.iter().any(truthy),
        ("$setIsSubset", [first, second]) => set(first)?.is_subset(&set(second)?),
        ("$setEquals", [first, others @ ..]) => {
            let first = set(first)?;
            let others = others.iter().map(|items| Ok(set(items)? == first));
            let others = others.collect::<Answer<Vec<bool>>>()?;
            others.into_iter().all(|same| same)
        }
        _ => {
            let text = format!("Expression {name} got a wrong number of arguments");
            return Err(StoreError::new(16020, text));
        }
    };
    Ok(Some(answer.into()))
}

/// Checks the arguments of `$zip` that are no expressions.
pub(super) fn check_zip(given: &Document) -> Answer<()> {
    let defaults = given.get("defaults");
    let wrong = match (given.get("inputs"), defaults, given.get("useLongestLength")) {
        (Some(Bson::Array(inputs)), _, _) if inputs.is_empty() => {
            (34465, "$zip requires at least one input array")
        }
        (Some(Bson::Array(inputs)), defaults, is_long) => match (defaults, is_long) {
            (Some(Bson::Array(_)) | None, Some(other)) if other.as_bool().is_none() => {
                (34463, "useLongestLength must be a bool")
            }
            (Some(Bson::Array(_)), is_long) if is_long.and_then(Bson::as_bool) != Some(true) => (
                34466,
                "cannot specify defaults unless useLongestLength is true",
            ),
            (Some(Bson::Array(items)), _) if items.len() != inputs.len() => {
                (34467, "defaults and inputs must have the same length")
            }
            (Some(Bson::Array(_)) | None, _) => return Ok(()),
            _ => (34462, "defaults must be an array of expressions"),
        },
        _ => (34461, "inputs must be an array of expressions"),
    };
    Err(StoreError::new(wrong.0, wrong.1))
}

/// Evaluates `$zip`.
pub(super) fn zip(name: &str, operand: &Bson, scope: &Scope<'_>) -> Evaluated {
    let inputs = argument(name, operand, "inputs")?.as_array();
    let inputs = inputs.map_or(&[][..], Vec::as_slice);
    let is_long = is_set(operand, "useLongestLength");
    let defaults = operand.as_document().and_then(|d| d.get("defaults"));
    let defaults = defaults.and_then(Bson::as_array);
    let defaults = defaults.map_or(&[][..], Vec::as_slice).iter();
    let defaults = defaults.map(|item| Ok(null_if_missing(eval(item, scope)?)));
    let defaults = defaults.collect::<Answer<Vec<_>>>()?;
    let mut lists = Vec::new();
    for input in inputs {
        match eval(input, scope)? {
            Some(Bson::Array(items)) => lists.push(items),
            value if is_null(&value) => return Ok(Some(Bson::Null)),
            other => {
                let kind = kind_of(other.as_ref());
                let text = format!("$zip found a non-array expression in input: {kind}");
                return Err(StoreError::new(34468, text));
            }
        }
    }
    let lengths = lists.iter().map(Vec::len);
    let length = if is_long {
        lengths.max()
    } else {
        lengths.min()
    }
    .unwrap_or(0);
    let budget = &scope.context.budget;
    budget.charge(
        length
            .saturating_mul(lists.len())
            .saturating_mul(size_of::<Bson>()),
    )?;
    let mut rows = Vec::with_capacity(length);
    for at in 0..length {
        let mut row = Vec::with_capacity(lists.len());
        for (place, items) in lists.iter().enumerate() {
            let value = items
                .get(at)
                .or_else(|| defaults.get(place))
                .unwrap_or(&Bson::Null);
            budget.charge_copies(value, 1)?;
            row.push(value.clone());
        }
        rows.push(Bson::Array(row));
    }
    Ok(Some(Bson::Array(rows)))
}
