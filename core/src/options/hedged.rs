//! Hedged reads, which mongos sends to two members.

use serde::{Deserialize, Serialize};

/// Hedged reads (`hedge`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[non_exhaustive]
pub struct HedgedReadOptions {
    /// Whether mongos sends a read to two members.
    pub enabled: bool,
}

impl HedgedReadOptions {
    /// Returns the options that switch hedged reads on or off.
    ///
    /// ```
    /// use onionskin_core::options::{HedgedReadOptions, ReadPreference, ReadPreferenceOptions};
    ///
    /// let hedged = HedgedReadOptions::with_enabled(false);
    /// let options = ReadPreferenceOptions::builder().hedge(hedged).build();
    /// assert_eq!(ReadPreference::nearest(options).hedge(), Some(false));
    /// ```
    #[must_use]
    pub const fn with_enabled(enabled: bool) -> Self {
        Self { enabled }
    }

    /// Returns a builder of options that switch hedged reads off.
    ///
    /// ```
    /// use onionskin_core::options::HedgedReadOptions;
    ///
    /// assert!(HedgedReadOptions::builder().enabled(true).build().enabled);
    /// ```
    pub const fn builder() -> HedgedReadOptionsBuilder {
        HedgedReadOptionsBuilder(Self { enabled: false })
    }
}

/// A builder of [`HedgedReadOptions`].
#[derive(Clone, Copy, Debug)]
#[must_use = "a builder does nothing before `build`"]
pub struct HedgedReadOptionsBuilder(HedgedReadOptions);

impl HedgedReadOptionsBuilder {
    /// Sets whether mongos sends a read to two members. Default: false.
    ///
    /// ```
    /// use onionskin_core::options::HedgedReadOptions;
    ///
    /// let hedged = HedgedReadOptions::builder().enabled(true).build();
    /// assert_eq!(hedged, HedgedReadOptions::with_enabled(true));
    /// ```
    pub const fn enabled(mut self, enabled: bool) -> Self {
        self.0.enabled = enabled;
        self
    }

    /// Returns the options.
    ///
    /// ```
    /// use onionskin_core::options::HedgedReadOptions;
    ///
    /// assert!(!HedgedReadOptions::builder().build().enabled);
    /// ```
    #[must_use]
    pub const fn build(self) -> HedgedReadOptions {
        self.0
    }
}
