//! The transactions of a router, which its shards execute.
//!
//! A router knows the transactions that were started through it, and the shards that take part in
//! each. A transaction that has written on one shard commits there alone. For one that has written
//! on several, the shard with the first write coordinates a commit in two phases, see
//! [`coordinator`](super::coordinator). A router that does not know a transaction can ask this
//! shard for the outcome, if the client has the `recoveryToken`.

use super::{Part, fields::ends};
use crate::{
    deployment::{ConnId, shard_name},
    replica::SessionKey,
    server::{
        Member, Output,
        connection::Request,
        dispatch::{Answer, Outcome},
        fault::{Fault, fault},
        forward::message,
        plan::Plan,
        read_preference::Choice,
        router::gossiped,
    },
};
use bson::{Bson, Document, RawDocument, RawDocumentBuf, doc};
use std::collections::BTreeMap;

/// The fields that each command about the end of a transaction has in common.
const COMMON: [&str; 6] = [
    "lsid",
    "txnNumber",
    "autocommit",
    "writeConcern",
    "maxTimeMS",
    "$db",
];

/// The part of a shard in a transaction, as far as a router knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deed {
    /// No statement has succeeded there.
    Nothing,
    Read,
    Write,
}

/// The newest transaction of a session, as a router knows it.
#[derive(Debug)]
struct Routed {
    number: i64,
    /// The shards that take part, in the order of their first statements.
    shards: Vec<(usize, Deed)>,
    /// The shard with the first write, which can tell the outcome later.
    recovery: Option<usize>,
    /// The read concern of the first statement, with its time for a snapshot, for the shards whose
    /// first statement is a later one.
    concern: Option<Document>,
    /// True once a statement has failed, after which the transaction cannot commit.
    has_failed: bool,
    /// True once the client has asked for the commit.
    commits: bool,
    /// True if another router has started the transaction, and this one only asks for its outcome.
    is_recovered: bool,
    /// The place of the session in [`RoutedTransactions::by_use`].
    used: u64,
}

impl Routed {
    fn note(&mut self, shard: usize, deed: Deed) {
        if deed == Deed::Write {
            self.recovery.get_or_insert(shard);
        }
        match self.shards.iter_mut().find(|(known, _)| *known == shard) {
            Some((_, known)) if *known == Deed::Write => {}
            Some((_, known)) => *known = deed,
            None => self.shards.push((shard, deed)),
        }
    }

    fn takes_part(&self, shard: usize) -> bool {
        self.shards.iter().any(|(known, _)| *known == shard)
    }
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
    fn note(&mut self, part: Part, concern: Option<Document>, is_recovered: bool, most: usize) {
        self.uses += 1;
        let routed = Routed {
            number: part.number,
            shards: Vec::new(),
            recovery: None,
            concern,
            has_failed: false,
            commits: false,
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

    /// Returns the transaction of a command, if this router has started it.
    fn started(&mut self, part: Part) -> Option<&mut Routed> {
        let routed = self.sessions.get_mut(&part.session)?;
        (routed.number == part.number && !routed.is_recovered).then_some(routed)
    }

    /// Forgets all transactions.
    pub(in crate::server) fn clear(&mut self) {
        self.sessions.clear();
        self.by_use.clear();
    }
}

impl Member {
    /// Checks a command of a transaction, and lets the shards execute it.
    pub(in crate::server) fn route_part(
        &mut self,
        conn: ConnId,
        request: &Request,
        part: Part,
    ) -> Answer {
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
                let concern = self.kept_concern(&request.command);
                let transactions = &mut self.routing.transactions;
                transactions.note(part, concern, false, most);
            }
            (true, false) if !is_recovered => {}
            (_, false) if commits => {
                let shard = self.recovery_shard(request)?;
                self.routing.transactions.note(part, None, true, most);
                let plan = Plan::of_other(shard, coordinate(request, &[]));
                return Ok(Outcome::Route(Box::new(plan)));
            }
            (_, false) => {
                let text = format!(
                    "cannot continue txnId {newest} for session with txnId {number}, because this \
                     router has not started it"
                );
                return Err(fault(251, text));
            }
        }
        self.refuse_unroutable(request)?;
        let plan = match request.name.as_str() {
            "commitTransaction" if self.cannot_commit(part) => {
                self.abort_failed(conn, request, true);
                return Err(self.has_ended(number, 251, "aborted"));
            }
            "commitTransaction" => self.plan_of_commit(request, part),
            "abortTransaction" => self.plan_of_abort(part),
            _ => self.plan_of_statement(request, part)?,
        };
        Ok(Outcome::Route(Box::new(plan)))
    }

