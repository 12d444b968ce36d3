//! The configuration of the stub resolver.

use super::HostsFile;
use resolv_conf::ScopedIp;
use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4, SocketAddrV6},
    time::Duration,
};

/// The port of name servers.
pub const DNS_PORT: u16 = 53;

/// The maximum number of name servers that are taken from a `resolv.conf`, as in the C library.
pub const MAX_NAME_SERVERS: usize = 3;

/// The maximum number of search domains that are taken from a `resolv.conf`, as in the C library.
const MAX_SEARCH_DOMAINS: usize = 6;

/// The maximum size of a `resolv.conf` and of a hosts file, in bytes: 16 MiB. Hosts files that
/// block names can have some megabytes.
pub const MAX_FILE_BYTES: usize = 16 * 1024 * 1024;

/// The default of [`ResolverConfig::try_timeout`]: 5 seconds, as in `resolv.conf`.
pub const DEFAULT_TRY_TIMEOUT: Duration = Duration::from_secs(5);

/// The default of [`ResolverConfig::attempts`]: 2, as in `resolv.conf`.
pub const DEFAULT_ATTEMPTS: u32 = 2;

/// The name servers of the stub resolver, and how it asks them.
///
/// ```
/// use onionskin_core::dns::ResolverConfig;
///
/// let text = b"nameserver 10.0.0.2\nsearch example.net\noptions ndots:2\n";
/// let config = ResolverConfig::parse(text);
/// assert_eq!(config.name_servers, ["10.0.0.2:53".parse().unwrap()]);
/// // A name with fewer than `ndots` dots is first completed by the search list.
/// assert_eq!(config.candidates("db"), ["db.example.net.", "db."]);
/// assert_eq!(config.candidates("db.eu.corp"), ["db.eu.corp.", "db.eu.corp.example.net."]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ResolverConfig {
    /// The addresses of the name servers, in the order in which they are asked.
    pub name_servers: Vec<SocketAddr>,
    /// The domains that complete a host name with few dots.
    pub search: Vec<String>,
    /// A host name with at least this many dots is first looked up as it is. Default: 1.
    pub ndots: u32,
    /// The maximum time to wait for one name server before the next one is asked too. If the time
    /// limit of the lookup is shorter than the time for all tries, each try gets an equal share.
    pub try_timeout: Duration,
    /// How often each name server is asked. Default: [`DEFAULT_ATTEMPTS`].
    pub attempts: u32,
    /// True if each lookup begins with a random name server. Default: false.
    pub rotate: bool,
    /// True if queries are sent over TCP only. Default: false.
    pub use_tcp: bool,
    /// The names that need no name server.
    pub hosts: HostsFile,
}

impl Default for ResolverConfig {
    /// A configuration without name servers.
    fn default() -> Self {
        Self {
            name_servers: Vec::new(),
            search: Vec::new(),
            ndots: 1,
            try_timeout: DEFAULT_TRY_TIMEOUT,
            attempts: DEFAULT_ATTEMPTS,
            rotate: false,
            use_tcp: false,
            hosts: HostsFile::default(),
        }
    }
}

impl ResolverConfig {
    /// Returns a configuration with these name servers, no search list and no hosts file.
    #[must_use]
    pub fn new(name_servers: impl IntoIterator<Item = SocketAddr>) -> Self {
        Self {
            name_servers: name_servers.into_iter().collect(),
            ..Self::default()
        }
    }

    /// Reads the text of a `resolv.conf`. Lines that are not understood are ignored, as the C
    /// library ignores them. Without a name server in the text, the name server is that of this
    /// machine, `127.0.0.1`.
    #[must_use]
    pub fn parse(text: &[u8]) -> Self {
        let (parsed, _) = resolv_conf::Config::parse_with_errors(text);
        let mut name_servers: Vec<SocketAddr> =
            parsed.nameservers.iter().filter_map(address_of).collect();
        name_servers.truncate(MAX_NAME_SERVERS);
        if name_servers.is_empty() {
            let local = SocketAddrV4::new(Ipv4Addr::LOCALHOST, DNS_PORT);
            name_servers.push(local.into());
        }
        let search = parsed.get_last_search_or_domain().cloned();
        Self {
            name_servers,
            search: search.take(MAX_SEARCH_DOMAINS).collect(),
            // The limits are those of the C library.
            ndots: parsed.ndots.min(15),
            try_timeout: Duration::from_secs(parsed.timeout.clamp(1, 30).into()),
            attempts: parsed.attempts.clamp(1, 5),
            rotate: parsed.rotate,
            use_tcp: parsed.use_vc,
            hosts: HostsFile::default(),
        }
    }

