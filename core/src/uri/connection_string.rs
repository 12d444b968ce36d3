//! A connection string as data: its parts can be read and changed, and printed again.

use super::{
    ParsedUri, Result, authority, draft, invalid,
    options::OptionsParser,
    pairs::{Pair, pairs},
    print, split,
};
use crate::{
    address::Address,
    error::{Error, UriPart},
    options::{ClientOptions, Monitoring, Secret, check},
};
use std::{fmt, str::FromStr};

/// The scheme of a connection string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// `mongodb`: the string has the hosts of the servers.
    Mongodb,
    /// `mongodb+srv`: the string has one host, whose SRV records name the hosts of the servers.
    MongodbSrv,
}

impl Scheme {
    /// Returns the scheme as it is written before `://`.
    ///
    /// ```
    /// use onionskin_core::uri::Scheme;
    ///
    /// assert_eq!(Scheme::MongodbSrv.name(), "mongodb+srv");
    /// ```
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mongodb => "mongodb",
            Self::MongodbSrv => "mongodb+srv",
        }
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A valid connection string, whose parts can be read and changed.
///
/// [`parse`](Self::parse) accepts the strings that [`uri::parse`](super::parse) accepts, and each
/// setter makes the same checks. If a setter fails, the connection string stays as it was. A change
/// that is valid only together with another one, such as that of `proxyUsername` and
/// `proxyPassword`, is made by [`change_options`](Self::change_options).
///
/// `Display` and `Debug` print the string without secrets: `[redacted]` replaces the password, the
/// values of `authMechanismProperties`, `tlsCertificateKeyFilePassword` and `proxyPassword`, and
/// the values of options that are unknown or cannot be decoded. The key of an unknown option is
/// redacted as well if it follows one of these secrets, because it can be the end of a secret in
/// which `&` was not encoded. If an option contains an `@`, the database and the options can be the
/// end of a password in which `/` or `?` was not encoded. In this case the database, the keys of
/// unknown options and each value with an `@` are redacted. [`to_secret`](Self::to_secret) returns
/// the whole string.
///
/// Two connection strings are equal if their decoded parts are equal. The options have an order,
/// and the letter case of their keys counts.
///
/// ```
/// use onionskin_core::uri::ConnectionString;
///
/// let mut string = ConnectionString::parse("mongodb://me:pencil@db1.example.net/app?w=majority")?;
/// assert_eq!((string.username(), string.database()), (Some("me"), Some("app")));
/// assert_eq!(string.options().collect::<Vec<_>>(), [("w", "majority")]);
/// string.set_option("appName", "shop & more")?;
/// assert!(string.set_option("authMechanism", "none").is_err());
/// assert_eq!(
///     string.to_string(),
///     "mongodb://me:[redacted]@db1.example.net:27017/app?w=majority&appName=shop%20%26%20more"
/// );
/// # Ok::<(), onionskin_core::error::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct ConnectionString {
    pub(super) userinfo: Option<authority::UserInfo>,
    pub(super) hosts: Hosts,
    pub(super) database: Option<String>,
    pub(super) options: Vec<Pair>,
}

/// The hosts of a connection string.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Hosts {
    /// The hosts of a `mongodb` string; at least one.
    Seeds(Vec<Address>),
    /// The host of a `mongodb+srv` string, in lower case.
    Srv(String),
}

impl ConnectionString {
    /// Parses a connection string. DNS is not queried.
    ///
    /// Fails with [`InvalidArgument`](crate::error::ErrorKind::InvalidArgument) for the strings for
    /// which [`uri::parse`](super::parse) fails. The message says what to change, and quotes no
    /// part of the string that could be a secret.
    ///
    /// ```
    /// use onionskin_core::uri::ConnectionString;
    ///
    /// let string = ConnectionString::parse("mongodb://db1.example.net,db2.example.net/")?;
    /// assert_eq!(string.hosts().len(), 2);
    /// assert!(ConnectionString::parse("localhost:27017").is_err());
    /// # Ok::<(), onionskin_core::error::Error>(())
    /// ```
    pub fn parse(text: impl AsRef<str>) -> Result<Self> {
        let string = Self::read(text.as_ref())?;
        string.parse_options(Monitoring::Background)?;
        Ok(string)
    }

