//! Routers. A router answers commands such as hello itself, and forwards commands on data to the
//! shards.

use super::{
    Member, Output,
    apart::{LARGE, Task},
    commands,
    connection::{Arrival, Connection, Pending, Request, Waiting},
    dispatch::{Answer, Outcome},
    document::{integer, integer_field, owned},
    fail_point::FailEffect,
    fault::{Fault, fault},
    forward::{Forwarding, forwarded_reply},
    operations::sharded_reply,
    plan::{Plan, has_changed_state, without_state_change},
    read_preference::Choice,
    reply::Times,
    transaction::RoutedTransactions,
    watch::opens_stream,
};
use crate::deployment::ConnId;
use bson::{Bson, Document, RawDocument, RawDocumentBuf, Timestamp};
use onionskin_core::{
    time::Instant,
    unstable::wire::{Header, Message, MessageWriter},
};
use std::collections::BTreeMap;

/// The code of the error `NoSuchTransaction`.
const NO_SUCH_TRANSACTION: i32 = 251;

/// The state of a router.
#[derive(Debug, Default)]
pub(super) struct Routing {
    /// The cursors that this router has returned to its clients. Cursors of other routers are
    /// unknown here.
    cursors: BTreeMap<i64, RoutedCursor>,
    /// The times of the last reply of the shard, which the replies of the router itself have as
    /// well; `None` before the first one.
    pub(super) times: Option<Times>,
    /// The transactions that this router has started.
    pub(super) transactions: RoutedTransactions,
    /// The latest term of each shard in which this router has known a primary.
    pub(super) terms: BTreeMap<usize, u64>,
}

/// A cursor of the shard that a router has returned to its client.
#[derive(Clone, Copy, Debug)]
struct RoutedCursor {
    /// The connection that opened the cursor, if the connection came through a load balancer. The
    /// cursor ends with this connection.
    owner: Option<ConnId>,
    /// True for the cursor of a change stream.
    is_stream: bool,
    /// The number of the shard that has the cursor.
    shard: usize,
    /// The index in the deployment of the member that has the cursor.
    host: usize,
}

impl Routing {
    /// Notes the cluster time of a client, which the replies of the router have from then on.
    pub(super) fn note_gossip(&mut self, time: Timestamp) {
        if let Some(times) = &mut self.times {
            times.cluster = times.cluster.max(time);
        }
    }

    /// Removes the cursors that end with a connection, and returns them.
    pub(super) fn forget(&mut self, conn: ConnId) -> Vec<i64> {
        let owned = self
            .cursors
            .iter()
            .filter(|(_, cursor)| cursor.owner == Some(conn));
        let gone: Vec<i64> = owned.map(|(id, _)| *id).collect();
        for id in &gone {
            self.cursors.remove(id);
        }
        gone
    }

    /// True for the cursor of a change stream.
    pub(super) fn is_stream(&self, id: i64) -> bool {
        self.cursors.get(&id).is_some_and(|cursor| cursor.is_stream)
    }

    /// Forgets all cursors and transactions.
    pub(super) fn forget_all(&mut self) {
        self.cursors.clear();
        self.transactions.clear();
    }

    pub(super) fn open_cursors(&self) -> usize {
        self.cursors.len()
    }
}

impl Member {
    /// True if this member is a router, which holds no data.
    pub(super) fn is_router(&self) -> bool {
        self.options.shape.has_routers()
    }

    /// Lets the shards answer a command outside of transactions.
    pub(super) fn check_routed(&mut self, request: &Request) -> Answer {
        self.refuse_unroutable(request)?;
        Ok(Outcome::Route(Box::new(self.plan_of(request)?)))
    }

    /// Refuses a `getMore` of a cursor that this router does not know, or if a fail point acts, and
    /// commands that routers do not have.
    pub(super) fn refuse_unroutable(&mut self, request: &Request) -> Result<(), Fault> {
        if request.name == "killAllSessions" {
            self.routing.transactions.clear();
        }
        if !commands::exists(&request.name, self.program.version.release, true) {
            return Err(fault(59, format!("no such command: '{}'", request.name)));
        }
        if request.name == "getMore"
            && let Some(id) = integer_field(&request.command, "getMore")
        {
            if !self.routing.cursors.contains_key(&id) {
                return Err(fault(43, format!("cursor id {id} not found")));
            }
            if let Some(fault) = self.fail_routed_get_more() {
                return Err(self.labelled(request, fault));
            }
        }
        Ok(())
    }

