//! The parts of a server description, for reading.

use super::{ServerDescription, ServerType, Tags};
use crate::{address::ServerAddress, error::Error};
use std::time::Duration;

/// The parts of a description that the official driver gives as methods.
impl ServerDescription {
    /// Returns the address to which the client connects.
    ///
    /// ```
    /// use onionskin_core::{address::Address, description::ServerDescription};
    ///
    /// let server = ServerDescription::unknown(Address::tcp("db1.example.net", 27017));
    /// assert_eq!(server.address().host(), "db1.example.net");
    /// ```
    #[must_use]
    pub fn address(&self) -> ServerAddress {
        (&self.address).into()
    }

    /// Returns the type of the server.
    ///
    /// ```
    /// use onionskin_core::description::{ServerDescription, ServerType};
    ///
    /// fn can_write(server: &ServerDescription) -> bool {
    ///     matches!(server.server_type(), ServerType::RsPrimary | ServerType::Mongos)
    /// }
    /// ```
    #[must_use]
    pub const fn server_type(&self) -> ServerType {
        self.server_type
    }

    /// Returns the error because of which the server became `Unknown`.
    ///
    /// ```
    /// use onionskin_core::description::ServerDescription;
    ///
    /// fn report(server: &ServerDescription) {
    ///     if let Some(error) = server.error() {
    ///         eprintln!("{} cannot be used: {error}", server.address());
    ///     }
    /// }
    /// ```
    #[must_use]
    pub const fn error(&self) -> Option<&Error> {
        self.error.as_ref()
    }

    /// Returns the weighted moving average of the round trip time; `None` if it is not known.
    ///
    /// ```
    /// use onionskin_core::description::ServerDescription;
    /// use std::time::Duration;
    ///
    /// fn is_near(server: &ServerDescription) -> bool {
    ///     server.average_round_trip_time().is_some_and(|time| time < Duration::from_millis(5))
    /// }
    /// ```
    #[must_use]
    pub const fn average_round_trip_time(&self) -> Option<Duration> {
        self.round_trip_time
    }

    /// Returns the oldest wire version that the server supports; `None` for an `Unknown` server.
    ///
    /// ```
    /// use onionskin_core::{address::Address, description::ServerDescription};
    ///
    /// let server = ServerDescription::unknown(Address::tcp("db1.example.net", 27017));
    /// // The server was not checked yet.
    /// assert_eq!(server.min_wire_version(), None);
    /// ```
    #[must_use]
    pub fn min_wire_version(&self) -> Option<i32> {
        (self.server_type != ServerType::Unknown).then_some(self.min_wire_version)
    }

    /// Returns the newest wire version that the server supports; `None` for an `Unknown` server.
    ///
    /// ```
    /// use onionskin_core::description::ServerDescription;
    ///
    /// /// True for servers from 8.0 on.
    /// fn has_bulk_write(server: &ServerDescription) -> bool {
    ///     server.max_wire_version().is_some_and(|version| version >= 25)
    /// }
    /// ```
    #[must_use]
    pub fn max_wire_version(&self) -> Option<i32> {
        (self.server_type != ServerType::Unknown).then_some(self.max_wire_version)
    }

    /// Returns the name of the server's replica set.
    ///
    /// ```
    /// use onionskin_core::{address::Address, description::ServerDescription};
    ///
    /// let server = ServerDescription::unknown(Address::tcp("db1.example.net", 27017));
    /// assert_eq!(server.replica_set_name(), None);
    /// ```
    #[must_use]
    pub fn replica_set_name(&self) -> Option<&str> {
        self.set_name.as_deref()
    }

    /// Returns the version of the configuration of the replica set; `None` also if it does not fit
    /// into 32 bits.
    ///
    /// ```
    /// use onionskin_core::{address::Address, description::ServerDescription};
    ///
    /// let server = ServerDescription::unknown(Address::tcp("db1.example.net", 27017));
    /// assert_eq!(server.replica_set_version(), None);
    /// ```
    #[must_use]
    pub fn replica_set_version(&self) -> Option<i32> {
        self.set_version
            .and_then(|version| i32::try_from(version).ok())
    }

    /// Returns the tags of the member; `None` for an `Unknown` server.
    ///
    /// ```
    /// use onionskin_core::description::ServerDescription;
    ///
    /// fn is_in_new_york(server: &ServerDescription) -> bool {
    ///     server.tags().is_some_and(|tags| tags.get("dc").is_some_and(|dc| dc == "ny"))
    /// }
    /// ```
    #[must_use]
    pub fn tags(&self) -> Option<&Tags> {
        (self.server_type != ServerType::Unknown).then_some(&self.tags)
    }
}
