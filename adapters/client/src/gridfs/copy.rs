//! The calls that copy a whole file from or to a stream of the application.

use super::{GridFsBucket, OpenDownloadStream, OpenDownloadStreamByName, OpenUploadStream};
use crate::{Client, Runtime, gridfs::GridFsDownloadStream};
use bson::{Bson, Document};
use futures_io::{AsyncRead, AsyncWrite};
use futures_util::io::{AsyncReadExt as _, AsyncWriteExt as _};
use onionskin_core::error::Error;
use std::{
    future::{Future, IntoFuture},
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

/// The number of bytes that are read from a source at a time.
const PIECE_BYTES: usize = 64 * 1024;

/// An upload of all bytes of a source, which runs when it is awaited.
#[must_use = "a call runs when it is awaited"]
pub struct UploadFromStream<'a, R: Runtime, S> {
    open: OpenUploadStream<'a, R>,
    bucket: &'a GridFsBucket<R>,
    source: S,
}

impl<'a, R: Runtime, S> UploadFromStream<'a, R, S> {
    pub(super) fn new(bucket: &'a GridFsBucket<R>, filename: String, source: S) -> Self {
        Self {
            open: OpenUploadStream::new(bucket, filename, None),
            bucket,
            source,
        }
    }

    /// Sets the id of the file, which can have any type. Default: a new ObjectId.
    ///
    /// ```no_run
    /// # use onionskin::{Error, Runtime, gridfs::GridFsBucket};
    /// # async fn example<R: Runtime>(bucket: GridFsBucket<R>) -> Result<(), Error> {
    /// let source = &b"one line\n"[..];
    /// let id = bucket.upload_from_stream("notes.txt", source).id("notes of Ada".into()).await?;
    /// assert_eq!(id.as_str(), Some("notes of Ada"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn id(mut self, id: Bson) -> Self {
        self.open = self.open.id(id);
        self
    }

    /// Sets the size of the chunks of the file, in bytes. Default: that of the bucket. Zero, and
    /// more than 16,777,216, fail.
    ///
    /// ```no_run
    /// # use onionskin::{Error, Runtime, gridfs::GridFsBucket};
    /// # async fn example<R: Runtime>(bucket: GridFsBucket<R>, film: &[u8]) -> Result<(), Error> {
    /// let upload = bucket.upload_from_stream("film.mp4", film);
    /// let id = upload.chunk_size_bytes(4 * 1024 * 1024).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn chunk_size_bytes(mut self, size: u32) -> Self {
        self.open = self.open.chunk_size_bytes(size);
        self
    }

    /// Sets data of the application, which the files collection document keeps in the field
    /// `metadata`. Default: the document has no such field.
    ///
    /// ```no_run
    /// # use onionskin::{Error, Runtime, bson::doc, gridfs::GridFsBucket};
    /// # async fn example<R: Runtime>(bucket: GridFsBucket<R>) -> Result<(), Error> {
    /// let upload = bucket.upload_from_stream("notes.txt", &b"one line\n"[..]);
    /// let id = upload.metadata(doc! { "author": "Ada" }).await?;
    /// let by_ada = bucket.find(doc! { "metadata.author": "Ada" }).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn metadata(mut self, metadata: Document) -> Self {
        self.open = self.open.metadata(metadata);
        self
    }

    /// Sets the time limit of the whole upload. It does not end a read of the source, so the call
    /// takes longer if the source does. Default: that of the bucket, or else that of the database,
    /// or else `timeoutMS` of the client; zero means no limit.
    ///
    /// ```no_run
    /// # use onionskin::{Error, Runtime, gridfs::GridFsBucket};
    /// use std::time::Duration;
    ///
    /// # async fn example<R: Runtime>(bucket: GridFsBucket<R>, film: &[u8]) -> Result<(), Error> {
    /// let upload = bucket.upload_from_stream("film.mp4", film);
    /// let id = upload.timeout(Duration::from_secs(60)).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.open = self.open.timeout(timeout);
        self
    }
}

impl<'a, R: Runtime, S> IntoFuture for UploadFromStream<'a, R, S>
where
    S: AsyncRead + Send + Unpin + 'a,
{
    type Output = Result<Bson, Error>;
    type IntoFuture = UploadFromStreamFuture<'a, R>;

    fn into_future(self) -> Self::IntoFuture {
        let client = self.bucket.client().clone();
        let open = self.open.into_future();
        let mut source = self.source;
        let future = Box::pin(async move {
            let mut upload = open.await?;
            let mut piece = vec![0; PIECE_BYTES];
            loop {
                match source.read(&mut piece).await {
                    Ok(0) => break,
                    Ok(count) => upload.write_whole(&piece[..count]).await?,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => {
                        // The error of the source is the result, also if the abort fails (GridFS
                        // Specification, *Aborting an upload*).
                        let _ = upload.abort().await;
                        return Err(Error::custom(error));
                    }
                }
            }
            upload.finish().await?;
            Ok(upload.id().clone())
        });
        UploadFromStreamFuture { client, future }
    }
}

