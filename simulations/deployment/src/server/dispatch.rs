//! Dispatches a request to the function that executes it.

use super::{
    CATCH_UP_PERIOD, Member, Output, commands,
    concern::{check_no_write_concern, has_concern, wants_no_results},
    connection::{Need, Pending, Request, Waiting},
    document::{integer_field, truth},
    fail_point::FailEffect,
    fault::{Fault, awaits_concern, bad_value, fault, not_writable_primary},
    operations::CREATE_SHARDED,
    plan::Plan,
    read_preference::check_read_preference,
    reply::Reply,
    uuid::refuse_uuid,
    wire::UPGRADE,
};
use crate::{
    deployment::ConnId,
    replica::CannotStepDown,
    store::{BUCKETS, Namespace, Shared, StoreError},
};
use bson::Document;
use onionskin_core::time::Instant;
use std::time::Duration;

/// The result of a command that did not fail.
pub(super) enum Outcome {
    Reply(Reply),
    /// A write that was done, or that had nothing left to do. The reply is sent when enough members
    /// have the write.
    Written(Reply),
    /// Other members must execute the command.
    Route(Box<Plan>),
    /// The primary with this index must execute this command, whose pipeline begins with these
    /// documents, for the reply.
    Forward(usize, Document, Vec<Shared>),
    /// The request waits, until the deadline if there is one.
    Wait(Waiting, Option<Instant>),
}

impl From<Reply> for Outcome {
    fn from(reply: Reply) -> Self {
        Self::Reply(reply)
    }
}

pub(super) type Answer = Result<Outcome, Fault>;

/// True for the commands that write documents, and so can be retryable writes.
pub(super) fn writes_documents(name: &str) -> bool {
    matches!(
        name,
        "insert" | "update" | "delete" | "findAndModify" | "findandmodify" | "bulkWrite"
    )
}

impl Member {
    /// Starts a request. An overloaded server can refuse it. A fail point can delay the request,
    /// make it fail or change its reply.
    pub(super) fn start(&mut self, now: Instant, conn: ConnId, request: Request) {
        let app = self.connection(conn).and_then(|c| c.app_name.clone());
        let app = app.or_else(|| super::hello::app_name(&request));
        let effect = match self.is_internal(conn) {
            true => None,
            false => {
                let refusal = self.shed(&request);
                refusal.or_else(|| self.fail_effect(&request, app.as_deref()))
            }
        };
        let Some(effect) = effect else {
            return self.run(now, conn, request, None);
        };
        match effect.block {
            Some(block) => {
                let deadline = Some(Self::blocked_until(now, &request, block));
                let waiting = Waiting::Blocked { effect };
                self.wait(conn, request, waiting, deadline);
            }
            None => self.run_failing(now, conn, request, effect),
        }
    }

    /// Applies the effect of a fail point to a request, except the time for which the fail point
    /// blocks.
    pub(super) fn run_failing(
        &mut self,
        now: Instant,
        conn: ConnId,
        request: Request,
        effect: FailEffect,
    ) {
        if effect.close {
            self.close(conn);
            return self.discard(request);
        }
        match effect.fault {
            Some(fault) => {
                self.respond(conn, &request, Err(fault));
                self.discard(request);
            }
            None => self.run(now, conn, request, Some(effect)),
        }
    }

