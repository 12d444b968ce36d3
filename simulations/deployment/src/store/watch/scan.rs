//! The search for the events of a change stream in the oplog.

use bson::{Bson, DateTime, Document, Timestamp};

use super::super::Store;
use super::super::change::Change;
use super::super::error::StoreError;
use super::super::pipeline::{Run, parse};
use super::super::release::Release;
use super::super::size::{self, MAX_DOCUMENT_BYTES};
use super::super::stages;
use super::super::types::{Environment, Namespace, Shared};
use super::split::{lost_token, split, too_large};
use super::{Answer, Focus, Scope, Stamp, Token};

/// The name of the first stage of the pipeline of a change stream.
const STREAM: &str = "$changeStream";

/// The name of the stage that splits large events.
const SPLIT: &str = "$changeStreamSplitLargeEvent";

/// The stages that a change stream can have after its first stage.
const PERMITTED: [&str; 8] = [
    "$match",
    "$project",
    "$addFields",
    "$set",
    "$unset",
    "$replaceRoot",
    "$replaceWith",
    "$redact",
];

/// One oplog entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record<'a> {
    pub(crate) time: Timestamp,
    pub(crate) wall_millis: u64,
    pub(crate) changes: &'a [Change],
    /// The session and the number of the transaction whose changes these are.
    pub(crate) transaction: Option<([u8; 16], i64)>,
}

/// The largest number of events of a search, and their largest total size in bytes. The first event
/// can exceed the size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    pub(crate) documents: usize,
    pub(crate) bytes: usize,
}

/// A change stream, and its place among the events.
#[derive(Clone, Debug)]
pub(crate) struct Watch {
    focus: Focus,
    /// The stages after `$changeStream`, without `$changeStreamSplitLargeEvent`.
    stages: Vec<Document>,
    splits: bool,
    collation: Option<Document>,
    /// The token of the last event, or a high-water mark. Later events follow.
    place: Token,
    /// The number of changes of the next oplog entry that were searched.
    searched: usize,
    /// True until the event of the token with which the stream has resumed was found.
    is_unverified: bool,
    /// True after an event that ends the stream, and after [`end`](Self::end).
    has_ended: bool,
}

/// Returns the options of a change stream, if a pipeline starts with `$changeStream`.
pub(crate) fn change_stream(pipeline: &[Document]) -> Option<&Bson> {
    pipeline.first().and_then(|stage| stage.get(STREAM))
}

impl Watch {
    /// Creates a stream of the events after `place`. `stages` follow `$changeStream`.
    pub(crate) fn new(
        focus: Focus,
        stages: &[Document],
        collation: Option<Document>,
        place: Token,
    ) -> Answer<Self> {
        stages::check_length(stages)?;
        let (splits, stages) = match stages.split_last() {
            Some((last, rest)) if last.contains_key(SPLIT) && focus.release >= [7, 0, 0] => {
                (true, rest)
            }
            _ => (false, stages),
        };
        for stage in stages {
            check(stages::stage_name(stage)?, focus.release)?;
        }
        if place.is_fragment() && !splits {
            let text = "To resume from a split event, the resumed stream must include a \
                        $changeStreamSplitLargeEvent stage";
            return Err(StoreError::new(280, text));
        }
        Ok(Self {
            focus,
            stages: stages.to_vec(),
            splits,
            collation,
            place,
            searched: 0,
            is_unverified: place.change().is_some(),
            has_ended: false,
        })
    }

    /// Returns the place of the stream: the token after which it resumes.
    pub(crate) const fn place(&self) -> Token {
        self.place
    }

    pub(crate) const fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Ends the stream at its present place, without an event.
    pub(crate) const fn end(&mut self) {
        self.has_ended = true;
    }

    /// True if the stream reads documents that a majority has, besides the oplog.
    pub(crate) fn looks_up(&self) -> bool {
        self.focus.full_document == super::FullDocument::UpdateLookup
    }

