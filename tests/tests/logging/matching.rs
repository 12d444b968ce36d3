//! Compares log messages with those that an official test file expects.

use crate::collector::Line;
use serde_json::{Map, Value};

/// Compares the log messages of a client with an entry of `expectLogMessages`.
pub(crate) fn compare(expected: &Value, lines: &[Line]) -> Result<(), String> {
    let list = |key: &str| expected[key].as_array().cloned().unwrap_or_default();
    let ignored = list("ignoreMessages");
    let wanted = list("messages");
    let lines: Vec<&Line> = lines
        .iter()
        .filter(|line| !ignored.iter().any(|other| message(other, line).is_ok()))
        .collect();
    let all = || -> Vec<&str> { lines.iter().map(|line| line.message()).collect() };
    let may_go_on = expected["ignoreExtraMessages"] == Value::Bool(true);
    if lines.len() < wanted.len() || (!may_go_on && lines.len() > wanted.len()) {
        return Err(format!(
            "{} messages expected, not {:?}",
            wanted.len(),
            all()
        ));
    }
    for (number, (wanted, line)) in wanted.iter().zip(&lines).enumerate() {
        message(wanted, line)
            .map_err(|why| format!("message {number}: {why}: {line:?}; all are {:?}", all()))?;
    }
    Ok(())
}

fn message(expected: &Value, line: &Line) -> Result<(), String> {
    let level = line.level.as_str().to_lowercase();
    if expected["level"].as_str() != Some(&level) {
        return Err(format!("its level is {level}"));
    }
    if expected["component"].as_str().map(target) != Some(line.target) {
        return Err(format!("it is of {}", line.target));
    }
    if let Some(redacted) = expected.get("failureIsRedacted") {
        let failure = line.fields.get("failure").and_then(Value::as_str);
        let is_redacted = failure.is_some_and(|text| text.contains("no message"));
        if *redacted != Value::Bool(is_redacted) {
            return Err(format!("its failure is {failure:?}"));
        }
    }
    root(&expected["data"], &line.fields)
}

fn target(component: &str) -> &'static str {
    match component {
        "command" => "onionskin::command",
        "topology" => "onionskin::topology",
        "serverSelection" => "onionskin::server_selection",
        "connection" => "onionskin::connection",
        _ => "no such target",
    }
}

/// Compares a root document, in which only the expected fields count.
fn root(expected: &Value, actual: &Map<String, Value>) -> Result<(), String> {
    let expected = expected.as_object().ok_or("the expectation is no object")?;
    for (key, expected) in expected {
        value(expected, actual.get(key)).map_err(|why| format!("{key}: {why}"))?;
    }
    Ok(())
}

fn value(expected: &Value, actual: Option<&Value>) -> Result<(), String> {
    if let Some((operator, argument)) = operator(expected) {
        return special(operator, argument, actual);
    }
    let actual = actual.ok_or("it is missing")?;
    match (expected, actual) {
        (Value::Object(expected), Value::Object(actual)) => {
            if let Some(key) = actual.keys().find(|key| !expected.contains_key(*key)) {
                return Err(format!("{key} is not expected"));
            }
            root(&Value::Object(expected.clone()), actual)
        }
        (Value::Array(expected), Value::Array(actual)) if expected.len() == actual.len() => {
            let mut pairs = expected.iter().zip(actual);
            pairs.try_for_each(|(expected, actual)| value(expected, Some(actual)))
        }
        (Value::Number(expected), Value::Number(actual)) => {
            let same = expected.as_f64() == actual.as_f64();
            same.then_some(()).ok_or_else(|| format!("it is {actual}"))
        }
        (expected, actual) if expected == actual => Ok(()),
        (_, actual) => Err(format!("it is {actual}")),
    }
}

fn operator(expected: &Value) -> Option<(&str, &Value)> {
    let (key, argument) = expected.as_object()?.iter().next()?;
    key.starts_with("$$").then_some((key.as_str(), argument))
}

fn special(operator: &str, argument: &Value, actual: Option<&Value>) -> Result<(), String> {
    match operator {
        "$$exists" if *argument == Value::Bool(actual.is_some()) => Ok(()),
        "$$exists" => Err(format!("it is {actual:?}")),
        "$$type" => {
            let actual = actual.ok_or("it is missing")?;
            let is = |name: &Value| match name.as_str() {
                Some("string") => actual.is_string(),
                Some("int" | "long") => actual.is_i64(),
                Some("double") => actual.is_f64(),
                Some("bool") => actual.is_boolean(),
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
            value(argument, Some(&document))
        }
        "$$matchAsRoot" => {
            let document = actual
                .and_then(Value::as_object)
                .ok_or("it is no document")?;
            root(argument, document)
        }
        other => Err(format!("{other} is not known to the runner")),
    }
}
