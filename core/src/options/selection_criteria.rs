//! How the server of an operation is selected.

use super::ReadPreference;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// How the server of an operation is selected.
///
/// A function of the application can narrow the selection for a whole client
/// ([`ServerSelector`](super::ServerSelector)), but not for one operation.
///
/// ```
/// use onionskin_core::options::{ReadPreference, SelectionCriteria};
///
/// let criteria = SelectionCriteria::from(ReadPreference::secondary(None));
/// assert!(matches!(criteria, SelectionCriteria::ReadPreference(_)));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SelectionCriteria {
    /// The read preference selects the server.
    ReadPreference(ReadPreference),
}

impl SelectionCriteria {
    /// Returns the read preference.
    #[must_use]
    pub const fn read_preference(&self) -> &ReadPreference {
        match self {
            Self::ReadPreference(preference) => preference,
        }
    }
}

impl From<ReadPreference> for SelectionCriteria {
    fn from(preference: ReadPreference) -> Self {
        Self::ReadPreference(preference)
    }
}

impl Serialize for SelectionCriteria {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.read_preference().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for SelectionCriteria {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        ReadPreference::deserialize(deserializer).map(Self::from)
    }
}
