//! Buckets.

use super::{
    DownloadToStream, DownloadToStreamByName, GridFsBucketOptions, GridFsDelete, GridFsDrop,
    GridFsFind, GridFsFindOne, GridFsRename, OpenDownloadStream, OpenDownloadStreamByName,
    OpenUploadStream, UploadFromStream,
};
use crate::{
    Client, Database, Runtime,
    options::{ReadConcern, SelectionCriteria, WriteConcern},
};
use bson::{Bson, Document};
use onionskin_core::{
    error::{Error, GridFsErrorKind, GridFsFileIdentifier},
    operation::gridfs::{Bucket, StreamLimit},
};
use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// A GridFS bucket: files of any size in two collections of a database, `fs.files` and `fs.chunks`
/// unless it has another name. Cloning is cheap.
///
/// Before the first upload of a handle and its clones, the driver reads from the primary whether
/// the files collection is empty. If it is, the driver creates the indexes of the two collections
/// that do not exist (GridFS Specification, *Before write operations*). Other calls need no check.
///
/// A time limit of a call ([`timeout`](OpenUploadStream::timeout)), of the bucket, of the database
/// or of the client applies to the whole call, and to the whole life of a stream. GridFS has no
/// sessions: its calls cannot be part of a transaction.
///
/// ```no_run
/// # use onionskin::{Database, Error, Runtime};
/// # async fn example<R: Runtime>(database: Database<R>) -> Result<(), Error> {
/// let bucket = database.gridfs_bucket(None);
/// let id = bucket.upload_from_stream("hello.txt", &b"hello"[..]).await?;
/// let mut bytes = Vec::new();
/// bucket.download_to_stream(id, &mut bytes).await?;
/// assert_eq!(bytes, b"hello");
/// # Ok(())
/// # }
/// ```
pub struct GridFsBucket<R: Runtime> {
    client: Client<R>,
    parts: Bucket,
    /// True once an upload has checked the indexes.
    has_indexes: Arc<AtomicBool>,
}

impl<R: Runtime> Clone for GridFsBucket<R> {
    fn clone(&self) -> Self {
        Self {
            client: self.client.clone(),
            parts: self.parts.clone(),
            has_indexes: self.has_indexes.clone(),
        }
    }
}

impl<R: Runtime> fmt::Debug for GridFsBucket<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GridFsBucket")
            .field("files", self.parts.files())
            .field("defaults", self.parts.defaults())
            .finish_non_exhaustive()
    }
}

impl<R: Runtime> Database<R> {
    /// Returns a handle of a GridFS bucket. Nothing is sent to a server. `None` means the bucket
    /// `fs`, with chunks of 255 KiB and the options of the database.
    ///
    /// The calls of the bucket fail if its name cannot be that of a collection.
    ///
    /// ```no_run
    /// # use onionskin::{Database, Runtime};
    /// use onionskin::gridfs::GridFsBucketOptions;
    ///
    /// # fn example<R: Runtime>(database: Database<R>) {
    /// let options = GridFsBucketOptions::builder().bucket_name("images").build();
    /// let images = database.gridfs_bucket(options);
    /// # }
    /// ```
    #[must_use]
    pub fn gridfs_bucket(
        &self,
        options: impl Into<Option<GridFsBucketOptions>>,
    ) -> GridFsBucket<R> {
        let options = options.into().unwrap_or_default();
        GridFsBucket {
            client: self.client().clone(),
            parts: Bucket::new(self.shared_name(), &options, self.shared_defaults()),
            has_indexes: Arc::default(),
        }
    }
}

impl<R: Runtime> GridFsBucket<R> {
    /// Returns the client of the bucket.
    ///
    /// ```no_run
    /// # use onionskin::{Runtime, gridfs::GridFsBucket};
    /// # fn example<R: Runtime>(bucket: GridFsBucket<R>) {
    /// let archive = bucket.client().database("archive").gridfs_bucket(None);
    /// # }
    /// ```
    #[must_use]
    pub const fn client(&self) -> &Client<R> {
        &self.client
    }

