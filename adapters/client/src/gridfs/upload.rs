//! The streams of uploads.

use super::{GridFsBucket, bucket::closed};
use crate::{Execution, Runtime, client::EndCommand, timer};
use bson::{Bson, DateTime};
use futures_io::AsyncWrite;
use onionskin_core::{
    error::{Error, GridFsErrorKind},
    operation::{
        ABANDON_LIMIT, Abandoned, Program as _,
        gridfs::{GridFsUploadOptions, Upload},
    },
};
use std::{
    fmt,
    future::poll_fn,
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

/// An upload: the bytes that are written to it become a file of the bucket.
///
/// The stream implements `AsyncWrite` of the crate `futures-io`, and with the feature `tokio-io`
/// that of `tokio`. Close it (`close`, with tokio `shutdown`) to store the file: before, no reader
/// sees it. The errors of `AsyncWrite` contain an [`Error`], which `io::Error::downcast` returns.
///
/// The stream collects chunks, and sends up to 16 MiB of them with one command. Until they are
/// stored, the stream takes no more bytes. `flush` waits until all complete chunks are stored; the
/// last chunk is stored when the stream is closed.
///
/// A stream that is dropped before it was closed deletes its chunks in the background, as
/// [`abort`](Self::abort) does. If it is dropped while it is being closed, the file is either
/// stored as a whole, or not at all. After an error the chunks stay, and the stream can be dropped
/// only (GridFS Specification, *Operation Failure*). Futures of the stream can be dropped: no bytes
/// are lost or written twice.
///
/// The time limit ([`OpenUploadStream::timeout`](super::OpenUploadStream::timeout)) applies to the
/// whole life of the stream, also while nothing is written.
///
/// ```no_run
/// # use onionskin::{Error, Runtime, gridfs::GridFsBucket};
/// use futures_util::AsyncWriteExt;
///
/// # async fn example<R: Runtime>(
/// #     bucket: GridFsBucket<R>,
/// # ) -> Result<(), Box<dyn std::error::Error>> {
/// let mut upload = bucket.open_upload_stream("notes.txt").await?;
/// upload.write_all(b"one line\n").await?;
/// upload.close().await?;
/// println!("stored as {}", upload.id());
/// # Ok(())
/// # }
/// ```
#[must_use = "an upload stores a file only when it is closed"]
pub struct GridFsUploadStream<R: Runtime> {
    bucket: GridFsBucket<R>,
    id: Bson,
    /// The program of the upload; `None` after its end.
    run: Option<Execution<R, Upload>>,
    /// The id of the process in which the stream was opened.
    process: Option<u32>,
    state: State,
}

/// The state of a stream.
#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Open,
    Closing,
    Aborting,
    Closed,
    /// The upload was aborted, or has failed.
    Failed,
}

impl<R: Runtime> fmt::Debug for GridFsUploadStream<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GridFsUploadStream")
            .field("id", &self.id)
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

// No field is pinned.
impl<R: Runtime> Unpin for GridFsUploadStream<R> {}

impl<R: Runtime> GridFsUploadStream<R> {
    pub(super) fn open(
        bucket: &GridFsBucket<R>,
        id: Option<Bson>,
        filename: String,
        options: GridFsUploadOptions,
    ) -> Result<Self, Error> {
        let client = bucket.client();
        let id = id.unwrap_or_else(|| client.shared().new_object_id().into());
        let (parts, limit) = (bucket.parts().clone(), bucket.stream_limit(options.timeout));
        let upload = Upload::new(
            parts,
            id.clone(),
            filename,
            options,
            limit,
            bucket.has_indexes(),
        )?;
        Ok(Self {
            bucket: bucket.clone(),
            id,
            run: Some(Execution::new(client.clone(), upload)),
            process: client.runtime().process_id(),
            state: State::Open,
        })
    }

