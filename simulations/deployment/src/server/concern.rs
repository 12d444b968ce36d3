//! Write concerns: the number of members that must have a write before it is acknowledged.

use super::{
    Member,
    connection::{Need, Request, Waiting},
    dispatch::is_read,
    document::{count_field, integer},
    fault::{Fault, bad_value, fault},
    read::pipeline_writes,
    reply::Reply,
    wait::{complain, complains, concern_error},
};
use crate::deployment::ConnId;
use bson::Bson;
use onionskin_core::time::Instant;
use std::time::Duration;

impl Member {
    /// Returns the replication that a command's write concern demands. Without a replica set, one
    /// member is enough. In a replica set, the default is the majority, or one member if the set
    /// has an arbiter. Servers since 5.0 have a default that is similar but also depends on the
    /// number of voting members.
    pub(super) fn write_concern(&self, request: &Request) -> Result<Need, Fault> {
        if !self.is_set() {
            return match w(request) {
                Some(Bson::String(word)) if word != "majority" => Err(bad_value(format!(
                    "cannot use non-majority 'w' mode {word} when a host is not a member of a \
                     replica set"
                ))),
                Some(Bson::String(_)) | None => Ok(Need::Members(1)),
                Some(n) => match number_of_members(n)? {
                    0 | 1 => Ok(Need::Members(1)),
                    _ => Err(bad_value(
                        "cannot use 'w' > 1 when a host is not replicated",
                    )),
                },
            };
        }
        let members = &self.replica.config().members;
        let has_arbiter = members.iter().any(|m| m.arbiter && !m.absent);
        match w(request) {
            None if has_arbiter => Ok(Need::Members(1)),
            None => Ok(Need::Majority),
            Some(Bson::String(word)) if word == "majority" => Ok(Need::Majority),
            Some(Bson::String(word)) => Ok(self.unknown_mode(word)),
            Some(n) => number_of_members(n).map(Need::Members),
        }
    }

    /// Returns a need that is never satisfied, for a mode that the configuration does not define.
    const fn unknown_mode(&self, _word: &str) -> Need {
        Need::Members(usize::MAX)
    }

    /// Answers a write that was done or has failed, now or when enough members have it.
    pub(super) fn confirm(
        &mut self,
        now: Instant,
        conn: ConnId,
        request: Request,
        answer: Result<Reply, Fault>,
    ) {
        let need = self.write_concern(&request).unwrap_or(Need::Members(1));
        self.confirm_by(now, conn, request, answer, need);
    }

    /// As [`confirm`](Self::confirm), with a need that can differ from that of the write concern.
    pub(super) fn confirm_by(
        &mut self,
        now: Instant,
        conn: ConnId,
        request: Request,
        mut answer: Result<Reply, Fault>,
        need: Need,
    ) {
        let index = self.replica.last().index;
        let members = self.replica.config().members.iter();
        let holders = members.filter(|member| member.holds_data()).count();
        match need {
            _ if complains(&answer) => {}
            Need::Members(usize::MAX) => {
                let word = w(&request).and_then(Bson::as_str).unwrap_or_default();
                let text = format!(
                    "No write concern mode named '{word}' found in replica set configuration"
                );
                complain(&mut answer, concern_error(&request, 79, &text));
            }
            Need::Members(n) if n > holders => {
                let text = "Not enough data-bearing nodes";
                complain(&mut answer, concern_error(&request, 100, text));
            }
            _ if !request.reply_wanted || self.is_confirmed(index, need) => {}
            _ => {
                let concern = request.command.get_document("writeConcern");
                let wtimeout = concern.map_or(0, |c| count_field(c, "wtimeout"));
                let deadline = (wtimeout > 0).then(|| now + Duration::from_millis(wtimeout));
                let waiting = Waiting::Replication {
                    index,
                    need,
                    answer,
                };
                return self.wait(conn, request, waiting, deadline);
            }
        }
        self.respond(conn, &request, answer);
    }
}

/// Returns an error if a command that writes nothing has a write concern.
pub(super) fn check_no_write_concern(request: &Request) -> Result<(), Fault> {
    let is_read = match request.name.as_str() {
        "aggregate" => !pipeline_writes(request),
        name => is_read(name) || name == "ping",
    };
    match is_read && request.command.contains_key("writeConcern") {
        true => Err(fault(72, "Command does not support writeConcern")),
        false => Ok(()),
    }
}

fn number_of_members(w: &Bson) -> Result<usize, Fault> {
    let members = integer(w).map(usize::try_from).and_then(Result::ok);
    let error = "w has to be a non-negative number and not greater than 50";
    members.filter(|&n| n <= 50).ok_or_else(|| fault(9, error))
}

/// True if a command asks for a write concern. A statement of a transaction does not.
pub(super) fn has_concern(request: &Request) -> bool {
    w(request).is_some() && !request.command.contains_key("autocommit")
}

/// True for a write with the write concern `w: 0`. If its client waits for a reply, the reply says
/// nothing about the write.
pub(super) fn wants_no_results(request: &Request) -> bool {
    let is_write = matches!(request.name.as_str(), "insert" | "update" | "delete");
    is_write && w(request).and_then(integer) == Some(0)
}

fn w(request: &Request) -> Option<&Bson> {
    let concern = request.command.get_document("writeConcern").ok()?;
    concern.get("w")
}
