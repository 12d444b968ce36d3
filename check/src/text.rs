//! Reports as text and as JSON.

use crate::report::{Fact, Report, Status, Step, Value, millis};
use serde_json::{Map, json};
use std::{fmt::Write as _, time::Duration};

/// The maximum number of characters of one text from a peer that is shown.
const MAX_SHOWN_CHARS: usize = 1000;

/// The width of the column of statuses.
const STATUS_WIDTH: usize = 6;

impl Step {
    /// Returns the step as lines of text. With `colour`, the status is coloured by the escape
    /// sequences of terminals. Control characters of peers are escaped, so that a peer cannot send
    /// such sequences.
    #[must_use]
    pub fn to_text(&self, colour: bool) -> String {
        let (word, code) = match self.status {
            Status::Ok => ("ok", "32"),
            Status::Warning => ("warn", "33"),
            Status::Failed => ("FAIL", "1;31"),
            Status::Skipped => ("skip", "2"),
        };
        let mut text = paint(&format!("{word:STATUS_WIDTH$}"), code, colour);
        text.push_str(self.stage.name());
        if let Some(server) = &self.server {
            let _ = write!(text, " {}", printable(server));
        }
        let _ = match self.duration {
            Duration::ZERO => writeln!(text),
            duration => writeln!(text, " ({:.1} ms)", millis(duration)),
        };
        for fact in &self.facts {
            fact_lines(&mut text, fact);
        }
        for problem in &self.problems {
            let label = match self.status {
                Status::Failed => "cause",
                Status::Skipped => "reason",
                Status::Ok | Status::Warning => "warning",
            };
            let message = printable(&problem.message);
            let _ = writeln!(text, "      {}: {message}", paint(label, code, colour));
            for hint in &problem.hints {
                let hint = printable(hint);
                let _ = writeln!(text, "      {}: {hint}", paint("hint", "36", colour));
            }
        }
        text
    }

    fn to_json(&self) -> serde_json::Value {
        let facts: Map<String, serde_json::Value> = self
            .facts
            .iter()
            .map(|fact| (fact.name.clone(), value_json(&fact.value)))
            .collect();
        let problems: Vec<_> = self
            .problems
            .iter()
            .map(|problem| json!({ "message": problem.message, "hints": problem.hints }))
            .collect();
        json!({
            "stage": self.stage.name(),
            "server": self.server,
            "status": self.status.name(),
            "milliseconds": millis(self.duration),
            "facts": facts,
            "problems": problems,
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
        let line = match self.failure {
            None if warnings + failures == 0 => {
                paint("A client can use this deployment", "32", colour)
            }
            None => paint(
                "A client can use this deployment, with the problems above",
                "33",
                colour,
            ),
            Some(stage) => {
                let verdict = format!("The check failed at the step {}", stage.name());
                paint(&verdict, "1;31", colour)
            }
        };
        format!("{line} ({counts}).\n")
    }

    /// Returns the report as one JSON document, indented.
    ///
    /// Its fields are `uri`, `usable`, `failedStage`, `exitCode`, `milliseconds` and `steps`. Each
    /// step has `stage`, `server`, `status` (`ok`, `warning`, `failed` or `skipped`),
    /// `milliseconds`, `facts` by name, and `problems` with `message` and `hints`.
    #[must_use]
    pub fn to_json(&self) -> String {
        let steps: Vec<_> = self.steps.iter().map(Step::to_json).collect();
        let report = json!({
            "uri": self.uri,
            "usable": self.is_usable(),
            "failedStage": self.failure.map(crate::Stage::name),
            "exitCode": self.exit_code(),
            "milliseconds": millis(self.duration),
            "steps": steps,
        });
        format!("{report:#}\n")
    }
}

fn fact_lines(text: &mut String, fact: &Fact) {
    let name = printable(&fact.name);
    let _ = match &fact.value {
        Value::Text(value) => writeln!(text, "      {name}: {}", printable(value)),
        Value::Number(value) => writeln!(text, "      {name}: {value}"),
        Value::Millis(value) => writeln!(text, "      {name}: {value:.1} ms"),
        Value::Bool(true) => writeln!(text, "      {name}: yes"),
        Value::Bool(false) => writeln!(text, "      {name}: no"),
        Value::List(values) if values.is_empty() => writeln!(text, "      {name}: none"),
        Value::List(values) if values.iter().map(String::len).sum::<usize>() <= 60 => {
            let values: Vec<String> = values.iter().map(|value| printable(value)).collect();
            writeln!(text, "      {name}: {}", values.join(", "))
        }
        Value::List(values) => {
            let _ = writeln!(text, "      {name}:");
            values
                .iter()
                .try_for_each(|value| writeln!(text, "        {}", printable(value)))
        }
    };
}

fn value_json(value: &Value) -> serde_json::Value {
    match value {
        Value::Text(value) => json!(value),
        Value::Number(value) => json!(value),
        Value::Millis(value) => json!(value),
        Value::Bool(value) => json!(value),
        Value::List(values) => json!(values),
    }
}

fn paint(text: &str, code: &str, colour: bool) -> String {
    match colour {
        true => format!("\x1b[{code}m{text}\x1b[0m"),
        false => text.to_owned(),
    }
}

/// Returns a text without control characters and of limited length.
fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len().min(MAX_SHOWN_CHARS));
    for (count, character) in text.chars().enumerate() {
        if count == MAX_SHOWN_CHARS {
            shown.push_str(" ...");
            break;
        }
        match character.is_control() || is_direction(character) {
            true => shown.extend(character.escape_default()),
            false => shown.push(character),
        }
    }
    shown
}