    /// Returns the id of the file.
    ///
    /// ```no_run
    /// # use onionskin::{Error, Runtime, gridfs::GridFsBucket};
    /// # async fn example<R: Runtime>(bucket: GridFsBucket<R>) -> Result<(), Error> {
    /// let upload = bucket.open_upload_stream("notes.txt").await?;
    /// println!("the file will have the id {}", upload.id());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub const fn id(&self) -> &Bson {
        &self.id
    }

    /// Returns the runtime of the client.
    ///
    /// ```no_run
    /// # use onionskin::{Runtime, gridfs::GridFsUploadStream};
    /// # fn example<R: Runtime + Clone>(upload: GridFsUploadStream<R>) {
    /// // A runtime that blocks polls the stream with an executor of its own.
    /// let runtime = upload.runtime().clone();
    /// # }
    /// ```
    #[must_use]
    pub fn runtime(&self) -> &R {
        self.bucket.client().runtime()
    }

    /// Deletes the chunks that were stored, and waits for that. Afterwards the stream takes no more
    /// bytes.
    ///
    /// Fails with [`GridFsErrorKind::AbortError`] if the chunks could not be deleted, with
    /// [`GridFsErrorKind::UploadStreamClosed`] if the upload has ended before, and with
    /// [`GridFsErrorKind::WriteInProgress`] if the future of a `close` was dropped before its end,
    /// because the file can be stored already. The time limit of the stream applies (GridFS
    /// Specification, *Aborting an upload*).
    ///
    /// ```no_run
    /// # use onionskin::{Error, Runtime, gridfs::GridFsBucket};
    /// # async fn example<R: Runtime>(bucket: GridFsBucket<R>) -> Result<(), Error> {
    /// let mut upload = bucket.open_upload_stream("notes.txt").await?;
    /// upload.abort().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn abort(&mut self) -> Result<(), Error> {
        poll_fn(|context| self.poll_abort(context)).await
    }

    /// Deletes the chunks that were stored, as the drop of the stream does, and waits for that.
    /// Afterwards the stream takes no more bytes. Nothing happens if the stream has ended, and
    /// errors are ignored.
    ///
    /// The time limit of the stream does not apply. Instead, a command that runs and then the
    /// deletion have five seconds each.
    // For the crate `onionskin-blocking`, whose drop of a stream waits.
    #[doc(hidden)]
    pub async fn abandon(&mut self) {
        self.leave_to_parent();
        if let Some(run) = self.run.take() {
            self.state = State::Failed;
            give_up(run).await;
        }
    }

    fn poll_abort(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        if self.state == State::Closing {
            return Poll::Ready(Err(Error::gridfs(GridFsErrorKind::WriteInProgress)));
        }
        if self.state == State::Open {
            if let Some(run) = &mut self.run {
                run.program_mut().stop();
            }
            self.state = State::Aborting;
        }
        let is_aborting = |run: &Execution<R, Upload>| run.program().is_aborting();
        if !self.run.as_ref().is_some_and(is_aborting) {
            // A command that runs ends first, so that it stores no chunk after the deletion.
            ready!(self.poll_run(context))?;
            self.give(Upload::abort);
        }
        ready!(self.poll_run(context))?;
        self.state = State::Failed;
        Poll::Ready(Ok(()))
    }

    /// Writes all bytes.
    pub(super) async fn write_whole(&mut self, mut bytes: &[u8]) -> Result<(), Error> {
        while !bytes.is_empty() {
            let count = poll_fn(|context| self.poll_bytes(context, bytes)).await?;
            bytes = &bytes[count..];
        }
        Ok(())
    }

    /// Closes the stream.
    pub(super) async fn finish(&mut self) -> Result<(), Error> {
        poll_fn(|context| self.poll_finish(context)).await
    }

    fn poll_bytes(
        &mut self,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<Result<usize, Error>> {
        if bytes.is_empty() {
            return Poll::Ready(Ok(0));
        }
        loop {
            ready!(self.poll_idle(context))?;
            let Some(run) = &mut self.run else {
                return Poll::Ready(Err(closed()));
            };
            let upload = run.program_mut();
            if !upload.is_full() {
                let shared = self.bucket.client().shared();
                return Poll::Ready(upload.write(bytes, || shared.new_object_id()));
            }
            self.give(Upload::send);
        }
    }

    fn poll_chunks(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        loop {
            ready!(self.poll_idle(context))?;
            let run = self.run.as_ref();
            if !run.is_some_and(|run| run.program().has_chunks()) {
                return Poll::Ready(Ok(()));
            }
            self.give(Upload::send);
        }
    }

    fn poll_finish(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        if self.state == State::Closed {
            return Poll::Ready(Ok(()));
        }
        if self.state != State::Closing {
            ready!(self.poll_idle(context))?;
            let now = self.bucket.client().shared().wall_time().as_unix_millis();
            let now = DateTime::from_millis(i64::try_from(now).unwrap_or(i64::MAX));
            self.give(|upload| upload.finish(now));
            self.state = State::Closing;
        }
        ready!(self.poll_run(context))?;
        self.state = State::Closed;
        Poll::Ready(Ok(()))
    }

    /// Waits until no command runs. Fails if the stream is not open.
    fn poll_idle(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        match self.state {
            State::Open => self.poll_run(context),
            State::Closing | State::Aborting => {
                Poll::Ready(Err(Error::gridfs(GridFsErrorKind::WriteInProgress)))
            }
            State::Closed | State::Failed => Poll::Ready(Err(closed())),
        }
    }

    /// Runs the program until it waits for input or ends.
    fn poll_run(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        if self.leave_to_parent() {
            let message = "the upload belongs to the parent process; open a new one after a fork";
            return Poll::Ready(Err(Error::argument(message)));
        }
        let Some(run) = &mut self.run else {
            return Poll::Ready(Err(closed()));
        };
        let polled = ready!(run.poll_program(context));
        if run.program().has_indexes() {
            self.bucket.note_indexes();
        }
        match polled {
            None => Poll::Ready(Ok(())),
            Some(result) => {
                self.run = None;
                if result.is_err() {
                    self.state = State::Failed;
                }
                Poll::Ready(result)
            }
        }
    }

    /// Gives input to the program, which waits for it.
    fn give(&mut self, give: impl FnOnce(&mut Upload)) {
        let has_indexes = self.bucket.has_indexes();
        if let Some(run) = &mut self.run {
            run.supply(|upload| {
                if has_indexes {
                    upload.skip_indexes();
                }
                give(upload);
            });
        }
    }

    /// If the process was forked after the stream was opened, gives the program up and returns
    /// true. The parent process still writes the file, so the child must neither write nor delete.
    fn leave_to_parent(&mut self) -> bool {
        let is_left = self.runtime().process_id() != self.process;
        if is_left && let Some(mut run) = self.run.take() {
            run.program_mut().leave();
            self.state = State::Failed;
        }
        is_left
    }
}

