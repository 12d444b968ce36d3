//! Warming: an application waits until the pools have the connections of `minPoolSize`.

use crate::{
    client::Client,
    description::{ServerDescription, ServerType},
    operation::{Command, CommandKind},
    options::{ReadMode, ReadPreference},
};
use std::sync::Arc;

impl Client {
    /// Returns the command to run before the wait for [`is_warm`](Self::is_warm): a client that
    /// scans checks its servers only for an operation. `None` if no command is needed.
    #[must_use]
    pub fn warming_command(&self) -> Option<Command> {
        if self.settings.scanning.is_none() || !self.pools.have_min_size() {
            return None;
        }
        let mut command = Command::new("ping", "admin", CommandKind::Read);
        command.body().i32("ping", 1);
        command.set_read_preference(Arc::new(ReadPreference::new(ReadMode::Nearest)));
        command.set_timeout(Some(self.settings.selection));
        Some(command)
    }

    /// True if nothing more has to be established for `minPoolSize`: each server was checked, and
    /// each pool of a server that is available has its connections. A server whose check failed has
    /// no connections, and is not waited for. A client that scans does not wait for servers that it
    /// has not checked. Also true if `minPoolSize` is zero, and for a closed client.
    #[must_use]
    pub fn is_warm(&self) -> bool {
        if self.life.is_closed() || !self.pools.have_min_size() {
            return true;
        }
        let topology = self.topology.description();
        let is_discovered = self.settings.scanning.is_some()
            || !self.seeds.list.is_unresolved()
                && topology.servers.values().all(|server| is_checked(server));
        is_discovered && self.pools.are_filled()
    }
}

fn is_checked(server: &ServerDescription) -> bool {
    match server.server_type {
        ServerType::Unknown | ServerType::PossiblePrimary => server.error.is_some(),
        _ => true,
    }
}
