//! Change streams: cursors that find their documents in the oplog, as soon as a majority has them.

mod options;

use super::{
    Member,
    connection::Request,
    cursor::{Cursor, MAX_BATCH_BYTES},
    dispatch::Answer,
    document::integer_field,
    fault::{Fault, fault},
    read::{FIRST_BATCH, batch_size, collation},
    retry::session_key,
    tail::Refill,
};
use crate::{
    replica::Step,
    store::{Record, Room, Token, Watch, change_stream},
};
use bson::{Bson, Document, Timestamp};
use onionskin_core::time::Instant;
use options::Start;
use std::sync::Arc;

/// The largest number of oplog entries that one command searches. A `getMore` that has searched so
/// many without an event returns an empty batch.
const MAX_RECORDS: u64 = 1000;

/// The label of an error after which a client resumes a change stream.
const RESUMABLE: &str = "ResumableChangeStreamError";

/// The label of an error after which a change stream cannot resume.
pub(super) const NOT_RESUMABLE: &str = "NonResumableChangeStreamError";

/// The error code `ChangeStreamHistoryLost`.
const HISTORY_LOST: i32 = 286;

/// True for the codes `ChangeStreamFatalError` and `ChangeStreamHistoryLost`, whose errors have the
/// label [`NOT_RESUMABLE`] in the reply to any command.
pub(super) const fn ends_streams(code: i32) -> bool {
    matches!(code, 280 | HISTORY_LOST)
}

/// A change stream of a cursor.
#[derive(Debug)]
pub(super) struct OpenStream {
    watch: Watch,
    /// The index of the next oplog entry to search.
    next: u64,
    /// The `let` of the command.
    variables: Option<Document>,
}

impl OpenStream {
    /// True if no events follow, because an event or [`Member::end_streams`] has ended the stream.
    pub(super) const fn has_ended(&self) -> bool {
        self.watch.has_ended()
    }

    /// Ends the stream without an event.
    pub(super) const fn end(&mut self) {
        self.watch.end();
    }

    /// Returns the token after which a client resumes the stream, if it has all events that were
    /// found.
    pub(super) fn place(&self) -> Document {
        self.watch.place().to_document()
    }
}

impl Member {
    /// Ends all open change streams: the reply with their last events has the cursor id 0. Returns
    /// false if none is open.
    pub(crate) fn end_streams(&mut self) -> bool {
        self.cursors.end_streams()
    }

    /// Opens the change stream of an `aggregate` whose pipeline starts with `$changeStream`.
    pub(super) fn open_stream(
        &mut self,
        now: Instant,
        request: &Request,
        operand: &Bson,
        stages: &[Document],
    ) -> Answer {
        let command = &request.command;
        let (focus, start) = self.stream_options(request, operand)?;
        let place = match start {
            Start::After(token) => token,
            Start::At(time) => Token::high_water(time),
            Start::Now => {
                let Timestamp { time, increment } = self.replica.last_time();
                let (increment, carried) = increment.overflowing_add(1);
                Token::high_water(Timestamp {
                    time: time.saturating_add(u32::from(carried)),
                    increment,
                })
            }
        };
        let Some(next) = self.replica.index_from(place.time()) else {
            return Err(history_lost());
        };
        let watch = Watch::new(focus, stages, collation(command), place)?;
        let options = command.get_document("cursor");
        let size = options.map_or(Ok(None), batch_size)?.unwrap_or(FIRST_BATCH);
        let collection = command.get_str(&request.name).unwrap_or("$cmd.aggregate");
        let variables = command.get_document("let").ok().cloned();
        let mut cursor = Cursor {
            serial: 0,
            namespace: format!("{}.{collection}", request.database),
            session: session_key(command),
            transaction: None,
            documents: std::collections::VecDeque::new(),
            tail: None,
            stream: Some(Box::new(OpenStream {
                watch,
                next,
                variables,
            })),
            no_timeout: false,
            ends_early: false,
            is_limited: false,
            bytes: 0,
        };
        self.search_oplog(now, &mut cursor, size)?;
        Ok(self.first_batch(now, cursor, size, false)?.into())
    }

    /// Searches the oplog for events of a cursor without documents. After an error, the cursor is
    /// closed.
    pub(super) fn refill_stream(
        &mut self,
        now: Instant,
        id: i64,
        command: &Document,
    ) -> Result<Refill, Fault> {
        let size = batch_size(command)?.filter(|&size| size > 0);
        let Some(mut cursor) = self.cursors.remove(id) else {
            return Ok(Refill::Nothing);
        };
        let refill = self.search_oplog(now, &mut cursor, size.unwrap_or(usize::MAX))?;
        cursor.bytes = cursor.own_bytes();
        self.cursors.check_room(&cursor)?;
        self.cursors.insert(now, id, cursor);
        Ok(refill)
    }

