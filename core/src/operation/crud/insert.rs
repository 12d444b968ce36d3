//! `insert_many`: a list of documents, sent with as many `insert` commands as the limits of the
//! server require.

use super::{
    Defaults, InsertManyOptions, InsertManyResult, SharedNamespace,
    held::Held,
    merge::{MergedBytes, add_labels},
};
use crate::{
    address::Address,
    error::{
        Error, ErrorKind, IndexedWriteError, InsertManyError, Label, Labels, MAX_WRITE_ERRORS,
        PartialInsert, WriteConcernError,
    },
    operation::{Command, CommandKind, DocumentList, Exchange, Portion, Program, Step},
    options::Place,
    session::SessionId,
};
use bson::Bson;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// The program of `insert_many`. Each command sends as many documents as `maxWriteBatchSize` and
/// `maxMessageSizeBytes` of its server allow. A document larger than `maxBsonObjectSize` is not
/// sent, and fails the operation ([MSG-4], [MSG-32], [MSG-8]).
///
/// All batches share one operation id and one time limit. Each batch is a command with its own
/// retries, which send the same documents. If batches have transaction numbers, each has its own
/// ([RW-19]).
///
/// An ordered insert ends with the first document that fails. An unordered insert continues with
/// the other documents. A write concern error alone ends neither. At the end, the insert raises one
/// error for all write errors and write concern errors of its batches. The write errors have the
/// indexes of the caller's list.
///
/// An error of another kind ends any insert at once. So does a write error or write concern error
/// with the label `RetryableWriteError`, as after a failed retry. [`Error::partial_insert`] returns
/// the list of the inserted documents, which each error of the insert has ([RW-29]).
///
/// [MSG-4]: crate::requirements::messages#MSG-4
/// [MSG-32]: crate::requirements::messages#MSG-32
/// [MSG-8]: crate::requirements::messages#MSG-8
/// [RW-19]: crate::requirements::retries#RW-19
/// [RW-29]: crate::requirements::retries#RW-29
#[derive(Debug)]
pub struct InsertMany {
    namespace: SharedNamespace,
    options: InsertManyOptions,
    defaults: Arc<Defaults>,
    /// The session that the application has started; `None` for implicit ones.
    session: Option<SessionId>,
    documents: DocumentList,
    /// The `_id` of each document, by its index in the caller's list.
    ids: BTreeMap<usize, Bson>,
    /// The number and the size of the documents in the batches that have ended. If a document of an
    /// ordered insert failed, `documents` also counts the documents before it in its batch.
    done: Portion,
    /// The batch whose command runs; empty before the command is framed.
    batch: Portion,
    /// True in a transaction, which the server aborts after a failed statement.
    is_in_transaction: bool,
    /// True if the server sends no replies to these inserts.
    unacknowledged: bool,
    /// The last reply to the batch with write errors or a write concern error, until its command is
    /// known not to be retried, or a retry has succeeded.
    held: Option<Held<()>>,
    /// The indexes, in the caller's list, of the documents that the server refused.
    failed: BTreeSet<usize>,
    merged: Option<MergedErrors>,
    /// The number of documents in the batches without an error.
    written: i64,
}

/// The merged write errors and write concern errors of the batches so far.
#[derive(Debug, Default)]
struct MergedErrors {
    fault: InsertManyError,
    labels: Labels,
    server: Option<Address>,
    /// The size of the texts and details in `fault`.
    bytes: MergedBytes,
}

impl MergedErrors {
    fn add_error(&mut self, index: usize, failed: &IndexedWriteError) {
        if self.fault.errors().len() >= MAX_WRITE_ERRORS {
            return;
        }
        let mut failed = self.bytes.bound_error(failed.clone());
        failed.index = index;
        self.fault.write_errors.get_or_insert_default().push(failed);
    }

    fn add_concern(&mut self, concern: &WriteConcernError) {
        let concern = self.bytes.bound_concern(concern.clone());
        match &self.fault.write_concern_error {
            None => self.fault.write_concern_error = Some(concern),
            Some(_) => self.fault.more_write_concern_errors.push(concern),
        }
    }
}

impl InsertMany {
    /// Returns a program that inserts `documents`, which are stored one after the other. `ids` has
    /// the `_id` of each document by its index.
    ///
    /// Fails if there is no document.
    pub fn new(
        namespace: SharedNamespace,
        documents: Vec<u8>,
        ids: BTreeMap<usize, Bson>,
        options: InsertManyOptions,
        defaults: Arc<Defaults>,
    ) -> Result<Self, Error> {
        if documents.is_empty() {
            return Err(Error::argument("there is no document to insert; give one"));
        }
        Ok(Self {
            namespace,
            options,
            defaults,
            session: None,
            documents: DocumentList::new(documents),
            ids,
            done: Portion::default(),
            batch: Portion::default(),
            held: None,
            failed: BTreeSet::new(),
            merged: None,
            written: 0,
            is_in_transaction: false,
            unacknowledged: false,
        })
    }

