//! The commit of a transaction that has written on several shards, in two phases.
//!
//! The shard with the first write coordinates. It asks each shard to prepare the transaction. If
//! all have, the transaction commits, at the latest of their times; if one cannot, it aborts. The
//! coordinator keeps the participants, and later its decision, in `config.transaction_coordinators`
//! until all participants have carried the decision out. Therefore it goes on after a crash or an
//! election, and asks again for what was lost. Each message waits until a majority of the sending
//! shard has the entries of the oplog on which the message depends.

use super::{Part, Phase, TransactionId, prepare::is_prepared};
use crate::{
    deployment::shard_name,
    replica::ReplicaEvent,
    server::{
        Member, Output,
        connection::{Request, Waiting},
        dispatch::{Answer, Outcome},
        read_concern::read_deadline,
        reply::Reply,
    },
    store::{DeleteStatement, Namespace},
};
use bson::{Binary, Bson, Document, Timestamp, doc, spec::BinarySubtype};
use onionskin_core::time::Instant;
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

/// The time after which a coordinator asks again those that have not answered.
const PATIENCE: Duration = Duration::from_secs(1);

/// A message between the coordinator and a participant of a transaction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CommitMessage {
    pub(super) id: TransactionId,
    pub(super) content: CommitContent,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum CommitContent {
    Prepare,
    /// The time at which the participant has prepared. `None`: it has not, and never will.
    Vote(Option<Timestamp>),
    Decide(Decision),
    /// The participant has carried the decision out.
    Done,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    Commit(Timestamp),
    Abort,
}

/// The commits that a shard coordinates.
#[derive(Debug, Default)]
pub(in crate::server) struct Commits {
    by_id: BTreeMap<TransactionId, Commit>,
    /// The messages to shards that wait until a majority of this shard has the entry with an index.
    held: VecDeque<(u64, usize, CommitMessage)>,
}

#[derive(Debug)]
struct Commit {
    participants: Vec<usize>,
    /// The participants that have not answered.
    awaited: BTreeSet<usize>,
    /// The latest time at which a participant has prepared.
    latest: Timestamp,
    decision: Option<Decision>,
    ask_again_at: Instant,
}

impl Commits {
    /// True while participants may not have carried out the decision on a transaction.
    pub(in crate::server) fn is_under_way(&self, id: TransactionId) -> bool {
        self.by_id.contains_key(&id)
    }

    pub(in crate::server) fn deadline(&self) -> Option<Instant> {
        self.by_id.values().map(|commit| commit.ask_again_at).min()
    }

    pub(in crate::server) fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// Forgets all commits, when the shard is no longer the primary.
    pub(in crate::server) fn clear(&mut self) {
        self.by_id.clear();
        self.held.clear();
    }
}

impl Member {
    /// Answers a router that asks for the commit of a transaction on several shards, or only for
    /// the outcome. A transaction without an outcome is aborted by the latter.
    pub(super) fn coordinate_commit(
        &mut self,
        now: Instant,
        request: &Request,
        part: Part,
        phase: Phase,
    ) -> Answer {
        self.write_concern(request)?;
        let id = (part.session, part.number);
        if !self.commits.is_under_way(id) {
            match phase {
                Phase::Open if request.command.contains_key("participants") => {
                    self.begin_commit(now, id, self.participants(&request.command));
                }
                Phase::Open => self.abort_part(part),
                _ => {}
            }
        }
        if self.commits.is_under_way(id) {
            let deadline = read_deadline(now, &request.command);
            return Ok(Outcome::Wait(Waiting::Decision(id), deadline));
        }
        match self.newest_number(&part.session) {
            (number, Phase::Committed) if number == part.number => {
                Ok(Outcome::Written(Reply::default()))
            }
            (number, Phase::Prepared) if number == part.number => Err(is_prepared(number)),
            _ => Err(self.has_ended(part.number, 251, "aborted")),
        }
    }

    /// Returns the shards that a command or a kept document names.
    fn participants(&self, document: &Document) -> Vec<usize> {
        let listed = document.get_array("participants").map(Vec::as_slice);
        let listed = listed.unwrap_or_default().iter();
        let names = listed.filter_map(|shard| shard.as_document()?.get_str("shardId").ok());
        let shards = |name: &str| (0..self.options.shards).find(|n| shard_name(*n) == name);
        names.filter_map(shards).collect()
    }