/// Declares the call of a whole download, with the setters of the call that opens its stream.
macro_rules! download_call {
    (
        $(#[$about:meta])*
        $name:ident of $open:ident {
            $($(#[$doc:meta])* $field:ident: $type:ty,)*
        }
    ) => {
        $(#[$about])*
        #[must_use = "a call runs when it is awaited"]
        pub struct $name<'a, R: Runtime, D> {
            open: $open<'a, R>,
            client: &'a Client<R>,
            destination: D,
        }

        impl<'a, R: Runtime, D> $name<'a, R, D> {
            pub(super) const fn new(
                client: &'a Client<R>,
                open: $open<'a, R>,
                destination: D,
            ) -> Self {
                Self {
                    open,
                    client,
                    destination,
                }
            }

            $(
                $(#[$doc])*
                pub fn $field(mut self, value: $type) -> Self {
                    self.open = self.open.$field(value);
                    self
                }
            )*
        }

        impl<'a, R: Runtime, D> IntoFuture for $name<'a, R, D>
        where
            D: AsyncWrite + Send + Unpin + 'a,
        {
            type Output = Result<u64, Error>;
            type IntoFuture = DownloadToStreamFuture<'a, R>;

            fn into_future(self) -> Self::IntoFuture {
                let open = self.open.into_future();
                let destination = self.destination;
                DownloadToStreamFuture {
                    client: self.client.clone(),
                    future: Box::pin(async move { copy(open.await?, destination).await }),
                }
            }
        }
    };
}

download_call! {
    /// A download of a file to a destination, which runs when it is awaited.
    ///
    /// ```no_run
    /// # use onionskin::{Error, Runtime, bson::Bson, gridfs::GridFsBucket};
    /// use std::time::Duration;
    ///
    /// # async fn example<R: Runtime>(bucket: GridFsBucket<R>, id: Bson) -> Result<(), Error> {
    /// let mut film = Vec::new();
    /// let download = bucket.download_to_stream(id, &mut film);
    /// let length = download.timeout(Duration::from_secs(60)).await?;
    /// # Ok(())
    /// # }
    /// ```
    DownloadToStream of OpenDownloadStream {
        /// Sets the time limit of the whole download. It does not end a write to the destination,
        /// so the call takes longer if the destination does. Default: that of the bucket, or else
        /// that of the database, or else `timeoutMS` of the client; zero means no limit.
        timeout: Duration,
    }
}

download_call! {
    /// A download of a revision of a file to a destination, which runs when it is awaited.
    ///
    /// ```no_run
    /// # use onionskin::{Error, Runtime, gridfs::GridFsBucket};
    /// use std::time::Duration;
    ///
    /// # async fn example<R: Runtime>(bucket: GridFsBucket<R>) -> Result<(), Error> {
    /// let mut oldest = Vec::new();
    /// let download = bucket.download_to_stream_by_name("film.mp4", &mut oldest);
    /// let length = download.revision(0).timeout(Duration::from_secs(60)).await?;
    /// # Ok(())
    /// # }
    /// ```
    DownloadToStreamByName of OpenDownloadStreamByName {
        /// Sets the revision of the file: 0 is the oldest file of the name, 1 the next, -1 the
        /// newest and -2 the one before. Default: -1.
        revision: i32,
        /// Sets the time limit of the whole download. It does not end a write to the destination,
        /// so the call takes longer if the destination does. Default: that of the bucket, or else
        /// that of the database, or else `timeoutMS` of the client; zero means no limit.
        timeout: Duration,
    }
}

/// Writes all bytes of a file to a destination, and returns their number.
async fn copy<R: Runtime>(
    mut download: GridFsDownloadStream<R>,
    mut destination: impl AsyncWrite + Unpin,
) -> Result<u64, Error> {
    let mut all = 0;
    loop {
        let bytes = download.next_bytes().await?;
        let count = bytes.len();
        if count == 0 {
            destination.flush().await.map_err(Error::custom)?;
            return Ok(all);
        }
        destination.write_all(bytes).await.map_err(Error::custom)?;
        download.consume(count);
        all += count as u64;
    }
}

/// Declares a future that polls a boxed one.
macro_rules! boxed {
    ($(#[$about:meta])* $name:ident => $output:ty) => {
        $(#[$about])*
        #[must_use = "a future does nothing unless it is awaited"]
        pub struct $name<'a, R: Runtime> {
            client: Client<R>,
            future: Pin<Box<dyn Future<Output = Result<$output, Error>> + Send + 'a>>,
        }

        // No field is pinned: the inner future has a box of its own.
        impl<R: Runtime> Unpin for $name<'_, R> {}

        impl<R: Runtime> $name<'_, R> {
            /// Returns the runtime of the client.
            ///
            /// ```no_run
            /// # use onionskin::{Runtime, gridfs::GridFsBucket};
            /// # fn example<R: Runtime + Clone>(bucket: GridFsBucket<R>) {
            /// # use std::future::IntoFuture;
            /// // A runtime that blocks polls the future with an executor of its own.
            /// let future = bucket.upload_from_stream("notes.txt", &b"Hello"[..]).into_future();
            /// let runtime = future.runtime().clone();
            /// # }
            /// ```
            #[must_use]
            pub fn runtime(&self) -> &R {
                self.client.runtime()
            }
        }

        impl<R: Runtime> Future for $name<'_, R> {
            type Output = Result<$output, Error>;

            fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
                self.future.as_mut().poll(context)
            }
        }
    };
}

boxed! {
    /// The future of [`UploadFromStream`](crate::gridfs::UploadFromStream). Its result is the id of
    /// the file.
    UploadFromStreamFuture => Bson
}

boxed! {
    /// The future of [`DownloadToStream`](crate::gridfs::DownloadToStream) and
    /// [`DownloadToStreamByName`](crate::gridfs::DownloadToStreamByName). Its result is the number
    /// of bytes.
    DownloadToStreamFuture => u64
}