    /// Has other members execute a request. One that expects a reply waits for theirs.
    pub(super) fn route(
        &mut self,
        conn: ConnId,
        request: Request,
        effect: Option<FailEffect>,
        mut plan: Box<Plan>,
    ) {
        let mut commands = Vec::new();
        for (shard, command) in plan.next_stage().unwrap_or_default() {
            let command = match (command, request.name.as_str()) {
                (None, "killCursors") => {
                    let mut command = request.command.clone();
                    command.insert("cursors", self.cursors_to_kill(&request).0);
                    Some(command)
                }
                (None, "shardCollection") => match self.creation_on_shard(&request) {
                    Ok(create) => Some(create),
                    Err(fault) => return self.respond(conn, &request, Err(fault)),
                },
                (command, _) => command,
            };
            commands.push((self.options.addresses.len() + shard, command));
        }
        // If there are several shards, they learn the cluster time from the command.
        let known = self.routing.times.map(|times| times.cluster);
        let command = commands.first().and_then(|(_, command)| command.as_ref());
        let choice = self.choice(&request, command.unwrap_or(&request.command));
        let forwarding = Forwarding {
            request,
            effect,
            plan,
            commands,
            choice,
            time: known.filter(|_| self.options.shards > 1),
            limit: None,
            given: Vec::new(),
        };
        self.send_on(conn, forwarding);
    }

    /// Returns the member of a shard that executes a command for a request: the one that has its
    /// cursor, or one by the read preference.
    fn choice(&self, request: &Request, command: &Document) -> Choice {
        let named = match request.name.as_str() {
            "getMore" => integer_field(command, "getMore"),
            "killCursors" => {
                let ids = command.get_array("cursors").ok();
                ids.and_then(|ids| ids.iter().find_map(integer))
            }
            _ => None,
        };
        let cursor = named.and_then(|id| self.routing.cursors.get(&id));
        cursor.map_or_else(|| Choice::of(request), |cursor| Choice::Member(cursor.host))
    }

    /// Handles the replies of another member to forwarded requests. For a router, `member` is the
    /// number of the shard after the routers, and `host` the index of its member.
    pub(crate) fn handle_routed(
        &mut self,
        now: Instant,
        conn: ConnId,
        (member, host): (usize, usize),
        mut bytes: &[u8],
    ) {
        let limit = self.options.limits.max_message_bytes;
        while !bytes.is_empty() {
            let Some((header, reply)) = Header::decode(bytes, limit).ok().and_then(|header| {
                let reply = Message::decode(bytes.get(..header.length)?).ok()?;
                Some((header, reply))
            }) else {
                return self.close(conn);
            };
            self.handle_reply(now, conn, (member, host), (header.response_to, &reply));
            bytes = &bytes[header.length..];
        }
    }

