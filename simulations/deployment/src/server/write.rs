//! The commands `insert`, `update` and `delete`.

use super::{
    Member,
    connection::Request,
    dispatch::{Answer, Outcome, namespace},
    document::{integer, truth},
    fault::{Fault, Reasons, bad_value, fault, type_mismatch},
    field_names::check_updated,
    hello::election_id,
    parts::{Ended, Part, Progress, Statement, Sums},
    read::collation,
    reply::Reply,
    retry::{RetryableWrite, check_statement_ids},
};
use crate::{
    replica::{Effect, Op, Retry},
    store::{
        Change, DeleteStatement, Environment, Namespace, Parts, Query, Release, Shared, Store,
        StoreError, Update, UpdateStatement, WriteError, namespaces,
    },
};
use bson::{Bson, Document, doc};
use onionskin_core::time::Instant;

/// The sum of the results of a command's statements. Copies share its documents.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    n: u64,
    modified: u64,
    upserted: Vec<Shared>,
    errors: Vec<Shared>,
    reasons: Reasons,
    pub(super) retried: Vec<i32>,
    pub(super) effects: Vec<(usize, Effect)>,
}

impl Tally {
    pub(super) fn count(&mut self, index: usize, effect: &Effect) {
        let (matched, modified, upserted) = match effect {
            Effect::Write {
                matched,
                modified,
                upserted,
                ..
            } => (matched, modified, upserted),
            // The statement was executed as a findAndModify of one document.
            Effect::Modify { .. } => (&1, &1, &None),
        };
        self.n += matched;
        self.modified += modified;
        if let Some(id) = upserted {
            self.n += 1;
            let index = i32::try_from(index).unwrap_or(i32::MAX);
            let entry = doc! { "index": index, "_id": id.clone() };
            self.upserted.push(Shared::new(entry));
        }
    }

    pub(super) fn forget_errors(&mut self) {
        self.errors.clear();
        self.reasons = Reasons::default();
    }

    pub(super) fn fail(&mut self, index: usize, mut error: StoreError) {
        self.reasons.count(&mut error);
        let entry = WriteError { index, error };
        self.errors.push(Shared::new(entry.to_document()));
    }

    fn into_reply(mut self, update: bool) -> Document {
        let number = |n: u64| i32::try_from(n).unwrap_or(i32::MAX);
        let list = |entries: Vec<Shared>| -> Vec<Document> {
            entries.into_iter().map(Shared::unwrap_or_clone).collect()
        };
        let mut reply = doc! { "n": number(self.n) };
        if !self.retried.is_empty() {
            reply.insert("retriedStmtIds", self.retried);
        }
        if update {
            reply.insert("nModified", number(self.modified));
        }
        if !self.upserted.is_empty() {
            reply.insert("upserted", list(self.upserted));
        }
        if !self.errors.is_empty() {
            self.errors
                .sort_by_key(|entry| entry.get_i32("index").unwrap_or(i32::MAX));
            reply.insert("writeErrors", list(self.errors));
        }
        reply
    }
}

impl<S> Sums<S> for Tally {
    fn repeat(&mut self, id: i32, index: usize, _: &S, effect: &Effect) {
        self.retried.push(id);
        self.count(index, effect);
    }

    fn succeed(&mut self, index: usize, _: &S, effect: Effect) {
        self.count(index, &effect);
        self.effects.push((index, effect));
    }

    fn fail(&mut self, index: usize, error: StoreError) {
        Self::fail(self, index, error);
    }

    fn tally(&mut self) -> &mut Tally {
        self
    }
}

impl Statement for UpdateStatement {
    fn op(&self) -> Op {
        Op::Update
    }
}

impl Statement for DeleteStatement {
    fn op(&self) -> Op {
        Op::Delete
    }
}

