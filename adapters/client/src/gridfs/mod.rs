//! GridFS: files of any size in a database, read and written as streams.
//!
//! [`Database::gridfs_bucket`](crate::Database::gridfs_bucket) returns a bucket.

mod bucket;
mod calls;
mod copy;
mod download;
mod upload;

pub use bucket::GridFsBucket;
pub use calls::{
    GridFsDelete, GridFsDrop, GridFsFind, GridFsFindOne, GridFsRename, OpenDownloadStream,
    OpenDownloadStreamByName, OpenUploadStream,
};
pub use copy::{DownloadToStream, DownloadToStreamByName, UploadFromStream};
pub use download::GridFsDownloadStream;
pub use onionskin_core::operation::gridfs::{
    FilesCollectionDocument, GridFsBucketOptions, GridFsDownloadByNameOptions,
    GridFsDownloadOptions, GridFsFindOneOptions, GridFsFindOptions, GridFsUploadOptions,
    GridFsWriteOptions,
};
pub use upload::GridFsUploadStream;

pub(crate) mod futures {
    //! The futures of the calls that open streams.
    pub use super::{
        calls::{OpenDownloadStreamFuture, OpenUploadStreamFuture},
        copy::{DownloadToStreamFuture, UploadFromStreamFuture},
    };
}

use onionskin_core::error::Error;
use std::io;

/// The id of a file, which can have any BSON type.
pub type GridFsId = bson::Bson;

/// Returns an error of the traits of streams, which contains the error of the driver.
fn io_error(error: Error) -> io::Error {
    let kind = match error.is_timeout() {
        true => io::ErrorKind::TimedOut,
        false => io::ErrorKind::Other,
    };
    io::Error::new(kind, error)
}
