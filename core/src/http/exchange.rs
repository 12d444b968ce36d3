//! The exchange of one request and its response.

use super::{HttpRequest, HttpResponse, response::ResponseReader};
use crate::{
    options::TlsOptions,
    time::WallTime,
    tls::{TlsContext, TlsSession},
};
use std::fmt;
use zeroize::Zeroizing;

/// The number of bytes of plaintext that are taken from TLS at once.
const READ_BYTES: usize = 4096;

/// The exchange of one request and its response on a connection of its own.
///
/// The caller connects a socket to [`HttpRequest::address`]. It writes the bytes of
/// [`poll_transmit`](Self::poll_transmit), at the start and after each input, and passes received
/// bytes to [`handle_received`](Self::handle_received) until that returns true. The caller limits
/// the time.
pub struct HttpExchange {
    tls: Option<Box<TlsSession>>,
    /// The bytes of the request that were not given to the socket or to TLS.
    request: Zeroizing<Vec<u8>>,
    reader: ResponseReader,
}

impl HttpExchange {
    /// Returns the exchange of a request. With the scheme `https`, the certificate of the server is
    /// checked by these options and this calendar time. Then the call fails if the options cannot
    /// be used, if the host cannot be a name in a certificate, or without the feature `tls`.
    pub fn new(request: &HttpRequest, tls: &TlsOptions, wall: WallTime) -> Result<Self, String> {
        let mut bytes = Zeroizing::new(request.encode());
        let mut session = None;
        if request.is_secure() {
            let context = TlsContext::new(tls).map_err(text)?;
            context.set_wall_time(wall);
            let mut tls = TlsSession::new(&context, request.host_name()).map_err(text)?;
            tls.write(&bytes);
            bytes = Zeroizing::default();
            session = Some(Box::new(tls));
        }
        Ok(Self {
            tls: session,
            request: bytes,
            reader: ResponseReader::new(),
        })
    }

    /// Appends the bytes to transmit to `out`. Returns false if there are none.
    #[must_use]
    pub fn poll_transmit(&mut self, out: &mut Vec<u8>) -> bool {
        let before = out.len();
        match &mut self.tls {
            Some(tls) => while tls.poll_transmit(out) {},
            None => {
                out.extend_from_slice(&self.request);
                self.request = Zeroizing::default();
            }
        }
        out.len() > before
    }

    /// Processes received bytes. An empty slice means that the server closed the connection.
    /// Returns true once the response is complete. The error states what is wrong with the
    /// response.
    pub fn handle_received(&mut self, bytes: &[u8]) -> Result<bool, String> {
        if bytes.is_empty() {
            if self.tls.as_ref().is_some_and(|tls| !tls.peer_closed()) {
                // Without the close_notify, an attacker may have cut the response.
                return Err("the connection was closed before the response was complete".into());
            }
            return self.reader.handle_closed().map(|()| true);
        }
        let Some(tls) = &mut self.tls else {
            return self.reader.handle_received(bytes);
        };
        tls.handle_received(bytes).map_err(text)?;
        let mut buffer = Zeroizing::new([0; READ_BYTES]);
        let mut is_complete = false;
        while !is_complete {
            let count = tls.read(&mut *buffer).map_err(text)?;
            if count == 0 {
                break;
            }
            is_complete = self.reader.handle_received(&buffer[..count])?;
        }
        if !is_complete && tls.peer_closed() {
            return self.reader.handle_closed().map(|()| true);
        }
        Ok(is_complete)
    }

    /// Returns the response, once it is complete.
    #[must_use]
    pub fn into_response(self) -> HttpResponse {
        self.reader.into_response()
    }
}

impl fmt::Debug for HttpExchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpExchange").finish_non_exhaustive()
    }
}

fn text(error: crate::error::Error) -> String {
    error.to_string()
}
