//! The command `insert`.

use super::{
    Member,
    connection::Request,
    dispatch::{Answer, Outcome, namespace},
    fault::{Fault, bad_value},
    parts::Progress,
    retry::RetryableWrite,
    write::{Tally, set_bypasses},
};
use crate::{
    replica::{Effect, Op},
    store::{Environment, InsertResult, Namespace, Store, StoreError, WriteError, encoded_bytes},
};
use bson::Document;
use onionskin_core::time::Instant;
use std::{collections::BTreeSet, mem, sync::Arc};

/// The number of documents of a group, at which it is full.
const MAX_GROUP: usize = 500;

/// The size of the documents of a group, at which it is full, in bytes.
const MAX_GROUP_BYTES: usize = 256 * 1024;

/// The largest number of documents between two looks at the work of an insert so far.
const MAX_PART: usize = 50;

/// The steps of a document that is not inserted.
const STEPS_OF_CHECK: u64 = 20;

/// Divides the documents of an insert into groups, as the server does (`internalInsertMaxBatchSize`
/// and `insertVectorMaxBytes`). Each has the place of its first document.
fn insert_groups(documents: Vec<Document>) -> Vec<(usize, Vec<Document>)> {
    let mut groups: Vec<(usize, Vec<Document>)> = Vec::new();
    let (mut place, mut bytes) = (0, 0);
    for document in documents {
        let size = encoded_bytes(&document);
        match groups.last_mut() {
            Some((_, group)) if group.len() < MAX_GROUP && bytes < MAX_GROUP_BYTES => {
                group.push(document);
                bytes += size;
            }
            _ => {
                groups.push((place, vec![document]));
                bytes = size;
            }
        }
        place += 1;
    }
    groups
}

/// The documents of an insert that are left.
#[derive(Clone, Debug)]
pub(super) struct Inserts {
    /// The documents of the command. Clones share them.
    documents: Arc<Vec<Document>>,
    /// The place of the first document that was not checked yet.
    next: usize,
    tally: Tally,
}

impl Inserts {
    fn left(&self) -> usize {
        self.documents.len() - self.next
    }

    /// Takes the next document that is left, with its place in the command.
    fn take(&mut self) -> Option<(usize, Document)> {
        let place = self.next;
        let document = match Arc::get_mut(&mut self.documents) {
            Some(own) => mem::take(own.get_mut(place)?),
            // A clone needs the document as well.
            None => self.documents.get(place)?.clone(),
        };
        self.next += 1;
        Some((place, document))
    }

    /// Adds the result of the documents with these places.
    fn add(&mut self, indexes: &[usize], result: InsertResult, ordered: bool, is_retryable: bool) {
        let mut failed = BTreeSet::new();
        if ordered && !result.errors.is_empty() {
            // A later document that was refused is not reached.
            self.tally.forget_errors();
        }
        for error in result.errors {
            failed.insert(error.index);
            self.tally.fail(indexes[error.index], error.error);
        }
        let first = failed.first().copied().filter(|_| ordered);
        let stop = first.unwrap_or(indexes.len());
        for at in (0..stop).filter(|at| !failed.contains(at)) {
            let effect = Effect::Write {
                op: Op::Insert,
                matched: 1,
                modified: 0,
                upserted: None,
            };
            self.tally.count(indexes[at], &effect);
            if is_retryable {
                self.tally.effects.push((indexes[at], effect));
            }
        }
    }
}

/// Returns the error of a new document that is larger than the limit.
pub(super) fn too_large(document: &Document, limit: usize) -> Fault {
    let size = encoded_bytes(document);
    bad_value(format!(
        "object to insert too large. size in bytes: {size}, max size: {limit}"
    ))
}

impl Member {
    pub(super) fn insert(&mut self, now: Instant, request: &mut Request) -> Answer {
        let namespace = namespace(request)?;
        let (mut inserts, retryable) = match request.progress.take().map(|progress| *progress) {
            Some(Progress::Inserts(inserts)) => {
                let retryable = self.retryable_write(request, inserts.documents.len())?;
                (inserts, retryable)
            }
            _ => self.begin_inserts(request)?,
        };
        let ordered = self.stops_at_error(request);
        while inserts.left() > 0 {
            if self.must_pause() {
                self.record(now, &mut inserts.tally, retryable.as_ref());
                request.progress = Some(Box::new(Progress::Inserts(inserts)));
                return self.pause(now, request);
            }
            let is_retryable = retryable.is_some();
            // A fail point counts groups of another size.
            let is_counted = is_retryable && self.has_fail_points();
            let most = match self.can_wait_for_jobs() && !is_counted {
                true => MAX_PART.min(inserts.left()),
                false => inserts.left(),
            };
            let (indexes, documents) =
                self.next_documents(request, &mut inserts, most, retryable.as_ref());
            if documents.is_empty() {
                continue;
            }
            let outcome = self.insert_batch(now, request, &namespace, documents, is_retryable);
            let outcome = match outcome {
                Ok(outcome) => outcome,
                Err(error) => {
                    self.drop_rest(request, &mut inserts);
                    return Err(error.into());
                }
            };
            let has_failed = !outcome.errors.is_empty();
            let steps = STEPS_OF_CHECK.saturating_mul(outcome.errors.len() as u64);
            self.jobs.spent = self.jobs.spent.saturating_add(steps);
            inserts.add(&indexes, outcome, ordered, is_retryable);
            if ordered && has_failed {
                break;
            }
        }
        self.record(now, &mut inserts.tally, retryable.as_ref());
        self.drop_rest(request, &mut inserts);
        Ok(Outcome::Written(self.write_reply(inserts.tally, false)))
    }

