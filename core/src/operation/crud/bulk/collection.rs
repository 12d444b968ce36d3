//! The bulk write of a collection: the commands `insert`, `update` and `delete`, which every server
//! has (CRUD, *Insert, Update, Replace, Delete, and Bulk Writes*).

use super::{
    super::{
        BulkWriteOptions, Defaults, SharedNamespace,
        held::Held,
        merge::{MergedBytes, add_labels},
        upserted::{Upserted, document_size},
    },
    WriteModel,
    models::Kind,
    statements::{Group, Statements},
};
use crate::{
    address::Address,
    error::{BulkWriteError, Error, ErrorKind, InsertManyError, Label, Labels, counts},
    operation::{Command, CommandKind, Exchange, Portion, Program, Step},
    options::Place,
    results::BulkWriteResult,
    session::SessionId,
};
use bson::{Bson, RawDocument, oid::ObjectId};
use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

/// The program of the bulk write of a collection. Consecutive models of one kind (inserts; updates
/// and replacements; deletes) become the statements of one command. An unordered bulk write has one
/// group of statements of each kind, first the inserts, then the updates, then the deletes. A
/// command has as many statements as `maxWriteBatchSize` and `maxMessageSizeBytes` of its server
/// allow ([MSG-4], [MSG-32]).
///
/// A command is retried as a write only if none of its statements can affect several documents.
/// Each command has its own transaction number ([RW-8], [RW-19]).
///
/// An ordered bulk write ends with the first statement that fails. An unordered one continues. A
/// write concern error ends neither. Any other error ends the bulk write, and so does the error of
/// a failed retry. All errors are raised together, with the results of the statements that
/// succeeded ([RW-29]).
///
/// [MSG-4]: crate::requirements::messages#MSG-4
/// [MSG-32]: crate::requirements::messages#MSG-32
/// [RW-8]: crate::requirements::retries#RW-8
/// [RW-19]: crate::requirements::retries#RW-19
/// [RW-29]: crate::requirements::retries#RW-29
#[derive(Debug)]
pub struct CollectionBulkWrite {
    namespace: SharedNamespace,
    options: BulkWriteOptions,
    defaults: Arc<Defaults>,
    /// The session that the application has started; `None` for implicit ones.
    session: Option<SessionId>,
    /// The statements that are not done. The first group is the one whose command runs.
    groups: VecDeque<Group>,
    /// The `_id` of each document to insert, by the index of its model.
    ids: BTreeMap<usize, Bson>,
    /// The number and the size of the statements of the first group that are done.
    done: Portion,
    /// The batch whose command runs; empty before the command is framed.
    batch: Portion,
    /// True in a transaction, which the server aborts after a failed statement.
    is_in_transaction: bool,
    /// The last reply with write errors or a write concern error, until its command is known not to
    /// be retried, or a retry has succeeded.
    held: Option<Held<BatchResult>>,
    result: BulkWriteResult,
    failures: BulkWriteError,
    labels: Labels,
    /// The server of the first error.
    server: Option<Address>,
    merged: MergedBytes,
    upserted: Upserted,
    /// True if a statement is known to have succeeded.
    has_success: bool,
}

/// The results in the reply to one command.
#[derive(Debug, Default)]
struct BatchResult {
    /// The number of documents that were inserted, matched, upserted or deleted.
    n: u64,
    modified: u64,
    /// The `_id` of each upserted document, by the index of its statement in the command.
    upserted: BTreeMap<usize, Bson>,
    /// The reader of upserted documents after this reply; `None` without a reply.
    reader: Option<Upserted>,
}

impl BatchResult {
    /// Reads the results of a command with this number of statements. Fails for malformed counts
    /// and upserted documents. The program continues with the reader of the result only if it adds
    /// the result, because a retry returns the same documents again.
    fn from_reply(
        reply: &RawDocument,
        statements: usize,
        mut reader: Upserted,
    ) -> Result<Self, Error> {
        let [n, modified] = counts(reply, ["n", "nModified"])?;
        Ok(Self {
            n,
            modified,
            upserted: reader.in_reply(reply, statements)?,
            reader: Some(reader),
        })
    }
}

impl CollectionBulkWrite {
    /// Returns a program for these models. `new_id` returns the `_id` of a document without one.
    ///
    /// Fails without a model, for a model of another collection, and for a model that cannot be
    /// encoded or is not valid. A model without a collection is one of `namespace`.
    pub fn new(
        namespace: SharedNamespace,
        models: &[WriteModel],
        options: BulkWriteOptions,
        defaults: Arc<Defaults>,
        new_id: impl FnMut() -> ObjectId,
    ) -> Result<Self, Error> {
        let is_ordered = options.ordered.unwrap_or(true);
        let statements = Statements::of(models, &namespace, is_ordered, new_id)?;
        let sizes = statements
            .groups
            .iter()
            .map(|group| group.statements.size_bytes());
        Ok(Self {
            upserted: Upserted::of_statements(
                sizes.sum::<usize>() + document_size(options.let_vars.as_ref()),
            ),
            namespace,
            options,
            defaults,
            session: None,
            groups: statements.groups.into(),
            ids: statements.ids,
            done: Portion::default(),
            batch: Portion::default(),
            is_in_transaction: false,
            held: None,
            result: BulkWriteResult::default(),
            failures: BulkWriteError::default(),
            labels: Labels::default(),
            server: None,
            merged: MergedBytes::default(),
            has_success: false,
        })
    }

