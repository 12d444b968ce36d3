//! Options of connections, monitoring and server selection.

use super::{
    ClientOptions, Compressor, Duration, Error, MonitoringMode, ProxyOptions, ServerSelector,
    invalid, limit,
};

impl ClientOptions {
    /// Sets [`connect_timeout`](Self::connect_timeout); zero means none.
    pub fn set_connect_timeout(&mut self, timeout: impl Into<Option<Duration>>) -> &mut Self {
        self.connect_timeout = limit(timeout);
        self
    }

    /// Sets [`socket_timeout`](Self::socket_timeout); zero means none.
    pub fn set_socket_timeout(&mut self, timeout: impl Into<Option<Duration>>) -> &mut Self {
        self.socket_timeout = limit(timeout);
        self
    }

    /// Sets [`timeout`](Self::timeout); zero stays zero.
    pub fn set_timeout(&mut self, timeout: impl Into<Option<Duration>>) -> &mut Self {
        self.timeout = timeout.into();
        self
    }

    /// Sets [`monitoring_mode`](Self::monitoring_mode).
    pub fn set_monitoring_mode(&mut self, mode: MonitoringMode) -> &mut Self {
        self.monitoring_mode = mode;
        self
    }

    /// Sets [`local_threshold`](Self::local_threshold).
    pub fn set_local_threshold(&mut self, threshold: Duration) -> &mut Self {
        self.local_threshold = threshold;
        self
    }

    /// Sets [`server_selector`](Self::server_selector).
    pub fn set_server_selector(
        &mut self,
        selector: impl Into<Option<ServerSelector>>,
    ) -> &mut Self {
        self.server_selector = selector.into();
        self
    }

    /// Sets [`server_selection_timeout`](Self::server_selection_timeout).
    pub fn set_server_selection_timeout(&mut self, timeout: Duration) -> Result<&mut Self, Error> {
        if timeout.is_zero() {
            return Err(invalid(
                "serverSelectionTimeoutMS",
                "it must be greater than zero; the first check of a server takes time",
            ));
        }
        self.server_selection_timeout = timeout;
        Ok(self)
    }

    /// Sets [`compressors`](Self::compressors); a second mention of one is dropped.
    pub fn set_compressors(&mut self, compressors: Vec<Compressor>) -> &mut Self {
        self.compressors.clear();
        for compressor in compressors {
            if !self.compressors.contains(&compressor) {
                self.compressors.push(compressor);
            }
        }
        self
    }

    /// Sets [`zlib_compression_level`](Self::zlib_compression_level).
    pub fn set_zlib_compression_level(&mut self, level: i32) -> Result<&mut Self, Error> {
        if !(-1..=9).contains(&level) {
            return Err(invalid("zlibCompressionLevel", "levels go from -1 to 9"));
        }
        self.zlib_compression_level = level;
        Ok(self)
    }

    /// Sets [`proxy`](Self::proxy).
    pub fn set_proxy(&mut self, proxy: impl Into<Option<ProxyOptions>>) -> &mut Self {
        self.proxy = proxy.into();
        self
    }

    /// `connectTimeoutMS`: how long connecting a socket may take, TLS included; also each check of
    /// a monitor, and each command of a new connection's handshake that no other limit bounds.
    /// `None` (in connection strings 0) for no limit. Default: 10 s (CMAP-155).
    #[must_use]
    pub const fn connect_timeout(&self) -> Option<Duration> {
        self.connect_timeout
    }

    /// `socketTimeoutMS`: how long to wait for a send or a reply of an operation, or of a new
    /// connection's handshake. Superseded by [`timeout`](Self::timeout). `None` (in connection
    /// strings 0) for no limit. Default: none.
    #[must_use]
    pub const fn socket_timeout(&self) -> Option<Duration> {
        self.socket_timeout
    }

    /// `timeoutMS`: how long an operation may take in all, retries included. `Some(ZERO)` means
    /// without end, yet switches off the older time limits like any other value. Connections that
    /// are made in the background for `minPoolSize` have as much for each command of their
    /// handshake (CMAP-154). Default: `None`, which leaves the older limits in force.
    #[must_use]
    pub const fn timeout(&self) -> Option<Duration> {
        self.timeout
    }

    /// `serverMonitoringMode`. Default: [`MonitoringMode::Auto`].
    #[must_use]
    pub const fn monitoring_mode(&self) -> MonitoringMode {
        self.monitoring_mode
    }

    /// `localThresholdMS`: how much slower than the fastest server a server may be and still be
    /// chosen; 0 leaves only the fastest. Default: 15 ms.
    #[must_use]
    pub const fn local_threshold(&self) -> Duration {
        self.local_threshold
    }

    /// A choice of the application's own among the servers that suit an operation; not an option of
    /// connection strings. Default: none.
    #[must_use]
    pub const fn server_selector(&self) -> Option<&ServerSelector> {
        self.server_selector.as_ref()
    }

    /// `serverSelectionTimeoutMS`: how long an operation waits for a server that suits it; more
    /// than zero, which the setter refuses and a connection string only warns about (SEL-5).
    /// Default: 30 s.
    #[must_use]
    pub const fn server_selection_timeout(&self) -> Duration {
        self.server_selection_timeout
    }

    /// `compressors`: what may be used to compress messages, best first. Default: none.
    ///
    /// Without effect in this version, which negotiates no compression and sends all messages as
    /// they are; a client for which any is chosen has a [warning](crate::uri::without_effect).
    #[must_use]
    pub fn compressors(&self) -> &[Compressor] {
        &self.compressors
    }

    /// `zlibCompressionLevel`: from 0, not at all, to 9, best; -1 for zlib's own default. Default:
    /// -1. Without effect in this version, as [`compressors`](Self::compressors) are.
    #[must_use]
    pub const fn zlib_compression_level(&self) -> i32 {
        self.zlib_compression_level
    }

    /// `proxyHost`, `proxyPort`, `proxyUsername` and `proxyPassword`: the SOCKS5 proxy through
    /// which all connections go. Default: none.
    #[must_use]
    pub const fn proxy(&self) -> Option<&ProxyOptions> {
        self.proxy.as_ref()
    }
}
