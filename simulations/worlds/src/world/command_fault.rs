//! Commands that fail for a while, as the fail point `failCommand` of the servers makes them.

use super::scenario::{MAX_SPAN, Span};
use bson::{Bson, Document, doc};
use onionskin_deployment::deployment::{Deployment, is_command};
use serde::{Deserialize, Serialize};
use std::{fmt, time::Duration};

/// The shortest delay of a command. Servers count milliseconds.
const SHORTEST_BLOCK: Duration = Duration::from_millis(1);

/// A fault of some commands, on one member or on all. A later fault of a member replaces an earlier
/// one, and so does a fail point that a client sets. A member that starts again has none, also if
/// it was set while the member was not running.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct CommandFault {
    /// The names of the commands, at least one.
    pub commands: Vec<String>,
    /// The index of the member, from 0. `None` for all members.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub member: Option<usize>,
    /// The code of the error with which the commands fail. `None` if they do not fail, or lose
    /// their connections.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<i32>,
    /// The labels of the error instead of those that a server adds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<Vec<String>>,
    /// True if the connection of the command is closed, instead of a reply.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub close: bool,
    /// The time by which the commands are delayed, at most a day.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block: Option<Span>,
    /// The number of commands on each of the members that have the fault. `None` until the faults
    /// end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub times: Option<u32>,
}

impl CommandFault {
    /// Returns the reason why the fault has no effect, if there is one.
    pub(super) fn idle(&self) -> Option<&'static str> {
        let blocks = self.block.is_some_and(|block| block.0 >= SHORTEST_BLOCK);
        if self.commands.is_empty() {
            Some("`fail-commands` needs `commands`")
        } else if !self.commands.iter().all(|name| is_command(name)) {
            Some("one of the `commands` of `fail-commands` is none of the servers")
        } else if self.code.is_none() && !self.close && !blocks {
            Some("`fail-commands` needs a `code`, `close`, or `block` of a millisecond or more")
        } else if self.block > Some(MAX_SPAN) {
            Some("the `block` of `fail-commands` must be at most a day")
        } else if self.code.is_some_and(|code| code <= 0) {
            Some("the `code` of `fail-commands` must be above zero")
        } else if self.code.is_some() && self.close {
            Some("with `close`, no reply of `fail-commands` has a `code`")
        } else if self.code.is_none() && self.labels.is_some() {
            Some("the `labels` of `fail-commands` need a `code`")
        } else if self.times == Some(0) {
            Some("`fail-commands` needs `times` above zero")
        } else {
            None
        }
    }

    /// Makes the commands fail from now on.
    pub(super) fn begin(&self, deployment: &mut Deployment) {
        let mut data = doc! { "failCommands": &self.commands, "closeConnection": self.close };
        data.extend(self.code.map(|code| ("errorCode".to_owned(), code.into())));
        if let Some(labels) = &self.labels {
            data.insert("errorLabels", labels);
        }
        if let Some(Span(block)) = self.block {
            data.insert("blockConnection", true);
            data.insert(
                "blockTimeMS",
                i64::try_from(block.as_millis()).unwrap_or(i64::MAX),
            );
        }
        let mode = match self.times {
            Some(times) => doc! { "times": i64::from(times) }.into(),
            None => "alwaysOn".into(),
        };
        configure(deployment, self.member, &mode, &data);
    }

    /// Makes no command fail from now on.
    pub(super) fn end_all(deployment: &mut Deployment) {
        configure(deployment, None, &"off".into(), &Document::new());
    }
}

fn configure(deployment: &mut Deployment, member: Option<usize>, mode: &Bson, data: &Document) {
    let command = doc! { "configureFailPoint": "failCommand", "mode": mode, "data": data };
    let members = match member {
        Some(member) => member..member + 1,
        None => 0..deployment.members(),
    };
    for member in members {
        let set = deployment.configure_fail_point(member, &command);
        debug_assert_eq!(set, Ok(()), "every server has this fail point");
    }
}

impl fmt::Display for CommandFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.commands.join(", "))?;
        if let Some(member) = self.member {
            write!(f, " on member {member}")?;
        }
        let mut effects = Vec::new();
        if let Some(block) = self.block {
            effects.push(format!("are delayed by {}", String::from(block)));
        }
        effects.extend(self.code.map(|code| format!("fail with the error {code}")));
        if self.close {
            effects.push("lose their connections".to_owned());
        }
        write!(f, " {}", effects.join(" and "))?;
        match self.times {
            Some(times) => write!(f, ", {times} times"),
            None => Ok(()),
        }
    }
}
