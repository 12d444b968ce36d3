//! The rules that explain the differences between the parsers.

mod npm;
mod pymongo;

pub(crate) use npm::NPM;
pub(crate) use pymongo::PYMONGO;

use std::{fmt, net::Ipv6Addr};

/// The parser that is right by the requirement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Right {
    /// Ours is right.
    Ours,
    /// The requirement permits both.
    Both,
}

use Right::{Both, Ours};

/// A rule that explains a difference in one part of some strings.
pub(crate) struct Rule {
    /// A sentence about the other parser.
    pub(crate) name: &'static str,
    /// The requirement that decides.
    requirement: &'static str,
    right: Right,
    /// The part that differs, or the beginning of its name. `accepted` if only the other parser
    /// accepts the string, `refused` if only ours does.
    part: &'static str,
    /// True for the strings that the rule is about.
    is_about: fn(&Parts) -> bool,
}

impl Rule {
    /// True if the rule explains a difference in this part of this string.
    pub(crate) fn explains(&self, text: &str, part: &str) -> bool {
        part.starts_with(self.part) && (self.is_about)(&Parts::of(text))
    }
}

impl fmt::Debug for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            name,
            requirement,
            right,
            ..
        } = self;
        write!(f, "{name} ({requirement}, right: {right:?})")
    }
}

const fn rule(
    part: &'static str,
    name: &'static str,
    requirement: &'static str,
    right: Right,
    is_about: fn(&Parts) -> bool,
) -> Rule {
    Rule {
        name,
        requirement,
        right,
        part,
        is_about,
    }
}

/// The parts of a connection string, still encoded, for the predicates of rules.
pub(crate) struct Parts {
    is_srv: bool,
    userinfo: Option<String>,
    hosts: String,
    database: String,
    /// Keys in lower case, and values.
    options: Vec<(String, String)>,
    /// The options as they are written.
    query: String,
}

impl Parts {
    fn of(text: &str) -> Self {
        let (scheme, rest) = text.split_once("://").unwrap_or(("", text));
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, database) = place.split_once('/').unwrap_or((place, ""));
        let (userinfo, hosts) = match authority.rsplit_once('@') {
            Some((userinfo, hosts)) => (Some(userinfo.to_owned()), hosts),
            None => (None, authority),
        };
        let pairs = query.split('&').map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (key.to_ascii_lowercase(), value.to_owned())
        });
        Self {
            is_srv: scheme == "mongodb+srv",
            userinfo,
            hosts: hosts.to_owned(),
            database: database.to_owned(),
            options: pairs.collect(),
            query: query.to_owned(),
        }
    }

    /// Returns the values of an option.
    fn values(&self, name: &str) -> impl Iterator<Item = &str> {
        let of_name = self.options.iter().filter(move |(key, _)| key == name);
        of_name.map(|(_, value)| value.as_str())
    }

    fn has(&self, name: &str) -> bool {
        self.values(name).next().is_some()
    }

    fn is(&self, name: &str, value: &str) -> bool {
        self.values(name).any(|given| given == value)
    }

    fn has_password(&self) -> bool {
        self.userinfo
            .as_ref()
            .is_some_and(|text| text.contains(':'))
    }

    /// True if the user name or the password has a plus sign.
    fn has_plus(&self) -> bool {
        self.userinfo
            .as_ref()
            .is_some_and(|text| text.contains('+'))
    }

    /// True if the mode of the read preference is primary, and an option needs another mode.
    fn needs_another_mode(&self) -> bool {
        let is_primary = self.values("readpreference").all(|mode| mode == "primary");
        let has_tags = self
            .values("readpreferencetags")
            .any(|tags| tags.contains(':'));
        is_primary && (has_tags || self.is("maxstalenessseconds", "120"))
    }

    /// True if a value of `tls` or `ssl` is no boolean. Only this driver refuses it, because it
    /// could have been meant as true (`docs/deviations.md`).
    fn has_unreadable_tls(&self) -> bool {
        self.values("tls")
            .chain(self.values("ssl"))
            .any(|value| value != "true" && value != "false")
    }

    /// True if the credential does not suit the mechanism.
    fn has_wrong_credential(&self) -> bool {
        let (has_user, has_password) = (self.userinfo.is_some(), self.has_password());
        self.values("authmechanism")
            .any(|mechanism| match mechanism {
                "MONGODB-X509" => has_password,
                "MONGODB-AWS" => has_user,
                "MONGODB-OIDC" => has_password,
                "GSSAPI" => !has_user,
                _ => !has_user || !has_password,
            })
    }
}