    fn begin_commit(&mut self, now: Instant, id: TransactionId, participants: Vec<usize>) {
        self.keep_commit(now, id, &participants, None);
        self.enter_commit(now, id, participants, None);
    }

    /// Asks the participants to prepare, or to carry out a decision that was made before.
    fn enter_commit(
        &mut self,
        now: Instant,
        id: TransactionId,
        participants: Vec<usize>,
        decision: Option<Decision>,
    ) {
        let commit = Commit {
            awaited: participants.iter().copied().collect(),
            participants,
            latest: Timestamp {
                time: 0,
                increment: 0,
            },
            decision,
            ask_again_at: now + PATIENCE,
        };
        self.commits.by_id.insert(id, commit);
        self.ask_participants(now, id);
    }

    /// Sends the request of the current phase to all participants that have not answered.
    fn ask_participants(&mut self, now: Instant, id: TransactionId) {
        let Some(commit) = self.commits.by_id.get_mut(&id) else {
            return;
        };
        commit.ask_again_at = now + PATIENCE;
        let content = match commit.decision {
            None => CommitContent::Prepare,
            Some(decision) => CommitContent::Decide(decision),
        };
        for shard in commit.awaited.clone() {
            self.send_to_shard(now, shard, CommitMessage { id, content });
        }
    }

    /// Sends a message to a shard when a majority of this one has all entries. A step-down cannot
    /// roll back the entries then, and the next primary knows them.
    pub(super) fn send_to_shard(&mut self, now: Instant, to: usize, message: CommitMessage) {
        let last = self.replica.last().index;
        match self.replica.commit() < last {
            true => self.commits.held.push_back((last, to, message)),
            false => self.send_durable(now, to, message),
        }
    }

    /// Sends the messages whose entries a majority has.
    pub(in crate::server) fn send_held(&mut self, now: Instant) {
        let commit = self.replica.commit();
        while let Some(&(index, to, message)) = self.commits.held.front()
            && index <= commit
        {
            self.commits.held.pop_front();
            self.send_durable(now, to, message);
        }
    }

    fn send_durable(&mut self, now: Instant, to: usize, message: CommitMessage) {
        match self.shard == Some(to) {
            true => self.handle_commit_message(now, to, message),
            false => self.outputs.push_back(Output::SendToShard(to, message)),
        }
    }

    /// Handles a message of a shard. A member that is not the primary does not answer.
    pub(crate) fn handle_commit_message(
        &mut self,
        now: Instant,
        from: usize,
        message: CommitMessage,
    ) {
        if !self.replica.is_writable() {
            return;
        }
        let CommitMessage { id, content } = message;
        let answer = match content {
            CommitContent::Prepare => CommitContent::Vote(self.prepare(now, id)),
            CommitContent::Decide(decision) => {
                if !self.carry_out(now, id, decision, from) {
                    return;
                }
                self.let_message_wait(now);
                CommitContent::Done
            }
            CommitContent::Vote(vote) => return self.count_vote(now, id, from, vote),
            CommitContent::Done => return self.note_done(now, id, from),
        };
        let content = answer;
        self.send_to_shard(now, from, CommitMessage { id, content });
    }

    /// Lets the next message wait for a majority, also if there was nothing to log. A primary of an
    /// earlier term, which gets no majority, can lack a transaction that a later one has prepared.
    fn let_message_wait(&mut self, now: Instant) {
        let has_all = self.replica.commit() >= self.replica.last().index;
        if has_all && self.options.shard_members > 1 {
            self.replica.append(now, Vec::new(), None);
        }
    }

    fn count_vote(
        &mut self,
        now: Instant,
        id: TransactionId,
        from: usize,
        vote: Option<Timestamp>,
    ) {
        let Some(commit) = self.commits.by_id.get_mut(&id) else {
            return;
        };
        if commit.decision.is_some() || !commit.awaited.remove(&from) {
            return;
        }
        let decision = match vote {
            None => Decision::Abort,
            Some(time) => {
                commit.latest = commit.latest.max(time);
                if !commit.awaited.is_empty() {
                    return;
                }
                Decision::Commit(commit.latest)
            }
        };
        let participants = commit.participants.clone();
        self.keep_commit(now, id, &participants, Some(decision));
        self.enter_commit(now, id, participants, Some(decision));
    }

