//! The layers between a socket and whole messages: TLS where it is wanted, frames above it.

use crate::{
    error::{Error, ErrorKind, TlsFault},
    tls::TlsSession,
    wire::{FrameDecoder, Header, WireError},
};

use super::closed_by_peer;
use std::fmt;

/// Room for ciphertext of one read: a full TLS record and its header.
const CIPHER_BYTES: usize = 16 * 1024 + 512;

/// An output buffer larger than this is given back to the allocator once it was sent.
const MAX_IDLE_OUTPUT_BYTES: usize = 4096;

/// Largest message that is accepted before a server has said who it is, and from monitored servers
/// ever: a hello reply of many members and tags has some tens of kilobytes.
const MAX_HANDSHAKE_MESSAGE_BYTES: usize = 256 * 1024;

/// Bytes that a peer may send after the handshake of TLS without any data among them. Session
/// tickets and new keys have some hundreds of bytes, a record of data has 16 KiB at most.
const MAX_TLS_BYTES_WITHOUT_DATA: usize = 64 * 1024;

/// The same for the whole handshake, certificates included.
const MAX_TLS_HANDSHAKE_BYTES: usize = 256 * 1024;

/// True for a peer that keeps the client busy with TLS's own messages.
const fn is_flood(bytes_without_data: usize, is_handshaking: bool) -> bool {
    bytes_without_data
        > if is_handshaking {
            MAX_TLS_HANDSHAKE_BYTES
        } else {
            MAX_TLS_BYTES_WITHOUT_DATA
        }
}

/// Turns messages into bytes for the socket and bytes from the socket into messages.
///
/// To send: append a message with [`send`](Self::send), then write [`output`](Self::output) and say
/// how much went out with [`sent`](Self::sent). To receive: read into [`input`](Self::input), say
/// how much came with [`received`](Self::received), then ask for a [`frame`](Self::frame).
pub struct Transport {
    tls: Option<Tls>,
    decoder: FrameDecoder,
    output: Vec<u8>,
    sent: usize,
}

struct Tls {
    session: Box<TlsSession>,
    /// Ciphertext of the current read; empty while idle.
    cipher: Vec<u8>,
    /// The plain message before it is encrypted; empty while idle.
    plain: Vec<u8>,
    /// Bytes that came since the last data: parts of records, and messages of TLS's own.
    without_data: usize,
    /// Why no more will come from the peer; told once all that came before was taken.
    end: Option<Error>,
}

/// Buffers may hold secrets, so only their sizes are shown.
impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transport")
            .field("tls", &self.tls.is_some())
            .field("output_bytes", &self.output().len())
            .finish_non_exhaustive()
    }
}

impl Transport {
    /// A transport over a fresh socket, encrypted if there is a session.
    #[must_use]
    pub fn new(session: Option<TlsSession>) -> Self {
        let tls = session.map(|session| Tls {
            session: Box::new(session),
            cipher: Vec::new(),
            plain: Vec::new(),
            without_data: 0,
            end: None,
        });
        let mut transport = Self {
            tls,
            decoder: FrameDecoder::new(),
            output: Vec::new(),
            sent: 0,
        };
        transport.flush_tls();
        transport
    }

    /// The same for a peer that is not trusted with large messages yet.
    pub(super) fn for_handshake(session: Option<TlsSession>) -> Self {
        let mut transport = Self::new(session);
        transport.set_max_bytes(MAX_HANDSHAKE_MESSAGE_BYTES);
        transport
    }

    /// Sets the largest message that is accepted from the peer.
    pub fn set_max_bytes(&mut self, bytes: usize) {
        self.decoder.set_max_bytes(bytes);
    }

    /// True until TLS, if wanted, is agreed on.
    #[must_use]
    pub fn is_handshaking(&self) -> bool {
        self.tls
            .as_ref()
            .is_some_and(|tls| tls.session.is_handshaking())
    }

    /// Queues the messages that `write` appends to the buffer it is given.
    pub fn send<T>(&mut self, write: impl FnOnce(&mut Vec<u8>) -> T) -> T {
        match &mut self.tls {
            None => write(&mut self.output),
            Some(tls) => {
                let result = write(&mut tls.plain);
                tls.session.write(&tls.plain);
                tls.plain.clear();
                tls.plain.shrink_to(MAX_IDLE_OUTPUT_BYTES);
                self.flush_tls();
                result
            }
        }
    }

    /// What is to be written to the socket.
    #[must_use]
    pub fn output(&self) -> &[u8] {
        &self.output[self.sent..]
    }

    /// Says that the first `count` bytes of [`output`](Self::output) were written.
    pub fn sent(&mut self, count: usize) {
        self.sent += count;
        assert!(
            self.sent <= self.output.len(),
            "more was sent than there was"
        );
        if self.sent == self.output.len() {
            self.sent = 0;
            self.output.clear();
            self.output.shrink_to(MAX_IDLE_OUTPUT_BYTES);
        }
    }

    /// Room for the next read. Never empty.
    pub fn input(&mut self) -> Result<&mut [u8], WireError> {
        match &mut self.tls {
            None => self.decoder.spare(),
            Some(tls) => {
                tls.cipher.resize(CIPHER_BYTES, 0);
                Ok(&mut tls.cipher)
            }
        }
    }

