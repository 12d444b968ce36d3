//! Read concerns: which writes a read sees.

use super::{
    Member,
    commands::{is_command, type_name},
    connection::{Request, Waiting},
    dispatch::{Answer, Outcome, is_read},
    document::integer_field,
    fault::{Fault, fault, not_writable_primary},
    parts::Progress,
    read::pipeline_writes,
};
use crate::{replica::Past, store::Store};
use bson::{Bson, Document, Timestamp};
use onionskin_core::time::Instant;
use std::time::Duration;

/// The fields of `readConcern`.
const FIELDS: [&str; 7] = [
    "level",
    "afterClusterTime",
    "atClusterTime",
    "afterOpTime",
    "allowTransactionTableSnapshot",
    "waitLastStableRecoveryTimestamp",
    "provenance",
];

/// The largest number of changes that a part of a read of earlier data reverts.
const MAX_REVERTED: usize = 500;

/// The data that a read sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    /// The newest data of the member: `local` and `available`.
    Newest,
    /// The data that a majority has.
    Majority,
    /// The newest data, once a majority has confirmed that this member is still the primary.
    Linearizable,
    /// The data of a time, by default of the newest that a majority has.
    Snapshot(Option<Timestamp>),
}

/// The data of an earlier time, for a read that does not see the newest data.
#[derive(Debug)]
pub(super) struct View {
    pub(super) store: Store,
    /// The time that a reply to a snapshot read has.
    pub(super) at: Option<Timestamp>,
}

/// The data that a read sees, if it can see it now.
enum Seen {
    Newest,
    Earlier(View),
    /// The read must pause.
    Later,
}

impl Member {
    /// Executes a read with its read concern.
    pub(super) fn execute_read(&mut self, now: Instant, request: &mut Request) -> Answer {
        let level = self.level(request)?;
        let concern = request.command.get_document("readConcern");
        let after = concern
            .and_then(|c| c.get_timestamp("afterClusterTime"))
            .ok();
        let (is_committed, at) = match level {
            Level::Newest | Level::Linearizable => (false, None),
            Level::Majority => (true, None),
            Level::Snapshot(at) => (true, at),
        };
        self.check_times(request, after, at)?;
        if let Some(after) = after.max(at)
            && !self.is_ready(now, request, after, is_committed)
        {
            let deadline = read_deadline(now, &request.command);
            let waiting = Waiting::Time {
                after,
                is_committed,
                effect: None,
            };
            return Ok(Outcome::Wait(waiting, deadline));
        }
        self.view = match self.view_of(request, level)? {
            Seen::Newest => None,
            Seen::Earlier(view) => Some(view),
            Seen::Later => return self.pause(now, request),
        };
        self.show_own(now, request)?;
        let outcome = self.execute_data(now, request);
        let at = self.view.take().and_then(|view| view.at);
        if let (Some(at), Some(Bson::Document(concern))) =
            (at, request.command.get_mut("readConcern"))
        {
            // If the query becomes a job, the command is executed again, at the same time. The time
            // that it had to wait for has passed, and excludes the other one.
            concern.remove("afterClusterTime");
            concern.insert("atClusterTime", at);
        }
        match (level, outcome) {
            (Level::Linearizable, Ok(Outcome::Reply(reply))) => {
                // A majority that has a new entry has no newer primary.
                self.replica.append(now, Vec::new(), None);
                let index = self.replica.last().index;
                let deadline = read_deadline(now, &request.command);
                Ok(Outcome::Wait(Waiting::Majority { index, reply }, deadline))
            }
            (_, outcome) => outcome,
        }
    }

    /// Checks the read concern of a command that writes, which sees the newest data.
    pub(super) fn check_read_concern(&self, request: &Request) -> Result<(), Fault> {
        self.level(request).map(|_| ())
    }

    /// Returns an error if a command that neither reads nor writes data has a read concern of
    /// another level than `local`.
    pub(super) fn check_no_read_concern(&self, request: &Request) -> Result<(), Fault> {
        let name = request.name.as_str();
        if is_read(name) || self.is_write(request) || !is_command(name) {
            return Ok(());
        }
        let Some(concern) = request.command.get("readConcern") else {
            return Ok(());
        };
        let (_, concern) = self.parsed(concern)?;
        match concern.get_str("level") {
            Ok("local") | Err(_) => Ok(()),
            Ok(word) => Err(not_supported(name, word)),
        }
    }

