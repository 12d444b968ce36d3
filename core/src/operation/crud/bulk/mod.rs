//! The bulk write of a client: the command `bulkWrite`, as often as the limits of the server
//! require.

mod collection;
mod encoded;
mod models;
mod results;
mod statements;

pub use collection::CollectionBulkWrite;
pub use encoded::EncodedModels;
pub use models::{
    DeleteManyModel, DeleteManyModelBuilder, DeleteOneModel, DeleteOneModelBuilder, InsertOneModel,
    InsertOneModelBuilder, ReplaceOneModel, ReplaceOneModelBuilder, UpdateManyModel,
    UpdateManyModelBuilder, UpdateOneModel, UpdateOneModelBuilder, WriteModel,
};

use super::{
    BulkWriteOptions, Defaults,
    held::Held,
    merge::MergedBytes,
    upserted::{Upserted, document_size},
};
use crate::{
    error::{BulkWriteError, Error, ErrorKind, Label, Labels, PartialBulkWriteResult},
    operation::{
        Abandoned, Command, CommandKind, Cursor, Exchange, OperationList, Portion, Program, Step,
    },
    options::Place,
    results::VerboseBulkWriteResult,
    session::SessionId,
};
use bson::RawDocument;
use models::Kind;
use results::{Counts, FirstResults};
use std::{fmt, marker::PhantomData, sync::Arc};

/// The program of `bulk_write`. Each command sends as many operations as `maxWriteBatchSize` and
/// `maxMessageSizeBytes` of its server allow, and the namespaces of these operations. The results
/// of the operations are in a cursor, which the program reads to its end.
///
/// An ordered bulk write ends with the first operation that fails. An unordered one continues. A
/// write concern error ends neither. Any other error ends the bulk write. All errors are raised
/// together, with the results of the operations that succeeded.
///
/// If the server reports an error other than a timeout while a cursor is open, the program closes
/// the cursor and waits for the reply before it ends (Bulk Write Specification, *Top-Level
/// Errors*).
///
/// A command is retried as a write only if none of its operations can affect several documents.
/// Each command has its own transaction number ([RW-8], [RW-19]).
///
/// `O` is the result: [`VerboseBulkWriteResult`], or
/// [`SummaryBulkWriteResult`](crate::results::SummaryBulkWriteResult).
///
/// [RW-8]: crate::requirements::retries#RW-8
/// [RW-19]: crate::requirements::retries#RW-19
pub struct BulkWrite<O> {
    operations: OperationList,
    kinds: Vec<Kind>,
    /// The offset of each operation; empty until the result of an insert needs the `_id`.
    offsets: Vec<usize>,
    is_verbose: bool,
    options: BulkWriteOptions,
    defaults: Arc<Defaults>,
    session: Option<SessionId>,
    /// The number and the size of the operations in the batches that have ended.
    done: Portion,
    /// The batch whose command runs; empty before the command is framed.
    batch: Portion,
    /// The results of the current batch; `None` before its reply.
    cursor: Option<Cursor>,
    /// The end of the bulk write while the `killCursors` of the open cursor runs.
    closing: Option<Closing>,
    /// A reply with a write concern error, until it is known that its command is not retried.
    held: Option<Held<FirstResults>>,
    /// The number of failed operations in the current batch, as its reply states it. After the
    /// results were read, at least as many operations are known to have failed.
    batch_errors: u64,
    /// The labels of the write concern errors.
    labels: Labels,
    /// True after an error that a retry did not cure, which ends the bulk write (RW-29).
    is_spent: bool,
    /// True in a transaction, which the server aborts after a failed operation.
    is_in_transaction: bool,
    result: VerboseBulkWriteResult,
    failures: BulkWriteError,
    merged: MergedBytes,
    upserted: Upserted,
    /// True if an operation is known to have succeeded.
    has_success: bool,
    output: PhantomData<fn() -> O>,
}

impl<O> fmt::Debug for BulkWrite<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BulkWrite")
            .field("operations", &self.operations)
            .field("done", &self.done)
            .finish_non_exhaustive()
    }
}

