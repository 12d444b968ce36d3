//! Small option types: monitoring, compressors and the Stable API.

use super::parsed;
use serde::{Deserialize, Serialize};
use std::fmt;

/// How a client checks its servers. The two values are the two kinds of client in the
/// specifications.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Monitoring {
    /// Multi-threaded or asynchronous: each server has a monitor, which checks the server in the
    /// background. A load balancer has none.
    #[default]
    Background,
    /// Single-threaded: the client checks servers only as a part of operations, one server after
    /// the other. One pass over all servers is called a scan ([MON-24]).
    ///
    /// [MON-24]: crate::requirements::monitoring#MON-24
    Scanning,
}

/// How monitors learn of changes of their servers (`serverMonitoringMode`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ServerMonitoringMode {
    /// Polls in function-as-a-service environments, and streams elsewhere.
    #[default]
    #[serde(alias = "auto")]
    Auto,
    /// Streams: the server replies to a check when its state changes, or after
    /// `heartbeatFrequencyMS`. A server that does not support this is polled.
    #[serde(alias = "stream")]
    Stream,
    /// Polls: the monitor sends a check at the latest `heartbeatFrequencyMS` after the end of the
    /// last one.
    #[serde(alias = "poll")]
    Poll,
}

impl ServerMonitoringMode {
    /// All modes, in the order of their declaration.
    pub const ALL: [Self; 3] = [Self::Auto, Self::Stream, Self::Poll];

    /// Returns the name of the mode in connection strings.
    ///
    /// ```
    /// use onionskin_core::options::ServerMonitoringMode;
    ///
    /// assert_eq!(ServerMonitoringMode::Poll.name(), "poll");
    /// ```
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Stream => "stream",
            Self::Poll => "poll",
        }
    }

    /// Returns the mode with this name; letter case counts.
    ///
    /// ```
    /// use onionskin_core::options::ServerMonitoringMode;
    ///
    /// let mode = ServerMonitoringMode::from_name("poll");
    /// assert_eq!(mode, Some(ServerMonitoringMode::Poll));
    /// ```
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.name() == name)
    }
}

/// A compression algorithm for messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
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
    ///
    /// ```
    /// use onionskin_core::options::Compressor;
    ///
    /// let names = Compressor::ALL.map(Compressor::name).join(",");
    /// assert_eq!(format!("compressors={names}"), "compressors=snappy,zlib,zstd");
    /// ```
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Snappy => "snappy",
            Self::Zlib => "zlib",
            Self::Zstd => "zstd",
        }
    }

    /// Returns the number of the compressor. Compressed messages contain this number ([COMP-15]).
    ///
    /// ```
    /// use onionskin_core::options::Compressor;
    ///
    /// assert_eq!(Compressor::ALL.map(Compressor::id), [1, 2, 3]);
    /// ```
    ///
    /// [COMP-15]: crate::requirements::compression#COMP-15
    #[must_use]
    pub const fn id(self) -> u8 {
        match self {
            Self::Snappy => 1,
            Self::Zlib => 2,
            Self::Zstd => 3,
        }
    }

    /// True if the driver was compiled with the Cargo feature of this compressor, which has its
    /// name. A client does not announce other compressors ([COMP-23]).
    ///
    /// ```
    /// use onionskin_core::options::Compressor;
    ///
    /// let mut compressors = Compressor::ALL.to_vec();
    /// compressors.retain(|compressor| compressor.is_available());
    /// ```
    ///
    /// [COMP-23]: crate::requirements::compression#COMP-23
    #[must_use]
    pub const fn is_available(self) -> bool {
        match self {
            Self::Snappy => cfg!(feature = "snappy"),
            Self::Zlib => cfg!(feature = "zlib"),
            Self::Zstd => cfg!(feature = "zstd"),
        }
    }

    /// Returns the compressor with this name; letter case counts.
    ///
    /// ```
    /// use onionskin_core::options::Compressor;
    ///
    /// assert_eq!(Compressor::from_name("zstd"), Some(Compressor::Zstd));
    /// assert_eq!(Compressor::from_name("lzma"), None);
    /// ```
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|c| c.name() == name)
    }
}

parsed!(Compressor);

/// A version of the Stable API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum ServerApiVersion {
    /// Version `1`.
    #[serde(rename = "1")]
    V1,
}

impl ServerApiVersion {
    /// All versions, in the order of their declaration.
    pub const ALL: [Self; 1] = [Self::V1];

    /// Returns the value that commands carry as `apiVersion`.
    ///
    /// ```
    /// use onionskin_core::options::ServerApiVersion;
    ///
    /// assert_eq!(ServerApiVersion::V1.name(), "1");
    /// ```
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::V1 => "1",
        }
    }

    /// Returns the version with this name.
    ///
    /// ```
    /// use onionskin_core::options::ServerApiVersion;
    ///
    /// assert_eq!(ServerApiVersion::from_name("1"), Some(ServerApiVersion::V1));
    /// ```
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|v| v.name() == name)
    }
}

