//! What an operation demands of a server.

use crate::{
    description::{TopologyDescription, TopologyType},
    options::{ReadMode, ReadPreference},
};
use std::{fmt, sync::Arc};

/// From this wire version (server 5.0) on, secondaries accept aggregations that write (SEL-34).
const WRITING_AGGREGATE_WIRE_VERSION: i32 = 13;

static PRIMARY: ReadPreference = ReadPreference::new(ReadMode::Primary);

/// What an operation demands of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Criteria {
    /// It has to accept writes.
    Writable,
    /// It has to be one that this read preference allows.
    Readable(Arc<ReadPreference>),
    /// An aggregation that ends in `$out` or `$merge`: as readable, but by the primary as long as
    /// some available server is older than 5.0 (SEL-34).
    WritingAggregate(Arc<ReadPreference>),
}

impl Criteria {
    /// The read preference by which the choice is made with this description, which is also the one
    /// to send (SEL-26); `None` for writes. It can change while an operation waits.
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
                // A load balancer tells no version; what stands behind it is 5.0 or newer.
                let old = old && description.topology_type != TopologyType::LoadBalanced;
                Some(if old { &PRIMARY } else { preference })
            }
        }
    }

    /// Equality that is quick where it matters: operations share their client's preference.
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
