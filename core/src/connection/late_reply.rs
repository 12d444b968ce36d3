//! Replies that arrive after their operation has ended.

use super::{Arrival, Awaited, Transport};
use crate::error::Error;

/// A reply that no operation waits for any more. It is recognised by the number of its request, and
/// dropped as it arrives. It may be as long as messages may be, and its bytes are never held
/// together.
#[derive(Debug)]
pub(crate) struct LateReply {
    awaited: Awaited,
}

impl LateReply {
    /// The reply to the request of this number.
    pub(crate) fn new(request_id: i32) -> Self {
        Self {
            awaited: Awaited::Discarded(request_id),
        }
    }

    /// Drops what arrived. True once the whole reply is gone and nothing else is there; an error if
    /// the bytes are no such reply.
    pub(crate) fn discard(&mut self, transport: &mut Transport) -> Result<bool, Error> {
        let arrival = transport.next(&mut self.awaited)?;
        Ok(matches!(arrival, Arrival::Dropped))
    }
}