    /// Makes all commands run in a session that the application has started.
    pub const fn set_session(&mut self, session: SessionId) {
        self.session = Some(session);
    }

    /// Returns the command of the next batch, or the result if no document is left.
    fn next_step(&mut self) -> Step<InsertManyResult> {
        if self.done.bytes >= self.documents.size_bytes() {
            return Step::Done(self.result());
        }
        let kind = CommandKind::RetryableWrite;
        let mut command = Command::new("insert", self.namespace.database.clone(), kind);
        let mut body = command.body();
        body.str("insert", &self.namespace.collection)
            .bool("ordered", self.is_ordered());
        let written = self.options.write(Place::Body, &mut body);
        let concern = self.options.write_concern.as_ref();
        let applied = self.defaults.apply_to_statements(&mut command, concern);
        if let Err(error) = written.and(applied) {
            return Step::Done(Err(error));
        }
        if let Some(session) = self.session {
            command.use_explicit_session(session);
        }
        self.defaults
            .apply_timeout(&mut command, self.options.timeout);
        command.set_raw_data(self.options.raw_data);
        command.set_batch("documents", self.documents.clone(), self.done.bytes);
        self.batch = Portion::default();
        Step::Run(command)
    }

    fn is_ordered(&self) -> bool {
        self.options.ordered.unwrap_or(true)
    }

    fn end_batch(&mut self) {
        let batch = std::mem::take(&mut self.batch);
        self.done.documents += batch.documents;
        self.done.bytes += batch.bytes;
    }

    fn result(&mut self) -> Result<InsertManyResult, Error> {
        match self.take_merged() {
            Some(error) => Err(error.with_partial_insert(self.partial(None))),
            None => Ok(InsertManyResult {
                inserted_ids: std::mem::take(&mut self.ids),
                unacknowledged: self.unacknowledged,
            }),
        }
    }

    /// Merges the errors of a batch with those of the batches before it.
    fn add_fault(&mut self, fault: &InsertManyError, error: &Error) {
        let base = self.done.documents;
        let merged = self.merged.get_or_insert_default();
        for failed in fault.errors() {
            let index = failed.index.saturating_add(base);
            self.failed.insert(index);
            merged.add_error(index, failed);
        }
        if let Some(concern) = &fault.write_concern_error {
            merged.add_concern(concern);
        }
        let all = &mut merged.fault;
        all.written = all.written.saturating_add(fault.written);
        all.topology_version = fault.topology_version.or(all.topology_version);
        all.base_backoff = all.base_backoff.max(fault.base_backoff);
        add_labels(&mut merged.labels, error.labels());
        merged.server = merged.server.take().or_else(|| error.server().cloned());
    }

    fn take_merged(&mut self) -> Option<Error> {
        let merged = self.merged.take()?;
        let mut fault = merged.fault;
        fault.written = fault.written.saturating_add(self.written);
        let error = Error::new(ErrorKind::InsertMany(fault)).with_labels(&merged.labels);
        Some(match &merged.server {
            Some(server) => error.with_server(server),
            None => error,
        })
    }

    /// Returns the list of inserted documents: those that `done` counts, without those that failed.
    /// `earlier` is the merged error of earlier batches, if an error of another kind ended the
    /// insert.
    fn partial(&mut self, earlier: Option<Error>) -> PartialInsert {
        let mut inserted_ids = std::mem::take(&mut self.ids);
        inserted_ids.split_off(&self.done.documents);
        inserted_ids.retain(|place, _| !self.failed.contains(place));
        PartialInsert {
            inserted_ids,
            earlier,
        }
    }

    /// Adds a batch with write errors or with a write concern error. Returns false if these errors
    /// end the insert.
    fn add_batch(&mut self, fault: &InsertManyError, error: &Error) -> bool {
        self.add_fault(fault, error);
        let indexes = fault.errors().iter().map(|failed| failed.index);
        if indexes.clone().any(|index| index >= self.batch.documents) {
            // An index beyond the batch belongs to no document, so it is not known which of the
            // batch were inserted.
            return false;
        }
        match indexes.min() {
            // The server does not insert the documents after the first failure of an ordered batch.
            Some(first) if self.is_ordered() => {
                self.done.documents += first;
                false
            }
            _ => {
                self.end_batch();
                !error.has_label(&Label::RetryableWriteError) && !self.is_in_transaction
            }
        }
    }
}

impl Program for InsertMany {
    type Output = InsertManyResult;

    fn start(&mut self) -> Step<InsertManyResult> {
        self.next_step()
    }

    fn handle_begun(&mut self, exchange: &mut Exchange) {
        self.batch = exchange.portion().unwrap_or_default();
        self.is_in_transaction = exchange.is_in_transaction();
    }