    /// Reads the parts of a connection string without interpreting its options.
    pub(super) fn read(text: &str) -> Result<Self> {
        let parts = split::split(text)?;
        let userinfo = parts.userinfo.map(authority::userinfo).transpose()?;
        let hosts = if parts.srv {
            Hosts::Srv(authority::srv_host(parts.hosts)?)
        } else {
            Hosts::Seeds(authority::hosts(parts.hosts)?)
        };
        Ok(Self {
            userinfo,
            hosts,
            database: authority::database(parts.database)?,
            options: pairs(parts.options)?,
        })
    }

    /// Replaces the hosts, and makes the scheme `mongodb`. Fails if there is no host, if a host
    /// cannot be written in a connection string, and if an option needs another number of hosts or
    /// `mongodb+srv`.
    ///
    /// ```
    /// use onionskin_core::{address::Address, uri::ConnectionString};
    ///
    /// let mut string = ConnectionString::parse("mongodb+srv://cluster.example.net/?tls=true")?;
    /// string.set_hosts([Address::tcp("localhost", 27017)])?;
    /// assert_eq!(string.to_string(), "mongodb://localhost:27017/?tls=true");
    /// # Ok::<(), onionskin_core::error::Error>(())
    /// ```
    pub fn set_hosts(&mut self, hosts: impl Into<Vec<Address>>) -> Result<&mut Self> {
        let hosts = hosts.into();
        self.change(UriPart::Host, |string| string.hosts = Hosts::Seeds(hosts))
    }

    /// Replaces the hosts by the host of SRV records, and makes the scheme `mongodb+srv`, which
    /// switches TLS on. Fails if `host` is not one host name without a port, and if an option
    /// conflicts with `mongodb+srv`.
    ///
    /// ```
    /// use onionskin_core::uri::ConnectionString;
    ///
    /// let mut string = ConnectionString::parse("mongodb://localhost/app")?;
    /// string.set_srv_host("cluster.example.net")?;
    /// assert_eq!(string.srv_host(), Some("cluster.example.net"));
    /// # Ok::<(), onionskin_core::error::Error>(())
    /// ```
    pub fn set_srv_host(&mut self, host: &str) -> Result<&mut Self> {
        let host = host.to_ascii_lowercase();
        self.change(UriPart::Host, |string| string.hosts = Hosts::Srv(host))
    }

    /// Sets the user name and the password, which need no encoding. `None` for no password, which
    /// differs from an empty one ([CS-7]).
    ///
    /// Fails if the authentication mechanism forbids or requires one of them, and if the user name
    /// is empty.
    ///
    /// ```
    /// use onionskin_core::uri::ConnectionString;
    ///
    /// let mut string = ConnectionString::parse("mongodb://localhost/")?;
    /// string.set_credentials("me@example.net", Some("p:ncil"))?;
    /// assert_eq!(string.username(), Some("me@example.net"));
    /// # Ok::<(), onionskin_core::error::Error>(())
    /// ```
    ///
    /// [CS-7]: crate::requirements::connection_strings#CS-7
    pub fn set_credentials(&mut self, username: &str, password: Option<&str>) -> Result<&mut Self> {
        let userinfo = (username.to_owned(), password.map(Secret::new));
        self.change(UriPart::UserInfo, |string| string.userinfo = Some(userinfo))
    }

    /// Removes the user name and the password. Fails if the authentication mechanism requires them.
    ///
    /// ```
    /// use onionskin_core::uri::ConnectionString;
    ///
    /// let mut string = ConnectionString::parse("mongodb://me:pencil@localhost/")?;
    /// string.clear_credentials()?;
    /// assert_eq!(string.username(), None);
    /// # Ok::<(), onionskin_core::error::Error>(())
    /// ```
    pub fn clear_credentials(&mut self) -> Result<&mut Self> {
        self.change(UriPart::UserInfo, |string| string.userinfo = None)
    }

