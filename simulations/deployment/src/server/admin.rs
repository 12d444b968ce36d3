//! Administrative commands that read and write no data.

use super::{
    Member,
    admission::{REQUIRE_API, is_refused_parameter},
    commands::{self, type_name},
    connection::Request,
    document::truth,
    fault::{Fault, fault},
    reply::Reply,
};
use crate::deployment::{ConnId, Shape};
use bson::{Bson, DateTime, Document, doc};
use onionskin_core::time::Instant;

/// The names of the logs that `getLog` returns.
const LOGS: [&str; 2] = ["global", "startupWarnings"];

impl Member {
    /// Answers an administrative command. Returns `None` for any other command.
    pub(super) fn administration(
        &mut self,
        now: Instant,
        conn: ConnId,
        request: &Request,
    ) -> Result<Option<Reply>, Fault> {
        let reply = match request.name.as_str() {
            "ping" | "refreshSessions" => Document::new(),
            "endSessions" | "killSessions" | "killAllSessions" if !self.is_router() => {
                self.end_listed(now, request);
                Document::new()
            }
            "startSession" => self.start_session(),
            "getnonce" if self.program.version.release < [6, 2, 0] => self.nonce(),
            "buildInfo" | "buildinfo" => self.build_info(),
            "hostInfo" => host_info(),
            "serverStatus" => self.server_status(now),
            "whatsmyuri" => doc! { "you": format!("127.0.0.1:{}", 10_000 + conn.0 % 50_000) },
            "connPoolStats" => doc! { "numClientConnections": 0, "totalInUse": 0 },
            "getCmdLineOpts" => doc! { "argv": ["mongod"], "parsed": {} },
            "getLog" => log(request)?,
            "getFreeMonitoringStatus" => doc! { "state": "undecided" },
            "getParameter" => self.parameters(request)?,
            "setParameter" => self.set_parameters(request)?,
            "replSetGetStatus" => self.replica_status(now)?,
            "replSetGetConfig" => self.replica_config()?,
            "currentOp" => self.current_operations(now, conn, request)?,
            "killOp" => self.kill_operation(now, request)?,
            "listShards" | "enableSharding" => self.sharding(request)?,
            "replSetInitiate" => return Err(self.cannot_initiate()),
            "configureFailPoint" => return self.configure_fail_point(&request.command).map(Some),
            name => {
                let release = self.program.version.release;
                return match commands::refusal(name, release, self.is_router()) {
                    Some(fault) => Err(fault),
                    None => Ok(None),
                };
            }
        };
        Ok(Some(reply.into()))
    }

    /// Returns the error of `replSetInitiate`. A simulated set has its configuration from the
    /// start.
    fn cannot_initiate(&self) -> Fault {
        match self.is_set() {
            true => fault(23, "already initialized"),
            false => {
                let text = "This node was not started with replication enabled.";
                fault(76, text)
            }
        }
    }

    fn start_session(&mut self) -> Document {
        let mut bytes = [0; 16];
        self.random.fill(&mut bytes);
        let id = bson::Binary {
            subtype: bson::spec::BinarySubtype::Uuid,
            bytes: bytes.to_vec(),
        };
        doc! { "id": { "id": id }, "timeoutMinutes": 30 }
    }

    /// Executes `getnonce`, which belongs to an old mechanism of authentication.
    fn nonce(&mut self) -> Document {
        doc! { "nonce": format!("{:016x}", self.random.next_u64()) }
    }

    fn build_info(&self) -> Document {
        let version = self.program.version;
        let [major, minor, patch] = version.release.map(i32::from);
        doc! {
            "version": version.to_string(),
            "gitVersion": "0000000000000000000000000000000000000000",
            "modules": Vec::<Bson>::new(),
            "sysInfo": "deprecated",
            "versionArray": [major, minor, patch, 0],
            "bits": 64,
            "debug": false,
            "maxBsonObjectSize": i32::try_from(self.options.limits.max_document_bytes)
                .unwrap_or(i32::MAX),
            "storageEngines": ["simulated"],
        }
    }

    fn server_status(&self, now: Instant) -> Document {
        let uptime = now.saturating_since(self.started);
        let count = |n: usize| i32::try_from(n).unwrap_or(i32::MAX);
        let connections = self.connections.len();
        doc! {
            "host": self.options.addresses[self.index].to_string(),
            "version": self.program.version.to_string(),
            "process": if self.is_router() { "mongos" } else { "mongod" },
            "pid": 1_i64,
            "uptime": uptime.as_secs_f64(),
            "localTime": self.date(now),
            "connections": {
                "current": count(connections),
                "available": count(self.max_connections.saturating_sub(connections)),
                "totalCreated": self.connected,
            },
            "metrics": { "cursor": { "open": { "total": count(self.open_cursors()) } } },
            "storageEngine": { "name": "simulated" },
        }
    }

    /// Returns the number of open cursors. A router counts the cursors that its clients opened,
    /// which the shard keeps.
    pub(crate) fn open_cursors(&self) -> usize {
        match self.is_router() {
            true => self.routing.open_cursors(),
            false => self.cursors.len(),
        }
    }

