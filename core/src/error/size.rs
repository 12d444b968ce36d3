//! The memory that errors hold.

use super::{Error, ErrorKind, IndexedWriteError, WriteConcernError, WriteError, WriteFailure};
use bson::RawDocumentBuf;
use std::error::Error as _;

impl Error {
    /// Returns the size in bytes of what servers have sent to the error and its causes: texts,
    /// replies and details. The fixed size of the error is not counted.
    pub(crate) fn received_bytes(&self) -> usize {
        let own = match self.kind() {
            ErrorKind::Command(fault) => {
                let reply = fault
                    .reply
                    .as_ref()
                    .map_or(0, |reply| reply.as_bytes().len());
                fault.message.len() + reply
            }
            ErrorKind::InsertMany(all) => {
                let errors: usize = all.errors().iter().map(of_statement).sum();
                let concerns = all.write_concern_error.iter();
                errors + of_concerns(concerns.chain(&all.more_write_concern_errors))
            }
            ErrorKind::BulkWrite(all) => {
                let errors: usize = all.write_errors.values().map(of_write).sum();
                errors + of_concerns(&all.write_concern_errors)
            }
            ErrorKind::Write(WriteFailure::WriteError(error)) => of_write(error),
            ErrorKind::Write(WriteFailure::WriteConcernError(error)) => of_concerns([error]),
            _ => 0,
        };
        let source = self
            .source()
            .and_then(|source| source.downcast_ref::<Self>());
        own + source.map_or(0, Self::received_bytes)
    }
}

fn of_details(details: Option<&RawDocumentBuf>) -> usize {
    details.map_or(0, |details| details.as_bytes().len())
}

fn of_statement(error: &IndexedWriteError) -> usize {
    size_of::<IndexedWriteError>() + error.message.len() + of_details(error.details.as_ref())
}

fn of_write(error: &WriteError) -> usize {
    size_of::<WriteError>() + error.message.len() + of_details(error.details.as_ref())
}

fn of_concerns<'a>(errors: impl IntoIterator<Item = &'a WriteConcernError>) -> usize {
    let size = |error: &WriteConcernError| {
        size_of_val(error) + error.message.len() + of_details(error.details.as_ref())
    };
    errors.into_iter().map(size).sum()
}
