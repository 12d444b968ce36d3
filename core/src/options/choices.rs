//! Small option types: monitoring, compressors, the proxy and the Stable API.

use super::Secret;

/// How a client checks its servers. The two values are the two kinds of client in the
/// specifications.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Monitoring {
    /// Multi-threaded or asynchronous: each server has a monitor, which checks the server in the
    /// background. A load balancer has none.
    #[default]
    Background,
    /// Single-threaded: the client checks servers only as a part of operations, one server after
    /// the other ([MON-24]). One pass over all servers is called a scan.
    ///
    /// [MON-24]: crate::requirements::monitoring#MON-24
    Scanning,
}

/// How monitors learn of changes of their servers (`serverMonitoringMode`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum MonitoringMode {
    /// Polls in function-as-a-service environments, and streams elsewhere.
    #[default]
    Auto,
    /// Streams: the server replies to a check when its state changes, or after
    /// `heartbeatFrequencyMS`. A server that does not support this is polled.
    Stream,
    /// Polls: the monitor sends a check at the latest `heartbeatFrequencyMS` after the end of the
    /// last one.
    Poll,
}

impl MonitoringMode {
    /// All modes, in the order of their declaration.
    pub const ALL: [Self; 3] = [Self::Auto, Self::Stream, Self::Poll];

    /// Returns the name of the mode in connection strings.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Stream => "stream",
            Self::Poll => "poll",
        }
    }

    /// Returns the mode with this name; letter case counts.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.name() == name)
    }
}

/// A compression algorithm for messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Compressor {
    /// Snappy: fast, with a low compression ratio.
    Snappy,
    /// Zlib: slower, with a configurable compression level.
    Zlib,
    /// Zstandard: fast, with a high compression ratio.
    Zstd,
}

impl Compressor {
    /// All compressors, in the order of their declaration.
    pub const ALL: [Self; 3] = [Self::Snappy, Self::Zlib, Self::Zstd];

    /// Returns the name of the compressor in connection strings and in the handshake.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Snappy => "snappy",
            Self::Zlib => "zlib",
            Self::Zstd => "zstd",
        }
    }

    /// Returns the compressor with this name; letter case counts.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|c| c.name() == name)
    }
}

/// The address of a SOCKS5 proxy, and the credentials for it.
///
/// ```
/// use onionskin_core::options::ProxyOptions;
///
/// let proxy = ProxyOptions::new("proxy.example.net").with_credentials("me", "pencil");
/// assert_eq!(proxy.port(), 1080);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxyOptions {
    host: String,
    port: u16,
    credentials: Option<(String, Secret)>,
}

impl ProxyOptions {
    /// The default of [`port`](Self::port): 1080.
    pub const DEFAULT_PORT: u16 = 1080;

    /// Returns the proxy at `host`, a name or IP address, with port 1080 and without credentials.
    pub fn new(host: impl Into<String>) -> Self {
        Self {
            host: host.into(),
            port: Self::DEFAULT_PORT,
            credentials: None,
        }
    }

    /// Sets [`port`](Self::port).
    #[must_use]
    pub const fn with_port(mut self, port: u16) -> Self {
        self.port = port;
        self
    }

    /// Sets the user name and password that the proxy requires.
    #[must_use]
    pub fn with_credentials(
        mut self,
        username: impl Into<String>,
        password: impl Into<String>,
    ) -> Self {
        self.credentials = Some((username.into(), Secret::new(password)));
        self
    }

    /// Returns `proxyHost`, the name or IP address of the proxy.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns `proxyPort`. Default: 1080.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Returns `proxyUsername` and `proxyPassword`. Default: none.
    #[must_use]
    pub fn credentials(&self) -> Option<(&str, &Secret)> {
        self.credentials
            .as_ref()
            .map(|(name, word)| (name.as_str(), word))
    }
}

/// A version of the Stable API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServerApiVersion {
    /// Version `1`.
    V1,
}

impl ServerApiVersion {
    /// Returns the value that commands carry as `apiVersion`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::V1 => "1",
        }
    }
}

/// The Stable API version that each command declares. A field that is `None` is not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerApi {
    /// The declared version (`apiVersion`).
    pub version: ServerApiVersion,
    /// True if the server must refuse commands outside this version (`apiStrict`).
    pub strict: Option<bool>,
    /// True if the server must refuse deprecated commands (`apiDeprecationErrors`).
    pub deprecation_errors: Option<bool>,
}

impl ServerApi {
    /// Returns this version, with the server's defaults for the other fields.
    #[must_use]
    pub const fn new(version: ServerApiVersion) -> Self {
        Self {
            version,
            strict: None,
            deprecation_errors: None,
        }
    }
}
