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
    /// The merged write errors and write concern errors of earlier batches, and of an earlier
    /// attempt of the last batch, if an error of another kind ended the insert, such as a lost
    /// connection or a time limit. `None` if they had no such errors. Also `None` if the insert
    /// failed with an error of the kind [`ErrorKind::InsertMany`](super::ErrorKind::InsertMany),
    /// which contains them itself.
    pub earlier: Option<Error>,
}
