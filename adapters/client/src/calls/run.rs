//! `run_command` and `run_cursor_command`.

use super::{cursor_call, setters, single};
use crate::{
    Client, ClientSession, Cursor, Database, Runtime, SessionCursor,
    decode::{OpenCursor, WholeReply},
    futures::{RunCommandFuture, RunCursorCommandFuture, SessionCursorFuture},
    options::*,
    session::{ImplicitSession, UsedSession},
};
use bson::{Bson, Document};
use onionskin_core::{error::Error, operation::Command};
use std::{future::IntoFuture, marker::PhantomData, time::Duration};

/// A `run_command` that runs when it is awaited.
#[must_use = "a command is run when it is awaited"]
pub struct RunCommand<'a, R: Runtime> {
    database: &'a Database<R>,
    command: Document,
    options: Option<Box<RunCommandOptions>>,
    session: Option<UsedSession>,
}

onionskin_core::run_command_options! { setters [R: Runtime] [RunCommand<'_, R>] }

impl<'a, R: Runtime> RunCommand<'a, R> {
    pub(crate) const fn new(database: &'a Database<R>, command: Document) -> Self {
        Self {
            database,
            command,
            options: None,
            session: None,
        }
    }

    /// Makes the command run in this session.
    pub fn session(mut self, session: &mut ClientSession<R>) -> Self {
        self.session = Some(session.used_by(self.database.client()));
        self
    }

    /// Sets the read preference. Default: `primary`.
    pub fn read_preference(self, preference: ReadPreference) -> Self {
        self.selection_criteria(preference)
    }

    fn prepare(&self) -> Result<Command, Error> {
        let options = RunCommandOptions::or_unset(self.options.as_deref());
        let criteria = options.selection_criteria.as_ref();
        prepare(self.database, &self.command, criteria, options.timeout)
    }
}

impl<'a, R: Runtime> IntoFuture for RunCommand<'a, R> {
    type Output = Result<Document, Error>;
    type IntoFuture = RunCommandFuture<R>;

    fn into_future(self) -> Self::IntoFuture {
        let command = self.prepare();
        let decode = WholeReply::with_memory_of(self.command);
        RunCommandFuture(single(
            self.database.client(),
            self.session,
            command,
            decode,
        ))
    }
}

fn prepare<R: Runtime>(
    database: &Database<R>,
    command: &Document,
    criteria: Option<&SelectionCriteria>,
    timeout: Option<Duration>,
) -> Result<Command, Error> {
    database.check_name()?;
    let mut command = Command::from_document(command, database.shared_name().clone())?;
    if let Some(criteria) = criteria {
        command.set_read_preference(criteria.read_preference().clone());
    }
    command.set_timeout(timeout);
    Ok(command)
}

/// A `run_cursor_command` that runs when it is awaited. Its result is a [`Cursor`], or in a session
/// a [`SessionCursor`].
#[must_use = "a command is run when it is awaited"]
pub struct RunCursorCommand<'a, R: Runtime, S = ImplicitSession> {
    database: &'a Database<R>,
    command: Document,
    options: Option<Box<RunCursorCommandOptions>>,
    session: Option<UsedSession>,
    marker: PhantomData<fn() -> S>,
}

onionskin_core::run_cursor_command_options! {
    setters [R: Runtime, S] [RunCursorCommand<'_, R, S>]
}

cursor_call! {
    ['a, R: Runtime] RunCursorCommand<'a, R> { database, command }
    => RunCursorCommandFuture<R, Document>, Document
}

impl<'a, R: Runtime> RunCursorCommand<'a, R> {
    pub(crate) const fn new(database: &'a Database<R>, command: Document) -> Self {
        Self {
            database,
            command,
            options: None,
            session: None,
            marker: PhantomData,
        }
    }
}

impl<R: Runtime, S> RunCursorCommand<'_, R, S> {
    const fn client(&self) -> &Client<R> {
        self.database.client()
    }

    fn prepare(&self) -> (Result<Command, Error>, OpenCursor<R, Document>) {
        let options = RunCursorCommandOptions::or_unset(self.options.as_deref());
        let criteria = options.selection_criteria.as_ref();
        let opener = OpenCursor {
            client: self.client().clone(),
            database: self.database.shared_name().clone(),
            batch_size: options.batch_size,
            max_await_time: options.max_time,
            comment: options.comment.clone(),
            marker: PhantomData,
        };
        let command = prepare(self.database, &self.command, criteria, options.timeout);
        (command, opener)
    }
}