/// True if the form of a host or of its port is not valid.
fn is_wrong_host(host: &str) -> bool {
    let (name, port) = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((literal, port)) => {
            let address = literal.split('%').next().unwrap_or_default();
            if address.parse::<Ipv6Addr>().is_err() {
                return true;
            }
            ("literal", port)
        }
        None => host.split_at(host.find(':').unwrap_or(host.len())),
    };
    let is_port = |text: &str| text.parse::<u16>().is_ok_and(|port| port > 0);
    let has_wrong_port = !port.is_empty() && !port.strip_prefix(':').is_some_and(is_port);
    let has_encoded_delimiter = name.contains("%3A") || name.contains("%5B");
    let is_path_with_port = name.contains("%2F") && !port.is_empty();
    name.is_empty()
        || name.contains([' ', '#'])
        || has_wrong_port
        || has_encoded_delimiter
        || is_path_with_port
}

// The rules about combinations of options, which the other parsers leave to their clients.

const TLS_TWICE: Rule = rule(
    "accepted",
    "different values of tls and ssl are accepted",
    "URI-12",
    Ours,
    |s| {
        let is_known = |value: &&str| ["true", "false"].contains(value);
        let mut values = s.values("tls").chain(s.values("ssl")).filter(is_known);
        let first = values.next();
        values.any(|value| Some(value) != first)
    },
);

const PRIMARY: Rule = rule(
    "accepted",
    "tag sets and a maximum staleness are accepted with mode primary",
    "URI-22",
    Ours,
    Parts::needs_another_mode,
);

const WRONG_W: Rule = rule(
    "accepted",
    "a number w outside of 31 bits is accepted",
    "URI-23",
    Ours,
    |s| s.is("w", "-1") || s.is("w", "2147483648"),
);

const UNACKNOWLEDGED_JOURNAL: Rule = rule(
    "accepted",
    "w=0 is accepted with journal=true",
    "URI-23",
    Ours,
    |s| s.is("w", "0") && s.is("journal", "true"),
);

const POOL_SIZES: Rule = rule(
    "accepted",
    "minPoolSize above maxPoolSize is accepted",
    "URI-24",
    Ours,
    |s| s.is("minpoolsize", "6") && s.is("maxpoolsize", "5"),
);

const SRV_MAX_HOSTS: Rule = rule(
    "accepted",
    "srvMaxHosts is accepted with replicaSet or loadBalanced=true",
    "URI-17",
    Ours,
    |s| s.is_srv && s.has("srvmaxhosts") && (s.has("replicaset") || s.is("loadbalanced", "true")),
);

const PROXY: Rule = rule(
    "accepted",
    "proxyPort is accepted without proxyHost, and proxyUsername without proxyPassword",
    "URI-18",
    Ours,
    |s| s.has("proxyhost") != s.has("proxyport") && !s.has("proxypassword"),
);

const CREDENTIAL: Rule = rule(
    "accepted",
    "user name and password are not checked against the mechanism",
    "AUTH-4",
    Ours,
    Parts::has_wrong_credential,
);

const MECHANISM: Rule = rule(
    "accepted",
    "an unknown mechanism is accepted or ignored",
    "AUTH-8",
    Ours,
    |s| s.is("authmechanism", "MONGODB-CR"),
);

// The rules about the syntax.

const USERINFO_CHARACTERS: Rule = rule(
    "accepted",
    "characters outside of RFC 3986 are accepted in user name and password",
    "CS-5",
    Ours,
    |s| {
        s.userinfo
            .as_ref()
            .is_some_and(|text| text.contains([' ', '[', '#', '<']))
    },
);

const EMPTY_KEY: Rule = rule(
    "accepted",
    "an option without a key is accepted",
    "CS-21",
    Ours,
    |s| {
        s.options
            .iter()
            .any(|(key, value)| key.is_empty() && !value.is_empty())
    },
);
