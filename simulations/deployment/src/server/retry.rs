//! Retryable writes: each statement is executed once, even if it is sent several times.

use super::{
    Member,
    connection::Request,
    document::{integer, truth},
    fault::{Fault, fault},
    transaction::needs_set,
};
use crate::{
    replica::{Effect, Op, Replica, Retry, SessionKey, Step},
    store::{Environment, Parts, Release, Store, StoreError, display},
};
use bson::{Bson, Document, doc};
use onionskin_core::time::Instant;

/// The first release in which an update can repeat a statement that deleted a document.
const REPEATS_DELETES: Release = Release([7, 1, 0]);

/// The first release whose errors about ids of statements show the ids.
const SHOWS_IDS: Release = Release([5, 0, 0]);

/// The retryable part of a write command: its session, its transaction number, and the ids of its
/// statements.
#[derive(Debug)]
pub(super) struct RetryableWrite {
    session: SessionKey,
    transaction: i64,
    ids: Vec<i32>,
}

impl Member {
    /// Parses `lsid`, `txnNumber`, `stmtIds` and `stmtId` of a command with `statements`
    /// statements. Returns `None` if the command has no transaction number. Fails without a replica
    /// set, without a session, and if the session has a record of a later transaction number.
    pub(super) fn retryable_write(
        &mut self,
        request: &Request,
        statements: usize,
    ) -> Result<Option<RetryableWrite>, Fault> {
        let command = &request.command;
        let Some(transaction) = command.get("txnNumber").and_then(integer) else {
            return Ok(None);
        };
        if self.transactions.is_running() {
            return Ok(None);
        }
        if !self.is_set() {
            return Err(needs_set());
        }
        let Some(session) = session_key(command) else {
            return Err(fault(
                72,
                "Transaction number requires a session ID to also be specified",
            ));
        };
        if transaction < 0 {
            return Err(fault(72, "Transaction number cannot be negative"));
        }
        self.supersede_by(&session, transaction)?;
        let record = self.replica.record(&session);
        if let Some(newer) = record.filter(|record| transaction < record.transaction) {
            let text = format!(
                "Retryable write with txnNumber {transaction} is prohibited on session because a \
                 newer retryable write with txnNumber {} has already started",
                newer.transaction
            );
            return Err(fault(225, text));
        }
        Ok(Some(RetryableWrite {
            session,
            transaction,
            ids: statement_ids(command, statements),
        }))
    }

    /// Runs a statement of a write command, with these limits of its steps and its parts. The fail
    /// point of retryable writes can undo it.
    pub(super) fn with_statement<T>(
        &mut self,
        now: Instant,
        variables: Option<&Document>,
        is_retryable: bool,
        limits: (Option<u64>, Parts),
        run: impl FnOnce(&mut Store, &mut Environment<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let start = self.replica.store().pending_changes();
        let done = self.with_limits(now, variables, limits, run)?;
        match self.undo_failed(start, is_retryable) {
            Some(error) => Err(error),
            None => Ok(done),
        }
    }

    /// Undoes the changes after the first `start` ones if the fail point of retryable writes makes
    /// their statement fail. Returns the error of the statement.
    pub(super) fn undo_failed(&mut self, start: usize, is_retryable: bool) -> Option<StoreError> {
        if !is_retryable || self.replica.store().pending_changes() == start {
            return None;
        }
        let fault = self.fail_retryable_write()?;
        self.replica.store_mut().undo_to(start);
        Some(fault.error)
    }
}

impl RetryableWrite {
    /// Returns the id of a statement that was already executed, and its effect as a statement of
    /// the kind `op` has it. A server repeats an insert or a delete whatever kind the executed
    /// statement was.
    pub(super) fn done(
        &self,
        replica: &Replica,
        statement: usize,
        op: Op,
    ) -> Option<(i32, Effect)> {
        let (id, done) = self.executed(replica, statement)?;
        let (matched, modified, upserted) = match (op, done.change()) {
            (Op::Insert | Op::Delete, _) => (1, 0, None),
            (Op::Update, Some(Op::Insert)) => (0, 0, done.upserted().cloned()),
            (Op::Update, _) => (1, 1, None),
        };
        let effect = Effect::Write {
            op,
            matched,
            modified,
            upserted,
        };
        Some((id, effect))
    }

    /// Returns the id and the effect of a statement that was already executed and changed data. A
    /// statement that changed nothing is executed again.
    fn executed<'a>(&self, replica: &'a Replica, statement: usize) -> Option<(i32, &'a Effect)> {
        let id = *self.ids.get(statement)?;
        let record = replica.record(&self.session)?;
        let record = Some(record).filter(|record| record.transaction == self.transaction)?;
        let effect = record.statements.get(&id)?;
        effect.change().map(|_| (id, effect))
    }

    /// Returns an error if a statement was already executed, but not as an update.
    pub(super) fn check_update(
        &self,
        replica: &Replica,
        statement: usize,
        release: Release,
    ) -> Result<(), Fault> {
        match self.executed(replica, statement).map(|(_, done)| done) {
            Some(Effect::Write { op: Op::Insert, .. }) => {
                let what = "an update with the transaction number and the statement id of an \
                            insert";
                Err(not_an_update("i").not_simulated(what))
            }
            Some(done) if done.change() == Some(Op::Delete) && release < REPEATS_DELETES => {
                Err(not_an_update("d"))
            }
            _ => Ok(()),
        }
    }

