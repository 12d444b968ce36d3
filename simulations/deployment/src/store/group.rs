//! The stages `$unwind` and `$group`.

use std::collections::BTreeMap;
use std::sync::Arc;

use bson::{Bson, Document, doc};

use super::budget::Budget;
use super::error::StoreError;
use super::expression::{self, EvaluationContext, Form, Scope, named, summary};
use super::operands::{self, Unwind};
use super::order::Key;
use super::pipeline::count_value;
use super::projection::{assign, assign_within, exclude};
use super::release::{Name, Release, name};
use super::types::Shared;
use super::{number, path, size};

type Answer<T> = Result<T, StoreError>;

/// The accumulators of groups, and what each takes as its operand.
const ACCUMULATORS: &[Name<Form>] = &[
    name("$sum", Form::Free),
    name("$avg", Form::Free),
    name("$min", Form::Free),
    name("$max", Form::Free),
    name("$first", Form::Free),
    name("$last", Form::Free),
    name("$push", Form::Free),
    name("$addToSet", Form::Free),
    name("$count", Form::Free).since(5, 0, 0),
    name("$mergeObjects", Form::Free),
    name("$stdDevPop", Form::Free),
    name("$stdDevSamp", Form::Free),
    name("$firstN", Form::Named(named::FIRST_N)).since(5, 2, 0),
    name("$lastN", Form::Named(named::FIRST_N)).since(5, 2, 0),
    name("$minN", Form::Named(named::MIN_N)).since(5, 2, 0),
    name("$maxN", Form::Named(named::MIN_N)).since(5, 2, 0),
    name("$top", Form::Named(named::TOP)).since(5, 2, 0),
    name("$bottom", Form::Named(named::TOP)).since(5, 2, 0),
    name("$topN", Form::Named(named::TOP_N)).since(5, 2, 0),
    name("$bottomN", Form::Named(named::TOP_N)).since(5, 2, 0),
    name("$accumulator", Form::Refused).since(4, 4, 0),
    name("$median", Form::Refused).since(7, 0, 0),
    name("$percentile", Form::Refused).since(7, 0, 0),
    name("$concatArrays", Form::Refused).since(8, 1, 0),
    name("$setUnion", Form::Refused).since(8, 1, 0),
];

/// Returns one copy of a document for each element of the array at the path of `$unwind`. A value
/// other than an array counts as one element. A document with an empty array, null or no value at
/// the path is dropped, or stays with `preserveNullAndEmptyArrays`.
pub(super) fn unwind(documents: &[Shared], operand: &Bson, budget: &Budget) -> Answer<Vec<Shared>> {
    let Unwind {
        field,
        keeps,
        numbering,
    } = operands::unwind(operand)?;
    path::check(field)?;
    path::check(numbering.unwrap_or_default())?;
    let mut result = Vec::new();
    for document in documents {
        let found = path::field(document, field);
        let (items, is_array) = match found {
            Some(Bson::Array(items)) => (items.as_slice(), true),
            Some(value) => (std::slice::from_ref(value), false),
            None => (&[][..], false),
        };
        let is_null = matches!(items, [Bson::Null | Bson::Undefined]) && !is_array;
        if (items.is_empty() || is_null) && !keeps {
            continue;
        }
        let mut push = |mut copy: Document, place: Bson| {
            if let Some(name) = numbering {
                assign(&mut copy, name, place);
            }
            result.push(Arc::new(copy));
        };
        if items.is_empty() {
            budget.hold_document(document)?;
            let rest = match is_array {
                true => exclude(document, field),
                false => Document::clone(document),
            };
            push(rest, Bson::Null);
            continue;
        }
        // The array is replaced by null, so that the copy for each element is small.
        let mut rest = Document::clone(document);
        assign(&mut rest, field, Bson::Null);
        let rest_bytes = size::memory_of_document(&rest)?;
        for (i, item) in (0_i64..).zip(items) {
            budget.charge(rest_bytes)?;
            budget.charge_copies(item, 1)?;
            let mut copy = rest.clone();
            assign_within(&mut copy, field, item.clone(), budget)?;
            push(copy, if is_array { Bson::Int64(i) } else { Bson::Null });
        }
    }
    Ok(result)
}