    /// Searches oplog entries for events. Returns the events, and the number of entries that were
    /// searched to their ends. `committed` has the data that a majority has. An error after the
    /// first event ends the search before this error. The parts of the environment can end it after
    /// any change.
    pub(crate) fn search(
        &mut self,
        records: &[Record<'_>],
        room: Room,
        committed: &Store,
        environment: &Environment<'_>,
    ) -> Answer<(Vec<Shared>, usize)> {
        let name = match &self.focus.scope {
            Scope::Collection(name) => name.clone(),
            Scope::Database(database) => Namespace::new(database, ""),
            Scope::Deployment => Namespace::new("admin", ""),
        };
        let context = committed.context(&name, self.collation.as_ref(), environment)?;
        let run = Run {
            store: committed,
            database: &name.database,
            context: &context,
            depth: 0,
            parses_only: false,
        };
        // Stages that are malformed fail at once.
        parse(&self.stages, 0, context.release)?;
        let (mut found, mut bytes) = (Vec::new(), 0);
        for (done, record) in records.iter().enumerate() {
            self.verify(record)?;
            while self.searched < record.changes.len() {
                if found.len() >= room.documents || bytes >= room.bytes || self.has_ended {
                    return Ok((found, done));
                }
                let mark = context.budget.charged();
                let events = context.budget.step(1);
                let events = events.and_then(|()| self.events(record, &run));
                context.budget.release_to(mark);
                let events = match events {
                    Err(_) if !found.is_empty() => return Ok((found, done)),
                    events => events?,
                };
                for (token, event) in events {
                    self.place = token;
                    self.has_ended = token.invalidates();
                    bytes += size::of(&event);
                    found.push(event);
                }
                self.searched += 1;
                environment.parts.count_document();
                if environment.parts.must_pause(&context) {
                    return Ok((found, done));
                }
            }
            self.searched = 0;
            self.place = self.place.max(Token::high_water(record.time));
        }
        Ok((found, records.len()))
    }

    /// Returns an error if the oplog does not have the event after which the stream resumes.
    fn verify(&mut self, record: &Record<'_>) -> Answer<()> {
        if !self.is_unverified || record.time < self.place.time() {
            return Ok(());
        }
        self.is_unverified = false;
        let change = self.place.change().and_then(|at| record.changes.get(at));
        let is_there = change.is_some_and(|change| self.focus.covers(change));
        if record.time == self.place.time() && is_there {
            return Ok(());
        }
        let text = format!(
            "cannot resume stream; the resume token was not found. {}",
            super::super::display(&self.place.to_document())
        );
        Err(StoreError::new(280, text))
    }

    /// Returns the events of the next change of an oplog entry.
    fn events(&self, record: &Record<'_>, run: &Run<'_>) -> Answer<Vec<(Token, Shared)>> {
        let at = self.searched;
        let stamp = |invalidates| {
            let token = Token::event(record.time, at, invalidates);
            let wall = i64::try_from(record.wall_millis).unwrap_or(i64::MAX);
            let stamp = Stamp {
                token: token.to_document(),
                time: record.time,
                wall: DateTime::from_millis(wall),
                transaction: record.transaction,
            };
            (token, stamp)
        };
        let mut events = Vec::new();
        let (token, own) = stamp(false);
        if token > self.place {
            let mut lookup = |name: &Namespace, serial, document: &Document| {
                let found = run.store.collection(name);
                let found = found.filter(|collection| collection.serial == serial);
                found
                    .and_then(|collection| collection.with_id_of(document))
                    .cloned()
            };
            if let Some(event) = self.focus.event(record.changes, at, &own, &mut lookup)? {
                events.extend(self.passed(event, token, &own, run)?);
            }
        }
        let (token, own) = stamp(true);
        if token > self.place
            && let Some(event) = self.focus.invalidation(record.changes, at, &own)
        {
            // The stages cannot hide the end of the stream.
            events.push((token, Shared::new(event)));
        }
        events.retain(|(token, _)| *token > self.place);
        Ok(events)
    }

    /// Passes an event through the stages.
    fn passed(
        &self,
        event: Document,
        token: Token,
        stamp: &Stamp,
        run: &Run<'_>,
    ) -> Answer<Vec<(Token, Shared)>> {
        let passed = run.stages(vec![Shared::new(event)], "", &self.stages)?;
        let Some(event) = passed.into_iter().next() else {
            return Ok(Vec::new());
        };
        if let Some(error) = lost_token(&event, &stamp.token) {
            return Err(error);
        }
        match size::of(&event) {
            bytes if bytes <= MAX_DOCUMENT_BYTES => Ok(vec![(token, event)]),
            _ if self.splits => split(&event, token),
            bytes => Err(too_large(bytes)),
        }
    }
}

/// Returns an error if a stage cannot follow `$changeStream`.
fn check(name: &str, release: [u16; 3]) -> Answer<()> {
    match name {
        name if PERMITTED.contains(&name) => Ok(()),
        STREAM => {
            let text = format!("{STREAM} is only valid as the first stage in a pipeline");
            Err(StoreError::new(40602, text))
        }
        SPLIT if release >= [7, 0, 0] => {
            let text = format!("{SPLIT} must be the last stage in the pipeline");
            Err(StoreError::new(7_182_802, text))
        }
        name if stages::is_known(name, Release(release)) => {
            let text = format!("{name} is not permitted in a {STREAM} pipeline");
            Err(StoreError::new(20, text))
        }
        name => Err(stages::unrecognized(name)),
    }
}
