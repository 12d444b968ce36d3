//! Compares values with those that an official test file expects, as the unified test format says.
//!
//! Values of BSON are given as relaxed extended JSON. An operator that is not known, such as
//! `$$matchesEntity`, is an error.

use bson::Bson;
use serde_json::{Map, Value};

/// Compares a root document, in which only the expected fields count.
pub fn match_root(expected: &Value, actual: &Map<String, Value>) -> Result<(), String> {
    let expected = expected.as_object().ok_or("the expectation is no object")?;
    for (key, expected) in expected {
        match_value(expected, actual.get(key)).map_err(|why| format!("{key}: {why}"))?;
    }
    Ok(())
}

/// Compares a value with the expected one. `None` stands for a missing value. A document must not
/// have other fields than the expected ones.
pub fn match_value(expected: &Value, actual: Option<&Value>) -> Result<(), String> {
    if let Some((operator, argument)) = operator(expected) {
        return special(operator, argument, actual);
    }
    let actual = actual.ok_or("it is missing")?;
    if let Some(plain) = relaxed(expected) {
        return match_value(&plain, Some(actual));
    }
    match (expected, actual) {
        (Value::Object(expected), Value::Object(actual)) => {
            if let Some(key) = actual.keys().find(|key| !expected.contains_key(*key)) {
                return Err(format!("{key} is not expected"));
            }
            match_root(&Value::Object(expected.clone()), actual)
        }
        (Value::Array(expected), Value::Array(actual)) if expected.len() == actual.len() => {
            let mut pairs = expected.iter().zip(actual);
            pairs.try_for_each(|(expected, actual)| match_value(expected, Some(actual)))
        }
        (Value::Number(expected), Value::Number(actual)) => {
            let same = expected.as_f64() == actual.as_f64();
            same.then_some(()).ok_or_else(|| format!("it is {actual}"))
        }
        (expected, actual) if expected == actual => Ok(()),
        (_, actual) => Err(format!("it is {actual}")),
    }
}

/// Returns a value of extended JSON in the relaxed form, which values of this form are compared
/// with. `None` if the value has no other form.
fn relaxed(expected: &Value) -> Option<Value> {
    let key = expected.as_object()?.keys().next()?;
    let value = key.starts_with('$').then(|| expected.clone())?;
    let relaxed = Bson::try_from(value).ok()?.into_relaxed_extjson();
    (relaxed != *expected).then_some(relaxed)
}

fn operator(expected: &Value) -> Option<(&str, &Value)> {
    let (key, argument) = expected.as_object()?.iter().next()?;
    key.starts_with("$$").then_some((key.as_str(), argument))
}

fn special(operator: &str, argument: &Value, actual: Option<&Value>) -> Result<(), String> {
    match operator {
        "$$exists" if *argument == Value::Bool(actual.is_some()) => Ok(()),
        "$$exists" => Err(format!("it is {actual:?}")),
        "$$unsetOrMatches" if actual.is_none() => Ok(()),
        "$$unsetOrMatches" => match_value(argument, actual),
        "$$type" => {
            let actual = actual.ok_or("it is missing")?;
            let is = |name: &Value| match name.as_str() {
                Some("string") => actual.is_string(),
                Some("int" | "long") => actual.is_i64(),
                Some("double") => actual.is_f64(),
                Some("bool") => actual.is_boolean(),
                Some("object") => actual.is_object(),
                Some("array") => actual.is_array(),
                _ => false,
            };
            let fits = argument
                .as_array()
                .map_or_else(|| is(argument), |all| all.iter().any(is));
            fits.then_some(()).ok_or_else(|| format!("it is {actual}"))
        }
        "$$matchAsDocument" => {
            let text = actual.and_then(Value::as_str).ok_or("it is no text")?;
            let document: Value =
                serde_json::from_str(text).map_err(|error| format!("{text}: {error}"))?;
            match_value(argument, Some(&document))
        }
        "$$matchAsRoot" => {
            let document = actual
                .and_then(Value::as_object)
                .ok_or("it is no document")?;
            match_root(argument, document)
        }
        other => Err(format!("{other} is not known to the runner")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_match_by_the_rules_of_the_unified_test_format() {
        let actual = json!({ "a": 1, "b": { "c": "x", "d": [1, 2] } });
        let actual = actual.as_object().expect("a document");
        for (expected, is_met) in [
            (json!({}), true),
            (json!({ "a": 1 }), true),
            (json!({ "a": 1.0 }), true),
            (json!({ "a": { "$numberLong": "1" } }), true),
            (json!({ "a": 2 }), false),
            (json!({ "z": 1 }), false),
            (json!({ "b": { "c": "x", "d": [1, 2] } }), true),
            (json!({ "b": { "c": "x" } }), false),
            (json!({ "b": { "c": "x", "d": [1] } }), false),
            (
                json!({ "b": { "c": { "$$type": "string" }, "d": { "$$type": "array" } } }),
                true,
            ),
            (json!({ "a": { "$$type": ["string", "bool"] } }), false),
            (
                json!({ "a": { "$$exists": true }, "z": { "$$exists": false } }),
                true,
            ),
            (json!({ "z": { "$$exists": true } }), false),
            (
                json!({ "a": { "$$unsetOrMatches": 1 }, "z": { "$$unsetOrMatches": 1 } }),
                true,
            ),
            (json!({ "a": { "$$unsetOrMatches": 2 } }), false),
            (json!({ "a": { "$$matchesEntity": "x" } }), false),
        ] {
            let found = match_root(&expected, actual);
            assert_eq!(found.is_ok(), is_met, "{expected}: {found:?}");
        }
    }
}
