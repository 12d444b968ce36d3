//! Parses connection strings (`mongodb://` and `mongodb+srv://`) into client options.
//!
//! Parsing splits the string into the decoded parts of a [`ConnectionString`]. A table (`table.rs`)
//! then maps each option to the kind of its value and to the field that takes it. Parsing performs
//! no DNS query. A caller that looks up the records of a `mongodb+srv` host passes them to
//! [`resolve`].
//!
//! Rules of connection strings that the documentation of the options does not state:
//!
//! * Only `tls=true` (or `ssl=true`) and `mongodb+srv` switch TLS on. Other options, such as
//!   `tlsCAFile`, do not. `tls=false` switches TLS off, also with `mongodb+srv` (URI-20).
//! * `tlsInsecure` accepts any certificate for any host name (URI-21).
//! * A mechanism property or tag cannot have a comma in its value, not even as `%2C`, because the
//!   values are split at commas after decoding. Such a value can be set in code (CS-31).
//! * An unknown option, or one with an unusable value, is ignored with a [`Warning`], which names
//!   the option or value that was probably meant. A [strict](ClientOptions::strict) client is
//!   not created with such a string. Conflicts of options are errors. Some values are errors, too,
//!   for example an unknown `authMechanism`, an empty `authSource` and a negative `w`.
//! * A value of `tls` or `ssl` that cannot be read, such as `tls=True`, is an error. If the option
//!   were ignored, passwords would be sent in clear text. So is an encoding of `tlsCAFile`,
//!   `tlsCRLFile` or `proxyHost` that cannot be decoded.
//! * Some known options have no effect in this version, and parsing does not warn about them. The
//!   creation of a client fails for some of them. For the others, [`ineffective_options`] returns
//!   warnings, which the client of the crate `onionskin` logs.
//! * A field of [`ClientOptions`] that is set after parsing overrides the connection string.
//!   The connection string overrides a TXT record, and both override the defaults (CS-38, DNS-32).

mod authority;
mod client_options;
mod connection_string;
mod costly;
mod draft;
mod ineffective;
mod nearest;
mod options;
mod pairs;
mod parts;
mod print;
mod split;
mod srv;
mod table;
mod value;

#[cfg(test)]
mod tests;

pub use crate::options::Warning;
pub use client_options::ParseConnectionString;
pub use connection_string::{ConnectionString, Scheme};
pub use costly::costly_options;
pub use ineffective::{ineffective_options, unsafe_options};
pub(crate) use srv::{check_srv_hosts, domain_of_srv_hosts, may_be_srv_host};
pub use srv::{is_below_srv_domain, resolve};
pub use value::OptionValue;

use crate::{
    error::{Argument, Error, ErrorKind, UriPart},
    options::{ClientOptions, Monitoring},
};
use std::collections::BTreeMap;

type Result<T, E = Error> = std::result::Result<T, E>;

/// The result of parsing a connection string.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ParsedUri {
    /// The options of the string, with defaults for the others. For a `mongodb+srv` string the
    /// hosts are empty, and [`ClientOptions::srv_host`] is set; see [`resolve`].
    pub options: ClientOptions,
    /// Warnings about the string, in the order in which the parser found them.
    pub warnings: Vec<Warning>,
    /// The parsed values of the options that were given and not ignored, by option name.
    values: BTreeMap<&'static str, OptionValue>,
}

impl ParsedUri {
    /// Returns the parsed value of an option. The letter case of `name` does not count. `None`
    /// means that the option was not given, was ignored or is unknown.
    ///
    /// ```
    /// use onionskin_core::uri::{self, OptionValue};
    ///
    /// let parsed = uri::parse("mongodb://localhost/?maxPoolSize=5")?;
    /// assert_eq!(parsed.option("maxpoolsize"), Some(&OptionValue::Int(5)));
    /// # Ok::<(), onionskin_core::error::Error>(())
    /// ```
    #[must_use]
    pub fn option(&self, name: &str) -> Option<&OptionValue> {
        let mut values = self.values.iter();
        let (_, value) = values.find(|(option, _)| option.eq_ignore_ascii_case(name))?;
        Some(value)
    }
}

/// Parses a connection string, for a client that checks servers in the background.
///
/// Fails with [`ErrorKind::InvalidArgument`]. The message says what to change, and quotes no part
/// of the string that could be a secret.
///
/// ```
/// use onionskin_core::uri;
///
/// let parsed = uri::parse("mongodb://me:pencil@db1.example.net,db2.example.net/app?w=majority")?;
/// assert_eq!(parsed.options.hosts().len(), 2);
/// assert_eq!(parsed.options.default_database.as_deref(), Some("app"));
/// assert!(parsed.warnings.is_empty());
/// # Ok::<(), onionskin_core::error::Error>(())
/// ```
pub fn parse(text: &str) -> Result<ParsedUri> {
    parse_for(text, Monitoring::Background)
}

/// Parses a connection string for a client with this kind of monitoring. With
/// [`Monitoring::Scanning`] the default of `heartbeatFrequencyMS` differs, and the string may
/// contain `serverSelectionTryOnce`, which is unknown otherwise ([SEL-6]).
///
/// ```
/// use onionskin_core::{options::Monitoring, uri};
///
/// let text = "mongodb://localhost/?serverSelectionTryOnce=false";
/// let parsed = uri::parse_for(text, Monitoring::Scanning)?;
/// assert!(!parsed.options.server_selection_try_once());
/// assert_eq!(parsed.options.heartbeat_freq().as_secs(), 60);
/// assert_eq!(uri::parse(text)?.warnings.len(), 1);
/// # Ok::<(), onionskin_core::error::Error>(())
/// ```
///
/// [SEL-6]: crate::requirements::server_selection#SEL-6
pub fn parse_for(text: &str, monitoring: Monitoring) -> Result<ParsedUri> {
    ConnectionString::read(text)?.into_options(monitoring)
}

fn invalid(part: UriPart, message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidArgument {
        argument: Argument::Uri(part),
        message: message.into(),
    })
}
