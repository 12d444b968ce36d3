//! The types of this crate on one runtime.

/// Declares the types of this crate without their parameter for the runtime, as the crate of a
/// runtime exports them. They take precedence over `pub use onionskin::*`.
#[doc(hidden)]
#[macro_export]
macro_rules! aliases {
    ($runtime:ty, $name:literal) => {
        #[doc = concat!("A client for one MongoDB deployment, whose tasks run on ", $name, ".")]
        pub type Client = $crate::Client<$runtime>;

        #[doc = concat!("A handle to a database, of a client on ", $name, ".")]
        pub type Database = $crate::Database<$runtime>;

        /// A handle to a collection whose documents are read and written as `T`, of a client on
        #[doc = concat!($name, ".")]
        pub type Collection<T> = $crate::Collection<$runtime, T>;

        /// The documents of a query or an aggregation, decoded as `T`, of a client on
        #[doc = concat!($name, ".")]
        pub type Cursor<T> = $crate::Cursor<$runtime, T>;

        #[doc = concat!("A session that an application starts, of a client on ", $name, ".")]
        pub type ClientSession = $crate::ClientSession<$runtime>;

        /// The documents of a call in a session, decoded as `T`, of a client on
        #[doc = concat!($name, ".")]
        pub type SessionCursor<T> = $crate::SessionCursor<$runtime, T>;

        /// The events of a change stream, decoded as `T`, of a client on
        #[doc = concat!($name, ".")]
        pub type ChangeStream<T> = $crate::ChangeStream<$runtime, T>;

        /// The events of a change stream in a session, decoded as `T`, of a client on
        #[doc = concat!($name, ".")]
        pub type SessionChangeStream<T> = $crate::SessionChangeStream<$runtime, T>;

        #[doc = concat!("A cursor of whole batches, of a client on ", $name, ".")]
        pub type RawBatchCursor = $crate::RawBatchCursor<$runtime>;

        #[doc = concat!("A cursor of whole batches in a session, of a client on ", $name, ".")]
        pub type SessionRawBatchCursor = $crate::SessionRawBatchCursor<$runtime>;

        #[doc = concat!("A bucket of files (GridFS), of a client on ", $name, ".")]
        pub type GridFsBucket = $crate::GridFsBucket<$runtime>;

        #[doc = concat!("The upload of a file to GridFS, of a client on ", $name, ".")]
        pub type GridFsUploadStream = $crate::gridfs::GridFsUploadStream<$runtime>;

        #[doc = concat!("The download of a file from GridFS, of a client on ", $name, ".")]
        pub type GridFsDownloadStream = $crate::gridfs::GridFsDownloadStream<$runtime>;

        $crate::alias_modules! {}
    };
}

/// Declares the modules in which the official driver has some of these types.
#[doc(hidden)]
#[macro_export]
macro_rules! alias_modules {
    () => {
        /// Files in a database (GridFS).
        pub mod gridfs {
            pub use super::{GridFsBucket, GridFsDownloadStream, GridFsUploadStream};
            pub use $crate::gridfs::*;
        }

        /// Cursors of whole batches.
        pub mod raw_batch_cursor {
            pub use super::{RawBatchCursor, SessionRawBatchCursor};
            pub use $crate::raw_batch_cursor::*;
        }

        /// Change streams and their events.
        pub mod change_stream {
            pub use super::{ChangeStream, SessionChangeStream};
            pub use $crate::change_stream::*;

            /// Change streams of sessions.
            pub mod session {
                pub use super::super::SessionChangeStream;
                pub use $crate::change_stream::session::*;
            }
        }
    };
}
