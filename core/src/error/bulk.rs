//! The error of a bulk write.

use super::{Error, ErrorKind, Labels, WriteConcernError, WriteError};
use crate::results::{BulkWriteResult, SummaryBulkWriteResult, VerboseBulkWriteResult};
use std::{collections::BTreeMap, fmt};

/// The errors of the bulk write of a client or of a collection, and its results up to them (Bulk
/// Write Specification, *Exception*). An error that ended the bulk write early is the cause of the
/// error that has this value.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct BulkWriteError {
    /// The write concern errors of all commands.
    pub write_concern_errors: Vec<WriteConcernError>,
    /// The errors of operations, by their index in the caller's list.
    pub write_errors: BTreeMap<usize, WriteError>,
    /// The results of the operations of the bulk write of a client that succeeded; `None` if none
    /// is known to have succeeded.
    pub partial_result: Option<PartialBulkWriteResult>,
    /// The results of the operations of the bulk write of a collection that succeeded; `None` if
    /// none is known to have succeeded.
    pub collection_result: Option<BulkWriteResult>,
}

/// The results of the bulk write of a client that failed.
#[derive(Clone, Debug, PartialEq)]
pub enum PartialBulkWriteResult {
    /// The sums, if the call asked for no more.
    Summary(SummaryBulkWriteResult),
    /// The result of each operation, if the call asked for them.
    Verbose(VerboseBulkWriteResult),
}

impl BulkWriteError {
    /// True if there is no error of an operation and no write concern error.
    pub(crate) fn is_empty(&self) -> bool {
        self.write_errors.is_empty() && self.write_concern_errors.is_empty()
    }

    /// True if an operation is known to have succeeded.
    const fn has_result(&self) -> bool {
        self.partial_result.is_some() || self.collection_result.is_some()
    }

    /// Returns the error of a bulk write, which `cause` ended early. If nothing happened but the
    /// cause, it is the error.
    pub(crate) fn into_error(self, labels: &Labels, cause: Option<Error>) -> Error {
        match cause {
            Some(cause) if self.is_empty() && !self.has_result() => cause,
            cause => {
                let mut merged = labels.clone();
                if let Some(cause) = &cause {
                    merged.extend(cause.labels());
                }
                if self.has_result() {
                    merged.remove_those_of_no_write();
                }
                let error = Error::new(ErrorKind::BulkWrite(self)).with_labels(&merged);
                match cause {
                    Some(cause) => error.with_cause(cause),
                    None => error,
                }
            }
        }
    }
}

impl fmt::Display for BulkWriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("another error ended it early");
        }
        let (errors, concerns) = (self.write_errors.len(), self.write_concern_errors.len());
        write!(
            f,
            "{errors} write errors and {concerns} write concern errors"
        )?;
        if let Some((index, error)) = self.write_errors.first_key_value() {
            write!(
                f,
                "; operation {index} failed with code {}: {}",
                error.code, error.message
            )?;
        }
        Ok(())
    }
}
