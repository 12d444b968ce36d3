//! `$clusterTime`: the newest logical time that the client has seen, passed on with each command.

use bson::{RawDocument, RawDocumentBuf, Timestamp};

/// A larger `$clusterTime` is not believed: it would go into each command to each server. Those of
/// servers have some 150 bytes.
pub const MAX_CLUSTER_TIME_BYTES: usize = 4096;

/// A signed logical time of the deployment, kept as the server sent it.
#[derive(Clone, Debug, PartialEq)]
pub struct ClusterTime {
    time: (u32, u32),
    document: RawDocumentBuf,
}

impl ClusterTime {
    /// Reads the `$clusterTime` document of a reply; `None` where it has no time or is
    /// larger than [`MAX_CLUSTER_TIME_BYTES`].
    #[must_use]
    pub fn from_document(document: &RawDocument) -> Option<Self> {
        Some(Self {
            time: read(document)?,
            document: document.to_owned(),
        })
    }

    /// What goes into commands.
    #[must_use]
    pub fn document(&self) -> &RawDocument {
        &self.document
    }

    /// True if `document` holds a later time than `known`. Costs no allocation, since most replies
    /// bring nothing new.
    #[must_use]
    pub fn is_newer(document: &RawDocument, known: Option<&Self>) -> bool {
        match (read(document), known) {
            (Some(new), Some(known)) => new > known.time,
            (Some(_), None) => true,
            (None, _) => false,
        }
    }

    /// True if this time is later than `other`.
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
    fn only_a_later_time_is_newer() {
        let at = |time, increment| rawdoc! { "clusterTime": Timestamp { time, increment } };
        let known = ClusterTime::from_document(&at(5, 5));
        assert!(!ClusterTime::is_newer(&at(5, 5), known.as_ref()));
        assert!(!ClusterTime::is_newer(&at(4, 9), known.as_ref()));
        assert!(ClusterTime::is_newer(&at(5, 6), known.as_ref()));
        assert!(ClusterTime::is_newer(&at(0, 1), None));
        assert!(!ClusterTime::is_newer(&rawdoc! { "clusterTime": 7 }, None));
    }
}
