//! GridFS: files of any size, stored in chunks (GridFS Specification).
//!
//! A bucket is two collections: one has a document for each file, the other the bytes of the files
//! in chunks. [`Upload`] and [`Download`] are the programs of streams, and [`Removal`],
//! [`Renaming`] and [`Dropping`] those of the other calls.

mod buffer;
mod download;
mod drop;
mod file;
mod indexes;
mod layout;
mod limit;
mod options;
mod removal;
mod renaming;
#[cfg(test)]
mod tests;
mod upload;

pub use buffer::{MAX_BATCH_BYTES, MAX_CHUNK_BYTES};
pub use download::{Download, Wanted};
pub use drop::Dropping;
pub use file::FilesCollectionDocument;
pub use limit::StreamLimit;
pub use options::{
    GridFsBucketOptions, GridFsBucketOptionsBuilder, GridFsDownloadByNameOptions,
    GridFsDownloadByNameOptionsBuilder, GridFsDownloadOptions, GridFsDownloadOptionsBuilder,
    GridFsFindOneOptions, GridFsFindOneOptionsBuilder, GridFsFindOptions, GridFsFindOptionsBuilder,
    GridFsUploadOptions, GridFsUploadOptionsBuilder, GridFsWriteOptions, GridFsWriteOptionsBuilder,
};
pub use removal::Removal;
pub use renaming::Renaming;
pub use upload::Upload;

use super::{
    Command,
    crud::{self, Defaults, DeleteOptions, SharedNamespace},
};
use crate::error::{Error, GridFsErrorKind, GridFsFileIdentifier, counts};
use bson::{Bson, Document, RawDocument, doc};
use std::sync::Arc;

/// The chunk size of files for which no other is set: 255 KiB.
pub const DEFAULT_CHUNK_BYTES: u32 = 255 * 1024;

/// The name of a bucket for which no other is set.
pub const DEFAULT_BUCKET_NAME: &str = "fs";

/// A bucket: its two collections, and the options of its calls.
#[derive(Clone, Debug)]
pub struct Bucket {
    pub(super) files: SharedNamespace,
    pub(super) chunks: SharedNamespace,
    pub(super) defaults: Arc<Defaults>,
    pub(super) chunk_bytes: u32,
}

impl Bucket {
    /// Returns the bucket of a database with these options. Names that cannot be used fail with the
    /// first command.
    #[must_use]
    pub fn new(database: &Arc<str>, options: &GridFsBucketOptions, defaults: &Defaults) -> Self {
        let name = options.bucket_name.as_deref();
        let name = name.unwrap_or(DEFAULT_BUCKET_NAME);
        let collection = |suffix: &str| {
            let name = format!("{name}.{suffix}");
            SharedNamespace::unchecked(database.clone(), name.into())
        };
        Self {
            files: collection("files"),
            chunks: collection("chunks"),
            defaults: Arc::new(defaults.with(options.clone().into())),
            chunk_bytes: options.chunk_size_bytes.unwrap_or(DEFAULT_CHUNK_BYTES),
        }
    }

    /// Returns the options that apply to the calls of the bucket.
    #[must_use]
    pub fn defaults(&self) -> &Defaults {
        &self.defaults
    }

    /// Returns the collection of the files collection documents.
    #[must_use]
    pub const fn files(&self) -> &SharedNamespace {
        &self.files
    }

    /// Returns the chunk size of new files, in bytes.
    #[must_use]
    pub const fn chunk_size_bytes(&self) -> u32 {
        self.chunk_bytes
    }

    /// Fails if a name cannot be used.
    pub fn check(&self) -> Result<(), Error> {
        self.files.check()
    }

    /// Returns the command that deletes the chunks that match `filter`.
    fn delete_chunks(&self, filter: &Document) -> Result<Command, Error> {
        let options = DeleteOptions::default();
        crud::delete(&self.chunks, filter, true, &options, &self.defaults)
    }
}

/// Returns the filter for documents whose field is equal to `id`. A document of query operators and
/// a regular expression would otherwise match other files than the application names.
fn equal(field: &str, id: &Bson) -> Document {
    match id {
        Bson::Document(_) | Bson::RegularExpression(_) => doc! { field: { "$eq": id } },
        _ => doc! { field: id },
    }
}

fn not_found(identifier: GridFsFileIdentifier) -> Error {
    Error::gridfs(GridFsErrorKind::FileNotFound { identifier })
}

/// True if a write has affected a document. An unacknowledged write has no reply, and counts as
/// one that has. Fails if the count of the reply is malformed.
fn has_affected(reply: Option<&RawDocument>) -> Result<bool, Error> {
    let counts = reply.map(|reply| counts(reply, ["n"])).transpose()?;
    Ok(counts.is_none_or(|[affected]| affected > 0))
}
