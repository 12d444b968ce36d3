//! One collection.

/// A collection's documents, options and indexes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Collection {}
