//! The [`Ledger`] checks the events of a client's pools. The ledger derives from the events which
//! check outs wait, which connections they get, and which connections are available meanwhile.

use onionskin_core::{
    address::Address,
    event::{CommandEvent, Event, EventKind, PoolEvent},
    time::Instant,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The pools of one client, which all have the same limits.
#[derive(Debug)]
pub(crate) struct Ledger {
    max_size: usize,
    max_connecting: usize,
    is_unordered: bool,
    books: BTreeMap<Address, Books>,
}

/// The state of one pool, as it follows from the events.
#[derive(Debug, Default)]
pub(crate) struct Books {
    now: Instant,
    is_ready: bool,
    is_unordered: bool,
    /// The start times of the check outs in the wait queue.
    queue: VecDeque<Instant>,
    /// The connections that are being established, each with the start time of the check out that
    /// waits for it. `None` if no check out waits for it, or if the ledger is unordered.
    pending: BTreeMap<u64, Option<Instant>>,
    /// The connection that has just become ready, with the start time of its check out.
    handed: Option<(u64, Instant)>,
    idle: BTreeSet<u64>,
    used: BTreeSet<u64>,
    /// The connections that were checked in after a failed command. Such a connection is available
    /// or draining: events do not tell whether its late reply has arrived.
    left: BTreeSet<u64>,
    /// The connections in use whose command has failed.
    leaving: BTreeSet<u64>,
    /// The start times of check outs whose connection was closed before they got it. The failed
    /// events of these check outs have to follow.
    orphans: Vec<Instant>,
    /// The number of check outs that succeeded.
    pub(crate) granted: usize,
    /// The number of check outs that failed.
    pub(crate) failed: usize,
    /// The number of connections that were established for a check out that had failed before.
    pub(crate) outlived: usize,
    /// The largest number of connections at a time.
    pub(crate) most: usize,
    /// The largest number of connections that were being established at a time.
    pub(crate) most_pending: usize,
}

impl Ledger {
    pub(crate) fn new(max_size: usize, max_connecting: usize) -> Self {
        Self {
            max_size,
            max_connecting,
            is_unordered: false,
            books: BTreeMap::new(),
        }
    }

    /// Returns a ledger that checks neither the order of the wait queue nor the check out for which
    /// a connection is established. The events do not distinguish check outs that start at the same
    /// time.
    pub(crate) fn without_order(mut self) -> Self {
        self.is_unordered = true;
        self
    }

    /// Checks all events of a client, and panics at the first event that is wrong.
    pub(crate) fn read(mut self, events: &[Event]) -> Self {
        for (place, event) in events.iter().enumerate() {
            if let Err(what) = self.observe(event) {
                let from = place.saturating_sub(12);
                panic!("{what} at event {place}: {:#?}", &events[from..=place]);
            }
        }
        self
    }

    /// Returns the state of the only pool.
    pub(crate) fn only(&self) -> &Books {
        assert_eq!(self.books.len(), 1);
        self.books.values().next().expect("a pool")
    }

    fn observe(&mut self, event: &Event) -> Result<(), String> {
        match &event.kind {
            EventKind::Pool(pool) => {
                let books = self.books.entry(pool.address().clone()).or_default();
                books.is_unordered = self.is_unordered;
                if event.at > books.now {
                    books.on_time_passes(self.max_size, self.max_connecting)?;
                }
                books.now = event.at;
                books.observe(pool)?;
                books.on_bounds(self.max_size, self.max_connecting)
            }
            EventKind::Command(CommandEvent::Failed { facts, .. }) => {
                if let Some(books) = self.books.get_mut(&facts.address) {
                    books.leaving.insert(facts.driver_connection_id);
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

impl Books {
    fn total(&self) -> usize {
        let handed = usize::from(self.handed.is_some());
        self.pending.len() + self.idle.len() + self.used.len() + self.left.len() + handed
    }

    /// Checks the state before time advances. A connection that became ready for a check out has
    /// been handed over. No check out waits in a paused pool, or while a connection is available or
    /// can be established.
    fn on_time_passes(&self, max_size: usize, max_connecting: usize) -> Result<(), String> {
        if let Some(handed) = self.handed {
            return Err(format!("{handed:?} is not handed over"));
        }
        if !self.is_ready && !self.queue.is_empty() && !self.is_unordered {
            return Err(format!(
                "{} wait for a pool that is paused",
                self.queue.len()
            ));
        }
        // Without order, check outs stay in the queue while connections are established for them.
        let made_for = self.pending.len() * usize::from(self.is_unordered);
        if self.queue.len() <= made_for {
            return Ok(());
        }
        if !self.idle.is_empty() {
            return Err(format!("{:?} are idle while somebody waits", self.idle));
        }
        let is_full = max_size > 0 && self.total() >= max_size;
        if !is_full && self.pending.len() < max_connecting {
            return Err(format!("{} wait, and none is made", self.queue.len()));
        }
        Ok(())
    }

    fn on_bounds(&mut self, max_size: usize, max_connecting: usize) -> Result<(), String> {
        self.most = self.most.max(self.total());
        self.most_pending = self.most_pending.max(self.pending.len());
        if max_size > 0 && self.total() > max_size {
            return Err(format!("{} connections", self.total()));
        }
        if self.pending.len() > max_connecting {
            return Err(format!("{} being made", self.pending.len()));
        }
        if !self.queue.is_empty() && !self.is_ready && self.orphans.is_empty() {
            // A clear fails the check outs of the queue one after the other, so the queue need not
            // be empty yet. Meanwhile no connection becomes ready for a check out.
            self.handed
                .map_or(Ok(()), |_| Err("handed out while paused".to_owned()))?;
        }
        Ok(())
    }

    fn observe(&mut self, event: &PoolEvent) -> Result<(), String> {
        match event {
            PoolEvent::Ready { .. } => self.is_ready = true,
            PoolEvent::Cleared { .. } | PoolEvent::Closed { .. } => self.is_ready = false,
            PoolEvent::CheckOutStarted { .. } => self.queue.push_back(self.now),
            PoolEvent::ConnectionCreated { connection, .. } => {
                let request = match self.is_unordered {
                    true => None,
                    false => self.queue.pop_front(),
                };
                self.pending.insert(*connection, request);
            }
            PoolEvent::ConnectionReady { connection, .. } => {
                match self.pending.remove(connection) {
                    None => return Err(format!("{connection} was not being made")),
                    Some(Some(came)) => self.handed = Some((*connection, came)),
                    Some(None) => {
                        self.idle.insert(*connection);
                    }
                }
            }
            PoolEvent::CheckedOut {
                connection,
                duration,
                ..
            } => self.on_granted(*connection, self.came(*duration))?,
            PoolEvent::CheckOutFailed { duration, .. } => self.on_failed(self.came(*duration))?,
            PoolEvent::CheckedIn { connection, .. } => {
                if !self.used.remove(connection) {
                    return Err(format!("{connection} was not in use"));
                }
                match self.leaving.remove(connection) {
                    true => self.left.insert(*connection),
                    false => self.idle.insert(*connection),
                };
            }
            PoolEvent::ConnectionClosed { connection, .. } => self.on_closed(*connection)?,
            _ => {}
        }
        Ok(())
    }

    /// Returns the start time of a check out that ends now, after this duration.
    fn came(&self, waited: std::time::Duration) -> Instant {
        Instant::ZERO + self.now.since_start().saturating_sub(waited)
    }

    fn on_granted(&mut self, connection: u64, came: Instant) -> Result<(), String> {
        self.granted += 1;
        self.used.insert(connection);
        if let Some(handed) = self.handed.take() {
            return match handed == (connection, came) {
                true => Ok(()),
                false => Err(format!("{handed:?} was to be handed over")),
            };
        }
        if !self.idle.remove(&connection) && !self.left.remove(&connection) {
            return Err(format!("{connection} is handed out, and was not there"));
        }
        if self.is_unordered {
            return self.leave_queue(came);
        }
        match self.queue.pop_front() {
            Some(first) if first == came => Ok(()),
            first => Err(format!("who came at {came} is served before {first:?}")),
        }
    }

    fn on_failed(&mut self, came: Instant) -> Result<(), String> {
        self.failed += 1;
        if let Some(place) = self.orphans.iter().position(|other| *other == came) {
            self.orphans.swap_remove(place);
            return Ok(());
        }
        if self.leave_queue(came).is_ok() {
            return Ok(());
        }
        let mut owners = self.pending.values_mut();
        if let Some(owner) = owners.find(|owner| **owner == Some(came)) {
            *owner = None;
            self.outlived += 1;
            return Ok(());
        }
        if self.handed.is_some_and(|(_, other)| other == came) {
            // The check out failed after its connection became ready, and before it got the
            // connection.
            return Ok(());
        }
        Err(format!("nobody waits who came at {came}"))
    }

    fn leave_queue(&mut self, came: Instant) -> Result<(), String> {
        let place = self.queue.iter().position(|other| *other == came);
        let left = place.and_then(|place| self.queue.remove(place));
        left.map(|_| ())
            .ok_or_else(|| format!("nobody waits who came at {came}"))
    }

    fn on_closed(&mut self, connection: u64) -> Result<(), String> {
        if let Some(request) = self.pending.remove(&connection) {
            self.orphans.extend(request);
            return Ok(());
        }
        if self.handed.is_some_and(|(handed, _)| handed == connection) {
            self.orphans
                .extend(self.handed.take().map(|(_, came)| came));
            return Ok(());
        }
        let was_there = self.idle.remove(&connection)
            || self.left.remove(&connection)
            || self.used.remove(&connection);
        match was_there {
            true => Ok(()),
            false => Err(format!("{connection} is closed, and was not there")),
        }
    }

    /// True if no check out waits and no connection is in use.
    pub(crate) fn is_at_rest(&self) -> bool {
        let owned = self.pending.values().any(Option::is_some);
        self.queue.is_empty() && self.used.is_empty() && self.orphans.is_empty() && !owned
    }
}
