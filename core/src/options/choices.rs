//! Small options: enumerations, the proxy and the Stable API.

use super::Secret;

/// Who checks the servers, and when: the two kinds of client that the specifications know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Monitoring {
    /// A monitor for each server, at work all the time: the multi-threaded or asynchronous kind.
    #[default]
    Background,
    /// Operations scan the servers when it is time to, one after the other, and nothing happens
    /// between operations: the single-threaded kind (MON-24).
    Scanning,
}

/// `serverMonitoringMode`: how monitors learn of changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum MonitoringMode {
    /// Stream where that pays: everywhere but in function-as-a-service environments.
    #[default]
    Auto,
    /// The server answers as soon as something changes.
    Stream,
    /// The server is asked at intervals.
    Poll,
}

impl MonitoringMode {
    /// All modes.
    pub const ALL: [Self; 3] = [Self::Auto, Self::Stream, Self::Poll];

    /// Its name in connection strings.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Stream => "stream",
            Self::Poll => "poll",
        }
    }

    /// The mode of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.name() == name)
    }
}

/// A way to compress messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Compressor {
    /// Fast, compresses little.
    Snappy,
    /// Slower; its level can be chosen.
    Zlib,
    /// Fast and small.
    Zstd,
}

impl Compressor {
    /// All compressors.
    pub const ALL: [Self; 3] = [Self::Snappy, Self::Zlib, Self::Zstd];

    /// Its name in connection strings and in the handshake.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Snappy => "snappy",
            Self::Zlib => "zlib",
            Self::Zstd => "zstd",
        }
    }

    /// The compressor of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|c| c.name() == name)
    }
}

/// A SOCKS5 proxy.
///
/// ```
/// use onionskin_core::options::ProxyOptions;
///
/// let proxy = ProxyOptions::new("proxy.example.net").with_login("me", "pencil");
/// assert_eq!(proxy.port(), 1080);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxyOptions {
    host: String,
    port: u16,
    login: Option<(String, Secret)>,
}

impl ProxyOptions {
    /// Default of [`port`](Self::port).
    pub const DEFAULT_PORT: u16 = 1080;

    /// The proxy on `host`, a name or IP address, at port 1080, without a login.
    pub fn new(host: impl Into<String>) -> Self {
        Self {
            host: host.into(),
            port: Self::DEFAULT_PORT,
            login: None,
        }
    }

    /// The same at another port.
    #[must_use]
    pub const fn with_port(mut self, port: u16) -> Self {
        self.port = port;
        self
    }

    /// The same with a user name and a password.
    #[must_use]
    pub fn with_login(mut self, username: impl Into<String>, password: impl Into<String>) -> Self {
        self.login = Some((username.into(), Secret::new(password)));
        self
    }

    /// `proxyHost`.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// `proxyPort`. Default: 1080.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// `proxyUsername` and `proxyPassword`. Default: none.
    #[must_use]
    pub fn login(&self) -> Option<(&str, &Secret)> {
        self.login
            .as_ref()
            .map(|(name, word)| (name.as_str(), word))
    }
}

/// A version of the Stable API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServerApiVersion {
    /// `1`.
    V1,
}

impl ServerApiVersion {
    /// What commands carry as `apiVersion`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::V1 => "1",
        }
    }
}

/// The Stable API that is declared with each command; `None` leaves a field out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerApi {
    /// `apiVersion`.
    pub version: ServerApiVersion,
    /// `apiStrict`: refuse commands outside this version.
    pub strict: Option<bool>,
    /// `apiDeprecationErrors`: refuse deprecated commands.
    pub deprecation_errors: Option<bool>,
}

impl ServerApi {
    /// This version, with the server's defaults for the rest.
    #[must_use]
    pub const fn new(version: ServerApiVersion) -> Self {
        Self {
            version,
            strict: None,
            deprecation_errors: None,
        }
    }
}
