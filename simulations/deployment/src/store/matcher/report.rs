//! The room for reports of failed validations.

use std::cell::Cell;

use bson::Bson;

use crate::store::expression::EvaluationContext;
use crate::store::size;

/// The largest size of the parts that the report of a failure copies from a document and from its
/// validator, in bytes.
const MAX_REPORT_BYTES: usize = 64 * 1024;

/// The room for the report of one document.
#[derive(Debug)]
pub(crate) struct Reporter<'a> {
    pub(crate) context: &'a EvaluationContext,
    left: Cell<usize>,
}

impl<'a> Reporter<'a> {
    pub(crate) const fn new(context: &'a EvaluationContext) -> Self {
        Self {
            context,
            left: Cell::new(MAX_REPORT_BYTES),
        }
    }

    /// Returns a copy of a value, or a remark if there is no room for it.
    pub(crate) fn copy(&self, value: &Bson) -> Bson {
        match self.take(size::memory(value)) {
            true => value.clone(),
            false => Bson::String("a value that is too large for this report".to_owned()),
        }
    }

    /// Takes room for a number of bytes. Returns false if there is too little room.
    pub(super) fn take(&self, bytes: usize) -> bool {
        let Some(left) = self.left.get().checked_sub(bytes) else {
            return false;
        };
        self.left.set(left);
        true
    }
}
