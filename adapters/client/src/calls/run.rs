//! `run_command`.

use super::{setters, single};
use crate::{
    ClientSession, Database, Runtime, decode::WholeReply, futures::RunCommandFuture, options::*,
    session::UsedSession,
};
use bson::Document;
use onionskin_core::{error::Error, operation::Command};
use std::{future::IntoFuture, time::Duration};

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
        self.database.check_name()?;
        let name = self.database.shared_name().clone();
        let mut command = Command::from_document(&self.command, name)?;
        if let Some(options) = &self.options {
            if let Some(criteria) = &options.selection_criteria {
                command.set_read_preference(criteria.read_preference().clone());
            }
            command.set_timeout(options.timeout);
        }
        Ok(command)
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