impl<O> BulkWrite<O> {
    /// Returns a program for these operations. `is_verbose` asks the server for the result of each.
    ///
    /// The bulk write fails for an unacknowledged write concern if the operations are ordered or
    /// the results are asked for (Bulk Write Specification, *Unacknowledged results*).
    #[must_use]
    pub fn new(
        encoded: EncodedModels,
        is_verbose: bool,
        options: BulkWriteOptions,
        defaults: Arc<Defaults>,
    ) -> Self {
        let operations = OperationList::new(encoded.operations);
        Self {
            upserted: Upserted::of_statements(
                operations.size_bytes() + document_size(options.let_vars.as_ref()),
            ),
            operations,
            kinds: encoded.kinds,
            offsets: Vec::new(),
            is_verbose,
            options,
            defaults,
            session: None,
            done: Portion::default(),
            batch: Portion::default(),
            cursor: None,
            closing: None,
            held: None,
            batch_errors: 0,
            labels: Labels::default(),
            is_spent: false,
            is_in_transaction: false,
            result: VerboseBulkWriteResult::default(),
            failures: BulkWriteError::default(),
            merged: MergedBytes::default(),
            has_success: false,
            output: PhantomData,
        }
    }

    /// Makes all commands run in a session that the application has started.
    pub const fn set_session(&mut self, session: SessionId) {
        self.session = Some(session);
    }

    /// Fails if a write concern without a reply does not fit. In a session, the client decides
    /// about it when the command begins.
    fn check_concern(&self) -> Result<(), Error> {
        let concern = self.options.write_concern.as_ref();
        let concern = concern.or(self.defaults.write_concern.as_ref());
        if self.session.is_some() || concern.is_none_or(|concern| concern.is_acknowledged()) {
            return Ok(());
        }
        if self.is_verbose {
            let message = "Cannot request unacknowledged write concern and verbose results";
            return Err(Error::argument(message));
        }
        if self.is_ordered() {
            let message = "Cannot request unacknowledged write concern and ordered writes";
            return Err(Error::argument(message));
        }
        Ok(())
    }

    fn is_ordered(&self) -> bool {
        self.options.ordered.unwrap_or(true)
    }

    fn command(&self) -> Result<Command, Error> {
        // Operations that can affect several documents make a command a plain write. If the first
        // one is not of these, its server decides whether the command has one.
        let kind = match self.operations.is_multi_at(self.done.bytes) {
            true => CommandKind::Write,
            false => CommandKind::RetryableWrite,
        };
        let mut command = Command::new("bulkWrite", "admin", kind);
        let mut body = command.body();
        body.i32("bulkWrite", 1)
            .bool("errorsOnly", !self.is_verbose)
            .bool("ordered", self.is_ordered());
        self.options.write(Place::Body, &mut body)?;
        let concern = self.options.write_concern.as_ref();
        self.defaults.apply_to_statements(&mut command, concern)?;
        if let Some(session) = self.session {
            command.use_explicit_session(session);
        }
        self.defaults
            .apply_timeout(&mut command, self.options.timeout);
        command.set_raw_data(self.options.raw_data);
        command.set_operations(
            self.operations.clone(),
            self.done.bytes,
            self.done.documents,
        );
        Ok(command)
    }

    /// Returns the indexes of the operations of the batch that are known to have failed.
    fn failed(&self) -> impl Iterator<Item = usize> {
        let end = self.done.documents + self.batch.documents;
        let failed = self.failures.write_errors.range(self.done.documents..end);
        failed.map(|(index, _)| *index)
    }

    /// Ends a batch whose reply has arrived.
    fn end_batch(&mut self) {
        let errors = self.batch_errors.max(self.failed().count() as u64);
        let start = self.done.documents;
        self.batch_errors = 0;
        self.has_success |= match self.is_ordered() {
            // The operations before the first failure were executed.
            true if errors > 0 => self.failed().next().is_some_and(|first| first > start),
            true => true,
            false => errors < self.batch.documents as u64,
        };
        self.count_batch();
    }

    /// Counts the operations of the batch as done.
    fn count_batch(&mut self) {
        let batch = std::mem::take(&mut self.batch);
        self.done.documents += batch.documents;
        self.done.bytes += batch.bytes;
    }

