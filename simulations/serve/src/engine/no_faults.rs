//! The faults of a build without the Cargo feature `scenarios`: none.

use super::{
    Fate, Shared,
    peer::{Peer, Slowness},
};
use crate::ServeOptions;
use onionskin_core::{random::Seed, time::Instant};
use onionskin_deployment::deployment::{Action, ConnId};
use std::rc::Rc;
use tokio::net::TcpStream;

/// The faults of a scenario, which cannot be created without the Cargo feature `scenarios`.
pub(super) enum Faults {}

impl Faults {
    pub(super) const fn of(_options: &mut ServeOptions, _seed: &Seed) -> Option<Self> {
        None
    }

    pub(super) const fn next_at(&self) -> Option<Instant> {
        match *self {}
    }

    pub(super) fn admit(&self, _stream: TcpStream) -> Option<TcpStream> {
        match *self {}
    }

    pub(super) const fn slowness_of(&self, _member: usize) -> Option<Slowness> {
        match *self {}
    }

    pub(super) const fn request(&self, _now: Instant, _peer: &Peer, _bytes: &[u8]) -> Fate {
        match *self {}
    }
}

impl Shared {
    pub(super) const fn strike_due(&self) {}

    pub(super) const fn end_slowness(&self, _action: &Action) {}

    /// Closes a connection.
    pub(super) fn close(&self, peer: Rc<Peer>) {
        peer.close();
    }

    /// Sends a reply to a client.
    pub(super) fn reply(&self, conn: ConnId, bytes: Vec<u8>) {
        if let Some(peer) = self.peers.borrow().get(&conn) {
            peer.send(bytes);
        }
    }
}
