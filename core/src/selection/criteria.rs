//! The criteria by which server selection finds suitable servers.

use crate::{
    description::{TopologyDescription, TopologyType},
    options::{ReadMode, ReadPreference},
};
use std::{fmt, sync::Arc};

/// The wire version of MongoDB 5.0, from which on secondaries accept aggregations that write
/// (SEL-34).
const WRITING_AGGREGATE_WIRE_VERSION: i32 = 13;

static PRIMARY: ReadPreference = ReadPreference::new(ReadMode::Primary);

/// The criteria that the server of an operation must meet.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Criteria {
    /// The server accepts writes.
    Writable,
    /// The read preference allows the server.
    Readable(Arc<ReadPreference>),
    /// For an aggregation with `$out` or `$merge`: the read preference allows the server. While an
    /// available server is older than 5.0, mode primary applies instead ([SEL-34]).
    ///
    /// [SEL-34]: crate::requirements::server_selection#SEL-34
    WritingAggregate(Arc<ReadPreference>),
}

impl Criteria {
    /// Returns the read preference by which a server of this topology description is selected.
    /// `None` for writes. For [`Self::WritingAggregate`], two descriptions can give different read
    /// preferences ([SEL-26]).
    ///
    /// [SEL-26]: crate::requirements::server_selection#SEL-26
    #[must_use]
    pub fn read_preference(&self, description: &TopologyDescription) -> Option<&ReadPreference> {
        match self {
            Self::Writable => None,
            Self::Readable(preference) => Some(preference),
            Self::WritingAggregate(preference) => {
                let old = description.servers.values().any(|server| {
                    server.server_type.is_available()
                        && server.max_wire_version < WRITING_AGGREGATE_WIRE_VERSION
                });
                // A load balancer reports no wire version; the servers behind it are 5.0 or newer.
                let old = old && description.topology_type != TopologyType::LoadBalanced;
                Some(if old { &PRIMARY } else { preference })
            }
        }
    }

    /// True if both criteria are equal. Operations of a client often share one read preference, so
    /// the pointers are compared first.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Writable, Self::Writable) => true,
            (Self::Readable(a), Self::Readable(b))
            | (Self::WritingAggregate(a), Self::WritingAggregate(b)) => Arc::ptr_eq(a, b) || a == b,
            _ => false,
        }
    }
}

impl fmt::Display for Criteria {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Writable => f.write_str("writable server"),
            Self::Readable(preference) => write!(f, "read preference {preference}"),
            Self::WritingAggregate(preference) => {
                write!(f, "writing aggregation with read preference {preference}")
            }
        }
    }
}
