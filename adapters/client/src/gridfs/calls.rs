//! The calls of buckets, and their futures.

use super::{GridFsBucket, GridFsDownloadStream, GridFsUploadStream};
use crate::{
    Client, Cursor, Execution, Runtime,
    calls::setters,
    decode::{FirstDocument, OpenCursor},
    futures::{
        GridFsDeleteFuture, GridFsDropFuture, GridFsFindFuture, GridFsFindOneFuture,
        GridFsRenameFuture,
    },
    gridfs::{
        FilesCollectionDocument, GridFsDownloadByNameOptions, GridFsDownloadOptions,
        GridFsFindOneOptions, GridFsFindOptions, GridFsUploadOptions, GridFsWriteOptions,
    },
};
use bson::{Bson, Document};
use onionskin_core::{
    error::{Error, GridFsFileIdentifier},
    operation::{
        Single, crud,
        gridfs::{Download, Dropping, Removal, Renaming, Wanted},
    },
};
use std::{
    future::{Future, IntoFuture},
    marker::PhantomData,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

/// Declares a call of a bucket: its struct, which borrows the bucket and has these fields, and its
/// setters.
macro_rules! bucket_call {
    (
        $(#[$about:meta])*
        $name:ident { $($field:ident: $type:ty,)* } with $options:ident listed by $table:ident
    ) => {
        $(#[$about])*
        #[must_use = "a call runs when it is awaited"]
        pub struct $name<'a, R: Runtime> {
            bucket: &'a GridFsBucket<R>,
            $($field: $type,)*
            options: Option<Box<$options>>,
        }

        impl<'a, R: Runtime> $name<'a, R> {
            pub(super) const fn new(bucket: &'a GridFsBucket<R>, $($field: $type),*) -> Self {
                Self {
                    bucket,
                    $($field,)*
                    options: None,
                }
            }
        }

        onionskin_core::$table! { setters [R: Runtime] [$name<'_, R>] }
    };
}

bucket_call! {
    /// The opening of an upload, which happens when it is awaited. Nothing is sent to a server
    /// before bytes are written.
    ///
    /// ```no_run
    /// # use onionskin::{Error, Runtime, bson::doc, gridfs::GridFsBucket};
    /// use std::time::Duration;
    ///
    /// # async fn example<R: Runtime>(bucket: GridFsBucket<R>) -> Result<(), Error> {
    /// let upload = bucket
    ///     .open_upload_stream("notes.txt")
    ///     .chunk_size_bytes(64 * 1024)
    ///     .metadata(doc! { "author": "Ada" })
    ///     .timeout(Duration::from_secs(60))
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    OpenUploadStream { filename: String, id: Option<Bson>, }
    with GridFsUploadOptions listed by gridfs_upload_options
}

impl<R: Runtime> OpenUploadStream<'_, R> {
    /// Sets the id of the file, which can have any type. Default: a new ObjectId.
    ///
    /// ```no_run
    /// # use onionskin::{Error, Runtime, gridfs::GridFsBucket};
    /// # async fn example<R: Runtime>(bucket: GridFsBucket<R>) -> Result<(), Error> {
    /// let upload = bucket.open_upload_stream("notes.txt").id("notes of Ada".into()).await?;
    /// assert_eq!(upload.id().as_str(), Some("notes of Ada"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn id(mut self, id: Bson) -> Self {
        self.id = Some(id);
        self
    }
}

impl<R: Runtime> IntoFuture for OpenUploadStream<'_, R> {
    type Output = Result<GridFsUploadStream<R>, Error>;
    type IntoFuture = OpenUploadStreamFuture<R>;

    fn into_future(self) -> Self::IntoFuture {
        let options = self.options.map(|options| *options).unwrap_or_default();
        let stream = GridFsUploadStream::open(self.bucket, self.id, self.filename, options);
        OpenUploadStreamFuture {
            client: self.bucket.client().clone(),
            stream: Some(stream),
        }
    }
}

/// The future of [`OpenUploadStream`](crate::gridfs::OpenUploadStream), which is ready at once.
#[must_use = "a future does nothing unless it is awaited"]
pub struct OpenUploadStreamFuture<R: Runtime> {
    client: Client<R>,
    /// The stream; `None` once it was returned.
    stream: Option<Result<GridFsUploadStream<R>, Error>>,
}

// No field is pinned.
impl<R: Runtime> Unpin for OpenUploadStreamFuture<R> {}

impl<R: Runtime> OpenUploadStreamFuture<R> {
    /// Returns the runtime of the client.
    ///
    /// ```no_run
    /// # use onionskin::{Runtime, gridfs::GridFsBucket};
    /// # fn example<R: Runtime + Clone>(bucket: GridFsBucket<R>) {
    /// # use std::future::IntoFuture;
    /// // A runtime that blocks polls the future with an executor of its own.
    /// let future = bucket.open_upload_stream("notes.txt").into_future();
    /// let runtime = future.runtime().clone();
    /// # }
    /// ```
    #[must_use]
    pub fn runtime(&self) -> &R {
        self.client.runtime()
    }
}

impl<R: Runtime> Future for OpenUploadStreamFuture<R> {
    type Output = Result<GridFsUploadStream<R>, Error>;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        let message = "the stream was opened already; open another one";
        let stream = self.stream.take();
        Poll::Ready(stream.unwrap_or_else(|| Err(Error::argument(message))))
    }
}

