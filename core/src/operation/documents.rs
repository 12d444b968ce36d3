//! Document sequences of commands, and how many documents go into one message.

use super::{DocumentList, OperationList};
use crate::{
    connection::ConnectionFacts,
    error::{BsonError, Error, ErrorKind},
};
use std::borrow::Cow;

/// The number of bytes that a server accepts beyond `maxBsonObjectSize` for a command, and for a
/// statement of an update or a delete, because both contain documents of the application.
pub(super) const COMMAND_OVERHEAD_BYTES: usize = 16 * 1024;

/// The argument of `insert` with the documents to insert. Each of them may have at most
/// `maxBsonObjectSize` bytes (MSG-8). [`COMMAND_OVERHEAD_BYTES`] is not added to this limit.
const STORED: &str = "documents";

/// The offset of the place of the namespace in an operation: the size of the document, the type of
/// the field, its name and a zero byte precede it.
const PLACE_OFFSET: usize = 4 + 1 + 6 + 1;

/// The part of a document sequence that one command sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Portion {
    /// The number of documents.
    pub documents: usize,
    /// The total size of these documents, in bytes.
    pub bytes: usize,
}

/// The document sequence of a command, which is sent in a section of kind 1 (MSG-11).
#[derive(Debug)]
pub(crate) struct Sequence {
    pub(super) identifier: &'static str,
    documents: Documents,
}

#[derive(Debug)]
enum Documents {
    /// One message must hold all documents.
    Whole(Vec<u8>),
    /// A message holds as many of these documents as the server accepts, from the byte offset
    /// `start` on.
    Rest { list: DocumentList, start: usize },
    /// A message holds as many of these operations as the server accepts, from the byte offset
    /// `start` on, which is that of the operation number `first`. A second section has the
    /// namespaces that they use.
    Operations {
        list: OperationList,
        start: usize,
        first: usize,
    },
    /// The documents of a recorded command, of which only those before the first statement that can
    /// affect several documents are known.
    Recorded(Portion),
}

/// The number of bytes that the operations of a bulk write leave free in a message (Bulk Write
/// Specification, *Total Message Size*).
const RESERVED_BYTES: usize = 1_000;

/// The total size from which on the documents of a message are not copied into it, but written to
/// the socket apart. A copy of fewer bytes costs less than the system call.
pub(super) const LARGE_BYTES: usize = 64 * 1024;

/// The argument of `bulkWrite` with the namespaces of the operations.
const NAMESPACES: &str = "nsInfo";

/// The limits of a server for one message.
#[derive(Clone, Copy)]
struct Limits {
    document_bytes: usize,
    documents: usize,
    /// The largest size of the message, in bytes.
    message_bytes: usize,
    /// The bytes of the message that are not part of documents.
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

    pub(super) fn operations(list: OperationList, start: usize, first: usize) -> Self {
        Self {
            identifier: "ops",
            documents: Documents::Operations { list, start, first },
        }
    }

    pub(super) fn recorded(before: Portion) -> Self {
        Self {
            identifier: "updates",
            documents: Documents::Recorded(before),
        }
    }

    /// Returns the documents of a portion, or all documents without a portion.
    pub(super) fn documents(&self, portion: Option<Portion>) -> &[u8] {
        let all = match &self.documents {
            Documents::Whole(documents) => documents,
            Documents::Rest { list, start } => list.0.documents.get(*start..).unwrap_or_default(),
            Documents::Operations { list, start, .. } => {
                list.0.bytes.get(*start..).unwrap_or_default()
            }
            Documents::Recorded(_) => &[],
        };
        let end = portion.map_or(all.len(), |portion| portion.bytes);
        all.get(..end).unwrap_or(all)
    }

    /// True if a command could send a statement that can affect several documents, to a server that
    /// accepts `max_documents` and `max_bytes` in a message. Such a command has no transaction
    /// number (RW-8). The size of the rest of the message is not counted here, so a command that
    /// just misses the statement counts as well.
    pub(crate) fn may_send_multi(&self, max_documents: usize, max_bytes: usize) -> bool {
        let before = self.before_multi(max_documents, max_bytes);
        before.is_some_and(|before| before.documents < max_documents)
    }

    /// Returns the documents before the first statement that can affect several documents, of which
    /// at most `max_documents` are counted. `None` if there is no such statement, or if the
    /// documents before it have `max_bytes` or more.
    pub(super) fn before_multi(&self, max_documents: usize, max_bytes: usize) -> Option<Portion> {
        let (multi, start) = match &self.documents {
            Documents::Whole(_) => return None,
            Documents::Rest { list, start } => (list.multi(), *start),
            Documents::Operations { list, start, .. } => (&list.0.multi, *start),
            Documents::Recorded(before) => {
                return Some(*before).filter(|before| before.bytes < max_bytes);
            }
        };
        let bytes = multi.next(start)? - start;
        if bytes >= max_bytes {
            return None;
        }
        let all = self.documents(None);
        let (mut offset, mut documents) = (0, 0);
        while offset < bytes && documents < max_documents {
            let rest = all.get(offset..).unwrap_or_default();
            match document_bytes(rest) {
                Ok(bytes) => offset += bytes,
                // Framing fails there.
                Err(_) => break,
            }
            documents += 1;
        }
        Some(Portion { documents, bytes })
    }

