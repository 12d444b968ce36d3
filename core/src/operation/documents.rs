//! Documents that a command carries beside its body, and how many of them go into one message.

use crate::{
    connection::ConnectionFacts,
    error::{Error, ErrorKind},
};
use std::{fmt, sync::Arc};

/// What a server adds to `maxBsonObjectSize` for a command and for a statement of an update or a
/// delete: both wrap documents of the user's.
pub(super) const COMMAND_OVERHEAD_BYTES: usize = 16 * 1024;

/// The argument whose documents are stored as they are: each of them has `maxBsonObjectSize` bytes
/// at most (MSG-8).
const STORED: &str = "documents";

/// Documents, back to back, that several commands send a part of each. Cloning shares them.
#[derive(Clone, Default)]
pub struct DocumentList(Arc<Vec<u8>>);

impl DocumentList {
    /// Shares these documents, which stand back to back.
    #[must_use]
    pub fn new(documents: Vec<u8>) -> Self {
        Self(Arc::new(documents))
    }

    /// The size of all documents in bytes.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        self.0.len()
    }
}

/// The documents may be secret, so only their size is shown.
impl fmt::Debug for DocumentList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DocumentList")
            .field("size_bytes", &self.size_bytes())
            .finish()
    }
}

/// How much of its documents a command sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Portion {
    /// The number of documents.
    pub documents: usize,
    /// Their size together, in bytes.
    pub bytes: usize,
}

/// The document sequence of a command (MSG-11).
#[derive(Debug)]
pub(crate) struct Sequence {
    pub(super) identifier: &'static str,
    documents: Documents,
}

#[derive(Debug)]
enum Documents {
    /// All go in one message, or none do.
    Whole(Vec<u8>),
    /// As many go as the server takes, from the byte `start` on.
    Rest { list: DocumentList, start: usize },
}

/// What a server takes in one message.
#[derive(Clone, Copy)]
struct Limits {
    document_bytes: usize,
    documents: usize,
    /// Of the message.
    message_bytes: usize,
    /// Bytes of the message that are no documents.
    used_bytes: usize,
}

impl Sequence {
    pub(super) fn whole(identifier: &'static str, documents: Vec<u8>) -> Self {
        Self {
            identifier,
            documents: Documents::Whole(documents),
        }
    }

    pub(super) fn rest(identifier: &'static str, list: DocumentList, start: usize) -> Self {
        Self {
            identifier,
            documents: Documents::Rest { list, start },
        }
    }

    /// The documents of a portion; without one, all that there are.
    pub(super) fn documents(&self, portion: Option<Portion>) -> &[u8] {
        let all = match &self.documents {
            Documents::Whole(documents) => documents,
            Documents::Rest { list, start } => list.0.get(*start..).unwrap_or_default(),
        };
        let end = portion.map_or(all.len(), |portion| portion.bytes);
        all.get(..end).unwrap_or(all)
    }

    /// Chooses how many documents go in a message of which `used_bytes` are written: as many as
    /// `maxWriteBatchSize` (MSG-32) and `maxMessageSizeBytes` (MSG-4) of the server allow, and none
    /// from the first on that is over `maxBsonObjectSize` (MSG-8).
    ///
    /// A retry sends what the first attempt `sent`: their transaction number belongs to it (RW-19).
    ///
    /// Fails where not one document can go, where documents that must go together do not fit, and
    /// where a retry meets a server that does not take what the first attempt sent.
    pub(super) fn choose(
        &self,
        sent: Option<Portion>,
        used_bytes: usize,
        facts: &ConnectionFacts,
    ) -> Result<Portion, Error> {
        let overhead = if self.identifier == STORED {
            0
        } else {
            COMMAND_OVERHEAD_BYTES
        };
        let limits = Limits {
            document_bytes: facts.max_bson_object_size.saturating_add(overhead),
            documents: facts.max_write_batch_size,
            message_bytes: facts.max_message_size,
            // The kind, the size and the identifier of the section (MSG-6).
            used_bytes: used_bytes + 1 + 4 + self.identifier.len() + 1,
        };
        let is_split = matches!(self.documents, Documents::Rest { .. }) && sent.is_none();
        let portion = limits.fit(self.documents(sent), is_split);
        portion.map_err(|error| match sent {
            Some(_) => as_repeated(error),
            None => error,
        })
    }
}

impl Limits {
    /// The documents that fit, from the first on. An error if that is none, or if all must fit.
    fn fit(self, documents: &[u8], is_split: bool) -> Result<Portion, Error> {
        let mut portion = Portion::default();
        while let Some(rest) = documents.get(portion.bytes..).filter(|r| !r.is_empty()) {
            let bytes = document_bytes(rest)?;
            match self.exceeded(portion, bytes) {
                None => {
                    portion.documents += 1;
                    portion.bytes += bytes;
                }
                Some(_) if is_split && portion.documents > 0 => break,
                Some(error) => return Err(error),
            }
        }
        Ok(portion)
    }

