//! Databases.

use crate::{Client, Collection, Execution, Runtime, decode::WholeReply};
use bson::Document;
use onionskin_core::{
    error::Error,
    operation::{Command, Single, crud::check_name},
    options::ReadPreference,
};
use std::{future::IntoFuture, sync::Arc, time::Duration};

/// A database of a deployment, by name. Cloning is cheap.
pub struct Database<R: Runtime> {
    client: Client<R>,
    name: Arc<str>,
}

impl<R: Runtime> Clone for Database<R> {
    fn clone(&self) -> Self {
        Self {
            client: self.client.clone(),
            name: self.name.clone(),
        }
    }
}

impl<R: Runtime> Database<R> {
    pub(crate) fn new(client: Client<R>, name: &str) -> Self {
        Self {
            client,
            name: name.into(),
        }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The client that it belongs to.
    #[must_use]
    pub fn client(&self) -> &Client<R> {
        &self.client
    }

    /// A collection whose documents are read and written as `T`. Nothing is sent for this.
    #[must_use]
    pub fn collection<T: Send + Sync>(&self, name: &str) -> Collection<R, T> {
        Collection::new(self.client.clone(), self.name.clone(), name)
    }

    /// Runs a command as it is and gives the server's reply.
    ///
    /// The read preference is primary unless another is given; concerns and the like are neither
    /// added nor looked at (RUN-2, RUN-17). Nothing is retried (RUN-21) unless the server is
    /// overloaded: then the command is, where both `retryReads` and `retryWrites` are on (BP-3).
    /// Fields that the driver adds itself (`$db`, `lsid`, `$clusterTime`, `$readPreference`) must
    /// not be in the command.
    pub fn run_command(&self, command: Document) -> RunCommand<'_, R> {
        RunCommand {
            database: self,
            command,
            read_preference: None,
            timeout: None,
        }
    }

    pub(crate) fn check_name(&self) -> Result<(), Error> {
        check_name("database", &self.name)
    }
}

/// A command that is about to be run.
#[must_use = "a command is run when it is awaited"]
pub struct RunCommand<'a, R: Runtime> {
    database: &'a Database<R>,
    command: Document,
    read_preference: Option<Arc<ReadPreference>>,
    timeout: Option<Duration>,
}

impl<'a, R: Runtime> RunCommand<'a, R> {
    /// Chooses which servers may run it.
    pub fn read_preference(mut self, preference: ReadPreference) -> Self {
        self.read_preference = Some(Arc::new(preference));
        self
    }

    /// Bounds the whole operation: finding a server, waiting for a connection, the exchange. The
    /// server is told what is left as `maxTimeMS`. A command that has this field itself then has
    /// it twice, and what the server makes of that is undefined (RUN-24). Default: the client's
    /// `timeoutMS`; zero is no limit.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    fn prepare(self) -> Result<Command, Error> {
        self.database.check_name()?;
        let mut command = Command::from_document(&self.command, self.database.name.clone())?;
        if let Some(preference) = self.read_preference {
            command.set_read_preference(preference);
        }
        command.set_timeout(self.timeout);
        Ok(command)
    }
}

impl<'a, R: Runtime> IntoFuture for RunCommand<'a, R> {
    type Output = Result<Document, Error>;
    type IntoFuture = Execution<R, Single<WholeReply>>;

    fn into_future(self) -> Self::IntoFuture {
        let client = self.database.client.clone();
        let program = Single::new(self.prepare(), WholeReply(()));
        Execution::new(client, program)
    }
}
