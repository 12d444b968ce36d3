//! Reports as text and as JSON.

use crate::{
    Problem, Stage,
    report::{Fact, Report, Status, Step, Value, millis},
};
use onionskin_core::text::{printable, printable_json};
use serde_json::{Map, json};
use std::{fmt::Write as _, time::Duration};

/// The width of the column of statuses.
const STATUS_WIDTH: usize = 6;

/// The total length of texts up to which a list is written on one line.
const SHORT_LIST: usize = 60;

impl Step {
    /// Returns the step as lines of text. With `colour`, the status is coloured by the escape
    /// sequences of terminals. Control characters of peers are escaped, so that a peer cannot send
    /// such sequences.
    #[must_use]
    pub fn to_text(&self, colour: bool) -> String {
        let word = match self.status {
            Status::Ok => "ok",
            Status::Warning => "warn",
            Status::Failed => "FAIL",
            Status::Skipped => "skip",
        };
        let word = format!("{word:STATUS_WIDTH$}");
        let mut text = paint(&word, code_of(self.status), colour);
        text.push_str(self.stage.name());
        if let Some(server) = &self.server {
            let _ = write!(text, " {}", printable(server));
        }
        let _ = match self.duration {
            Duration::ZERO => writeln!(text),
            duration => writeln!(text, " ({:.1} ms)", millis(duration)),
        };
        for fact in &self.facts {
            fact_lines(&mut text, fact, STATUS_WIDTH);
        }
        for problem in &self.problems {
            problem_lines(&mut text, problem, colour);
        }
        text
    }

    fn to_json(&self) -> serde_json::Value {
        let problems = self.problems.iter().map(|problem| {
            json!({
                "severity": problem.severity.name(),
                "message": problem.message,
                "hints": problem.hints,
            })
        });
        json!({
            "stage": self.stage.name(),
            "server": self.server,
            "status": self.status.name(),
            "milliseconds": millis(self.duration),
            "facts": facts_json(&self.facts),
            "problems": problems.collect::<Vec<_>>(),
        })
    }
}

impl Report {
    /// Returns the report as text. With `colour`, it has the escape sequences of terminals.
    #[must_use]
    pub fn to_text(&self, colour: bool) -> String {
        let steps = self.steps.iter().map(|step| step.to_text(colour));
        let mut text: String = steps.collect();
        text.push_str(&self.verdict_text(colour));
        text
    }

    /// Returns the last line of the report, which says whether a client can use the deployment.
    #[must_use]
    pub fn verdict_text(&self, colour: bool) -> String {
        let (warnings, failures) = (self.count(Status::Warning), self.count(Status::Failed));
        let counts = format!(
            "{failures} failed, {warnings} with warnings, of {} steps in {:.1} ms",
            self.steps.len(),
            millis(self.duration)
        );
        let (line, code) = match (self.is_usable, self.failure) {
            (true, None) if warnings + failures == 0 => {
                ("A client can use this deployment".to_owned(), "32")
            }
            (true, _) => (
                "A client can use this deployment, with the problems above".to_owned(),
                "33",
            ),
            (false, stage) => {
                let name = stage.map_or("topology", Stage::name);
                (format!("The check failed at the step {name}"), "1;31")
            }
        };
        format!("{} ({counts}).\n", paint(&line, code, colour))
    }

    /// Returns the report as one JSON document, indented.
    ///
    /// Its fields are `uri`, `usable`, `failedStage`, `exitCode`, `milliseconds` and `steps`. Each
    /// step has `stage`, `server`, `status` (`ok`, `warning`, `failed` or `skipped`),
    /// `milliseconds`, `facts` by name, and `problems` with `severity`, `message` and `hints`.
    /// Times are in milliseconds, and the absence of a limit is `null`.
    #[must_use]
    pub fn to_json(&self) -> String {
        let steps: Vec<_> = self.steps.iter().map(Step::to_json).collect();
        let report = json!({
            "uri": self.uri,
            "usable": self.is_usable,
            "failedStage": self.failure.map(Stage::name),
            "exitCode": self.exit_code(),
            "milliseconds": millis(self.duration),
            "steps": steps,
        });
        printable_json(&format!("{report:#}\n")).into_owned()
    }
}

fn problem_lines(text: &mut String, problem: &Problem, colour: bool) {
    let label = match problem.severity {
        Status::Failed => "cause",
        Status::Skipped => "reason",
        Status::Ok | Status::Warning => "warning",
    };
    let label = paint(label, code_of(problem.severity), colour);
    let _ = writeln!(text, "      {label}: {}", printable(&problem.message));
    for hint in &problem.hints {
        let label = paint("hint", "36", colour);
        let _ = writeln!(text, "      {label}: {}", printable(hint));
    }
}

fn fact_lines(text: &mut String, fact: &Fact, indent: usize) {
    let _ = write!(text, "{:indent$}{}:", "", printable(&fact.name));
    match &fact.value {
        Value::List(values) if values.iter().map(String::len).sum::<usize>() > SHORT_LIST => {
            text.push('\n');
            for value in values {
                let _ = writeln!(text, "{:indent$}  {}", "", printable(value));
            }
        }
        Value::Facts(facts) if facts.iter().any(is_nested) => {
            text.push('\n');
            for fact in facts {
                fact_lines(text, fact, indent + 2);
            }
        }
        value => {
            let _ = writeln!(text, " {}", value_text(value));
        }
    }
}

