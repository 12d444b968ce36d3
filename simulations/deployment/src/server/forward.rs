//! Requests that other members execute: those of the clients of routers, and pipelines with `$out`
//! or `$merge` on secondaries. Since 5.0, a secondary runs the other stages itself, and the primary
//! writes their result.

use super::{
    Member, Output,
    apart::{LARGE, Task},
    connection::{Arrival, Request, Waiting},
    dispatch::{Answer, Outcome},
    document::{owned, truth},
    fail_point::FailEffect,
    fault::{Fault, fault, not_writable_primary},
    plan::{HOST_UNREACHABLE, Plan},
    read::{collation, pipeline_writes},
    read_preference::Choice,
    router::gossiped,
    write::documents,
};
use crate::{
    deployment::ConnId,
    store::{GIVEN, Query, Shared, encoded_bytes, unrecognized},
};
use bson::{Bson, Document, RawDocument, RawDocumentBuf, Timestamp, doc};
use onionskin_core::{
    time::Instant,
    unstable::wire::{Flags, MessageWriter},
};
use std::collections::BTreeSet;

/// The fields of the command that the primary gets as well.
const KEPT: [&str; 5] = [
    "bypassDocumentValidation",
    "let",
    "maxTimeMS",
    "comment",
    "writeConcern",
];

/// A request that is to be encoded for other members.
#[derive(Debug)]
pub(super) struct Forwarding {
    pub(super) request: Request,
    pub(super) effect: Option<FailEffect>,
    pub(super) plan: Box<Plan>,
    /// The members, each with its command, or `None` for that of the client.
    pub(super) commands: Vec<(usize, Option<Document>)>,
    /// The member of each shard that executes the command.
    pub(super) choice: Choice,
    /// The cluster time that the members learn.
    pub(super) time: Option<Timestamp>,
    /// For a primary, the largest size of a message in bytes.
    pub(super) limit: Option<usize>,
    /// The documents with which the pipeline for a primary begins.
    pub(super) given: Vec<Shared>,
}

/// A request that was encoded for other members.
#[derive(Debug)]
pub(super) struct Forwarded {
    pub(super) request: Request,
    effect: Option<FailEffect>,
    plan: Box<Plan>,
    choice: Choice,
    /// The members and their messages, or the reason why there are none.
    messages: Result<Vec<(usize, Vec<u8>)>, Fault>,
}

impl Forwarding {
    pub(super) fn encode(self) -> Forwarded {
        let messages = self.commands.iter().map(|(member, command)| {
            let command = command.as_ref().unwrap_or(&self.request.command);
            let message = self.message(command);
            message.map(|bytes| (*member, bytes))
        });
        Forwarded {
            messages: messages.collect(),
            request: self.request,
            effect: self.effect,
            plan: self.plan,
            choice: self.choice,
        }
    }

    fn message(&self, command: &Document) -> Result<Vec<u8>, Fault> {
        let body = match (self.time, self.limit) {
            (Some(known), _) => {
                let mut command = command.clone();
                let time = gossiped(&command).map_or(known, |time| time.max(known));
                command.insert("$clusterTime", doc! { "clusterTime": time });
                RawDocumentBuf::try_from(&command)
            }
            (None, Some(limit)) => {
                RawDocumentBuf::try_from(&beginning_with(&self.given, command, limit)?)
            }
            (None, None) => RawDocumentBuf::try_from(command),
        };
        let body = body.map_err(|_| fault(22, "malformed BSON"))?;
        let bytes = message(self.request.id, self.request.reply_wanted, &body);
        match self.limit.is_some_and(|limit| bytes.len() > limit) {
            true => Err(too_large()),
            false => Ok(bytes),
        }
    }
}

/// Returns the command with these documents at the beginning of its pipeline. Fails without a copy
/// if they are larger than a message.
fn beginning_with(given: &[Shared], command: &Document, limit: usize) -> Result<Document, Fault> {
    let sizes = given.iter().map(|document| encoded_bytes(document));
    if sizes.sum::<usize>() > limit {
        return Err(too_large());
    }
    let given: Vec<Bson> = given.iter().map(|d| Document::clone(d).into()).collect();
    let mut command = command.clone();
    if let Ok(pipeline) = command.get_array_mut("pipeline") {
        let stage = doc! { GIVEN: { "$literal": given } };
        pipeline.insert(0, stage.into());
    }
    Ok(command)
}