    fn begin_inserts(
        &mut self,
        request: &mut Request,
    ) -> Result<(Inserts, Option<RetryableWrite>), Fault> {
        let documents = self.statements(request, "documents")?;
        let retryable = self.retryable_write(request, documents.len())?;
        let inserts = Inserts {
            documents: Arc::new(documents),
            next: 0,
            tally: Tally::default(),
        };
        Ok((inserts, retryable))
    }

    /// Takes at most `most` documents of an insert. Returns those that are valid and that were not
    /// inserted by another attempt, and their places in the command.
    fn next_documents(
        &mut self,
        request: &Request,
        inserts: &mut Inserts,
        most: usize,
        retryable: Option<&RetryableWrite>,
    ) -> (Vec<usize>, Vec<Document>) {
        let ordered = self.stops_at_error(request);
        let may_be_large = request.bytes > self.options.limits.max_document_bytes;
        let (mut indexes, mut documents) = (Vec::new(), Vec::new());
        for _ in 0..most {
            let Some((index, document)) = inserts.take() else {
                break;
            };
            // Another attempt can have inserted the document while this one had paused.
            let done = retryable.and_then(|write| write.done(&self.replica, index, Op::Insert));
            if let Some((id, effect)) = done {
                inserts.tally.retried.push(id);
                inserts.tally.count(index, &effect);
                self.jobs.spent = self.jobs.spent.saturating_add(STEPS_OF_CHECK);
                continue;
            }
            match self.check_new(&document, may_be_large) {
                Ok(()) => {
                    indexes.push(index);
                    documents.push(document);
                }
                Err(fault) => {
                    inserts.tally.fail(index, fault.error);
                    self.jobs.spent = self.jobs.spent.saturating_add(STEPS_OF_CHECK);
                    if ordered {
                        self.drop_rest(request, inserts);
                    }
                }
            }
        }
        (indexes, documents)
    }

    /// Drops the documents of an insert that are left.
    fn drop_rest(&mut self, request: &Request, inserts: &mut Inserts) {
        if inserts.left() > 0 {
            let rest = mem::take(&mut inserts.documents);
            self.garbage.add(request.bytes, rest);
            inserts.next = 0;
        }
    }

    /// Checks a new document, and its size if it may be too large.
    pub(super) fn check_new(&self, document: &Document, may_be_large: bool) -> Result<(), Fault> {
        let limit = self.options.limits.max_document_bytes;
        if may_be_large && encoded_bytes(document) > limit {
            return Err(too_large(document, limit));
        }
        self.check_inserted(document)
    }

    /// Inserts documents. With a fail point for retryable writes, inserts them in groups of the
    /// server's size, each of which the fail point counts.
    fn insert_batch(
        &mut self,
        now: Instant,
        request: &Request,
        namespace: &Namespace,
        documents: Vec<Document>,
        is_retryable: bool,
    ) -> Result<InsertResult, StoreError> {
        let ordered = self.stops_at_error(request);
        let insert = |store: &mut Store, documents, environment: &mut Environment<'_>| {
            set_bypasses(environment, &request.command);
            store.insert(namespace, documents, ordered, environment)
        };
        if !(is_retryable && self.has_fail_points()) {
            return self.with_store(now, None, |store, env| insert(store, documents, env));
        }
        let mut result = InsertResult::default();
        for (first, group) in insert_groups(documents) {
            let start = self.replica.store().pending_changes();
            let again = group.clone();
            let done = self.with_store(now, None, |store, env| insert(store, group, env))?;
            let parts = match self.undo_failed(start, true) {
                None => vec![(first, Ok(done))],
                Some(error) if again.len() == 1 => vec![(first, Err(error))],
                // Each document of the group is inserted alone then, as the server does.
                Some(_) => self.insert_alone(now, (first, again), ordered, insert),
            };
            for (first, done) in parts {
                match done {
                    Ok(done) => result.add(first, done),
                    Err(error) => result.errors.push(WriteError {
                        index: first,
                        error,
                    }),
                }
            }
            if ordered && !result.errors.is_empty() {
                break;
            }
        }
        Ok(result)
    }

    /// Inserts each document of a group alone, until one fails if the inserts are ordered. Returns
    /// the results with the place of their document.
    fn insert_alone(
        &mut self,
        now: Instant,
        (first, group): (usize, Vec<Document>),
        ordered: bool,
        insert: impl Fn(
            &mut Store,
            Vec<Document>,
            &mut Environment<'_>,
        ) -> Result<InsertResult, StoreError>,
    ) -> Vec<(usize, Result<InsertResult, StoreError>)> {
        let mut results = Vec::with_capacity(group.len());
        for (index, document) in (first..).zip(group) {
            let limits = Default::default();
            let done = self.with_statement(now, None, true, limits, |store, env| {
                insert(store, vec![document], env)
            });
            let has_failed = done.as_ref().map_or(true, |done| !done.errors.is_empty());
            results.push((index, done));
            if ordered && has_failed {
                break;
            }
        }
        results
    }
}
