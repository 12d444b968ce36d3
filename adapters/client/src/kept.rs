//! The part that cursors and change streams have in common: a program that outlives its operations
//! and holds a cursor of a server.

use crate::{Client, Execution, Runtime, client::EndCommand};
use onionskin_core::{
    error::Error,
    operation::{self, ABANDON_LIMIT, Command, CursorResources, Program},
};
use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

/// A program that holds a cursor of a server.
pub(crate) trait Holder: Program {
    /// The name of the holder in errors.
    const NAME: &'static str;

    /// Ends the program. Returns the command that closes the cursor, or what is to be given back if
    /// no command is needed.
    fn end(&mut self) -> Result<Command, CursorResources>;

    /// Forgets the cursor, which belongs to the parent of a forked process.
    fn disown(&mut self);
}

impl Holder for operation::Cursor {
    const NAME: &'static str = "cursor";

    fn end(&mut self) -> Result<Command, CursorResources> {
        Self::end(self)
    }

    fn disown(&mut self) {
        *self = Self::exhausted();
    }
}

impl Holder for operation::ChangeStream {
    const NAME: &'static str = "change stream";

    fn end(&mut self) -> Result<Command, CursorResources> {
        Self::end(self)
    }

    fn disown(&mut self) {
        Self::disown(self);
    }
}

/// A program that holds a cursor, and the operation that runs it.
pub(crate) struct Kept<R: Runtime, P: Holder> {
    pub(crate) fetch: Execution<R, P>,
    /// The id of the process in which the cursor was opened.
    process: Option<u32>,
}

impl<R: Runtime, P: Holder> Kept<R, P> {
    pub(crate) fn new(client: Client<R>, holder: P) -> Self {
        let process = client.runtime().process_id();
        Self {
            fetch: Execution::at_rest(client, holder),
            process,
        }
    }

    /// Returns the future that closes the cursor on the server.
    pub(crate) fn close(mut self) -> CloseCursor<R> {
        self.leave_to_parent();
        self.fetch.stop();
        let client = self.fetch.client().clone();
        let command = match self.fetch.program_mut().end() {
            Ok(command) => Some(command),
            Err(resources) => {
                client.release_cursor(resources);
                None
            }
        };
        CloseCursor {
            client,
            command,
            running: None,
        }
    }

    /// Ends the program, and closes the cursor in the background.
    pub(crate) fn end_in_background(&mut self) {
        self.leave_to_parent();
        let ended = self.fetch.program_mut().end();
        let client = self.fetch.client();
        match ended {
            Ok(mut command) => {
                command.set_timeout(Some(ABANDON_LIMIT));
                client.run_in_background(command);
            }
            Err(resources) => client.release_cursor(resources),
        }
    }

    /// Starts the program again at the next poll. Fails in a child process after a fork.
    pub(crate) fn restart(&mut self) -> Result<(), Error> {
        if self.leave_to_parent() {
            let message = format!(
                "the {0} belongs to the parent process; open a new {0} after a fork",
                P::NAME
            );
            return Err(Error::argument(message));
        }
        self.fetch.restart();
        Ok(())
    }

    /// If the process was forked after the cursor was opened, forgets the cursor and returns true.
    /// The parent process still uses it, so the child must neither read from it nor close it.
    fn leave_to_parent(&mut self) -> bool {
        let is_left = self.fetch.runtime().process_id() != self.process;
        if is_left {
            self.fetch.program_mut().disown();
        }
        is_left
    }
}

/// The close of a cursor or a change stream on its server, which runs when it is awaited. It is a
/// future itself.
///
/// The time limit of the cursor, if it has one, begins anew. Without one the limit is two seconds.
/// If the server does not close the cursor in time, it does so later by itself. If this is dropped
/// before it was awaited to its end, the cursor is closed in the background.
#[must_use = "a cursor is closed on its server when this is awaited"]
pub struct CloseCursor<R: Runtime> {
    client: Client<R>,
    /// The command before the first poll; `None` if none is needed.
    command: Option<Command>,
    running: Option<EndCommand<R>>,
}

impl<R: Runtime> fmt::Debug for CloseCursor<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CloseCursor").finish_non_exhaustive()
    }
}

impl<R: Runtime> CloseCursor<R> {
    /// Sets the time limit. Zero means no limit. No effect once this was polled.
    ///
    /// ```no_run
    /// # use onionskin::{Collection, Error, Runtime, bson::{Document, doc}};
    /// # async fn example<R: Runtime>(people: Collection<R, Document>) -> Result<(), Error> {
    /// use std::time::Duration;
    ///
    /// let mut cursor = people.find(doc! {}).await?;
    /// let first = cursor.next().await.transpose()?;
    /// cursor.close().timeout(Duration::from_millis(200)).await;
    /// # Ok(())
    /// # }
    /// ```
    pub fn timeout(mut self, limit: Duration) -> Self {
        if let Some(command) = &mut self.command {
            command.set_timeout(Some(limit));
        }
        self
    }
}

impl<R: Runtime> Future for CloseCursor<R> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if let Some(command) = self.command.take() {
            self.running = Some(EndCommand::new(&self.client, command));
        }
        match &mut self.running {
            // If the command fails, the server closes the cursor by itself after a time.
            Some(end) => Pin::new(end).poll(context).map(drop),
            None => Poll::Ready(()),
        }
    }
}

impl<R: Runtime> Drop for CloseCursor<R> {
    fn drop(&mut self) {
        if let Some(mut command) = self.command.take() {
            command.set_timeout(Some(ABANDON_LIMIT));
            self.client.run_in_background(command);
        }
    }
}

impl<R: Runtime, P: Holder> Drop for Kept<R, P> {
    fn drop(&mut self) {
        // `fetch` is dropped next and closes an open cursor, which must not happen to a cursor of
        // the parent process.
        self.leave_to_parent();
    }
}
