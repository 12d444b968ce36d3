//! The statements of a transaction.

use super::{NO_NUMBER, Part, Phase, Transaction, fields, prepare::is_prepared};
use crate::{
    replica::SessionKey,
    server::{
        Member,
        connection::{Request, Waiting},
        dispatch::{Answer, Outcome},
        document::truth,
        fault::{Fault, fault, not_writable_primary},
        read_concern::read_deadline,
        reply::{Body, Reply},
    },
    store::{Change, Claims, Namespace, Store},
};
use onionskin_core::time::{Instant, earliest};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

impl Member {
    /// Executes a command of a transaction.
    pub(in crate::server) fn execute_part(
        &mut self,
        now: Instant,
        request: &mut Request,
        part: Part,
        is_internal: bool,
    ) -> Answer {
        if !self.replica.is_writable() {
            return Err(not_writable_primary());
        }
        let name = request.name.as_str();
        let commits = matches!(name, "commitTransaction" | "coordinateCommitTransaction");
        let phase = self.phase_of(part, commits, is_internal)?;
        self.check_paused(request, part)?;
        if self.is_occupied(self.running, &part.session) {
            let deadline = self.time_limit_of(now, request);
            let waiting = Waiting::Statement {
                session: part.session,
                effect: None,
            };
            return Ok(Outcome::Wait(waiting, deadline));
        }
        match name {
            "commitTransaction" => return self.commit_transaction(now, request, part, phase),
            "abortTransaction" => return self.abort_transaction(request, part),
            "coordinateCommitTransaction" if is_internal => {
                return self.coordinate_commit(now, request, part, phase);
            }
            "coordinateCommitTransaction" => {
                return Err(fault(
                    13,
                    format!("not authorized on admin to execute {name}"),
                ));
            }
            _ => {}
        }
        if part.starts {
            let (after, at) = self.transaction_concern(request)?;
            if let Some(after) = after.max(at)
                && !self.is_ready(now, request, after, false)
            {
                let waiting = Waiting::Time {
                    after,
                    is_committed: false,
                    effect: None,
                };
                return Ok(Outcome::Wait(waiting, read_deadline(now, &request.command)));
            }
            let store = match at {
                None => self.replica.store().clone(),
                Some(at) => match self.store_of_time(request, at)? {
                    Some(store) => store,
                    None => return self.pause(now, request),
                },
            };
            self.begin(now, part, store)?;
            // If the statement has to wait, it is executed again, as a further statement.
            request.command.remove("startTransaction");
            request.command.remove("readConcern");
        }
        let outcome = self.run_statement(now, request, part)?;
        Ok(match outcome {
            Outcome::Reply(mut reply) if is_internal => {
                let open = self.transactions.get(&part.session);
                reply.is_read_only = open.map(|open| open.changes.is_empty());
                Outcome::Reply(reply)
            }
            outcome => outcome,
        })
    }

    /// Returns the newest transaction number of a session, and its state.
    pub(super) fn newest_number(&self, session: &SessionKey) -> (i64, Phase) {
        let known = self.transactions.newest(session);
        let record = self.replica.record(session).map(|record| {
            let phase = match record.is_committed {
                true => Phase::Committed,
                false => Phase::Other,
            };
            (record.transaction, phase)
        });
        match (known, record) {
            (Some(known), Some(record)) if record.0 > known.0 => record,
            (Some(known), _) => known,
            (None, record) => record.unwrap_or((NO_NUMBER, Phase::Other)),
        }
    }

