//! The form of DNS queries and answers.

use std::{fmt, net::IpAddr, time::Duration};

/// The type of the DNS records that a query asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RecordKind {
    /// IPv4 addresses (RFC 1035 section 3.4.1).
    A,
    /// IPv6 addresses (RFC 3596 section 2.1).
    Aaaa,
    /// The hosts of a service (RFC 2782).
    Srv,
    /// Text (RFC 1035 section 3.3.14).
    Txt,
}

impl fmt::Display for RecordKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::A => "A",
            Self::Aaaa => "AAAA",
            Self::Srv => "SRV",
            Self::Txt => "TXT",
        })
    }
}

/// A DNS query: the name and the type of the wanted records.
///
/// ```
/// use onionskin_core::dns::{DnsQuery, RecordKind};
///
/// let query = DnsQuery::new("_mongodb._tcp.cluster.example.net", RecordKind::Srv);
/// assert_eq!(query.to_string(), "SRV _mongodb._tcp.cluster.example.net");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DnsQuery {
    /// The name in lower case, without the dot of the root at its end unless it was given.
    pub name: String,
    /// The type of the records.
    pub kind: RecordKind,
}

impl DnsQuery {
    /// Creates a query. The name is changed to lower case, because the letter case of DNS names
    /// does not count (RFC 4343).
    #[must_use]
    pub fn new(name: &str, kind: RecordKind) -> Self {
        Self {
            name: name.to_ascii_lowercase(),
            kind,
        }
    }
}

impl fmt::Display for DnsQuery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.name)
    }
}

/// The content of one DNS record.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DnsData {
    /// The address of an A or AAAA record.
    Address(IpAddr),
    /// The host and the port of an SRV record. Priority and weight are left out, because drivers
    /// ignore them ([DNS-16], [SRV-22]).
    ///
    /// [DNS-16]: crate::requirements::seed_lists#DNS-16
    /// [SRV-22]: crate::requirements::srv_polling#SRV-22
    Service {
        /// The host name in lower case, without the dot of the root at its end. The built-in
        /// resolver passes on any DNS name: other bytes than those of host names are escaped with
        /// backslashes, and the root is `.`. Such hosts are never contacted.
        host: String,
        /// The port.
        port: u16,
    },
    /// The text of a TXT record, in which U+FFFD replaces bytes that are not UTF-8. The strings of
    /// the record are joined with nothing between them ([DNS-28]).
    ///
    /// [DNS-28]: crate::requirements::seed_lists#DNS-28
    Text(String),
}

/// The answer to a [`DnsQuery`]: at least one record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DnsAnswer {
    /// The records, in the order of the answer. All have the type of the query.
    pub records: Vec<DnsData>,
    /// The time for which the answer is valid: the smallest time to live of the records. `None` if
    /// the resolver does not report it.
    pub ttl: Option<Duration>,
}
