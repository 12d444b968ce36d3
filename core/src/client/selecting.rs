//! The choice of a server for an operation: by its criteria, by the application, or by what it is
//! bound to.

use super::Client;
use crate::{
    address::Address,
    description::{ServerId, TopologyDescription, TopologyType},
    error::{Error, ErrorKind},
    operation::{CommandKind, Operation},
    options::ReadPreference,
    selection::{Criteria, Narrowing},
};
use std::{sync::Arc, time::Duration};

/// What came of looking for a server.
pub(super) enum Selected {
    Server(ServerId),
    /// None suits now.
    Nothing,
    /// The application has a say.
    Ask(Narrowing),
}

impl From<Option<ServerId>> for Selected {
    fn from(server: Option<ServerId>) -> Self {
        server.map_or(Self::Nothing, Self::Server)
    }
}

impl Client {
    pub(super) fn select(&mut self, operation: &mut Operation) -> Result<Selected, Error> {
        if self.selector.is_narrowed() && operation.command.target.is_none() {
            return self.select_narrowed(operation, None);
        }
        self.select_freely(operation).map(Selected::from)
    }

    /// Chooses by this description, which is not the client's: it leaves servers out.
    pub(super) fn select_by(
        &mut self,
        operation: &mut Operation,
        description: &TopologyDescription,
    ) -> Result<Selected, Error> {
        if self.selector.is_narrowed() {
            return self.select_narrowed(operation, Some(description));
        }
        let Self {
            sdam,
            selector,
            limits,
            ..
        } = self;
        let id = |address: &Address| sdam.server_id(address);
        let criteria = criteria(operation, &limits.primary);
        let avoided = &operation.deprioritized;
        let found = selector.select_once(description, id, &criteria, avoided)?;
        Ok(found.into())
    }

    /// True if only the primary of a replica set can serve the operation.
    pub(super) fn needs_primary(&self, operation: &Operation) -> bool {
        let description = self.sdam.description();
        if description.topology_type != TopologyType::ReplicaSetWithPrimary {
            return false;
        }
        let criteria = criteria(operation, &self.limits.primary);
        let preference = criteria.read_preference(description);
        preference.is_none_or(ReadPreference::is_primary)
    }

    /// Chooses among what the application left, or asks it.
    fn select_narrowed(
        &mut self,
        operation: &mut Operation,
        description: Option<&TopologyDescription>,
    ) -> Result<Selected, Error> {
        let Self {
            sdam,
            selector,
            limits,
            ..
        } = self;
        let criteria = criteria(operation, &limits.primary);
        let version = sdam.version();
        let description = description.unwrap_or_else(|| sdam.description());
        let avoided = &operation.deprioritized;
        if let Some(answer) = operation.narrowed.take() {
            let id = |address: &Address| sdam.server_id(address);
            let found = selector.select_narrowed(description, id, &criteria, avoided, &answer)?;
            if found.is_some() || answer.version() == version {
                return Ok(found.into());
            }
        }
        let question = selector.question(version, description, &criteria, avoided)?;
        Ok(question.map_or(Selected::Nothing, Selected::Ask))
    }

    fn select_freely(&mut self, operation: &Operation) -> Result<Option<ServerId>, Error> {
        let Self {
            sdam,
            selector,
            pools,
            limits,
            ..
        } = self;
        if let Some(target) = &operation.command.target {
            let Some(server) = sdam.server_id(&target.address) else {
                return Err(target_error(&target.address, "is no longer there", None));
            };
            let description = sdam.server(server);
            if description.is_some_and(|s| s.server_type.is_available())
                && pools.contains_key(&server)
            {
                selector.started(server);
                return Ok(Some(server));
            }
            if target.is_awaited {
                return Ok(None);
            }
            return Err(self.target_is_lost(&target.address));
        }
        selector.select(
            sdam.version(),
            sdam.description(),
            |address| sdam.server_id(address),
            &criteria(operation, &limits.primary),
            &operation.deprioritized,
        )
    }

    /// The one server that could serve cannot be used.
    pub(super) fn target_is_lost(&self, target: &Address) -> Error {
        let known = self.sdam.description().servers.get(target);
        let cause = known.and_then(|known| known.error.clone());
        match &cause {
            Some(error) => {
                let what = format!("cannot be used: {}", error.kind());
                target_error(target, &what, cause)
            }
            None => target_error(target, "has not answered yet", None),
        }
    }

    /// Keeps the server's shortest round trip time, for the time limit of the command (SEL-59), and
    /// whether an aggregation that writes goes to the primary although it wants another server
    /// (SEL-34). Operations of other kinds without a deadline keep nothing.
    pub(super) fn note_selected(&self, operation: &mut Operation, server: ServerId) {
        if operation.deadline.is_some() {
            let known = self.sdam.server(server);
            operation.min_round_trip = known.map_or(Duration::ZERO, |s| s.min_round_trip_time);
        }
        if operation.command.kind == CommandKind::WritingAggregate {
            let criteria = criteria(operation, &self.limits.primary);
            let chosen_by = criteria.read_preference(self.sdam.description());
            operation.is_for_primary = chosen_by.is_some_and(|preference| preference.is_primary());
        }
    }
}

fn target_error(target: &Address, what: &str, cause: Option<Error>) -> Error {
    let message = format!("{target}, where the cursor lives, {what}");
    Error::new(ErrorKind::ServerSelection { message, cause }).with_server(target)
}

/// What the operation demands. Writes select as writes (SEL-28), `runCommand` as a read of the
/// primary unless it was given a preference (SEL-29). Each operation selects anew (SEL-50).
pub(super) fn criteria(operation: &Operation, primary: &Arc<ReadPreference>) -> Criteria {
    let command = &operation.command;
    match command.kind {
        CommandKind::RetryableWrite | CommandKind::Write => Criteria::Writable,
        CommandKind::WritingAggregate => {
            let preference = command.read_preference.as_ref().unwrap_or(primary);
            Criteria::WritingAggregate(preference.clone())
        }
        CommandKind::Read | CommandKind::Run | CommandKind::CursorFollowUp => {
            match &command.read_preference {
                Some(preference) => Criteria::Readable(preference.clone()),
                None => Criteria::Readable(primary.clone()),
            }
        }
    }
}
