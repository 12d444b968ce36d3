//! The errors of GridFS.

use super::{Error, Responsible};
use bson::Bson;
use std::fmt;

/// The way in which a call of GridFS failed (GridFS Specification).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum GridFsErrorKind {
    /// The files collection has no such file.
    #[non_exhaustive]
    FileNotFound {
        /// The id or the name with which the file was looked for.
        identifier: GridFsFileIdentifier,
    },
    /// There are files with the name, but not as many revisions.
    #[non_exhaustive]
    RevisionNotFound {
        /// The revision that was asked for.
        revision: i32,
    },
    /// The files collection document does not describe a file: for example, the file has bytes but
    /// chunks of size zero.
    #[non_exhaustive]
    InvalidFile {
        /// The mistake in the document.
        message: String,
    },
    /// The chunk `n` of the file is missing, at its end or before a later chunk.
    #[non_exhaustive]
    MissingChunk {
        /// The index of the chunk, from zero on.
        n: u64,
    },
    /// The chunks collection has a chunk that the file must not have: its index is negative, occurs
    /// twice, or lies beyond the length of the file.
    #[non_exhaustive]
    ExtraChunk {
        /// The index of the chunk.
        n: i64,
    },
    /// A chunk document has no index or no binary data.
    #[non_exhaustive]
    InvalidChunk {
        /// The index of the chunk that was expected.
        n: u64,
        /// The mistake in the document.
        message: String,
    },
    /// The chunk `n` has more or fewer bytes than the length and the chunk size of the file demand.
    #[non_exhaustive]
    WrongSizeChunk {
        /// The number of bytes of the chunk.
        actual_size: usize,
        /// The number of bytes that the chunk must have.
        expected_size: u64,
        /// The index of the chunk, from zero on.
        n: u64,
    },
    /// The file would have more chunks than the type of their index permits (a 32-bit integer).
    #[non_exhaustive]
    WrongNumberOfChunks {
        /// The number of chunks that the file would have.
        actual_number: u64,
        /// The largest possible number of chunks.
        expected_number: u64,
    },
    /// The upload stream was closed or aborted, or has failed.
    UploadStreamClosed,
    /// An upload could not be aborted, so chunks of it can be left.
    #[non_exhaustive]
    AbortError {
        /// The error because of which the upload was aborted; `None` if the application has aborted
        /// it.
        original_error: Option<Error>,
        /// The error of the command that deletes the chunks.
        delete_error: Error,
    },
    /// An upload stream was used while a call for which it does not wait was still running: for
    /// example, it was aborted while it was being closed.
    WriteInProgress,
}

/// The id or the name of files in a bucket.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum GridFsFileIdentifier {
    /// The name, which several files can have.
    Filename(String),
    /// The `_id` in the files collection.
    Id(Bson),
}

impl fmt::Display for GridFsFileIdentifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Filename(name) => write!(f, "name {name:?}"),
            Self::Id(id) => write!(f, "id {id}"),
        }
    }
}

impl GridFsErrorKind {
    pub(super) const fn responsible(&self) -> Responsible {
        match self {
            Self::FileNotFound { .. }
            | Self::RevisionNotFound { .. }
            | Self::UploadStreamClosed
            | Self::WriteInProgress => Responsible::Caller,
            Self::WrongNumberOfChunks { .. } => Responsible::Limit,
            Self::InvalidFile { .. }
            | Self::MissingChunk { .. }
            | Self::ExtraChunk { .. }
            | Self::InvalidChunk { .. }
            | Self::WrongSizeChunk { .. }
            | Self::AbortError { .. } => Responsible::Peer,
        }
    }
}

impl fmt::Display for GridFsErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FileNotFound { identifier } => write!(f, "there is no file with {identifier}"),
            Self::RevisionNotFound { revision } => {
                write!(f, "the file has no revision {revision}")
            }
            Self::InvalidFile { message } => {
                write!(f, "the files collection document is not valid: {message}")
            }
            Self::MissingChunk { n } => write!(f, "chunk {n} of the file is missing"),
            Self::ExtraChunk { n } => {
                write!(f, "the chunk with index {n} is no chunk of the file")
            }
            Self::InvalidChunk { n, message } => {
                write!(f, "the document of chunk {n} is not valid: {message}")
            }
            Self::WrongSizeChunk {
                actual_size,
                expected_size,
                n,
            } => write!(
                f,
                "chunk {n} of the file has {actual_size} bytes, but must have {expected_size}"
            ),
            Self::WrongNumberOfChunks {
                actual_number,
                expected_number,
            } => write!(
                f,
                "the file would have {actual_number} chunks, but can have {expected_number}; \
                 choose larger chunks"
            ),
            Self::UploadStreamClosed => f.write_str(
                "the upload stream was closed or aborted, or has failed; open another one",
            ),
            Self::AbortError {
                original_error,
                delete_error,
            } => {
                write!(f, "the upload could not be aborted: {delete_error}")?;
                match original_error {
                    Some(error) => write!(f, "; it was aborted because of: {error}"),
                    None => Ok(()),
                }
            }
            Self::WriteInProgress => {
                f.write_str("a call of the upload stream is still running; wait for its end")
            }
        }
    }
}
