//! TLS as a layer.

use super::{Layer, LayerPlan, LayerProgress};
use crate::{
    address::Address,
    connection::types::lost_early,
    error::Error,
    time::WallTime,
    tls::{CertId, RevocationStatus, StatusQuery, TlsContext, TlsFacts, TlsSession},
};

impl LayerPlan for TlsContext {
    fn layer(&self, address: &Address) -> Result<Option<Box<dyn Layer>>, Error> {
        Ok(Some(Box::new(TlsSession::new(self, address.host())?)))
    }

    fn encrypts(&self) -> bool {
        true
    }

    fn set_wall_time(&self, now: WallTime) {
        Self::set_wall_time(self, now);
    }
}

impl Layer for TlsSession {
    fn name(&self) -> &'static str {
        "TLS"
    }

    fn handle_received(&mut self, bytes: &[u8]) -> Result<(), Error> {
        Self::handle_received(self, bytes)
    }

    fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Error> {
        Self::read(self, buffer)
    }

    fn write(&mut self, bytes: &[u8]) {
        Self::write(self, bytes);
    }

    fn poll_transmit(&mut self, out: &mut Vec<u8>) -> bool {
        Self::poll_transmit(self, out)
    }

    fn progress(&self) -> LayerProgress {
        if self.is_handshaking() {
            LayerProgress::Opening
        } else {
            LayerProgress::Open
        }
    }

    fn peer_closed(&self) -> bool {
        Self::peer_closed(self)
    }

    fn is_mid_record(&self) -> bool {
        Self::is_mid_record(self)
    }

    fn tls_facts(&self) -> Option<TlsFacts> {
        Self::facts(self)
    }

    fn poll_status_query(&mut self) -> Option<StatusQuery> {
        Self::poll_status_query(self)
    }

    fn handle_status(&mut self, id: &CertId, status: RevocationStatus) -> Result<(), Error> {
        Self::handle_status(self, id, status)
    }

    fn describe_loss(&self, error: Error) -> Error {
        if self.is_waiting_for_status() {
            return error;
        }
        lost_early(error, "in the TLS handshake; does the server support TLS?")
    }
}