    /// Returns the level of a read. Fails if the read concern is malformed, or if the command or
    /// the server does not support it.
    fn level(&self, request: &Request) -> Result<Level, Fault> {
        let Some(concern) = request.command.get("readConcern") else {
            return Ok(Level::Newest);
        };
        // A cursor has the read concern of the command that opened it.
        if request.name == "getMore" {
            return Ok(Level::Newest);
        }
        let (level, concern) = self.parsed(concern)?;
        self.check_level(request, concern, level)?;
        Ok(level)
    }

    /// Parses a read concern, without a check whether the command supports it.
    fn parsed<'a>(&self, concern: &'a Bson) -> Result<(Level, &'a Document), Fault> {
        let Bson::Document(concern) = concern else {
            return Err(fault(9, "readConcern field should be an object"));
        };
        let is_old = self.program.version.release[0] < 8;
        if let Some(field) = concern.keys().find(|key| !FIELDS.contains(&key.as_str())) {
            return Err(match is_old {
                true => fault(72, format!("Unrecognized option in readConcern: {field}")),
                false => {
                    let text = format!("BSON field 'readConcern.{field}' is an unknown field.");
                    fault(40415, text)
                }
            });
        }
        let after = time_of(concern, "afterClusterTime")?;
        let at = time_of(concern, "atClusterTime")?;
        let level = match concern.get("level") {
            None => Level::Newest,
            Some(Bson::String(level)) => match level.as_str() {
                "local" | "available" => Level::Newest,
                "majority" => Level::Majority,
                "linearizable" => Level::Linearizable,
                "snapshot" => Level::Snapshot(at),
                _ => return Err(unknown_level(level, is_old)),
            },
            Some(_) => return Err(fault(14, "readConcern.level must be a string")),
        };
        if after.is_some() && at.is_some() {
            let text = "Specifying a timestamp for readConcern snapshot in a causally consistent \
                        session is not allowed. See https://docs.mongodb.com/manual/core/\
                        read-isolation-consistency-recency/#causal-consistency";
            return Err(fault(72, text));
        }
        if at.is_some() && !matches!(level, Level::Snapshot(_)) {
            let text = "atClusterTime field can be set only if level is equal to snapshot";
            return Err(fault(72, text));
        }
        Ok((level, concern))
    }

    /// Returns the times `afterClusterTime` and `atClusterTime` of the first statement of a
    /// transaction. Fails if transactions do not support its read concern.
    pub(super) fn transaction_concern(
        &self,
        request: &Request,
    ) -> Result<(Option<Timestamp>, Option<Timestamp>), Fault> {
        let Some(concern) = request.command.get("readConcern") else {
            return Ok((None, None));
        };
        let (level, concern) = self.parsed(concern)?;
        let word = concern.get_str("level").unwrap_or("local");
        if !matches!(word, "local" | "majority" | "snapshot") {
            let text = "The readConcern level must be either 'local' (default), 'majority' or \
                        'snapshot' in order to run in a transaction";
            return Err(fault(72, text));
        }
        let after = concern.get_timestamp("afterClusterTime").ok();
        let at = match level {
            Level::Snapshot(at) => at,
            _ => None,
        };
        self.check_times(request, after, at)?;
        Ok((after, at))
    }

    fn check_level(
        &self,
        request: &Request,
        concern: &Document,
        level: Level,
    ) -> Result<(), Fault> {
        let word = concern.get_str("level").unwrap_or_default();
        if concern.contains_key("afterClusterTime") && matches!(word, "linearizable" | "available")
        {
            let text = "afterClusterTime field can be set only if level is equal to majority, \
                        local, or snapshot";
            return Err(fault(72, text));
        }
        let name = request.name.as_str();
        let is_supported = match level {
            Level::Newest => true,
            Level::Majority | Level::Linearizable => {
                matches!(
                    name,
                    "find" | "aggregate" | "distinct" | "count" | "explain"
                )
            }
            Level::Snapshot(_) => matches!(name, "find" | "aggregate" | "distinct"),
        };
        if !is_supported {
            return Err(not_supported(name, word));
        }
        match level {
            Level::Newest | Level::Majority => Ok(()),
            Level::Snapshot(_) | Level::Linearizable if !self.is_set() => {
                let text =
                    format!("node needs to be a replica set member to use readConcern: {word}");
                Err(fault(123, text))
            }
            Level::Linearizable if name == "aggregate" && pipeline_writes(request) => {
                let text =
                    "$out and $merge cannot be used with a 'linearizable' read concern level";
                Err(fault(72, text))
            }
            Level::Linearizable if !self.replica.is_writable() => Err(not_writable_primary()),
            Level::Snapshot(_) | Level::Linearizable => Ok(()),
        }
    }

    /// Returns an error for a time of a read concern that no member has reached.
    fn check_times(
        &self,
        request: &Request,
        after: Option<Timestamp>,
        at: Option<Timestamp>,
    ) -> Result<(), Fault> {
        let gossiped = request.command.get_document("$clusterTime");
        let gossiped = gossiped.and_then(|time| time.get_timestamp("clusterTime"));
        let current = self.replica.last_time();
        let current = gossiped.map_or(current, |gossiped| current.max(gossiped));
        let shown = |time: Timestamp| format!("Timestamp({}, {})", time.time, time.increment);
        for (name, time) in [("afterClusterTime", after), ("atClusterTime", at)] {
            let Some(time) = time else { continue };
            if !self.is_set() {
                let text = format!("Cannot specify {name} readConcern without replication enabled");
                return Err(fault(20, text));
            }
            if time > current {
                let text = format!(
                    "readConcern {name} value must not be greater than the current clusterTime. \
                     Requested clusterTime: {}; current clusterTime: {}",
                    shown(time),
                    shown(current)
                );
                return Err(fault(72, text));
            }
        }
        Ok(())
    }

    /// True if a read at a time can be executed. One of several shards that has not reached a time
    /// of the others writes an empty entry, because its own clients may never write. So does a
    /// primary once a wall clock has jumped, because its own clock may be far behind the time.
    pub(super) fn is_ready(
        &mut self,
        now: Instant,
        request: &Request,
        time: Timestamp,
        is_committed: bool,
    ) -> bool {
        let is_behind = !self.has_reached(time, false);
        let is_one_of_several = self.shard.is_some() && self.options.shards > 1;
        let may_be_far = is_one_of_several || self.replica.clocks_may_differ();
        if is_behind && may_be_far && self.replica.is_writable() {
            self.replica.note_time(time);
            self.replica.append(now, Vec::new(), None);
        }
        self.is_settled_at(request, time, is_committed)
    }

    /// True if this member, or a majority, has reached the time of a read, and all transactions
    /// that the read must wait for are decided.
    pub(super) fn is_settled_at(
        &self,
        request: &Request,
        time: Timestamp,
        is_committed: bool,
    ) -> bool {
        self.has_reached(time, is_committed) && !self.awaits_decision(request, time)
    }

    /// True if this member has reached a time, or a majority has.
    pub(super) fn has_reached(&self, time: Timestamp, is_committed: bool) -> bool {
        let reached = match is_committed {
            true => self.replica.time_at(self.replica.commit()),
            false => self.replica.last_time(),
        };
        reached >= time
    }

    /// Returns a copy of the data that a read sees.
    pub(super) fn store_for(&self, request: &Request) -> Result<Store, Fault> {
        if let Some(store) = self.store_of_part(request) {
            return store;
        }
        let level = self.level(request)?;
        match self.place_of(level)? {
            None => Ok(self.replica.store().clone()),
            Some((index, at)) => self.replica.store_at(index, at).ok_or_else(is_gone),
        }
    }

    /// Returns the index of the last entry that a read sees, and the time that its reply has.
    /// Returns `None` for the newest data.
    fn place_of(&self, level: Level) -> Result<Option<(u64, Option<Timestamp>)>, Fault> {
        let commit = self.replica.commit();
        Ok(match level {
            Level::Newest | Level::Linearizable => None,
            Level::Majority if commit == self.replica.last().index => None,
            Level::Majority => Some((commit, None)),
            Level::Snapshot(None) => Some((commit, Some(self.replica.time_at(commit)))),
            Level::Snapshot(Some(at)) => {
                let index = self.replica.index_at(at).ok_or_else(is_gone)?;
                Some((index, Some(at)))
            }
        })
    }

    /// Returns the data that a level sees. The last such data is kept, because reads of the same
    /// data often follow each other.
    fn view_of(&mut self, request: &mut Request, level: Level) -> Result<Seen, Fault> {
        if self.jobs.has_done() {
            // The job has read the data, which is not made again.
            let Some(store) = self.jobs.earlier.take() else {
                return Ok(Seen::Newest);
            };
            let at = match level {
                Level::Snapshot(at) => at,
                _ => None,
            };
            return Ok(Seen::Earlier(View { store, at }));
        }
        let past = match begun(request) {
            Some(past) => past,
            None => {
                let Some((index, at)) = self.place_of(level)? else {
                    return Ok(Seen::Newest);
                };
                let place = (self.replica.term_at(index), index);
                let kept = self.kept_view.as_ref();
                let kept = kept.filter(|(of, _)| *of == place && self.options.shards == 1);
                if let Some((_, store)) = kept {
                    let store = store.clone();
                    return Ok(Seen::Earlier(View { store, at }));
                }
                Box::new(self.replica.past(index, at).ok_or_else(is_gone)?)
            }
        };
        let Some(past) = self.complete(request, past) else {
            return Ok(Seen::Later);
        };
        let (place, at) = (past.place(), past.time());
        let store = past.into_store().ok_or_else(is_gone)?;
        self.kept_view = Some((place, store.clone()));
        Ok(Seen::Earlier(View { store, at }))
    }

    /// Returns the data of a cluster time, for the start of a transaction. Returns `None` if the
    /// command must pause.
    pub(super) fn store_of_time(
        &mut self,
        request: &mut Request,
        at: Timestamp,
    ) -> Result<Option<Store>, Fault> {
        let past = match begun(request) {
            Some(past) => past,
            None => {
                let index = self.replica.index_at(at).ok_or_else(is_gone)?;
                Box::new(self.replica.past(index, Some(at)).ok_or_else(is_gone)?)
            }
        };
        match self.complete(request, past) {
            Some(past) => past.into_store().ok_or_else(is_gone).map(Some),
            None => Ok(None),
        }
    }

    /// Makes the next part of earlier data, or the whole data if the command cannot pause. Returns
    /// the data if it is complete, and otherwise keeps it in the request.
    fn complete(&self, request: &mut Request, mut past: Box<Past>) -> Option<Box<Past>> {
        let most = match self.can_wait_for_jobs() {
            true => MAX_REVERTED,
            false => usize::MAX,
        };
        if past.go_on(most) {
            return Some(past);
        }
        request.progress = Some(Box::new(Progress::Past(past)));
        None
    }
}

