//! The collations of a build without the feature `collation`: none.

use super::Answer;
use crate::store::error::StoreError;
use bson::Document;
use std::cmp::Ordering;

/// A collator, of which there is none.
pub(super) enum Collator {}

impl Collator {
    /// Returns the error that names the missing feature.
    pub(super) fn parse(name: &str, _: &Document, _: bool) -> Answer<(Self, Document)> {
        let text = format!(
            "this simulated server was built without collations: the locale '{name}' needs the \
             Cargo feature 'collation' of onionskin-deployment"
        );
        Err(StoreError::new(238, text))
    }

    pub(super) const fn compare(&self, _: &str, _: &str) -> Ordering {
        match *self {}
    }

    pub(super) const fn write_sort_key(&self, _: &str, _: &mut Vec<u8>) {
        match *self {}
    }
}
