//! Late replies, which arrive after their operation has ended.

use super::{Arrival, Awaited, Transport};
use crate::error::Error;
use bson::RawDocument;

/// A late reply, which is recognized by the id of its request. It is dropped as it arrives, so that
/// the buffer does not have to hold a large late reply as a whole.
///
/// A small reply to a request that may open a cursor is read first, because nobody else closes that
/// cursor.
#[derive(Debug)]
pub(crate) struct LateReply {
    awaited: Awaited,
}

impl LateReply {
    /// Returns the late reply to the request with this id. If `is_read`, the reply is read unless
    /// it is large.
    pub(crate) const fn new(request_id: i32, is_read: bool) -> Self {
        let awaited = if is_read {
            Awaited::Small(request_id)
        } else {
            Awaited::Discarded(request_id)
        };
        Self { awaited }
    }

    /// Drops the bytes that have arrived. Calls `read` with the body of a reply that is read.
    /// Returns true once the whole reply was dropped. Fails if the bytes are not the late reply, if
    /// more bytes follow it, or if a layer has ended.
    pub(crate) fn take(
        &mut self,
        transport: &mut Transport,
        mut read: impl FnMut(&RawDocument),
    ) -> Result<bool, Error> {
        loop {
            let length = match transport.next(&mut self.awaited)? {
                Arrival::Pending => return Ok(false),
                Arrival::Dropped => return Ok(true),
                // A small reply has few slices.
                Arrival::Unpacking => continue,
                Arrival::Whole(reply) => {
                    read(reply.body);
                    reply.place.length
                }
            };
            transport.consume(length);
            self.awaited = Awaited::Rest;
        }
    }
}
