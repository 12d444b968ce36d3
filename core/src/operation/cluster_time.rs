//! `$clusterTime`: the newest cluster time that the client has received. Each command sends this
//! time, except to a standalone server.

use bson::{RawDocument, RawDocumentBuf, Timestamp};

/// The largest `$clusterTime` that is accepted, in bytes. Without a limit, a server could make each
/// command to each server large.
pub const MAX_CLUSTER_TIME_BYTES: usize = 4096;

/// A signed cluster time of the deployment, as the server sent it.
#[derive(Clone, Debug, PartialEq)]
pub struct ClusterTime {
    time: (u32, u32),
    document: RawDocumentBuf,
}

impl ClusterTime {
    /// Reads the `$clusterTime` document of a reply; `None` if the document has no time or is
    /// larger than [`MAX_CLUSTER_TIME_BYTES`].
    #[must_use]
    pub fn from_document(document: &RawDocument) -> Option<Self> {
        Some(Self {
            time: read(document)?,
            document: document.to_owned(),
        })
    }

    /// Returns the document that commands send as `$clusterTime`.
    #[must_use]
    pub fn document(&self) -> &RawDocument {
        &self.document
    }

    /// True if `document` has a valid time that is later than `known`, or any valid time if `known`
    /// is `None`. Allocates nothing, because most replies have no later time.
    #[must_use]
    pub fn is_newer(document: &RawDocument, known: Option<&Self>) -> bool {
        match (read(document), known) {
            (Some(new), Some(known)) => new > known.time,
            (Some(_), None) => true,
            (None, _) => false,
        }
    }

    /// True if this time is later than `other`, or if `other` is `None`.
    #[must_use]
    pub fn is_after(&self, other: Option<&Self>) -> bool {
        other.is_none_or(|other| self.time > other.time)
    }
}

fn read(document: &RawDocument) -> Option<(u32, u32)> {
    if document.as_bytes().len() > MAX_CLUSTER_TIME_BYTES {
        return None;
    }
    let Timestamp { time, increment } = document.get_timestamp("clusterTime").ok()?;
    Some((time, increment))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::rawdoc;

    #[test]
    fn only_a_later_cluster_time_is_newer() {
        let at = |time, increment| rawdoc! { "clusterTime": Timestamp { time, increment } };
        let known = ClusterTime::from_document(&at(5, 5));
        assert!(!ClusterTime::is_newer(&at(5, 5), known.as_ref()));
        assert!(!ClusterTime::is_newer(&at(4, 9), known.as_ref()));
        assert!(ClusterTime::is_newer(&at(5, 6), known.as_ref()));
        assert!(ClusterTime::is_newer(&at(0, 1), None));
        assert!(!ClusterTime::is_newer(&rawdoc! { "clusterTime": 7 }, None));
    }
}