    /// The limit that one more document of so many bytes would exceed.
    fn exceeded(self, portion: Portion, bytes: usize) -> Option<Error> {
        let (count, used) = (portion.documents, self.used_bytes + portion.bytes);
        if bytes > self.document_bytes {
            let what = "the size of a document in bytes";
            return Some(over(what, self.document_bytes, bytes));
        }
        if count == self.documents {
            let what = "the number of documents in a command";
            return Some(over(what, self.documents, count + 1));
        }
        (bytes > self.message_bytes.saturating_sub(used)).then(|| {
            let what = "the size of a message in bytes";
            over(what, self.message_bytes, used + bytes)
        })
    }
}

/// The size of the first of several documents.
fn document_bytes(documents: &[u8]) -> Result<usize, Error> {
    let length = documents
        .first_chunk::<4>()
        .copied()
        .map(i32::from_le_bytes);
    let length = length.and_then(|length| usize::try_from(length).ok());
    let length = length.filter(|length| (5..=documents.len()).contains(length));
    length.ok_or_else(|| {
        let message = "the documents of the command do not stand back to back".to_owned();
        ErrorKind::Bson { message }.into()
    })
}

/// The error of something that is over a limit of the server.
pub(super) fn over(what: &'static str, limit: usize, actual: usize) -> Error {
    Error::new(ErrorKind::Limit {
        what,
        limit: limit as u64,
        actual: actual as u64,
    })
}

/// The same limit, met by a retry.
fn as_repeated(error: Error) -> Error {
    match *error.kind() {
        ErrorKind::Limit { limit, actual, .. } => Error::new(ErrorKind::Limit {
            what: "a batch that must be repeated as it was sent to another server",
            limit,
            actual,
        }),
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::rawdoc;

    const LIMITS: Limits = Limits {
        document_bytes: 100,
        documents: 3,
        message_bytes: 1000,
        used_bytes: 100,
    };

    /// A document of so many bytes.
    fn document(bytes: usize) -> Vec<u8> {
        let empty = rawdoc! { "a": "" }.as_bytes().len();
        let document = rawdoc! { "a": "x".repeat(bytes - empty) };
        assert_eq!(document.as_bytes().len(), bytes);
        document.into_bytes()
    }

    fn list(sizes: &[usize]) -> Vec<u8> {
        sizes.iter().flat_map(|&bytes| document(bytes)).collect()
    }

    fn what(error: &Error) -> (&'static str, u64, u64) {
        match *error.kind() {
            ErrorKind::Limit {
                what,
                limit,
                actual,
            } => (what, limit, actual),
            _ => panic!("{error:?}"),
        }
    }

    #[test]
    fn as_many_documents_go_as_all_three_limits_allow() {
        // MSG-4, MSG-8, MSG-32, and trap 8: the message counts with all that is no document.
        let exact = Limits {
            message_bytes: 300,
            ..LIMITS
        };
        let short = Limits {
            message_bytes: 299,
            ..LIMITS
        };
        for (limits, sizes, expected) in [
            (LIMITS, vec![100; 2], 2),
            (LIMITS, vec![20; 5], 3),
            (LIMITS, vec![20, 101, 20], 1),
            (exact, vec![100; 3], 2),
            (short, vec![100; 3], 1),
        ] {
            let all = list(&sizes);
            let portion = limits.fit(&all, true).expect("the first fits");
            let bytes = sizes[..expected].iter().sum();
            let expected = Portion {
                documents: expected,
                bytes,
            };
            assert_eq!(portion, expected, "{sizes:?}");
        }
    }

    #[test]
    fn a_document_that_fits_no_message_names_the_limit() {
        let small = Limits {
            message_bytes: 150,
            ..LIMITS
        };
        let error = LIMITS.fit(&list(&[101, 20]), true).expect_err("too large");
        assert_eq!(what(&error), ("the size of a document in bytes", 100, 101));
        let error = small.fit(&list(&[51]), true).expect_err("too large");
        assert_eq!(what(&error), ("the size of a message in bytes", 150, 151));
        let error = LIMITS.fit(&list(&[20; 4]), false).expect_err("too many");
        assert_eq!(what(&error), ("the number of documents in a command", 3, 4));
    }

    #[test]
    fn bytes_that_are_no_documents_are_refused() {
        for bytes in [vec![1], vec![4, 0, 0, 0], vec![9, 0, 0, 0, 0], vec![255; 9]] {
            let error = LIMITS.fit(&bytes, true).expect_err("no documents");
            assert!(matches!(error.kind(), ErrorKind::Bson { .. }), "{error:?}");
        }
    }
}
