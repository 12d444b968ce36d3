//! The transactions of a router, which its shard executes.
//!
//! A router knows the transactions that were started through it. All data is on one shard, so each
//! transaction commits on this shard alone, without a prepared state. A router that does not know
//! a transaction can ask the shard for its outcome, if the client has the `recoveryToken`.

use super::Part;
use crate::{
    deployment::SHARD_NAME,
    replica::SessionKey,
    server::{
        Member,
        connection::Request,
        dispatch::{Answer, Outcome},
        fault::{Fault, fault},
    },
};
use bson::{Document, RawDocument, doc};
use std::collections::BTreeMap;

/// The newest transaction of a session, as a router knows it.
#[derive(Debug)]
struct Routed {
    number: i64,
    /// True if a statement has written, so that the shard can tell the outcome later.
    has_written: bool,
    /// True if another router has started the transaction, and this one only asks for its outcome.
    is_recovered: bool,
    /// The place of the session in [`RoutedTransactions::by_use`].
    used: u64,
}

/// The transactions that a router knows.
#[derive(Debug, Default)]
pub(in crate::server) struct RoutedTransactions {
    sessions: BTreeMap<SessionKey, Routed>,
    by_use: BTreeMap<u64, SessionKey>,
    uses: u64,
}

impl RoutedTransactions {
    /// Notes a transaction, and forgets those that were noted longest ago if there are too many.
    fn note(&mut self, part: Part, is_recovered: bool, most: usize) {
        self.uses += 1;
        let routed = Routed {
            number: part.number,
            has_written: false,
            is_recovered,
            used: self.uses,
        };
        self.by_use.insert(self.uses, part.session);
        if let Some(before) = self.sessions.insert(part.session, routed) {
            self.by_use.remove(&before.used);
        }
        while self.sessions.len() > most.max(1) {
            let Some((_, session)) = self.by_use.pop_first() else {
                break;
            };
            self.sessions.remove(&session);
        }
    }

    /// Forgets all transactions.
    pub(in crate::server) fn clear(&mut self) {
        self.sessions.clear();
        self.by_use.clear();
    }
}

impl Member {
    /// Checks a command of a transaction, and lets the shard execute it.
    pub(in crate::server) fn route_part(&mut self, request: &Request, part: Part) -> Answer {
        let Part {
            session,
            number,
            starts,
        } = part;
        if request.name == "coordinateCommitTransaction" {
            return Err(fault(59, format!("no such command: '{}'", request.name)));
        }
        let known = self.routing.transactions.sessions.get(&session);
        let newest = known.map_or(super::NO_NUMBER, |routed| routed.number);
        let is_recovered = known.is_some_and(|routed| routed.is_recovered);
        if number < newest {
            let text =
                format!("txnNumber {number} is less than last txnNumber {newest} seen in session");
            return Err(fault(225, text));
        }
        let most = self.options.limits.max_sessions;
        let commits = request.name == "commitTransaction";
        match (number == newest, starts) {
            (true, true) => {
                let text = format!("txnNumber {number} for session already started");
                return Err(fault(117, text));
            }
            (false, true) => {
                self.routing.transactions.note(part, false, most);
            }
            (true, false) if !is_recovered => {}
            (_, false) if commits => {
                check_token(request)?;
                self.routing.transactions.note(part, true, most);
                return Ok(Outcome::Route);
            }
            (_, false) => {
                let text = format!(
                    "cannot continue txnId {newest} for session with txnId {number}, because this \
                     router has not started it"
                );
                return Err(fault(251, text));
            }
        }
        self.check_routed(request)
    }

    /// Returns the command by which a router asks the shard for the outcome of a transaction that
    /// another router has started. Returns `None` for all other commands.
    pub(in crate::server) fn recovery(&self, request: &Request) -> Option<Document> {
        if request.name != "commitTransaction" {
            return None;
        }
        let part = self.part(request).ok()??;
        let routed = self.routing.transactions.sessions.get(&part.session)?;
        if !routed.is_recovered || routed.number != part.number {
            return None;
        }
        let mut command = doc! { "coordinateCommitTransaction": 1 };
        for name in [
            "lsid",
            "txnNumber",
            "autocommit",
            "writeConcern",
            "maxTimeMS",
            "$db",
        ] {
            if let Some(value) = request.command.get(name) {
                command.insert(name, value.clone());
            }
        }
        Some(command)
    }

    /// Returns the `recoveryToken` of the reply to a statement. It is empty until a statement has
    /// written. Returns `None` for errors, and for commands outside of transactions.
    pub(in crate::server) fn recovery_token(
        &mut self,
        request: &Request,
        reply: &RawDocument,
    ) -> Option<Document> {
        if !request.command.contains_key("autocommit") || !self.is_router() {
            return None;
        }
        let part = self.part(request).ok()??;
        reply.get_f64("ok").ok().filter(|ok| *ok == 1.0)?;
        let routed = self.routing.transactions.sessions.get_mut(&part.session)?;
        if routed.is_recovered || routed.number != part.number {
            return None;
        }
        routed.has_written |= matches!(reply.get_bool("readOnly"), Ok(false));
        Some(match routed.has_written {
            true => doc! { "recoveryShardId": SHARD_NAME },
            false => Document::new(),
        })
    }
}

/// Returns an error if the outcome of a transaction cannot be found by the token of a commit.
fn check_token(request: &Request) -> Result<(), Fault> {
    let Ok(token) = request.command.get_document("recoveryToken") else {
        let text = "cannot recover the transaction decision without a recoveryToken";
        return Err(fault(50940, text));
    };
    match token.get_str("recoveryShardId") {
        Ok(SHARD_NAME) => Ok(()),
        Ok(other) => Err(fault(70, format!("Shard {other} not found"))),
        Err(_) => {
            let text = "Recovery token is empty, meaning the transaction only performed reads and \
                        can be safely retried";
            Err(fault(251, text))
        }
    }
}