    /// Executes a request, and answers it or lets it wait.
    pub(super) fn run(
        &mut self,
        now: Instant,
        conn: ConnId,
        mut request: Request,
        effect: Option<FailEffect>,
    ) {
        self.running = Some(conn);
        self.jobs.spent = 0;
        let outcome = self.execute(now, conn, &mut request);
        // A command that fails can have made changes as well.
        self.log(now, None);
        self.running = None;
        // A write goes on after its connection is closed, as after its client has disconnected.
        let goes_on = match &outcome {
            Ok(Outcome::Wait(waiting, _)) => self.has_begun(&request, waiting),
            _ => self.has_long_query() && self.is_write(&request),
        };
        if !goes_on && self.connection(conn).is_none_or(|c| c.closing) {
            self.abort_paused(conn, &request);
            return self.forget_long_query();
        }
        let Some((request, effect)) = self.wait_for_job(now, conn, request, effect) else {
            return;
        };
        let add = |reply: &mut Reply| {
            if let Some(effect) = &effect {
                reply.concern.clone_from(&effect.concern);
                reply.labels = effect.labels.clone().unwrap_or_default();
            }
        };
        match outcome {
            Ok(Outcome::Reply(mut reply)) => {
                add(&mut reply);
                match request.name.as_str() {
                    "getMore" => self.answer_get_more(now, conn, request, Ok(reply)),
                    _ => self.respond(conn, &request, Ok(reply)),
                }
            }
            Ok(Outcome::Written(mut reply)) => {
                if wants_no_results(&request) {
                    reply = Document::new().into();
                }
                add(&mut reply);
                self.confirm(now, conn, request, Ok(reply));
            }
            Ok(Outcome::Route(plan)) => self.route(conn, request, effect, plan),
            Ok(Outcome::Forward(primary, command, given)) => {
                self.forward(conn, request, effect, (primary, command, given));
            }
            Ok(Outcome::Wait(Waiting::Lock(mut lock), deadline)) => {
                lock.effect = effect;
                self.wait(conn, request, Waiting::Lock(lock), deadline);
            }
            Ok(Outcome::Wait(mut waiting, deadline)) => {
                if let Waiting::Part { effect: kept, .. }
                | Waiting::Statement { effect: kept, .. }
                | Waiting::Time { effect: kept, .. } = &mut waiting
                {
                    *kept = effect;
                }
                self.wait(conn, request, waiting, deadline);
            }
            Err(fault) if awaits_concern(fault.error.code) && has_concern(&request) => {
                self.confirm(now, conn, request, Err(fault));
            }
            Err(fault) if self.must_be_certain(&request, &fault) => {
                self.replica.append(now, Vec::new(), None);
                self.confirm_by(now, conn, request, Err(fault), Need::Majority);
            }
            Err(fault) => {
                // The next part of a statement can fail before it is executed.
                self.abort_paused(conn, &request);
                let fault = self.labelled(&request, fault);
                self.respond(conn, &request, Err(fault));
                self.discard(request);
            }
        }
    }

    /// Keeps a request until its condition is true or its deadline has passed.
    pub(super) fn wait(
        &mut self,
        conn: ConnId,
        request: Request,
        waiting: Waiting,
        deadline: Option<Instant>,
    ) {
        match &waiting {
            Waiting::Hello { .. } => {
                self.hellos.insert(conn);
            }
            Waiting::Replication { .. }
            | Waiting::Majority { .. }
            | Waiting::Time { .. }
            | Waiting::Lock(_)
            | Waiting::Decision(_)
            | Waiting::Statement { .. }
            | Waiting::Tail => {
                self.waiting.insert(conn);
            }
            Waiting::StepDown => self.stepping_down = Some(conn),
            Waiting::Part { .. } => self.outputs.push_back(Output::Pause(conn)),
            Waiting::Blocked { .. }
            | Waiting::Routed { .. }
            | Waiting::Stream
            | Waiting::Job { .. } => {}
        }
        if let Some(at) = deadline {
            self.timers.insert((at, conn));
        }
        if let Some(connection) = self.connection(conn) {
            connection.pending = Some(Pending {
                request,
                waiting,
                deadline,
            });
        }
    }

    fn execute(&mut self, now: Instant, conn: ConnId, request: &mut Request) -> Answer {
        self.check_authorized(now, conn, request)?;
        self.note_gossip(now, request)?;
        self.check_legacy(request)?;
        self.check_form(request)?;
        if self.requires_api && !self.is_internal(conn) {
            commands::require_api(request)?;
        }
        check_read_preference(request)?;
        check_no_write_concern(request)?;
        let part = self.part(request)?;
        if part.is_none() {
            self.check_no_read_concern(request)?;
        }
        match request.name.as_str() {
            "hello" | "isMaster" | "ismaster" => return self.hello(now, conn, request),
            "saslStart" => return self.sasl_start(now, conn, request),
            "saslContinue" => return self.sasl_continue(now, conn, request),
            "authenticate" => return Ok(self.authenticate(conn, request)?.into()),
            "logout" => return Ok(self.logout(conn, request).into()),
            "connectionStatus" => return Ok(self.connection_status(conn, request).into()),
            name if self.is_router() && name.starts_with("replSet") => {
                return Err(not_for_routers(name));
            }
            name @ CREATE_SHARDED if !self.is_internal(conn) => {
                return Err(fault(59, format!("no such command: '{name}'")));
            }
            "aggregate" => self.check_given(conn, request)?,
            "replSetStepDown" => return self.replica_step_down(now, request),
            "replSetFreeze" => return self.replica_freeze(now, request),
            "replSetReconfig" => {
                let reply = self.replica_reconfigure(now, request)?;
                return Ok(Reply::from(reply).into());
            }
            _ => {}
        }
        if let Some(reply) = self.administration(now, conn, request)? {
            return Ok(reply.into());
        }
        if let Some(reply) = self.administer_users(request)? {
            return Ok(reply.into());
        }
        if self.is_router() {
            if request.name == "checkMetadataConsistency" {
                return self.check_metadata(now, request);
            }
            return match part {
                Some(part) => self.route_part(conn, request, part),
                None => self.check_routed(request),
            };
        }
        if let Some(part) = part {
            let is_internal = self.is_internal(conn);
            return self.execute_part(now, request, part, is_internal);
        }
        let writes = self.is_write(request);
        if writes && !self.forwards(request) {
            if !self.replica.is_writable() {
                return Err(not_writable_primary());
            }
            self.write_concern(request)?;
            self.check_read_concern(request)?;
            return self.execute_write(now, request);
        } else if is_read(&request.name) {
            self.check_readable(request)?;
            return self.execute_read(now, request);
        }
        self.execute_data(now, request)
    }

