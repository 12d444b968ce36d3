//! The options of the members of a replica set, as a scenario names them.

use super::span::Span;
use onionskin_core::text::printable;
use onionskin_deployment::deployment::{MemberOptions, ServerVersion};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, fmt, time::Duration};

/// The options of a member of a replica set.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
#[non_exhaustive]
pub struct WorldMember {
    /// The priority in elections. A member with 0 never becomes primary. Default: 1, and 0 for an
    /// arbiter and for a member without a vote.
    pub priority: Option<u32>,
    /// True if the member votes. Default: true.
    pub votes: bool,
    /// True if hello replies do not list the member. Default: false.
    pub hidden: bool,
    /// True if the member votes but holds no data. Default: false.
    pub arbiter: bool,
    /// True if the configuration does not have the member until the event
    /// [`AddMember`](super::Disaster::AddMember). Default: false.
    pub absent: bool,
    /// The time by which the data of the member is behind, in whole seconds. It needs the priority
    /// 0. Default: zero.
    pub delay: Option<Span>,
    /// The release of the member at the start, such as `6.0`. Default: that of the servers.
    pub version: Option<String>,
    /// True if the member has the streaming protocol, as releases from 4.4 on do. Otherwise clients
    /// poll it. Default: true.
    pub streaming: bool,
    /// The tags, for read preferences. Default: none.
    pub tags: BTreeMap<String, String>,
}

impl Default for WorldMember {
    fn default() -> Self {
        Self {
            priority: None,
            votes: true,
            hidden: false,
            arbiter: false,
            absent: false,
            delay: None,
            version: None,
            streaming: true,
            tags: BTreeMap::new(),
        }
    }
}

impl fmt::Display for WorldMember {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "one of priority {}", self.options().priority)?;
        if !self.votes {
            f.write_str(", without a vote")?;
        }
        if self.hidden {
            f.write_str(", hidden")?;
        }
        if let Some(delay) = self.delay {
            write!(f, ", delayed by {}", String::from(delay))?;
        }
        for (key, value) in &self.tags {
            write!(f, ", {} {}", printable(key), printable(value))?;
        }
        Ok(())
    }
}

impl WorldMember {
    pub(crate) fn options(&self) -> MemberOptions {
        MemberOptions {
            priority: match self.priority {
                Some(priority) => priority,
                None => u32::from(self.votes && !self.arbiter),
            },
            votes: self.votes,
            hidden: self.hidden,
            arbiter: self.arbiter,
            absent: self.absent,
            delay: self.delay.map_or(Duration::ZERO, |delay| delay.0),
            tags: self.tags.clone().into_iter().collect(),
            version: self.version.as_deref().and_then(ServerVersion::named),
            streaming: self.streaming,
        }
    }
}
