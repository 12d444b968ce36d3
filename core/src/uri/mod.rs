//! Connection strings: `mongodb://` and `mongodb+srv://`.
//!
//! Reading one is a line of small steps: cut it into parts, read user name and password, hosts,
//! database, then each option by a table that says what kind of value it takes. Nothing is looked
//! up: the hosts of a `mongodb+srv` string come from DNS later, through [`resolve`].
//!
//! What the strings do that is not plain from the options' own documentation:
//!
//! * TLS is switched on by `tls=true` and by `mongodb+srv`, and by no other option: `tlsCAFile` and
//!   the like only say how, once it is on (URI-20). `tls=false` switches it off in both.
//! * `tlsInsecure` accepts any certificate for any host name (URI-21).
//! * Properties and tags are separated by commas after decoding, so that a value with a comma, even
//!   `%2C`, cannot be given here; set it in code (CS-31).
//! * An option that is not known, or whose value cannot be used, is ignored with a [`Warning`].
//!   Contradictions, and what concerns authentication or acknowledgment, are errors.
//! * An option that is known, and that this version does not act on, is read without a word. Making
//!   a client of it fails, or gives the client a warning ([`without_effect`]).
//! * A setter of [`ClientOptions`] that is called afterwards overrides the string; the string
//!   overrides a TXT record; all override the defaults (CS-38, DNS-32).

mod authority;
mod draft;
mod options;
mod split;
mod srv;
mod table;
mod value;
mod warning;

#[cfg(test)]
mod tests;

pub use srv::{is_below_srv_domain, resolve};
pub use value::OptionValue;
pub use warning::{Warning, without_effect};

use crate::{
    error::{Error, ErrorKind, UriPart},
    options::{ClientOptions, Monitoring},
};
use std::collections::BTreeMap;

type Result<T, E = Error> = std::result::Result<T, E>;

/// A connection string that was understood.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ParsedUri {
    /// What it chooses; the rest has the defaults. For a `mongodb+srv` string the hosts are empty
    /// and [`ClientOptions::srv_host`] is set; see [`resolve`].
    pub options: ClientOptions,
    /// What should be told to whoever wrote it, in the order in which it was noticed.
    pub warnings: Vec<Warning>,
    values: BTreeMap<String, OptionValue>,
}

impl ParsedUri {
    /// The value of an option as the string gives it, by name without regard to case; `None` if it
    /// was not given or was ignored.
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
        self.values.get(&name.to_ascii_lowercase())
    }
}

/// Reads a connection string.
///
/// Fails with [`ErrorKind::InvalidUri`], whose message says what to change and shows no part of the
/// string that could be a secret.
///
/// ```
/// use onionskin_core::uri;
///
/// let parsed = uri::parse("mongodb://me:pencil@db1.example.net,db2.example.net/app?w=majority")?;
/// assert_eq!(parsed.options.hosts().len(), 2);
/// assert_eq!(parsed.options.default_database(), Some("app"));
/// assert!(parsed.warnings.is_empty());
/// # Ok::<(), onionskin_core::error::Error>(())
/// ```
pub fn parse(text: &str) -> Result<ParsedUri> {
    parse_for(text, Monitoring::Background)
}

/// Reads a connection string for a client of this kind: one that scans its servers knows
/// `serverSelectionTryOnce`, which others must not offer (SEL-6), and has defaults of its own.
///
/// ```
/// use onionskin_core::{options::Monitoring, uri};
///
/// let text = "mongodb://localhost/?serverSelectionTryOnce=false";
/// let parsed = uri::parse_for(text, Monitoring::Scanning)?;
/// assert!(!parsed.options.server_selection_try_once());
/// assert_eq!(parsed.options.heartbeat_frequency().as_secs(), 60);
/// assert_eq!(uri::parse(text)?.warnings.len(), 1);
/// # Ok::<(), onionskin_core::error::Error>(())
/// ```
pub fn parse_for(text: &str, monitoring: Monitoring) -> Result<ParsedUri> {
    let parts = split::split(text)?;
    let login = parts.userinfo.map(authority::userinfo).transpose()?;
    let mut base = ClientOptions::default();
    base.set_monitoring(monitoring);
    if parts.srv {
        let host = authority::srv_host(parts.hosts)?;
        base.set_srv_host(&host).map_err(draft::in_uri)?;
    } else {
        base.set_hosts(authority::hosts(parts.hosts)?);
    }
    let database = authority::database(parts.database)?;
    let mut read = options::Read::default();
    read.draft.options = base;
    read.read(parts.options, parts.srv)?;
    if login.is_none() {
        read.warn_of_unused_credential();
    }
    let options = read.draft.finish(parts.srv, login, database)?;
    Ok(ParsedUri {
        options,
        warnings: read.warnings,
        values: read.values,
    })
}

fn invalid(part: UriPart, message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidUri {
        part,
        message: message.into(),
    })
}