    /// Returns how servers are selected for reads; `None` for the primary.
    ///
    /// ```no_run
    /// # use onionskin::{Database, Runtime};
    /// use onionskin::{
    ///     gridfs::GridFsBucketOptions,
    ///     options::{ReadPreference, SelectionCriteria},
    /// };
    ///
    /// # fn example<R: Runtime>(database: Database<R>) {
    /// let criteria = SelectionCriteria::from(ReadPreference::secondary(None));
    /// let options = GridFsBucketOptions::builder().selection_criteria(criteria.clone()).build();
    /// let images = database.gridfs_bucket(options);
    /// assert_eq!(images.selection_criteria(), Some(&criteria));
    /// # }
    /// ```
    #[must_use]
    pub fn selection_criteria(&self) -> Option<&SelectionCriteria> {
        self.parts.defaults().selection_criteria()
    }

    /// Returns the read concern; `None` for the default of the server.
    ///
    /// ```no_run
    /// # use onionskin::{Database, Runtime};
    /// use onionskin::{gridfs::GridFsBucketOptions, options::ReadConcern};
    ///
    /// # fn example<R: Runtime>(database: Database<R>) {
    /// let options = GridFsBucketOptions::builder().read_concern(ReadConcern::majority()).build();
    /// let images = database.gridfs_bucket(options);
    /// assert_eq!(images.read_concern(), Some(&ReadConcern::majority()));
    /// # }
    /// ```
    #[must_use]
    pub fn read_concern(&self) -> Option<&ReadConcern> {
        self.parts.defaults().read_concern.as_ref()
    }

    /// Returns the write concern; `None` for the default of the server.
    ///
    /// ```no_run
    /// # use onionskin::{Database, Runtime};
    /// use onionskin::{gridfs::GridFsBucketOptions, options::WriteConcern};
    ///
    /// # fn example<R: Runtime>(database: Database<R>) {
    /// let options = GridFsBucketOptions::builder().write_concern(WriteConcern::majority());
    /// let images = database.gridfs_bucket(options.build());
    /// assert_eq!(images.write_concern(), Some(&WriteConcern::majority()));
    /// # }
    /// ```
    #[must_use]
    pub fn write_concern(&self) -> Option<&WriteConcern> {
        self.parts.defaults().write_concern.as_ref()
    }

    /// Returns the size of the chunks of new files, in bytes.
    ///
    /// ```no_run
    /// # use onionskin::{Database, Runtime};
    /// # fn example<R: Runtime>(database: Database<R>) {
    /// assert_eq!(database.gridfs_bucket(None).chunk_size_bytes(), 255 * 1024);
    /// # }
    /// ```
    #[must_use]
    pub const fn chunk_size_bytes(&self) -> u32 {
        self.parts.chunk_size_bytes()
    }

