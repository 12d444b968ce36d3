//! Retryable writes: each statement is executed once, even if it is sent several times.

use super::{
    Member,
    connection::Request,
    document::integer,
    fault::{Fault, fault},
    transaction::needs_set,
};
use crate::{
    replica::{Effect, Retry, SessionKey, Step},
    store::{Environment, Parts, Store, StoreError},
};
use bson::{Bson, Document};
use onionskin_core::time::Instant;
use std::collections::BTreeMap;

/// The retryable part of a write command: its session, its transaction number, the ids of its
/// statements, and the effects of the statements with this number that were already executed.
#[derive(Debug)]
pub(super) struct RetryableWrite {
    session: SessionKey,
    transaction: i64,
    ids: Vec<i32>,
    done: BTreeMap<i32, Effect>,
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
        let mut done = BTreeMap::new();
        if let Some(record) = self.replica.record(&session) {
            if transaction < record.transaction {
                let text = format!(
                    "Retryable write with txnNumber {transaction} is prohibited on session because \
                     a newer retryable write with txnNumber {} has already started",
                    record.transaction
                );
                return Err(fault(225, text));
            }
            if transaction == record.transaction {
                done.clone_from(&record.statements);
            }
        }
        Ok(Some(RetryableWrite {
            session,
            transaction,
            ids: statement_ids(command, statements),
            done,
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
    /// Returns the effect of a statement if it was already executed.
    pub(super) fn done(&self, statement: usize) -> Option<&Effect> {
        self.done.get(self.ids.get(statement)?)
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

fn statement_ids(command: &Document, statements: usize) -> Vec<i32> {
    let narrow = |value: &Bson| integer(value).and_then(|n| i32::try_from(n).ok());
    if let Ok(ids) = command.get_array("stmtIds") {
        return ids.iter().filter_map(narrow).collect();
    }
    let first = command.get("stmtId").and_then(narrow).unwrap_or(0);
    let count = i32::try_from(statements).unwrap_or(i32::MAX);
    (first..first.saturating_add(count)).collect()
}
