//! Text that must not be seen.

use std::fmt;
use zeroize::Zeroizing;

/// A password or the like: never printed, wiped when dropped.
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
    /// Hides `text`.
    pub fn new(text: impl Into<String>) -> Self {
        Self(Zeroizing::new(text.into()))
    }

    /// The text itself.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}
