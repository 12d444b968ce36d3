//! The commands that show and end running operations, those that describe the use of collections,
//! and those of sharding.

use super::{
    Member, commands,
    connection::{Connection, Request, Waiting},
    dispatch::Answer,
    document::{integer, integer_field, truth},
    fault::{Fault, fault, interrupted},
    reply::Reply,
};
use crate::{
    deployment::{ConnId, shard_addresses, shard_name},
    store::{Find, Namespace, Query, matching},
};
use bson::{Bson, Document, Timestamp, doc};
use md5::{Digest as _, Md5};
use onionskin_core::time::Instant;

/// The size of the largest command that `currentOp` shows, in bytes. `mongod` shortens larger
/// commands as well.
const MAX_SHOWN_BYTES: usize = 1000;

/// The command by which a router has the shard create a sharded collection.
pub(super) const CREATE_SHARDED: &str = "_shardsvrCreateCollection";

impl Member {
    /// Executes `checkMetadataConsistency` on a router. The metadata of the simulated cluster is
    /// always consistent.
    pub(super) fn check_metadata(&mut self, now: Instant, request: &Request) -> Answer {
        let collection = request.command.get_str(&request.name);
        let name = collection.unwrap_or("$cmd.aggregate");
        let namespace = format!("{}.{name}", request.database);
        self.listing(now, request, namespace, Vec::new())
    }

    /// Returns the operations that wait, and that of the command itself.
    pub(super) fn current_operations(
        &self,
        now: Instant,
        own: ConnId,
        request: &Request,
    ) -> Result<Document, Fault> {
        let is_option = |name: &str| {
            let options = ["$all", "$ownOps", "$truncateOps", "$db"];
            name == request.name || options.contains(&name) || commands::is_generic(name)
        };
        let fields = request.command.iter().filter(|(name, _)| !is_option(name));
        let filter: Document = fields.map(|(n, v)| (n.clone(), v.clone())).collect();
        let operations = self.connections.iter().filter_map(|(conn, connection)| {
            let running = match &connection.pending {
                Some(pending) => Some(&pending.request),
                None => (*conn == own).then_some(request),
            };
            let mut operation = self.operation(now, connection.number, running?);
            if let Some(name) = &connection.app_name {
                operation.insert("appName", name.as_str());
            }
            Some(operation)
        });
        Ok(doc! { "inprog": matching(operations, &filter, self.release())? })
    }

    fn operation(&self, now: Instant, number: i32, request: &Request) -> Document {
        let command = &request.command;
        let collection = match request.name.as_str() {
            "getMore" => command.get_str("collection"),
            name => command.get_str(name),
        };
        let (op, fallback) = match request.name.as_str() {
            "find" => ("query", "$cmd"),
            "getMore" => ("getmore", "$cmd"),
            _ => ("command", "$cmd"),
        };
        let shown = match request.bytes <= MAX_SHOWN_BYTES {
            true => command.clone(),
            false => doc! { "$truncated": request.name.as_str() },
        };
        let ns = format!("{}.{}", request.database, collection.unwrap_or(fallback));
        doc! {
            "type": "op", "host": self.options.addresses[self.index].to_string(),
            "desc": format!("conn{number}"), "connectionId": number, "active": true,
            "currentOpTime": self.date(now).try_to_rfc3339_string().unwrap_or_default(),
            "opid": number, "secs_running": 0_i64, "microsecs_running": 0_i64,
            "op": op, "ns": ns, "command": shown, "numYields": 0, "waitingForLock": false,
        }
    }

    /// Ends an operation that waits, as `killOp` does. The number of an operation is that of its
    /// connection.
    pub(super) fn kill_operation(
        &mut self,
        now: Instant,
        request: &Request,
    ) -> Result<Document, Fault> {
        let Some(number) = request.command.get("op").and_then(integer) else {
            return Err(fault(14, "Expected field \"op\" to have numeric type"));
        };
        self.interrupt(now, |connection, _| i64::from(connection.number) == number);
        Ok(doc! { "info": "attempting to kill op" })
    }