fn too_large() -> Fault {
    let text = "the documents for the primary exceed the size of a message";
    fault(10334, text)
}

impl Member {
    /// Returns an error if a client uses the stage by which members give documents to each other.
    pub(super) fn check_given(&self, conn: ConnId, request: &Request) -> Result<(), Fault> {
        let stages = request.command.get_array("pipeline").into_iter().flatten();
        let mut stages = stages.filter_map(Bson::as_document);
        let is_used = stages.any(|stage| stage.contains_key(GIVEN));
        match is_used && !self.is_internal(conn) {
            true => Err(unrecognized(GIVEN).into()),
            false => Ok(()),
        }
    }

    /// True if this member executes a pipeline that writes like a read, and has the primary write
    /// the result.
    pub(super) fn forwards(&self, request: &Request) -> bool {
        let is_new = self.program.version.release >= [5, 0, 0];
        self.holds_data() && is_new && request.name == "aggregate" && !self.replica.is_leader()
    }

    /// True if a command has a result that the primary must write. An invalid command and one that
    /// only explains itself have none.
    pub(super) fn has_output_for_primary(&self, request: &Request) -> bool {
        let is_explained = truth(request.command.get("explain"));
        let has_cursor = request.command.get_document("cursor").is_ok();
        self.forwards(request) && pipeline_writes(request) && has_cursor && !is_explained
    }

    /// Runs the stages of a pipeline before `$out` or `$merge`.
    pub(super) fn run_for_primary(&mut self, now: Instant, request: &Request) -> Answer {
        let Some(primary) = self.replica.leader() else {
            return Err(not_writable_primary());
        };
        let command = &request.command;
        let pipeline = self.with_sessions(now, command, documents(command, "pipeline"));
        let Some((last, stages)) = pipeline.split_last() else {
            return Err(fault(9, "the pipeline is empty"));
        };
        self.replica.store().check_output(&pipeline)?;
        let variables = command.get_document("let").ok();
        let database = request.database.as_str();
        let query = Query::Aggregate(
            database.to_owned(),
            command.get_str(&request.name).ok().map(str::to_owned),
            stages.to_vec(),
            collation(command),
            command.get("hint").cloned(),
        );
        let given = self.query(now, variables, query)?.documents();
        let mut write = doc! { "aggregate": 1, "pipeline": [last.clone()], "cursor": {} };
        let kept = command
            .iter()
            .filter(|(name, _)| KEPT.contains(&name.as_str()));
        write.extend(kept.map(|(name, value)| (name.clone(), value.clone())));
        write.insert("$db", database);
        Ok(Outcome::Forward(primary, write, given))
    }

    /// Sends a command to the primary, whose pipeline begins with these documents. A request that
    /// expects a reply waits for the primary's.
    pub(super) fn forward(
        &mut self,
        conn: ConnId,
        request: Request,
        effect: Option<FailEffect>,
        (primary, command, given): (usize, Document, Vec<Shared>),
    ) {
        let forwarding = Forwarding {
            request,
            effect,
            plan: Box::default(),
            commands: vec![(primary, Some(command))],
            choice: Choice::Primary,
            time: None,
            limit: Some(self.options.limits.max_message_bytes),
            given,
        };
        self.send_on(conn, forwarding);
    }

    /// Encodes a request for other members and sends it. A job encodes one that can be large.
    pub(super) fn send_on(&mut self, conn: ConnId, forwarding: Forwarding) {
        // The command for a primary has documents, whose size is not known.
        let may_be_large = forwarding.limit.is_some() || forwarding.request.bytes >= LARGE;
        match self.jobs.are_run() && may_be_large {
            true => self.set_apart(conn, Task::Forward(Box::new(forwarding))),
            false => self.send_forwarded(conn, forwarding.encode()),
        }
    }

