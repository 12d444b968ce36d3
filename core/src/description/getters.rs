//! The parts of a server description, for reading.

use super::{ServerDescription, ServerType, Tags};
use crate::{address::ServerAddress, error::Error};
use std::time::Duration;

/// The parts of a description that the official driver gives as methods.
impl ServerDescription {
    /// Returns the address to which the client connects.
    #[must_use]
    pub fn address(&self) -> ServerAddress {
        (&self.address).into()
    }

    /// Returns the type of the server.
    #[must_use]
    pub const fn server_type(&self) -> ServerType {
        self.server_type
    }

    /// Returns the error because of which the server became `Unknown`.
    #[must_use]
    pub const fn error(&self) -> Option<&Error> {
        self.error.as_ref()
    }

    /// Returns the weighted moving average of the round trip time; `None` if it is not known.
    #[must_use]
    pub const fn average_round_trip_time(&self) -> Option<Duration> {
        self.round_trip_time
    }

    /// Returns the oldest wire version that the server supports; `None` for an `Unknown` server.
    #[must_use]
    pub fn min_wire_version(&self) -> Option<i32> {
        (self.server_type != ServerType::Unknown).then_some(self.min_wire_version)
    }

    /// Returns the newest wire version that the server supports; `None` for an `Unknown` server.
    #[must_use]
    pub fn max_wire_version(&self) -> Option<i32> {
        (self.server_type != ServerType::Unknown).then_some(self.max_wire_version)
    }

    /// Returns the name of the server's replica set.
    #[must_use]
    pub fn replica_set_name(&self) -> Option<&str> {
        self.set_name.as_deref()
    }

    /// Returns the version of the configuration of the replica set; `None` also if it does not fit
    /// into 32 bits.
    #[must_use]
    pub fn replica_set_version(&self) -> Option<i32> {
        self.set_version
            .and_then(|version| i32::try_from(version).ok())
    }

    /// Returns the tags of the member; `None` for an `Unknown` server.
    #[must_use]
    pub fn tags(&self) -> Option<&Tags> {
        (self.server_type != ServerType::Unknown).then_some(&self.tags)
    }
}