    /// Adds the next events to the documents of a cursor. A search that ends because of the number
    /// of entries counts as one that has found events, so that the `getMore` is answered.
    fn search_oplog(
        &mut self,
        now: Instant,
        cursor: &mut Cursor,
        documents: usize,
    ) -> Result<Refill, Fault> {
        let Some(stream) = cursor.stream.as_deref_mut() else {
            return Ok(Refill::Nothing);
        };
        let commit = self.replica.commit();
        let end = commit.min(stream.next.saturating_add(MAX_RECORDS - 1));
        let mut entries = Vec::new();
        for index in stream.next..=end {
            let entry = self.replica.shared_entry(index).ok_or_else(history_lost)?;
            entries.push(Arc::clone(entry));
        }
        let records = entries.iter().map(|entry| Record {
            time: entry.time,
            wall_millis: entry.wall_millis,
            changes: &entry.changes,
            transaction: entry.retry.as_ref().and_then(|retry| {
                let id = (retry.session, retry.transaction);
                matches!(retry.step, Step::Commit(_)).then_some(id)
            }),
        });
        let records: Vec<Record<'_>> = records.collect();
        let is_newest = commit == self.replica.last().index;
        let committed = match stream.watch.looks_up() && !is_newest && !records.is_empty() {
            true => Some(
                self.replica
                    .store_at(commit, None)
                    .ok_or_else(history_lost)?,
            ),
            false => None,
        };
        let room = Room {
            documents,
            bytes: MAX_BATCH_BYTES,
        };
        let OpenStream {
            watch,
            next,
            variables,
        } = stream;
        let (parts, variables) = (self.pausing(), variables.as_ref());
        let (found, searched) =
            self.with_newest_store(now, variables, parts, |store, environment| {
                let committed = committed.as_ref().unwrap_or(store);
                watch.search(&records, room, committed, environment)
            })?;
        *next += searched as u64;
        let refill = match found.is_empty() {
            true if searched < records.len() && !watch.has_ended() => Refill::Paused,
            true if *next > commit => Refill::Nothing,
            _ => Refill::Found,
        };
        cursor.documents.extend(found);
        Ok(refill)
    }

    /// True if the oplog has entries that a change stream has not searched.
    pub(super) fn stream_has_more(&self, stream: &OpenStream) -> bool {
        self.replica.commit() >= stream.next
    }

    /// Adds the labels that an error has because of its code: after some of them no change stream
    /// can resume, and since 4.4, those of a change stream say whether it can. The errors of the
    /// fail point `failCommand` have only the first, because no cursor has raised them.
    pub(super) fn labelled(&self, request: &Request, fault: Fault) -> Fault {
        let labels = self.stream_labels(request, fault.error.code);
        match fault.labels.is_none() && !labels.is_empty() {
            true => Fault {
                labels: Some(labels),
                ..fault
            },
            false => fault,
        }
    }

    fn stream_labels(&self, request: &Request, code: i32) -> Vec<String> {
        let says_resumable = self.program.version.release >= [4, 4, 0];
        let label = match code {
            _ if ends_streams(code) => NOT_RESUMABLE,
            code if says_resumable && is_resumable(code) && self.is_of_stream(request) => RESUMABLE,
            _ => return Vec::new(),
        };
        vec![label.to_owned()]
    }

    /// True for the `aggregate` that opens a change stream, and for a `getMore` of one.
    fn is_of_stream(&self, request: &Request) -> bool {
        match request.name.as_str() {
            "aggregate" => opens_stream(request),
            "getMore" => {
                let id = integer_field(&request.command, "getMore").unwrap_or(0);
                let cursor = self.cursors.get(id);
                cursor.is_some_and(|cursor| cursor.stream.is_some()) || self.routing.is_stream(id)
            }
            _ => false,
        }
    }
}

/// True for an `aggregate` that opens a change stream.
pub(super) fn opens_stream(request: &Request) -> bool {
    let pipeline = request.command.get_array("pipeline").ok();
    let first = pipeline.and_then(|stages| stages.first()?.as_document());
    let first = first.map(std::slice::from_ref);
    request.name == "aggregate" && first.is_some_and(|stages| change_stream(stages).is_some())
}

/// True for the codes of errors after which a change stream resumes: those of networks, of changes
/// of the primary, and of routing.
const fn is_resumable(code: i32) -> bool {
    matches!(
        code,
        6 | 7
            | 63
            | 89
            | 91
            | 133
            | 150
            | 189
            | 234
            | 262
            | 9001
            | 10107
            | 11600
            | 11602
            | 13388
            | 13435
            | 13436
    )
}

fn history_lost() -> Fault {
    let text = "Resume of change stream was not possible, as the resume point may no longer be in \
                the oplog.";
    fault(HISTORY_LOST, text)
}