    /// Ends the operations that wait, can be ended, and fulfil a condition.
    pub(super) fn interrupt(
        &mut self,
        now: Instant,
        is_meant: impl Fn(&Connection, &Request) -> bool,
    ) {
        let ends = |connection: &Connection| {
            connection.pending.as_ref().is_some_and(|pending| {
                let can_end = matches!(
                    pending.waiting,
                    Waiting::Blocked { .. }
                        | Waiting::Tail
                        | Waiting::Stream
                        | Waiting::Part { .. }
                        | Waiting::Job { .. }
                        | Waiting::Time { .. }
                        | Waiting::Lock(_)
                        | Waiting::Statement { .. }
                        | Waiting::Majority { .. }
                );
                can_end && is_meant(connection, &pending.request)
            })
        };
        let found = self.connections.iter().filter(|(_, found)| ends(found));
        let found: Vec<ConnId> = found.map(|(conn, _)| *conn).collect();
        for conn in found {
            let connection = self.connections.get_mut(&conn);
            match connection.and_then(|connection| connection.apart.as_mut()) {
                // The reply of a stream that is being encoded comes before the error.
                Some(apart) => apart.end(),
                None => self.end_waiting(now, conn, interrupted()),
            }
        }
    }

    /// Returns zeros as the use of each collection.
    pub(super) fn top(&self) -> Answer {
        let none = doc! { "time": 0_i64, "count": 0_i64 };
        let kinds = [
            "total",
            "readLock",
            "writeLock",
            "queries",
            "getmore",
            "insert",
            "update",
            "remove",
            "commands",
        ];
        let counted = kinds
            .into_iter()
            .map(|kind| (kind.to_owned(), none.clone().into()));
        let row: Document = counted.collect();
        let mut totals = doc! { "note": "all times in microseconds" };
        for (namespace, _) in self.replica.store().collections() {
            totals.insert(namespace.to_string(), row.clone());
        }
        Ok(Reply::from(doc! { "totals": totals }).into())
    }

    /// Returns the size and the number of documents of a collection.
    pub(super) fn data_size(&self, request: &Request) -> Answer {
        let full = request.command.get_str(&request.name).unwrap_or_default();
        let found = self.replica.store().statistics(&Self::full_name(full)?);
        let number = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        let is_estimate = truth(request.command.get("estimate"));
        let reply = doc! {
            "size": number(found.size_bytes), "numObjects": number(found.count), "millis": 0,
            "estimate": is_estimate,
        };
        Ok(Reply::from(reply).into())
    }

    /// Executes `filemd5`: returns the number of the chunks of a GridFS file, and the MD5 digest of
    /// their data.
    pub(super) fn file_digest(&mut self, now: Instant, request: &Request) -> Answer {
        let command = &request.command;
        let root = command.get_str("root").unwrap_or("fs");
        let chunks = Namespace::new(request.database.clone(), format!("{root}.chunks"));
        let find = Find {
            filter: doc! { "files_id": command.get(&request.name) },
            sort: Some(doc! { "n": 1 }),
            ..Find::default()
        };
        let found = self
            .query(now, None, Query::Find(chunks, find))?
            .documents();
        let mut digest = Md5::new();
        for (n, chunk) in (0..).zip(&found) {
            if integer_field(chunk, "n") != Some(n) {
                return Err(fault(10040, "chunks out of order"));
            }
            let Some(Bson::Binary(data)) = chunk.get("data") else {
                return Err(fault(50849, "The element must be of BSON binary type"));
            };
            digest.update(&data.bytes);
        }
        let hex: String = digest
            .finalize()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let count = i32::try_from(found.len()).unwrap_or(i32::MAX);
        Ok(Reply::from(doc! { "numChunks": count, "md5": hex }).into())
    }

    /// Returns the level of the profiler. The profiler is always off.
    pub(super) fn profile(&self, request: &Request) -> Answer {
        match integer_field(&request.command, &request.name) {
            Some(-1 | 0) => {
                let reply = doc! { "was": 0, "slowms": 100, "sampleRate": 1.0 };
                Ok(Reply::from(reply).into())
            }
            _ if self.is_router() => {
                let text = "Profiling is not permitted on mongoS: the 'profile' field should be 0 \
                            to change 'slowms', 'sampleRate', or 'filter' settings for logging, or \
                            -1 to view current values";
                Err(fault(2, text))
            }
            _ => {
                let text = "this simulated server does not implement the profiler";
                Err(fault(238, text))
            }
        }
    }

    /// Answers that all data was written. There is no disk, and no lock either.
    pub(super) fn fsync(&self, request: &Request) -> Answer {
        if truth(request.command.get("lock")) {
            let error = fault(
                115,
                "The current storage engine doesn't support backup mode",
            );
            return Err(error.not_simulated("the lock of fsync"));
        }
        Ok(Reply::from(doc! { "numFiles": 1 }).into())
    }

