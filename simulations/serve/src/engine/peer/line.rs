//! The effects of a scenario's faults on a connection.

use super::{MAX_UNSENT_BYTES, Peer, Slowness};
use onionskin_core::time::Instant;
use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
};

/// The receiver of bytes between a client and a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::engine) enum Towards {
    Member,
    Client,
}

/// An entry that the faults of a scenario delay on the way to the client.
#[derive(Debug)]
pub(super) enum Delayed {
    Bytes(Vec<u8>),
    /// The rest of bytes of which a slow member has sent the first `sent`.
    Rest {
        bytes: Vec<u8>,
        sent: usize,
    },
    /// The connection breaks.
    Reset,
    /// The connection is closed.
    Close,
}

/// The state of a connection that has faults.
#[derive(Debug, Default)]
pub(super) struct Line {
    /// True if requests are lost.
    pub(super) loses_requests: Cell<bool>,
    /// True if replies are lost.
    pub(super) loses_replies: Cell<bool>,
    /// Requests that arrive later, the next one first.
    pub(super) requests: RefCell<VecDeque<(Instant, Vec<u8>)>>,
    /// Replies that are sent later, the next one first. None is sent before an earlier one.
    pub(super) replies: RefCell<VecDeque<(Instant, Delayed)>>,
    /// The number of bytes in `replies`.
    pub(super) delayed_bytes: Cell<usize>,
    /// The number of bytes that the message under way from the client still lacks.
    pub(super) rest: Cell<usize>,
    /// The slowness of the member, if it is slow.
    pub(super) slow: Cell<Option<Slowness>>,
    /// The time before which a member that reads slowly reads nothing.
    pub(super) next_read: Cell<Instant>,
}

impl Line {
    /// Returns the time at which something is due. The requests of a full connection wait.
    pub(super) fn due(&self, is_full: bool) -> Option<Instant> {
        let requests = self.requests.borrow();
        let request = requests.front().filter(|_| !is_full).map(|(at, _)| *at);
        let reply = self.replies.borrow().front().map(|(at, _)| *at);
        request.into_iter().chain(reply).min()
    }
}

/// Returns the first entry, if its time has come.
fn take_due<T>(queue: &RefCell<VecDeque<(Instant, T)>>, now: Instant) -> Option<T> {
    let mut queue = queue.borrow_mut();
    match queue.front() {
        Some((at, _)) if *at <= now => queue.pop_front().map(|(_, entry)| entry),
        _ => None,
    }
}

impl Peer {
    /// Reads nothing more, and keeps the socket open without a reply.
    pub(in crate::engine) fn stay_silent(&self) {
        self.closing.set(true);
        self.changed.notify_one();
    }

    pub(super) fn drop_delayed(&self) {
        self.line.replies.borrow_mut().clear();
        self.set_delayed_bytes(0);
    }

    pub(super) fn set_delayed_bytes(&self, bytes: usize) {
        let before = self.line.delayed_bytes.replace(bytes);
        self.gauge.moved(before, bytes);
    }

    /// Returns the member of the connection.
    pub(in crate::engine) fn member(&self) -> usize {
        self.member
    }

    /// Loses all further bytes in this direction.
    pub(in crate::engine) fn lose(&self, towards: Towards) {
        match towards {
            Towards::Member => self.line.loses_requests.set(true),
            Towards::Client => self.line.loses_replies.set(true),
        }
    }

    /// True if bytes in this direction are lost.
    pub(in crate::engine) fn loses(&self, towards: Towards) -> bool {
        match towards {
            Towards::Member => self.line.loses_requests.get(),
            Towards::Client => self.line.loses_replies.get(),
        }
    }

    /// True if the connection has lost bytes.
    pub(in crate::engine) fn has_lost(&self) -> bool {
        self.loses(Towards::Member) || self.loses(Towards::Client)
    }

    /// Loses all further bytes in both directions.
    pub(in crate::engine) fn fall_silent(&self) {
        self.lose(Towards::Member);
        self.lose(Towards::Client);
    }