    fn handle_reply(&mut self, exchange: &mut Exchange) -> Step<InsertManyResult> {
        self.unacknowledged = !exchange.expects_reply();
        let documents = i64::try_from(self.batch.documents).unwrap_or(i64::MAX);
        self.written = self.written.saturating_add(documents);
        self.held = None;
        self.end_batch();
        self.next_step()
    }

    fn handle_failed_reply(&mut self, exchange: &mut Exchange) {
        Held::keep(&mut self.held, exchange, |_| Ok(()));
    }

    fn handle_error(&mut self, error: Error) -> Step<InsertManyResult> {
        let held = self.held.take();
        if let ErrorKind::InsertMany(fault) = error.kind() {
            return match self.add_batch(fault, &error) {
                true => self.next_step(),
                false => Step::Done(self.result()),
            };
        }
        // An earlier attempt of the batch can have written: the error of a retry does not undo
        // that.
        if let Some(held) = held
            && let ErrorKind::InsertMany(fault) = held.error.kind()
        {
            self.add_batch(fault, &held.error);
        }
        let earlier = self.take_merged();
        Step::Done(Err(error.with_partial_insert(self.partial(earlier))))
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::merge::{MAX_MERGED_BYTES, MAX_OTHER_LABELS},
        *,
    };
    use bson::{RawDocument, rawdoc};
    use std::time::Duration;

    #[test]
    fn the_longest_base_backoff_of_all_insert_batches_is_kept() {
        let mut insert = insert_of(4);
        let mut step = insert.start();
        for backoff in [Some(20), Some(50), Some(30), None] {
            assert!(matches!(step, Step::Run(_)), "a batch is left");
            let mut reply = rawdoc! { "ok": 1, "n": 1, "writeConcernError": { "code": 462 } };
            if let Some(backoff) = backoff {
                reply.append(bson::cstr!("baseBackoffMS"), backoff);
            }
            insert.batch = one_document();
            step = insert.handle_error(fault_of(&reply));
        }
        let Step::Done(Err(error)) = step else {
            panic!("all batches had an error");
        };
        assert_eq!(error.base_backoff(), Some(Duration::from_millis(50)));
    }

    /// Returns an unordered insert of documents, which have their positions as ids.
    fn insert_of(documents: i32) -> InsertMany {
        let all = (0..documents).flat_map(|id| rawdoc! { "_id": id }.into_bytes());
        let ids = (0..).zip((0..documents).map(Bson::Int32)).collect();
        let namespace = SharedNamespace::new("d", "c").expect("names");
        let options = InsertManyOptions::builder().ordered(false).build();
        InsertMany::new(namespace, all.collect(), ids, options, Arc::default()).expect("some")
    }

    /// Returns the portion of a batch of one document of [`insert_of`].
    fn one_document() -> Portion {
        Portion {
            documents: 1,
            bytes: rawdoc! { "_id": 0 }.as_bytes().len(),
        }
    }

    fn fault_of(reply: &RawDocument) -> Error {
        let fault = InsertManyError::from_reply(reply)
            .expect("valid")
            .expect("it has errors");
        Error::new(ErrorKind::InsertMany(fault))
    }

    #[test]
    fn the_merged_errors_of_all_insert_batches_are_bounded() {
        let mut insert = insert_of(120);
        let details = rawdoc! { "x": "x".repeat(900_000) };
        let reply = rawdoc! {
            "ok": 1, "n": 0,
            "writeErrors": [{ "index": 0, "code": 7, "errmsg": "no", "errInfo": details.clone() }],
            "writeConcernError": { "code": 64, "errmsg": "no", "errInfo": details },
        };
        let error = fault_of(&reply);
        let mut step = insert.start();
        while let Step::Run(_) = step {
            insert.batch = one_document();
            let label = Label::from_name(&format!("Batch{}", insert.done.documents));
            step = insert.handle_error(error.clone().with_label(label));
        }
        let Step::Done(Err(error)) = step else {
            panic!("all failed");
        };
        let ErrorKind::InsertMany(fault) = error.kind() else {
            panic!("{error:?}");
        };
        let of_errors = fault.errors().iter().map(|failed| &failed.details);
        let more = fault.more_write_concern_errors.iter();
        let of_concerns = fault
            .write_concern_error
            .iter()
            .chain(more)
            .map(|w| &w.details);
        let kept = of_errors.chain(of_concerns).flatten();
        let kept: usize = kept.map(|details| details.as_bytes().len()).sum();
        assert!((40_000_000..=MAX_MERGED_BYTES).contains(&kept), "{kept}");
        assert_eq!(error.labels().iter().count(), MAX_OTHER_LABELS);
        // All errors are kept, also those that lost their texts and details.
        let indexes = fault.errors().iter().map(|failed| failed.index);
        assert!(indexes.eq(0..120) && fault.errors().iter().all(|failed| failed.code == 7));
        assert_eq!(fault.more_write_concern_errors.len(), 119);
        let partial = error.partial_insert().expect("an insert_many");
        assert!(partial.inserted_ids.is_empty());
    }
}
