//! Late replies, which arrive after their operation has ended.

use super::{Arrival, Awaited, Transport};
use crate::error::Error;

/// A late reply, which is dropped as it arrives. It is recognized by the id of its request. A late
/// reply may have the size of any message, and is never in memory as a whole.
#[derive(Debug)]
pub(crate) struct LateReply {
    awaited: Awaited,
}

impl LateReply {
    /// Returns the late reply to the request with this id.
    pub(crate) fn new(request_id: i32) -> Self {
        Self {
            awaited: Awaited::Discarded(request_id),
        }
    }

    /// Drops the bytes that have arrived. Returns true once the whole reply was dropped. Fails if
    /// the bytes are not the late reply, or if more bytes follow it.
    pub(crate) fn discard(&mut self, transport: &mut Transport) -> Result<bool, Error> {
        let arrival = transport.next(&mut self.awaited)?;
        Ok(matches!(arrival, Arrival::Dropped))
    }
}
