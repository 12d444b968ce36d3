//! The fetches of parts of a credential, such as AWS credentials and tokens, for the connections
//! that wait for them.
//!
//! One fetch runs at a time, and all connections that wait share its result (AUTH-99, AUTH-125). No
//! connection is held up by the commands of authentication of another one.

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
pub(in crate::client) struct Fetches {
    supply: Supply,
    waiting: BTreeSet<SocketId>,
}

impl Fetches {
    pub(in crate::client) const fn new(random: Random) -> Self {
        Self {
            supply: Supply::new(random),
            waiting: BTreeSet::new(),
        }
    }

    /// Adds a connection that needs a part of the credential. Begins a fetch, unless one runs.
    pub(in crate::client) fn want(
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

    /// Handles the answer to the inquiry of the fetch, or the reason why there is none.
    pub(in crate::client) fn handle_finding(
        &mut self,
        finding: Result<Finding, String>,
    ) -> Option<SupplyStep> {
        self.supply.handle_finding(finding)
    }

    /// Continues a call that waited until it was due.
    pub(in crate::client) fn handle_due(&mut self, now: Instant) -> Option<SupplyStep> {
        self.supply.handle_due(now)
    }

    /// Takes the connections that wait.
    pub(in crate::client) fn take_waiting(&mut self) -> Vec<SocketId> {
        std::mem::take(&mut self.waiting).into_iter().collect()
    }

    /// Removes a connection that is no longer driven. The fetch continues, and the next connection
    /// can use its result.
    pub(in crate::client) fn forget(&mut self, socket: SocketId) {
        self.waiting.remove(&socket);
    }

    /// Gives up the fetch that runs, because its questions are withdrawn.
    pub(in crate::client) fn give_up(&mut self) {
        self.supply.give_up();
        self.waiting.clear();
    }

    pub(in crate::client) fn reseed(&mut self, random: Random) {
        self.supply.reseed(random);
    }

    /// Returns the number of connections that wait.
    #[cfg(any(test, feature = "unstable-machines"))]
    pub(in crate::client) fn waiting(&self) -> usize {
        self.waiting.len()
    }
}
