//! The credentials part: fetches parts of a credential, such as AWS credentials and tokens, for the
//! connections that wait for them.
//!
//! One fetch runs at a time, and all connections that wait share its result (AUTH-99, AUTH-125). No
//! connection is held up by the commands of authentication of another one.

use super::questions::QuestionId;
use crate::{
    auth::{Caches, CallLimits, Finding, Need, Supply, SupplyStep},
    connection::SocketId,
    options::Credential,
    random::Random,
    time::Instant,
};
use std::collections::BTreeSet;

/// The fetches of a client, and the connections that wait for their results.
#[derive(Debug)]
pub(super) struct Credentials {
    supply: Supply,
    /// The question that the fetch has asked.
    asked: Option<QuestionId>,
    waiting: BTreeSet<SocketId>,
}

impl Credentials {
    pub(super) const fn new(random: Random) -> Self {
        Self {
            supply: Supply::new(random),
            asked: None,
            waiting: BTreeSet::new(),
        }
    }

    /// Adds a connection that needs a part of the credential. Begins a fetch, unless one runs.
    pub(super) fn want(
        &mut self,
        now: Instant,
        socket: SocketId,
        need: &Need,
        credential: &Credential,
        caches: &Caches,
        limits: CallLimits,
    ) -> Option<SupplyStep> {
        self.waiting.insert(socket);
        if self.supply.is_busy() {
            return None;
        }
        Some(self.supply.begin(now, need, credential, caches, limits))
    }

    /// Notes the question that was asked for the fetch.
    pub(super) fn asked(&mut self, id: QuestionId) {
        self.asked = Some(id);
    }

    /// Handles the answer to a question, or the reason why there is none. `None` for a question of
    /// another part.
    pub(super) fn handle_finding(
        &mut self,
        id: QuestionId,
        finding: Result<Finding, String>,
    ) -> Option<SupplyStep> {
        self.asked.take_if(|asked| *asked == id)?;
        self.supply.handle_finding(finding)
    }

    /// Continues a call that waited until it was due.
    pub(super) fn handle_due(&mut self, now: Instant) -> Option<SupplyStep> {
        self.supply.handle_due(now)
    }

    /// Takes the connections that wait.
    pub(super) fn take_waiting(&mut self) -> Vec<SocketId> {
        std::mem::take(&mut self.waiting).into_iter().collect()
    }

    /// Removes a connection that is no longer driven. The fetch continues, and the next connection
    /// can use its result.
    pub(super) fn forget(&mut self, socket: SocketId) {
        self.waiting.remove(&socket);
    }

    /// Gives up the fetch that runs, because its questions are withdrawn.
    pub(super) fn give_up(&mut self) {
        self.supply.give_up();
        self.asked = None;
        self.waiting.clear();
    }

    /// Replaces the source of random numbers and gives up the fetch, in a forked child process.
    pub(super) fn reseed(&mut self, random: Random) {
        self.give_up();
        self.supply.reseed(random);
    }

    /// Returns the number of connections that wait.
    #[cfg(any(test, feature = "unstable-machines"))]
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }
}
