//! The client side of one TLS connection.

use super::{
    CertId, RevocationStatus, StatusQuery, TlsContext, TlsFacts, broken, fault, from_library,
    records::Records, resumption::take_tickets, revocation_check::RevocationCheck,
    verifier::observe,
};
use crate::{
    address::without_zone,
    error::{Error, NetworkFault, Result, TlsFault},
};
use rustls::{ClientConnection, ProtocolVersion, pki_types::ServerName};
use std::{
    fmt,
    io::{self, Read, Write},
};

/// The maximum number of plaintext bytes that are encrypted at once.
const WRITE_CHUNK_BYTES: usize = 64 * 1024;

/// The maximum number of bytes that a peer may send after the handshake without plaintext among
/// them. Session tickets and new keys have some hundreds of bytes, and a record of plaintext has at
/// most 16 KiB.
pub(super) const MAX_BYTES_WITHOUT_DATA: usize = 64 * 1024;

/// The maximum number of tickets for resumption that a peer may send. Servers send one to four. The
/// library copies the chain of certificates for each.
pub(super) const MAX_TICKETS: usize = 16;

/// The maximum number of bytes that a peer may send during the handshake, certificates included.
pub(super) const MAX_HANDSHAKE_BYTES: usize = 256 * 1024;

/// The client side of one TLS connection: a machine between the socket and the protocol above.
///
/// Pass received bytes to [`handle_received`](Self::handle_received), then call
/// [`read`](Self::read) until it returns zero. Pass plaintext to [`write`](Self::write). At the
/// start and after each of these calls, call [`poll_transmit`](Self::poll_transmit) until it
/// returns false.
///
/// The caller bounds the memory of a session, which holds received plaintext until it is read, and
/// written plaintext until it is transmitted. `rustls` limits an incomplete record or handshake
/// message to 64 KiB.
///
/// A peer that sends only messages of TLS itself is refused: after more than 256 KiB during the
/// handshake, and later after more than 64 KiB without plaintext or more than 16 session tickets.
///
/// A stream that ends without the peer's `close_notify` may have been truncated by an attacker. At
/// the end of the stream, call [`peer_closed`](Self::peer_closed) and report an error if it is
/// false. For MongoDB this makes no difference, because its messages state their lengths.
///
/// After the handshake, a session can give a [`StatusQuery`] about the revocation of the server's
/// certificate. The session counts as handshaking, and holds back all plaintext, until
/// [`handle_status`](Self::handle_status) has the answer.
///
/// The client closes its connections without a `close_notify`: nothing can be truncated between
/// messages, and closing must not wait for a peer that does not read.
pub struct TlsSession {
    connection: ClientConnection,
    records: Records,
    status: RevocationCheck,
    /// True if the peer has sent plaintext, and so has accepted the handshake.
    is_established: bool,
    /// The number of bytes received since the last plaintext, or since the start or end of the
    /// handshake: incomplete records, and messages of TLS itself.
    pub(super) without_data: usize,
    /// The number of tickets that the peer sent.
    tickets: usize,
    /// Received plaintext. The bytes before `taken` were read already.
    received: Vec<u8>,
    taken: usize,
    /// Plaintext to be sent. The bytes before `sealed` were encrypted already.
    waiting: Vec<u8>,
    sealed: usize,
    peer_closed: bool,
    /// True after an error or the client's `close_notify`. Plaintext is then no longer accepted or
    /// sent.
    over: bool,
}

impl TlsSession {
    /// Returns a session for a connection to `host`. The peer's certificate must be valid for
    /// `host`, unless the options of `context` switch this check off. Fails if `host` is neither a
    /// host name nor an IP address. The zone of an IPv6 address, which only this machine knows, is
    /// not part of the name.
    pub fn new(context: &TlsContext, host: &str) -> Result<Self> {
        let host = without_zone(host);
        let name = ServerName::try_from(host.to_owned()).map_err(|_| {
            fault(
                TlsFault::HostName,
                format!("{host:?} is no host name that a certificate can be for"),
            )
        })?;
        let mut connection = ClientConnection::new(context.config(), name.clone())
            .map_err(|error| from_library(&error))?;
        // No limit is needed: `seal` encrypts one piece at a time. `close` encrypts all
        // remaining pieces at once, which a limit would prevent.
        connection.set_buffer_limit(None);
        Ok(Self {
            connection,
            records: Records::default(),
            status: RevocationCheck::new(context.clone(), name),
            is_established: false,
            without_data: 0,
            tickets: 0,
            received: Vec::new(),
            taken: 0,
            waiting: Vec::new(),
            sealed: 0,
            peer_closed: false,
            over: false,
        })
    }