    /// Drops what is under way in this direction. If there was something, loses all further bytes
    /// as well.
    pub(in crate::engine) fn cut(&self, towards: Towards) {
        let is_empty = match towards {
            Towards::Member => {
                let requests = std::mem::take(&mut *self.line.requests.borrow_mut());
                requests.is_empty()
            }
            Towards::Client => {
                let is_empty = self.line.replies.borrow().is_empty();
                self.drop_delayed();
                is_empty
            }
        };
        if !is_empty {
            self.lose(towards);
            // The end of the connection was under way as well.
            if self.closing.get() {
                self.abandon();
            }
        }
    }

    /// Counts the bytes of the messages of the client. Returns true if the bytes continue a message
    /// that began before.
    pub(in crate::engine) fn continues_message(&self, bytes: &[u8]) -> bool {
        let before = self.line.rest.get();
        let mut place = before;
        while let Some(length) = bytes.get(place..).and_then(|rest| rest.first_chunk::<4>()) {
            let length = usize::try_from(i32::from_le_bytes(*length)).unwrap_or(0);
            place = place.saturating_add(length.max(4));
        }
        self.line.rest.set(place.saturating_sub(bytes.len()));
        before > 0
    }

    /// Breaks the connection: the client sees a reset.
    pub(in crate::engine) fn reset(&self) {
        let _ = self.stream.set_zero_linger();
        self.abandon();
    }

    /// Sends bytes at a time, after all earlier ones.
    pub(in crate::engine) fn post(&self, now: Instant, at: Instant, bytes: Vec<u8>) {
        let is_free = self.line.replies.borrow().is_empty() && self.write_pace().is_none();
        if at <= now && is_free {
            return self.send(bytes);
        }
        self.delay(at, Delayed::Bytes(bytes));
    }

    /// Breaks the connection at a time, after all earlier bytes.
    pub(in crate::engine) fn post_reset(&self, now: Instant, at: Instant) {
        if at <= now && self.line.replies.borrow().is_empty() {
            return self.reset();
        }
        self.delay(at, Delayed::Reset);
    }

    fn delay(&self, at: Instant, delayed: Delayed) {
        if self.closing.get() || self.closed.get() {
            return;
        }
        if let Delayed::Bytes(bytes) = &delayed {
            if self.unsent() + bytes.len() > MAX_UNSENT_BYTES {
                return self.abandon();
            }
            self.set_delayed_bytes(self.line.delayed_bytes.get() + bytes.len());
        }
        self.delay_later(at, delayed);
        self.changed.notify_one();
    }

    /// Puts an entry behind all others.
    pub(super) fn delay_later(&self, at: Instant, delayed: Delayed) {
        self.line.replies.borrow_mut().push_back((at, delayed));
    }

    /// Keeps bytes of the client until a time. Nothing is read from the connection before.
    pub(in crate::engine) fn keep_request(&self, at: Instant, bytes: Vec<u8>) {
        self.line.requests.borrow_mut().push_back((at, bytes));
    }

    pub(super) fn has_due_request(&self) -> bool {
        let now = self.clock.now();
        let requests = self.line.requests.borrow();
        requests.front().is_some_and(|(at, _)| *at <= now)
    }

    /// Returns the next bytes of the client that were kept until now.
    pub(in crate::engine) fn take_request(&self) -> Option<Vec<u8>> {
        take_due(&self.line.requests, self.clock.now())
    }

    /// Sends the delayed replies that are due.
    pub(in crate::engine) fn send_delayed(&self) {
        let now = self.clock.now();
        while let Some(delayed) = take_due(&self.line.replies, now) {
            match delayed {
                Delayed::Bytes(bytes) => self.send_piece(now, bytes, 0),
                Delayed::Rest { bytes, sent } => self.send_piece(now, bytes, sent),
                Delayed::Reset => self.reset(),
                Delayed::Close => self.closed.set(true),
            }
        }
    }
}