    fn note_done(&mut self, now: Instant, id: TransactionId, from: usize) {
        let Some(commit) = self.commits.by_id.get_mut(&id) else {
            return;
        };
        let is_decided = commit.decision.is_some();
        if is_decided && commit.awaited.remove(&from) && commit.awaited.is_empty() {
            self.commits.by_id.remove(&id);
            self.write_commit(now, id, None);
            // The event lets the waiting request of the router be executed again.
            self.replica.events.push_back(ReplicaEvent::Progress);
        }
    }

    /// Asks the participants again that have not answered in time.
    pub(in crate::server) fn ask_again(&mut self, now: Instant) {
        let late = self
            .commits
            .by_id
            .iter()
            .filter(|(_, c)| c.ask_again_at <= now);
        let late: Vec<TransactionId> = late.map(|(id, _)| *id).collect();
        for id in late {
            self.ask_participants(now, id);
        }
    }

    /// Continues the commits that an earlier primary of this shard, or an earlier process, has
    /// started.
    pub(in crate::server) fn resume_commits(&mut self, now: Instant) {
        let kept = self.replica.store().collection(&coordinators());
        let kept = kept
            .into_iter()
            .flat_map(|collection| collection.documents());
        let kept: Vec<Document> = kept.map(|document| Document::clone(document)).collect();
        for document in kept {
            let Some(id) = kept_id(&document) else {
                continue;
            };
            let decision = document.get_document("decision").ok();
            let decision = decision.map(|decision| {
                let at = decision.get_timestamp("commitTimestamp");
                at.map_or(Decision::Abort, Decision::Commit)
            });
            let participants = self.participants(&document);
            if participants.is_empty() {
                continue;
            }
            self.enter_commit(now, id, participants, decision);
        }
    }

    /// Keeps the participants of a commit, with the decision if there is one.
    fn keep_commit(
        &mut self,
        now: Instant,
        id: TransactionId,
        participants: &[usize],
        decision: Option<Decision>,
    ) {
        let shards = participants
            .iter()
            .map(|shard| doc! { "shardId": shard_name(*shard) });
        let shards: Vec<Document> = shards.collect();
        let mut document = doc! { "_id": document_id(id), "participants": shards };
        match decision {
            None => {}
            Some(Decision::Abort) => {
                document.insert("decision", doc! { "decision": "abort" });
            }
            Some(Decision::Commit(at)) => {
                let decision = doc! { "decision": "commit", "commitTimestamp": at };
                document.insert("decision", decision);
            }
        }
        self.write_commit(now, id, Some(document));
    }

    /// Replaces or removes the document of a commit.
    fn write_commit(&mut self, now: Instant, id: TransactionId, document: Option<Document>) {
        let name = coordinators();
        let delete = DeleteStatement {
            filter: doc! { "_id": document_id(id) },
            limit: 1,
            hint: None,
            collation: None,
        };
        let written = self.with_store(now, None, |store, environment| {
            store.without_limit(|store| {
                store.delete(&name, &[delete], true, environment)?;
                match document {
                    Some(document) => store.insert(&name, vec![document], true, environment),
                    None => Ok(Default::default()),
                }
            })
        });
        debug_assert!(written.is_ok_and(|done| done.errors.is_empty()), "no limit");
        self.log(now, None);
    }
}

/// The collection with the commits that a shard coordinates.
fn coordinators() -> Namespace {
    Namespace::new("config", "transaction_coordinators")
}

fn document_id((session, number): TransactionId) -> Document {
    let session = Binary {
        subtype: BinarySubtype::Uuid,
        bytes: session.to_vec(),
    };
    doc! { "lsid": { "id": session }, "txnNumber": number }
}

fn kept_id(document: &Document) -> Option<TransactionId> {
    let id = document.get_document("_id").ok()?;
    let Some(Bson::Binary(session)) = id.get_document("lsid").ok()?.get("id") else {
        return None;
    };
    Some((
        session.bytes.as_slice().try_into().ok()?,
        id.get_i64("txnNumber").ok()?,
    ))
}