    fn handle_reply(
        &mut self,
        now: Instant,
        conn: ConnId,
        (member, host): (usize, usize),
        (id, reply): (i32, &Message<'_>),
    ) {
        let pending = self.connections.get(&conn).and_then(|c| c.pending.as_ref());
        let is_awaited = pending.is_some_and(|pending| match &pending.waiting {
            Waiting::Routed { plan, .. } => pending.request.id == id && plan.is_at(member, host),
            _ => false,
        });
        // The reply to a request that has failed meanwhile is late.
        if !is_awaited || (has_changed_state(reply.body) && self.repeat(conn, member)) {
            return;
        }
        let Some(Pending {
            request,
            waiting: Waiting::Routed { mut plan, effect },
            deadline,
        }) = self.unpark(conn)
        else {
            return;
        };
        self.note_times(reply.body);
        self.note_part(&request, member, reply.body);
        let body = match self.is_router() {
            true => without_state_change(reply.body.to_owned()),
            false => reply.body.to_owned(),
        };
        if !plan.note(member, body) {
            return self.wait(conn, request, Waiting::Routed { plan, effect }, deadline);
        }
        if plan.has_stages() && !plan.has_failed() {
            return self.route(conn, request, effect, plan);
        }
        let has_errors = matches!(reply.body.get("writeErrors"), Ok(Some(_)))
            || reply.body.get_i32("nErrors").is_ok_and(|errors| errors > 0);
        if plan.has_failed() || has_errors {
            let is_aborted = reply.body.get_i32("code").ok() == Some(NO_SUCH_TRANSACTION);
            self.abort_failed(conn, &request, plan.has_stages() || is_aborted);
        }
        match plan.reply(&request) {
            Some(body) => self.answer_routed(now, conn, request, effect, (member, host, body)),
            None => self.close(conn),
        }
    }

    /// Answers a request with the reply that was made from those of other members.
    fn answer_routed(
        &mut self,
        now: Instant,
        conn: ConnId,
        request: Request,
        effect: Option<FailEffect>,
        (member, host, reply): (usize, usize, RawDocumentBuf),
    ) {
        let (killed, unknown) = self.cursors_to_kill(&request);
        self.note_cursors(conn, &request, (member, host), &reply);
        for id in &killed {
            self.routing.cursors.remove(id);
        }
        let token = self.recovery_token(&request, &reply);
        let body = match request.name.as_str() {
            "shardCollection" => owned(&reply)
                .and_then(|reply| RawDocumentBuf::try_from(&sharded_reply(&request, &reply)).ok()),
            _ if self.is_router() => Some(reply),
            _ => forwarded_reply(&request, &reply),
        };
        let Some(body) = body else {
            return self.close(conn);
        };
        self.next_request_id = self.next_request_id.wrapping_add(1).max(1);
        let changes = Changes {
            unknown,
            effect,
            token,
        };
        let is_large = body.as_bytes().len() >= LARGE;
        let reply = Relayed {
            id: self.next_request_id,
            response_to: request.id,
            body,
            changes: (request.name != "shardCollection").then_some(changes),
        };
        if is_large && self.may_reply_apart(&request) {
            self.set_apart(conn, Task::Relay(Box::new(reply), request.compressor));
        } else if let Some(bytes) = reply.encode() {
            self.send_relayed(conn, &bytes, request.compressor);
        } else {
            return self.close(conn);
        }
        self.discard(request);
        self.advance(now, conn);
    }

    fn send_relayed(&mut self, conn: ConnId, bytes: &[u8], requested: Option<u8>) {
        if let Some(connection) = self.connection(conn) {
            let start = connection.out.len();
            connection.out.extend_from_slice(bytes);
            if !std::mem::replace(&mut connection.announced, true) {
                self.outputs.push_back(Output::Transmit(conn));
            }
            self.pack_reply(conn, start, requested);
        }
    }

    /// Returns the times of a reply of a shard itself.
    pub(crate) fn shard_times(&self) -> Times {
        Times::at(self.replica.last_time())
    }

    /// Gives a router the times of the shard, which a mongos learns when it starts: here with its
    /// first client. Later calls do nothing.
    pub(crate) fn note_first_times(&mut self, times: Times) {
        self.routing.times.get_or_insert(times);
    }

    fn note_times(&mut self, reply: &RawDocument) {
        let cluster = reply.get_document("$clusterTime");
        let cluster = cluster.and_then(|cluster| cluster.get_timestamp("clusterTime"));
        if let (Ok(cluster), Ok(operation)) = (cluster, reply.get_timestamp("operationTime")) {
            let times = Times { operation, cluster };
            let before = self.routing.times.unwrap_or(times);
            self.routing.times = Some(before.latest(times));
        }
    }

    /// Returns the cursors of a `killCursors`: those that this router knows, and the others.
    fn cursors_to_kill(&self, request: &Request) -> (Vec<i64>, Vec<i64>) {
        let ids = match request.name.as_str() {
            "killCursors" => request.command.get_array("cursors").ok(),
            _ => None,
        };
        let ids = ids.into_iter().flatten().filter_map(integer);
        ids.partition(|id| self.routing.cursors.contains_key(id))
    }

    /// Returns the plan of a `killCursors` of known cursors: each member gets those that it has,
    /// one member after the other. The plan is empty if there are none, and for other requests.
    pub(super) fn plan_of_kill(&self, request: &Request) -> Plan {
        let mut by_member: BTreeMap<(usize, usize), Vec<i64>> = BTreeMap::new();
        for id in self.cursors_to_kill(request).0 {
            if let Some(cursor) = self.routing.cursors.get(&id) {
                let member = (cursor.shard, cursor.host);
                by_member.entry(member).or_default().push(id);
            }
        }
        let stages = by_member.into_iter().map(|((shard, _), ids)| {
            let mut command = request.command.clone();
            command.insert("cursors", ids);
            vec![(shard, Some(command))]
        });
        stages.fold(Plan::default(), Plan::then)
    }

    /// Returns the shards of the known cursors that a `getMore` or a `killCursors` names.
    pub(super) fn shards_of_cursors(&self, request: &Request) -> Vec<usize> {
        let named = match request.name.as_str() {
            "getMore" => integer_field(&request.command, "getMore")
                .into_iter()
                .collect(),
            _ => self.cursors_to_kill(request).0,
        };
        let known = named.iter().filter_map(|id| self.routing.cursors.get(id));
        known.map(|cursor| cursor.shard).collect()
    }

    fn note_cursors(
        &mut self,
        conn: ConnId,
        request: &Request,
        (member, host): (usize, usize),
        reply: &RawDocument,
    ) {
        let shard = member.saturating_sub(self.options.addresses.len());
        let cursor = reply.get_document("cursor");
        let Ok(id) = cursor.and_then(|cursor| cursor.get_i64("id")) else {
            return;
        };
        let forwarded = |c: &&mut Connection| c.arrival == Arrival::Forwarded;
        let owner = self.connection(conn).filter(forwarded).map(|_| conn);
        let cursors = &mut self.routing.cursors;
        if id != 0 {
            let is_stream = opens_stream(request);
            let cursor = RoutedCursor {
                owner,
                is_stream,
                shard,
                host,
            };
            cursors.entry(id).or_insert(cursor);
        } else if let Some(ended) = integer_field(&request.command, "getMore") {
            cursors.remove(&ended);
        }
        while cursors.len() > self.options.limits.max_cursors {
            cursors.pop_first();
        }
    }
}

/// A reply of other members that is to be encoded for a client.
#[derive(Debug)]
pub(super) struct Relayed {
    id: i32,
    response_to: i32,
    body: RawDocumentBuf,
    changes: Option<Changes>,
}

/// The changes that a router makes to a reply.
#[derive(Debug)]
struct Changes {
    /// The unknown cursors of a `killCursors`.
    unknown: Vec<i64>,
    /// The fail point with a write concern error or labels.
    effect: Option<FailEffect>,
    /// The `recoveryToken` of a transaction.
    token: Option<Document>,
}

impl Relayed {
    /// Returns the message, or `None` if the reply cannot be decoded or encoded.
    pub(super) fn encode(self) -> Option<Vec<u8>> {
        let body = match self.changes {
            Some(changes) => changed(self.body, changes)?,
            None => self.body,
        };
        let mut bytes = Vec::new();
        MessageWriter::begin(&mut bytes, self.id, self.response_to)
            .body(&body)
            .end();
        Some(bytes)
    }
}

/// Returns the `$clusterTime` of a command.
pub(super) fn gossiped(command: &Document) -> Option<Timestamp> {
    let time = command.get_document("$clusterTime").ok()?;
    time.get_timestamp("clusterTime").ok()
}

/// Returns the reply of a shard with the changes of the router. Returns `None` if the reply cannot
/// be decoded or encoded.
fn changed(reply: RawDocumentBuf, changes: Changes) -> Option<RawDocumentBuf> {
    let Changes {
        unknown,
        effect,
        token,
    } = changes;
    let effect = effect.filter(|e| e.concern.is_some() || e.labels.is_some());
    // A router does not repeat the election and the position of a write of the shard.
    let has_position = matches!(reply.get("opTime"), Ok(Some(_)));
    let is_same = effect.is_none() && token.is_none() && !has_position;
    if is_same && unknown.is_empty() {
        return Some(reply);
    }
    let mut reply: Document = owned(&reply)?;
    reply.remove("opTime");
    reply.remove("electionId");
    if let Some(token) = token {
        reply.remove("readOnly");
        reply.insert("recoveryToken", token);
    }
    if let Ok(missing) = reply.get_array_mut("cursorsNotFound") {
        missing.extend(unknown.into_iter().map(Bson::from));
    }
    let effect = effect.unwrap_or_default();
    if let Some(concern) = effect.concern {
        reply.insert("writeConcernError", concern);
    }
    if let Some(labels) = effect.labels {
        let labels: Vec<Bson> = labels.into_iter().map(Bson::from).collect();
        reply.insert("errorLabels", labels);
    }
    RawDocumentBuf::try_from(&reply).ok()
}
