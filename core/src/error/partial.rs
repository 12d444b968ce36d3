//! What was done of an operation that failed in its midst.

use super::Error;
use bson::Bson;
use std::collections::BTreeMap;

/// What an `insert_many` had inserted when it failed.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct PartialInsert {
    /// The `_id`s of the documents that the server confirmed as inserted, by their place in the
    /// caller's list. Documents of a batch whose reply did not come are not among them, although
    /// the server may have inserted them. With an unacknowledged write concern they are those that
    /// were sent.
    pub inserted_ids: BTreeMap<usize, Bson>,
    /// The error of the documents that had failed before in an unordered insert
    /// ([`ErrorKind::Write`](super::ErrorKind::Write)), where another error ended it: a lost
    /// connection, a time limit.
    pub earlier: Option<Error>,
}
