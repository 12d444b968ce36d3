//! Addresses of servers.

mod conversions;

use crate::text::is_unprintable;
use std::{
    borrow::Cow,
    fmt,
    hash::{Hash, Hasher},
    net::Ipv6Addr,
    path::PathBuf,
    str::FromStr,
    sync::Arc,
};

/// The default port: the port of an address whose text has none.
pub const DEFAULT_PORT: u16 = 27017;

/// The address of a server: a host and a port, or the path of a Unix domain socket.
///
/// Cloning is cheap. The functions that create an address change the host to lower case, so that
/// host names which differ only in case give equal addresses ([SDAM-20], [SDAM-53]).
///
/// ```
/// use onionskin_core::address::Address;
///
/// let address: Address = "DB1.example.net".parse()?;
/// assert_eq!(address.to_string(), "db1.example.net:27017");
/// assert_eq!("[::1]:27018".parse::<Address>()?.host(), "::1");
/// # Ok::<(), onionskin_core::address::InvalidAddress>(())
/// ```
///
/// [SDAM-20]: crate::requirements::discovery#SDAM-20
/// [SDAM-53]: crate::requirements::discovery#SDAM-53
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Address {
    /// A host name or IP literal, and a port.
    Tcp {
        /// The host in lower case; an IPv6 literal without brackets.
        host: Arc<str>,
        /// The port. An address that was parsed has a port from 1 to 65535.
        port: u16,
    },
    /// The path of a Unix domain socket.
    Unix {
        /// The path after percent-decoding, in its original case.
        path: Arc<str>,
    },
}

impl Address {
    /// Creates the address of `host` and `port`. The host is changed to lower case, except the zone
    /// of an IPv6 address.
    ///
    /// ```
    /// use onionskin_core::address::Address;
    ///
    /// assert_eq!(Address::tcp("DB1.example.net", 27017).to_string(), "db1.example.net:27017");
    /// ```
    #[must_use]
    pub fn tcp(host: &str, port: u16) -> Self {
        // The zone of an IPv6 address is the name of an interface, whose letter case counts.
        let (name, zone) = host.split_at(host.find('%').unwrap_or(host.len()));
        let host = if name.bytes().any(|byte| byte.is_ascii_uppercase()) {
            (name.to_ascii_lowercase() + zone).into()
        } else {
            host.into()
        };
        Self::Tcp { host, port }
    }

    /// Creates the address of the Unix domain socket at `path`.
    ///
    /// ```
    /// use onionskin_core::address::Address;
    ///
    /// let address = Address::unix("/tmp/mongodb-27017.sock");
    /// assert_eq!(address.port(), None);
    /// ```
    #[must_use]
    pub fn unix(path: &str) -> Self {
        Self::Unix { path: path.into() }
    }

    /// Returns the host name, the IP literal or the socket path.
    ///
    /// ```
    /// use onionskin_core::address::Address;
    ///
    /// assert_eq!(Address::tcp("db1.example.net", 27017).host(), "db1.example.net");
    /// ```
    #[must_use]
    pub fn host(&self) -> &str {
        match self {
            Self::Tcp { host, .. } => host,
            Self::Unix { path } => path,
        }
    }

    /// Returns the port; `None` for a Unix domain socket.
    ///
    /// ```
    /// use onionskin_core::address::Address;
    ///
    /// assert_eq!(Address::tcp("db1.example.net", 27018).port(), Some(27018));
    /// ```
    #[must_use]
    pub const fn port(&self) -> Option<u16> {
        match self {
            Self::Tcp { port, .. } => Some(*port),
            Self::Unix { .. } => None,
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "{host}:{port}"),
            Self::Unix { path } => f.write_str(path),
        }
    }
}

/// The error for a text that is not a valid address, with the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidAddress {
    reason: &'static str,
}

impl fmt::Display for InvalidAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.reason)
    }
}

impl std::error::Error for InvalidAddress {}

impl FromStr for Address {
    type Err = InvalidAddress;

    /// Parses `host`, `host:port`, `[v6]` or `[v6]:port`, or a path that contains a slash and ends
    /// in `.sock`. The text must be percent-decoded already (CS-9, CS-11, CS-13).
    fn from_str(text: &str) -> Result<Self, InvalidAddress> {
        let fail = |reason| Err(InvalidAddress { reason });
        if text.ends_with(".sock") && text.contains('/') {
            return Ok(Self::unix(text));
        }
        let (host, port) = if let Some(rest) = text.strip_prefix('[') {
            let Some((host, after)) = rest.split_once(']') else {
                return fail("the bracket of an IP literal is not closed");
            };
            if let Some(reason) = literal_fault(host) {
                return fail(reason);
            }
            match after.strip_prefix(':') {
                Some(port) => (host, Some(port)),
                None if after.is_empty() => (host, None),
                None => return fail("only a port may follow an IP literal"),
            }
        } else {
            let (host, port) = match text.split_once(':') {
                Some((_, port)) if port.contains(':') => {
                    return fail("more than one colon; put an IPv6 literal in brackets");
                }
                Some((host, port)) => (host, Some(port)),
                None => (text, None),
            };
            if let Some(reason) = name_fault(host) {
                return fail(reason);
            }
            (host, port)
        };
        let port = match port {
            None => DEFAULT_PORT,
            Some(digits) if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) => {
                match digits.parse() {
                    Ok(port) if port > 0 => port,
                    _ => return fail("a port lies between 1 and 65535"),
                }
            }
            Some(_) => return fail("a port is a number between 1 and 65535"),
        };
        Ok(Self::tcp(host, port))
    }
}