    /// Returns the read concern that the shards get. If there are several, a snapshot has a time
    /// that is the same on all.
    pub(in crate::server) fn timed_concern(&self, command: &Document) -> Option<Bson> {
        let mut concern = command.get("readConcern")?.clone();
        if let Bson::Document(fields) = &mut concern
            && fields.get_str("level").ok() == Some("snapshot")
            && !fields.contains_key("atClusterTime")
            && self.options.shards > 1
        {
            let known = self.routing.times.map(|times| times.cluster);
            let after = fields.get_timestamp("afterClusterTime").ok();
            if let Some(at) = known.max(gossiped(command)).max(after) {
                fields.remove("afterClusterTime");
                fields.insert("atClusterTime", at);
            }
        }
        Some(concern)
    }

    /// Returns the read concern that further shards get, without what is not part of one. With one
    /// shard there are no further ones.
    fn kept_concern(&self, command: &Document) -> Option<Document> {
        let concern = self.timed_concern(command)?;
        let concern = concern.as_document().filter(|_| self.options.shards > 1)?;
        let mut kept = Document::new();
        if let Ok(level @ ("local" | "majority" | "snapshot")) = concern.get_str("level") {
            kept.insert("level", level);
        }
        for name in ["afterClusterTime", "atClusterTime"] {
            if let Ok(time) = concern.get_timestamp(name) {
                kept.insert(name, time);
            }
        }
        Some(kept)
    }

    /// True if a transaction on several shards cannot commit, because a statement has failed or
    /// has no reply.
    fn cannot_commit(&mut self, part: Part) -> bool {
        let is_several = self.options.shards > 1;
        let routed = self.routing.transactions.started(part);
        is_several
            && routed.is_some_and(|routed| {
                let mut deeds = routed.shards.iter().map(|(_, deed)| *deed);
                routed.has_failed || deeds.any(|deed| deed == Deed::Nothing)
            })
    }

    /// Returns the plan of a statement. A shard whose first statement this is starts its part of
    /// the transaction with it.
    fn plan_of_statement(&mut self, request: &Request, part: Part) -> Result<Plan, Fault> {
        let shard = match self.options.shards {
            1 => 0,
            _ => self.shard_of_request(request)?,
        };
        let is_one = self.options.shards == 1;
        let is_first = request.command.contains_key("startTransaction");
        let own = match is_first && !is_one {
            true => self.timed_concern(&request.command),
            false => None,
        };
        let Some(routed) = self.routing.transactions.started(part) else {
            return Ok(Plan::of_one(shard));
        };
        if routed.takes_part(shard) {
            return Ok(Plan::of_one(shard));
        }
        routed.note(shard, Deed::Nothing);
        if is_one {
            return Ok(Plan::of_one(shard));
        }
        let mut command = request.command.clone();
        command.insert("startTransaction", true);
        let concern = match is_first {
            true => own,
            false => routed.concern.clone().map(Bson::from),
        };
        command.extend(concern.map(|concern| ("readConcern".to_owned(), concern)));
        Ok(Plan::of_other(shard, command))
    }

    /// Returns the plan of a commit. The shards without writes end their part first.
    fn plan_of_commit(&mut self, request: &Request, part: Part) -> Plan {
        let Some(routed) = self.routing.transactions.started(part) else {
            return Plan::of_one(0);
        };
        let is_again = std::mem::replace(&mut routed.commits, true);
        let of = |deed: Deed| {
            let shards = routed.shards.iter().filter(move |(_, done)| *done == deed);
            shards.map(|(shard, _)| *shard)
        };
        let writers: Vec<usize> = of(Deed::Write).collect();
        // A shard that has only read may have forgotten its commit.
        let others: Vec<usize> = match is_again && !writers.is_empty() {
            true => Vec::new(),
            false => of(Deed::Read).collect(),
        };
        let plan = match routed.shards.as_slice() {
            [(only, _)] => return Plan::of_one(*only),
            [] => return Plan::of_one(0),
            _ => Plan::default().then(others.into_iter().map(|shard| (shard, None)).collect()),
        };
        match (writers.as_slice(), routed.recovery) {
            ([], _) => plan,
            ([only], _) => plan.then(vec![(*only, None)]),
            (writers, recovery) => {
                let coordinator = recovery.unwrap_or(writers[0]);
                plan.then(vec![(coordinator, Some(coordinate(request, writers)))])
            }
        }
    }

