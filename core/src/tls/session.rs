//! One TLS connection.

use super::{TlsContext, broken, fault, from_library, records::Records};
use crate::error::{Error, NetworkFault, Result, TlsFault};
use rustls::{ClientConnection, pki_types::ServerName};
use std::{
    fmt,
    io::{self, Read, Write},
};

/// Most bytes of plaintext that are made into records at once.
const WRITE_CHUNK_BYTES: usize = 64 * 1024;

/// Bytes that a peer may send after the handshake without any plaintext among them. Session tickets
/// and new keys have some hundreds of bytes, a record of plaintext has 16 KiB at most.
pub(super) const MAX_BYTES_WITHOUT_DATA: usize = 64 * 1024;

/// Bytes that a peer may send during the handshake, certificates included.
pub(super) const MAX_HANDSHAKE_BYTES: usize = 256 * 1024;

/// The client's side of one TLS connection, between a socket and the protocol above.
///
/// Give it what the socket received, then [`read`](Self::read) until there is nothing more; `write`
/// what is to be sent, then [`poll_transmit`](Self::poll_transmit) until it gives nothing more.
///
/// What it holds is bounded by what its user gives it: plaintext that came in is never longer than
/// the ciphertext that was given since the last complete `read`, what waits to go out is what was
/// written and not transmitted yet, and half a record or half a handshake message from the peer is
/// limited by the library to 64 KiB. A peer that keeps the client busy with TLS's own messages is
/// refused: after 256 KiB during the handshake, after 64 KiB without plaintext later.
///
/// A stream that ends without the peer's `close_notify` was cut off: a user that sees the end of
/// the stream asks [`peer_closed`](Self::peer_closed) and reports an error if that is false. For
/// MongoDB's messages, which state their lengths, both ends mean the same.
///
/// The client itself closes its connections without a `close_notify`, as MongoDB drivers do:
/// between messages nothing can be cut off, and closing must not wait for a peer that does not
/// read. An alert that says why the client gives a connection up is sent as far as the socket takes
/// it at once.
pub struct TlsSession {
    connection: ClientConnection,
    records: Records,
    /// True once the peer has sent plaintext: it has accepted the handshake.
    is_established: bool,
    /// Bytes that came since the last plaintext, or since the handshake began or ended: parts of
    /// records, and TLS's own messages.
    pub(super) without_data: usize,
    /// Plaintext that was received; what lies before `taken` was read already.
    received: Vec<u8>,
    taken: usize,
    /// Plaintext to be sent; what lies before `sealed` was made into records already.
    waiting: Vec<u8>,
    sealed: usize,
    peer_closed: bool,
    /// True after an error or the client's `close_notify`: plaintext is no longer taken or sent.
    over: bool,
}

impl TlsSession {
    /// Begins a connection to `host`, a name or an IP literal, which the peer's certificate must
    /// be for.
    pub fn new(context: &TlsContext, host: &str) -> Result<Self> {
        let name = ServerName::try_from(host.to_owned()).map_err(|_| {
            fault(
                TlsFault::HostName,
                format!("{host:?} is no host name that a certificate can be for"),
            )
        })?;
        let mut connection =
            ClientConnection::new(context.config(), name).map_err(|error| from_library(&error))?;
        // `seal` makes few records at a time. `close` makes the last ones at once.
        connection.set_buffer_limit(None);
        Ok(Self {
            connection,
            records: Records::default(),
            is_established: false,
            without_data: 0,
            received: Vec::new(),
            taken: 0,
            waiting: Vec::new(),
            sealed: 0,
            peer_closed: false,
            over: false,
        })
    }

    /// Takes ciphertext, all of it. After an error the connection is of no use; what
    /// [`poll_transmit`](Self::poll_transmit) still gives tells the peer why.
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

    /// Moves plaintext into `buffer`; the count is zero if there is none now.
    pub fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
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