bucket_call! {
    /// The opening of a download, which happens when it is awaited. It reads the files collection
    /// document.
    ///
    /// ```no_run
    /// # use onionskin::{Error, Runtime, bson::Bson, gridfs::GridFsBucket};
    /// use std::time::Duration;
    ///
    /// # async fn example<R: Runtime>(bucket: GridFsBucket<R>, id: Bson) -> Result<(), Error> {
    /// let download = bucket.open_download_stream(id).timeout(Duration::from_secs(60)).await?;
    /// # Ok(())
    /// # }
    /// ```
    OpenDownloadStream { id: Bson, }
    with GridFsDownloadOptions listed by gridfs_download_options
}

impl<R: Runtime> IntoFuture for OpenDownloadStream<'_, R> {
    type Output = Result<GridFsDownloadStream<R>, Error>;
    type IntoFuture = OpenDownloadStreamFuture<R>;

    fn into_future(self) -> Self::IntoFuture {
        let options = GridFsDownloadOptions::or_unset(self.options.as_deref());
        OpenDownloadStreamFuture::new(self.bucket, Wanted::Id(self.id), options.timeout)
    }
}

bucket_call! {
    /// The opening of a download by name, which happens when it is awaited. It reads the files
    /// collection document.
    ///
    /// ```no_run
    /// # use onionskin::{Error, Runtime, gridfs::GridFsBucket};
    /// use std::time::Duration;
    ///
    /// # async fn example<R: Runtime>(bucket: GridFsBucket<R>) -> Result<(), Error> {
    /// // The oldest file of this name.
    /// let download = bucket
    ///     .open_download_stream_by_name("notes.txt")
    ///     .revision(0)
    ///     .timeout(Duration::from_secs(60))
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    OpenDownloadStreamByName { filename: String, }
    with GridFsDownloadByNameOptions listed by gridfs_download_by_name_options
}

impl<R: Runtime> IntoFuture for OpenDownloadStreamByName<'_, R> {
    type Output = Result<GridFsDownloadStream<R>, Error>;
    type IntoFuture = OpenDownloadStreamFuture<R>;

    fn into_future(self) -> Self::IntoFuture {
        let options = GridFsDownloadByNameOptions::or_unset(self.options.as_deref());
        let wanted = Wanted::Revision(self.filename, options.revision.unwrap_or(-1));
        OpenDownloadStreamFuture::new(self.bucket, wanted, options.timeout)
    }
}

/// The future of [`OpenDownloadStream`](crate::gridfs::OpenDownloadStream) and
/// [`OpenDownloadStreamByName`](crate::gridfs::OpenDownloadStreamByName).
#[must_use = "a future does nothing unless it is awaited"]
pub struct OpenDownloadStreamFuture<R: Runtime> {
    client: Client<R>,
    /// The operation; `None` once it has ended.
    run: Option<Execution<R, Download>>,
}

// No field is pinned.
impl<R: Runtime> Unpin for OpenDownloadStreamFuture<R> {}