    /// Decrypts received bytes. After an error the session cannot be used, but
    /// [`poll_transmit`](Self::poll_transmit) may still give an alert that tells the peer the
    /// reason.
    pub fn handle_received(&mut self, bytes: &[u8]) -> Result<()> {
        let was_handshaking = self.is_handshaking();
        self.without_data += bytes.len();
        let mut result = self.on_ciphertext(bytes);
        if was_handshaking && !self.is_handshaking() {
            self.without_data = 0;
        }
        if result.is_ok() {
            result = self.refuse_flood();
        }
        if result.is_err() {
            self.end();
        }
        result
    }

    /// Moves received plaintext into `buffer`, and returns the number of bytes that were moved.
    /// Zero means that there is no plaintext now.
    pub fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        if self.is_waiting_for_status() {
            return Ok(0);
        }
        let available = &self.received[self.taken..];
        let count = available.len().min(buffer.len());
        buffer[..count].copy_from_slice(&available[..count]);
        self.taken += count;
        if self.taken == self.received.len() {
            self.received.clear();
            self.taken = 0;
        }
        Ok(count)
    }

    /// Takes plaintext, which is sent once the handshake is complete. After an error or
    /// [`close`](Self::close) the plaintext is dropped.
    pub fn write(&mut self, plain: &[u8]) {
        if !self.over {
            self.waiting.extend_from_slice(plain);
        }
    }

    /// Appends ciphertext to be sent: at most about 64 KiB per call, except after
    /// [`close`](Self::close). Returns true if there was any. More can follow then, so call this
    /// until it returns false.
    #[must_use]
    pub fn poll_transmit(&mut self, out: &mut Vec<u8>) -> bool {
        if !self.connection.wants_write() {
            self.seal();
        }
        let before = out.len();
        while self.connection.wants_write() {
            // Writing to a vector does not fail.
            match self.connection.write_tls(out) {
                Ok(count) if count > 0 => {}
                _ => break,
            }
        }
        out.len() > before
    }

    /// Queues `close_notify`, after the plaintext that was written before. Plaintext that waits for
    /// the end of the handshake is dropped.
    #[cfg(any(test, feature = "unstable-machines"))]
    pub fn close(&mut self) {
        while self.seal() {}
        self.connection.send_close_notify();
        self.end();
    }

    /// True until the peer's certificate is accepted, the keys are negotiated, and the answer to
    /// the [status query](Self::poll_status_query) has come.
    #[must_use]
    pub fn is_handshaking(&self) -> bool {
        self.connection.is_handshaking() || self.status.status().is_none()
    }

    /// True if the handshake is over, and the answer to the status query has not come.
    pub(crate) fn is_waiting_for_status(&self) -> bool {
        !self.connection.is_handshaking() && self.is_handshaking()
    }

    /// Returns the query about the revocation of the server's certificate, if there is one that
    /// was not returned before. A session can give one after the last bytes of the handshake.
    pub fn poll_status_query(&mut self) -> Option<StatusQuery> {
        self.status.take_query()
    }

    /// Takes the answer to a status query. The status of another certificate is ignored. Fails if
    /// the certificate was revoked, after which the session cannot be used.
    pub fn handle_status(&mut self, id: &CertId, status: RevocationStatus) -> Result<()> {
        let result = self.status.handle_status(id, status);
        if result.is_err() {
            self.end();
        } else if !self.is_handshaking() {
            self.without_data = 0;
        }
        result
    }

    /// Returns what the handshake has agreed on; `None` before its end.
    pub(crate) fn facts(&self) -> Option<TlsFacts> {
        if self.connection.is_handshaking() {
            return None;
        }
        let revocation = self.status.status()?;
        let version = match self.connection.protocol_version()? {
            ProtocolVersion::TLSv1_2 => "TLS 1.2".to_owned(),
            ProtocolVersion::TLSv1_3 => "TLS 1.3".to_owned(),
            other => format!("{other:?}"),
        };
        let cipher = self.connection.negotiated_cipher_suite()?.suite();
        let certificates = self.connection.peer_certificates().unwrap_or_default();
        Some(TlsFacts {
            version,
            cipher_suite: cipher.as_str().unwrap_or("unknown").to_owned(),
            certificates: certificates.iter().map(|der| der.to_vec()).collect(),
            revocation,
        })
    }

    /// True if the peer sent `close_notify`, after which it sends no more bytes.
    #[must_use]
    pub const fn peer_closed(&self) -> bool {
        self.peer_closed
    }

    /// True if the last record was received only in part.
    #[must_use]
    pub(crate) const fn is_mid_record(&self) -> bool {
        self.records.is_mid_record()
    }

    fn on_ciphertext(&mut self, bytes: &[u8]) -> Result<()> {
        self.records.pass(bytes);
        let mut rest = bytes;
        while !rest.is_empty() && !self.peer_closed {
            let too_large = if self.is_established {
                TlsFault::Broken
            } else {
                TlsFault::Handshake
            };
            let count = self.connection.read_tls(&mut rest).map_err(|error| {
                // The buffer of `rustls` is full although it was emptied, because one message is
                // too large.
                fault(too_large, error.to_string())
            })?;
            let connection = &mut self.connection;
            let _of_other_sessions = take_tickets();
            let state = if connection.is_handshaking() {
                let (state, found) = observe(|| connection.process_new_packets());
                self.status.note(found);
                state
            } else {
                connection.process_new_packets()
            };
            self.tickets += take_tickets();
            let state = match state {
                Ok(state) => state,
                Err(error) => {
                    let revoked = self.status.handle_failed();
                    self.status.advance(&self.connection)?;
                    // Plaintext before the faulty record or the alert is valid.
                    self.keep_rest()?;
                    return Err(match revoked {
                        Some(revoked) => revoked,
                        None if self.is_established => broken(&error),
                        None => from_library(&error),
                    });
                }
            };
            let (plaintext, peer_closed) =
                (state.plaintext_bytes_to_read(), state.peer_has_closed());
            self.status.advance(&self.connection)?;
            self.keep(plaintext)?;
            self.peer_closed = peer_closed;
            if count == 0 {
                break;
            }
        }
        Ok(())
    }

    /// Fails if a peer sends too many tickets, or too many bytes without plaintext among them.
    fn refuse_flood(&self) -> Result<()> {
        if self.tickets > MAX_TICKETS {
            let message = format!("the server sent more than {MAX_TICKETS} session tickets");
            return Err(fault(TlsFault::Broken, message));
        }
        let max = if self.is_handshaking() {
            MAX_HANDSHAKE_BYTES
        } else {
            MAX_BYTES_WITHOUT_DATA
        };
        if self.without_data <= max || self.peer_closed {
            return Ok(());
        }
        let message = "the server sent too many TLS messages without data";
        Err(fault(TlsFault::Broken, message))
    }

    fn end(&mut self) {
        self.over = true;
        self.waiting = Vec::new();
        self.sealed = 0;
    }

    /// Moves `count` bytes of plaintext from the small buffer of `rustls` into `received`.
    fn keep(&mut self, count: usize) -> Result<()> {
        if count > 0 {
            self.is_established = true;
            // Until the status is known, the plaintext is kept, and so counts.
            if !self.is_handshaking() {
                self.without_data = 0;
            }
        }
        let start = self.received.len();
        self.received.resize(start + count, 0);
        let mut reader = self.connection.reader();
        reader
            .read_exact(&mut self.received[start..])
            .map_err(|error| Error::network(NetworkFault::Other, error.to_string()))
    }

    /// Moves all remaining plaintext into `received`. Needed after an error, because `rustls` then
    /// does not report the length of the plaintext.
    fn keep_rest(&mut self) -> Result<()> {
        let before = self.received.len();
        match self.connection.reader().read_to_end(&mut self.received) {
            Ok(_) => {}
            // This error marks the end of the plaintext if the peer has not sent `close_notify`.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(Error::network(NetworkFault::Other, error.to_string())),
        }
        self.is_established |= self.received.len() > before;
        Ok(())
    }

    /// Encrypts the next piece of the plaintext to be sent. False if there is none, or before the
    /// end of the handshake.
    fn seal(&mut self) -> bool {
        if self.is_handshaking() || self.sealed == self.waiting.len() {
            return false;
        }
        let end = self.waiting.len().min(self.sealed + WRITE_CHUNK_BYTES);
        let piece = &self.waiting[self.sealed..end];
        let Ok(count) = self.connection.writer().write(piece) else {
            return false;
        };
        self.sealed += count;
        if self.sealed == self.waiting.len() {
            // The memory of a large message is freed.
            self.waiting = Vec::new();
            self.sealed = 0;
        }
        count > 0
    }
}

impl fmt::Debug for TlsSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsSession")
            .field("handshaking", &self.is_handshaking())
            .field("peer_closed", &self.peer_closed)
            .finish_non_exhaustive()
    }
}
