//! What was not as it should be, but did no harm.

use std::fmt;

/// Something in a connection string that was ignored or should be changed. The text of a warning
/// names options, never their values.
///
/// ```
/// let parsed = onionskin_core::uri::parse("mongodb://localhost/?maxPoolSize=lots")?;
/// assert_eq!(
///     parsed.warnings[0].to_string(),
///     "option maxPoolSize is ignored: it takes a whole number"
/// );
/// # Ok::<(), onionskin_core::error::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Warning {
    /// No option has this name; it was ignored (CS-23).
    Unknown {
        /// The key as it was written.
        key: String,
    },
    /// The option's value cannot be used; it was ignored, in whole or in part (CS-32).
    Ignored {
        /// The option.
        option: &'static str,
        /// What values it takes.
        reason: String,
    },
    /// The option was given several times; the last one counts (CS-33).
    Repeated {
        /// The option.
        option: &'static str,
    },
    /// The option has a newer name (CS-34). If that is there too, the old one was ignored (CS-35).
    Renamed {
        /// The old name.
        option: &'static str,
        /// The new name.
        instead: &'static str,
    },
    /// A boolean was not written `true` or `false` but in an older way (CS-28).
    LegacyBoolean {
        /// The option.
        option: &'static str,
        /// How to write it.
        value: bool,
    },
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { key } => write!(f, "option {key:?} is not known and was ignored"),
            Self::Ignored { option, reason } => write!(f, "option {option} is ignored: {reason}"),
            Self::Repeated { option } => {
                write!(
                    f,
                    "option {option} is given several times; the last one counts"
                )
            }
            Self::Renamed { option, instead } => {
                write!(f, "option {option} is now called {instead}; use that alone")
            }
            Self::LegacyBoolean { option, value } => {
                write!(
                    f,
                    "option {option} is deprecated in this spelling; write {option}={value}"
                )
            }
        }
    }
}
