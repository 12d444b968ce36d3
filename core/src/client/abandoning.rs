//! The end of a client whose orders nobody carries out any more.

use super::Client;
use crate::{
    error::{Error, ErrorKind},
    time::Instant,
};

impl Client {
    /// Ends everything at once, because the tasks that carry out orders are gone: with the async
    /// runtime on which the client was made, or by a panic. Operations that wait fail with `why`,
    /// leased exchanges are interrupted with it, and operations that start later fail with it.
    ///
    /// Changes nothing where the client has come to its end before.
    pub fn abandon(&mut self, now: Instant, why: &Error) {
        if self.is_over() || self.lost.is_some() {
            return;
        }
        self.lost = Some(why.clone());
        self.close(now);
        if !self.ended {
            self.end(now);
        }
        self.interrupt_leases(why);
        self.settle(now);
    }

    /// Returns the error of an operation that finds the client closed.
    pub(super) fn closed_error(&self) -> Error {
        let lost = self.lost.clone();
        lost.unwrap_or_else(|| ErrorKind::ClientClosed.into())
    }
}
