//! The failures of single lookups.

use super::{Sent, Transport, Zone, faults::framed};
use hickory_proto::op::ResponseCode;
use std::fmt;

/// The failure of one lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LookupFailure {
    /// There is no answer.
    Unanswered,
    /// The name server fails (SERVFAIL).
    Failed,
    /// The answer is truncated, also over TCP.
    Truncated,
    /// The answer has no records.
    Empty,
}

impl LookupFailure {
    /// Returns the datagram that arrives after a query over UDP, or the bytes of the stream over
    /// TCP; nothing if there is no answer.
    ///
    /// ```
    /// use onionskin_deployment::names::{LookupFailure, Transport, Zone};
    ///
    /// // The query for the A records of a.test.
    /// let query = b"\0\x07\x01\0\0\x01\0\0\0\0\0\0\x01a\x04test\0\0\x01\0\x01";
    /// let zone = &mut Zone::default();
    /// let sent = LookupFailure::Failed.replies(zone, query, Transport::Udp);
    /// assert_eq!(sent[0].bytes[3] & 0xf, 2);
    /// assert!(LookupFailure::Unanswered.replies(zone, query, Transport::Udp).is_empty());
    /// ```
    #[must_use]
    pub fn replies(self, zone: &mut Zone, query: &[u8], transport: Transport) -> Vec<Sent> {
        let Some(mut reply) = zone.message(query, transport) else {
            return Vec::new();
        };
        reply.answers.clear();
        reply.metadata.truncation = self == Self::Truncated;
        reply.metadata.response_code = match self {
            Self::Unanswered => return Vec::new(),
            Self::Failed => ResponseCode::ServFail,
            Self::Truncated | Self::Empty => ResponseCode::NoError,
        };
        let bytes = reply.to_vec().unwrap_or_default();
        vec![Sent::new(framed(bytes, transport))]
    }
}

impl fmt::Display for LookupFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unanswered => "without an answer",
            Self::Failed => "with SERVFAIL",
            Self::Truncated => "with a truncated answer",
            Self::Empty => "with an empty answer",
        })
    }
}
