//! One connection, as the network knows it.

use super::{ListenerId, Towards};
use onionskin_core::time::Instant;

/// One direction of a connection.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Direction {
    /// When the latest parcel arrives; none arrives before it.
    pub(super) last: Instant,
    /// Something was lost here, so nothing arrives any more.
    pub(super) is_dead: bool,
}

/// A connection between a client and a member.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) client: usize,
    pub(super) member: usize,
    /// It leads to a listener, not to a member.
    pub(super) listener: Option<ListenerId>,
    /// It leads to the load balancer, which says what member it ends at.
    pub(super) is_balanced: bool,
    /// The client holds it.
    pub(super) has_client: bool,
    /// The member holds it.
    pub(super) has_server: bool,
    pub(super) up: Direction,
    pub(super) down: Direction,
}

impl Link {
    pub(super) fn new(client: usize, member: usize) -> Self {
        Self {
            client,
            member,
            listener: None,
            is_balanced: false,
            has_client: true,
            has_server: false,
            up: Direction::default(),
            down: Direction::default(),
        }
    }

    pub(super) fn direction(&mut self, towards: Towards) -> &mut Direction {
        match towards {
            Towards::Member => &mut self.up,
            Towards::Client => &mut self.down,
        }
    }
}