    /// Opens a stream to which the bytes of a new file are written
    /// ([`GridFsUploadStream`](super::GridFsUploadStream)). Several files can have the same name:
    /// they are the revisions of the name.
    ///
    /// Fails if the chunk size or the name of the bucket cannot be used, or if the id cannot be
    /// encoded. Nothing is sent to a server before bytes are written.
    ///
    /// ```no_run
    /// # use onionskin::{Runtime, bson::doc, gridfs::GridFsBucket};
    /// use futures_util::AsyncWriteExt;
    ///
    /// # async fn example<R: Runtime>(
    /// #     bucket: GridFsBucket<R>,
    /// # ) -> Result<(), Box<dyn std::error::Error>> {
    /// let open = bucket.open_upload_stream("notes.txt").metadata(doc! { "author": "Ada" });
    /// let mut upload = open.await?;
    /// upload.write_all(b"one line\n").await?;
    /// upload.close().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn open_upload_stream(&self, filename: impl Into<String>) -> OpenUploadStream<'_, R> {
        OpenUploadStream::new(self, filename.into(), None)
    }

    /// Uploads all bytes of `source` as a new file, and returns its id. The source is not closed.
    ///
    /// If the source fails, the upload is aborted, and the call fails with an error of the kind
    /// [`Custom`](crate::error::ErrorKind::Custom) that has the `io::Error` of the source. The time
    /// limit of the call does not end a read of the source.
    ///
    /// ```no_run
    /// # use onionskin::{Error, Runtime, gridfs::GridFsBucket};
    /// # async fn example<R: Runtime>(bucket: GridFsBucket<R>) -> Result<(), Error> {
    /// let id = bucket.upload_from_stream("hello.txt", &b"hello"[..]).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn upload_from_stream<S>(
        &self,
        filename: impl Into<String>,
        source: S,
    ) -> UploadFromStream<'_, R, S> {
        UploadFromStream::new(self, filename.into(), source)
    }

    /// Opens a stream from which the bytes of the file with this id are read
    /// ([`GridFsDownloadStream`](super::GridFsDownloadStream)).
    ///
    /// Fails with [`GridFsErrorKind::FileNotFound`] if there is no such file.
    ///
    /// ```no_run
    /// # use onionskin::{Runtime, bson::Bson, gridfs::GridFsBucket};
    /// use futures_util::AsyncReadExt;
    ///
    /// # async fn example<R: Runtime>(
    /// #     bucket: GridFsBucket<R>, id: Bson,
    /// # ) -> Result<(), Box<dyn std::error::Error>> {
    /// let mut download = bucket.open_download_stream(id).await?;
    /// let mut bytes = Vec::new();
    /// download.read_to_end(&mut bytes).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn open_download_stream(&self, id: Bson) -> OpenDownloadStream<'_, R> {
        OpenDownloadStream::new(self, id)
    }

    /// Opens a stream from which the bytes of a file with this name are read: the newest one, or
    /// the [revision](OpenDownloadStreamByName::revision) that is set.
    ///
    /// Fails with [`GridFsErrorKind::FileNotFound`] if there is no file with the name, and with
    /// [`GridFsErrorKind::RevisionNotFound`] if there are fewer revisions.
    ///
    /// ```no_run
    /// # use onionskin::{Error, Runtime, gridfs::GridFsBucket};
    /// # async fn example<R: Runtime>(bucket: GridFsBucket<R>) -> Result<(), Error> {
    /// let oldest = bucket.open_download_stream_by_name("notes.txt").revision(0).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn open_download_stream_by_name(
        &self,
        filename: impl Into<String>,
    ) -> OpenDownloadStreamByName<'_, R> {
        OpenDownloadStreamByName::new(self, filename.into())
    }

    /// Writes the bytes of the file with this id to `destination`, and returns their number. The
    /// destination is flushed and not closed.
    ///
    /// Fails like [`open_download_stream`](Self::open_download_stream) and the reads of its stream.
    /// If the destination fails, the error is of the kind
    /// [`Custom`](crate::error::ErrorKind::Custom) and has the `io::Error` of the destination. The
    /// time limit of the call does not end a write to the destination.
    ///
    /// ```no_run
    /// # use onionskin::{Error, Runtime, bson::Bson, gridfs::GridFsBucket};
    /// # async fn example<R: Runtime>(bucket: GridFsBucket<R>, id: Bson) -> Result<(), Error> {
    /// let mut bytes = Vec::new();
    /// let count = bucket.download_to_stream(id, &mut bytes).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn download_to_stream<D>(&self, id: Bson, destination: D) -> DownloadToStream<'_, R, D> {
        let open = self.open_download_stream(id);
        DownloadToStream::new(&self.client, open, destination)
    }

    /// Writes the bytes of a file with this name to `destination`, and returns their number.
    /// Chooses the file like [`open_download_stream_by_name`](Self::open_download_stream_by_name),
    /// and else works like [`download_to_stream`](Self::download_to_stream).
    ///
    /// ```no_run
    /// # use onionskin::{Error, Runtime, gridfs::GridFsBucket};
    /// # async fn example<R: Runtime>(bucket: GridFsBucket<R>) -> Result<(), Error> {
    /// let mut bytes = Vec::new();
    /// bucket.download_to_stream_by_name("notes.txt", &mut bytes).revision(-2).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn download_to_stream_by_name<D>(
        &self,
        filename: impl Into<String>,
        destination: D,
    ) -> DownloadToStreamByName<'_, R, D> {
        let open = self.open_download_stream_by_name(filename);
        DownloadToStreamByName::new(&self.client, open, destination)
    }

    /// Deletes the file with this id, and its chunks.
    ///
    /// Fails with [`GridFsErrorKind::FileNotFound`] if there is no such file. Chunks with the id
    /// are deleted nevertheless, so do not delete a file that is being uploaded.
    ///
    /// ```no_run
    /// # use onionskin::{Error, Runtime, bson::Bson, gridfs::GridFsBucket};
    /// # async fn example<R: Runtime>(bucket: GridFsBucket<R>, id: Bson) -> Result<(), Error> {
    /// bucket.delete(id).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn delete(&self, id: Bson) -> GridFsDelete<'_, R> {
        GridFsDelete::new(self, GridFsFileIdentifier::Id(id))
    }

    /// Deletes all files with this name, and their chunks.
    ///
    /// Fails with [`GridFsErrorKind::FileNotFound`] if there is no such file.
    ///
    /// ```no_run
    /// # use onionskin::{Error, Runtime, gridfs::GridFsBucket};
    /// # async fn example<R: Runtime>(bucket: GridFsBucket<R>) -> Result<(), Error> {
    /// bucket.delete_by_name("notes.txt").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn delete_by_name(&self, filename: impl Into<String>) -> GridFsDelete<'_, R> {
        GridFsDelete::new(self, GridFsFileIdentifier::Filename(filename.into()))
    }

    /// Gives the file with this id another name.
    ///
    /// Fails with [`GridFsErrorKind::FileNotFound`] if there is no such file.
    ///
    /// ```no_run
    /// # use onionskin::{Error, Runtime, bson::Bson, gridfs::GridFsBucket};
    /// # async fn example<R: Runtime>(bucket: GridFsBucket<R>, id: Bson) -> Result<(), Error> {
    /// bucket.rename(id, "old notes.txt").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn rename(&self, id: Bson, new_filename: impl Into<String>) -> GridFsRename<'_, R> {
        let target = GridFsFileIdentifier::Id(id);
        GridFsRename::new(self, target, new_filename.into())
    }

    /// Gives all files with this name another name.
    ///
    /// Fails with [`GridFsErrorKind::FileNotFound`] if there is no such file.
    ///
    /// ```no_run
    /// # use onionskin::{Error, Runtime, gridfs::GridFsBucket};
    /// # async fn example<R: Runtime>(bucket: GridFsBucket<R>) -> Result<(), Error> {
    /// bucket.rename_by_name("notes.txt", "old notes.txt").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn rename_by_name(
        &self,
        filename: impl Into<String>,
        new_filename: impl Into<String>,
    ) -> GridFsRename<'_, R> {
        let target = GridFsFileIdentifier::Filename(filename.into());
        GridFsRename::new(self, target, new_filename.into())
    }

    /// Drops the two collections of the bucket, with all files. A bucket that does not exist is no
    /// error. The indexes are not created again before the next handle of the bucket uploads a
    /// file.
    ///
    /// ```no_run
    /// # use onionskin::{Error, Runtime, gridfs::GridFsBucket};
    /// # async fn example<R: Runtime>(bucket: GridFsBucket<R>) -> Result<(), Error> {
    /// bucket.drop().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub const fn drop(&self) -> GridFsDrop<'_, R> {
        GridFsDrop::new(self)
    }

    /// Finds all files that match `filter`. The filter can name fields of the files collection
    /// documents, such as `length` or `uploadDate`, and those of the metadata.
    ///
    /// ```no_run
    /// # use onionskin::{Error, Runtime, bson::doc, gridfs::GridFsBucket};
    /// # async fn example<R: Runtime>(bucket: GridFsBucket<R>) -> Result<(), Error> {
    /// let mut files = bucket.find(doc! { "metadata.author": "Ada" }).await?;
    /// while let Some(file) = files.next().await.transpose()? {
    ///     println!("{:?}: {} bytes", file.filename, file.length);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub const fn find(&self, filter: Document) -> GridFsFind<'_, R> {
        GridFsFind::new(self, filter)
    }

    /// Finds the first file that matches `filter`, as [`find`](Self::find) does; `None` if there is
    /// none.
    ///
    /// ```no_run
    /// # use onionskin::{Error, Runtime, bson::doc, gridfs::GridFsBucket};
    /// # async fn example<R: Runtime>(bucket: GridFsBucket<R>) -> Result<(), Error> {
    /// let largest = bucket.find_one(doc! {}).sort(doc! { "length": -1 }).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub const fn find_one(&self, filter: Document) -> GridFsFindOne<'_, R> {
        GridFsFindOne::new(self, filter)
    }

    pub(super) const fn parts(&self) -> &Bucket {
        &self.parts
    }

    /// Returns the time limit of a stream that is opened now.
    pub(super) fn stream_limit(&self, timeout: Option<Duration>) -> StreamLimit {
        let timeout = timeout.or_else(|| self.parts.defaults().timeout);
        let shared = self.client.shared();
        shared.with(|inner, now| inner.core.stream_limit(now, timeout))
    }

    pub(super) fn has_indexes(&self) -> bool {
        self.has_indexes.load(Ordering::Relaxed)
    }

    pub(super) fn note_indexes(&self) {
        self.has_indexes.store(true, Ordering::Relaxed);
    }
}

/// Returns the error of a call on a stream that has ended.
pub(super) fn closed() -> Error {
    Error::gridfs(GridFsErrorKind::UploadStreamClosed)
}
