//! The hosts file: addresses of names that need no name server.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

/// The content of a hosts file, such as `/etc/hosts`.
///
/// Each line has an address and the names of the host with that address. Text after `#` is a
/// comment. Lines that begin with no address are ignored, as the C library ignores them.
///
/// ```
/// use onionskin_core::dns::HostsFile;
///
/// let hosts = HostsFile::parse("127.0.0.1 localhost\n10.0.0.7 db db.example.net # primary\n");
/// assert_eq!(hosts.addresses("DB.example.net").len(), 1);
/// assert!(hosts.addresses("example.net").is_empty());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostsFile {
    /// The addresses of each name. Names are in lower case.
    names: BTreeMap<String, Vec<IpAddr>>,
}

impl HostsFile {
    /// Parses the text of a hosts file.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut names: BTreeMap<String, Vec<IpAddr>> = BTreeMap::new();
        let mut seen = BTreeSet::new();
        for line in text.lines() {
            let line = line.split('#').next().unwrap_or_default();
            let mut words = line.split_whitespace();
            let Some(Ok(address)) = words.next().map(str::parse::<IpAddr>) else {
                continue;
            };
            for name in words {
                let name = name.trim_end_matches('.').to_ascii_lowercase();
                if seen.insert((name.clone(), address)) {
                    names.entry(name).or_default().push(address);
                }
            }
        }
        Self { names }
    }

    /// Returns the addresses of a name, in the order of the file. The letter case of the name does
    /// not count.
    #[must_use]
    pub fn addresses(&self, name: &str) -> &[IpAddr] {
        let name = name.trim_end_matches('.').to_ascii_lowercase();
        self.names.get(&name).map_or(&[], Vec::as_slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_several_lines_are_collected_and_malformed_lines_are_ignored() {
        let text = "# a comment\n\n::1 localhost ip6-localhost\n127.0.0.1\tlocalhost\r\n\
                    300.1.1.1 bad\nfe80::1%eth0 scoped\n10.0.0.1\n127.0.0.1 LocalHost.\n";
        let hosts = HostsFile::parse(text);
        let local: [IpAddr; 2] = [
            "::1".parse().expect("an address"),
            "127.0.0.1".parse().expect("an address"),
        ];
        assert_eq!(hosts.addresses("LOCALHOST."), local);
        assert_eq!(hosts.addresses("ip6-localhost"), &local[..1]);
        for unknown in ["bad", "scoped", "10.0.0.1", ""] {
            assert!(hosts.addresses(unknown).is_empty(), "{unknown}");
        }
    }
}