const fn is_nested(fact: &Fact) -> bool {
    matches!(fact.value, Value::Facts(_))
}

fn value_text(value: &Value) -> String {
    match value {
        Value::Text(value) => printable(value).into_owned(),
        Value::Number(value) => value.to_string(),
        Value::Millis(value) => format!("{value:.1} ms"),
        Value::Unlimited => "unlimited".to_owned(),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        Value::List(values) if values.is_empty() => "none".to_owned(),
        Value::List(values) => {
            let values: Vec<_> = values.iter().map(|value| printable(value)).collect();
            values.join(", ")
        }
        Value::Facts(facts) => {
            let parts = facts.iter().map(|fact| {
                let value = value_text(&fact.value);
                format!("{} {value}", printable(&fact.name))
            });
            parts.collect::<Vec<_>>().join(", ")
        }
    }
}

fn facts_json(facts: &[Fact]) -> Map<String, serde_json::Value> {
    let facts = facts.iter();
    facts
        .map(|fact| (fact.name.clone(), value_json(&fact.value)))
        .collect()
}

fn value_json(value: &Value) -> serde_json::Value {
    match value {
        Value::Text(value) => json!(value),
        Value::Number(value) => json!(value),
        Value::Millis(value) => json!(value),
        Value::Unlimited => serde_json::Value::Null,
        Value::Bool(value) => json!(value),
        Value::List(values) => json!(values),
        Value::Facts(facts) => facts_json(facts).into(),
    }
}

/// Returns the number of a colour in the escape sequences of terminals.
const fn code_of(status: Status) -> &'static str {
    match status {
        Status::Ok => "32",
        Status::Warning => "33",
        Status::Failed => "1;31",
        Status::Skipped => "2",
    }
}

fn paint(text: &str, code: &str, colour: bool) -> String {
    match colour {
        true => format!("\x1b[{code}m{text}\x1b[0m"),
        false => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Stage;
    use onionskin_core::text::is_unprintable;

    fn report_of(step: Step) -> Report {
        Report {
            uri: Some("mongodb://db/".to_owned()),
            steps: vec![step],
            duration: Duration::from_millis(2),
            is_usable: true,
            failure: None,
        }
    }

    #[test]
    fn escape_sequences_of_a_peer_are_not_printed() {
        let mut step = Step::new(Stage::Hello, Some("db\x1b[2J".to_owned()));
        step.fact(
            "set name",
            "rs\u{202e}0\x07\n\u{9b}2J\u{2028}\u{61c}\u{200b}",
        );
        step.fail("bad \x1b]0;title\x07", vec!["try \r again".to_owned()]);
        for colour in [false, true] {
            let text = step.to_text(colour);
            let own = text.replace("\x1b[1;31m", "").replace("\x1b[36m", "");
            let own = own.replace("\x1b[0m", "");
            let rest = own.chars().filter(|c| c.is_control() && *c != '\n');
            assert_eq!(rest.count(), 0, "{text:?}");
            assert_eq!(text.lines().count(), 4, "{text:?}");
            assert!(
                !text
                    .chars()
                    .any(|c| c != '\n' && c != '\x1b' && is_unprintable(c))
            );
        }
        assert!(!step.to_text(false).contains('\x1b'));
        let json = report_of(step).to_json();
        assert!(
            !json.chars().any(|c| c != '\n' && is_unprintable(c)),
            "{json}"
        );
        let json: serde_json::Value = serde_json::from_str(&json).expect("it is JSON");
        let name = &json["steps"][0]["facts"]["set name"];
        assert_eq!(name, "rs\u{202e}0\x07\n\u{9b}2J\u{2028}\u{61c}\u{200b}");
    }

    #[test]
    fn a_long_text_of_a_peer_is_cut() {
        let mut step = Step::new(Stage::Hello, None);
        step.fact("set name", "x".repeat(100_000));
        assert!(step.to_text(false).len() < 1200);
        assert!(report_of(step).to_json().len() < 2000);
    }

    #[test]
    fn json_has_every_part_of_a_report() {
        let mut step = Step::new(Stage::Dial, Some("db:27017".to_owned()));
        step.fact("connected", true);
        step.fact("hosts", vec!["a".to_owned(), "b".to_owned()]);
        step.fact("round trip", Duration::from_micros(1500));
        step.fact(
            "limits",
            vec![Fact::new("size", 3), Fact::new("time", Value::Unlimited)],
        );
        step.warn("it is slow", vec!["wait".to_owned()]);
        step.duration = Duration::from_millis(1);
        let expected = json!({
            "uri": "mongodb://db/", "usable": true, "failedStage": null, "exitCode": 0,
            "milliseconds": 2.0,
            "steps": [{
                "stage": "dial", "server": "db:27017", "status": "warning", "milliseconds": 1.0,
                "facts": {
                    "connected": true, "hosts": ["a", "b"], "round trip": 1.5,
                    "limits": { "size": 3, "time": null },
                },
                "problems": [{
                    "severity": "warning", "message": "it is slow", "hints": ["wait"],
                }],
            }],
        });
        let json = report_of(step).to_json();
        let found: serde_json::Value = serde_json::from_str(&json).expect("it is JSON");
        assert_eq!(found, expected);
    }
}