    /// Returns the error of the bulk write, which `cause` ended early.
    fn failure(&mut self, cause: Option<Error>) -> Option<Error> {
        let mut failures = std::mem::take(&mut self.failures);
        if failures.is_empty() && cause.is_none() {
            return None;
        }
        if self.has_success {
            let result = std::mem::take(&mut self.result);
            failures.partial_result = Some(match self.is_verbose {
                true => PartialBulkWriteResult::Verbose(result),
                false => PartialBulkWriteResult::Summary(result.summary),
            });
        }
        Some(failures.into_error(&self.labels, cause))
    }
}

/// The end of a bulk write that closes its cursor first.
#[derive(Debug)]
struct Closing {
    /// The error that ended the bulk write.
    cause: Error,
    /// The id of the cursor; `None` once the `killCursors` was framed.
    unsent: Option<i64>,
}

impl<O> BulkWrite<O> {
    /// Ends the wait for the `killCursors`, and returns the error that ended the bulk write. If the
    /// command was not sent, `abandon` closes the cursor.
    fn stop_closing(&mut self) -> Option<Error> {
        let Closing { cause, unsent } = self.closing.take()?;
        if let (Some(id), Some(cursor)) = (unsent, &mut self.cursor) {
            cursor.reopen(id);
        }
        Some(cause)
    }
}

impl<O: From<VerboseBulkWriteResult>> BulkWrite<O> {
    /// Ends the bulk write because of an error. If the cursor is open on the server and the server
    /// can be reached in time, closes the cursor first.
    fn fail(&mut self, cause: Error) -> Step<O> {
        let is_reply = matches!(
            cause.kind(),
            ErrorKind::Command(_) | ErrorKind::InvalidResponse { .. }
        );
        if is_reply
            && !cause.is_timeout()
            && let Some(cursor) = &mut self.cursor
        {
            let unsent = cursor.id_on_server();
            if let Some(Ok(kill)) = unsent.map(|_| cursor.end()) {
                self.closing = Some(Closing { cause, unsent });
                return Step::Run(kill);
            }
        }
        self.finish(Some(cause))
    }

    fn finish(&mut self, cause: Option<Error>) -> Step<O> {
        Step::Done(match self.failure(cause) {
            Some(error) => Err(error),
            None => Ok(std::mem::take(&mut self.result).into()),
        })
    }

    /// Returns the command of the next batch, or the result if no operation is left.
    fn next_step(&mut self) -> Step<O> {
        let is_over = self.done.bytes >= self.operations.size_bytes();
        let stops = self.is_ordered() || self.is_in_transaction;
        let is_stopped = stops && !self.failures.write_errors.is_empty();
        if is_over || is_stopped || self.is_spent {
            return self.finish(None);
        }
        self.batch = Portion::default();
        match self.command() {
            Ok(command) => Step::Run(command),
            Err(error) => self.fail(error),
        }
    }

    /// Reads the results that have arrived, and returns the next step.
    fn read_results(&mut self) -> Step<O> {
        while let Some(cursor) = &mut self.cursor
            && let Some(next) = cursor.advance()
        {
            let entry = next.map(|()| cursor.current().map(RawDocument::to_owned));
            let noted = match entry {
                Ok(Some(entry)) => self.note(&entry),
                Ok(None) => Ok(()),
                Err(error) => Err(error),
            };
            if let Err(error) = noted {
                self.end_batch();
                return self.fail(error);
            }
        }
        match self.cursor.as_mut().map(Cursor::start) {
            Some(Step::Run(command)) => return Step::Run(command),
            _ => self.cursor = None,
        }
        let is_complete = self.failed().count() as u64 >= self.batch_errors;
        self.end_batch();
        match is_complete || self.is_spent {
            true => self.next_step(),
            false => self.fail(Error::protocol(
                "the results of the bulk write have fewer errors than operations have failed",
            )),
        }
    }

    fn open(&mut self, exchange: &mut Exchange) -> Result<(), Error> {
        self.cursor = Some(Cursor::from_exchange(exchange, "admin".into())?);
        Ok(())
    }
}

