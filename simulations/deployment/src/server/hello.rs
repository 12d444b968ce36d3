//! The command hello. An awaitable hello is answered when the state of this member changes or when
//! its time is over (MON-74).

use super::{
    Member,
    commands::{Kind, check_field},
    connection::{Arrival, Request, Waiting},
    dispatch::{Answer, Outcome},
    document::{count_field, truth},
    fault::{Fault, bad_value, fault},
    reply::Reply,
};
use crate::deployment::{ConnId, Shape};
use bson::{Bson, DateTime, Document, doc, oid::ObjectId};
use onionskin_core::time::Instant;
use std::time::Duration;

/// Returns the application's name from a hello that has client metadata.
pub(super) fn app_name(request: &Request) -> Option<String> {
    let client = request.command.get_document("client").ok()?;
    let application = client.get_document("application").ok()?;
    application.get_str("name").ok().map(str::to_owned)
}

/// The size in bytes of the longest name of an application in the metadata of a client.
const MAX_APP_NAME_BYTES: usize = 128;

/// Returns an error if the metadata of a client is no document, or the name of its application too
/// long or no string.
fn check_client(command: &Document) -> Result<(), Fault> {
    let client = match command.get("client") {
        None => return Ok(()),
        Some(Bson::Document(client)) => client,
        Some(_) => {
            let text = "The client metadata document must be a document";
            return Err(fault(14, text));
        }
    };
    let application = match client.get("application") {
        None => return Ok(()),
        Some(Bson::Document(application)) => application,
        Some(_) => {
            let text = "The 'application' field is required to be a BSON document in the client \
                        metadata document";
            return Err(fault(14, text));
        }
    };
    match application.get("name") {
        Some(Bson::String(name)) if name.len() > MAX_APP_NAME_BYTES => {
            let text = format!(
                "The 'application.name' field must be less then or equal to {MAX_APP_NAME_BYTES} \
                 bytes in length"
            );
            Err(fault(184, text))
        }
        None | Some(Bson::String(_)) => Ok(()),
        Some(_) => {
            let text = "The 'application.name' field must be a string in the client metadata \
                        document";
            Err(fault(14, text))
        }
    }
}

/// Returns an error if the user of `saslSupportedMechs` has no database.
fn check_user(command: &Document) -> Result<(), Fault> {
    match command.get("saslSupportedMechs") {
        Some(Bson::String(user)) if !user.contains('.') => {
            let text = "UserName must contain a '.' separated database.user pair";
            Err(bad_value(text))
        }
        None | Some(Bson::String(_) | Bson::Document(_) | Bson::Null | Bson::Undefined) => Ok(()),
        Some(_) => Err(bad_value("UserName must be either a string or an object")),
    }
}

impl Member {
    pub(super) fn hello(&mut self, now: Instant, conn: ConnId, request: &Request) -> Answer {
        let command = &request.command;
        check_client(command)?;
        check_user(command)?;
        if self.program.streams() {
            for (name, kind) in [
                ("topologyVersion", Kind::Object),
                ("maxAwaitTimeMS", Kind::Whole),
            ] {
                check_field("hello", name, kind, command, self.program.version.release)?;
            }
        }
        if let Some(name) = app_name(request)
            && let Some(connection) = self.connection(conn)
        {
            connection.app_name = Some(name);
        }
        self.check_quiescing()?;
        let service = self.check_first_hello(conn, truth(command.get("loadBalanced")))?;
        let seen = command.get_document("topologyVersion").ok();
        let wait = command.get("maxAwaitTimeMS");
        if !self.program.streams() && (seen.is_some() || wait.is_some()) {
            let text = "BSON field 'isMaster.topologyVersion' is an unknown field";
            return Err(fault(40415, text));
        }
        match (seen, wait) {
            (None, None) => {}
            (Some(seen), Some(_)) => {
                let process = seen.get_object_id("processId").ok();
                let counter = seen.get_i64("counter").ok();
                let (Some(process), Some(counter)) = (process, counter) else {
                    return Err(bad_value("malformed topologyVersion"));
                };
                if process == self.process_id && counter > self.counter {
                    return Err(bad_value("topologyVersion of the future"));
                }
                let exhaust = request.exhaust && !request.legacy;
                let waiting = Waiting::Hello { exhaust };
                let period = Duration::from_millis(count_field(command, "maxAwaitTimeMS").max(1));
                let same = process == self.process_id && counter == self.counter;
                // A stream begins with an immediate reply if the client's `topologyVersion` is
                // outdated.
                let deadline = if same { now + period } else { now };
                if same || exhaust {
                    return Ok(Outcome::Wait(waiting, Some(deadline)));
                }
            }
            (Some(_), None) | (None, Some(_)) => {
                let text = "A request with 'topologyVersion' must include 'maxAwaitTimeMS'";
                return Err(bad_value(text));
            }
        }
        let mut reply = self.hello_reply(now, conn, request);
        if let Some(service) = service {
            reply.insert("serviceId", service);
        }
        if let Some(names) = self.negotiate(conn, command) {
            reply.insert("compression", names);
        }
        self.add_authentication(now, conn, command, &mut reply);
        Ok(Reply::from(reply).into())
    }

