//! Late replies, which arrive after their operation has ended.

use super::{Arrival, Awaited, Transport};
use crate::error::Error;

/// A late reply, which is recognized by the id of its request and dropped as it arrives. So the
/// buffer does not have to hold a large late reply as a whole.
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
    /// the bytes are not the late reply, if more bytes follow it, or if a layer has ended.
    pub(crate) fn discard(&mut self, transport: &mut Transport) -> Result<bool, Error> {
        let arrival = transport.next(&mut self.awaited)?;
        Ok(matches!(arrival, Arrival::Dropped))
    }
}