    /// Returns an error for an OP_QUERY that the release does not take. Since 5.1, it can only be
    /// one of the first messages of a connection.
    fn check_legacy(&self, request: &Request) -> Result<(), Fault> {
        let is_first = matches!(
            request.name.as_str(),
            "hello"
                | "isMaster"
                | "ismaster"
                | "saslStart"
                | "saslContinue"
                | "authenticate"
                | "buildInfo"
                | "buildinfo"
        );
        if request.legacy && !is_first && self.program.version.release >= [5, 1, 0] {
            let text = format!("Unsupported OP_QUERY command: {}. {UPGRADE}", request.name);
            return Err(fault(352, text));
        }
        Ok(())
    }

    pub(super) fn execute_data(&mut self, now: Instant, request: &mut Request) -> Answer {
        self.check_own(request)?;
        self.check_uuid(request)?;
        match request.name.as_str() {
            "insert" => self.insert(now, request),
            "update" => self.update(now, request),
            "delete" => self.delete(now, request),
            "findAndModify" | "findandmodify" => self.find_and_modify(now, request),
            "bulkWrite" => self.bulk_write(now, request),
            "find" => self.find(now, request),
            "getMore" => self.get_more(now, request),
            "killCursors" => self.kill_cursors(now, request),
            "count" => self.count(now, request),
            "distinct" => self.distinct(now, request),
            "aggregate" if self.has_output_for_primary(request) => {
                self.run_for_primary(now, request)
            }
            "aggregate" => self.aggregate(now, request),
            "createIndexes" => self.create_indexes(request),
            "create" | "drop" | "dropDatabase" | "dropIndexes" | "deleteIndexes"
            | "renameCollection" | "collMod" | CREATE_SHARDED => self.change_catalog(request),
            "listCollections" => self.list_collections(now, request),
            "listDatabases" => self.list_databases(request),
            "listIndexes" => self.list_indexes(now, request),
            "collStats" | "collstats" => self.collection_statistics(request),
            "dbStats" | "dbstats" => self.database_statistics(request),
            "validate" => self.validate(now, request),
            "explain" => self.explain(now, request),
            "top" => self.top(),
            "dataSize" => self.data_size(request),
            "profile" => self.profile(request),
            "filemd5" => self.file_digest(now, request),
            "fsync" => self.fsync(request),
            "createSearchIndexes" | "updateSearchIndex" | "dropSearchIndex" => {
                let text = "Search index commands are only supported with Atlas.";
                Err(fault(31082, text))
            }
            #[cfg(feature = "__panics")]
            "panicForTest" => panic!("a request that panics"),
            other => Err(fault(59, format!("no such command: '{other}'"))),
        }
    }

    pub(super) fn is_write(&self, request: &Request) -> bool {
        match request.name.as_str() {
            name if writes_documents(name) => true,
            "create" | "drop" | "dropDatabase" | "createIndexes" | "dropIndexes"
            | "deleteIndexes" | "renameCollection" | "collMod" | CREATE_SHARDED => true,
            "aggregate" => super::read::pipeline_writes(request),
            _ => false,
        }
    }

