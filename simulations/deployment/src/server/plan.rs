//! The shards that must answer a router's request, and the one reply that is made from theirs.

use super::{
    Member,
    connection::Request,
    document::owned,
    fault::{Fault, fault},
    read_preference::Choice,
};
use crate::store::{Namespace, output_target};
use bson::{Bson, Document, RawDocument, RawDocumentBuf};
use onionskin_core::time::Instant;
use std::collections::VecDeque;

/// The codes by which a member says that its role has changed. A router's clients must not take
/// them for errors of the router, so the router replaces them.
const STATE_CHANGES: [i32; 7] = [91, 189, 10107, 11600, 11602, 13435, 13436];

/// The code of the error `HostUnreachable`.
pub(super) const HOST_UNREACHABLE: i32 = 6;

/// A command for a shard, or `None` for that of the client.
type Order = (usize, Option<Document>);

/// The commands that other members execute for a request: stages that follow each other. The
/// commands of a stage are sent together. A stage starts when all commands before it have
/// succeeded.
#[derive(Debug, Default)]
pub(super) struct Plan {
    stages: VecDeque<Vec<Order>>,
    /// The indexes of the members that have not yet answered.
    awaited: Vec<usize>,
    /// The replies, with the indexes of the members.
    replies: Vec<(usize, RawDocumentBuf)>,
    /// The requests of the present stage, if shards have several members.
    attempts: Vec<Attempt>,
    /// The time since which a shard has had no member for a request.
    without_host_since: Option<Instant>,
}

/// A request to a shard of several members, which can be sent again.
#[derive(Debug)]
pub(super) struct Attempt {
    /// The number of the shard after the routers.
    member: usize,
    pub(super) choice: Choice,
    pub(super) bytes: Vec<u8>,
    /// The index of the member that has got the request; `None` if no member suits.
    host: Option<usize>,
    /// How often a member has not executed the request.
    failures: usize,
}

/// The number of times that a router repeats a request, as in the server.
const MAX_REPETITIONS: usize = 3;

impl Plan {
    /// One shard executes the client's command.
    pub(super) fn of_one(shard: usize) -> Self {
        Self::of(vec![(shard, None)])
    }

    /// A shard executes another command in place of the client's.
    pub(super) fn of_other(shard: usize, command: Document) -> Self {
        Self::of(vec![(shard, Some(command))])
    }

    /// All shards execute the client's command.
    pub(super) fn of_all(shards: usize) -> Self {
        Self::of((0..shards).map(|shard| (shard, None)).collect())
    }

    fn of(stage: Vec<Order>) -> Self {
        Self::default().then(stage)
    }

    /// Adds a stage, unless it is empty.
    pub(super) fn then(mut self, stage: Vec<Order>) -> Self {
        if !stage.is_empty() {
            self.stages.push_back(stage);
        }
        self
    }

    pub(super) fn has_stages(&self) -> bool {
        !self.stages.is_empty()
    }

    pub(super) fn next_stage(&mut self) -> Option<Vec<Order>> {
        self.attempts.clear();
        self.stages.pop_front()
    }

    /// Keeps a request to a shard of several members, to send it again if the member fails.
    pub(super) fn keep(&mut self, member: usize, choice: Choice, bytes: Vec<u8>) {
        self.attempts.push(Attempt {
            member,
            choice,
            bytes,
            host: None,
            failures: 0,
        });
    }

    fn attempt(&mut self, member: usize) -> Option<&mut Attempt> {
        let mut attempts = self.attempts.iter_mut();
        attempts.find(|attempt| attempt.member == member)
    }

    /// Notes the member that gets the request to a shard.
    pub(super) fn note_host(&mut self, member: usize, host: usize) {
        self.without_host_since = None;
        if let Some(attempt) = self.attempt(member) {
            attempt.host = Some(host);
        }
    }

    /// True if a reply of `member` is awaited, and the request was sent to `host`. For a shard of
    /// several members, `member` is the number of the shard after the routers, and `host` the index
    /// of one of its members.
    pub(super) fn is_at(&self, member: usize, host: usize) -> bool {
        let mut attempts = self.attempts.iter();
        let attempt = attempts.find(|attempt| attempt.member == member);
        self.awaits(member) && attempt.is_none_or(|attempt| attempt.host == Some(host))
    }

    /// Notes that a member has not executed its request. Returns the request if it can be sent
    /// again, possibly to another member of the shard.
    pub(super) fn next_attempt(&mut self, member: usize) -> Option<&Attempt> {
        let attempt = self.attempt(member)?;
        if attempt.failures >= MAX_REPETITIONS || matches!(attempt.choice, Choice::Member(_)) {
            return None;
        }
        attempt.failures += 1;
        attempt.host = None;
        Some(&*attempt)
    }

    /// Notes that no member of a shard suits its request. Returns the time since which that is so,
    /// the choice, and whether a member has had the request before.
    pub(super) fn note_no_host(
        &mut self,
        now: Instant,
        member: usize,
    ) -> Option<(Instant, Choice, bool)> {
        let since = *self.without_host_since.get_or_insert(now);
        let attempt = self.attempt(member)?;
        attempt.host = None;
        Some((since, attempt.choice, attempt.failures > 0))
    }

