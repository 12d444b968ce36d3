//! The `_id`s of upserted documents, which the replies to updates give.

use crate::{
    bson::{DocumentWriter, decode_document, integer_field},
    error::Error,
};
use bson::{Bson, Document, RawBsonRef, RawDocument};
use std::collections::BTreeMap;

/// The total size by which upserted `_id`s may exceed the statements that were sent, in bytes:
/// 1 MiB. An `_id` comes from its statement or from a variable of the command, or the server
/// computes it and then it is small. A tree can take 50 times as much memory as its bytes, so a
/// whole message would take gigabytes.
const MAX_COMPUTED_BYTES: usize = 1 << 20;

/// The reader of the upserted `_id`s in all replies of one operation, with the bound of their total
/// size.
#[derive(Clone, Copy, Debug)]
pub(super) struct Upserted {
    left_bytes: usize,
}

/// Returns the size of the fields of a command's variables, in bytes; 0 if they cannot be encoded,
/// and then the command fails.
pub(super) fn document_size(document: Option<&Document>) -> usize {
    let mut bytes = Vec::new();
    let fields = document.map(|tree| DocumentWriter::bare(&mut bytes).tree(tree).is_ok());
    fields.map_or(0, |is_valid| if is_valid { bytes.len() } else { 0 })
}

impl Upserted {
    /// Returns the reader for statements and variables of this total size.
    pub(super) const fn of_statements(bytes: usize) -> Self {
        Self {
            left_bytes: bytes.saturating_add(MAX_COMPUTED_BYTES),
        }
    }

    /// Returns the `_id`s in the reply to a command with this number of statements, by the indexes
    /// of the statements. Fails if the field `upserted` is malformed, if an `_id` belongs to no
    /// statement, and beyond the bound.
    pub(super) fn in_reply(
        &mut self,
        reply: &RawDocument,
        statements: usize,
    ) -> Result<BTreeMap<usize, Bson>, Error> {
        let mut ids = BTreeMap::new();
        let entries = match reply.get("upserted") {
            Ok(None) => return Ok(ids),
            Ok(Some(RawBsonRef::Array(entries))) => entries,
            Ok(Some(_)) | Err(_) => return Err(malformed()),
        };
        for entry in entries {
            let entry = entry.ok().and_then(|entry| entry.as_document());
            let entry = entry.ok_or_else(malformed)?;
            let index = integer_field(entry, "index").and_then(|at| usize::try_from(at).ok());
            let index = index.filter(|&at| at < statements);
            let index =
                index.ok_or_else(|| Error::protocol("an upserted document has no valid index"))?;
            ids.insert(index, self.decode(entry)?);
        }
        Ok(ids)
    }

    /// Returns the `_id` in the result of one operation of a client's bulk write; `None` if the
    /// operation has upserted nothing. Fails as [`in_reply`](Self::in_reply).
    pub(super) fn in_result(&mut self, result: &RawDocument) -> Result<Option<Bson>, Error> {
        match result.get("upserted") {
            Ok(None) => Ok(None),
            Ok(Some(RawBsonRef::Document(entry))) => self.decode(entry).map(Some),
            Ok(Some(_)) | Err(_) => Err(malformed()),
        }
    }

    fn decode(&mut self, entry: &RawDocument) -> Result<Bson, Error> {
        let left = self.left_bytes.checked_sub(entry.as_bytes().len());
        self.left_bytes =
            left.ok_or_else(|| Error::protocol("the upserted `_id`s are too large"))?;
        let id = decode_document(entry)
            .ok()
            .and_then(|mut e| e.remove("_id"));
        id.ok_or_else(malformed)
    }
}

#[cold]
fn malformed() -> Error {
    Error::protocol("the field `upserted` of the reply to an update is malformed")
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::{RawArrayBuf, RawBson, rawdoc};

    fn read(reply: &RawDocument) -> Result<BTreeMap<usize, Bson>, Error> {
        Upserted::of_statements(0).in_reply(reply, 1)
    }

    #[test]
    fn a_malformed_field_is_a_protocol_error() {
        assert_eq!(read(&rawdoc! { "ok": 1 }), Ok(BTreeMap::new()));
        let one = rawdoc! { "upserted": [{ "index": 0, "_id": 5 }] };
        assert_eq!(read(&one), Ok([(0, Bson::from(5))].into()));
        for wrong in [
            RawBson::String("x".to_owned()),
            RawBson::Array(RawArrayBuf::from_iter([5])),
            RawBson::Array(RawArrayBuf::from_iter([rawdoc! { "index": 0 }])),
            RawBson::Array(RawArrayBuf::from_iter([rawdoc! { "_id": 5 }])),
            RawBson::Array(RawArrayBuf::from_iter([rawdoc! { "index": 1, "_id": 5 }])),
        ] {
            let reply = rawdoc! { "upserted": wrong };
            assert!(read(&reply).is_err(), "{reply:?}");
        }
        let in_result = |result: &RawDocument| Upserted::of_statements(0).in_result(result);
        assert_eq!(in_result(&rawdoc! { "n": 1 }), Ok(None));
        let one = rawdoc! { "upserted": { "_id": 5 } };
        assert_eq!(in_result(&one), Ok(Some(Bson::from(5))));
        for wrong in [rawdoc! { "upserted": {} }, rawdoc! { "upserted": [5] }] {
            assert!(in_result(&wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn the_ids_are_little_larger_than_the_statements() {
        let mut nulls = RawArrayBuf::new();
        (0..500_000).for_each(|_| nulls.push(RawBson::Null));
        let large = rawdoc! { "upserted": [{ "index": 0, "_id": { "a": nulls } }] };
        assert!(read(&large).is_err());
        // The application has sent an `_id` of this size.
        let sent = large.as_bytes().len();
        assert!(Upserted::of_statements(sent).in_reply(&large, 1).is_ok());
        // All replies of an operation have one bound.
        let id = "x".repeat(100_000);
        let entry = rawdoc! { "upserted": [{ "index": 0, "_id": id }] };
        let mut reader = Upserted::of_statements(0);
        let accepted = (0..100).take_while(|_| reader.in_reply(&entry, 1).is_ok());
        assert_eq!(accepted.count(), MAX_COMPUTED_BYTES / 100_000);
    }
}