    /// Sets or removes the database, which needs no encoding. Fails if the name is empty or has a
    /// character that database names must not have.
    ///
    /// ```
    /// use onionskin_core::uri::ConnectionString;
    ///
    /// let mut string = ConnectionString::parse("mongodb://localhost/app")?;
    /// string.set_database("archive")?;
    /// assert_eq!(string.database(), Some("archive"));
    /// string.set_database(None)?;
    /// assert_eq!(string.database(), None);
    /// # Ok::<(), onionskin_core::error::Error>(())
    /// ```
    pub fn set_database<'a>(&mut self, name: impl Into<Option<&'a str>>) -> Result<&mut Self> {
        let name = name.into().map(str::to_owned);
        self.change(UriPart::Database, |string| string.database = name)
    }

    /// Sets an option, in place of all its occurrences, or else after the other options. The letter
    /// case of `name` does not count, and the value needs no encoding.
    ///
    /// Fails if parsing would fail with the option. An option that is unknown, or that has a value
    /// that parsing ignores, is set; [`parse_options`](Self::parse_options) warns about it.
    ///
    /// ```
    /// use onionskin_core::uri::ConnectionString;
    ///
    /// let mut string = ConnectionString::parse("mongodb://localhost/?w=1")?;
    /// string.set_option("W", "majority")?;
    /// assert_eq!(string.option("w"), Some("majority"));
    /// # Ok::<(), onionskin_core::error::Error>(())
    /// ```
    pub fn set_option(&mut self, name: &str, value: &str) -> Result<&mut Self> {
        self.change_options([(name, Some(value))])
    }

    /// Adds an option after the others, for example one more tag set of `readPreferenceTags`. The
    /// value needs no encoding. Fails if parsing would fail with the option.
    ///
    /// ```
    /// use onionskin_core::uri::ConnectionString;
    ///
    /// let mut string = ConnectionString::parse("mongodb://localhost/?readPreference=nearest")?;
    /// string.add_option("readPreferenceTags", "dc:ny")?.add_option("readPreferenceTags", "")?;
    /// assert_eq!(string.options().count(), 3);
    /// # Ok::<(), onionskin_core::error::Error>(())
    /// ```
    pub fn add_option(&mut self, name: &str, value: &str) -> Result<&mut Self> {
        let pair = Pair::new(name, value);
        self.change(UriPart::Options, |string| string.options.push(pair))
    }

    /// Removes all occurrences of an option, if there are any. Fails if another option requires
    /// this one.
    ///
    /// ```
    /// use onionskin_core::uri::ConnectionString;
    ///
    /// let mut string = ConnectionString::parse("mongodb://localhost/?w=1&appName=shop")?;
    /// string.remove_option("appName")?;
    /// assert_eq!(string.option("appName"), None);
    /// # Ok::<(), onionskin_core::error::Error>(())
    /// ```
    pub fn remove_option(&mut self, name: &str) -> Result<&mut Self> {
        self.change_options([(name, None)])
    }

    /// Sets and removes several options at once: each name with its new value, or with `None` to
    /// remove the option. Only the result has to be valid, so that options which require each other
    /// can be changed together.
    ///
    /// ```
    /// use onionskin_core::uri::ConnectionString;
    ///
    /// let mut string: ConnectionString = "mongodb://localhost/?proxyHost=proxy".parse()?;
    /// assert!(string.set_option("proxyUsername", "me").is_err());
    /// string.change_options([("proxyUsername", Some("me")), ("proxyPassword", Some("pencil"))])?;
    /// # Ok::<(), onionskin_core::error::Error>(())
    /// ```
    pub fn change_options<'a>(
        &mut self,
        changes: impl IntoIterator<Item = (&'a str, Option<&'a str>)>,
    ) -> Result<&mut Self> {
        self.change(UriPart::Options, |string| {
            for (name, value) in changes {
                string.replace_option(name, value);
            }
        })
    }

    /// Returns the whole connection string, with the password and all other secrets. Parsing the
    /// text gives an equal connection string.
    ///
    /// **Do not log or show this text.** `Display` prints a connection string without secrets. The
    /// memory of the returned value is wiped when the value is dropped.
    ///
    /// ```
    /// use onionskin_core::uri::ConnectionString;
    ///
    /// let string = ConnectionString::parse("mongodb://me:p%40@localhost")?;
    /// assert_eq!(string.to_secret().expose(), "mongodb://me:p%40@localhost:27017");
    /// # Ok::<(), onionskin_core::error::Error>(())
    /// ```
    #[must_use]
    pub fn to_secret(&self) -> Secret {
        print::whole(self)
    }

    /// Interprets the options, for a client with this kind of monitoring, as
    /// [`uri::parse_for`](super::parse_for) does. DNS is not queried.
    ///
    /// A connection string that was parsed or changed is valid with background monitoring. With
    /// [`Monitoring::Scanning`], interpretation can fail nevertheless.
    ///
    /// ```
    /// use onionskin_core::{options::Monitoring, uri::ConnectionString};
    ///
    /// let string = ConnectionString::parse("mongodb://localhost/?maxPoolSize=5")?;
    /// let parsed = string.parse_options(Monitoring::Background)?;
    /// assert_eq!(parsed.options.max_pool_size, Some(5));
    /// # Ok::<(), onionskin_core::error::Error>(())
    /// ```
    pub fn parse_options(&self, monitoring: Monitoring) -> Result<ParsedUri> {
        let parts = (
            self.hosts.clone(),
            self.userinfo.clone(),
            self.database.clone(),
        );
        interpret(parts, &self.options, monitoring)
    }

    /// Interprets the options as [`parse_options`](Self::parse_options) does.
    pub(super) fn into_options(self, monitoring: Monitoring) -> Result<ParsedUri> {
        let parts = (self.hosts, self.userinfo, self.database);
        interpret(parts, &self.options, monitoring)
    }

    /// Sets or removes an option, without checks.
    fn replace_option(&mut self, name: &str, value: Option<&str>) {
        let first = self.options.iter().position(|pair| pair.is(name));
        let place = first.unwrap_or(self.options.len());
        self.options.retain(|pair| !pair.is(name));
        if let Some(value) = value {
            self.options.insert(place, Pair::new(name, value));
        }
    }

    /// Changes a part. The changed string is printed and parsed, so that each change is checked as
    /// parsing checks.
    fn change(&mut self, part: UriPart, change: impl FnOnce(&mut Self)) -> Result<&mut Self> {
        let mut changed = self.clone();
        change(&mut changed);
        let parsed = Self::parse(changed.to_secret().expose())?;
        if parsed != changed {
            let message = "the value cannot be written in a connection string; give another one";
            return Err(invalid(part, message));
        }
        *self = changed;
        Ok(self)
    }
}