    /// Returns the awaited requests that no member has.
    pub(super) fn without_host(&self) -> impl Iterator<Item = (usize, &Attempt)> {
        let attempts = self.attempts.iter().filter(|attempt| {
            let is_awaited = self.awaits(attempt.member);
            is_awaited && attempt.host.is_none()
        });
        attempts.map(|attempt| (attempt.member, attempt))
    }

    pub(super) fn await_reply(&mut self, member: usize) {
        self.awaited.push(member);
    }

    pub(super) fn awaits(&self, member: usize) -> bool {
        self.awaited.contains(&member)
    }

    /// Notes the reply of a member. Returns false while other replies of the stage are missing.
    pub(super) fn note(&mut self, member: usize, reply: RawDocumentBuf) -> bool {
        self.awaited.retain(|awaited| *awaited != member);
        self.replies.push((member, reply));
        self.awaited.is_empty()
    }

    /// True if a command of the plan has failed.
    pub(super) fn has_failed(&self) -> bool {
        self.replies.iter().any(|(_, reply)| !is_ok(reply))
    }

    /// Returns the reply to the request: the first failure, or the last reply with what the others
    /// add to it. The last one comes from the last stage, and has the latest time.
    pub(super) fn reply(self, request: &Request) -> Option<RawDocumentBuf> {
        let mut replies = self.replies;
        if let Some(failed) = replies.iter().position(|(_, reply)| !is_ok(reply)) {
            return Some(replies.swap_remove(failed).1);
        }
        if replies.len() > 1 && request.name == "listDatabases" {
            replies.sort_by_key(|(member, _)| *member);
            let replies: Vec<RawDocumentBuf> = replies.into_iter().map(|(_, r)| r).collect();
            return merged_databases(&replies);
        }
        if replies.len() > 1 && request.name == "killCursors" {
            return merged_kills(&replies);
        }
        replies.pop().map(|(_, reply)| reply)
    }
}

fn is_ok(reply: &RawDocumentBuf) -> bool {
    reply.get_f64("ok").ok() == Some(1.0)
}

/// Returns the last of the replies to `killCursors`, with the cursors of all.
fn merged_kills(replies: &[(usize, RawDocumentBuf)]) -> Option<RawDocumentBuf> {
    let replies = replies.iter().map(|(_, reply)| owned(reply));
    let replies: Vec<Document> = replies.collect::<Option<_>>()?;
    let mut merged = replies.last()?.clone();
    for field in ["cursorsKilled", "cursorsNotFound"] {
        let listed = replies
            .iter()
            .filter_map(|reply| reply.get_array(field).ok());
        let all: Vec<Bson> = listed.flatten().cloned().collect();
        merged.insert(field, all);
    }
    RawDocumentBuf::try_from(&merged).ok()
}

/// Returns the last of the replies to `listDatabases`, with the databases of all. The databases of
/// the cluster itself are those of the first shard.
fn merged_databases(replies: &[RawDocumentBuf]) -> Option<RawDocumentBuf> {
    let replies: Option<Vec<Document>> = replies.iter().map(|reply| owned(reply)).collect();
    let replies = replies?;
    let mut merged = replies.last()?.clone();
    let (mut databases, mut size) = (Vec::new(), 0);
    for (index, reply) in replies.iter().enumerate() {
        let listed = reply.get_array("databases").ok()?;
        let of_cluster = |database: &Bson| {
            let name = database.as_document().and_then(|d| d.get_str("name").ok());
            matches!(name, Some("admin" | "config" | "local"))
        };
        let kept = listed.iter().filter(|d| index == 0 || !of_cluster(d));
        databases.extend(kept.cloned());
        size += reply.get_i64("totalSize").unwrap_or(0);
    }
    databases.sort_by_key(|database| {
        let name = database.as_document().and_then(|d| d.get_str("name").ok());
        name.map(str::to_owned)
    });
    merged.insert("databases", databases);
    if merged.contains_key("totalSize") {
        merged.insert("totalSize", size);
        merged.insert("totalSizeMb", size / (1024 * 1024));
    }
    RawDocumentBuf::try_from(&merged).ok()
}

impl Member {
    /// Returns the plan of a request outside of transactions. Fails for what the simulated router
    /// cannot do because several shards have the data.
    pub(super) fn plan_of(&self, request: &Request) -> Result<Plan, Fault> {
        let kill = self.plan_of_kill(request);
        if kill.has_stages() {
            return Ok(kill);
        }
        let shards = self.options.shards;
        if shards == 1 {
            return Ok(Plan::of_one(0));
        }
        self.refuse_writes_of_cluster(request)?;
        match request.name.as_str() {
            "endSessions" | "killSessions" | "killAllSessions" | "listDatabases" => {
                Ok(Plan::of_all(shards))
            }
            _ => {
                let shard = self.shard_of_request(request)?;
                let concern = self.timed_concern(&request.command);
                if concern.as_ref() == request.command.get("readConcern") {
                    return Ok(Plan::of_one(shard));
                }
                let mut command = request.command.clone();
                command.extend(concern.map(|concern| ("readConcern".to_owned(), concern)));
                Ok(Plan::of_other(shard, command))
            }
        }
    }