    fn plan_of_abort(&mut self, part: Part) -> Plan {
        let routed = self.routing.transactions.started(part);
        let shards = routed.map(|routed| routed.shards.as_slice());
        let stage = shards.unwrap_or_default().iter();
        let stage: Vec<_> = stage.map(|(shard, _)| (*shard, None)).collect();
        match stage.is_empty() {
            true => Plan::of_one(0),
            false => Plan::default().then(stage),
        }
    }

    /// Notes what a shard's reply says about a transaction.
    pub(in crate::server) fn note_part(
        &mut self,
        request: &Request,
        member: usize,
        reply: &RawDocument,
    ) {
        let Some(part) = self.statement_of(request) else {
            return;
        };
        let shard = member.saturating_sub(self.options.addresses.len());
        if let Some(routed) = self.routing.transactions.started(part)
            && let Ok(is_read_only) = reply.get_bool("readOnly")
        {
            let deed = match is_read_only {
                true => Deed::Read,
                false => Deed::Write,
            };
            routed.note(shard, deed);
        }
    }

    /// Returns the part of a statement in a transaction. Returns `None` for other commands, and on
    /// members that are not routers.
    fn statement_of(&self, request: &Request) -> Option<Part> {
        let is_statement = request.command.contains_key("autocommit") && !ends(&request.name);
        match is_statement && self.is_router() {
            true => self.part(request).ok()?,
            false => None,
        }
    }

    /// Aborts a transaction on all its shards because a statement has failed, or the commit before
    /// any shard could commit, which the caller tells. The client gets the failure, not the replies
    /// to this. A prepared part refuses.
    pub(in crate::server) fn abort_failed(
        &mut self,
        conn: ConnId,
        request: &Request,
        is_before_commit: bool,
    ) {
        if self.options.shards == 1 || !self.is_router() {
            return;
        }
        let part = match request.name == "commitTransaction" && is_before_commit {
            true => self.part(request).ok().flatten(),
            false => self.statement_of(request),
        };
        let Some(routed) = part.and_then(|part| self.routing.transactions.started(part)) else {
            return;
        };
        routed.has_failed |= !ends(&request.name);
        let shards: Vec<usize> = routed.shards.iter().map(|(shard, _)| *shard).collect();
        let mut abort = doc! { "abortTransaction": 1 };
        copy_common(request, &mut abort);
        abort.remove("writeConcern");
        abort.insert("$db", "admin");
        if let Ok(body) = RawDocumentBuf::try_from(&abort) {
            let bytes = message(request.id, false, &body);
            for shard in shards {
                let member = self.options.addresses.len() + shard;
                let output = Output::Route(conn, member, Choice::Primary, bytes.clone());
                self.outputs.push_back(output);
            }
        }
    }

    /// Returns the `recoveryToken` of the reply to a command of a transaction. It is empty until a
    /// statement has written. Returns `None` for errors, and for commands outside of transactions.
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
        let routed = self.routing.transactions.started(part)?;
        Some(match routed.recovery {
            Some(shard) => doc! { "recoveryShardId": shard_name(shard) },
            None => Document::new(),
        })
    }

    /// Returns the shard that knows the outcome of a transaction, by the token of a commit.
    fn recovery_shard(&self, request: &Request) -> Result<usize, Fault> {
        let Ok(token) = request.command.get_document("recoveryToken") else {
            let text = "cannot recover the transaction decision without a recoveryToken";
            return Err(fault(50940, text));
        };
        let Ok(name) = token.get_str("recoveryShardId") else {
            let text = "Recovery token is empty, meaning the transaction only performed reads and \
                        can be safely retried";
            return Err(fault(251, text));
        };
        let mut shards = 0..self.options.shards;
        let found = shards.find(|shard| shard_name(*shard) == name);
        found.ok_or_else(|| fault(70, format!("Shard {name} not found")))
    }
}

/// Returns the command by which a router has a shard decide on a transaction. Without
/// `participants`, it only asks for the outcome.
fn coordinate(request: &Request, participants: &[usize]) -> Document {
    let mut command = doc! { "coordinateCommitTransaction": 1 };
    if !participants.is_empty() {
        let shards = participants
            .iter()
            .map(|shard| doc! { "shardId": shard_name(*shard) });
        command.insert("participants", shards.collect::<Vec<_>>());
    }
    copy_common(request, &mut command);
    command
}

fn copy_common(request: &Request, command: &mut Document) {
    for name in COMMON {
        if let Some(value) = request.command.get(name) {
            command.insert(name, value.clone());
        }
    }
}
