//! The state of one connection in the network.

use super::{ListenerId, Towards, balancer::Services};
use onionskin_core::time::Instant;
use onionskin_deployment::socks5::Socks5Exchange;
use std::collections::VecDeque;

/// One direction of a connection.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Direction {
    /// The arrival time of the latest parcel, or the end of a stall. The next parcel does not
    /// arrive before this time.
    pub(super) last: Instant,
    /// True if all further parcels in this direction are lost.
    pub(super) is_dead: bool,
    /// The end of the latest stall. It delays all parcels after that with the number
    /// `stalled_after`.
    stalled_until: Instant,
    stalled_after: u64,
}

impl Direction {
    /// Delays all parcels after the one with the number `last` until the end of a stall.
    pub(super) fn stall(&mut self, now: Instant, last: u64, end: Instant) {
        // If an earlier stall lasts, the parcels after its beginning stay delayed.
        if self.stalled_until <= now {
            self.stalled_after = last;
        }
        self.stalled_until = self.stalled_until.max(end);
        self.last = self.last.max(end);
    }

    /// Returns the earliest time, from now on, at which a stall lets a parcel arrive.
    pub(super) fn earliest(&self, now: Instant, parcel: u64) -> Instant {
        match parcel > self.stalled_after {
            true => now.max(self.stalled_until),
            false => now,
        }
    }
}

/// A client's connection to a member, to the load balancer, or to a listener: a server that is not
/// a member of the deployment. If nothing has the dialled address, the connection is refused.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) client: usize,
    pub(super) member: usize,
    /// The listener to which the connection leads, if it does not lead to a member.
    pub(super) listener: Option<ListenerId>,
    /// The services from which the load balancer chooses the member, if the connection leads to it.
    pub(super) services: Option<Services>,
    /// The conversation with the proxy, until the proxy has connected to the member.
    pub(super) proxy: Option<Box<Socks5Exchange>>,
    /// True while the client holds the connection.
    pub(super) has_client: bool,
    /// True while the member or listener holds the connection.
    pub(super) has_server: bool,
    pub(super) up: Direction,
    pub(super) down: Direction,
    /// The number of bytes in transit from the client.
    pub(super) sent: usize,
    /// The bytes that have arrived and that a slow member, or one without room, has not read.
    pub(super) unread: VecDeque<u8>,
    /// True if the client's side has ended after the unread bytes.
    pub(super) hangs_up: bool,
    /// True if the client is to be told when there is room for more bytes.
    pub(super) awaits_room: bool,
    /// True if replies have been sent in pieces by a slow member.
    pub(super) is_dripping: bool,
}

impl Link {
    pub(super) fn new(client: usize, member: usize) -> Self {
        Self {
            client,
            member,
            listener: None,
            services: None,
            proxy: None,
            has_client: true,
            has_server: false,
            up: Direction::default(),
            down: Direction::default(),
            sent: 0,
            unread: VecDeque::new(),
            hangs_up: false,
            awaits_room: false,
            is_dripping: false,
        }
    }

    pub(super) fn direction(&mut self, towards: Towards) -> &mut Direction {
        match towards {
            Towards::Member => &mut self.up,
            Towards::Client => &mut self.down,
        }
    }
}
