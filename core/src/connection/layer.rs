//! Layers between the socket and the messages of a connection.
//!
//! A layer is a machine that changes bytes. It takes bytes from below and from above, and gives
//! bytes to both sides. TLS is a layer, and so is the conversation with a SOCKS5 proxy.
//!
//! [`Layers`] lists the layers that each connection of a client has, from the socket upwards.
//! `Stack` runs the layers of one connection. A connection without layers has no stack: bytes from
//! the socket go directly into the buffer of its messages.
//!
//! A new layer needs an implementation of [`Layer`], one of [`LayerPlan`], and a place in
//! [`Layers`].

mod recorded;
mod socks5;
mod tls;

pub(crate) use recorded::RecordedTls;

use super::Phase;
use crate::{
    address::Address,
    error::Error,
    time::WallTime,
    tls::{CertId, RevocationStatus, StatusQuery, TlsFacts},
};
use std::{fmt, sync::Arc};

/// The progress of a layer's opening conversation, such as the TLS handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayerProgress {
    /// The conversation is not over. No bytes of the layers above may pass yet.
    Opening,
    /// The conversation is over, and the layer changes the bytes that pass.
    Open,
    /// The conversation is over, and all further bytes pass unchanged. The layer is removed from
    /// its stack. A layer that only prepares the connection ends in this state, for example the
    /// conversation with a proxy.
    PassThrough,
}

/// One layer of one connection.
///
/// "Below" means the socket or the next layer towards the socket. "Above" means the messages or the
/// next layer towards the messages. Each layer has its own errors and limits. A layer must limit
/// what a peer can send before the layer gives any bytes to the layer above.
pub trait Layer: fmt::Debug + Send + Sync {
    /// Returns the name of the layer for errors such as "the TLS handshake took longer than 300
    /// ms".
    fn name(&self) -> &'static str;

    /// Takes all of `bytes` from below. After an error the connection cannot be used.
    /// [`read`](Self::read) still returns the bytes from before the error, and
    /// [`poll_transmit`](Self::poll_transmit) the bytes that report the error to the peer.
    fn handle_received(&mut self, bytes: &[u8]) -> Result<(), Error>;

    /// Moves bytes for the layer above into `buffer`, which is not empty. Returns their number;
    /// zero if there are none now.
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Error>;

    /// Takes bytes from above. Called only while the layer is [open](LayerProgress::Open).
    fn write(&mut self, bytes: &[u8]);

    /// Appends bytes for the layer below. Returns true if there were any. Call this until it
    /// returns false.
    #[must_use]
    fn poll_transmit(&mut self, out: &mut Vec<u8>) -> bool;

    /// Returns the progress of the opening conversation. A layer must not return to
    /// [`LayerProgress::Opening`] afterwards.
    fn progress(&self) -> LayerProgress;

    /// True if the peer announced, in the protocol of the layer, that it sends no more bytes.
    fn peer_closed(&self) -> bool {
        false
    }

    /// True if part of a unit of the layer's protocol, such as a TLS record, was received, and the
    /// rest was not.
    fn is_mid_record(&self) -> bool {
        false
    }

    /// Returns the facts of TLS once its handshake is over; `None` for another layer.
    fn tls_facts(&self) -> Option<TlsFacts> {
        None
    }

    /// Returns a query about the revocation of the server's certificate, if the layer has one that
    /// was not returned before. The layer is [opening](LayerProgress::Opening) until
    /// [`handle_status`](Self::handle_status) has the answer.
    fn poll_status_query(&mut self) -> Option<StatusQuery> {
        None
    }

    /// Takes the answer to a query. After an error the connection cannot be used.
    fn handle_status(&mut self, _id: &CertId, _status: RevocationStatus) -> Result<(), Error> {
        Ok(())
    }

    /// Returns the phase of errors in the opening conversation.
    fn phase(&self) -> Phase {
        Phase::Hello
    }

    /// Returns the error for a connection that was lost during the opening conversation. `error` is
    /// that of the socket. The result can also say when the connection was lost, by whom, and a
    /// likely cause, such as "does the server support TLS?".
    fn describe_loss(&self, error: Error) -> Error {
        error
    }
}

/// Makes a [`Layer`] for each connection of a client.
pub trait LayerPlan: fmt::Debug + Send + Sync {
    /// Returns the layer for a new connection to `address`; `None` if connections to that address
    /// have no such layer.
    fn layer(&self, address: &Address) -> Result<Option<Box<dyn Layer>>, Error>;

    /// Returns the address to dial instead of `server`, such as that of a proxy. `None` for a
    /// server that is dialled itself.
    fn dial_address(&self, _server: &Address) -> Option<&Address> {
        None
    }

    /// True if the layer encrypts the bytes that pass. A server that requires TLS closes a
    /// connection without encryption. If no layer encrypts, the error of a connection that is
    /// closed before the reply to hello therefore mentions TLS.
    fn encrypts(&self) -> bool {
        false
    }

    /// Sets the time of day, by which layers check the validity of certificates.
    fn set_wall_time(&self, _now: WallTime) {}
}

/// The layers that each connection of a client has, the one next to the socket first. Clones share
/// the plans of the layers.
#[derive(Clone, Debug, Default)]
pub struct Layers {
    plans: Vec<Arc<dyn LayerPlan>>,
}

impl Layers {
    /// Adds a layer above the others, next to the messages.
    pub fn push(&mut self, plan: impl LayerPlan + 'static) {
        self.plans.push(Arc::new(plan));
    }

    /// Returns the layers for a new connection to `address`, the lowest first.
    pub(super) fn begin(&self, address: &Address) -> Result<Vec<Box<dyn Layer>>, Error> {
        let layers = self.plans.iter().map(|plan| plan.layer(address));
        layers.filter_map(Result::transpose).collect()
    }

    /// Returns the address to dial instead of `server`: that of the lowest layer that has one.
    pub(super) fn dial_address(&self, server: &Address) -> Option<&Address> {
        self.plans.iter().find_map(|plan| plan.dial_address(server))
    }

    /// True if one of the layers encrypts.
    pub(crate) fn encrypt(&self) -> bool {
        self.plans.iter().any(|plan| plan.encrypts())
    }

    /// Sets the time of day of all layers.
    pub fn set_wall_time(&self, now: WallTime) {
        for plan in &self.plans {
            plan.set_wall_time(now);
        }
    }
}