    /// Returns the sections of a portion: the identifier and the documents of each. The section
    /// with the documents themselves is the last one, so that they can be sent apart. They are
    /// borrowed if they are sent as they are stored.
    pub(super) fn sections(
        &self,
        portion: Option<Portion>,
    ) -> impl Iterator<Item = (&'static str, Cow<'_, [u8]>)> {
        let documents = self.documents(portion);
        let mut last = (self.identifier, Cow::Borrowed(documents));
        let first = match &self.documents {
            Documents::Whole(_) | Documents::Rest { .. } | Documents::Recorded(_) => None,
            Documents::Operations {
                list, first: at, ..
            } => {
                let count = portion.map_or(usize::MAX, |portion| portion.documents);
                let used = list.used(*at, count);
                // The places in a command are those of its own namespaces.
                if (0..).zip(&used).any(|(own, &place)| own != place) {
                    last.1 = Cow::Owned(with_own_places(documents, list, *at, &used));
                }
                let namespaces = used.iter().flat_map(|&place| list.namespace(place));
                Some((NAMESPACES, Cow::Owned(namespaces.copied().collect())))
            }
        };
        first.into_iter().chain(std::iter::once(last))
    }

    /// Chooses how many documents go into a message that already has `used_bytes`, of which
    /// `own_bytes` are the fields of the command. The limits of
    /// the server are `maxWriteBatchSize` (MSG-32), `maxMessageSizeBytes` (MSG-4), and
    /// `maxBsonObjectSize` for each document (MSG-8).
    ///
    /// A retry sends the portion that the first attempt `sent`, because a transaction number
    /// belongs to one portion (RW-19).
    ///
    /// Fails if the first document does not fit, if [`Documents::Whole`] does not fit, if a retry
    /// exceeds the limits of its server, or if a document is not valid BSON.
    pub(super) fn choose(
        &self,
        sent: Option<Portion>,
        used_bytes: usize,
        own_bytes: usize,
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
            // The kind byte, the size, the identifier and its zero byte precede the documents
            // (MSG-6).
            used_bytes: used_bytes + 1 + 4 + self.identifier.len() + 1,
        };
        let is_split = !matches!(self.documents, Documents::Whole(_)) && sent.is_none();
        let documents = self.documents(sent);
        let portion = match &self.documents {
            Documents::Whole(_) | Documents::Rest { .. } | Documents::Recorded(_) => {
                limits.fit(documents, is_split, |_| 0)
            }
            Documents::Operations { list, first, .. } => {
                let mut limits = limits;
                // The rest of the message, such as its header and the session, has a reserve.
                limits.used_bytes = own_bytes;
                limits.message_bytes = limits.message_bytes.saturating_sub(RESERVED_BYTES);
                let mut is_used = vec![false; list.0.namespaces.len()];
                limits.fit(documents, is_split, |index| {
                    // The size of the namespace, if no operation before uses it.
                    let place = list
                        .0
                        .places
                        .get(first + index)
                        .copied()
                        .unwrap_or_default();
                    let is_seen = is_used.get_mut(place as usize);
                    let is_seen = is_seen.is_none_or(|seen| std::mem::replace(seen, true));
                    if is_seen {
                        0
                    } else {
                        list.namespace(place).len()
                    }
                })
            }
        };
        portion.map_err(|error| match sent {
            Some(_) => reworded_for_retry(error),
            None => error,
        })
    }
}