    /// Makes all commands run in a session that the application has started.
    pub const fn set_session(&mut self, session: SessionId) {
        self.session = Some(session);
    }

    fn is_ordered(&self) -> bool {
        self.options.ordered.unwrap_or(true)
    }

    /// Returns the command of the next batch, or the result if no statement is left.
    fn next_step(&mut self) -> Step<BulkWriteResult> {
        while let Some(group) = self.groups.front() {
            if self.done.bytes < group.statements.size_bytes() {
                self.batch = Portion::default();
                return match self.command(group) {
                    Ok(command) => Step::Run(command),
                    Err(error) => self.finish(Some(error)),
                };
            }
            self.groups.pop_front();
            self.done = Portion::default();
        }
        self.finish(None)
    }

    fn command(&self, group: &Group) -> Result<Command, Error> {
        let (name, identifier) = match group.kind {
            Kind::Insert => ("insert", "documents"),
            Kind::Update => ("update", "updates"),
            Kind::Delete => ("delete", "deletes"),
        };
        let list = &group.statements;
        // Statements that can affect several documents make a command a plain write. If the first
        // one is not of these, its server decides whether the command has one.
        let kind = match list.is_multi_at(self.done.bytes) {
            true => CommandKind::Write,
            false => CommandKind::RetryableWrite,
        };
        let mut command = Command::new(name, self.namespace.database.clone(), kind);
        let mut body = command.body();
        body.str(name, &self.namespace.collection)
            .bool("ordered", self.is_ordered());
        let options = BulkWriteOptions {
            bypass_document_validation: self
                .options
                .bypass_document_validation
                .filter(|_| group.kind != Kind::Delete),
            let_vars: match group.kind {
                Kind::Insert => None,
                Kind::Update | Kind::Delete => self.options.let_vars.clone(),
            },
            ..self.options.clone()
        };
        options.write(Place::Body, &mut body)?;
        let concern = self.options.write_concern.as_ref();
        self.defaults.apply_to_statements(&mut command, concern)?;
        command.need_hint(group.kind == Kind::Delete && group.has_hint);
        if let Some(session) = self.session {
            command.use_explicit_session(session);
        }
        self.defaults
            .apply_timeout(&mut command, self.options.timeout);
        command.set_raw_data(self.options.raw_data);
        command.set_batch(identifier, list.clone(), self.done.bytes);
        Ok(command)
    }

    /// Returns the index of the model of a statement in the current batch.
    fn model(&self, statement: usize) -> Option<usize> {
        let group = self.groups.front()?;
        let at = self.done.documents.checked_add(statement)?;
        (statement < self.batch.documents).then(|| group.models.get(at).copied())?
    }

    /// Adds the results of the current batch. `failed` has the indexes of its statements that
    /// failed, in ascending order.
    fn add(&mut self, batch: BatchResult, failed: &[usize]) {
        self.upserted = batch.reader.unwrap_or(self.upserted);
        let Some(kind) = self.groups.front().map(|group| group.kind) else {
            return;
        };
        match kind {
            Kind::Insert => {
                self.result.inserted_count = self.result.inserted_count.saturating_add(batch.n);
                self.note_inserted(failed);
            }
            Kind::Update => self.add_updates(batch),
            Kind::Delete => {
                self.result.deleted_count = self.result.deleted_count.saturating_add(batch.n);
            }
        }
    }

    fn add_updates(&mut self, batch: BatchResult) {
        let upserted = batch.upserted.into_iter();
        let upserted = upserted.filter_map(|(at, id)| Some((self.model(at)?, id)));
        let upserted: BTreeMap<usize, Bson> = upserted.collect();
        let count = upserted.len() as u64;
        let result = &mut self.result;
        let matched = batch.n.saturating_sub(count);
        result.matched_count = result.matched_count.saturating_add(matched);
        result.modified_count = result.modified_count.saturating_add(batch.modified);
        result.upserted_count = result.upserted_count.saturating_add(count);
        result.upserted_ids.extend(upserted);
    }

    /// Moves the ids of the documents that the current batch has inserted into the result.
    fn note_inserted(&mut self, failed: &[usize]) {
        let executed = match failed.first() {
            // The server does not insert the documents after the first failure of an ordered batch.
            Some(&first) if self.is_ordered() => first.min(self.batch.documents),
            _ => self.batch.documents,
        };
        for statement in 0..executed {
            let model = self.model(statement);
            let model = model.filter(|_| failed.binary_search(&statement).is_err());
            if let Some(model) = model
                && let Some(id) = self.ids.remove(&model)
            {
                self.result.inserted_ids.insert(model, id);
            }
        }
    }