    /// Sends a request to other members. One that expects a reply waits for theirs.
    pub(super) fn send_forwarded(&mut self, conn: ConnId, forwarded: Forwarded) {
        let Forwarded {
            request,
            effect,
            mut plan,
            choice,
            messages,
        } = forwarded;
        let messages = match messages {
            Ok(messages) => messages,
            Err(fault) => {
                self.respond(conn, &request, Err(fault));
                return self.discard(request);
            }
        };
        let can_repeat = self.is_router() && self.options.shard_members > 1;
        for (member, bytes) in messages {
            if can_repeat {
                plan.keep(member, choice, bytes.clone());
            }
            let output = Output::Route(conn, member, choice, bytes);
            self.outputs.push_back(output);
            plan.await_reply(member);
        }
        match request.reply_wanted {
            true => self.wait(conn, request, Waiting::Routed { plan, effect }, None),
            false => self.discard(request),
        }
    }

    /// Returns the connections of the requests that are to be carried to other members.
    pub(crate) fn routed(&self) -> BTreeSet<ConnId> {
        let routed = self.outputs.iter().filter_map(|output| match output {
            Output::Route(conn, ..) => Some(*conn),
            _ => None,
        });
        routed.collect()
    }

    /// Handles the failure of the connection to another member. A request that awaits its reply
    /// fails, or is sent to another member of the shard. For a router, `member` is the number of
    /// the shard after the routers, and `host` the index of its member.
    pub(crate) fn handle_unreachable(
        &mut self,
        now: Instant,
        conn: ConnId,
        (member, host): (usize, usize),
    ) {
        let pending = self.connections.get(&conn).and_then(|c| c.pending.as_ref());
        let awaits = pending.is_some_and(|pending| match &pending.waiting {
            Waiting::Routed { plan, .. } => plan.is_at(member, host),
            _ => false,
        });
        if awaits && !self.repeat(conn, member) {
            let text = match self.is_router() {
                true => "the shard cannot be reached",
                false => "the primary cannot be reached",
            };
            self.fail_routed(now, conn, fault(HOST_UNREACHABLE, text));
        }
    }

    /// Answers a request that awaits the reply of another member with an error.
    pub(super) fn fail_routed(&mut self, now: Instant, conn: ConnId, fault: Fault) {
        let Some(pending) = self.unpark(conn) else {
            return;
        };
        // The outcome of a commit is unknown, unless its last stage was not sent.
        let is_before = match &pending.waiting {
            Waiting::Routed { plan, .. } => plan.has_stages(),
            _ => false,
        };
        self.abort_failed(conn, &pending.request, is_before);
        let fault = self.labelled(&pending.request, fault);
        self.respond(conn, &pending.request, Err(fault));
        self.advance(now, conn);
    }

    /// True for the connection of a router or of another member.
    pub(super) fn is_internal(&self, conn: ConnId) -> bool {
        let connection = self.connections.get(&conn);
        connection.is_some_and(|connection| connection.arrival == Arrival::Internal)
    }
}

/// Returns the message by which another member gets a command.
pub(super) fn message(id: i32, reply_wanted: bool, body: &RawDocument) -> Vec<u8> {
    let flags = match reply_wanted {
        true => Flags::default(),
        false => Flags::MORE_TO_COME,
    };
    let mut bytes = Vec::new();
    MessageWriter::begin(&mut bytes, id, 0)
        .flags(flags)
        .body(body)
        .end();
    bytes
}

/// Returns the reply of the primary with the namespace of the pipeline. Returns `None` if the reply
/// cannot be decoded or encoded.
pub(super) fn forwarded_reply(request: &Request, reply: &RawDocument) -> Option<RawDocumentBuf> {
    let mut reply = owned(reply)?;
    let collection = request.command.get_str(&request.name);
    let name = collection.unwrap_or("$cmd.aggregate");
    if let Ok(cursor) = reply.get_document_mut("cursor") {
        cursor.insert("ns", format!("{}.{name}", request.database));
    }
    RawDocumentBuf::try_from(&reply).ok()
}