    /// Takes plaintext to be sent, as soon as the handshake is over. After an error or
    /// [`close`](Self::close) it is dropped.
    pub fn write(&mut self, plain: &[u8]) {
        if !self.over {
            self.waiting.extend_from_slice(plain);
        }
    }

    /// Appends ciphertext that is to be sent, some 64 KiB at a time. True if there was any, and
    /// then there may be more.
    #[must_use]
    pub fn poll_transmit(&mut self, out: &mut Vec<u8>) -> bool {
        if !self.connection.wants_write() {
            self.seal();
        }
        let before = out.len();
        while self.connection.wants_write() {
            // A vector takes everything.
            match self.connection.write_tls(out) {
                Ok(count) if count > 0 => {}
                _ => break,
            }
        }
        out.len() > before
    }

    /// Sends `close_notify`. Plaintext that was written before is sent first, unless the handshake
    /// is not over yet.
    pub fn close(&mut self) {
        while self.seal() {}
        self.connection.send_close_notify();
        self.end();
    }

    /// True until the peer's certificate was accepted and keys are agreed on.
    #[must_use]
    pub fn is_handshaking(&self) -> bool {
        self.connection.is_handshaking()
    }

    /// True if the peer sent `close_notify`: no more bytes will come.
    #[must_use]
    pub const fn peer_closed(&self) -> bool {
        self.peer_closed
    }

    /// True if the last record that was received is not whole yet.
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
                // The library's buffer is full although it was emptied: one message too large.
                fault(too_large, error.to_string())
            })?;
            let state = match self.connection.process_new_packets() {
                Ok(state) => state,
                Err(error) => {
                    // What came before the wrong record, or before the alert, counts.
                    self.keep_rest()?;
                    return Err(if self.is_established {
                        broken(&error)
                    } else {
                        from_library(&error)
                    });
                }
            };
            self.keep(state.plaintext_bytes_to_read())?;
            self.peer_closed = state.peer_has_closed();
            if count == 0 {
                break;
            }
        }
        Ok(())
    }

    /// Refuses a peer that sends TLS's own messages without end.
    fn refuse_flood(&self) -> Result<()> {
        let max = if self.is_handshaking() {
            MAX_HANDSHAKE_BYTES
        } else {
            MAX_BYTES_WITHOUT_DATA
        };
        if self.without_data <= max || self.peer_closed {
            return Ok(());
        }
        let message = "the server sends messages of TLS without end, and no data";
        Err(fault(TlsFault::Broken, message))
    }

    fn end(&mut self) {
        self.over = true;
        self.waiting = Vec::new();
        self.sealed = 0;
    }

    /// Moves plaintext from the library's buffer, which is small, into our own.
    fn keep(&mut self, count: usize) -> Result<()> {
        if count > 0 {
            self.is_established = true;
            self.without_data = 0;
        }
        let start = self.received.len();
        self.received.resize(start + count, 0);
        let mut reader = self.connection.reader();
        reader
            .read_exact(&mut self.received[start..])
            .map_err(|error| Error::network(NetworkFault::Other, error.to_string()))
    }

    /// Moves plaintext after an error, when the library does not say how much there is.
    fn keep_rest(&mut self) -> Result<()> {
        let before = self.received.len();
        match self.connection.reader().read_to_end(&mut self.received) {
            Ok(_) => {}
            // No more plaintext, if the peer has not sent `close_notify`.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(Error::network(NetworkFault::Other, error.to_string())),
        }
        self.is_established |= self.received.len() > before;
        Ok(())
    }

    /// Makes records of the next piece of the plaintext that waits. False if none waits.
    fn seal(&mut self) -> bool {
        if self.connection.is_handshaking() || self.sealed == self.waiting.len() {
            return false;
        }
        let end = self.waiting.len().min(self.sealed + WRITE_CHUNK_BYTES);
        let piece = &self.waiting[self.sealed..end];
        let Ok(count) = self.connection.writer().write(piece) else {
            return false;
        };
        self.sealed += count;
        if self.sealed == self.waiting.len() {
            // A buffer that held a large message is not kept.
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
