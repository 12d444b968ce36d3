//! Commands in parts, between which other clients are served.
//!
//! If the caller of the deployment runs jobs, a long write command pauses: between two statements,
//! and between two documents of a statement. Each part is logged for itself, so a command that
//! fails at a later part keeps the earlier ones, as on a server. A search that takes long becomes a
//! [`Job`](super::Job). The documents that it found and that have changed since are compared with
//! the filter again before they are changed.
//!
//! A statement of a transaction pauses as well. Each part claims its documents, and a statement
//! that fails at a later part aborts the transaction. While transactions are open, each part of
//! another write is compared with them, and only this part waits for the end of a transaction.
//!
//! A commit of a transaction pauses between two changes, of which none is visible before the end.
//! If it does not go on, the transaction is aborted.
//!
//! A `getMore` pauses between two documents that its cursor looks at, and a read of earlier data
//! between two changes that it reverts.

use super::{
    Member,
    apart::Apart,
    connection::{Pending, Request, Waiting},
    dispatch::{Answer, Outcome},
    fault::fault,
    insert::Inserts,
    job::STEPS,
    read_concern::read_deadline,
    retry::RetryableWrite,
    write::{Tally, set_bypasses},
};
use crate::{
    deployment::ConnId,
    replica::{Effect, Op, Past},
    server::bulk::{Bulk, BulkStatement},
    store::{
        DeleteStatement, Environment, Outputs, Parts, Query, Records, SEARCH_AGAIN, Store,
        StoreError, UpdateStatement,
    },
};
use bson::Document;
use onionskin_core::time::Instant;
use std::sync::Arc;

/// The steps that the change of a document may take after the search.
pub(super) const STEPS_OF_DOCUMENT: u64 = 500_000;

/// The steps of a statement besides those of its search and its changes.
const STEPS_OF_STATEMENT: u64 = 20;

/// A command of which a part was executed.
#[derive(Clone, Debug)]
pub(super) enum Progress {
    Inserts(Inserts),
    Updates(Part<UpdateStatement, Tally>),
    Deletes(Part<DeleteStatement, Tally>),
    Bulk(Part<BulkStatement, Bulk>),
    /// The documents of `$out` or `$merge`.
    Outputs(Outputs),
    /// The number of jobs that have built the indexes of a `createIndexes`.
    Indexes(u32),
    /// The commit of a transaction, which has its changes.
    Commit,
    /// The data of an earlier time, for a read or for the start of a transaction.
    Past(Box<Past>),
    /// The deadline of a `getMore` whose cursor awaits data.
    More(Option<Instant>),
}

/// The statements of a command, and the sums of those that were executed.
#[derive(Debug)]
pub(super) struct Part<S, T> {
    pub(super) statements: Arc<[S]>,
    next: usize,
    open: Option<Open>,
    pub(super) sums: T,
}

impl<S, T: Clone> Clone for Part<S, T> {
    fn clone(&self) -> Self {
        Self {
            statements: self.statements.clone(),
            next: self.next,
            open: self.open.clone(),
            sums: self.sums.clone(),
        }
    }
}

/// A statement that is not complete.
#[derive(Clone, Debug, Default)]
struct Open {
    /// The records that are left; `None` before the search.
    records: Option<Records>,
    matched: u64,
    modified: u64,
}

/// A statement of a write command.
pub(super) trait Statement {
    fn op(&self) -> Op;
}

/// The sums of the results of a command's statements.
pub(super) trait Sums<S> {
    /// Adds a statement that an earlier attempt of the command has executed with this id.
    fn repeat(&mut self, id: i32, index: usize, statement: &S, effect: &Effect);

    fn succeed(&mut self, index: usize, statement: &S, effect: Effect);

    fn fail(&mut self, index: usize, error: StoreError);

    fn tally(&mut self) -> &mut Tally;
}

/// The end of a part.
pub(super) enum Ended<S, T> {
    /// The command is complete.
    Complete(T),
    /// The command continues later, after this answer.
    Later(Box<(Part<S, T>, Answer)>),
}

impl<S, T> Part<S, T> {
    pub(super) fn new(statements: Vec<S>, sums: T) -> Self {
        Self {
            statements: statements.into(),
            next: 0,
            open: None,
            sums,
        }
    }

    /// True before the first part.
    pub(super) const fn is_new(&self) -> bool {
        self.next == 0 && self.open.is_none()
    }
}

impl Open {
    /// True if no document was changed so far.
    const fn is_untouched(&self) -> bool {
        self.matched == 0
    }

    /// Returns the effect of the whole statement, from that of its last part.
    fn total(&self, effect: Effect) -> Effect {
        match effect {
            Effect::Write {
                op,
                matched,
                modified,
                upserted,
            } => Effect::Write {
                op,
                matched: matched + self.matched,
                modified: modified + self.modified,
                upserted,
            },
            modify @ Effect::Modify { .. } => modify,
        }
    }

    fn add(&mut self, effect: &Effect) {
        if let Effect::Write {
            matched, modified, ..
        } = effect
        {
            self.matched += matched;
            self.modified += modified;
        }
    }
}

