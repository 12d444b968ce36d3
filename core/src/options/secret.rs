//! Text that must not appear in output.

use serde::{Deserialize, Deserializer};
use std::fmt;
use zeroize::Zeroizing;

/// The text in place of a secret. Brackets are not allowed in a user name or password, so a
/// connection string whose password was redacted cannot be parsed by mistake.
pub(crate) const REDACTED: &str = "[redacted]";

/// A password or another secret text. `Debug` does not print the text, and the memory is wiped when
/// the value is dropped.
///
/// ```
/// use onionskin_core::options::Secret;
///
/// let password = Secret::new("pencil");
/// assert_eq!(format!("{password:?}"), "[redacted]");
/// assert_eq!(password.expose(), "pencil");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Returns a secret that holds `text`.
    pub fn new(text: impl Into<String>) -> Self {
        Self(Zeroizing::new(text.into()))
    }

    /// Returns the text itself.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self::new(text)
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::new)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(REDACTED)
    }
}
