//! Expressions on documents.

use bson::{Bson, Document};

use super::operators::{argument, exactly, is_null, list};
use super::sets::kind_of;
use super::{Evaluated, Scope, evaluate as eval, operator};
use crate::store::error::StoreError;
use crate::store::order::{display, type_name};
use crate::store::{Answer, size};

pub(super) fn objects(name: &str, operand: &Bson, scope: &Scope<'_>) -> Evaluated {
    match name {
        "$getField" => get_field(operand, scope),
        "$binarySize" | "$bsonSize" => encoded_size(name, operand, scope),
        "$setField" | "$unsetField" => set_field(name, operand, scope),
        "$mergeObjects" => merge(operand, scope),
        "$objectToArray" => to_array(name, operand, scope),
        _ => from_array(name, operand, scope),
    }
}

/// Evaluates `$getField`. Its operand is the name of a field of the current document, or a document
/// with `field` and `input`.
fn get_field(operand: &Bson, scope: &Scope<'_>) -> Evaluated {
    let (field, input) = match operand {
        Bson::Document(d) if operator(d).is_none() => (
            argument("$getField", operand, "field")?,
            Some(argument("$getField", operand, "input")?),
        ),
        other => (other, None),
    };
    let field = match eval(field, scope)? {
        Some(Bson::String(field)) => field,
        other => {
            let kind = kind_of(other.as_ref());
            let text =
                format!("$getField requires 'field' to evaluate to type String, but got {kind}");
            return Err(StoreError::new(3_041_704, text));
        }
    };
    let copied = |document: &Document| {
        let value = document.get(&field);
        value.map_or(Ok(None), |value| scope.copy(value))
    };
    let Some(input) = input else {
        return copied(scope.root);
    };
    match eval(input, scope)? {
        Some(Bson::Document(document)) => copied(&document),
        input if is_null(&input) => Ok(Some(Bson::Null)),
        _ => Ok(None),
    }
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

/// Evaluates `$binarySize` and `$bsonSize`.
fn encoded_size(name: &str, operand: &Bson, scope: &Scope<'_>) -> Evaluated {
    let [value] = exactly(name, operand, scope)?;
    let bytes = match (name, &value) {
        (_, value) if is_null(value) => return Ok(Some(Bson::Null)),
        ("$binarySize", Some(Bson::String(text))) => text.len(),
        ("$binarySize", Some(Bson::Binary(binary))) => binary.bytes.len(),
        ("$bsonSize", Some(Bson::Document(document))) => size::of(document),
        _ => {
            let kind = kind_of(value.as_ref());
            let (code, wanted) = match name {
                "$binarySize" => (51276, "a string or BinData argument"),
                _ => (31393, "a document input"),
            };
            let text = format!("{name} requires {wanted}, found: {kind}");
            return Err(StoreError::new(code, text));
        }
    };
    Ok(Some(Bson::Int32(i32::try_from(bytes).unwrap_or(i32::MAX))))
}

fn merge(operand: &Bson, scope: &Scope<'_>) -> Evaluated {
    let mut values = list(operand, scope)?;
    let values = match values.as_mut_slice() {
        [Some(Bson::Array(items))] => std::mem::take(items).into_iter().map(Some).collect(),
        _ => values,
    };
    merged(values).map(Some)
}

/// Merges documents. Null and missing values have no fields.
pub(crate) fn merged(values: Vec<Option<Bson>>) -> Answer<Bson> {
    let mut merged = Document::new();
    for value in values {
        match value {
            Some(Bson::Document(document)) => merged.extend(document),
            value if is_null(&value) => {}
            other => {
                let shown = other.as_ref().map(display).unwrap_or_default();
                let kind = kind_of(other.as_ref());
                let text = format!(
                    "$mergeObjects requires object inputs, but input {shown} is of type {kind}"
                );
                return Err(StoreError::new(40400, text));
            }
        }
    }
    Ok(Bson::Document(merged))
}

/// Evaluates `$objectToArray`.
fn to_array(name: &str, operand: &Bson, scope: &Scope<'_>) -> Evaluated {
    let document = match exactly(name, operand, scope)? {
        [Some(Bson::Document(document))] => document,
        [value] if is_null(&value) => return Ok(Some(Bson::Null)),
        [other] => {
            let kind = kind_of(other.as_ref());
            let text = format!("$objectToArray requires a document input, found: {kind}");
            return Err(StoreError::new(40390, text));
        }
    };
    // Each field becomes a document of two fields.
    let bytes = document.len().saturating_mul(4 * size_of::<Bson>());
    scope.context.budget.charge(bytes)?;
    let pairs = document.into_iter();
    let pairs = pairs.map(|(k, v)| Bson::Document(bson::doc! { "k": k, "v": v }));
    Ok(Some(Bson::Array(pairs.collect())))
}

/// Evaluates `$arrayToObject`. The first element decides whether all are arrays or all are
/// documents.
fn from_array(name: &str, operand: &Bson, scope: &Scope<'_>) -> Evaluated {
    let items = match exactly(name, operand, scope)? {
        [Some(Bson::Array(items))] => items,
        [value] if is_null(&value) => return Ok(Some(Bson::Null)),
        [other] => {
            let kind = kind_of(other.as_ref());
            let text = format!("$arrayToObject requires an array input, found: {kind}");
            return Err(StoreError::new(40386, text));
        }
    };
    let has_arrays = match items.first() {
        None => return Ok(Some(Bson::Document(Document::new()))),
        Some(Bson::Array(_)) => true,
        Some(Bson::Document(_)) => false,
        Some(other) => {
            let kind = type_name(other);
            let text = format!("Unrecognised input type format for $arrayToObject: {kind}");
            return Err(StoreError::new(40398, text));
        }
    };
    let mut document = Document::new();
    for item in items {
        let (key, value) = match has_arrays {
            true => pair_of_array(item)?,
            false => pair_of_document(item)?,
        };
        if key.contains('\0') {
            let code = if has_arrays { 4_940_400 } else { 4_940_401 };
            let text = "Key field cannot contain an embedded null byte";
            return Err(StoreError::new(code, text));
        }
        document.insert(key, value);
    }
    Ok(Some(Bson::Document(document)))
}

/// Returns the key and the value of an element such as `["key", 1]`.
fn pair_of_array(item: Bson) -> Answer<(String, Bson)> {
    let pair = match item {
        Bson::Array(pair) => pair,
        other => {
            let kind = type_name(&other);
            let text = format!(
                "$arrayToObject requires a consistent input format. Array was detected, now \
                 found: {kind}"
            );
            return Err(StoreError::new(40396, text));
        }
    };
    let pair: [Bson; 2] = pair.try_into().map_err(|pair: Vec<Bson>| {
        let text = format!(
            "$arrayToObject requires an array of size 2 arrays,found array of size: {}",
            pair.len()
        );
        StoreError::new(40397, text)
    })?;
    match pair {
        [Bson::String(key), value] => Ok((key, value)),
        [key, _] => {
            let kind = type_name(&key);
            let text = format!(
                "$arrayToObject requires an array of key-value pairs, where the key must be of \
                 type string. Found key type: {kind}"
            );
            Err(StoreError::new(40395, text))
        }
    }
}

/// Returns the key and the value of an element such as `{k: "key", v: 1}`.
fn pair_of_document(item: Bson) -> Answer<(String, Bson)> {
    let mut pair = match item {
        Bson::Document(pair) => pair,
        other => {
            let kind = type_name(&other);
            let text = format!(
                "$arrayToObject requires a consistent input format. Object was detected, now \
                 found: {kind}"
            );
            return Err(StoreError::new(40391, text));
        }
    };
    let length = pair.len();
    if length != 2 {
        let text = format!(
            "$arrayToObject requires an object keys of 'k' and 'v'. Found incorrect number of \
             keys:{length}"
        );
        return Err(StoreError::new(40392, text));
    }
    match (pair.remove("k"), pair.remove("v")) {
        (Some(Bson::String(key)), Some(value)) => Ok((key, value)),
        (Some(key), Some(_)) => {
            let kind = type_name(&key);
            let text = format!(
                "$arrayToObject requires an object with keys 'k' and 'v', where the value of 'k' \
                 must be of type string. Found type: {kind}"
            );
            Err(StoreError::new(40394, text))
        }
        _ => {
            let text = "$arrayToObject requires an object with keys 'k' and 'v'. Missing either \
                        or both keys";
            Err(StoreError::new(40393, text))
        }
    }
}