/// The address of a server in options and in the events of handlers: a host with or without a port,
/// or the path of a Unix domain socket. Two addresses are equal if they stand for the same server:
/// an address without a port equals one with the default port.
///
/// ```
/// use onionskin_core::address::ServerAddress;
///
/// let address = ServerAddress::parse("db1.example.net")?;
/// assert!(matches!(&address, ServerAddress::Tcp { host, port: None } if host.contains("db1")));
/// assert_eq!(address.to_string(), "db1.example.net:27017");
/// # Ok::<(), onionskin_core::address::InvalidAddress>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ServerAddress {
    /// A host name or IP literal, and a port.
    Tcp {
        /// The host in lower case; an IPv6 literal without brackets.
        host: String,
        /// The port; `None` for [`DEFAULT_PORT`].
        port: Option<u16>,
    },
    /// The path of a Unix domain socket.
    Unix {
        /// The path after percent-decoding.
        path: PathBuf,
    },
}

impl ServerAddress {
    /// Parses an address, in the forms of [`Address`]. A text without a port gives no port.
    ///
    /// ```
    /// use onionskin_core::address::ServerAddress;
    ///
    /// let address = ServerAddress::parse("db1.example.net:27018")?;
    /// assert_eq!(address.port(), Some(27018));
    /// # Ok::<(), onionskin_core::address::InvalidAddress>(())
    /// ```
    pub fn parse(text: impl AsRef<str>) -> Result<Self, InvalidAddress> {
        let text = text.as_ref();
        let mut address = Self::from(text.parse::<Address>()?);
        if let Self::Tcp { port, .. } = &mut address
            && (text.ends_with(']') || !text.contains(':'))
        {
            *port = None;
        }
        Ok(address)
    }

    /// Returns the host name, the IP literal, or the socket path with characters that are not UTF-8
    /// replaced.
    ///
    /// ```
    /// use onionskin_core::address::ServerAddress;
    ///
    /// let address: ServerAddress = "db1.example.net".parse()?;
    /// assert_eq!(address.host(), "db1.example.net");
    /// # Ok::<(), onionskin_core::address::InvalidAddress>(())
    /// ```
    #[must_use]
    pub fn host(&self) -> Cow<'_, str> {
        match self {
            Self::Tcp { host, .. } => host.into(),
            Self::Unix { path } => path.to_string_lossy(),
        }
    }

    /// Returns the port, if one is set; `None` for a Unix domain socket.
    ///
    /// ```
    /// use onionskin_core::address::ServerAddress;
    ///
    /// let address: ServerAddress = "db1.example.net".parse()?;
    /// assert_eq!(address.port(), None);
    /// # Ok::<(), onionskin_core::address::InvalidAddress>(())
    /// ```
    #[must_use]
    pub const fn port(&self) -> Option<u16> {
        match self {
            Self::Tcp { port, .. } => *port,
            Self::Unix { .. } => None,
        }
    }

    /// Returns the address as it is written, without a change to lower case.
    pub(crate) fn verbatim(&self) -> Address {
        match self {
            Self::Tcp { host, port } => Address::Tcp {
                host: host.as_str().into(),
                port: port.unwrap_or(DEFAULT_PORT),
            },
            Self::Unix { path } => Address::unix(&path.to_string_lossy()),
        }
    }
}

impl PartialEq for ServerAddress {
    fn eq(&self, other: &Self) -> bool {
        self.verbatim() == other.verbatim()
    }
}

impl Eq for ServerAddress {}

impl Hash for ServerAddress {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.verbatim().hash(state);
    }
}

impl From<Address> for ServerAddress {
    fn from(address: Address) -> Self {
        (&address).into()
    }
}

impl From<&Address> for ServerAddress {
    fn from(address: &Address) -> Self {
        match address {
            Address::Tcp { host, port } => Self::Tcp {
                host: host.as_ref().to_owned(),
                port: Some(*port),
            },
            Address::Unix { path } => Self::Unix {
                path: path.as_ref().into(),
            },
        }
    }
}

