//! The supply of parts of a credential: at most one fetch of a client at a time.

use super::{
    Caches,
    fetch::{CallLimits, Fetch, FetchStep, Finding, Inquiry},
    need::{Need, Provided},
};
use crate::{options::Credential, random::Random, time::Instant};
use std::time::Duration;

/// The least time between two calls of a callback for tokens: 100 ms (AUTH-126).
const SPACING: Duration = Duration::from_millis(100);

/// The next step of the supply.
#[derive(Debug)]
pub(crate) enum SupplyStep {
    /// Ask this, and pass the answer to [`Supply::handle_finding`] within the time limit.
    Ask(Inquiry, Duration),
    /// Call [`Supply::handle_due`] at this time.
    Wait(Instant),
    /// The fetch succeeded.
    Done(Provided),
    /// The fetch failed, with a reason that contains no secret.
    Failed(String),
}

impl From<FetchStep> for SupplyStep {
    fn from(step: FetchStep) -> Self {
        match step {
            FetchStep::Ask(inquiry, limit) => Self::Ask(inquiry, limit),
            FetchStep::Done(provided) => Self::Done(provided),
            FetchStep::Failed(reason) => Self::Failed(reason),
        }
    }
}

/// The machine that fetches parts of a credential, one at a time.
#[derive(Debug)]
pub(crate) struct Supply {
    /// The source of the names of sessions at STS.
    random: Random,
    fetch: Option<Fetch>,
    /// A call of a callback for tokens that waits until it is due.
    delayed: Option<(Instant, Inquiry, Duration)>,
    /// The time of the last call of a callback for tokens.
    last_call: Option<Instant>,
}

impl Supply {
    pub(crate) const fn new(random: Random) -> Self {
        Self {
            random,
            fetch: None,
            delayed: None,
            last_call: None,
        }
    }

    /// True while a fetch runs.
    pub(crate) const fn is_busy(&self) -> bool {
        self.fetch.is_some()
    }

    /// Begins a fetch. The caller has checked that none runs.
    pub(crate) fn begin(
        &mut self,
        now: Instant,
        need: &Need,
        credential: &Credential,
        caches: &Caches,
        limits: CallLimits,
    ) -> SupplyStep {
        let name = format!("onionskin-{:016x}", self.random.next_u64());
        let (fetch, step) = Fetch::begin(need, credential, caches, limits, name);
        let is_spaced = fetch.is_spaced();
        let (inquiry, limit) = match step {
            FetchStep::Ask(inquiry, limit) => (inquiry, limit),
            step => return step.into(),
        };
        self.fetch = Some(fetch);
        if is_spaced {
            let earliest = self.last_call.map(|last| last + SPACING);
            let due = earliest.unwrap_or(now).max(now);
            self.last_call = Some(due);
            if due > now {
                self.delayed = Some((due, inquiry, limit));
                return SupplyStep::Wait(due);
            }
        }
        SupplyStep::Ask(inquiry, limit)
    }

    /// Continues a call that is due. `None` if no call waits, or if it is not due yet.
    pub(crate) fn handle_due(&mut self, now: Instant) -> Option<SupplyStep> {
        let (_, inquiry, limit) = self.delayed.take_if(|(due, ..)| *due <= now)?;
        self.last_call = Some(now);
        Some(SupplyStep::Ask(inquiry, limit))
    }

    /// Handles the answer to the last inquiry, or the reason why there is none. `None` if no fetch
    /// runs.
    pub(crate) fn handle_finding(
        &mut self,
        finding: Result<Finding, String>,
    ) -> Option<SupplyStep> {
        let step = self.fetch.as_mut()?.handle_finding(finding);
        if !matches!(step, FetchStep::Ask(..)) {
            self.fetch = None;
        }
        Some(step.into())
    }

    /// Gives up the fetch that runs.
    pub(crate) fn give_up(&mut self) {
        self.fetch = None;
        self.delayed = None;
    }

    /// Replaces the source of random numbers, in a forked child process.
    pub(crate) fn reseed(&mut self, random: Random) {
        self.random = random;
        self.give_up();
    }
}
