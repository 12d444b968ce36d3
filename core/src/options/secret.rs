//! Text that must not appear in output.

use serde::{Deserialize, Deserializer, de::Error as _};
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
    ///
    /// ```
    /// use onionskin_core::options::Secret;
    ///
    /// let password = Secret::new("pencil");
    /// assert_eq!(format!("{password:?}"), "[redacted]");
    /// ```
    pub fn new(text: impl Into<String>) -> Self {
        Self(Zeroizing::new(text.into()))
    }

    /// Returns the text itself.
    ///
    /// ```
    /// use onionskin_core::options::Secret;
    ///
    /// assert_eq!(Secret::new("pencil").expose(), "pencil");
    /// ```
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
        // The error of a format can have the value in its text.
        let text = String::deserialize(deserializer)
            .map_err(|_| D::Error::custom("a secret, for example a password, must be a text"))?;
        Ok(Self::new(text))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(REDACTED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_about_a_secret_of_a_wrong_type_does_not_show_it() {
        let error = serde_json::from_str::<Secret>("123456").expect_err("it is a number");
        assert!(!error.to_string().contains("1234"), "{error}");
    }
}
