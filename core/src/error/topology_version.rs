//! The field `topologyVersion` of replies.

use super::pick;
use bson::{RawDocument, oid::ObjectId};

/// The maximum size in bytes of `topologyVersion`; a longer one counts as absent. Servers send 45
/// bytes.
const MAX_VERSION_BYTES: usize = 256;

/// The process that sent a reply, and the number of its state changes so far. Servers send both in
/// the field `topologyVersion` ([SDAM-55]).
///
/// [SDAM-55]: crate::requirements::discovery#SDAM-55
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopologyVersion {
    /// An id of the server process, which changes when the process restarts.
    pub process_id: ObjectId,
    /// The number of state changes of that process.
    pub counter: i64,
}

impl TopologyVersion {
    /// Reads the `topologyVersion` field of a reply. Returns `None` if it is absent, malformed or
    /// too large.
    ///
    /// ```
    /// use bson::{oid::ObjectId, rawdoc};
    /// use onionskin_core::error::TopologyVersion;
    ///
    /// let process_id = ObjectId::from_bytes([1; 12]);
    /// let version = rawdoc! { "processId": process_id, "counter": 6_i64 };
    /// let version = TopologyVersion::from_reply(&rawdoc! { "topologyVersion": version });
    /// assert_eq!(version, Some(TopologyVersion { process_id, counter: 6 }));
    /// ```
    #[must_use]
    pub fn from_reply(reply: &RawDocument) -> Option<Self> {
        let [version] = pick(reply, ["topologyVersion"]);
        Self::from_document(version?.as_document()?)
    }

    /// Reads a `topologyVersion` document. Returns `None` if it is malformed or too large.
    ///
    /// ```
    /// use bson::rawdoc;
    /// use onionskin_core::error::TopologyVersion;
    ///
    /// assert_eq!(TopologyVersion::from_document(&rawdoc! { "counter": 6_i64 }), None);
    /// ```
    #[must_use]
    pub fn from_document(version: &RawDocument) -> Option<Self> {
        if version.as_bytes().len() > MAX_VERSION_BYTES {
            return None;
        }
        let [process_id, counter] = pick(version, ["processId", "counter"]);
        Some(Self {
            process_id: process_id?.as_object_id()?,
            counter: counter?.as_i64()?,
        })
    }

    /// True if `new` is strictly older than `current`: same process, smaller counter. If either is
    /// missing or the processes differ, `new` counts as newer (table A.2.3).
    ///
    /// ```
    /// use bson::oid::ObjectId;
    /// use onionskin_core::error::TopologyVersion;
    ///
    /// let process_id = ObjectId::from_bytes([1; 12]);
    /// let [old, new] = [5, 6].map(|counter| Some(TopologyVersion { process_id, counter }));
    /// assert!(TopologyVersion::is_older(old, new));
    /// assert!(!TopologyVersion::is_older(new, None));
    /// ```
    #[must_use]
    pub fn is_older(new: Option<Self>, current: Option<Self>) -> bool {
        match (new, current) {
            (Some(new), Some(current)) => {
                new.process_id == current.process_id && new.counter < current.counter
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::rawdoc;

    #[test]
    fn an_oversized_topology_version_counts_as_absent() {
        let version = rawdoc! {
            "processId": ObjectId::from_bytes([1; 12]), "counter": 1_i64,
            "x": "x".repeat(MAX_VERSION_BYTES),
        };
        assert_eq!(TopologyVersion::from_document(&version), None);
    }

    #[test]
    fn an_equal_or_unknown_topology_version_is_not_older() {
        // With equal counters, the versions are equal. If either is unknown, or if the processes
        // differ, the new one counts as newer (SDAM-56).
        let at = |counter| {
            Some(TopologyVersion {
                process_id: ObjectId::from_bytes([1; 12]),
                counter,
            })
        };
        let other = Some(TopologyVersion {
            process_id: ObjectId::from_bytes([2; 12]),
            counter: 0,
        });
        assert!(TopologyVersion::is_older(at(1), at(2)));
        assert!(!TopologyVersion::is_older(at(2), at(2)));
        assert!(!TopologyVersion::is_older(None, at(2)));
        assert!(!TopologyVersion::is_older(at(1), None));
        assert!(!TopologyVersion::is_older(other, at(2)));
    }
}