/// True for characters that change the direction of text, with which a peer could disguise a name.
const fn is_direction(character: char) -> bool {
    matches!(
        character,
        '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Stage;

    fn report_of(step: Step) -> Report {
        Report {
            uri: Some("mongodb://db/".to_owned()),
            steps: vec![step],
            duration: Duration::from_millis(2),
            failure: None,
        }
    }

    #[test]
    fn escape_sequences_of_a_peer_are_not_printed() {
        let mut step = Step::new(Stage::Hello, Some("db\x1b[2J".to_owned()));
        step.fact("set name", "rs\u{202e}0\x07\n");
        step.fail("bad \x1b]0;title\x07", vec!["try \r again".to_owned()]);
        for colour in [false, true] {
            let text = step.to_text(colour);
            let own = text.replace("\x1b[1;31m", "").replace("\x1b[36m", "");
            let own = own.replace("\x1b[0m", "");
            let rest = own.chars().filter(|c| c.is_control() && *c != '\n');
            assert_eq!(rest.count(), 0, "{text:?}");
            assert_eq!(text.lines().count(), 4, "{text:?}");
            assert!(!text.contains('\u{202e}'));
        }
        assert!(!step.to_text(false).contains('\x1b'));
    }

    #[test]
    fn a_long_text_of_a_peer_is_cut() {
        let mut step = Step::new(Stage::Hello, None);
        step.fact("set name", "x".repeat(100_000));
        assert!(step.to_text(false).len() < MAX_SHOWN_CHARS + 100);
    }

    #[test]
    fn json_has_every_part_of_a_report() {
        let mut step = Step::new(Stage::Dial, Some("db:27017".to_owned()));
        step.fact("connected", true);
        step.fact("hosts", vec!["a".to_owned(), "b".to_owned()]);
        step.fact("round trip", Duration::from_micros(1500));
        step.warn("it is slow", vec!["wait".to_owned()]);
        step.duration = Duration::from_millis(1);
        let expected = json!({
            "uri": "mongodb://db/", "usable": true, "failedStage": null, "exitCode": 0,
            "milliseconds": 2.0,
            "steps": [{
                "stage": "dial", "server": "db:27017", "status": "warning", "milliseconds": 1.0,
                "facts": { "connected": true, "hosts": ["a", "b"], "round trip": 1.5 },
                "problems": [{ "message": "it is slow", "hints": ["wait"] }],
            }],
        });
        let json = report_of(step).to_json();
        let found: serde_json::Value = serde_json::from_str(&json).expect("it is JSON");
        assert_eq!(found, expected);
    }
}