    /// Checks the first hello on a connection through a load balancer, and returns the `serviceId`
    /// for the reply (LB-57).
    ///
    /// A first hello without `loadBalanced: true` is an error. For all other hellos, the result is
    /// `None`.
    fn check_first_hello(&mut self, conn: ConnId, knows: bool) -> Result<Option<ObjectId>, Fault> {
        let service = self.service_id;
        let Some(connection) = self.connection(conn) else {
            return Ok(None);
        };
        if connection.arrival != Arrival::Forwarded || connection.first_hello_answered {
            return Ok(None);
        }
        if !knows {
            let text = "The server is behind a load balancer, but the driver does not have load \
                        balancing enabled";
            return Err(fault(354, text));
        }
        connection.first_hello_answered = true;
        Ok(Some(service))
    }

    /// Answers a hello that waited. A stream continues as if the client had sent the next hello, so
    /// that fail points apply to each of its replies.
    pub(super) fn answer_hello(
        &mut self,
        now: Instant,
        conn: ConnId,
        mut request: Request,
        exhaust: bool,
    ) {
        if let Err(fault) = self.check_quiescing() {
            return self.respond(conn, &request, Err(fault));
        }
        let reply = self.hello_reply(now, conn, &request);
        if !exhaust {
            return self.respond(conn, &request, Ok(reply.into()));
        }
        // Each reply of a stream answers the reply before it (MSG-21).
        let previous = Some(request.id);
        request.id = self.respond_with(conn, &request, Ok(reply.into()), previous);
        let version = doc! { "processId": self.process_id, "counter": self.counter };
        request.command.insert("topologyVersion", version);
        self.start(now, conn, request);
    }

    fn hello_reply(&self, now: Instant, conn: ConnId, request: &Request) -> Document {
        let limits = &self.options.limits;
        let number = |n: usize| i32::try_from(n).unwrap_or(i32::MAX);
        let mut reply = Document::new();
        if truth(request.command.get("helloOk")) {
            reply.insert("helloOk", true);
        }
        let leads = self.replica.is_writable();
        let primary = if request.name == "hello" {
            "isWritablePrimary"
        } else {
            "ismaster"
        };
        if self.program.streams() {
            let version = doc! { "processId": self.process_id, "counter": self.counter };
            reply.insert("topologyVersion", version);
        }
        if self.is_set() {
            self.add_set(&mut reply, primary, leads);
        } else {
            reply.insert(primary, true);
        }
        if self.is_router() {
            reply.insert("msg", "isdbgrid");
        }
        let wall = i64::try_from(self.wall_millis(now)).unwrap_or(i64::MAX);
        reply.extend(doc! {
            "maxBsonObjectSize": number(limits.max_document_bytes),
            "maxMessageSizeBytes": number(limits.max_message_bytes),
            "maxWriteBatchSize": number(limits.max_write_batch),
            "localTime": DateTime::from_millis(wall),
        });
        if let Some(minutes) = limits.session_timeout_minutes {
            reply.insert("logicalSessionTimeoutMinutes", minutes);
        }
        reply.extend(doc! {
            "connectionId": self.connections.get(&conn).map_or(0, |c| c.number),
            "minWireVersion": self.program.version.min_wire,
            "maxWireVersion": self.program.version.max_wire,
            "readOnly": false,
        });
        reply
    }