    /// Says that the first `count` bytes of [`input`](Self::input) were filled. What TLS has to say
    /// about them, [`frame`](Self::frame) tells.
    pub fn received(&mut self, count: usize) -> Result<(), Error> {
        let Some(tls) = &mut self.tls else {
            self.decoder.filled(count);
            return Ok(());
        };
        let result = tls.session.handle_received(&tls.cipher[..count]);
        self.drain_tls(count, result)
    }

    /// Takes in bytes that were read into a buffer of the caller's.
    pub fn receive(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let Some(tls) = &mut self.tls else {
            self.decoder.extend(bytes);
            return Ok(());
        };
        let result = tls.session.handle_received(bytes);
        self.drain_tls(bytes.len(), result)
    }

    /// The next whole message, or `None` until it is there; the same until it is consumed. An error
    /// if it will never be there, because the peer ended TLS.
    pub fn frame(&self) -> Result<Option<(Header, &[u8])>, Error> {
        let frame = self.decoder.frame()?;
        if frame.is_none() {
            self.ended()?;
        }
        Ok(frame)
    }

    /// An error if the peer ended TLS: by `close_notify`, by a fatal alert, or by a record that is
    /// not valid. What it sent before may still be there.
    pub fn ended(&self) -> Result<(), Error> {
        match self.tls.as_ref().and_then(|tls| tls.end.as_ref()) {
            Some(error) => Err(error.clone()),
            None => Ok(()),
        }
    }

    /// Drops the message that [`frame`](Self::frame) gave.
    pub fn consume(&mut self, length: usize) {
        self.decoder.consume(length);
    }

    /// Moves a whole message out; the range says where in the buffer it stands.
    pub fn take_frame(&mut self, length: usize) -> (Vec<u8>, std::ops::Range<usize>) {
        self.decoder.take_frame(length)
    }

    /// True if the peer sent bytes that no message asked for, or part of a message, or ended TLS.
    #[must_use]
    pub fn has_input(&self) -> bool {
        !self.decoder.is_empty() || self.decoder.is_skipping() || self.ended().is_err()
    }

    /// True if part of a TLS record is there, and the rest is on its way.
    #[must_use]
    pub fn is_mid_record(&self) -> bool {
        self.tls
            .as_ref()
            .is_some_and(|tls| tls.session.is_mid_record())
    }

    /// The decoder, to throw away a message as it arrives.
    pub(super) fn decoder(&mut self) -> &mut FrameDecoder {
        &mut self.decoder
    }

    /// Takes what TLS still has to say on a connection that is given up.
    pub(crate) fn take_farewell(&mut self) -> Vec<u8> {
        if self.tls.is_none() {
            return Vec::new();
        }
        let bytes = self.output().to_vec();
        self.sent(bytes.len());
        bytes
    }

    /// Takes back what was queued and of which nothing was written; false if that cannot be. What
    /// TLS has encrypted has to be sent: the peer counts its records.
    pub fn unsend(&mut self) -> bool {
        if self.tls.is_some() || self.sent > 0 || self.output.is_empty() {
            return false;
        }
        self.output.clear();
        self.output.shrink_to(MAX_IDLE_OUTPUT_BYTES);
        true
    }

    /// Frees what an idle connection does not need.
    pub fn rest(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.cipher = Vec::new();
            tls.plain = Vec::new();
        }
    }

    /// Frees every buffer that holds nothing, for a connection that is used every few seconds.
    pub fn free(&mut self) {
        self.rest();
        self.decoder.free();
        if self.output().is_empty() {
            self.sent = 0;
            self.output = Vec::new();
        }
    }

    fn flush_tls(&mut self) {
        if let Some(tls) = &mut self.tls {
            while tls.session.poll_transmit(&mut self.output) {}
        }
    }

    /// Takes over what TLS made of bytes that it was given: plaintext, answers, its end.
    fn drain_tls(&mut self, received: usize, result: Result<(), Error>) -> Result<(), Error> {
        // After an error this is the alert that says why.
        self.flush_tls();
        let Some(tls) = &mut self.tls else {
            return Ok(());
        };
        if let Err(error) = result {
            tls.end = Some(error);
        } else if tls.session.peer_closed() && tls.end.is_none() {
            tls.end = Some(closed_by_peer());
        }
        tls.without_data += received;
        loop {
            let spare = self.decoder.spare()?;
            let count = tls.session.read(spare)?;
            if count == 0 {
                break;
            }
            tls.without_data = 0;
            self.decoder.filled(count);
        }
        if is_flood(tls.without_data, tls.session.is_handshaking()) && tls.end.is_none() {
            tls.end = Some(Error::new(ErrorKind::Tls {
                fault: TlsFault::Broken,
                message: "the server sends messages of TLS without end, and no data".to_owned(),
            }));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tls_without_data_has_a_bound_that_honest_peers_keep() {
        // A record of data comes in parts; tickets and keys are small; a flood is neither.
        assert!(!is_flood(CIPHER_BYTES + 4096, false));
        assert!(!is_flood(MAX_TLS_BYTES_WITHOUT_DATA, false));
        assert!(is_flood(MAX_TLS_BYTES_WITHOUT_DATA + 1, false));
        assert!(
            !is_flood(MAX_TLS_BYTES_WITHOUT_DATA + 1, true),
            "a long chain"
        );
        assert!(is_flood(MAX_TLS_HANDSHAKE_BYTES + 1, true));
    }
}