    /// Fails for a write to the database `config`, in which the shards keep their commits.
    fn refuse_writes_of_cluster(&self, request: &Request) -> Result<(), Fault> {
        let command = &request.command;
        let infos = command.get_array("nsInfo").map(Vec::as_slice);
        let infos = infos.unwrap_or_default().iter();
        let named = infos.filter_map(|info| info.as_document()?.get_str("ns").ok());
        let full = [request.name.as_str(), "to"].map(|field| command.get_str(field));
        let mut names = named.chain(full.into_iter().flatten());
        let concerns_config = request.database == "config"
            || output_of(request).is_some_and(|output| output.database == "config")
            || names.any(|name| name.starts_with("config."));
        match self.is_write(request) && concerns_config {
            true => Err(fault(
                238,
                "this simulated router with several shards does not write to the database config",
            )),
            false => Ok(()),
        }
    }

    /// Returns the one shard that executes a command.
    pub(super) fn shard_of_request(&self, request: &Request) -> Result<usize, Fault> {
        let command = &request.command;
        let of = |name: &str| {
            self.options
                .shard_of(name.split('.').next().unwrap_or_default())
        };
        let own = self.options.shard_of(&request.database);
        let full = command.get_str(&request.name).unwrap_or_default();
        let others: Vec<usize> = match request.name.as_str() {
            "shardCollection" | "dataSize" => return Ok(of(full)),
            "renameCollection" => vec![of(full), of(command.get_str("to").unwrap_or_default())],
            "bulkWrite" => {
                let infos = command.get_array("nsInfo").map(Vec::as_slice);
                let infos = infos.unwrap_or_default().iter();
                let names = infos.filter_map(|info| info.as_document()?.get_str("ns").ok());
                names.map(of).collect()
            }
            "aggregate" => {
                let stages = command.get_array("pipeline").map(Vec::as_slice);
                let stages = stages.unwrap_or_default();
                if stages.first().is_some_and(is_of_cluster) {
                    return Err(of_several("a change stream over the whole cluster"));
                }
                let output = output_of(request).map(|output| of(&output.database));
                std::iter::once(own).chain(output).collect()
            }
            "getMore" | "killCursors" => match self.shards_of_cursors(request) {
                cursors if cursors.is_empty() => return Ok(own),
                cursors => cursors,
            },
            _ => return Ok(own),
        };
        let first = others.first().copied().unwrap_or(own);
        match others.iter().all(|other| *other == first) {
            true => Ok(first),
            false if request.name == "renameCollection" => {
                let has_code = self.program.version.release < [6, 0, 0];
                let text = "Source and destination collections must be on same shard";
                Err(fault(if has_code { 13137 } else { 125 }, text))
            }
            false => Err(of_several(&format!("a '{}'", request.name))),
        }
    }
}

fn of_several(what: &str) -> Fault {
    let text = format!(
        "this simulated router does not implement {what} that concerns databases of several shards"
    );
    fault(238, text)
}

/// True for a change stream that must ask all shards.
fn is_of_cluster(stage: &Bson) -> bool {
    let Some(stage) = stage.as_document() else {
        return false;
    };
    let stream = stage.get_document("$changeStream");
    stream.is_ok_and(|stream| stream.get_bool("allChangesForCluster").unwrap_or(false))
}

/// Returns the collection that the last stage of a pipeline writes to.
fn output_of(request: &Request) -> Option<Namespace> {
    let last = request.command.get_array("pipeline").ok()?.last()?;
    output_target(&request.database, last.as_document()?)
}

/// True for the error of a member whose role has changed.
pub(super) fn has_changed_state(reply: &RawDocument) -> bool {
    let code = reply.get_i32("code").ok();
    code.is_some_and(|code| STATE_CHANGES.contains(&code))
}

/// Returns a shard's reply with the error that a router's client gets: one of a shard whose role
/// has changed becomes `HostUnreachable`.
pub(super) fn without_state_change(reply: RawDocumentBuf) -> RawDocumentBuf {
    let concern = reply.get_document("writeConcernError");
    if !has_changed_state(&reply) && !concern.is_ok_and(has_changed_state) {
        return reply;
    }
    let Some(mut changed) = owned(&reply) else {
        return reply;
    };
    // Some drivers search the message for `not primary`, whatever the code is.
    let rewrite = |error: &mut Document| {
        let is_change = error
            .get_i32("code")
            .is_ok_and(|c| STATE_CHANGES.contains(&c));
        if is_change {
            let text = error.get_str("errmsg").unwrap_or_default();
            error.insert("errmsg", text.replace("not primary", "(NOT_PRIMARY)"));
            error.insert("code", HOST_UNREACHABLE);
            error.insert("codeName", "HostUnreachable");
        }
    };
    rewrite(&mut changed);
    changed.remove("topologyVersion");
    if let Ok(concern) = changed.get_document_mut("writeConcernError") {
        rewrite(concern);
    }
    RawDocumentBuf::try_from(&changed).unwrap_or(reply)
}
