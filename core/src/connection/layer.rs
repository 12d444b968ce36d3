//! Layers between the socket and the messages of a connection.
//!
//! A layer is a machine: it is told bytes from below and from above, and gives bytes to both sides.
//! TLS is one; a proxy's conversation and compression are others. [`Layers`] is the list of layers
//! that each connection of a client has, from the socket upwards. `Stack` runs the layers of one
//! connection. A connection without layers has no stack, and its bytes are read straight into the
//! buffer of its messages.
//!
//! A new layer needs an implementation of [`Layer`] and one of [`LayerPlan`], and its place in the
//! list. The function that turns bytes into messages, the handshake, exchanges and drained replies
//! do not change.

mod tls;

use super::Phase;
use crate::{address::Address, error::Error, time::WallTime};
use std::{fmt, sync::Arc};

/// How far the opening conversation of a layer has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayerProgress {
    /// The conversation goes on. No bytes of the layers above may pass yet.
    Opening,
    /// The conversation is over, and the layer changes the bytes that pass.
    Open,
    /// The conversation is over, and all further bytes pass unchanged. The layer is removed from
    /// its stack and costs nothing any more. A proxy's layer ends like this.
    Passed,
}

/// One layer of one connection.
///
/// "Below" is the socket or the layer nearer to it, "above" the layer nearer to the messages.
/// Errors and bounds are the layer's own: what a peer may send before the layer gives bytes to the
/// layer above must be limited by the layer.
pub trait Layer: fmt::Debug + Send + Sync {
    /// Returns the layer's name, as errors show it: "the TLS handshake took longer than 300 ms".
    fn name(&self) -> &'static str;

    /// Takes bytes from below, all of them. After an error the connection is of no use; bytes for
    /// above that came before the error, and bytes that tell the peer why, can still be taken.
    fn handle_received(&mut self, bytes: &[u8]) -> Result<(), Error>;

    /// Moves bytes for above into `buffer`, which is not empty, and returns their number. Zero
    /// means that there are none now.
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Error>;

    /// Takes bytes from above. Called only while the layer is [open](LayerProgress::Open).
    fn write(&mut self, bytes: &[u8]);

    /// Appends bytes for below. Returns true if there were any, and then there may be more.
    #[must_use]
    fn poll_transmit(&mut self, out: &mut Vec<u8>) -> bool;

    /// Returns how far the opening conversation has come. It never goes back to
    /// [`LayerProgress::Opening`].
    fn progress(&self) -> LayerProgress;

    /// True if the peer said, by the layer's own means, that no more bytes will come.
    fn peer_closed(&self) -> bool {
        false
    }

    /// True if part of the layer's unit of transfer (for TLS a record) was received, and the rest
    /// is still to come.
    fn is_mid_record(&self) -> bool {
        false
    }

    /// Returns the phase that an error of the opening conversation belongs to.
    fn phase(&self) -> Phase {
        Phase::Hello
    }

    /// Returns a question about what may be wrong if the connection is lost during the opening
    /// conversation.
    fn loss_hint(&self) -> Option<&'static str> {
        None
    }
}

/// Makes a [`Layer`] for each connection of a client.
pub trait LayerPlan: fmt::Debug + Send + Sync {
    /// Returns the layer for a new connection to `address`.
    fn layer(&self, address: &Address) -> Result<Box<dyn Layer>, Error>;

    /// Returns the address to dial instead of the server's, as for a proxy.
    fn dial_address(&self) -> Option<&Address> {
        None
    }

    /// True if the layer encrypts what passes. A server that requires TLS closes connections
    /// without it, which errors of early losses mention.
    fn encrypts(&self) -> bool {
        false
    }

    /// Sets the time of day for layers that check the validity of certificates.
    fn set_wall_time(&self, _now: WallTime) {}
}

/// The layers that each connection of a client has, the one next to the socket first. Cloning is
/// cheap, and clones share the plans.
#[derive(Clone, Debug, Default)]
pub struct Layers {
    plans: Vec<Arc<dyn LayerPlan>>,
}

impl Layers {
    /// Puts a layer on top of the others: nearer to the messages than they are.
    pub fn push(&mut self, plan: impl LayerPlan + 'static) {
        self.plans.push(Arc::new(plan));
    }

    /// Returns the layers for a new connection to `address`, the lowest first.
    pub(super) fn begin(&self, address: &Address) -> Result<Vec<Box<dyn Layer>>, Error> {
        self.plans.iter().map(|plan| plan.layer(address)).collect()
    }

    /// Returns the address to dial instead of the server's: that of the lowest layer that has one.
    pub(super) fn dial_address(&self) -> Option<&Address> {
        self.plans.iter().find_map(|plan| plan.dial_address())
    }

    /// True if a layer encrypts.
    pub(super) fn encrypt(&self) -> bool {
        self.plans.iter().any(|plan| plan.encrypts())
    }

    /// Sets the time of day for the layers that need it.
    pub fn set_wall_time(&self, now: WallTime) {
        for plan in &self.plans {
            plan.set_wall_time(now);
        }
    }
}
