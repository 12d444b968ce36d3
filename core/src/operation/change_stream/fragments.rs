//! Events that a server has split into fragments.

use crate::{
    bson::{DocumentWriter, integer_field},
    error::Error,
};
use bson::{RawBsonRef, RawDocument};

/// The largest size of an event that is joined of fragments, in bytes: 256 MiB. It bounds the
/// memory that a server can occupy. Not an option.
const MAX_JOINED_BYTES: usize = 256 * 1024 * 1024;

/// The fragments of one event that were received, and the event that was joined of them.
#[derive(Debug, Default)]
pub(super) struct Fragments {
    /// True if fragments are joined. Otherwise each fragment is an event.
    joins: bool,
    /// The elements of the fragments, without `_id` and `splitEvent`.
    elements: Vec<u8>,
    /// The number of fragments in `elements`.
    count: i64,
    /// The event that was joined last.
    joined: Option<Vec<u8>>,
}

impl Fragments {
    pub(super) fn new(joins: bool) -> Self {
        Self {
            joins,
            ..Self::default()
        }
    }

    /// True if a fragment of an event was received and its last one was not.
    pub(super) const fn waits(&self) -> bool {
        self.count > 0
    }

    /// Returns the event that was joined, if the current event was split.
    pub(super) fn joined(&self) -> Option<&[u8]> {
        self.joined.as_deref()
    }

    pub(super) fn forget_joined(&mut self) {
        self.joined = None;
    }

    /// Forgets the fragments of an incomplete event, and the joined one.
    pub(super) fn clear(&mut self) {
        self.elements = Vec::new();
        self.count = 0;
        self.joined = None;
    }

    /// Takes a document of the stream. Returns true if an event is complete: the document itself,
    /// or the one that was joined.
    pub(super) fn take(&mut self, document: &[u8]) -> Result<bool, Error> {
        if !self.joins {
            return Ok(true);
        }
        let malformed = |_| Error::protocol("an event of a change stream is not BSON");
        let event = RawDocument::from_bytes(document).map_err(malformed)?;
        let split = match event.get("splitEvent").map_err(malformed)? {
            Some(RawBsonRef::Document(split)) => split,
            Some(_) => {
                let message = "the field splitEvent of a change stream's event is not a document";
                return Err(Error::protocol(message));
            }
            None if self.waits() => return Err(out_of_order()),
            None => return Ok(true),
        };
        let part = |name| integer_field(split, name).ok_or_else(out_of_order);
        let (fragment, of) = (part("fragment")?, part("of")?);
        if fragment != self.count + 1 || fragment > of {
            return Err(out_of_order());
        }
        if self.elements.len() + document.len() > MAX_JOINED_BYTES {
            let text = format!("a split event is larger than {MAX_JOINED_BYTES} bytes");
            return Err(Error::protocol(text));
        }
        for element in event {
            let (name, value) = element.map_err(malformed)?;
            if !matches!(name.as_str(), "_id" | "splitEvent") {
                DocumentWriter::bare(&mut self.elements).value(name.as_str(), value);
            }
        }
        self.count = fragment;
        if fragment < of {
            return Ok(false);
        }
        let mut joined = Vec::new();
        let mut writer = DocumentWriter::begin(&mut joined);
        if let Ok(id) = event.get_document("_id") {
            writer.document("_id", id);
        }
        writer.elements(&self.elements);
        writer.end();
        self.clear();
        self.joined = Some(joined);
        Ok(true)
    }
}

fn out_of_order() -> Error {
    Error::protocol("the fragments of an event of a change stream are not in order")
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::{Document, doc};

    fn part(fragment: i32, of: i32, rest: Document) -> Vec<u8> {
        let mut part = doc! {
            "_id": { "_data": fragment.to_string() },
            "splitEvent": { "fragment": fragment, "of": of },
        };
        part.extend(rest);
        part.to_vec().expect("BSON")
    }

    #[test]
    fn fragments_are_joined_with_the_token_of_the_last_one() {
        let mut fragments = Fragments::new(true);
        assert_eq!(fragments.take(&part(1, 2, doc! { "a": 1 })), Ok(false));
        assert!(fragments.waits());
        assert_eq!(fragments.take(&part(2, 2, doc! { "b": 2 })), Ok(true));
        let joined = fragments.joined().map(RawDocument::from_bytes);
        let joined = joined.expect("an event").expect("BSON");
        let joined = Document::try_from(joined).expect("BSON");
        assert_eq!(joined, doc! { "_id": { "_data": "2" }, "a": 1, "b": 2 });
        assert!(!fragments.waits());
    }

    #[test]
    fn fragments_out_of_order_are_errors() {
        let mut fragments = Fragments::new(true);
        assert!(fragments.take(&part(2, 2, doc! {})).is_err());
        assert_eq!(fragments.take(&part(1, 3, doc! {})), Ok(false));
        assert!(fragments.take(&part(3, 3, doc! {})).is_err());
        let whole = doc! { "_id": {} }.to_vec().expect("BSON");
        assert!(fragments.take(&whole).is_err(), "the event is incomplete");
    }

    #[test]
    fn an_event_is_whole_only_if_it_has_no_field_for_fragments() {
        let take = |event: &[u8]| Fragments::new(true).take(event);
        let whole = doc! { "_id": {}, "a": 1 }.to_vec().expect("BSON");
        assert_eq!(take(&whole), Ok(true));
        let odd = doc! { "_id": {}, "splitEvent": 1 }.to_vec().expect("BSON");
        assert!(take(&odd).is_err(), "the field is not a document");
        // The type of the first element is unknown.
        let mut malformed = part(1, 2, doc! {});
        malformed[4] = 0x7b;
        assert!(take(&malformed).is_err(), "nobody knows what follows");
    }

    #[test]
    fn fragments_are_events_unless_they_are_joined() {
        let mut fragments = Fragments::new(false);
        assert_eq!(fragments.take(&part(2, 3, doc! {})), Ok(true));
        assert!(fragments.joined().is_none());
    }
}