impl<R: Runtime> OpenDownloadStreamFuture<R> {
    fn new(bucket: &GridFsBucket<R>, wanted: Wanted, timeout: Option<Duration>) -> Self {
        let (client, limit) = (bucket.client().clone(), bucket.stream_limit(timeout));
        let download = Download::new(bucket.parts().clone(), wanted, limit);
        Self {
            run: Some(Execution::new(client.clone(), download)),
            client,
        }
    }

    /// Returns the runtime of the client.
    ///
    /// ```no_run
    /// # use onionskin::{Runtime, gridfs::GridFsBucket};
    /// # fn example<R: Runtime + Clone>(bucket: GridFsBucket<R>) {
    /// # use std::future::IntoFuture;
    /// // A runtime that blocks polls the future with an executor of its own.
    /// let future = bucket.open_download_stream_by_name("notes.txt").into_future();
    /// let runtime = future.runtime().clone();
    /// # }
    /// ```
    #[must_use]
    pub fn runtime(&self) -> &R {
        self.client.runtime()
    }
}

impl<R: Runtime> Future for OpenDownloadStreamFuture<R> {
    type Output = Result<GridFsDownloadStream<R>, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(run) = &mut self.run else {
            let message = "the stream was opened already; open another one";
            return Poll::Ready(Err(Error::argument(message)));
        };
        let result = ready!(Pin::new(run).poll(context));
        let run = self.run.take();
        Poll::Ready(match (result, run) {
            (Ok(_), Some(run)) => GridFsDownloadStream::new(run),
            (Ok(_), None) => Err(Error::argument("the download has ended")),
            (Err(error), _) => Err(error),
        })
    }
}

bucket_call! {
    /// The deletion of files, which runs when it is awaited.
    ///
    /// ```no_run
    /// # use onionskin::{Error, Runtime, gridfs::GridFsBucket};
    /// use std::time::Duration;
    ///
    /// # async fn example<R: Runtime>(bucket: GridFsBucket<R>) -> Result<(), Error> {
    /// bucket.delete_by_name("notes.txt").timeout(Duration::from_secs(10)).await?;
    /// # Ok(())
    /// # }
    /// ```
    GridFsDelete { target: GridFsFileIdentifier, }
    with GridFsWriteOptions listed by gridfs_write_options
}

impl<R: Runtime> IntoFuture for GridFsDelete<'_, R> {
    type Output = Result<(), Error>;
    type IntoFuture = GridFsDeleteFuture<R>;

    fn into_future(self) -> Self::IntoFuture {
        let timeout = GridFsWriteOptions::or_unset(self.options.as_deref()).timeout;
        let removal = Removal::new(self.bucket.parts().clone(), self.target, timeout);
        GridFsDeleteFuture(Execution::new(self.bucket.client().clone(), removal))
    }
}

bucket_call! {
    /// The renaming of files, which runs when it is awaited.
    ///
    /// ```no_run
    /// # use onionskin::{Error, Runtime, gridfs::GridFsBucket};
    /// use std::time::Duration;
    ///
    /// # async fn example<R: Runtime>(bucket: GridFsBucket<R>) -> Result<(), Error> {
    /// let rename = bucket.rename_by_name("notes.txt", "old notes.txt");
    /// rename.timeout(Duration::from_secs(10)).await?;
    /// # Ok(())
    /// # }
    /// ```
    GridFsRename { target: GridFsFileIdentifier, new_filename: String, }
    with GridFsWriteOptions listed by gridfs_write_options
}

impl<R: Runtime> IntoFuture for GridFsRename<'_, R> {
    type Output = Result<(), Error>;
    type IntoFuture = GridFsRenameFuture<R>;

    fn into_future(self) -> Self::IntoFuture {
        let timeout = GridFsWriteOptions::or_unset(self.options.as_deref()).timeout;
        let parts = self.bucket.parts().clone();
        let renaming = Renaming::new(parts, self.target, self.new_filename, timeout);
        GridFsRenameFuture(Execution::new(self.bucket.client().clone(), renaming))
    }
}