fn failed<T>(result: Poll<Result<T, Error>>) -> Poll<io::Result<T>> {
    result.map(|result| result.map_err(super::io_error))
}

impl<R: Runtime> AsyncWrite for GridFsUploadStream<R> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        failed(self.poll_bytes(context, bytes))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.state {
            State::Closed => Poll::Ready(Ok(())),
            // A sink flushes its stream before each poll that closes it.
            State::Closing => failed(self.poll_finish(context)),
            _ => failed(self.poll_chunks(context)),
        }
    }

    fn poll_close(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        failed(self.poll_finish(context))
    }
}

#[cfg(feature = "tokio-io")]
impl<R: Runtime> tokio::io::AsyncWrite for GridFsUploadStream<R> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        AsyncWrite::poll_write(self, context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        AsyncWrite::poll_flush(self, context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        AsyncWrite::poll_close(self, context)
    }
}

impl<R: Runtime> Drop for GridFsUploadStream<R> {
    fn drop(&mut self) {
        self.leave_to_parent();
        let Some(run) = self.run.take() else {
            return;
        };
        if !run.is_running() {
            // The drop of `run` deletes the chunks that were stored.
            return;
        }
        let shared = self.bucket.client().shared();
        shared.spawn_cleanup(give_up(run));
    }
}

/// Gives up an upload that was not closed: deletes its chunks. A command that runs could store
/// chunks after their deletion, so it ends first.
async fn give_up<R: Runtime>(mut run: Execution<R, Upload>) {
    if run.is_running() {
        run.program_mut().stop();
        let limit = run.runtime().sleep(ABANDON_LIMIT);
        timer::until(limit, |context| run.poll_program(context)).await;
    }
    run.stop();
    let client = run.client().clone();
    let rest = run.program_mut().abandon();
    run.program_mut().leave();
    match rest {
        // A failed deletion has no receiver.
        Abandoned::Run(command) => drop(EndCommand::new(&client, command).await),
        Abandoned::Release(resources) => client.release_cursor(resources),
        Abandoned::Nothing => {}
    }
}