    /// Sets the hosts file.
    #[must_use]
    pub fn with_hosts(mut self, hosts: HostsFile) -> Self {
        self.hosts = hosts;
        self
    }

    /// Returns the complete names that a lookup of the addresses of `host` tries, the first one
    /// first. All end with the dot of the root.
    #[must_use]
    pub fn candidates(&self, host: &str) -> Vec<String> {
        if host.ends_with('.') {
            return vec![host.to_owned()];
        }
        let dots = host.bytes().filter(|&byte| byte == b'.').count();
        let own = format!("{host}.");
        let domains = self.search.iter().map(|domain| domain.trim_matches('.'));
        let domains = domains.filter(|domain| !domain.is_empty());
        let mut names: Vec<String> = domains.map(|domain| format!("{own}{domain}.")).collect();
        if u32::try_from(dots).unwrap_or(u32::MAX) >= self.ndots {
            names.insert(0, own);
        } else {
            names.push(own);
        }
        names
    }
}

/// Returns the address of a name server; `None` if its scope is not a number.
fn address_of(server: &ScopedIp) -> Option<SocketAddr> {
    match server {
        ScopedIp::V4(ip) => Some(SocketAddr::new(IpAddr::V4(*ip), DNS_PORT)),
        ScopedIp::V6(ip, None) => Some(SocketAddr::new(IpAddr::V6(*ip), DNS_PORT)),
        ScopedIp::V6(ip, Some(scope)) => {
            let scope = scope.parse().ok()?;
            Some(SocketAddrV6::new(*ip, DNS_PORT, 0, scope).into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_resolv_conf_are_read_and_clamped() {
        let text = b"# made by hand\nnameserver 10.0.0.1\nnameserver ::1\nnameserver fe80::1%2\n\
                     nameserver 10.0.0.4\nnameserver nonsense\nunknown line\n\
                     domain ignored.example\nsearch a.example b.example. c d e f g\n\
                     options ndots:99 timeout:99 attempts:9 rotate use-vc other:1\n";
        let config = ResolverConfig::parse(text);
        let servers = ["10.0.0.1:53", "[::1]:53", "[fe80::1%2]:53"];
        let servers = servers.map(|text| text.parse().expect("an address"));
        assert_eq!(config.name_servers, servers);
        assert_eq!(
            config.search,
            ["a.example", "b.example.", "c", "d", "e", "f"]
        );
        assert_eq!((config.ndots, config.attempts), (15, 5));
        assert_eq!(config.try_timeout, Duration::from_secs(30));
        assert!(config.rotate && config.use_tcp);
    }

    #[test]
    fn without_a_name_server_the_local_machine_is_asked() {
        for text in [
            &b""[..],
            b"nameserver\n",
            b"\xff\xfe\n",
            b"search example.net\n",
        ] {
            let config = ResolverConfig::parse(text);
            assert_eq!(config.name_servers, ["127.0.0.1:53".parse().expect("one")]);
            assert_eq!(config.attempts, DEFAULT_ATTEMPTS);
            assert_eq!(config.try_timeout, DEFAULT_TRY_TIMEOUT);
        }
    }

    #[test]
    fn an_absolute_name_is_not_completed() {
        let config = ResolverConfig::parse(b"search example.net .\n");
        assert_eq!(config.candidates("db."), ["db."]);
        assert_eq!(config.candidates("db"), ["db.example.net.", "db."]);
        assert_eq!(config.candidates("a.b"), ["a.b.", "a.b.example.net."]);
    }
}