    fn add_set(&self, reply: &mut Document, primary: &str, leads: bool) {
        let Shape::ReplicaSet(set) = &self.options.shape else {
            return;
        };
        let config = self.replica.config();
        let address = |i: usize| self.options.addresses[i].to_string();
        let visible = |wanted: fn(&crate::deployment::MemberOptions) -> bool| -> Vec<String> {
            let members = config.members.iter().enumerate();
            let chosen = members.filter(|(_, m)| !m.absent && !m.hidden && wanted(m));
            chosen.map(|(i, _)| address(i)).collect()
        };
        let me = &config.members[self.index];
        if me.absent {
            reply.extend(doc! {
                primary: false, "secondary": false, "isreplicaset": true,
                "info": "Does not have a valid replica set config",
            });
            return;
        }
        reply.insert("hosts", visible(|m| !m.arbiter && m.priority > 0));
        let passives = visible(|m| !m.arbiter && m.priority == 0);
        if !passives.is_empty() {
            reply.insert("passives", passives);
        }
        let arbiters = visible(|m| m.arbiter);
        if !arbiters.is_empty() {
            reply.insert("arbiters", arbiters);
        }
        reply.insert("setName", set.name.as_str());
        reply.insert("setVersion", config.version);
        reply.insert(primary, leads);
        reply.insert("secondary", !leads && self.holds_data());
        if let Some(leader) = self.replica.leader() {
            reply.insert("primary", address(leader));
        }
        if me.arbiter {
            reply.insert("arbiterOnly", true);
        } else if me.priority == 0 {
            reply.insert("passive", true);
        }
        if me.hidden {
            reply.insert("hidden", true);
        }
        if !me.delay.is_zero() {
            reply.insert(self.name_of_delay(), me.delay_secs());
        }
        if !me.tags.is_empty() {
            let tags = me.tags.iter();
            let tags: Document = tags
                .map(|(k, v)| (k.clone(), Bson::from(v.as_str())))
                .collect();
            reply.insert("tags", tags);
        }
        reply.insert("me", address(self.index));
        if leads {
            reply.insert("electionId", election_id(self.replica.term()));
        }
        reply.insert("lastWrite", self.last_write());
    }

    fn last_write(&self) -> Document {
        let of = |index: u64| {
            let entry = self.replica.entry(index);
            let last = (self.replica.last().term, self.replica.last_time());
            let ((term, time), wall) = entry.map_or((last, None), |(position, time, wall)| {
                ((position.term, time), Some(wall))
            });
            // The wall clock can be behind the cluster time.
            let wall = wall.and_then(|wall| i64::try_from(wall).ok());
            let wall = wall.unwrap_or_else(|| i64::from(time.time) * 1000);
            let term = i64::try_from(term).unwrap_or(i64::MAX);
            (doc! { "ts": time, "t": term }, DateTime::from_millis(wall))
        };
        let (last, last_date) = of(self.replica.last().index);
        let (majority, majority_date) = of(self.replica.commit());
        doc! {
            "opTime": last, "lastWriteDate": last_date,
            "majorityOpTime": majority, "majorityWriteDate": majority_date,
        }
    }

    /// Adds the user's SASL mechanisms and the result of speculative authentication, if the client
    /// requested them.
    fn add_authentication(
        &mut self,
        now: Instant,
        conn: ConnId,
        command: &Document,
        reply: &mut Document,
    ) {
        if let Ok(user) = command.get_str("saslSupportedMechs")
            && let Some(mechanisms) = self.mechanisms_of(user)
        {
            reply.insert("saslSupportedMechs", mechanisms);
        }
        if let Ok(start) = command.get_document("speculativeAuthenticate") {
            // If speculative authentication fails, the reply does not have the field.
            if let Some(step) = self.authenticate_speculatively(now, conn, start) {
                reply.insert("speculativeAuthenticate", step);
            }
        }
    }
}

/// Returns an `electionId` that grows with the term, as the server makes it.
pub(super) fn election_id(term: u64) -> ObjectId {
    let mut bytes = [0; 12];
    bytes[..4].copy_from_slice(&0x7fff_ffff_u32.to_be_bytes());
    bytes[4..].copy_from_slice(&term.to_be_bytes());
    ObjectId::from_bytes(bytes)
}
