//! The documents that an `insert_many` inserted before it failed.

use super::Error;
use bson::Bson;
use std::collections::BTreeMap;

/// The documents that an `insert_many` had inserted when it failed.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct PartialInsert {
    /// The `_id`s of the documents that the server confirmed as inserted, by their index in the
    /// caller's list.
    ///
    /// Documents of a batch whose reply did not arrive are missing here, although the server may
    /// have inserted them. With an unacknowledged write concern these are the documents that were
    /// sent.
    pub inserted_ids: BTreeMap<usize, Bson>,
    /// The errors of kind [`ErrorKind::Write`](super::ErrorKind::Write) after which the insert
    /// continued, if another error, such as a lost connection or a time limit, ended it. An insert
    /// continues after write concern errors, and after write errors if it is unordered.
    pub earlier: Option<Error>,
}
