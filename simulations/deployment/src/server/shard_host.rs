//! The members of a shard to which a router sends requests, if the shard has several: the router
//! repeats a request that a member has not executed, and waits while no member suits.

use super::{
    Member, Output,
    connection::{Pending, Request, Waiting},
    dispatch::is_read,
    fail_point::FailEffect,
    fault::fault,
    plan::{HOST_UNREACHABLE, Plan},
    read::pipeline_writes,
    read_concern::read_deadline,
    transaction::ends,
};
use crate::deployment::{ConnId, shard_name};
use onionskin_core::time::Instant;
use std::time::Duration;

/// The time after which a router looks again for a member that suits, as in the server.
const PAUSE: Duration = Duration::from_millis(500);

/// The time for which a router looks for a member that suits, as in the server.
const PATIENCE: Duration = Duration::from_secs(20);

/// The code of the error `FailedToSatisfyReadPreference`.
const NO_HOST: i32 = 133;

impl Member {
    /// Returns the latest term of a shard in which this router has known a primary.
    pub(crate) fn known_term(&self, shard: usize) -> u64 {
        self.routing.terms.get(&shard).copied().unwrap_or_default()
    }

    /// Notes that this router knows the primary of a shard in this term.
    pub(crate) fn note_known_term(&mut self, shard: usize, term: u64) {
        let known = self.routing.terms.entry(shard).or_default();
        *known = term.max(*known);
    }

    /// Notes the member of a shard that gets the request of a connection.
    pub(crate) fn note_host(&mut self, conn: ConnId, member: usize, host: usize) {
        if let Some(plan) = self.awaiting_plan(conn, member) {
            plan.note_host(member, host);
        }
    }

    /// Returns the plan of the request of a connection, if it awaits a reply of this member.
    fn awaiting_plan(&mut self, conn: ConnId, member: usize) -> Option<&mut Plan> {
        match &mut self.connections.get_mut(&conn)?.pending.as_mut()?.waiting {
            Waiting::Routed { plan, .. } if plan.awaits(member) => Some(plan),
            _ => None,
        }
    }

    /// Sends the request of a connection to a shard again, because a member of it has not executed
    /// it. Returns false if the request cannot be repeated: the shard has one member, the request
    /// could take effect twice, or it was repeated too often.
    pub(super) fn repeat(&mut self, conn: ConnId, member: usize) -> bool {
        let pending = self.connections.get(&conn).and_then(|c| c.pending.as_ref());
        if !pending.is_some_and(|pending| is_repeatable(&pending.request)) {
            return false;
        }
        let plan = self.awaiting_plan(conn, member);
        let attempt = plan.and_then(|plan| plan.next_attempt(member));
        let attempt = attempt.map(|attempt| (attempt.choice, attempt.bytes.clone()));
        let Some((choice, bytes)) = attempt else {
            return false;
        };
        let output = Output::Route(conn, member, choice, bytes);
        self.outputs.push_back(output);
        true
    }

    /// Handles that no member of a shard suits the request of a connection. The router looks for
    /// one again after a pause, until its patience or the time limit of the request ends.
    pub(crate) fn handle_no_host(&mut self, now: Instant, conn: ConnId, member: usize) {
        let plan = self.awaiting_plan(conn, member);
        let Some((since, choice, was_sent)) = plan.and_then(|plan| plan.note_no_host(now, member))
        else {
            return;
        };
        let Some(Pending {
            request,
            waiting,
            deadline,
        }) = self.unpark(conn)
        else {
            return;
        };
        let limit = read_deadline(since, &request.command);
        let next = deadline.unwrap_or(now + PAUSE);
        let next = limit.map_or(next, |limit| next.min(limit));
        let error = if limit.is_some_and(|limit| limit <= now) {
            fault(50, "operation exceeded time limit")
        } else if since + PATIENCE <= now && was_sent {
            fault(HOST_UNREACHABLE, "the shard cannot be reached")
        } else if since + PATIENCE <= now {
            let name = shard_name(member.saturating_sub(self.options.addresses.len()));
            let mode = choice.mode();
            let text = format!(
                "Could not find host matching read preference {{ mode: \"{mode}\" }} for set {name}"
            );
            fault(NO_HOST, text)
        } else {
            return self.wait(conn, request, waiting, Some(next));
        };
        self.wait(conn, request, waiting, None);
        self.fail_routed(now, conn, error);
    }

    /// Looks again for members for the requests that had none.
    pub(super) fn select_again(
        &mut self,
        conn: ConnId,
        request: Request,
        plan: Box<Plan>,
        effect: Option<FailEffect>,
    ) {
        for (member, attempt) in plan.without_host() {
            let bytes = attempt.bytes.clone();
            let output = Output::Route(conn, member, attempt.choice, bytes);
            self.outputs.push_back(output);
        }
        self.wait(conn, request, Waiting::Routed { plan, effect }, None);
    }
}

/// True for a request that a router can repeat without a second effect: a read, a retryable write,
/// and the end of a transaction. Statements of transactions are not repeated, because the next
/// primary does not know the transaction.
fn is_repeatable(request: &Request) -> bool {
    let is_part = request.command.contains_key("autocommit");
    match request.name.as_str() {
        name if is_part => ends(name),
        "getMore" => false,
        _ if request.command.contains_key("txnNumber") => true,
        "listDatabases" => true,
        name => is_read(name) && !pipeline_writes(request),
    }
}