parsed!(ServerApiVersion);

impl fmt::Display for ServerApiVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The Stable API version that each command declares. A field that is `None` is not sent.
///
/// ```
/// use onionskin_core::options::{ClientOptions, ServerApi};
///
/// let api = ServerApi::builder().strict(true).deprecation_errors(true).build();
/// let options = ClientOptions::builder().server_api(api).build();
/// assert_eq!(options.server_api, Some(api));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct ServerApi {
    /// The declared version (`apiVersion`).
    #[serde(rename = "apiVersion")]
    pub version: ServerApiVersion,
    /// True if the server must refuse commands outside this version (`apiStrict`).
    #[serde(rename = "apiStrict", skip_serializing_if = "Option::is_none")]
    pub strict: Option<bool>,
    /// True if the server must refuse deprecated commands (`apiDeprecationErrors`).
    #[serde(
        rename = "apiDeprecationErrors",
        skip_serializing_if = "Option::is_none"
    )]
    pub deprecation_errors: Option<bool>,
}

/// A builder of [`ServerApi`].
#[derive(Clone, Copy, Debug)]
#[must_use = "a builder does nothing before `build`"]
pub struct ServerApiBuilder(ServerApi);

impl ServerApiBuilder {
    /// Sets the declared version. Default: version 1.
    ///
    /// ```
    /// use onionskin_core::options::{ServerApi, ServerApiVersion};
    ///
    /// let api = ServerApi::builder().version(ServerApiVersion::V1).build();
    /// assert_eq!(api, ServerApi::new(ServerApiVersion::V1));
    /// ```
    pub const fn version(mut self, version: ServerApiVersion) -> Self {
        self.0.version = version;
        self
    }

    /// Sets whether the server must refuse commands outside the version. Default: the server's.
    ///
    /// ```
    /// use onionskin_core::options::ServerApi;
    ///
    /// let api = ServerApi::builder().strict(true).build();
    /// assert_eq!(api.strict, Some(true));
    /// ```
    pub fn strict(mut self, strict: impl Into<Option<bool>>) -> Self {
        self.0.strict = strict.into();
        self
    }

    /// Sets whether the server must refuse deprecated commands. Default: the server's.
    ///
    /// ```
    /// use onionskin_core::options::ServerApi;
    ///
    /// // For tests, which find uses of deprecated commands in this way.
    /// let api = ServerApi::builder().deprecation_errors(true).build();
    /// assert_eq!(api.deprecation_errors, Some(true));
    /// ```
    pub fn deprecation_errors(mut self, errors: impl Into<Option<bool>>) -> Self {
        self.0.deprecation_errors = errors.into();
        self
    }

    /// Returns the declaration.
    ///
    /// ```
    /// use onionskin_core::options::{ClientOptions, ServerApi};
    ///
    /// let api = ServerApi::builder().build();
    /// let options = ClientOptions::builder().server_api(api).build();
    /// assert_eq!(options.server_api, Some(api));
    /// ```
    #[must_use]
    pub const fn build(self) -> ServerApi {
        self.0
    }
}

impl ServerApi {
    /// Returns a builder, for version 1 and with the server's defaults for the other fields.
    ///
    /// ```
    /// use onionskin_core::options::{ServerApi, ServerApiVersion};
    ///
    /// let api = ServerApi::builder().strict(true).build();
    /// assert_eq!(api.version, ServerApiVersion::V1);
    /// ```
    pub const fn builder() -> ServerApiBuilder {
        ServerApiBuilder(Self::new(ServerApiVersion::V1))
    }

    /// Returns this version, with the server's defaults for the other fields.
    ///
    /// ```
    /// use onionskin_core::options::{ServerApi, ServerApiVersion};
    ///
    /// let api = ServerApi::new(ServerApiVersion::V1);
    /// assert_eq!(api.strict, None);
    /// ```
    #[must_use]
    pub const fn new(version: ServerApiVersion) -> Self {
        Self {
            version,
            strict: None,
            deprecation_errors: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::AuthMechanism;

    #[test]
    fn values_are_parsed_from_their_names() {
        for compressor in Compressor::ALL {
            assert_eq!(compressor.name().parse(), Ok(compressor));
        }
        for mechanism in AuthMechanism::ALL {
            assert_eq!(mechanism.to_string().parse(), Ok(mechanism));
        }
        let version = ServerApiVersion::V1;
        assert_eq!(version.to_string().parse(), Ok(version));
        let error = "lzma".parse::<Compressor>().expect_err("unknown");
        let message = "\"lzma\" is no value of Compressor: snappy, zlib, zstd";
        assert!(error.to_string().contains(message), "{error}");
    }
}