    /// Returns the state of the transaction of a command. Fails if the transaction cannot have the
    /// command now.
    fn phase_of(&self, part: Part, commits: bool, is_internal: bool) -> Result<Phase, Fault> {
        let (newest, phase) = self.newest_number(&part.session);
        let number = part.number;
        if number < newest {
            let text = format!(
                "Cannot start transaction {number} on session because a newer transaction \
                 {newest} has already started."
            );
            return Err(fault(225, text));
        }
        if part.starts {
            let is_again = number == newest;
            return match phase {
                Phase::Prepared => Err(is_prepared(newest)),
                // A router can start a transaction again at the same shard.
                Phase::Open | Phase::Aborted if is_internal => Ok(phase),
                _ if is_again && is_internal => {
                    let text = format!("Cannot start a transaction at given number {number}");
                    Err(fault(50911, text))
                }
                _ if is_again => {
                    let text = "Only servers in a sharded cluster can start a new transaction at \
                                the active transaction number";
                    Err(fault(117, text))
                }
                _ => Ok(Phase::Other),
            };
        }
        match phase {
            _ if number > newest => Err(unknown(number, newest)),
            Phase::Other => Err(unknown(number, newest)),
            Phase::Aborted => Err(self.has_ended(number, 251, "aborted")),
            Phase::Committed if !commits => Err(self.has_ended(number, 256, "committed")),
            Phase::Prepared if !commits => Err(is_prepared(number)),
            Phase::Committed | Phase::Open | Phase::Prepared => Ok(phase),
        }
    }

    /// Returns the error for a statement of a transaction that has ended.
    pub(super) fn has_ended(&self, number: i64, code: i32, outcome: &str) -> Fault {
        let shown = match self.program.version.release[0] {
            ..6 => number.to_string(),
            _ => format!("with {{ txnNumber: {number} }}"),
        };
        fault(code, format!("Transaction {shown} has been {outcome}."))
    }

    /// Opens a transaction on this data.
    fn begin(&mut self, now: Instant, part: Part, store: Store) -> Result<(), Fault> {
        let limits = self.options.limits;
        self.abort_open(&part.session);
        if self.transactions.open.len() >= limits.max_transactions {
            let text = "the open transactions of this simulated server have reached a limit \
                        (`Limits`)";
            return Err(fault(146, text));
        }
        let transaction = Transaction {
            store,
            changes: Arc::default(),
            claims: Claims::default(),
            touched: BTreeSet::new(),
            unshared: BTreeMap::new(),
            bytes: 0,
            has_opened_cursor: false,
            expires_at: now + self.transactions.lifetime,
            prepared: None,
            paused: None,
            merge: None,
        };
        self.transactions
            .start(part.session, part.number, transaction);
        self.transactions.trim(limits.max_sessions);
        Ok(())
    }

    fn run_statement(&mut self, now: Instant, request: &mut Request, part: Part) -> Answer {
        let session = part.session;
        let names = fields::full_names(&request.command, &request.name, &request.database);
        let names: Vec<Namespace> = names.iter().filter_map(|n| Namespace::parse(n)).collect();
        let own = self.time_limit_of(now, request);
        if let Some(waiting) = self.wait_for_catalog(&session, &names, own) {
            let timeout = self.transactions.lock_timeout.map(|timeout| now + timeout);
            let deadline = earliest(timeout, own);
            return Ok(Outcome::Wait(waiting, deadline));
        }
        if let Err(fault) = self.touch(&session, names, request) {
            self.abort_open(&session);
            return Err(fault);
        }
        self.exchange(part);
        let outcome = match self.check_statement(request) {
            Ok(()) => self.execute_data(now, request),
            Err(fault) => Err(fault),
        };
        let changes = self.replica.store_mut().take_changes();
        self.exchange_back();
        let kept = self.keep(&session, changes);
        let waits_for_query = kept.is_ok() && self.has_long_query();
        let pauses = matches!(&outcome, Ok(Outcome::Wait(Waiting::Part { .. }, _)));
        self.note_paused(&session, waits_for_query || kept.is_ok() && pauses);
        if waits_for_query {
            return outcome;
        }
        self.forget_long_query();
        match kept.and(outcome) {
            Ok(Outcome::Reply(reply) | Outcome::Written(reply)) => {
                if has_write_errors(&reply) {
                    self.abort_open(&session);
                }
                Ok(Outcome::Reply(reply))
            }
            Ok(other) => Ok(other),
            Err(fault) => {
                self.abort_open(&session);
                Err(fault)
            }
        }
    }

