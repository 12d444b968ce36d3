//! The types of TLS in a build without the Cargo feature `tls`. They have no values.

use crate::ServeOptions;
use std::{io, path::Path};

/// TLS of a deployment, which cannot be created without the Cargo feature `tls`.
pub(crate) enum Tls {}

impl Tls {
    /// Returns an error that names the Cargo feature, if the options ask for TLS.
    pub(crate) fn of(options: &ServeOptions) -> io::Result<Option<Self>> {
        if !options.tls {
            return Ok(None);
        }
        Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "TLS is not available; enable the Cargo feature tls of the crate onionskin-serve",
        ))
    }

    pub(crate) const fn directory(&self) -> &Path {
        match *self {}
    }

    pub(crate) const fn accept(&self) -> Option<TlsSession> {
        match *self {}
    }
}

/// The server side of one TLS connection, which cannot be created without the Cargo feature `tls`.
pub(crate) enum TlsSession {}

impl TlsSession {
    pub(crate) const fn write(&mut self, _plain: &[u8]) -> io::Result<()> {
        match *self {}
    }

    pub(crate) const fn take_output(&mut self) -> Vec<u8> {
        match *self {}
    }

    pub(crate) const fn read(&mut self, _buffer: &mut [u8]) -> io::Result<usize> {
        match *self {}
    }

    pub(crate) const fn push_received(&mut self, _bytes: &[u8]) {
        match *self {}
    }

    pub(crate) const fn advance(&mut self) -> io::Result<bool> {
        match *self {}
    }

    pub(crate) const fn take_subject(&mut self) -> Option<String> {
        match *self {}
    }
}

#[cfg(test)]
mod tests {
    use crate::{Embedded, ServeOptions};

    #[test]
    fn a_deployment_with_tls_does_not_start_and_names_the_feature() {
        let mut options = ServeOptions::standalone();
        options.tls = true;
        let error = Embedded::start(options).expect_err("there is no TLS");
        assert!(error.to_string().contains("feature tls"), "{error}");
    }
}
