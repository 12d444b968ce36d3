//! The server's side of a connection with TLS.

use super::*;
use rustls::ServerConnection;
use std::io::Read;

/// The server's side of one connection.
pub(super) struct Peer {
    pub(super) tls: ServerConnection,
    pub(super) requests: FrameDecoder,
    /// The error with which the server's TLS connection ended.
    pub(super) failure: Option<rustls::Error>,
    /// True once the `close_notify` of the client arrived.
    pub(super) is_closed: bool,
}

impl Peer {
    /// Receives ciphertext from the client.
    pub(super) fn receive(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() && self.failure.is_none() {
            self.tls.read_tls(&mut bytes).expect("room");
            match self.tls.process_new_packets() {
                Ok(state) => self.is_closed |= state.peer_has_closed(),
                Err(error) => self.failure = Some(error),
            }
            let mut plain = Vec::new();
            let _blocked = self.tls.reader().read_to_end(&mut plain);
            self.requests.extend(&plain);
        }
    }

    /// Returns the id of the next request.
    pub(super) fn request(&mut self) -> Option<i32> {
        let (header, _) = self.requests.frame().expect("a message")?;
        self.requests.consume(header.length);
        Some(header.request_id)
    }

    pub(super) fn reply(&mut self, request: i32, body: &RawDocument) {
        let mut bytes = Vec::new();
        MessageWriter::begin(&mut bytes, 1, request)
            .body(body)
            .end();
        self.tls.writer().write_all(&bytes).expect("room");
    }

    /// Gives the server an invalid record. Its TLS connection fails and sends an alert.
    pub(super) fn fail_with_alert(&mut self) {
        let garbage = [
            0x17, 3, 3, 0, 20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        ];
        self.receive(&garbage);
        assert!(self.failure.is_some());
    }

    /// Returns the bytes that are to be sent to the client.
    pub(super) fn output(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        while self.tls.wants_write() {
            self.tls.write_tls(&mut bytes).expect("a vector");
        }
        bytes
    }
}
