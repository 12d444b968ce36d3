//! Tests of `check`: for each step, a counterpart that fails in this step, with the causes and
//! hints of the report as text and as JSON.

mod authentication;
mod dial;
mod dns;
mod hello;
mod mechanisms;
mod parse;
mod proxy;
mod tls;
mod topology;

use onionskin_check::{CheckOptions, Report, Status, check};
use onionskin_tokio::TokioRuntime;
use std::{future::Future, time::Duration};

/// The password of users in these tests, which no report may show.
const PASSWORD: &str = "pencil-4711";

/// Runs a future on a new tokio runtime.
fn on_tokio<T>(future: impl Future<Output = T>) -> T {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let builder = builder.worker_threads(2).enable_all();
    builder.build().expect("a runtime").block_on(future)
}

/// Returns the report of a check of this connection string.
fn report_of(uri: &str) -> Report {
    report_with(uri, &CheckOptions::default())
}

fn report_with(uri: &str, options: &CheckOptions) -> Report {
    let report = on_tokio(async { check(TokioRuntime::default(), uri, options).await });
    assert_sound(&report);
    report
}

/// Fails if a report shows a password, if its JSON differs from its steps, or if a failed step has
/// no cause.
fn assert_sound(report: &Report) {
    let (text, json) = (report.to_text(false), report.to_json());
    assert!(
        !text.contains(PASSWORD) && !json.contains(PASSWORD),
        "{text}{json}"
    );
    assert!(!text.contains('\x1b'), "no colour was wanted");
    assert!(report.to_text(true).contains("\x1b["), "colour was wanted");
    let json: serde_json::Value = serde_json::from_str(&json).expect("it is JSON");
    assert_eq!(json["exitCode"], report.exit_code());
    assert_eq!(json["usable"], report.is_usable);
    let steps = json["steps"].as_array().expect("an array");
    assert_eq!(steps.len(), report.steps.len());
    for (step, json) in report.steps.iter().zip(steps) {
        assert_eq!(json["stage"], step.stage.name());
        assert_eq!(json["status"], step.status.name());
        assert_eq!(json["server"].as_str(), step.server.as_deref());
        let problems = json["problems"].as_array().expect("an array");
        assert_eq!(problems.len(), step.problems.len());
        for (problem, json) in step.problems.iter().zip(problems) {
            assert_eq!(json["message"], problem.message);
            assert!(text.contains(&problem.message), "{text}");
            for hint in &problem.hints {
                assert!(text.contains(hint), "{text}");
            }
        }
        assert!(
            step.status != Status::Failed || !step.problems.is_empty(),
            "{step:?}"
        );
    }
}

/// Returns the stages of a report with the first letter of their status, for example
/// `parse ok, dial failed`.
fn stages(report: &Report) -> String {
    let steps = report.steps.iter();
    let steps = steps.map(|step| format!("{} {}", step.stage.name(), step.status.name()));
    steps.collect::<Vec<_>>().join(", ")
}

/// Returns the text of a report. The address of each server is replaced by its name, and each
/// number of milliseconds by `_`.
fn text_of(report: &Report, names: &[(&str, &str)]) -> String {
    let mut text = report.to_text(false);
    for (address, name) in names {
        text = text.replace(address, name);
    }
    let mut shown = String::new();
    let mut rest = text.as_str();
    while let Some(at) = rest.find(" ms") {
        let (before, after) = rest.split_at(at);
        let kept = before.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.' || c == '-');
        shown.push_str(kept);
        if kept.len() < before.len() {
            shown.push('_');
        }
        shown.push_str(" ms");
        rest = &after[3..];
    }
    shown + rest
}

/// Returns the causes, warnings and hints of a report, one per line.
fn problems(report: &Report, names: &[(&str, &str)]) -> Vec<String> {
    let text = text_of(report, names);
    let lines = text.lines().map(str::trim);
    let is_problem = |line: &&str| {
        ["cause: ", "hint: ", "warning: "]
            .iter()
            .any(|label| line.starts_with(label))
    };
    lines.filter(is_problem).map(str::to_owned).collect()
}

/// Returns options with a short time limit, for servers that never answer.
fn hurried() -> CheckOptions {
    let mut options = CheckOptions::default();
    options.timeout = Duration::from_secs(3);
    options
}