/// Takes the earlier data that a command has begun to make.
fn begun(request: &mut Request) -> Option<Box<Past>> {
    match request.progress.take().map(|progress| *progress) {
        Some(Progress::Past(past)) => Some(past),
        other => {
            request.progress = other.map(Box::new);
            None
        }
    }
}

/// Returns the error of a command that does not support the level of its read concern.
fn not_supported(name: &str, level: &str) -> Fault {
    let text = format!(
        "Command {name} does not support {{ readConcern: {{ level: \"{level}\", provenance: \
         \"clientSupplied\" }} }} :: caused by :: read concern not supported"
    );
    fault(72, text)
}

/// Returns a time of a read concern, if it has one.
fn time_of(concern: &Document, field: &str) -> Result<Option<Timestamp>, Fault> {
    match concern.get(field) {
        None => Ok(None),
        Some(Bson::Timestamp(time)) if (time.time, time.increment) == (0, 0) => {
            Err(fault(72, format!("{field} cannot be a null timestamp")))
        }
        Some(Bson::Timestamp(time)) => Ok(Some(*time)),
        Some(other) => {
            let text = format!(
                "BSON field 'readConcern.{field}' is the wrong type '{}', expected type \
                 'timestamp'",
                type_name(other)
            );
            Err(fault(14, text))
        }
    }
}

pub(super) fn is_gone() -> Fault {
    fault(239, "the oplog no longer has the requested atClusterTime")
}

fn unknown_level(level: &str, is_old: bool) -> Fault {
    match is_old {
        true => {
            let text = "readConcern.level must be either 'local', 'majority', 'linearizable', \
                        'available', or 'snapshot'";
            fault(9, text)
        }
        false => {
            let text = format!(
                "Enumeration value '{level}' for field 'readConcern.level' is not a valid value."
            );
            fault(2, text)
        }
    }
}

pub(super) fn read_deadline(now: Instant, command: &Document) -> Option<Instant> {
    let limit = integer_field(command, "maxTimeMS").and_then(|n| u64::try_from(n).ok());
    let limit = limit.filter(|&n| n > 0)?;
    Some(now + Duration::from_millis(limit))
}