impl Member {
    /// Returns the parts of a statement or search, which pauses if it can.
    pub(super) fn pausing(&self) -> Parts {
        parts_of(self.can_wait_for_jobs())
    }

    /// True if the running command has to pause before its next statement.
    pub(super) fn must_pause(&self) -> bool {
        self.can_wait_for_jobs() && self.jobs.spent >= STEPS
    }

    /// Returns the outcome of a command that pauses.
    pub(super) fn pause(&self, now: Instant, request: &Request) -> Answer {
        let until = self.time_limit_of(now, request);
        Ok(Outcome::Wait(self.part_until(now, until), None))
    }

    /// Returns the wait of a command for its next part, with its time limit.
    pub(super) fn part_until(&self, now: Instant, until: Option<Instant>) -> Waiting {
        Waiting::Part {
            until,
            clock: self.clock(now),
            effect: None,
        }
    }

    /// Executes the next part of the command of a connection, if it has paused.
    pub(crate) fn run_part(&mut self, now: Instant, conn: ConnId) {
        if self.abandoned.contains(&conn) && self.has_message(conn) {
            self.next_turn(now, conn);
            // Nobody reads the replies.
            self.take_output(conn);
            return;
        }
        let pending = self.connections.get(&conn).and_then(|c| c.pending.as_ref());
        if !pending.is_some_and(|pending| matches!(pending.waiting, Waiting::Part { .. })) {
            return;
        }
        let Some(Pending {
            request,
            waiting:
                Waiting::Part {
                    until,
                    clock,
                    effect,
                },
            ..
        }) = self.unpark(conn)
        else {
            return;
        };
        if until.is_some_and(|until| until <= now) {
            self.abort_paused(conn, &request);
            let error = fault(50, "operation exceeded time limit");
            self.respond(conn, &request, Err(error));
            self.discard(request);
        } else {
            self.waited_deadline = until;
            self.jobs.clock = Some(clock);
            self.run(now, conn, request, effect);
            self.jobs.clock = None;
            self.waited_deadline = None;
        }
        self.advance(now, conn);
    }

    /// Lets a write go on although its client has disconnected, if the write has begun or is being
    /// decoded. Returns false if the connection has none, and no messages that are kept.
    pub(crate) fn abandon(&mut self, conn: ConnId) -> bool {
        let is_kept = self.abandoned.contains(&conn) && self.has_message(conn);
        let goes_on = is_kept || self.goes_on(conn);
        if goes_on {
            self.abandoned.insert(conn);
        }
        goes_on
    }

    /// Lets the messages of a connection be executed although its client has disconnected.
    pub(crate) fn keep_messages(&mut self, conn: ConnId) {
        if self.has_message(conn) {
            self.abandoned.insert(conn);
        }
    }

    /// Returns the next connection that was abandoned and whose messages were executed.
    pub(crate) fn take_abandoned(&mut self) -> Option<ConnId> {
        let mut abandoned = self.abandoned.iter().copied();
        let ended = abandoned.find(|conn| !self.goes_on(*conn) && !self.has_message(*conn))?;
        self.abandoned.remove(&ended);
        Some(ended)
    }

    /// Returns the connections that were abandoned and have a further message.
    pub(crate) fn abandoned_messages(&self) -> Vec<ConnId> {
        let abandoned = self.abandoned.iter().copied();
        abandoned.filter(|conn| self.has_message(*conn)).collect()
    }

    /// True if a connection can execute a message that it has received.
    pub(crate) fn has_message(&self, conn: ConnId) -> bool {
        self.connections.get(&conn).is_some_and(|connection| {
            let is_free = connection.pending.is_none() && connection.apart.is_none();
            let may_go_on = is_free && connection.is_resting && !connection.closing;
            may_go_on && !connection.decoder.is_empty()
        })
    }

    /// True if the request of a connection is a write that has begun, or if its message is being
    /// decoded.
    pub(super) fn goes_on(&self, conn: ConnId) -> bool {
        let Some(connection) = self.connections.get(&conn) else {
            return false;
        };
        // A message that was received as a whole can be a write.
        let is_received = connection.apart.as_ref().is_some_and(Apart::is_request);
        let pending = connection.pending.as_ref();
        is_received
            || pending.is_some_and(|pending| self.has_begun(&pending.request, &pending.waiting))
    }

    /// True for a write or a commit that has paused, that waits for its search, or whose next part
    /// waits for another transaction.
    pub(super) fn has_begun(&self, request: &Request, waiting: &Waiting) -> bool {
        let has_begun = match waiting {
            Waiting::Part { .. } | Waiting::Job { .. } => true,
            Waiting::Lock(_) | Waiting::Statement { .. } => request.progress.is_some(),
            _ => false,
        };
        has_begun && (self.is_write(request) || request.name == "commitTransaction")
    }

    /// Returns the time limit of the running command, from its first start.
    pub(super) fn time_limit_of(&self, now: Instant, request: &Request) -> Option<Instant> {
        let first = self.waited_deadline;
        first.or_else(|| read_deadline(now, &request.command))
    }

