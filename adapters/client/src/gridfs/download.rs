//! The streams of downloads.

use crate::{Execution, Runtime};
use futures_io::AsyncRead;
use onionskin_core::{
    error::Error,
    operation::gridfs::{Download, FilesCollectionDocument},
};
use std::{
    fmt,
    future::{Future as _, poll_fn},
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

/// A download: the bytes of a file, read in order.
///
/// The stream implements `AsyncRead` of the crate `futures-io`, and with the feature `tokio-io`
/// that of `tokio`. The first read opens a cursor of the chunks, and the stream keeps one batch of
/// it in memory, which is at most 16 MB. The errors of `AsyncRead` contain an [`Error`], which
/// `io::Error::downcast` returns.
///
/// Each chunk is checked before its bytes are read. A read fails if a chunk is missing, has a wrong
/// size, or is one too many (kinds of [`GridFsErrorKind`]), and every later read fails with the
/// same error. Errors behind the bytes that were read are not noticed (GridFS Specification, *File
/// Download*).
///
/// The time limit
/// ([`OpenDownloadStream::timeout`](super::OpenDownloadStream::timeout)) applies to the whole life
/// of the stream, also while nothing is read. After the limit, the bytes that were fetched before
/// can still be read. A stream that is dropped early closes its cursor in the background.
///
/// ```no_run
/// # use onionskin::{Error, Runtime, bson::Bson, gridfs::GridFsBucket};
/// use futures_util::AsyncReadExt;
///
/// # async fn example<R: Runtime>(
/// #     bucket: GridFsBucket<R>, id: Bson,
/// # ) -> Result<(), Box<dyn std::error::Error>> {
/// let mut download = bucket.open_download_stream(id).await?;
/// println!("{} bytes", download.file().length);
/// let mut beginning = [0; 100];
/// let count = download.read(&mut beginning).await?;
/// # Ok(())
/// # }
/// ```
///
/// [`GridFsErrorKind`]: crate::error::GridFsErrorKind
#[must_use = "a download gives its bytes only when it is read"]
pub struct GridFsDownloadStream<R: Runtime> {
    run: Execution<R, Download>,
    file: FilesCollectionDocument,
    /// The id of the process in which the stream was opened.
    process: Option<u32>,
}

impl<R: Runtime> fmt::Debug for GridFsDownloadStream<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GridFsDownloadStream")
            .field("file", &self.file)
            .finish_non_exhaustive()
    }
}

// No field is pinned.
impl<R: Runtime> Unpin for GridFsDownloadStream<R> {}

impl<R: Runtime> GridFsDownloadStream<R> {
    /// Returns the stream of a download whose file was found.
    pub(super) fn new(run: Execution<R, Download>) -> Result<Self, Error> {
        let file = run.program().file().cloned();
        let file = file.ok_or_else(|| Error::argument("the download has no file"))?;
        let process = run.runtime().process_id();
        Ok(Self { run, file, process })
    }

    /// Returns the document of the file in the files collection: its length, name and metadata.
    ///
    /// ```no_run
    /// # use onionskin::{Error, Runtime, gridfs::GridFsBucket};
    /// # async fn example<R: Runtime>(bucket: GridFsBucket<R>) -> Result<(), Error> {
    /// let download = bucket.open_download_stream_by_name("notes.txt").await?;
    /// println!("uploaded {}", download.file().upload_date);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub const fn file(&self) -> &FilesCollectionDocument {
        &self.file
    }

    /// Returns the runtime of the client.
    ///
    /// ```no_run
    /// # use onionskin::{Runtime, gridfs::GridFsDownloadStream};
    /// # fn example<R: Runtime + Clone>(download: GridFsDownloadStream<R>) {
    /// // A runtime that blocks polls the stream with an executor of its own.
    /// let runtime = download.runtime().clone();
    /// # }
    /// ```
    #[must_use]
    pub fn runtime(&self) -> &R {
        self.run.runtime()
    }

    /// Waits for bytes, and returns those of the current chunk; none at the end of the file.
    pub(super) async fn next_bytes(&mut self) -> Result<&[u8], Error> {
        poll_fn(|context| self.poll_bytes(context)).await?;
        Ok(self.run.program().bytes())
    }

    /// Marks bytes of the current chunk as read.
    pub(super) fn consume(&mut self, count: usize) {
        self.run.program_mut().consume(count);
    }

    /// Fetches chunks until there are bytes to read, or until the end of the file.
    fn poll_bytes(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        if self.run.program().bytes().is_empty() {
            if self.run.is_over() {
                self.leave_to_parent();
                self.run.restart();
            }
            ready!(Pin::new(&mut self.run).poll(context))?;
        }
        Poll::Ready(Ok(()))
    }

    /// If the process was forked after the stream was opened, gives the cursor up, because the
    /// parent process still reads from it.
    fn leave_to_parent(&mut self) {
        if self.runtime().process_id() != self.process {
            let message = "the download belongs to the parent process; open a new one after a fork";
            self.run.program_mut().leave(Error::argument(message));
        }
    }
}

impl<R: Runtime> AsyncRead for GridFsDownloadStream<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        target: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        if target.is_empty() {
            return Poll::Ready(Ok(0));
        }
        ready!(self.poll_bytes(context)).map_err(super::io_error)?;
        Poll::Ready(Ok(self.run.program_mut().read(target)))
    }
}

#[cfg(feature = "tokio-io")]
impl<R: Runtime> tokio::io::AsyncRead for GridFsDownloadStream<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        target: &mut tokio::io::ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if target.remaining() > 0 {
            ready!(self.poll_bytes(context)).map_err(super::io_error)?;
            let bytes = self.run.program().bytes();
            let count = bytes.len().min(target.remaining());
            target.put_slice(&bytes[..count]);
            self.run.program_mut().consume(count);
        }
        Poll::Ready(Ok(()))
    }
}

impl<R: Runtime> Drop for GridFsDownloadStream<R> {
    fn drop(&mut self) {
        // `run` is dropped next and closes an open cursor, which must not happen to a cursor of the
        // parent process.
        self.leave_to_parent();
    }
}
