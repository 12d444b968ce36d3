//! Warnings about options that were ignored, are deprecated, unsafe or have no effect.

use std::fmt;

/// A warning about an option in a connection string or in the options of a client, which was
/// ignored or should be changed. The text of a warning never shows the value of an option, except
/// that of a boolean.
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
    /// The option is unknown. The client ignores the option ([CS-23]).
    ///
    /// [CS-23]: crate::requirements::connection_strings#CS-23
    Unknown {
        /// The key, as the string gives it. The key is `[redacted]` if it can be a part of a
        /// secret: of a password in which `?` was not encoded, because an `@` follows, or of the
        /// value of a secret option before it, in which `&` was not encoded.
        key: String,
        /// The name of the option that was probably meant.
        nearest: Option<&'static str>,
    },
    /// The value is unusable. All or a part of the value was ignored ([CS-32]).
    ///
    /// [CS-32]: crate::requirements::connection_strings#CS-32
    Ignored {
        /// The name of the option.
        option: &'static str,
        /// The reason, which states what the option accepts.
        reason: String,
    },
    /// The option occurs several times. The last value with a valid percent-encoding counts, unless
    /// another warning says that the option was ignored ([CS-33]).
    ///
    /// [CS-33]: crate::requirements::connection_strings#CS-33
    Repeated {
        /// The name of the option.
        option: &'static str,
    },
    /// The option has a newer name. If the newer name occurs too, the older one was ignored
    /// ([CS-34], [CS-35]).
    ///
    /// [CS-34]: crate::requirements::connection_strings#CS-34
    /// [CS-35]: crate::requirements::connection_strings#CS-35
    Renamed {
        /// The old name.
        option: &'static str,
        /// The new name.
        instead: &'static str,
    },
    /// The boolean was written in an older spelling. An example is `yes` ([CS-28]).
    ///
    /// [CS-28]: crate::requirements::connection_strings#CS-28
    LegacyBoolean {
        /// The name of the option.
        option: &'static str,
        /// The value, to be written as `true` or `false`.
        value: bool,
    },
    /// The option is known, but has no effect in this version or with the other options.
    WithoutEffect {
        /// The name of the option in connection strings.
        option: &'static str,
        /// The reason, or what the client does instead.
        consequence: &'static str,
    },
    /// The mechanism sends a password or a token as it is, and connections are not encrypted.
    ClearText {
        /// The name of the mechanism.
        mechanism: &'static str,
    },
    /// `maxIdleTimeMS` closes the connections of `minPoolSize` so soon that each pool replaces them
    /// without end.
    Replacements {
        /// The number of connections that a pool replaces per second.
        per_second: u64,
    },
    /// The mechanism sends a password or a token as it is, and connections are encrypted without a
    /// check of the server's identity.
    Unverified {
        /// The name of the mechanism.
        mechanism: &'static str,
    },
}

impl Warning {
    /// True if a part of the connection string was ignored, for example because a name is misspelt.
    /// A [strict](super::ClientOptions::strict) client is not created with such a string.
    ///
    /// ```
    /// use onionskin_core::options::{ClientOptions, Warning};
    ///
    /// let options: ClientOptions = "mongodb://localhost/?maxPoolSize=lots".parse()?;
    /// assert!(options.warnings().iter().any(Warning::is_of_ignored_part));
    /// # Ok::<(), onionskin_core::error::Error>(())
    /// ```
    #[must_use]
    pub const fn is_of_ignored_part(&self) -> bool {
        match self {
            Self::Unknown { .. }
            | Self::Ignored { .. }
            | Self::Repeated { .. }
            | Self::WithoutEffect { .. } => true,
            Self::Renamed { .. }
            | Self::LegacyBoolean { .. }
            | Self::ClearText { .. }
            | Self::Unverified { .. }
            | Self::Replacements { .. } => false,
        }
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { key, nearest } => {
                write!(f, "option {key:?} is not known and was ignored")?;
                match nearest {
                    Some(name) => write!(f, "; did you mean {name}?"),
                    None => Ok(()),
                }
            }
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
            Self::WithoutEffect {
                option,
                consequence,
            } => write!(f, "option {option} has no effect: {consequence}"),
            Self::ClearText { mechanism } => write!(
                f,
                "{mechanism} sends its secret in clear text, and connections are not encrypted; \
                 add tls=true"
            ),
            Self::Replacements { per_second } => write!(
                f,
                "maxIdleTimeMS closes idle connections so soon that each pool replaces about \
                 {per_second} connections per second to keep minPoolSize; raise maxIdleTimeMS or \
                 lower minPoolSize"
            ),
            Self::Unverified { mechanism } => write!(
                f,
                "{mechanism} sends its secret in clear text within TLS, to any server, because \
                 tlsInsecure, tlsAllowInvalidCertificates or tlsAllowInvalidHostnames is set; \
                 remove it"
            ),
        }
    }
}
