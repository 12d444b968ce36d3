//! The errors of several commands of one operation, merged into one error of bounded size.

use crate::{
    error::{IndexedWriteError, Label, Labels, WriteConcernError},
    wire::MAX_MESSAGE_BYTES,
};
use bson::RawDocumentBuf;

/// The largest total size of texts and details in the merged errors of all batches, in bytes. A
/// server chooses the number of batches by its `maxWriteBatchSize`, so a limit per reply is not
/// enough. An error that would exceed the limit loses its texts and details, but keeps its code
/// and, if it is a write error, its index.
pub(super) const MAX_MERGED_BYTES: usize = MAX_MESSAGE_BYTES;

/// The largest number of labels of the variant [`Label::Other`] that the merged error has.
pub(super) const MAX_OTHER_LABELS: usize = 16;

/// The total size of the texts and details that the merged errors have, in bytes.
#[derive(Debug, Default)]
pub(super) struct MergedBytes(usize);

impl MergedBytes {
    /// Returns the error without its text and details if they exceed the limit.
    pub(super) fn bound_error(&mut self, mut error: IndexedWriteError) -> IndexedWriteError {
        if !self.has_room(error.message.len(), error.details.as_ref()) {
            error.message = String::new();
            error.details = None;
        }
        error
    }

    /// Returns the error without its texts and details if they exceed the limit.
    pub(super) fn bound_concern(&mut self, mut concern: WriteConcernError) -> WriteConcernError {
        let text = concern.code_name.len() + concern.message.len();
        if !self.has_room(text, concern.details.as_ref()) {
            concern.code_name = String::new();
            concern.message = String::new();
            concern.details = None;
        }
        concern
    }

    fn has_room(&mut self, text: usize, details: Option<&RawDocumentBuf>) -> bool {
        let bytes = text + details.map_or(0, |details| details.as_bytes().len());
        let has_room = bytes <= MAX_MERGED_BYTES.saturating_sub(self.0);
        if has_room {
            self.0 += bytes;
        }
        has_room
    }
}

/// Adds the labels of an error to those of the merged error.
pub(super) fn add_labels(merged: &mut Labels, labels: &Labels) {
    let is_other = |label: &&Label| matches!(label, Label::Other(_));
    for label in labels.iter() {
        let others = merged.iter().filter(is_other).count();
        if !is_other(&label) || others < MAX_OTHER_LABELS {
            merged.insert(label.clone());
        }
    }
}