    /// Runs statements in order, as many as a part may have. A statement that was already executed
    /// gets its recorded result.
    pub(super) fn each<S: Statement, T: Sums<S>>(
        &mut self,
        now: Instant,
        request: &Request,
        retryable: Option<&RetryableWrite>,
        mut part: Part<S, T>,
        query: impl Fn(&S) -> Query,
        run: impl Fn(&mut Store, &S, &mut Environment<'_>) -> Result<Effect, StoreError>,
    ) -> Ended<S, T> {
        let statements = part.statements.clone();
        let variables = request.command.get_document("let").ok();
        while let Some(statement) = statements.get(part.next) {
            let index = part.next;
            if part.open.is_none() {
                if self.must_pause() {
                    self.record(now, part.sums.tally(), retryable);
                    let answer = self.pause(now, request);
                    return Ended::Later(Box::new((part, answer)));
                }
                self.jobs.spent = self.jobs.spent.saturating_add(STEPS_OF_STATEMENT);
            }
            if part.open.as_ref().is_none_or(Open::is_untouched) {
                let op = statement.op();
                let done = retryable.and_then(|write| write.done(&self.replica, index, op));
                if let Some((id, effect)) = done {
                    part.sums.repeat(id, index, statement, &effect);
                    part.next += 1;
                    part.open = None;
                    self.jobs.forget_done();
                    continue;
                }
            }
            let mut open = part.open.take().unwrap_or_default();
            let searched = Searched {
                found: self
                    .jobs
                    .take_records()
                    .or_else(|| open.records.take().map(Ok)),
                may_search: statement.op() != Op::Insert && self.can_wait_for_jobs(),
                is_retryable: retryable.is_some(),
            };
            let done = self.run_searched(now, variables, searched, |store, environment| {
                set_bypasses(environment, &request.command);
                run(store, statement, environment)
            });
            match done {
                Ok(Some((effect, None))) => {
                    part.sums.succeed(index, statement, open.total(effect));
                    part.next += 1;
                }
                Ok(Some((effect, Some(rest)))) => {
                    open.add(&effect);
                    open.records = Some(rest);
                    part.open = Some(open);
                    self.record(now, part.sums.tally(), retryable);
                    let answer = self.pause(now, request);
                    return Ended::Later(Box::new((part, answer)));
                }
                Ok(None) => {
                    part.open = Some(open);
                    self.record(now, part.sums.tally(), retryable);
                    let answer = self.search_apart(query(statement), variables);
                    return Ended::Later(Box::new((part, answer)));
                }
                Err(error) => {
                    part.sums.fail(index, error);
                    part.next += 1;
                    if self.stops_at_error(request) {
                        break;
                    }
                }
            }
        }
        self.record(now, part.sums.tally(), retryable);
        Ended::Complete(part.sums)
    }

    /// Lets the running command wait for a search.
    pub(super) fn search_apart(&mut self, query: Query, variables: Option<&Document>) -> Answer {
        self.begin_long_query(query, variables);
        // The command waits, so this error is not sent.
        Err(fault(50, "the search for documents takes long"))
    }

    /// Runs a statement with a limited search, or with the records that its search has found.
    /// Returns its result, and the records that are left if it has paused. Returns `None` without a
    /// change if the statement must wait for its search.
    pub(super) fn run_searched<T>(
        &mut self,
        now: Instant,
        variables: Option<&Document>,
        searched: Searched,
        run: impl FnOnce(&mut Store, &mut Environment<'_>) -> Result<T, StoreError>,
    ) -> Result<Option<Searching<T>>, StoreError> {
        let found = searched.found.transpose()?;
        let is_limited = found.is_none() && searched.may_search;
        let steps = match &found {
            None => is_limited.then_some(STEPS),
            Some(_) => self.can_wait_for_jobs().then_some(STEPS_OF_DOCUMENT),
        };
        let parts = Parts {
            found,
            ..self.pausing()
        };
        let limits = (steps, parts);
        self.with_statement(
            now,
            variables,
            searched.is_retryable,
            limits,
            |store, environment| {
                let start = store.pending_changes();
                match run(store, environment) {
                    Err(error) if is_limited && error.code == 50 || error.code == SEARCH_AGAIN => {
                        store.undo_to(start);
                        Ok(None)
                    }
                    result => Ok(Some((result?, environment.parts.rest.take()))),
                }
            },
        )
    }

    /// Returns the records that the search of a single statement has found, if it has waited for
    /// them.
    pub(super) fn searched(&mut self, is_retryable: bool) -> Searched {
        Searched {
            found: self.jobs.take_records(),
            may_search: self.can_wait_for_jobs(),
            is_retryable,
        }
    }
}

/// Returns the parts of work that pauses, or of work that is done as a whole.
pub(super) fn parts_of(pauses: bool) -> Parts {
    Parts {
        pause_after: pauses.then_some(STEPS),
        ..Parts::default()
    }
}

/// The result of a statement, and the records that are left if it has paused.
pub(super) type Searching<T> = (T, Option<Records>);

/// The search of a statement.
pub(super) struct Searched {
    /// The records that were found; `None` before the search.
    found: Option<Result<Records, StoreError>>,
    /// True if the statement may wait for its search.
    may_search: bool,
    is_retryable: bool,
}