    /// Ends a batch. `failed` are the statements of it that failed, by their index in the command.
    fn end_batch(&mut self, failed: &[usize]) {
        self.has_success |= match failed.first() {
            None => true,
            Some(&first) if self.is_ordered() => first > 0,
            Some(_) => failed.len() < self.batch.documents,
        };
        self.count_batch();
    }

    /// Counts the statements of the batch as done.
    fn count_batch(&mut self) {
        let batch = std::mem::take(&mut self.batch);
        self.done.documents += batch.documents;
        self.done.bytes += batch.bytes;
    }

    /// Adds the errors and the results of a batch with write errors or a write concern error, and
    /// ends the batch. Fails if it is not known which statements have failed.
    fn add_fault(&mut self, fault: &InsertManyError, error: &Error) -> Result<(), Error> {
        let mut failed = Vec::new();
        for write_error in fault.errors() {
            let invalid = || Error::protocol("a write error of the bulk write has no valid index");
            let model = self.model(write_error.index).ok_or_else(invalid)?;
            failed.push(write_error.index);
            let write_error = self.merged.bound_error(write_error.clone());
            self.failures.write_errors.insert(model, write_error.into());
        }
        failed.sort_unstable();
        failed.dedup();
        if let Some(concern) = &fault.write_concern_error {
            let concern = self.merged.bound_concern(concern.clone());
            self.failures.write_concern_errors.push(concern);
        }
        add_labels(&mut self.labels, error.labels());
        self.server = self.server.take().or_else(|| error.server().cloned());
        let held = self.held.take().map(|held| held.results);
        self.add(held.transpose()?.unwrap_or_default(), &failed);
        self.end_batch(&failed);
        Ok(())
    }

    /// Handles a batch with write errors or with a write concern error.
    fn on_fault(&mut self, fault: &InsertManyError, error: &Error) -> Step<BulkWriteResult> {
        if let Err(error) = self.add_fault(fault, error) {
            return self.finish(Some(error));
        }
        let stops = self.is_ordered() || self.is_in_transaction;
        let is_stopped = stops && !fault.errors().is_empty();
        match is_stopped || error.has_label(&Label::RetryableWriteError) {
            true => self.finish(None),
            false => self.next_step(),
        }
    }

    /// Ends the bulk write after another error. An earlier attempt of its command can have written:
    /// the error of a retry does not undo that.
    fn on_other_error(&mut self, error: Error) -> Step<BulkWriteResult> {
        let earlier = self.held.as_ref().map(|held| held.error.clone());
        if let Some(earlier) = earlier
            && let ErrorKind::InsertMany(fault) = earlier.kind()
        {
            // The error that ends the bulk write counts more than that of a malformed reply.
            let _ = self.add_fault(fault, &earlier);
        }
        self.finish(Some(error))
    }

    /// Ends the bulk write, which `cause` ended early.
    fn finish(&mut self, cause: Option<Error>) -> Step<BulkWriteResult> {
        let mut failures = std::mem::take(&mut self.failures);
        let result = std::mem::take(&mut self.result);
        if cause.is_none() && failures.is_empty() {
            return Step::Done(Ok(result));
        }
        if self.has_success {
            failures.collection_result = Some(result);
        }
        let error = failures.into_error(&self.labels, cause);
        Step::Done(Err(match &self.server {
            Some(server) if error.server().is_none() => error.with_server(server),
            _ => error,
        }))
    }
}

impl Program for CollectionBulkWrite {
    type Output = BulkWriteResult;

    fn start(&mut self) -> Step<BulkWriteResult> {
        self.next_step()
    }

    fn handle_begun(&mut self, exchange: &mut Exchange) {
        self.batch = exchange.portion().unwrap_or_default();
        self.is_in_transaction = exchange.is_in_transaction();
    }

    fn handle_reply(&mut self, exchange: &mut Exchange) -> Step<BulkWriteResult> {
        self.held = None;
        let statements = self.batch.documents;
        let result = exchange
            .reply()
            .map(|reply| BatchResult::from_reply(reply, statements, self.upserted));
        match result {
            Some(Ok(batch)) => {
                self.add(batch, &[]);
                self.end_batch(&[]);
            }
            Some(Err(error)) => return self.finish(Some(error)),
            // The write concern is unacknowledged, so no success is known.
            None => {
                self.result.unacknowledged = true;
                self.add(BatchResult::default(), &[]);
                self.count_batch();
            }
        }
        self.next_step()
    }

    fn handle_failed_reply(&mut self, exchange: &mut Exchange) {
        let statements = self.batch.documents;
        Held::keep(&mut self.held, exchange, |reply| {
            BatchResult::from_reply(reply, statements, self.upserted)
        });
    }

    fn handle_error(&mut self, error: Error) -> Step<BulkWriteResult> {
        match error.kind() {
            ErrorKind::InsertMany(fault) => self.on_fault(fault, &error),
            _ => self.on_other_error(error),
        }
    }
}

#[cfg(test)]
mod tests;
