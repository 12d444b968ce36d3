//! The part that cursors and change streams have in common: a program that outlives its operations
//! and holds a cursor of a server.

use crate::{Client, Execution, Runtime, client::EndCommand};
use onionskin_core::{
    error::Error,
    operation::{self, Command, CursorResources, Program},
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

    /// Closes the cursor on the server.
    pub(crate) async fn close(mut self) {
        self.leave_to_parent();
        self.fetch.stop();
        let client = self.fetch.client().clone();
        match self.fetch.program_mut().end() {
            // If the command fails, the server closes the cursor by itself after a time.
            Ok(command) => drop(EndCommand::new(&client, command).await),
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

impl<R: Runtime, P: Holder> Drop for Kept<R, P> {
    fn drop(&mut self) {
        // `fetch` is dropped next and closes an open cursor, which must not happen to a cursor of
        // the parent process.
        self.leave_to_parent();
    }
}
