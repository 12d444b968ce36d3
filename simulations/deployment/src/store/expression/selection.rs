//! Operators that select some values of many, as expressions on arrays and as accumulators.

use std::cmp::Reverse;

use bson::{Bson, Document};

use super::operators::{argument, is_null};
use super::{Evaluated, EvaluationContext, Scope, evaluate as eval};
use crate::store::error::StoreError;
use crate::store::number;
use crate::store::order::{display, type_name};
use crate::store::sort::Sort;

type Answer<T> = Result<T, StoreError>;

/// Evaluates `$firstN`, `$lastN`, `$minN` and `$maxN` on an array.
pub(super) fn of_array(name: &str, operand: &Bson, scope: &Scope<'_>) -> Evaluated {
    let n = count(eval(argument(name, operand, "n")?, scope)?)?;
    match eval(argument(name, operand, "input")?, scope)? {
        Some(Bson::Array(items)) => {
            let values = items.into_iter().map(Some).collect();
            Ok(Some(Bson::Array(some_of(name, n, values, scope.context))))
        }
        _ => Err(StoreError::new(5_788_200, "Input must be an array")),
    }
}

/// Returns the value of `$firstN`, `$lastN`, `$minN`, `$maxN`, `$top`, `$bottom`, `$topN` or
/// `$bottomN` for the documents of a group. `n` can depend on the fields of the group's `_id`.
pub(crate) fn of_group(
    name: &str,
    operand: &Bson,
    id: &Bson,
    members: &[&Document],
    context: &EvaluationContext,
) -> Answer<Bson> {
    let empty = Document::new();
    let fields = id.as_document().unwrap_or(&empty);
    let n = match name {
        "$top" | "$bottom" => 1,
        _ => count(eval(
            argument(name, operand, "n")?,
            &Scope::new(fields, context),
        )?)?,
    };
    if matches!(name, "$firstN" | "$lastN" | "$minN" | "$maxN") {
        let input = argument(name, operand, "input")?;
        let values = members
            .iter()
            .map(|member| eval(input, &Scope::new(member, context)));
        let values = values.collect::<Answer<Vec<_>>>()?;
        return Ok(Bson::Array(some_of(name, n, values, context)));
    }
    let pattern = argument(name, operand, "sortBy")?.as_document();
    let sort = Sort::new(pattern.unwrap_or(&empty))?;
    let output = argument(name, operand, "output")?;
    let mut sorted = members.to_vec();
    sorted.sort_by_cached_key(|member| sort.key(member, context));
    let skipped = match name {
        "$bottom" | "$bottomN" => sorted.len().saturating_sub(n),
        _ => 0,
    };
    let chosen = sorted.into_iter().skip(skipped).take(n);
    let values = chosen.map(|member| {
        let value = eval(output, &Scope::new(member, context))?;
        Ok(value.unwrap_or(Bson::Null))
    });
    let mut values = values.collect::<Answer<Vec<_>>>()?;
    Ok(match name {
        "$top" | "$bottom" => values.pop().unwrap_or(Bson::Null),
        _ => Bson::Array(values),
    })
}

/// Returns the number of values that `n` demands.
fn count(n: Option<Bson>) -> Answer<usize> {
    let n = n.unwrap_or(Bson::Null);
    let Some(whole) = number::as_integer(&n) else {
        let text = format!(
            "Value for 'n' must be of integral type, but found {}",
            display(&n)
        );
        let code = if number::is_number(&n) {
            5_787_903
        } else {
            5_787_902
        };
        return Err(StoreError::new(code, text));
    };
    let n = usize::try_from(whole).ok().filter(|n| *n > 0);
    n.ok_or_else(|| {
        let text = format!("'n' must be greater than 0, found {whole}");
        StoreError::new(5_787_908, text)
    })
}

fn some_of(
    name: &str,
    n: usize,
    values: Vec<Option<Bson>>,
    context: &EvaluationContext,
) -> Vec<Bson> {
    let all = || {
        values
            .iter()
            .map(|value| value.clone().unwrap_or(Bson::Null))
    };
    match name {
        "$firstN" => all().take(n).collect(),
        "$lastN" => all().skip(values.len().saturating_sub(n)).collect(),
        _ => {
            let mut present: Vec<Bson> = values
                .iter()
                .filter(|value| !is_null(value))
                .flatten()
                .cloned()
                .collect();
            match name {
                "$minN" => present.sort_by_cached_key(|value| context.key(value)),
                _ => present.sort_by_cached_key(|value| Reverse(context.key(value))),
            }
            present.truncate(n);
            present
        }
    }
}

/// Evaluates `$sortArray`.
pub(super) fn sort_array(name: &str, operand: &Bson, scope: &Scope<'_>) -> Evaluated {
    let by = argument(name, operand, "sortBy")?;
    let mut items = match eval(argument(name, operand, "input")?, scope)? {
        Some(Bson::Array(items)) => items,
        value if is_null(&value) => return Ok(Some(Bson::Null)),
        other => {
            let kind = other.as_ref().map_or("missing", type_name);
            let text = format!(
                "The input argument to $sortArray must be an array, but was of type: {kind}"
            );
            return Err(StoreError::new(2_942_504, text));
        }
    };
    let context = scope.context;
    match (by, number::as_integer(by)) {
        (Bson::Document(pattern), _) => {
            let (sort, empty) = (Sort::new(pattern)?, Document::new());
            items
                .sort_by_cached_key(|item| sort.key(item.as_document().unwrap_or(&empty), context));
        }
        (_, Some(1)) => items.sort_by_cached_key(|item| context.key(item)),
        (_, Some(-1)) => items.sort_by_cached_key(|item| Reverse(context.key(item))),
        _ => {
            let text = "$sortArray requires 'sortBy' to be 1, -1 or an object";
            return Err(StoreError::new(2_942_507, text));
        }
    }
    Ok(Some(Bson::Array(items)))
}