    /// Returns the id of the statement of a `findAndModify` and its recorded reply, or `None` if
    /// the statement was not executed yet. Fails if it was executed as another modification.
    pub(super) fn modified(
        &self,
        replica: &Replica,
        command: &Document,
    ) -> Result<Option<(i32, Document)>, Fault> {
        let Some((id, done)) = self.executed(replica, 0) else {
            return Ok(None);
        };
        let shown = display(command);
        let of_type = |code: i32, kind: &str| {
            let text = format!(
                "findAndModify retry request: {shown} is not compatible with previous write in the \
                 transaction of type: {kind}"
            );
            Err(fault(code, text))
        };
        let change = done.change();
        let [removes, upserts, is_new] =
            ["remove", "upsert", "new"].map(|option| truth(command.get(option)));
        match change {
            Some(Op::Delete) if !removes => return of_type(40606, "d"),
            Some(Op::Insert) if !upserts => return of_type(40608, "i"),
            Some(Op::Update) if removes => return of_type(40610, "u"),
            _ => {}
        }
        match (done, change) {
            (Effect::Modify { answer, is_after }, change)
                if change != Some(Op::Update) || *is_after == is_new =>
            {
                Ok(Some((id, answer.clone())))
            }
            (_, Some(Op::Update)) => Err(other_image(&shown, is_new)),
            (_, Some(Op::Delete)) => {
                let text =
                    format!("No pre-image available for findAndModify retry request:{shown}");
                Err(fault(40607, text))
            }
            _ => {
                let what = "a findAndModify with the transaction number and the statement id of \
                            another command";
                of_type(40608, "i").map_err(|fault| fault.not_simulated(what))
            }
        }
    }

    /// Returns the record of the statements that this command executed, for the oplog.
    pub(super) fn note(&self, effects: Vec<(usize, Effect)>) -> Retry {
        let statements = effects
            .into_iter()
            .filter_map(|(index, effect)| self.ids.get(index).map(|id| (*id, effect)))
            .collect();
        Retry {
            session: self.session,
            transaction: self.transaction,
            step: Step::Statements(statements),
        }
    }
}

pub(super) fn session_key(command: &Document) -> Option<SessionKey> {
    let id = command.get_document("lsid").ok()?.get("id")?;
    match id {
        Bson::Binary(binary) => binary.bytes.as_slice().try_into().ok(),
        _ => None,
    }
}

/// Returns the error of a `findAndModify` that wants another document than the one that was kept:
/// that after the update, or that before it.
fn other_image(command: &str, is_new: bool) -> Fault {
    let (code, wanted, kept) = match is_new {
        true => (40611, "after", "before"),
        false => (40612, "before", "after"),
    };
    let text = format!(
        "findAndModify retry request: {command} wants the document {wanted} update returned, but \
         only {kept} update document is stored"
    );
    fault(code, text)
}

/// Returns the error of an update whose statement was executed as another operation.
fn not_an_update(kind: &str) -> Fault {
    let text = format!(
        "update retry request is not compatible with previous write in the transaction of type: \
         {kind}"
    );
    fault(40638, text)
}

/// Returns an error if a command does not have as many `stmtIds` as statements, or also a `stmtId`.
pub(super) fn check_statement_ids(
    request: &Request,
    statements: usize,
    release: Release,
) -> Result<(), Fault> {
    let command = &request.command;
    let Ok(ids) = command.get_array("stmtIds") else {
        return Ok(());
    };
    let shown = |known: Document| match release < SHOWS_IDS {
        true => String::new(),
        false => display(&known),
    };
    if ids.len() != statements {
        let text = "Number of statement ids must match the number of batch entries";
        let text = match shown(doc! { "stmtIds": ids.clone() }) {
            known if known.is_empty() => text.to_owned(),
            known => format!(
                "{text}. Got {} statement ids but {statements} operations. Statement ids: {known}",
                ids.len()
            ),
        };
        return Err(fault(16, text));
    }
    if let Some(first @ (Bson::Int32(_) | Bson::Int64(_))) = command.get("stmtId") {
        let what = match request.name.as_str() {
            "bulkWrite" => "bulkWrite",
            _ => "write",
        };
        let text = format!("May not specify both stmtId and stmtIds in {what} command");
        let text = match shown(doc! { "stmtId": first.clone(), "stmtIds": ids.clone() }) {
            known if known.is_empty() => text,
            known => format!("{text}. Got {known}"),
        };
        return Err(fault(72, text));
    }
    Ok(())
}

fn statement_ids(command: &Document, statements: usize) -> Vec<i32> {
    let narrow = |value: &Bson| integer(value).and_then(|n| i32::try_from(n).ok());
    if let Ok(ids) = command.get_array("stmtIds") {
        return ids.iter().filter_map(narrow).collect();
    }
    let first = command.get("stmtId").and_then(narrow).unwrap_or(0);
    let count = i32::try_from(statements).unwrap_or(i32::MAX);
    (first..first.saturating_add(count)).collect()
}