/// Returns one document for each value of the expression `_id`, in the order in which the values
/// first occur.
pub(super) fn group(
    documents: &[Shared],
    spec: &Document,
    context: &EvaluationContext,
) -> Answer<Vec<Shared>> {
    let fields = accumulators(spec, context.release)?;
    let id = spec
        .get("_id")
        .ok_or_else(|| StoreError::new(15955, "a group specification must include an _id"))?;
    check_id(id, context.release)?;
    let budget = &context.budget;
    let mut order: Vec<Bson> = Vec::new();
    let mut groups: BTreeMap<Key, Vec<&Shared>> = BTreeMap::new();
    for document in documents {
        let scope = Scope::new(document, context);
        let mark = budget.charged();
        let key = expression::evaluate(id, &scope)?.unwrap_or(Bson::Null);
        let members = groups.entry(context.key(&key)).or_default();
        if members.is_empty() {
            budget.charge_copies(&key, 1)?;
            order.push(key);
        } else {
            budget.release_to(mark);
        }
        members.push(document);
    }
    let mut result = Vec::new();
    for key in order {
        let members = groups.remove(&context.key(&key)).unwrap_or_default();
        let mark = budget.charged();
        budget.charge_copies(&key, 1)?;
        let mut row = doc! { "_id": key.clone() };
        for (name, operator, operand) in &fields {
            row.insert(
                *name,
                accumulate(operator, operand, &key, &members, context)?,
            );
        }
        budget.release_to(mark);
        budget.hold_document(&row)?;
        result.push(Arc::new(row));
    }
    Ok(result)
}

/// Returns an error if the `_id` of a group is not valid.
fn check_id(id: &Bson, release: Release) -> Answer<()> {
    let is_flag = |value: &Bson| matches!(value, Bson::Boolean(_)) || number::is_number(value);
    if let Bson::Document(fields) = id
        && fields
            .keys()
            .next()
            .is_some_and(|name| !name.starts_with('$'))
        && fields.values().any(is_flag)
    {
        let text = "$group does not support inclusion-style expressions";
        return Err(StoreError::new(17390, text));
    }
    expression::check(id, release)
}

/// Returns the fields of a group with their accumulators and operands.
fn accumulators(spec: &Document, release: Release) -> Answer<Vec<(&str, &str, &Bson)>> {
    let mut fields = Vec::new();
    for (name, accumulator) in spec.iter().filter(|(name, _)| *name != "_id") {
        let given = accumulator.as_document();
        let first = given.and_then(|given| given.iter().next());
        let Some((operator, operand)) = first.filter(|(operator, _)| operator.starts_with('$'))
        else {
            let text = format!("The field '{name}' must be an accumulator object");
            return Err(StoreError::new(40234, text));
        };
        if name.contains('.') {
            let text = format!("The field name '{name}' cannot contain '.'");
            return Err(StoreError::new(40235, text));
        }
        if name.starts_with('$') {
            let text = format!("The field name '{name}' cannot be an operator name");
            return Err(StoreError::new(40236, text));
        }
        if given.is_some_and(|given| given.len() > 1) {
            let text = format!("The field '{name}' must specify one accumulator");
            return Err(StoreError::new(40238, text));
        }
        if matches!(operand, Bson::Array(_)) {
            let text = format!("The {operator} accumulator is a unary operator");
            return Err(StoreError::new(40237, text));
        }
        let unknown = || StoreError::new(15952, format!("unknown group operator '{operator}'"));
        let form = match Name::find(ACCUMULATORS, operator, release) {
            None => return Err(unknown()),
            Some(Form::Refused) if operator != "$accumulator" => {
                return Err(unknown().not_simulated(operator));
            }
            Some(form) => form,
        };
        expression::check_operand(operator, form, operand, release)?;
        if operator == "$count" && operand.as_document().is_none_or(|given| !given.is_empty()) {
            let text = "$count takes no arguments, i.e. $count:{}";
            return Err(StoreError::type_mismatch(text));
        }
        fields.push((name.as_str(), operator.as_str(), operand));
    }
    Ok(fields)
}

fn accumulate(
    operator: &str,
    operand: &Bson,
    id: &Bson,
    members: &[&Shared],
    context: &EvaluationContext,
) -> Answer<Bson> {
    if operator == "$count" {
        return Ok(count_value(members.len()));
    }
    if operator.ends_with('N') || matches!(operator, "$top" | "$bottom") {
        let members: Vec<&Document> = members.iter().map(|member| &***member).collect();
        return expression::of_group(operator, operand, id, &members, context);
    }
    let mut values = Vec::new();
    for member in members {
        values.push(expression::evaluate(operand, &Scope::new(member, context))?);
    }
    Ok(match operator {
        "$first" => values.into_iter().next().flatten().unwrap_or(Bson::Null),
        "$last" => values.pop().flatten().unwrap_or(Bson::Null),
        "$push" => Bson::Array(values.into_iter().flatten().collect()),
        "$addToSet" => {
            let mut set: BTreeMap<Key, Bson> = BTreeMap::new();
            for value in values.into_iter().flatten() {
                set.entry(context.key(&value)).or_insert(value);
            }
            Bson::Array(set.into_values().collect())
        }
        "$mergeObjects" => expression::merged(values)?,
        _ => {
            let values: Vec<_> = values.into_iter().flatten().collect();
            summary(operator, &values, context)
        }
    })
}