bucket_call! {
    /// The drop of a bucket, which runs when it is awaited.
    ///
    /// ```no_run
    /// # use onionskin::{Error, Runtime, gridfs::GridFsBucket};
    /// use std::time::Duration;
    ///
    /// # async fn example<R: Runtime>(bucket: GridFsBucket<R>) -> Result<(), Error> {
    /// bucket.drop().timeout(Duration::from_secs(30)).await?;
    /// # Ok(())
    /// # }
    /// ```
    GridFsDrop {} with GridFsWriteOptions listed by gridfs_write_options
}

impl<R: Runtime> IntoFuture for GridFsDrop<'_, R> {
    type Output = Result<(), Error>;
    type IntoFuture = GridFsDropFuture<R>;

    fn into_future(self) -> Self::IntoFuture {
        let timeout = GridFsWriteOptions::or_unset(self.options.as_deref()).timeout;
        let dropping = Dropping::new(self.bucket.parts().clone(), timeout);
        GridFsDropFuture(Execution::new(self.bucket.client().clone(), dropping))
    }
}

bucket_call! {
    /// A `find` of files, which runs when it is awaited. Its result is a [`Cursor`].
    ///
    /// ```no_run
    /// # use onionskin::{Error, Runtime, bson::doc, gridfs::GridFsBucket};
    /// use std::time::Duration;
    ///
    /// # async fn example<R: Runtime>(bucket: GridFsBucket<R>) -> Result<(), Error> {
    /// // The largest files, a page at a time.
    /// let files = bucket
    ///     .find(doc! { "metadata.author": "Ada" })
    ///     .sort(doc! { "length": -1 })
    ///     .allow_disk_use(true)
    ///     .skip(100)
    ///     .limit(100)
    ///     .batch_size(50)
    ///     .no_cursor_timeout(true)
    ///     .max_time(Duration::from_secs(2))
    ///     .await?;
    /// let all = bucket.find(doc! {}).timeout(Duration::from_secs(10)).await?;
    /// # Ok(())
    /// # }
    /// ```
    GridFsFind { filter: Document, } with GridFsFindOptions listed by gridfs_find_options
}

impl<R: Runtime> IntoFuture for GridFsFind<'_, R> {
    type Output = Result<Cursor<R, FilesCollectionDocument>, Error>;
    type IntoFuture = GridFsFindFuture<R>;

    fn into_future(self) -> Self::IntoFuture {
        let options = GridFsFindOptions::or_unset(self.options.as_deref()).into();
        let (client, parts) = (self.bucket.client(), self.bucket.parts());
        let command = parts
            .check()
            .and_then(|()| crud::find(parts.files(), &self.filter, &options, parts.defaults()));
        let opener = OpenCursor::new(client, parts.files().shared_database());
        GridFsFindFuture(Execution::new(client.clone(), Single::new(command, opener)))
    }
}

bucket_call! {
    /// A `find_one` of a file, which runs when it is awaited.
    ///
    /// ```no_run
    /// # use onionskin::{Error, Runtime, bson::doc, gridfs::GridFsBucket};
    /// use std::time::Duration;
    ///
    /// # async fn example<R: Runtime>(bucket: GridFsBucket<R>) -> Result<(), Error> {
    /// let second_newest = bucket
    ///     .find_one(doc! { "filename": "notes.txt" })
    ///     .sort(doc! { "uploadDate": -1 })
    ///     .skip(1)
    ///     .max_time(Duration::from_secs(2))
    ///     .await?;
    /// let any = bucket.find_one(doc! {}).timeout(Duration::from_secs(2)).await?;
    /// # Ok(())
    /// # }
    /// ```
    GridFsFindOne { filter: Document, } with GridFsFindOneOptions listed by gridfs_find_one_options
}

impl<R: Runtime> IntoFuture for GridFsFindOne<'_, R> {
    type Output = Result<Option<FilesCollectionDocument>, Error>;
    type IntoFuture = GridFsFindOneFuture<R>;

    fn into_future(self) -> Self::IntoFuture {
        let options = GridFsFindOneOptions::or_unset(self.options.as_deref()).into();
        let (client, parts) = (self.bucket.client(), self.bucket.parts());
        let command = parts
            .check()
            .and_then(|()| crud::find_one(parts.files(), &self.filter, &options, parts.defaults()));
        let decode = FirstDocument(PhantomData);
        GridFsFindOneFuture(Execution::new(client.clone(), Single::new(command, decode)))
    }
}
