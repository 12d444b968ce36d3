//! Databases, and commands that run on them.

use crate::{
    Client, Collection, Execution, Runtime, decode::WholeReply, futures::RunCommandFuture,
};
use bson::Document;
use onionskin_core::{
    error::Error,
    operation::{Command, Single, crud::check_name},
    options::ReadPreference,
};
use std::{future::IntoFuture, sync::Arc, time::Duration};

/// A handle to a database. Cloning is cheap.
pub struct Database<R: Runtime> {
    client: Client<R>,
    name: Arc<str>,
    /// True if [`check_name`](Self::check_name) succeeds.
    is_valid: bool,
}

impl<R: Runtime> Clone for Database<R> {
    fn clone(&self) -> Self {
        Self {
            client: self.client.clone(),
            name: self.name.clone(),
            is_valid: self.is_valid,
        }
    }
}

impl<R: Runtime> Database<R> {
    pub(crate) fn new(client: Client<R>, name: &str) -> Self {
        Self {
            client,
            is_valid: check_name("database", name).is_ok(),
            name: name.into(),
        }
    }

    /// Returns the name of the database.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the client of the database.
    #[must_use]
    pub fn client(&self) -> &Client<R> {
        &self.client
    }

    /// Returns a handle to a collection whose documents are read and written as `T`. Nothing is
    /// sent to a server.
    #[must_use]
    pub fn collection<T: Send + Sync>(&self, name: &str) -> Collection<R, T> {
        Collection::new(self.client.clone(), self.name.clone(), name)
    }

    /// Runs a command and returns the reply of the server.
    ///
    /// The read preference is `primary` by default. Read concern and write concern are neither
    /// added nor examined ([RUN-2], [RUN-17]). The command is retried only after overload errors,
    /// and only if both `retryReads` and `retryWrites` are on ([RUN-21], [BP-3]). The command must
    /// not contain fields that the driver adds: `$db`, `lsid`, `$clusterTime`, `$readPreference`,
    /// and those of the Stable API.
    ///
    /// [RUN-2]: onionskin_core::requirements::messages#RUN-2
    /// [RUN-17]: onionskin_core::requirements::messages#RUN-17
    /// [RUN-21]: onionskin_core::requirements::messages#RUN-21
    /// [BP-3]: onionskin_core::requirements::retries#BP-3
    pub fn run_command(&self, command: Document) -> RunCommand<'_, R> {
        RunCommand {
            database: self,
            command,
            read_preference: None,
            timeout: None,
        }
    }

    pub(crate) fn check_name(&self) -> Result<(), Error> {
        match self.is_valid {
            true => Ok(()),
            false => check_name("database", &self.name),
        }
    }
}

/// A `run_command` operation that runs when it is awaited.
#[must_use = "a command is run when it is awaited"]
pub struct RunCommand<'a, R: Runtime> {
    database: &'a Database<R>,
    command: Document,
    read_preference: Option<Arc<ReadPreference>>,
    timeout: Option<Duration>,
}

impl<'a, R: Runtime> RunCommand<'a, R> {
    /// Sets the read preference. Default: `primary`.
    pub fn read_preference(mut self, preference: ReadPreference) -> Self {
        self.read_preference = Some(Arc::new(preference));
        self
    }

    /// Sets the time limit of the whole operation: server selection, check out, the exchange with
    /// the server, and retries. Default: `timeoutMS` of the client; zero means no limit.
    ///
    /// With a time limit, the driver sends `maxTimeMS`. If the command contains this field
    /// itself, the field occurs twice, and the behaviour of the server is undefined ([RUN-24]).
    ///
    /// [RUN-24]: onionskin_core::requirements::messages#RUN-24
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    fn prepare(&mut self) -> Result<Command, Error> {
        self.database.check_name()?;
        let mut command = Command::from_document(&self.command, self.database.name.clone())?;
        if let Some(preference) = self.read_preference.take() {
            command.set_read_preference(preference);
        }
        command.set_timeout(self.timeout);
        Ok(command)
    }
}

impl<'a, R: Runtime> IntoFuture for RunCommand<'a, R> {
    type Output = Result<Document, Error>;
    type IntoFuture = RunCommandFuture<R>;

    fn into_future(mut self) -> Self::IntoFuture {
        let client = self.database.client.clone();
        let command = self.prepare();
        let program = Single::new(command, WholeReply::with_memory_of(self.command));
        RunCommandFuture(Execution::new(client, program))
    }
}