    /// Returns an error if this member must not execute this read.
    fn check_readable(&self, request: &Request) -> Result<(), Fault> {
        if self.set_member().is_none() {
            return Ok(());
        }
        if !self.holds_data() {
            return Err(fault(13436, "node is not in primary or recovering state"));
        }
        let preference = request.command.get_document("$readPreference");
        let secondary =
            preference.is_ok_and(|p| p.get_str("mode").is_ok_and(|mode| mode != "primary"));
        if self.replica.is_leader() || secondary || request.name == "getMore" {
            return Ok(());
        }
        Err(fault(13435, "not primary and secondaryOk=false"))
    }

    fn replica_step_down(&mut self, now: Instant, request: &Request) -> Answer {
        if !self.is_set() {
            return Err(fault(76, "not running with --replSet"));
        }
        let command = &request.command;
        let seconds = |key| integer_field(command, key).map(|n| u64::try_from(n).ok());
        let period = match seconds(request.name.as_str()) {
            Some(Some(n)) => Duration::from_secs(n),
            _ => return Err(bad_value("stepdown period must be a non-negative number")),
        };
        let force = truth(command.get("force"));
        let catch_up = match seconds("secondaryCatchUpPeriodSecs") {
            Some(Some(n)) => Duration::from_secs(n),
            Some(None) => return Err(bad_value("secondaryCatchUpPeriodSecs must not be negative")),
            None if force => Duration::ZERO,
            None => CATCH_UP_PERIOD,
        };
        if period < catch_up {
            let text = "stepdown period must be longer than secondaryCatchUpPeriodSecs";
            return Err(bad_value(text));
        }
        match self.replica.step_down(now, period, catch_up, force) {
            Ok(()) => Ok(Outcome::Wait(Waiting::StepDown, None)),
            Err(CannotStepDown::NotPrimary) => Err(not_writable_primary()),
            Err(CannotStepDown::AlreadyTrying) => {
                Err(fault(11602, "another step-down is under way"))
            }
        }
    }

    fn replica_freeze(&mut self, now: Instant, request: &Request) -> Answer {
        if !self.is_set() {
            return Err(fault(76, "not running with --replSet"));
        }
        let seconds = integer_field(&request.command, &request.name).unwrap_or(0);
        if self.replica.is_leader() {
            return Err(fault(
                95,
                "cannot freeze node when primary or running for election",
            ));
        }
        let seconds = u64::try_from(seconds).unwrap_or(0);
        self.replica.freeze(now, Duration::from_secs(seconds));
        Ok(Reply::default().into())
    }
}

/// Returns the error of a router for a command of replica sets.
fn not_for_routers(name: &str) -> Fault {
    match name {
        "replSetGetStatus" => {
            let text = "replSetGetStatus is not supported through mongos";
            StoreError::new(115, text).with("info", "mongos").into()
        }
        _ => fault(59, format!("no such command: '{name}'")),
    }
}

/// True for a command that reads data.
pub(super) fn is_read(name: &str) -> bool {
    matches!(
        name,
        "find"
            | "getMore"
            | "count"
            | "distinct"
            | "aggregate"
            | "listCollections"
            | "listDatabases"
            | "listIndexes"
            | "filemd5"
            | "collStats"
            | "collstats"
            | "dbStats"
            | "dbstats"
            | "validate"
            | "explain"
            | "dataSize"
    )
}

/// Returns the collection that a command names. Fails if the name is not valid.
pub(super) fn namespace(request: &Request) -> Result<Namespace, Fault> {
    refuse_uuid(request)?;
    let collection = request.command.get_str(&request.name).unwrap_or_default();
    if collection.is_empty() || collection.contains('\0') || request.database.is_empty() {
        let text = format!(
            "Invalid namespace specified '{}.{collection}'",
            request.database
        );
        return Err(fault(73, text));
    }
    if collection.starts_with(BUCKETS) {
        let text = format!(
            "Invalid system namespace: {}.{collection}",
            request.database
        );
        return Err(fault(73, text).not_simulated("the buckets of time series collections"));
    }
    Ok(Namespace::new(request.database.clone(), collection))
}

impl Member {
    /// Parses the full name of a collection, such as `db.collection`.
    pub(super) fn full_name(text: &str) -> Result<Namespace, Fault> {
        Namespace::parse(text).ok_or_else(|| fault(73, format!("Invalid namespace: {text}")))
    }
}
