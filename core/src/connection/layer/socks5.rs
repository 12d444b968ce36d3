//! The conversation with a SOCKS5 proxy as a layer.

use super::{Layer, LayerPlan, LayerProgress};
use crate::{
    address::Address,
    connection::Phase,
    error::Error,
    socks5::{Socks5Context, Socks5Conversation},
};

/// Only connections by TCP go through the proxy (SOCKS-11). A Unix domain socket is on the machine
/// of the client, which the proxy cannot reach.
impl LayerPlan for Socks5Context {
    fn layer(&self, address: &Address) -> Result<Option<Box<dyn Layer>>, Error> {
        match address {
            Address::Tcp { host, port } => {
                let conversation = Socks5Conversation::new(self, host, *port)?;
                Ok(Some(Box::new(conversation)))
            }
            Address::Unix { .. } => Ok(None),
        }
    }

    fn dial_address(&self, server: &Address) -> Option<&Address> {
        match server {
            Address::Tcp { .. } => Some(self.proxy()),
            Address::Unix { .. } => None,
        }
    }
}

impl Layer for Socks5Conversation {
    fn name(&self) -> &'static str {
        "SOCKS5"
    }

    fn handle_received(&mut self, bytes: &[u8]) -> Result<(), Error> {
        Self::handle_received(self, bytes)
    }

    fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Error> {
        Ok(Self::read(self, buffer))
    }

    /// Not called, because the layer is never [open](LayerProgress::Open): it is removed when the
    /// conversation is over.
    fn write(&mut self, _bytes: &[u8]) {
        debug_assert!(false, "a layer without a state `Open` gets no bytes");
    }

    fn poll_transmit(&mut self, out: &mut Vec<u8>) -> bool {
        Self::poll_transmit(self, out)
    }

    fn progress(&self) -> LayerProgress {
        if self.is_connected() {
            LayerProgress::PassThrough
        } else {
            LayerProgress::Opening
        }
    }

    fn phase(&self) -> Phase {
        Phase::Proxy
    }

    fn describe_loss(&self, error: Error) -> Error {
        Self::describe_loss(self, error)
    }
}