    /// Exchanges the newest data and the data of a transaction, so that all commands use the
    /// latter.
    fn exchange(&mut self, part: Part) {
        if let Some(open) = self.transactions.get_mut(&part.session) {
            std::mem::swap(self.replica.store_mut(), &mut open.store);
            self.transactions.running = Some((part.session, part.number));
        }
    }

    /// Reverts [`exchange`](Self::exchange). Returns the session of the transaction.
    fn exchange_back(&mut self) -> Option<SessionKey> {
        let (session, _) = self.transactions.running.take()?;
        let open = self.transactions.get_mut(&session)?;
        std::mem::swap(self.replica.store_mut(), &mut open.store);
        Some(session)
    }

    /// Aborts the transaction whose statement ended in a panic. A statement that had paused can
    /// panic before its next part.
    pub(in crate::server) fn abort_interrupted(&mut self) {
        self.transactions.guard = None;
        let session = self.exchange_back();
        let running = self
            .running
            .and_then(|conn| self.transactions.paused_by(conn));
        if let Some(session) = session.or(running) {
            self.abort_open(&session);
        }
    }

    /// Returns a copy of the data that the transaction of a command sees. Returns `None` if the
    /// command belongs to no transaction.
    pub(in crate::server) fn store_of_part(
        &self,
        request: &Request,
    ) -> Option<Result<Store, Fault>> {
        let part = self.part(request).ok()??;
        let newest = self.transactions.newest(&part.session);
        let open = self.transactions.get(&part.session);
        let open = open.filter(|_| newest.is_some_and(|(number, _)| number == part.number));
        let aborted = || self.has_ended(part.number, 251, "aborted");
        Some(open.map(|open| open.store.clone()).ok_or_else(aborted))
    }

    /// Notes the collections that a statement names. Fails if one of them has changed its options
    /// or indexes since the snapshot.
    fn touch(
        &mut self,
        session: &SessionKey,
        names: Vec<Namespace>,
        request: &Request,
    ) -> Result<(), Fault> {
        let release = self.program.version.release;
        let writes = self.is_write(request);
        let newest = self.replica.store();
        let Some(open) = self.transactions.get_mut(session) else {
            return Ok(());
        };
        for name in names {
            if open.touched.contains(&name) {
                continue;
            }
            let has_changed = !open.store.has_catalog_of(newest, &name);
            match has_changed {
                false => {
                    open.touched.insert(name);
                }
                true if release < [7, 0, 0] => {
                    let text = "Unable to read from a snapshot due to pending collection catalog \
                                changes; please retry the operation.";
                    return Err(fault(246, text));
                }
                true if writes => {
                    let text = format!(
                        "Unable to write to collection '{name}' due to catalog changes; please \
                         retry the operation."
                    );
                    return Err(fault(112, text));
                }
                // Since 7.0, the snapshot includes the options and indexes of its time.
                true => {}
            }
        }
        Ok(())
    }

    /// Returns an error if a transaction cannot have a statement with its options, or on its
    /// collection. The error aborts the transaction.
    fn check_statement(&self, request: &Request) -> Result<(), Fault> {
        let (name, command) = (request.name.as_str(), &request.command);
        if name == "find" && truth(command.get("tailable")) {
            let text = "It is illegal to open a tailable cursor in a transaction";
            return Err(fault(72, text));
        }
        if name == "aggregate" {
            if truth(command.get("explain")) {
                let text = "Cannot run 'explain' in a multi-document transaction.";
                return Err(fault(263, text));
            }
            let pipeline = command.get_array("pipeline").map(Vec::as_slice);
            fields::check_stages(pipeline.unwrap_or_default())?;
        }
        if !self.is_write(request) {
            return Ok(());
        }
        let names = fields::full_names(command, name, &request.database);
        for name in names.iter().filter_map(|name| Namespace::parse(name)) {
            self.check_written(&name, request)?;
        }
        Ok(())
    }