/// Interprets hosts, user information, database and options.
fn interpret(
    (hosts, userinfo, database): (Hosts, Option<authority::UserInfo>, Option<String>),
    options: &[Pair],
    monitoring: Monitoring,
) -> Result<ParsedUri> {
    let mut base = ClientOptions::default();
    base.monitoring = monitoring;
    let is_srv = matches!(hosts, Hosts::Srv(_));
    match hosts {
        Hosts::Seeds(hosts) => {
            base.hosts = hosts.into_iter().map(Into::into).collect();
        }
        Hosts::Srv(host) => {
            let host = host.to_ascii_lowercase();
            check::srv_host(&host).map_err(draft::in_uri)?;
            base.srv_host = Some(host);
        }
    }
    let mut parser = OptionsParser::new(base);
    parser.parse(options, is_srv)?;
    if userinfo.is_none() {
        parser.warn_of_unused_credential();
    }
    Ok(ParsedUri {
        options: parser.draft.finish(is_srv, userinfo, database)?,
        warnings: parser.warnings,
        values: parser.values,
    })
}

impl FromStr for ConnectionString {
    type Err = Error;

    /// Parses a connection string; see [`parse`](Self::parse).
    fn from_str(text: &str) -> Result<Self> {
        Self::parse(text)
    }
}

impl TryFrom<&str> for ConnectionString {
    type Error = Error;

    /// Parses a connection string; see [`parse`](Self::parse).
    fn try_from(text: &str) -> Result<Self> {
        Self::parse(text)
    }
}

impl TryFrom<&String> for ConnectionString {
    type Error = Error;

    /// Parses a connection string; see [`parse`](Self::parse).
    fn try_from(text: &String) -> Result<Self> {
        Self::parse(text)
    }
}

impl TryFrom<String> for ConnectionString {
    type Error = Error;

    /// Parses a connection string; see [`parse`](Self::parse).
    fn try_from(text: String) -> Result<Self> {
        Self::parse(text)
    }
}

impl fmt::Display for ConnectionString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        print::redacted(self, f)
    }
}

impl fmt::Debug for ConnectionString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ConnectionString")
            .field(&format_args!("{self}"))
            .finish()
    }
}
