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
use onionskin_core::{
    error::Error,
    operation::{Command, RetryAs},
};
use std::{future::IntoFuture, marker::PhantomData, time::Duration};

/// A `run_command` that runs when it is awaited.
///
/// ```no_run
/// # use onionskin::{Database, Error, Runtime, bson::doc};
/// use onionskin::options::ReadPreference;
/// use std::time::Duration;
///
/// # async fn example<R: Runtime>(database: Database<R>) -> Result<(), Error> {
/// let statistics = database
///     .run_command(doc! { "dbStats": 1 })
///     .selection_criteria(ReadPreference::nearest(None).into())
///     .timeout(Duration::from_secs(5))
///     .await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "a command is run when it is awaited"]
pub struct RunCommand<'a, R: Runtime> {
    database: &'a Database<R>,
    command: Result<Document, Error>,
    retry: RetryAs,
    options: Option<Box<RunCommandOptions>>,
    session: Option<UsedSession>,
}

onionskin_core::run_command_options! { setters [R: Runtime] [RunCommand<'_, R>] }

impl<'a, R: Runtime> RunCommand<'a, R> {
    pub(crate) const fn new(database: &'a Database<R>, command: Result<Document, Error>) -> Self {
        Self {
            database,
            command,
            retry: RetryAs::Nothing,
            options: None,
            session: None,
        }
    }

    /// Makes the driver retry the command as it retries a read: after errors of the network and
    /// those that mean that another attempt can succeed, if `retryReads` is on. Without this, a
    /// command is retried only after overload errors.
    ///
    /// Use this only for a command that changes nothing, because the driver does not inspect it. A
    /// command such as `mapReduce` can cost its work twice ([RR-6]).
    ///
    /// ```no_run
    /// # use onionskin::{Database, Error, Runtime, bson::doc};
    /// # async fn example<R: Runtime>(database: Database<R>) -> Result<(), Error> {
    /// let statistics = database.run_command(doc! { "dbStats": 1 }).retry_as_read().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// [RR-6]: onionskin_core::requirements::retries#RR-6
    pub const fn retry_as_read(mut self) -> Self {
        self.retry = RetryAs::Read;
        self
    }

    /// Makes the driver send the command to a writable server and retry it as it retries a write of
    /// one document, if `retryWrites` is on. The driver adds a transaction number (`txnNumber`),
    /// with which the server executes the command once although it gets it twice. The read
    /// preference has no effect.
    ///
    /// Use this only for commands that take a transaction number, and only if each of their
    /// statements affects one document at most. Servers refuse the number for other commands. A
    /// standalone server takes none, so there the command is not retried ([RW-7], [RW-8], [RW-3]).
    ///
    /// Write errors and write concern errors in the reply fail the call with an error of the kind
    /// [`ErrorKind::Write`](crate::error::ErrorKind::Write). The call also fails for a command that
    /// has a field `txnNumber`.
    ///
    /// ```no_run
    /// # use onionskin::{Database, Error, Runtime, bson::doc};
    /// # async fn example<R: Runtime>(database: Database<R>) -> Result<(), Error> {
    /// let insert = doc! { "insert": "log", "documents": [{ "_id": 1, "text": "started" }] };
    /// let reply = database.run_command(insert).retry_as_write().await?;
    /// assert_eq!(reply.get_i32("n").ok(), Some(1));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// [RW-3]: onionskin_core::requirements::retries#RW-3
    /// [RW-7]: onionskin_core::requirements::retries#RW-7
    /// [RW-8]: onionskin_core::requirements::retries#RW-8
    pub const fn retry_as_write(mut self) -> Self {
        self.retry = RetryAs::Write;
        self
    }

    /// Makes the command run in this session.
    ///
    /// ```no_run
    /// # use onionskin::{Database, Error, Runtime, bson::doc};
    /// # async fn example<R: Runtime>(database: Database<R>) -> Result<(), Error> {
    /// let mut session = database.client().start_session().await?;
    /// let insert = doc! { "insert": "log", "documents": [{ "text": "started" }] };
    /// database.run_command(insert).session(&mut session).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn session(mut self, session: &mut ClientSession<R>) -> Self {
        self.session = Some(session.used_by(self.database.client()));
        self
    }

    /// Sets the read preference. Default: `primary`.
    ///
    /// ```no_run
    /// # use onionskin::{Database, Error, Runtime, bson::doc};
    /// use onionskin::options::ReadPreference;
    ///
    /// # async fn example<R: Runtime>(database: Database<R>) -> Result<(), Error> {
    /// let secondary = ReadPreference::secondary(None);
    /// let command = doc! { "dbStats": 1 };
    /// let statistics = database.run_command(command).read_preference(secondary).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn read_preference(self, preference: ReadPreference) -> Self {
        self.selection_criteria(preference.into())
    }

    fn prepare(&self) -> Result<Command, Error> {
        let options = RunCommandOptions::or_unset(self.options.as_deref());
        let criteria = options.selection_criteria.as_ref();
        let mut command = prepare(self.database, &self.command, criteria, options.timeout)?;
        command.retry_as(self.retry)?;
        Ok(command)
    }
}

impl<'a, R: Runtime> IntoFuture for RunCommand<'a, R> {
    type Output = Result<Document, Error>;
    type IntoFuture = RunCommandFuture<R>;

    fn into_future(self) -> Self::IntoFuture {
        let command = self.prepare();
        let decode = WholeReply::with_memory_of(self.command.unwrap_or_default());
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
    command: &Result<Document, Error>,
    criteria: Option<&SelectionCriteria>,
    timeout: Option<Duration>,
) -> Result<Command, Error> {
    database.check_name()?;
    let command = command.as_ref().map_err(Error::clone)?;
    let mut command = Command::from_document(command, database.shared_name().clone())?;
    if let Some(criteria) = criteria {
        command.set_criteria(criteria);
    }
    database
        .shared_defaults()
        .apply_timeout(&mut command, timeout);
    Ok(command)
}

/// A `run_cursor_command` that runs when it is awaited. Its result is a [`Cursor`], or in a session
/// a [`SessionCursor`].
///
/// ```no_run
/// # use onionskin::{Database, Error, Runtime, bson::doc};
/// use onionskin::options::{CursorType, ReadPreference, TimeoutMode};
/// use std::time::Duration;
///
/// # async fn example<R: Runtime>(database: Database<R>) -> Result<(), Error> {
/// let events = database
///     .run_cursor_command(doc! { "find": "log", "tailable": true, "awaitData": true })
///     .cursor_type(CursorType::TailableAwait)
///     .max_time(Duration::from_secs(1))
///     .batch_size(100)
///     .comment("log viewer")
///     .selection_criteria(ReadPreference::secondary_preferred(None).into())
///     .await?;
/// let collections = database
///     .run_cursor_command(doc! { "listCollections": 1 })
///     .timeout(Duration::from_secs(5))
///     .timeout_mode(TimeoutMode::CursorLifetime)
///     .await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "a command is run when it is awaited"]
pub struct RunCursorCommand<'a, R: Runtime, S = ImplicitSession> {
    database: &'a Database<R>,
    command: Result<Document, Error>,
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
    pub(crate) const fn new(database: &'a Database<R>, command: Result<Document, Error>) -> Self {
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
        let opener = OpenCursor::new(self.client(), self.database.shared_name());
        let command = prepare(self.database, &self.command, criteria, options.timeout);
        let command = command.and_then(|mut command| {
            command.set_cursor(options.cursor_settings()?);
            Ok(command)
        });
        (command, opener)
    }
}
