//! The reply to a request: in the buffer of its connection, or moved out of it.

use super::Lease;
use crate::connection::Place;
use bson::RawDocument;
use std::ops::Range;

/// A reply that was received.
#[derive(Debug)]
pub(super) enum Received {
    /// The reply lies here in the connection's buffer.
    InPlace(Place),
    /// The program has put this document in place of the reply.
    Replaced(Vec<u8>),
}

impl Received {
    /// Returns the bytes of the reply, which are one document.
    pub(super) fn bytes<'a>(&'a self, lease: &'a Lease) -> Option<&'a [u8]> {
        match self {
            Self::InPlace(place) => lease.transport.body(place),
            Self::Replaced(bytes) => Some(bytes),
        }
    }

    /// Moves a reply out of the connection's buffer.
    pub(super) fn take_from(self, lease: &mut Lease) -> Reply {
        match self {
            Self::InPlace(place) => {
                let (bytes, frame) = lease.transport.take_frame(place.length);
                let body = frame.start + place.body.start..frame.start + place.body.end;
                Reply { bytes, body }
            }
            Self::Replaced(bytes) => {
                let body = 0..bytes.len();
                Reply { bytes, body }
            }
        }
    }

    /// Removes a reply that nobody reads any more from the connection's buffer.
    pub(super) fn drop_from(self, lease: &mut Lease) {
        if let Self::InPlace(place) = self {
            lease.transport.consume(place.length);
        }
    }
}

/// A reply, together with the buffer in which it arrived.
#[derive(Clone, Debug)]
pub struct Reply {
    bytes: Vec<u8>,
    body: Range<usize>,
}

impl Reply {
    /// A reply that is no document.
    pub(super) const EMPTY: Self = Self {
        bytes: Vec::new(),
        body: 0..0,
    };

    /// Returns the reply document.
    #[must_use]
    pub fn document(&self) -> &RawDocument {
        RawDocument::from_bytes(&self.bytes[self.body.clone()])
            .expect("the frame was decoded when it arrived")
    }

    /// Returns the buffer.
    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the offset of the document in the buffer.
    pub(crate) fn body_start(&self) -> usize {
        self.body.start
    }

    #[cfg(test)]
    pub(crate) fn for_test(document: &[u8]) -> Self {
        Self {
            bytes: document.to_vec(),
            body: 0..document.len(),
        }
    }

    /// Returns the buffer, and the range of the document in the buffer.
    #[must_use]
    pub fn into_parts(self) -> (Vec<u8>, Range<usize>) {
        (self.bytes, self.body)
    }
}
