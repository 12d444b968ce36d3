//! The streams of GridFS for blocking programs.

use crate::BlockingRuntime;
use futures_util::io::{AsyncReadExt as _, AsyncWriteExt as _};
use onionskin::{
    Result,
    gridfs::{self, FilesCollectionDocument, GridFsId},
};
use std::io::{self, Read, Write};

/// An upload: the bytes that are written to it become a file of the bucket. It implements
/// [`Write`]. [`close`](Self::close) stores the file.
///
/// If a stream is dropped before it was closed, the drop deletes the chunks that were stored, and
/// waits for that, whatever the time limit of the stream is: at most five seconds for a command
/// that runs, and five for the deletion.
///
/// ```no_run
/// use onionskin_blocking::{Client, Run};
/// use std::{fs::File, io};
///
/// let client = Client::with_uri_str("mongodb://localhost")?;
/// let bucket = client.database("app").gridfs_bucket(None);
/// let mut upload = bucket.open_upload_stream("notes.txt").run()?;
/// io::copy(&mut File::open("notes.txt")?, &mut upload)?;
/// upload.close()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "an upload stores a file only when it is closed"]
pub struct GridFsUploadStream {
    stream: gridfs::GridFsUploadStream<BlockingRuntime>,
    runtime: BlockingRuntime,
}

impl GridFsUploadStream {
    pub(crate) const fn new(
        runtime: BlockingRuntime,
        stream: gridfs::GridFsUploadStream<BlockingRuntime>,
    ) -> Self {
        Self { stream, runtime }
    }

    /// Returns the id of the file.
    ///
    /// ```no_run
    /// use onionskin_blocking::{Client, Run};
    ///
    /// let client = Client::with_uri_str("mongodb://localhost")?;
    /// let bucket = client.database("app").gridfs_bucket(None);
    /// let upload = bucket.open_upload_stream("notes.txt").run()?;
    /// println!("the file will have the id {}", upload.id());
    /// # Ok::<(), onionskin_blocking::Error>(())
    /// ```
    #[must_use]
    pub const fn id(&self) -> &GridFsId {
        self.stream.id()
    }

    /// Stores the rest of the file and its document. Afterwards the stream takes no more bytes. The
    /// error contains an [`Error`](onionskin::Error).
    ///
    /// ```no_run
    /// use onionskin_blocking::{Client, Run};
    /// use std::io::Write;
    ///
    /// let client = Client::with_uri_str("mongodb://localhost")?;
    /// let bucket = client.database("app").gridfs_bucket(None);
    /// let mut upload = bucket.open_upload_stream("notes.txt").run()?;
    /// upload.write_all(b"one line\n")?;
    /// upload.close()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if the thread is already in a blocking call of this client.
    pub fn close(&mut self) -> io::Result<()> {
        self.runtime.block_on(self.stream.close())
    }

    /// Deletes the chunks that were stored. Afterwards the stream takes no more bytes. Fails like
    /// [`GridFsUploadStream::abort`](gridfs::GridFsUploadStream::abort).
    ///
    /// ```no_run
    /// use onionskin_blocking::{Client, Run};
    /// use std::io::Write;
    ///
    /// let client = Client::with_uri_str("mongodb://localhost")?;
    /// let bucket = client.database("app").gridfs_bucket(None);
    /// let mut upload = bucket.open_upload_stream("notes.txt").run()?;
    /// upload.write_all(b"one line\n")?;
    /// upload.abort()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if the thread is already in a blocking call of this client.
    pub fn abort(&mut self) -> Result<()> {
        self.runtime.block_on(self.stream.abort())
    }
}

impl Write for GridFsUploadStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.runtime.block_on(self.stream.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.runtime.block_on(self.stream.flush())
    }
}

impl Drop for GridFsUploadStream {
    fn drop(&mut self) {
        // Within `block_on` or `run_ready`, this function cannot wait. The drop of the inner stream
        // then starts a task that deletes the chunks.
        if !self.runtime.is_busy_here() {
            self.runtime.block_on(self.stream.abandon());
        }
    }
}

/// A download: the bytes of a file, read in order. It implements [`Read`].
///
/// ```no_run
/// use onionskin_blocking::{Client, Run};
/// use std::{fs::File, io};
///
/// let client = Client::with_uri_str("mongodb://localhost")?;
/// let bucket = client.database("app").gridfs_bucket(None);
/// let mut download = bucket.open_download_stream_by_name("notes.txt").run()?;
/// io::copy(&mut download, &mut File::create("notes.txt")?)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "a download gives its bytes only when it is read"]
pub struct GridFsDownloadStream {
    stream: gridfs::GridFsDownloadStream<BlockingRuntime>,
    runtime: BlockingRuntime,
}

impl GridFsDownloadStream {
    pub(crate) const fn new(
        runtime: BlockingRuntime,
        stream: gridfs::GridFsDownloadStream<BlockingRuntime>,
    ) -> Self {
        Self { stream, runtime }
    }

    /// Returns the document of the file in the files collection.
    ///
    /// ```no_run
    /// use onionskin_blocking::{Client, Run};
    ///
    /// let client = Client::with_uri_str("mongodb://localhost")?;
    /// let bucket = client.database("app").gridfs_bucket(None);
    /// let download = bucket.open_download_stream_by_name("notes.txt").run()?;
    /// println!("{} bytes, uploaded {}", download.file().length, download.file().upload_date);
    /// # Ok::<(), onionskin_blocking::Error>(())
    /// ```
    #[must_use]
    pub const fn file(&self) -> &FilesCollectionDocument {
        self.stream.file()
    }
}

impl Read for GridFsDownloadStream {
    fn read(&mut self, target: &mut [u8]) -> io::Result<usize> {
        self.runtime.block_on(self.stream.read(target))
    }
}