impl Member {
    /// Calls `run` with the store, and with this member's time, randomness and ids, and with the
    /// values of the variables of the command's `let`.
    pub(super) fn with_store<T>(
        &mut self,
        now: Instant,
        variables: Option<&Document>,
        run: impl FnOnce(&mut Store, &mut Environment<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.with_limits(now, variables, Default::default(), run)
    }

    /// Does the same as [`with_store`](Self::with_store), with the newest data for any read
    /// concern, and with the parts of a search. The data cannot be changed.
    pub(super) fn with_newest_store<T>(
        &mut self,
        now: Instant,
        variables: Option<&Document>,
        parts: Parts,
        run: impl FnOnce(&Store, &mut Environment<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let view = self.view.take();
        let result = self.with_limits(now, variables, (None, parts), |store, environment| {
            run(store, environment)
        });
        self.view = view;
        result
    }

    /// Does the same as [`with_store`](Self::with_store), with a limit for the steps of a query or
    /// statement, and with the parts of a statement.
    pub(super) fn with_limits<T>(
        &mut self,
        now: Instant,
        variables: Option<&Document>,
        (max_steps, parts): (Option<u64>, Parts),
        run: impl FnOnce(&mut Store, &mut Environment<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let moment = self.moment(now);
        let (wall, release) = (self.wall_millis(now), self.release());
        let ids = &mut self.ids;
        let mut next = || ids.next(wall);
        let meter = parts.meter.clone();
        let mut environment = Environment {
            now: moment.now,
            timestamp: moment.timestamp,
            ids: &mut next,
            seed: moment.seed,
            variables: Document::new(),
            bypasses_validation: false,
            keeps_empty_timestamps: false,
            max_steps,
            parts,
        };
        if let Some(variables) = variables {
            environment.set_variables(variables, release)?;
        }
        let result = match &mut self.view {
            Some(view) => run(&mut view.store, &mut environment),
            None => run(self.replica.store_mut(), &mut environment),
        };
        self.jobs.spent = self.jobs.spent.saturating_add(meter.get());
        result
    }

    pub(super) fn update(&mut self, now: Instant, request: &mut Request) -> Answer {
        let namespace = namespace(request)?;
        let part = match request.progress.take().map(|progress| *progress) {
            Some(Progress::Updates(part)) => part,
            _ => self.parse_updates(request)?,
        };
        let retryable = self.retryable_write(request, part.statements.len())?;
        let is_first = retryable.is_some() && part.is_new();
        if is_first && part.statements.iter().any(|s| s.multi) {
            return Err(fault(72, "Cannot use retryable writes with multi=true"));
        }
        let release = self.release();
        if let Some(retryable) = retryable.as_ref().filter(|_| part.is_new()) {
            let mut all = 0..part.statements.len();
            all.try_for_each(|index| retryable.check_update(&self.replica, index, release))?;
        }
        let refuses_dollars = self.refuses_dollars();
        let ended = self.each(
            now,
            &*request,
            retryable.as_ref(),
            part,
            |statement| Query::Targets(namespace.clone(), statement.target()),
            |store, statement, env| {
                let statements = std::slice::from_ref(statement);
                let start = store.pending_changes();
                statement.define_constants(env, release)?;
                let mut outcome = store.update(&namespace, statements, true, env)?;
                if !outcome.errors.is_empty() {
                    return Err(outcome.errors.remove(0).error);
                }
                if refuses_dollars {
                    check_updated(store, start, &statement.update)?;
                }
                Ok(Effect::Write {
                    op: Op::Update,
                    matched: outcome.matched,
                    modified: outcome.modified,
                    upserted: outcome.upserted.into_iter().next().map(|(_, id)| id),
                })
            },
        );
        match ended {
            Ended::Complete(tally) => Ok(Outcome::Written(self.write_reply(tally, true))),
            Ended::Later(later) => {
                let (part, answer) = *later;
                request.progress = Some(Box::new(Progress::Updates(part)));
                answer
            }
        }
    }

    fn parse_updates(&self, request: &mut Request) -> Result<Part<UpdateStatement, Tally>, Fault> {
        let statements = self.statements(request, "updates")?.into_iter();
        let parsed: Vec<_> = statements.map(update_statement).collect::<Result<_, _>>()?;
        for statement in &parsed {
            statement.update.check_pipeline(self.release())?;
        }
        Ok(Part::new(parsed, Tally::default()))
    }

    /// Returns the release that the server claims to be.
    pub(super) fn release(&self) -> Release {
        Release(self.program.version.release)
    }

    /// True if documents of a collection cannot be removed: it is capped, and the server is one
    /// before 5.0.7.
    pub(super) fn refuses_removal(&self, namespace: &Namespace) -> bool {
        let is_old = self.program.version.release < [5, 0, 7];
        is_old && self.replica.store().statistics(namespace).capped
    }

    pub(super) fn delete(&mut self, now: Instant, request: &mut Request) -> Answer {
        let namespace = namespace(request)?;
        let part = match request.progress.take().map(|progress| *progress) {
            Some(Progress::Deletes(part)) => part,
            _ => {
                let statements = self.statements(request, "deletes")?.into_iter();
                let parsed = statements.map(delete_statement).collect::<Result<_, _>>()?;
                Part::new(parsed, Tally::default())
            }
        };
        let retryable = self.retryable_write(request, part.statements.len())?;
        let is_first = retryable.is_some() && part.is_new();
        if is_first && part.statements.iter().any(|s| s.limit != 1) {
            return Err(fault(72, "Cannot use retryable writes with limit=0"));
        }
        let keeps_documents = self.refuses_removal(&namespace);
        let ended = self.each(
            now,
            &*request,
            retryable.as_ref(),
            part,
            |statement| Query::Targets(namespace.clone(), statement.target()),
            |store, statement, env| {
                if keeps_documents {
                    return Err(no_removal(&namespace));
                }
                let statements = std::slice::from_ref(statement);
                let mut outcome = store.delete(&namespace, statements, true, env)?;
                if !outcome.errors.is_empty() {
                    return Err(outcome.errors.remove(0).error);
                }
                Ok(Effect::Write {
                    op: Op::Delete,
                    matched: outcome.deleted,
                    modified: 0,
                    upserted: None,
                })
            },
        );
        match ended {
            Ended::Complete(tally) => Ok(Outcome::Written(self.write_reply(tally, false))),
            Ended::Later(later) => {
                let (part, answer) = *later;
                request.progress = Some(Box::new(Progress::Deletes(part)));
                answer
            }
        }
    }

    /// Returns the reply to a write command. A member of a replica set adds its election and the
    /// position of its last write; a router leaves these out.
    pub(super) fn write_reply(&self, tally: Tally, is_update: bool) -> Reply {
        let mut reply = tally.into_reply(is_update);
        if self.is_set() {
            let term = self.replica.term();
            let (time, of) = self.last_position();
            let of = i64::try_from(of).unwrap_or(i64::MAX);
            let position = doc! { "ts": time, "t": of };
            reply.extend(doc! { "electionId": election_id(term), "opTime": position });
        }
        reply.into()
    }

    /// True if a write command ends at the first error. In a transaction, each does.
    pub(super) fn stops_at_error(&self, request: &Request) -> bool {
        self.transactions.is_running() || request.command.get_bool("ordered").unwrap_or(true)
    }

    /// Logs the changes of a command together with the effects of its retryable statements.
    pub(super) fn record(
        &mut self,
        now: Instant,
        tally: &mut Tally,
        retryable: Option<&RetryableWrite>,
    ) {
        let effects = std::mem::take(&mut tally.effects);
        let retry = retryable
            .filter(|_| !effects.is_empty())
            .map(|retryable| retryable.note(effects));
        self.log(now, retry);
    }

    /// Appends one oplog entry with the changes of the running command that were not logged yet, if
    /// there are changes or retryable statements.
    pub(super) fn log(&mut self, now: Instant, retry: Option<Retry>) {
        self.log_sized(now, retry, None);
    }

    /// Logs as [`log`](Self::log) does. `bytes` is the size of the entry, if the caller knows it.
    pub(super) fn log_sized(&mut self, now: Instant, retry: Option<Retry>, bytes: Option<usize>) {
        let Err(retry) = self.defer(retry) else {
            return;
        };
        let changes = self.replica.store_mut().take_changes();
        if !changes.is_empty() || retry.is_some() {
            let concerns_expiry = changes.iter().any(Change::concerns_expiry);
            let names = self.transactions.has_open().then(|| namespaces(&changes));
            self.replica.append_sized(now, changes, retry, bytes);
            if let Some(names) = names {
                self.note_changed(&names);
            }
            if concerns_expiry {
                self.schedule_expiry(now);
            }
        }
    }

    /// Removes the statements from a command and returns them.
    pub(super) fn statements(
        &self,
        request: &mut Request,
        field: &str,
    ) -> Result<Vec<Document>, Fault> {
        let Some(Bson::Array(items)) = request.command.remove(field) else {
            let text = format!("BSON field '{}.{field}' is missing", request.name);
            return Err(fault(40414, text));
        };
        let limit = self.options.limits.max_write_batch;
        if items.is_empty() || items.len() > limit {
            let text = format!(
                "Write batch sizes must be between 1 and {limit}. Got {} operations.",
                items.len()
            );
            return Err(fault(16, text));
        }
        check_statement_ids(request, items.len(), self.release())?;
        let documents = items.into_iter().map(|item| match item {
            Bson::Document(document) => Ok(document),
            _ => Err(type_mismatch(field)),
        });
        documents.collect()
    }
}

/// Tells the environment which checks and changes of new documents a command leaves out.
pub(super) fn set_bypasses(environment: &mut Environment<'_>, command: &Document) {
    environment.bypasses_validation = truth(command.get("bypassDocumentValidation"));
    environment.keeps_empty_timestamps = truth(command.get("bypassEmptyTsReplacement"));
}

/// Returns the error of a server before 5.0.7 for the removal of a document of a capped collection.
pub(super) fn no_removal(namespace: &Namespace) -> StoreError {
    let text = format!("cannot remove from a capped collection: {namespace}");
    fault(20, text).error
}

/// True if a document is larger than the limit.
pub(super) fn is_too_large(document: &Document, limit: usize) -> bool {
    document.to_vec().map_or(true, |bytes| bytes.len() > limit)
}

pub(super) fn update_statement(mut statement: Document) -> Result<UpdateStatement, Fault> {
    let filter = take_document(&mut statement, "q")?;
    let Some(update) = statement.remove("u") else {
        return Err(fault(40414, "BSON field 'update.updates.u' is missing"));
    };
    if truth(statement.get("multi")) && statement.contains_key("sort") {
        return Err(fault(9, "Cannot specify sort with multi=true"));
    }
    Ok(UpdateStatement {
        filter,
        update: Update::from_bson(update)?,
        multi: truth(statement.get("multi")),
        upsert: truth(statement.get("upsert")),
        array_filters: documents(&statement, "arrayFilters"),
        sort: statement.get_document("sort").ok().cloned(),
        collation: collation(&statement),
        constants: statement.get_document("c").ok().cloned(),
        hint: statement.remove("hint"),
    })
}

pub(super) fn delete_statement(mut statement: Document) -> Result<DeleteStatement, Fault> {
    let filter = take_document(&mut statement, "q")?;
    // A limit with a fraction is refused here, and not truncated.
    let is_whole = |limit: &&Bson| !matches!(limit, Bson::Double(n) if n.fract() != 0.0);
    let limit = match statement.get("limit").filter(is_whole).and_then(integer) {
        Some(0) => 0,
        Some(1) => 1,
        _ => {
            return Err(fault(
                9,
                "The limit field in delete objects must be 0 or 1.",
            ));
        }
    };
    let hint = statement.remove("hint");
    Ok(DeleteStatement {
        filter,
        limit,
        hint,
        collation: collation(&statement),
    })
}

fn take_document(from: &mut Document, key: &str) -> Result<Document, Fault> {
    match from.remove(key) {
        Some(Bson::Document(document)) => Ok(document),
        Some(_) => Err(type_mismatch(key)),
        None => Err(bad_value(format!("BSON field '{key}' is missing"))),
    }
}

/// Returns the documents in an array field, without elements of other types. A missing field has
/// none.
pub(super) fn documents(from: &Document, key: &str) -> Vec<Document> {
    let items = from.get_array(key).map(Vec::as_slice).unwrap_or_default();
    let documents = items.iter().filter_map(Bson::as_document);
    documents.cloned().collect()
}