    /// Returns the descriptions of the shards, as in `config.shards`.
    fn shard_documents(&self) -> Vec<Document> {
        let shards = 0..self.options.shards;
        shards.map(|shard| self.shard_document(shard)).collect()
    }

    fn shard_document(&self, shard: usize) -> Document {
        let (name, addresses) = (shard_name(shard), shard_addresses(&self.options, shard));
        let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
        let started = self.options.started_at.as_unix_millis() / 1000;
        let time = Timestamp {
            time: u32::try_from(started).unwrap_or(u32::MAX),
            increment: 1,
        };
        doc! {
            "_id": &name, "host": format!("{name}/{}", addresses.join(",")), "state": 1,
            "topologyTime": time,
        }
    }

    /// Makes this member one of the shard with this number, with this index in the deployment.
    /// Shard 0 has `config.shards` from its start, and not in its oplog.
    pub(crate) fn become_shard(&mut self, number: usize, place: usize) {
        (self.shard, self.place) = (Some(number), place);
        if number > 0 {
            return;
        }
        let (name, shards) = (Namespace::new("config", "shards"), self.shard_documents());
        let inserted = self.with_store(Instant::ZERO, None, |store, environment| {
            store.insert(&name, shards, true, environment)
        });
        debug_assert!(inserted.is_ok(), "an empty store takes a document");
        let _ = self.replica.store_mut().take_changes();
    }

    /// Answers the commands of sharding that change nothing. Only routers have them.
    pub(super) fn sharding(&self, request: &Request) -> Result<Document, Fault> {
        if !self.is_router() {
            return Err(fault(59, format!("no such command: '{}'", request.name)));
        }
        match request.name.as_str() {
            "listShards" => Ok(doc! { "shards": self.shard_documents() }),
            _ => self.enable_sharding(request),
        }
    }

    /// Answers `enableSharding`. The name of a database decides which shard has it, so that no
    /// other one can be chosen.
    fn enable_sharding(&self, request: &Request) -> Result<Document, Fault> {
        let Some(Bson::String(wanted)) = request.command.get("primaryShard") else {
            return Ok(Document::new());
        };
        let database = request.command.get_str(&request.name).unwrap_or_default();
        let own = shard_name(self.options.shard_of(database));
        if *wanted == own {
            return Ok(Document::new());
        }
        if (0..self.options.shards).all(|shard| shard_name(shard) != *wanted) {
            return Err(fault(70, format!("Shard {wanted} not found")));
        }
        let text =
            format!("database already created on a primary which is different from {wanted}");
        Err(fault(48, text))
    }

    /// Checks a `shardCollection`, and returns the command that creates the collection on the
    /// shard.
    pub(super) fn creation_on_shard(&self, request: &Request) -> Result<Document, Fault> {
        let full = request.command.get_str(&request.name).unwrap_or_default();
        let name = Self::full_name(full)?;
        let key = request
            .command
            .get_document("key")
            .cloned()
            .unwrap_or_default();
        let is_valid = |part: &Bson| integer(part) == Some(1) || part.as_str() == Some("hashed");
        if key.is_empty() || !key.values().all(is_valid) {
            let text = format!("Shard key {key} is empty, or has a part other than 1 and 'hashed'");
            return Err(fault(2, text));
        }
        if truth(request.command.get("unique")) {
            let text = "this simulated server does not implement unique shard keys";
            return Err(fault(238, text));
        }
        let collation = request.command.get_document("collation").ok();
        if collation.is_some_and(|c| c.len() != 1 || c.get_str("locale").ok() != Some("simple")) {
            let text = "The collation for shardCollection must be {locale: 'simple'}";
            return Err(fault(2, text));
        }
        let mut create = doc! {
            CREATE_SHARDED: name.collection, "shardKey": key, "$db": name.database,
        };
        if let Ok(session) = request.command.get_document("lsid") {
            create.insert("lsid", session.clone());
        }
        Ok(create)
    }
}

/// Returns the reply to a `shardCollection`, from that of the shard to the creation of the
/// collection. The collection can exist before.
pub(super) fn sharded_reply(request: &Request, reply: &Document) -> Document {
    let is_done = reply.get_f64("ok").ok() == Some(1.0) || reply.get_i32("code").ok() == Some(48);
    if !is_done {
        return reply.clone();
    }
    let name = request.command.get_str(&request.name).unwrap_or_default();
    let mut result = doc! { "collectionsharded": name, "ok": 1.0 };
    for time in ["$clusterTime", "operationTime"] {
        if let Some(value) = reply.get(time) {
            result.insert(time, value.clone());
        }
    }
    result
}
