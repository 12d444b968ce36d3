//! The report of a check: steps with facts and problems.

use std::time::Duration;

/// The maximum number of characters of a text in a report.
const MAX_TEXT_CHARS: usize = 1000;

/// The maximum number of texts in a list of a report.
const MAX_LIST: usize = 100;

/// A stage of a check. Later stages have greater values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Stage {
    /// Parsing the connection string, and checking the options.
    Parse,
    /// DNS: the records of a `mongodb+srv` connection string, and the addresses of each host.
    Dns,
    /// Connecting to the addresses of a host: of a server, or of the proxy if there is one.
    Dial,
    /// The conversation with a SOCKS5 proxy, which connects to the server.
    Proxy,
    /// The TLS handshake.
    Tls,
    /// The `hello` of a connection.
    Hello,
    /// Authentication.
    Authentication,
    /// The deployment as a client discovers it, and a `ping`.
    Topology,
    /// The servers that each read preference selects.
    Selection,
    /// The settings of the client, such as those of its pools.
    Settings,
}

impl Stage {
    /// Returns the name of the stage in reports, for example `dial`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Parse => "parse",
            Self::Dns => "dns",
            Self::Dial => "dial",
            Self::Proxy => "proxy",
            Self::Tls => "tls",
            Self::Hello => "hello",
            Self::Authentication => "authentication",
            Self::Topology => "topology",
            Self::Selection => "selection",
            Self::Settings => "settings",
        }
    }

    /// Returns the exit code of a program whose check failed in this stage, from 10 to 16.
    #[must_use]
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::Parse => 10,
            Self::Dns => 11,
            Self::Dial | Self::Proxy => 12,
            Self::Tls => 13,
            Self::Hello => 14,
            Self::Authentication => 15,
            Self::Topology | Self::Selection | Self::Settings => 16,
        }
    }
}

/// The result of one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Status {
    /// The step was not carried out, because an earlier step failed.
    Skipped,
    /// The step succeeded.
    Ok,
    /// The step succeeded, but something should be changed.
    Warning,
    /// The step failed.
    Failed,
}

impl Status {
    /// Returns the name of the status in JSON, for example `failed`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Skipped => "skipped",
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Failed => "failed",
        }
    }
}

/// The value of a [`Fact`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Value {
    /// A text.
    Text(String),
    /// A whole number.
    Number(i64),
    /// A time in milliseconds.
    Millis(f64),
    /// The absence of a limit.
    Unlimited,
    /// True or false.
    Bool(bool),
    /// Several texts.
    List(Vec<String>),
    /// Several facts, for example about one server.
    Facts(Vec<Fact>),
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<Vec<String>> for Value {
    fn from(texts: Vec<String>) -> Self {
        Self::List(texts)
    }
}

impl From<Vec<Fact>> for Value {
    fn from(facts: Vec<Fact>) -> Self {
        Self::Facts(facts)
    }
}

impl From<i32> for Value {
    fn from(number: i32) -> Self {
        Self::Number(number.into())
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<Duration> for Value {
    fn from(time: Duration) -> Self {
        Self::Millis(millis(time))
    }
}

/// Something that a step found, for example the TLS version.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Fact {
    /// The name of the fact, for example `cipher`.
    pub name: String,
    /// The value.
    pub value: Value,
}

impl Fact {
    pub(crate) fn new(name: impl Into<String>, value: impl Into<Value>) -> Self {
        let (name, mut value) = (shortened(name.into()), value.into());
        match &mut value {
            Value::Text(text) => *text = shortened(std::mem::take(text)),
            Value::List(texts) => {
                texts.truncate(MAX_LIST);
                for text in texts {
                    *text = shortened(std::mem::take(text));
                }
            }
            Value::Number(_)
            | Value::Millis(_)
            | Value::Unlimited
            | Value::Bool(_)
            | Value::Facts(_) => {}
        }
        Self { name, value }
    }
}

/// The cause of a failure or of a warning, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Problem {
    /// [`Status::Failed`] for the cause of a failure, [`Status::Warning`] for a warning, and
    /// [`Status::Skipped`] for the reason why the step was skipped.
    pub severity: Status,
    /// The failure or the mistake, with the server and the reason.
    pub message: String,
    /// Things to check or to change; the most likely first.
    pub hints: Vec<String>,
}

