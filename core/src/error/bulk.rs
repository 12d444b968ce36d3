//! The error of a bulk write.

use super::{WriteConcernError, WriteError};
use crate::results::{SummaryBulkWriteResult, VerboseBulkWriteResult};
use std::{collections::BTreeMap, fmt};

/// The errors of a bulk write, and its results up to them (Bulk Write Specification,
/// *Exception*). An error that ended the bulk write early is the cause of the error that has this
/// value.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct BulkWriteError {
    /// The write concern errors of all commands.
    pub write_concern_errors: Vec<WriteConcernError>,
    /// The errors of operations, by their index in the caller's list.
    pub write_errors: BTreeMap<usize, WriteError>,
    /// The results of the operations that succeeded; `None` if none is known to have succeeded.
    pub partial_result: Option<PartialBulkWriteResult>,
}

/// The results of a bulk write that failed.
#[derive(Clone, Debug, PartialEq)]
pub enum PartialBulkWriteResult {
    /// The sums, if the call asked for no more.
    Summary(SummaryBulkWriteResult),
    /// The result of each operation, if the call asked for them.
    Verbose(VerboseBulkWriteResult),
}

impl fmt::Display for BulkWriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
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