    fn check_written(&self, name: &Namespace, request: &Request) -> Result<(), Fault> {
        let Some(collection) = self.replica.store().collection(name) else {
            return match self.program.version.release < [4, 4, 0] {
                true if request.name != "delete" => {
                    let text =
                        format!("Cannot create namespace {name} in multi-document transaction.");
                    Err(fault(263, text))
                }
                _ => Ok(()),
            };
        };
        let text = match request.name.as_str() {
            "create" => {
                return Err(fault(48, format!("Collection {name} already exists.")));
            }
            "createIndexes" if !self.has_created(name) => format!(
                "Cannot create new indexes on existing collection {name} in a multi-document \
                 transaction."
            ),
            "createIndexes" if collection.documents().next().is_some() => format!(
                "Cannot create new indexes on non-empty collection {name} in a multi-document \
                 transaction."
            ),
            _ if collection.is_capped() => format!(
                "Collection '{name}' is a capped collection. Writes in transactions are not \
                 allowed on capped collections."
            ),
            _ if collection.time_series().is_some() => format!(
                "Cannot insert into a time-series collection in a multi-document transaction: \
                 {name}"
            ),
            _ => return Ok(()),
        };
        Err(fault(263, text))
    }

    /// True if the transaction whose statement runs has created a collection.
    fn has_created(&self, name: &Namespace) -> bool {
        let running = self.transactions.running;
        let open = running.and_then(|(session, _)| self.transactions.get(&session));
        open.is_some_and(|open| open.claims.has_created(name))
    }

    /// Adds the changes of a statement to its transaction. Fails at a write conflict, and if the
    /// open transactions take too much memory.
    fn keep(&mut self, session: &SessionKey, changes: Vec<Change>) -> Result<(), Fault> {
        if changes.is_empty() {
            return Ok(());
        }
        let Some(mut claims) = self.transactions.take_claims(session) else {
            return Ok(());
        };
        let others = self.transactions.claims_besides(session);
        let Some(open) = self.transactions.get(session) else {
            return Ok(());
        };
        if !claims.add(&changes, &open.store, self.replica.store(), &others) {
            return Err(conflict());
        }
        if let Some(open) = self.transactions.get_mut(session) {
            open.claims = claims;
            open.add(changes, self.replica.store());
        }
        self.check_memory()
    }
}

impl Transaction {
    fn add(&mut self, changes: Vec<Change>, newest: &Store) {
        let names: BTreeSet<&Namespace> = changes.iter().filter_map(Change::namespace).collect();
        for name in names {
            self.note_unshared(name, newest);
        }
        self.bytes += changes.iter().map(Change::bytes).sum::<usize>();
        Arc::make_mut(&mut self.changes).extend(changes);
    }
}

impl super::Transactions {
    fn take_claims(&mut self, session: &SessionKey) -> Option<Claims> {
        let open = self.get_mut(session)?;
        Some(std::mem::take(&mut open.claims))
    }
}

/// Returns the error of a write conflict.
pub(super) fn conflict() -> Fault {
    let text = "WriteConflict error: this operation conflicted with another operation. Please \
                retry your operation or multi-document transaction.";
    fault(112, text)
}

fn unknown(number: i64, newest: i64) -> Fault {
    let text = format!(
        "Given transaction number {number} does not match any in-progress transactions. The \
         active transaction number is {newest}"
    );
    fault(251, text)
}

/// True if the reply to a write has the error of a statement.
fn has_write_errors(reply: &Reply) -> bool {
    let Body::Tree(reply) = &reply.body else {
        return false;
    };
    let errors = reply.get_array("writeErrors");
    errors.is_ok_and(|errors| !errors.is_empty()) || reply.get_i32("nErrors").is_ok_and(|n| n > 0)
}