/// One step of a check.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Step {
    /// The stage to which the step belongs.
    pub stage: Stage,
    /// The server that the step concerns; `None` for a step that concerns no single server.
    pub server: Option<String>,
    /// The result of the step.
    pub status: Status,
    /// The duration of the step.
    pub duration: Duration,
    /// The facts that the step found, in the order in which it is shown.
    pub facts: Vec<Fact>,
    /// The causes of a failure, and warnings.
    pub problems: Vec<Problem>,
}

impl Step {
    pub(crate) fn new(stage: Stage, server: Option<String>) -> Self {
        Self {
            stage,
            server,
            status: Status::Ok,
            duration: Duration::ZERO,
            facts: Vec::new(),
            problems: Vec::new(),
        }
    }

    pub(crate) fn fact(&mut self, name: impl Into<String>, value: impl Into<Value>) {
        self.facts.push(Fact::new(name, value));
    }

    /// Adds a problem with which the client still works.
    pub(crate) fn warn(&mut self, message: impl Into<String>, hints: Vec<String>) {
        self.add(Status::Warning, message.into(), hints);
    }

    /// Adds the cause of a failure.
    pub(crate) fn fail(&mut self, message: impl Into<String>, hints: Vec<String>) {
        self.add(Status::Failed, message.into(), hints);
    }

    /// Marks the step as skipped for this reason.
    pub(crate) fn skip(&mut self, message: impl Into<String>) {
        self.status = Status::Skipped;
        self.add(Status::Skipped, message.into(), Vec::new());
    }

    fn add(&mut self, severity: Status, message: String, hints: Vec<String>) {
        self.status = self.status.max(severity);
        let problem = Problem {
            severity,
            message: shortened(message),
            hints: hints.into_iter().map(shortened).collect(),
        };
        // The cause of a failure comes before warnings.
        match severity {
            Status::Failed => self.problems.insert(0, problem),
            _ => self.problems.push(problem),
        }
    }

    /// Returns the value of the first fact with this name.
    pub(crate) fn value(&self, name: &str) -> Option<&Value> {
        let fact = self.facts.iter().find(|fact| fact.name == name);
        fact.map(|fact| &fact.value)
    }
}

/// The report of a check.
///
/// A report shows no password: the connection string is redacted, and messages never quote a value
/// that could be a secret.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Report {
    /// The connection string without its secrets; `None` if it could not be parsed, because then
    /// its secrets cannot be found.
    pub uri: Option<String>,
    /// The steps in the order in which they are shown.
    pub steps: Vec<Step>,
    /// The duration of the check.
    pub duration: Duration,
    /// True if a client can use the deployment. Single servers can fail nevertheless.
    pub is_usable: bool,
    /// The stage that failed: that of the failed step of the server with which the check got
    /// furthest. `None` if a client can use the deployment, unless the check is strict
    /// ([`CheckOptions::strict`](crate::CheckOptions::strict)).
    pub failure: Option<Stage>,
}

impl Report {
    /// Returns the exit code for a program: [`Stage::exit_code`] of [`failure`](Self::failure), or
    /// else 0.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        self.failure.map_or(0, Stage::exit_code)
    }

    /// Returns the number of steps with this status.
    #[must_use]
    pub fn count(&self, status: Status) -> usize {
        let steps = self.steps.iter();
        steps.filter(|step| step.status == status).count()
    }
}

/// Returns a text of limited length, because a peer chooses parts of it.
fn shortened(mut text: String) -> String {
    if let Some((end, _)) = text.char_indices().nth(MAX_TEXT_CHARS) {
        text.truncate(end);
        text.push_str(" ...");
    }
    text
}

/// Returns a time in milliseconds, rounded to microseconds.
pub(crate) fn millis(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}