impl From<&ServerAddress> for Address {
    fn from(address: &ServerAddress) -> Self {
        match address {
            ServerAddress::Tcp { host, port } => Self::tcp(host, port.unwrap_or(DEFAULT_PORT)),
            ServerAddress::Unix { .. } => address.verbatim(),
        }
    }
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.verbatim().fmt(f)
    }
}

impl FromStr for ServerAddress {
    type Err = InvalidAddress;

    /// Parses the text as [`parse`](Self::parse).
    fn from_str(text: &str) -> Result<Self, InvalidAddress> {
        Self::parse(text)
    }
}

/// Returns the reason why a text is neither a host name nor an IPv4 address; `None` if it is one.
///
/// A name has the ASCII characters of a registered name (RFC 3986, section 3.2.2), and printable
/// characters outside of ASCII. So no name of a peer ends early in a call of the system, breaks a
/// line of a log, or looks like an IPv6 address with a zone.
pub(crate) fn name_fault(name: &str) -> Option<&'static str> {
    let is_wrong = |c: char| match c.is_ascii() {
        true => !c.is_ascii_alphanumeric() && !"-._~!$&'()*+;=".contains(c),
        false => c.is_whitespace() || is_unprintable(c),
    };
    if name.is_empty() {
        return Some("the host is empty");
    }
    if name.contains('/') {
        return Some("a slash in a host; the path of a Unix socket must be percent-encoded");
    }
    if name.contains(['[', ']']) {
        return Some("a host name has no brackets");
    }
    name.contains(is_wrong)
        .then_some("a host name has no spaces, control characters or delimiters")
}

/// Returns the reason why a text is not an IPv6 address, with or without a zone; `None` if it is
/// one.
pub(crate) fn literal_fault(literal: &str) -> Option<&'static str> {
    let (address, zone) = literal.split_once('%').unwrap_or((literal, "0"));
    if address.parse::<Ipv6Addr>().is_err() {
        return Some("the text in brackets is not an IPv6 address");
    }
    if zone.is_empty() {
        return Some("the zone of the IPv6 address is empty");
    }
    let is_wrong = |c: char| c.is_whitespace() || is_unprintable(c) || "/[]%".contains(c);
    zone.contains(is_wrong)
        .then_some("the zone of the IPv6 address is not the name of an interface")
}

/// Returns the host without the zone of an IPv6 address, which is the name of an interface of this
/// machine (RFC 4007, section 11).
pub(crate) fn without_zone(host: &str) -> &str {
    match host.split_once('%') {
        Some((address, _)) if address.parse::<Ipv6Addr>().is_ok() => address,
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_form_of_an_address_is_parsed_and_displayed() {
        for (text, printed) in [
            ("a", "a:27017"),
            ("A:1", "a:1"),
            ("127.0.0.1:65535", "127.0.0.1:65535"),
            ("[::1]", "[::1]:27017"),
            ("[FE80::1]:5", "[fe80::1]:5"),
            ("/tmp/Mongo-1.sock", "/tmp/Mongo-1.sock"),
        ] {
            assert_eq!(
                text.parse::<Address>().map(|a| a.to_string()),
                Ok(printed.to_owned())
            );
        }
    }

    #[test]
    fn an_address_without_a_port_equals_one_with_the_default_port() {
        for (text, port) in [
            ("a", None),
            ("[::1]", None),
            ("a:5", Some(5)),
            ("[::1]:5", Some(5)),
        ] {
            let address = ServerAddress::parse(text).expect("an address");
            assert_eq!(address.port(), port, "{text}");
            let whole = ServerAddress::from(Address::from(&address));
            assert_eq!((&whole, whole.to_string()), (&address, address.to_string()));
        }
        let path = ServerAddress::parse("/tmp/Mongo.sock").expect("a path");
        assert_eq!(
            (path.host().as_ref(), path.port()),
            ("/tmp/Mongo.sock", None)
        );
    }

    #[test]
    fn invalid_addresses_are_refused() {
        // Each of these texts violates the rules for hosts or ports (CS-13).
        for text in [
            "",
            ":1",
            "a:0",
            "a:-1",
            "a:65536",
            "a:x",
            "a:",
            "a:1:2",
            "[::1",
            "[::1]x",
            "[::1]:",
            "[]",
            "a/b",
            "a:+1",
            "::1",
            "[a]",
            "[::1%]",
            "[::1%a b]",
            "[::1%a\0]",
            "[fe80::1%25%a]",
            "a]b",
            "a b",
            "a\0.b",
            "a\n",
            "a%b",
            "a@b",
            "a,b",
            "a\\b",
            "a\u{202e}b",
            "a\u{a0}b",
            "\x1b[31m",
        ] {
            assert!(text.parse::<Address>().is_err(), "{text:?}");
        }
    }
}
