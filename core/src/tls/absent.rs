//! The types of TLS in a build without the Cargo feature `tls`. They have no values.

use super::{CertId, OcspStatement, RevocationStatus, TlsFacts};
use crate::{
    error::{Error, Result},
    options::TlsOptions,
    time::WallTime,
};

/// The TLS configuration of a client, which cannot be created without the Cargo feature `tls`.
#[derive(Clone, Debug)]
pub enum TlsContext {}

impl TlsContext {
    /// Returns an error that names the Cargo feature.
    pub fn new(_options: &TlsOptions) -> Result<Self> {
        Err(Error::invalid_option(
            "tls",
            "TLS is not available; enable the Cargo feature tls, and the feature ring or \
                      aws-lc-rs",
        ))
    }

    pub(crate) const fn with_status_queries(self) -> Self {
        self
    }

    pub(crate) const fn set_wall_time(&self, _now: WallTime) {
        match *self {}
    }
}

/// The client side of one TLS connection, which cannot be created without the Cargo feature `tls`.
#[derive(Debug)]
pub enum TlsSession {}

impl TlsSession {
    pub(crate) const fn new(context: &TlsContext, _host: &str) -> Result<Self> {
        match *context {}
    }

    pub(crate) const fn handle_received(&mut self, _bytes: &[u8]) -> Result<()> {
        match *self {}
    }

    pub(crate) const fn read(&mut self, _buffer: &mut [u8]) -> Result<usize> {
        match *self {}
    }

    pub(crate) const fn write(&mut self, _plain: &[u8]) {
        match *self {}
    }

    pub(crate) const fn poll_transmit(&mut self, _out: &mut Vec<u8>) -> bool {
        match *self {}
    }

    pub(crate) const fn is_handshaking(&self) -> bool {
        match *self {}
    }

    pub(crate) const fn facts(&self) -> Option<TlsFacts> {
        match *self {}
    }

    pub(crate) const fn peer_closed(&self) -> bool {
        match *self {}
    }

    pub(crate) const fn is_mid_record(&self) -> bool {
        match *self {}
    }
    pub(crate) const fn poll_status_query(&mut self) -> Option<StatusQuery> {
        match *self {}
    }

    pub(crate) const fn handle_status(
        &mut self,
        _id: &CertId,
        _status: RevocationStatus,
    ) -> Result<()> {
        match *self {}
    }

    pub(crate) const fn is_waiting_for_status(&self) -> bool {
        match *self {}
    }
}

/// The question about the status of a certificate, which no build without the Cargo feature `tls`
/// asks.
#[derive(Clone, Debug)]
pub struct StatusQuery(Never);

#[derive(Clone, Debug)]
enum Never {}

impl StatusQuery {
    pub(crate) const fn id(&self) -> &CertId {
        match self.0 {}
    }

    pub(crate) const fn responders(&self) -> &[String] {
        match self.0 {}
    }

    pub(crate) const fn request(&self) -> Vec<u8> {
        match self.0 {}
    }

    pub(crate) const fn staple(&self) -> Option<&OcspStatement> {
        match self.0 {}
    }

    pub(crate) const fn is_covered(&self) -> bool {
        match self.0 {}
    }

    pub(crate) const fn unix_seconds(&self) -> Option<u64> {
        match self.0 {}
    }

    pub(crate) const fn read(
        &self,
        _response: &[u8],
    ) -> std::result::Result<OcspStatement, String> {
        match self.0 {}
    }
}
