//! The options of buckets and of their calls.

use crate::operation::crud::{FindOneOptions, FindOptions};
use crate::options::{ReadConcern, SelectionCriteria, WriteConcern, options};
use bson::Document;
use std::time::Duration;

options! { ($)
    /// The options of a bucket. `None` means those of the database, unless a field says otherwise.
    ///
    /// ```
    /// use onionskin_core::operation::gridfs::GridFsBucketOptions;
    /// use onionskin_core::options::{ReadConcern, ReadPreference, SelectionCriteria, WriteConcern};
    /// use std::time::Duration;
    ///
    /// // The collections `images.files` and `images.chunks`, with chunks of one mebibyte.
    /// let options = GridFsBucketOptions::builder()
    ///     .bucket_name("images")
    ///     .chunk_size_bytes(1_048_576)
    ///     .write_concern(WriteConcern::majority())
    ///     .read_concern(ReadConcern::majority())
    ///     .selection_criteria(SelectionCriteria::from(ReadPreference::primary_preferred(None)))
    ///     .timeout(Duration::from_secs(60))
    ///     .build();
    /// assert_eq!(options.bucket_name.as_deref(), Some("images"));
    /// ```
    GridFsBucketOptions, built by GridFsBucketOptionsBuilder => {
        /// The prefix of the names of the two collections. Default: `fs`, for `fs.files` and
        /// `fs.chunks`.
        bucket_name: String => Kept "bucketName" (text),
        /// The size of the chunks of new files, in bytes. Default: 255 KiB.
        chunk_size_bytes: u32 => Kept "chunkSizeBytes",
        /// The read concern.
        read_concern: ReadConcern => Kept "readConcern",
        /// How servers are selected for reads.
        selection_criteria: SelectionCriteria => Kept "readPreference",
        /// The time limit of each call, and of the whole life of each stream. Zero means no limit.
        timeout: Duration => Kept "timeoutMS" as "crate::options::millis",
        /// The write concern.
        write_concern: WriteConcern => Kept "writeConcern",
    }

    /// Options of uploads. All are unset by default.
    ///
    /// ```
    /// use bson::doc;
    /// use onionskin_core::operation::gridfs::GridFsUploadOptions;
    /// use std::time::Duration;
    ///
    /// let options = GridFsUploadOptions::builder()
    ///     .metadata(doc! { "type": "image/png", "owner": "Ada" })
    ///     .timeout(Duration::from_secs(60))
    ///     .build();
    /// assert_eq!(options.chunk_size_bytes, None);
    /// ```
    GridFsUploadOptions, built by GridFsUploadOptionsBuilder, listed by gridfs_upload_options => {
        /// Sets the size of the chunks of the file, in bytes. Default: that of the bucket. Zero,
        /// and more than 16,777,216, fail.
        chunk_size_bytes: u32 => Kept "chunkSizeBytes",
        /// Sets data of the application, which the files collection document keeps in the field
        /// `metadata`. Default: the document has no such field.
        metadata: Document => Kept "metadata",
        /// Sets the time limit of the whole upload, from the opening of the stream to its close or
        /// abort. Default: that of the bucket, or else that of the database, or else `timeoutMS` of
        /// the client; zero means no limit.
        timeout: Duration => Kept "timeoutMS" as "crate::options::millis",
    }

    /// Options of downloads by id. All are unset by default.
    ///
    /// ```
    /// use onionskin_core::operation::gridfs::GridFsDownloadOptions;
    /// use std::time::Duration;
    ///
    /// let options = GridFsDownloadOptions::builder().timeout(Duration::from_secs(60)).build();
    /// assert_eq!(options.timeout, Some(Duration::from_secs(60)));
    /// ```
    GridFsDownloadOptions, built by GridFsDownloadOptionsBuilder,
    listed by gridfs_download_options => {
        /// Sets the time limit of the whole download, from the opening of the stream to the last
        /// read. Default: that of the bucket, or else that of the database, or else `timeoutMS` of
        /// the client; zero means no limit.
        timeout: Duration => Kept "timeoutMS" as "crate::options::millis",
    }

    /// Options of downloads by name. All are unset by default.
    ///
    /// ```
    /// use onionskin_core::operation::gridfs::GridFsDownloadByNameOptions;
    /// use std::time::Duration;
    ///
    /// // The revision before the newest one.
    /// let options = GridFsDownloadByNameOptions::builder()
    ///     .revision(-2)
    ///     .timeout(Duration::from_secs(60))
    ///     .build();
    /// assert_eq!(options.revision, Some(-2));
    /// ```
    GridFsDownloadByNameOptions, built by GridFsDownloadByNameOptionsBuilder,
    listed by gridfs_download_by_name_options => {
        /// Sets the revision of the file. The files of a name are its revisions, in the order of
        /// their upload: 0 is the oldest, 1 the next, -1 the newest and -2 the one before. Default:
        /// -1.
        revision: i32 => Kept "revision",
        /// Sets the time limit of the whole download, from the opening of the stream to the last
        /// read. Default: that of the bucket, or else that of the database, or else `timeoutMS` of
        /// the client; zero means no limit.
        timeout: Duration => Kept "timeoutMS" as "crate::options::millis",
    }

    /// Options of the calls of a bucket that delete, rename and drop. All are unset by default.
    ///
    /// ```
    /// use onionskin_core::operation::gridfs::GridFsWriteOptions;
    /// use std::time::Duration;
    ///
    /// let options = GridFsWriteOptions::builder().timeout(Duration::from_secs(30)).build();
    /// assert_eq!(options.timeout, Some(Duration::from_secs(30)));
    /// ```
    GridFsWriteOptions, built by GridFsWriteOptionsBuilder, listed by gridfs_write_options => {
        /// Sets the time limit of the whole call, which can be several commands. Default: that of
        /// the bucket, or else that of the database, or else `timeoutMS` of the client; zero means
        /// no limit.
        timeout: Duration => Kept "timeoutMS" as "crate::options::millis",
    }

    /// Options of `find` on the files collection. All are unset by default.
    ///
    /// ```
    /// use bson::doc;
    /// use onionskin_core::operation::gridfs::GridFsFindOptions;
    ///
    /// // The second page of the files, the largest files first.
    /// let options = GridFsFindOptions::builder()
    ///     .sort(doc! { "length": -1, "_id": 1 })
    ///     .skip(10)
    ///     .limit(10)
    ///     .build();
    /// assert_eq!(options.skip, Some(10));
    /// ```
    GridFsFindOptions, built by GridFsFindOptionsBuilder, listed by gridfs_find_options => {
        /// Sets whether the server may use temporary files for a large sort. From server 4.4 on.
        allow_disk_use: bool => Kept "allowDiskUse",
        /// Sets the maximum number of documents per batch. Default: chosen by the server.
        batch_size: u32 => Kept "batchSize",
        /// Sets the largest number of documents; zero for all. With a negative number, the server
        /// returns one batch of at most its absolute value.
        limit: i64 => Kept "limit",
        /// Sets the time limit of the server for the command (`maxTimeMS`), in whole milliseconds.
        /// Not sent if the operation has a time limit (`timeout`, or `timeoutMS` of the client).
        max_time: Duration => Kept "maxTimeMS" as "crate::options::millis",
        /// Sets whether the server keeps an idle cursor open. Default: it closes the cursor after
        /// ten minutes.
        no_cursor_timeout: bool => Kept "noCursorTimeout",
        /// Sets the number of documents to leave out at the beginning. Default: zero.
        skip: u64 => Kept "skip",
        /// Sets the order of the documents. Default: none.
        sort: Document => Kept "sort",
        /// Sets the time limit of the call and of all batches of its cursor. Default: that of the
        /// bucket, or else that of the database, or else `timeoutMS` of the client; zero means no
        /// limit.
        timeout: Duration => Kept "timeoutMS" as "crate::options::millis",
    }

    /// Options of `find_one` on the files collection. All are unset by default.
    ///
    /// ```
    /// use bson::doc;
    /// use onionskin_core::operation::gridfs::GridFsFindOneOptions;
    /// use std::time::Duration;
    ///
    /// // The newest file.
    /// let options = GridFsFindOneOptions::builder()
    ///     .sort(doc! { "uploadDate": -1 })
    ///     .timeout(Duration::from_secs(2))
    ///     .build();
    /// assert_eq!(options.sort, Some(doc! { "uploadDate": -1 }));
    /// ```
    GridFsFindOneOptions, built by GridFsFindOneOptionsBuilder,
    listed by gridfs_find_one_options => {
        /// Sets the time limit of the server for the command (`maxTimeMS`), in whole milliseconds.
        /// Not sent if the operation has a time limit (`timeout`, or `timeoutMS` of the client).
        max_time: Duration => Kept "maxTimeMS" as "crate::options::millis",
        /// Sets the number of documents to leave out at the beginning. Default: zero.
        skip: u64 => Kept "skip",
        /// Sets the order of the documents, of which the first is returned. Default: none.
        sort: Document => Kept "sort",
        /// Sets the time limit of the whole call. Default: that of the bucket, or else that of the
        /// database, or else `timeoutMS` of the client; zero means no limit.
        timeout: Duration => Kept "timeoutMS" as "crate::options::millis",
    }
}

impl From<&GridFsFindOptions> for FindOptions {
    fn from(options: &GridFsFindOptions) -> Self {
        let options = options.clone();
        Self {
            allow_disk_use: options.allow_disk_use,
            batch_size: options.batch_size,
            limit: options.limit,
            max_time: options.max_time,
            no_cursor_timeout: options.no_cursor_timeout,
            skip: options.skip,
            sort: options.sort,
            timeout: options.timeout,
            ..Self::default()
        }
    }
}

impl From<&GridFsFindOneOptions> for FindOneOptions {
    fn from(options: &GridFsFindOneOptions) -> Self {
        let options = options.clone();
        Self {
            max_time: options.max_time,
            skip: options.skip,
            sort: options.sort,
            timeout: options.timeout,
            ..Self::default()
        }
    }
}
