//! The collations of a build without the feature `collation`: none.

use super::Answer;
use crate::store::error::StoreError;
use crate::store::order::display_document;
use bson::Document;
use std::cmp::Ordering;

/// A collator, of which there is none.
pub(super) enum Collator {}

impl Collator {
    /// Returns the error that names the missing feature.
    pub(super) fn parse(name: &str, given: &Document, _: bool) -> Answer<(Self, Document)> {
        let shown = display_document(given);
        let text = format!("Field 'locale' is invalid in: {shown}");
        let what = format!(
            "the locale '{name}', which needs the Cargo feature 'collation' of \
             onionskin-deployment"
        );
        Err(StoreError::bad_value(text).not_simulated(&what))
    }

    pub(super) const fn compare(&self, _: &str, _: &str) -> Ordering {
        match *self {}
    }

    pub(super) const fn write_sort_key(&self, _: &str, _: &mut Vec<u8>) {
        match *self {}
    }
}
