//! Compares log messages with those that an official test file expects.

use crate::collector::Line;
use onionskin_tests::matching::match_root;
use serde_json::Value;

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
    match_root(&expected["data"], &line.fields)
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