    fn parameters(&self, request: &Request) -> Result<Document, Fault> {
        // As in a server, it stays that of the oldest member during an upgrade.
        let compatible = self.options.oldest_version().series();
        let mechanisms = self.options.auth.mechanisms.iter();
        let mechanisms: Vec<&str> = mechanisms.map(|mechanism| mechanism.name()).collect();
        let mut known = doc! {
            "featureCompatibilityVersion": { "version": compatible },
            "authenticationMechanisms": mechanisms,
            "enableTestCommands": true,
        };
        if self.program.version.release >= [5, 0, 0] {
            known.insert(REQUIRE_API, self.requires_api);
        }
        if !self.is_router() {
            known.extend(self.transactions.parameters());
        }
        let wants_all = match request.command.get(&request.name) {
            Some(Bson::String(all)) => all == "*",
            Some(Bson::Document(options)) => truth(options.get("allParameters")),
            _ => false,
        };
        if wants_all {
            return Ok(known);
        }
        let wanted = known.into_iter();
        let found: Document = wanted
            .filter(|(key, _)| request.command.contains_key(key))
            .collect();
        let mut names = request.command.keys();
        match names.find(|name| is_refused_parameter(name)) {
            Some(name) => Err(fault(72, "no option found to get").not_simulated(name)),
            None if found.is_empty() => Err(fault(72, "no option found to get")),
            None => Ok(found),
        }
    }

    fn replica_status(&self, now: Instant) -> Result<Document, Fault> {
        let Shape::ReplicaSet(set) = &self.options.shape else {
            return Err(fault(76, "not running with --replSet"));
        };
        let leader = self.replica.leader();
        let config = self.replica.config();
        if !config.has(self.index) {
            let text = "Our replica set config is invalid or we are not a member of it";
            return Err(fault(93, text));
        }
        let members: Vec<Bson> = config
            .members
            .iter()
            .enumerate()
            .filter(|(_, member)| !member.absent)
            .map(|(index, member)| {
                let (state, text) = match (member.arbiter, leader == Some(index)) {
                    (true, _) => (7, "ARBITER"),
                    (_, true) => (1, "PRIMARY"),
                    _ if self.replica.is_syncing(index) => (5, "STARTUP2"),
                    (_, false) => (2, "SECONDARY"),
                };
                let id = i32::try_from(index).unwrap_or(i32::MAX);
                let mut entry = doc! {
                    "_id": id, "name": self.options.addresses[index].to_string(), "health": 1.0,
                    "state": state, "stateStr": text,
                };
                if index == self.index {
                    entry.insert("self", true);
                }
                entry.into()
            })
            .collect();
        let mine = match (config.members[self.index].arbiter, self.replica.is_leader()) {
            (true, _) => 7,
            (_, true) => 1,
            _ if self.replica.is_syncing(self.index) => 5,
            (_, false) => 2,
        };
        let term = i64::try_from(self.replica.term()).unwrap_or(i64::MAX);
        let majority = i32::try_from(config.majority()).unwrap_or(i32::MAX);
        Ok(doc! {
            "set": set.name.as_str(), "date": self.date(now), "myState": mine, "term": term,
            "majorityVoteCount": majority,
            "members": members,
        })
    }

    pub(super) fn replica_config(&self) -> Result<Document, Fault> {
        let Shape::ReplicaSet(set) = &self.options.shape else {
            return Err(fault(76, "not running with --replSet"));
        };
        let config = self.replica.config();
        let term = i64::try_from(config.term).unwrap_or(i64::MAX);
        let members = (0..config.members.len()).filter(|index| config.has(*index));
        let members: Vec<Bson> = members.map(|index| self.in_config(index).into()).collect();
        let millis = |d: std::time::Duration| i32::try_from(d.as_millis()).unwrap_or(i32::MAX);
        Ok(doc! { "config": {
            "_id": set.name.as_str(), "version": config.version, "term": term, "members": members,
            "protocolVersion": 1_i64, "writeConcernMajorityJournalDefault": true,
            "settings": {
                "heartbeatIntervalMillis": millis(set.heartbeat_interval),
                "electionTimeoutMillis": millis(set.election_timeout),
            },
        } })
    }

    /// Returns a member as it is, or would be, in the configuration.
    pub(super) fn in_config(&self, index: usize) -> Document {
        let member = &self.replica.config().members[index];
        let tags = member.tags.iter();
        let tags: Document = tags
            .map(|(k, v)| (k.clone(), Bson::from(v.as_str())))
            .collect();
        doc! {
            "_id": i32::try_from(index).unwrap_or(i32::MAX),
            "host": self.options.addresses[index].to_string(),
            "arbiterOnly": member.arbiter, "buildIndexes": true, "hidden": member.hidden,
            "priority": f64::from(member.priority), "tags": tags,
            self.name_of_delay(): member.delay_secs(), "votes": i32::from(member.votes),
        }
    }

    pub(super) fn date(&self, now: Instant) -> DateTime {
        DateTime::from_millis(i64::try_from(self.wall_millis(now)).unwrap_or(i64::MAX))
    }
}

/// Executes `getLog`. The logs of a simulated server are empty.
fn log(request: &Request) -> Result<Document, Fault> {
    match request.command.get(&request.name) {
        Some(Bson::String(name)) => match name.as_str() {
            "*" => Ok(doc! { "names": LOGS.to_vec() }),
            name if LOGS.contains(&name) => {
                Ok(doc! { "totalLinesWritten": 0, "log": Vec::<Bson>::new() })
            }
            name => Err(fault(96, format!("No log named '{name}'"))),
        },
        None | Some(Bson::Null | Bson::Undefined) => {
            let text = "BSON field 'getLog.getLog' is missing but a required field";
            Err(fault(40414, text))
        }
        Some(other) => {
            let text = format!(
                "BSON field 'getLog.getLog' is the wrong type '{}', expected type 'string'",
                type_name(other)
            );
            Err(fault(14, text))
        }
    }
}

fn host_info() -> Document {
    doc! {
        "system": {
            "hostname": "localhost", "cpuAddrSize": 64, "memSizeMB": 1024_i64, "numCores": 1,
            "cpuArch": "x86_64",
        },
        "os": { "type": "Linux", "name": "simulated", "version": "1" },
    }
}