impl<O: From<VerboseBulkWriteResult>> Program for BulkWrite<O> {
    type Output = O;

    fn start(&mut self) -> Step<O> {
        match self.check_concern() {
            Ok(()) => self.next_step(),
            Err(error) => Step::Done(Err(error)),
        }
    }

    fn handle_begun(&mut self, exchange: &mut Exchange) {
        if let Some(closing) = &mut self.closing {
            closing.unsent = None;
        }
        self.is_in_transaction = exchange.is_in_transaction();
        // The exchange of a `getMore` has no portion.
        if let Some(batch) = exchange.portion() {
            self.batch = batch;
            self.cursor = None;
        }
    }

    fn handle_reply(&mut self, exchange: &mut Exchange) -> Step<O> {
        if let Some(closing) = self.closing.take() {
            return self.finish(Some(closing.cause));
        }
        if let Some(cursor) = &mut self.cursor {
            if let Step::Done(Err(error)) = cursor.handle_reply(exchange) {
                self.end_batch();
                return self.fail(error);
            }
            return self.read_results();
        }
        self.held = None;
        let Some(reply) = exchange.reply() else {
            // The write concern is unacknowledged, so no success is known.
            self.result.summary.unacknowledged = true;
            self.count_batch();
            return self.next_step();
        };
        match Counts::of(reply) {
            Ok(counts) => self.add(counts),
            Err(error) => return self.fail(error),
        }
        match self.open(exchange) {
            Ok(()) => self.read_results(),
            Err(error) => {
                self.end_batch();
                self.fail(error)
            }
        }
    }

    /// Keeps the results of a reply with a write concern error. Its cursor is opened only if the
    /// command is not retried; the results of an open cursor after the first batch are lost if it
    /// might be, because a retry returns them again.
    fn handle_failed_reply(&mut self, exchange: &mut Exchange) {
        if self.closing.is_some() {
            return;
        }
        let operations = self.batch.documents;
        let is_kept = Held::keep(&mut self.held, exchange, |reply| {
            FirstResults::of(reply, operations)
        });
        let Some(Held {
            error,
            results: Ok(first),
        }) = &mut self.held
        else {
            return;
        };
        let labels = [Label::RetryableWriteError, Label::RetryableError];
        let may_be_retried = labels.iter().any(|label| error.has_label(label));
        if !is_kept || !first.has_more || may_be_retried {
            return;
        }
        first.leave_to_cursor();
        if let Err(error) = self.open(exchange)
            && let Some(held) = &mut self.held
        {
            held.results = Err(error);
        }
    }

    fn handle_error(&mut self, error: Error) -> Step<O> {
        if let Some(cause) = self.stop_closing() {
            // The result of the `killCursors` must not be ignored (Bulk Write Specification).
            return self.finish(Some(match std::error::Error::source(&cause) {
                Some(_) => cause,
                None => cause.with_cause(error),
            }));
        }
        match (error.kind(), self.held.take()) {
            (ErrorKind::InsertMany(_), Some(held)) => {
                // The errors of further operations may be lost.
                let is_cut = held.results.as_ref().is_ok_and(|first| first.has_more);
                self.is_spent = is_cut || error.has_label(&Label::RetryableWriteError);
                match self.add_held(held) {
                    Ok(()) => self.read_results(),
                    Err(error) => {
                        self.end_batch();
                        self.fail(error)
                    }
                }
            }
            (_, held) => {
                // An earlier attempt of the command can have written: the error of a retry does not
                // undo that. It counts more than the error of a malformed reply.
                let was_executed = held.is_some();
                let _ = held.map(|held| self.add_held(held)).transpose();
                if let Some(cursor) = &mut self.cursor {
                    cursor.handle_failure(&error);
                }
                if was_executed || self.cursor.is_some() {
                    self.end_batch();
                }
                self.fail(error)
            }
        }
    }

    fn abandon(&mut self) -> Abandoned {
        self.stop_closing();
        match &mut self.cursor {
            Some(cursor) => cursor.abandon(),
            None => Abandoned::Nothing,
        }
    }
}