impl Limits {
    /// Returns how many documents fit, from the first one on. With `is_split`, fails if the first
    /// document does not fit; otherwise, fails unless all documents fit. `more` returns the size of
    /// what the document with this index adds to the message elsewhere.
    fn fit(
        mut self,
        documents: &[u8],
        is_split: bool,
        mut more: impl FnMut(usize) -> usize,
    ) -> Result<Portion, Error> {
        let mut portion = Portion::default();
        while let Some(rest) = documents.get(portion.bytes..).filter(|r| !r.is_empty()) {
            let bytes = document_bytes(rest)?;
            self.used_bytes += more(portion.documents);
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

    /// Returns an error if a document of `bytes` bytes, added to `portion`, exceeds a limit.
    fn exceeded(self, portion: Portion, bytes: usize) -> Option<Error> {
        let (count, used) = (portion.documents, self.used_bytes + portion.bytes);
        if bytes > self.document_bytes {
            let what = "the size of a document in bytes";
            return Some(limit_exceeded(what, self.document_bytes, bytes));
        }
        if count == self.documents {
            let what = "the number of documents in a command";
            return Some(limit_exceeded(what, self.documents, count + 1));
        }
        (bytes > self.message_bytes.saturating_sub(used)).then(|| {
            let what = "the size of a message in bytes";
            limit_exceeded(what, self.message_bytes, used + bytes)
        })
    }
}

/// Returns a copy of operations whose namespaces have the places that they have in `used`.
fn with_own_places(operations: &[u8], list: &OperationList, first: usize, used: &[u32]) -> Vec<u8> {
    let mut own = vec![0_u32; list.0.namespaces.len()];
    for (at, &place) in (0_u32..).zip(used) {
        own[place as usize] = at;
    }
    let mut copy = operations.to_vec();
    let mut start = 0;
    for &place in list.0.places.iter().skip(first) {
        let Ok(bytes) = document_bytes(copy.get(start..).unwrap_or_default()) else {
            break;
        };
        let at = start + PLACE_OFFSET;
        if let Some(place_bytes) = copy.get_mut(at..at + 4) {
            place_bytes.copy_from_slice(&own[place as usize].to_le_bytes());
        }
        start += bytes;
    }
    copy
}

/// Returns the size of the first of several documents, in bytes.
pub(super) fn document_bytes(documents: &[u8]) -> Result<usize, Error> {
    let length = documents
        .first_chunk::<4>()
        .copied()
        .map(i32::from_le_bytes);
    let length = length.and_then(|length| usize::try_from(length).ok());
    let length = length.filter(|length| (5..=documents.len()).contains(length));
    length.ok_or_else(|| {
        let message = "the documents of the command are not valid BSON documents, one after the \
                       other"
            .to_owned();
        let path = String::new();
        ErrorKind::Bson(BsonError { message, path }).into()
    })
}

/// Returns the error of a value that exceeds a limit of the server.
pub(super) fn limit_exceeded(what: &'static str, limit: usize, actual: usize) -> Error {
    Error::new(ErrorKind::Limit {
        what,
        limit: limit as u64,
        actual: actual as u64,
    })
}

/// Rewords the error of a limit that a retry exceeds.
fn reworded_for_retry(error: Error) -> Error {
    match *error.kind() {
        ErrorKind::Limit { limit, actual, .. } => Error::new(ErrorKind::Limit {
            what: "the size or number of documents of a retry, which must equal that of the first \
                   attempt,",
            limit,
            actual,
        }),
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::MultiOffsets;
    use bson::rawdoc;

    const LIMITS: Limits = Limits {
        document_bytes: 100,
        documents: 3,
        message_bytes: 1000,
        used_bytes: 100,
    };

    /// Returns a document of `bytes` bytes.
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
    fn a_command_gets_as_many_documents_as_all_three_limits_allow() {
        // All limits apply at once (MSG-4, MSG-8, MSG-32). The size of the message counts all of
        // its bytes, not only the documents (MSG trap 8).
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
            let portion = limits.fit(&all, true, |_| 0).expect("the first fits");
            let bytes = sizes[..expected].iter().sum();
            let expected = Portion {
                documents: expected,
                bytes,
            };
            assert_eq!(portion, expected, "{sizes:?}");
        }
    }

    #[test]
    fn exceeding_a_document_limit_fails_with_the_name_of_the_limit() {
        let small = Limits {
            message_bytes: 150,
            ..LIMITS
        };
        let error = LIMITS
            .fit(&list(&[101, 20]), true, |_| 0)
            .expect_err("too large");
        assert_eq!(what(&error), ("the size of a document in bytes", 100, 101));
        let error = small.fit(&list(&[51]), true, |_| 0).expect_err("too large");
        assert_eq!(what(&error), ("the size of a message in bytes", 150, 151));
        let error = LIMITS
            .fit(&list(&[20; 4]), false, |_| 0)
            .expect_err("too many");
        assert_eq!(what(&error), ("the number of documents in a command", 3, 4));
    }

    #[test]
    fn a_command_could_send_only_statements_within_the_limits_of_its_server() {
        // RW-8: the fourth statement can affect several documents.
        let mut multi = MultiOffsets::default();
        multi.push(60);
        let statements = DocumentList::with_multi(list(&[20; 5]), multi);
        for (start, max_documents, max_bytes, expected) in [
            (0, 4, 100, true),
            (0, 3, 100, false),
            (0, 4, 60, false),
            (20, 3, 100, true),
            (20, 2, 100, false),
            (60, 1, 20, true),
            (80, 5, 100, false),
        ] {
            let sequence = Sequence::rest("updates", statements.clone(), start);
            let may = sequence.may_send_multi(max_documents, max_bytes);
            assert_eq!(may, expected, "{start} {max_documents} {max_bytes}");
        }
        assert!(statements.is_multi_at(60) && !statements.is_multi_at(40));
        let inserts = Sequence::rest("documents", DocumentList::new(list(&[20; 5])), 0);
        assert!(!inserts.may_send_multi(5, 100));
    }

    #[test]
    fn bytes_that_are_no_documents_are_refused() {
        for bytes in [vec![1], vec![4, 0, 0, 0], vec![9, 0, 0, 0, 0], vec![255; 9]] {
            let error = LIMITS.fit(&bytes, true, |_| 0).expect_err("no documents");
            assert!(matches!(error.kind(), ErrorKind::Bson(_)), "{error:?}");
        }
    }
}
