//! How the server of an operation is selected.

use super::ReadPreference;
use crate::description::ServerDescription;
use serde::{Deserialize, Deserializer, Serialize, Serializer, ser::Error as _};
use std::{fmt, sync::Arc};

/// A function that accepts or refuses a server, for [`SelectionCriteria::Predicate`].
pub type Predicate = Arc<dyn Fn(&ServerDescription) -> bool + Send + Sync>;

/// How the server of an operation is selected.
///
/// ```
/// use onionskin_core::options::{ReadPreference, SelectionCriteria};
/// use std::sync::Arc;
///
/// let criteria = SelectionCriteria::from(ReadPreference::secondary(None));
/// assert!(matches!(criteria, SelectionCriteria::ReadPreference(_)));
/// let rack = SelectionCriteria::Predicate(Arc::new(|server| {
///     server.tags.get("rack").is_some_and(|rack| rack == "7")
/// }));
/// assert_ne!(rack, criteria);
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub enum SelectionCriteria {
    /// The read preference selects the server.
    ReadPreference(ReadPreference),
    /// The server is one that the function accepts, within the latency window of all accepted
    /// servers. The function is asked about each server that can serve reads, in the task of the
    /// operation, and delays only that operation. It may call the client. If it panics, the
    /// operation fails. If it accepts no server, the operation waits, as if no server suited.
    ///
    /// Routers get the read preference `primaryPreferred`, as from the official driver. A
    /// [`ServerSelector`](super::ServerSelector) of the client is asked first. Transactions refuse
    /// a function, because all their operations run on one server.
    Predicate(Predicate),
}

impl SelectionCriteria {
    /// Returns the read preference; with a function the one that servers get, `primaryPreferred`.
    ///
    /// ```
    /// use onionskin_core::options::{ReadPreference, SelectionCriteria};
    ///
    /// let criteria = SelectionCriteria::from(ReadPreference::nearest(None));
    /// assert_eq!(*criteria.read_preference(), ReadPreference::nearest(None));
    /// ```
    #[must_use]
    pub const fn read_preference(&self) -> &ReadPreference {
        static SENT: ReadPreference = ReadPreference::PrimaryPreferred { options: None };
        match self {
            Self::ReadPreference(preference) => preference,
            Self::Predicate(_) => &SENT,
        }
    }
}

impl fmt::Debug for SelectionCriteria {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ReadPreference(preference) => {
                f.debug_tuple("ReadPreference").field(preference).finish()
            }
            Self::Predicate(_) => f.write_str("Predicate(..)"),
        }
    }
}

impl fmt::Display for SelectionCriteria {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ReadPreference(preference) => write!(f, "read preference {preference}"),
            Self::Predicate(_) => f.write_str("a function"),
        }
    }
}

/// Two functions are equal only if one is a clone of the other.
impl PartialEq for SelectionCriteria {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::ReadPreference(one), Self::ReadPreference(other)) => one == other,
            (Self::Predicate(one), Self::Predicate(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }
}

impl Eq for SelectionCriteria {}

impl From<ReadPreference> for SelectionCriteria {
    fn from(preference: ReadPreference) -> Self {
        Self::ReadPreference(preference)
    }
}

/// A function has no serialized form, which is an error.
impl Serialize for SelectionCriteria {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::ReadPreference(preference) => preference.serialize(serializer),
            Self::Predicate(_) => Err(S::Error::custom(
                "selection criteria with a function cannot be serialized",
            )),
        }
    }
}

impl<'de> Deserialize<'de> for SelectionCriteria {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        ReadPreference::deserialize(deserializer).map(Self::from)
    }
}
