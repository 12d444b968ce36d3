//! Pictures of runs: what members, connections and operations did at each time, as one HTML page
//! that needs no other file.
//!
//! ```
//! use onionskin_worlds::world::{Way, WorldOptions, run_seed};
//!
//! let mut options = WorldOptions::drawn(1);
//! options.safety = std::time::Duration::from_secs(2);
//! options.keep_picture = true;
//! let report = run_seed(1, Way::Core, options);
//! let page = report.page("a run of seed 1", None).expect("it was kept");
//! assert!(page.starts_with("<!DOCTYPE html>"));
//! ```

mod client;
mod lane;
mod page;
#[cfg(test)]
pub(crate) mod tests;

use super::workload::Ending;
use client::ClientLanes;
use lane::Lane;
use onionskin_core::{error::ErrorKind, event::EventKind, time::Instant};
use onionskin_deployment::deployment::{Deployment, MemberState};
pub(crate) use page::Heading;
use serde::Serialize;
use std::collections::{BTreeMap, VecDeque};

/// The largest numbers of events and of marks in a picture. Each further one replaces the earliest
/// one, which is counted.
const MAX_EVENTS: usize = 100_000;

/// The largest length of a text, in characters.
const MAX_CHARS: usize = 2_000;

/// The events of a run and their lanes. Keeps a bounded number of them.
#[derive(Clone, Debug, Default)]
pub struct Picture {
    /// The members by their number, each with its address.
    members: BTreeMap<usize, (String, Lane)>,
    clients: BTreeMap<usize, ClientLanes>,
    marks: VecDeque<Mark>,
    events: VecDeque<Note>,
    missing_events: u64,
}

/// The kind of a moment that concerns all lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum MarkKind {
    /// A fault of one connection, such as a lost message.
    Fault,
    /// A disaster, such as the end of a member's process.
    Disaster,
    /// An event of a member, such as an election.
    Member,
}

impl MarkKind {
    /// Returns the kind as the trace names it.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Fault => "fault",
            Self::Disaster => "disaster",
            Self::Member => "member event",
        }
    }
}

/// A moment that concerns all lanes.
#[derive(Clone, Debug, Serialize)]
struct Mark {
    at: u128,
    kind: MarkKind,
    text: String,
}

/// A line in the list of events.
#[derive(Clone, Debug, Serialize)]
struct Note {
    at: u128,
    group: String,
    text: String,
}

/// The kind of a span: the state of a server or of a connection, or a phase or the result of an
/// operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum SpanKind {
    Primary,
    Secondary,
    Arbiter,
    Mongos,
    Standalone,
    Balancer,
    Other,
    Unknown,
    Down,
    Establishing,
    Idle,
    Used,
    Selecting,
    Waiting,
    Exchanging,
    Backoff,
    Succeeded,
    Failed,
    Abandoned,
}

impl Picture {
    /// Notes an event of a client. The events of one operation must come in their order, and so
    /// must the other events of one client.
    pub fn observe(&mut self, at: Instant, client: usize, event: &EventKind) {
        let lanes = self.clients.entry(client).or_default();
        lanes.observe(at, event);
        if self.events.len() >= MAX_EVENTS {
            self.missing_events += 1;
            self.events.pop_front();
        }
        self.events.push_back(Note {
            at: at_micros(at),
            group: format!("client {client}"),
            text: cut(event.to_string()),
        });
    }

    /// Notes the end of an operation whose client has no events of whole operations. Does nothing
    /// if an event has reported the end.
    pub(super) fn end_operation(
        &mut self,
        at: Instant,
        client: usize,
        operation: u64,
        ending: &Ending,
    ) {
        let failure = match ending {
            Ending::Acknowledged | Ending::Found(_) => None,
            Ending::Failed(error) => Some(error.clone()),
            Ending::Abandoned => Some(ErrorKind::Abandoned.into()),
        };
        let client = self.clients.entry(client).or_default();
        client.end_operation(at, operation, failure.as_ref());
    }

    /// Notes that this number of events is missing.
    pub(crate) fn miss(&mut self, events: usize) {
        self.missing_events += events as u64;
    }

    /// Notes a moment that concerns all lanes.
    pub fn mark(&mut self, at: Instant, kind: MarkKind, text: String) {
        if self.marks.len() >= MAX_EVENTS {
            self.missing_events += 1;
            self.marks.pop_front();
        }
        let at = at_micros(at);
        self.marks.push_back(Mark { at, kind, text });
    }

    /// Notes the states of all members.
    pub fn see_members(&mut self, at: Instant, deployment: &Deployment) {
        let addresses = deployment.options().addresses.iter();
        for (member, address) in addresses.enumerate() {
            let Some(state) = deployment.state(member) else {
                continue;
            };
            let text = match state {
                MemberState::Primary => format!("term {}", deployment.term(member)),
                _ if kind_of(state) == SpanKind::Other => state.name().to_owned(),
                _ => String::new(),
            };
            self.set_member(at, member, &address.to_string(), state, &text);
        }
    }

    /// Notes the state of a member.
    pub(crate) fn set_member(
        &mut self,
        at: Instant,
        member: usize,
        name: &str,
        state: MemberState,
        text: &str,
    ) {
        let kind = kind_of(state);
        let new = || (name.to_owned(), Lane::default());
        let (_, lane) = self.members.entry(member).or_insert_with(new);
        lane.set(at, 0, kind, text);
    }

    /// Ends all spans at this time, which is the end of the run.
    pub(crate) fn finish(&mut self, at: Instant) {
        for (_, lane) in self.members.values_mut() {
            lane.finish(at);
        }
        for client in self.clients.values_mut() {
            client.finish(at);
        }
    }
}

/// Returns the kind of the span of a member in this state.
const fn kind_of(state: MemberState) -> SpanKind {
    match state {
        MemberState::Standalone => SpanKind::Standalone,
        MemberState::Router => SpanKind::Mongos,
        MemberState::Primary => SpanKind::Primary,
        MemberState::Secondary => SpanKind::Secondary,
        MemberState::Arbiter => SpanKind::Arbiter,
        MemberState::Down => SpanKind::Down,
        _ => SpanKind::Other,
    }
}

/// Returns the beginning of a long text.
fn cut(mut text: String) -> String {
    if let Some((end, _)) = text.char_indices().nth(MAX_CHARS) {
        text.truncate(end);
        text.push('…');
    }
    text
}

/// Returns a time in microseconds since the start of the run.
fn at_micros(at: Instant) -> u128 {
    at.since_start().as_micros()
}
