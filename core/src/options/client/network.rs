//! Options of connections, compression, time limits and server selection.

use super::{
    ClientOptions, Compressor, Duration, Error, MonitoringMode, ProxyOptions, ServerSelector,
    nonzero,
};

impl ClientOptions {
    /// Sets [`connect_timeout`](Self::connect_timeout). Zero means no limit.
    pub fn set_connect_timeout(&mut self, timeout: impl Into<Option<Duration>>) -> &mut Self {
        self.connect_timeout = nonzero(timeout);
        self
    }

    /// Sets [`socket_timeout`](Self::socket_timeout). Zero means no limit.
    pub fn set_socket_timeout(&mut self, timeout: impl Into<Option<Duration>>) -> &mut Self {
        self.socket_timeout = nonzero(timeout);
        self
    }

    /// Sets [`timeout`](Self::timeout). Zero differs from `None`: operations then have no time
    /// limit, and `socketTimeoutMS` and `waitQueueTimeoutMS` do not apply either.
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

    /// Sets [`server_selection_timeout`](Self::server_selection_timeout). Fails with zero.
    pub fn set_server_selection_timeout(&mut self, timeout: Duration) -> Result<&mut Self, Error> {
        if timeout.is_zero() {
            return Err(Error::invalid_option(
                "serverSelectionTimeoutMS",
                "it must be greater than zero",
            ));
        }
        self.server_selection_timeout = timeout;
        Ok(self)
    }

    /// Sets [`compressors`](Self::compressors). A compressor that occurs again is ignored.
    pub fn set_compressors(&mut self, compressors: Vec<Compressor>) -> &mut Self {
        self.compressors.clear();
        for compressor in compressors {
            if !self.compressors.contains(&compressor) {
                self.compressors.push(compressor);
            }
        }
        self
    }

    /// Sets [`zlib_compression_level`](Self::zlib_compression_level). Fails outside of -1 to 9.
    pub fn set_zlib_compression_level(&mut self, level: i32) -> Result<&mut Self, Error> {
        if !(-1..=9).contains(&level) {
            return Err(Error::invalid_option(
                "zlibCompressionLevel",
                "it must be from -1 to 9",
            ));
        }
        self.zlib_compression_level = level;
        Ok(self)
    }

    /// Sets [`proxy`](Self::proxy).
    pub fn set_proxy(&mut self, proxy: impl Into<Option<ProxyOptions>>) -> &mut Self {
        self.proxy = proxy.into();
        self
    }

    /// Returns `connectTimeoutMS`, the time limit for connecting a socket, the conversation with a
    /// proxy and TLS included. The same limit applies to each check of a monitor, and to each
    /// command of a connection's handshake that has no other limit. For an awaitable check,
    /// `heartbeatFrequencyMS` is added. If OCSP responders are asked, connecting can take longer by
    /// their time, which is at most half of the limit. `None` (0 in connection strings) means no
    /// limit. Default: 10 s ([CMAP-155]).
    ///
    /// [CMAP-155]: crate::requirements::pool#CMAP-155
    #[must_use]
    pub const fn connect_timeout(&self) -> Option<Duration> {
        self.connect_timeout
    }

    /// Returns `socketTimeoutMS`, the time limit for each command of an operation or of a
    /// connection's handshake, from sending the request to receiving the reply. The time limit of
    /// an operation ([`timeout`](Self::timeout) or that of the call) replaces this limit. `None` (0
    /// in connection strings) means no limit. Default: none.
    #[must_use]
    pub const fn socket_timeout(&self) -> Option<Duration> {
        self.socket_timeout
    }

    /// Returns `timeoutMS`, the time limit for a whole operation, retries included. `Some(ZERO)`
    /// means no limit. With any value, `socketTimeoutMS` and `waitQueueTimeoutMS` do not apply. A
    /// connection that is made in the background for `minPoolSize` has this limit for each command
    /// of its handshake ([CMAP-154]). Default: `None`, with which `socketTimeoutMS` and
    /// `waitQueueTimeoutMS` apply.
    ///
    /// [CMAP-154]: crate::requirements::pool#CMAP-154
    #[must_use]
    pub const fn timeout(&self) -> Option<Duration> {
        self.timeout
    }

    /// Returns `serverMonitoringMode`. Default: [`MonitoringMode::Auto`].
    #[must_use]
    pub const fn monitoring_mode(&self) -> MonitoringMode {
        self.monitoring_mode
    }

    /// Returns `localThresholdMS`, the width of the latency window. A server is selected only if
    /// its round trip time exceeds the shortest one by at most this width. With zero only the
    /// fastest server is selected. Default: 15 ms.
    #[must_use]
    pub const fn local_threshold(&self) -> Duration {
        self.local_threshold
    }

    /// Returns the application's callback for server selection, which connection strings cannot
    /// set. Default: none.
    #[must_use]
    pub const fn server_selector(&self) -> Option<&ServerSelector> {
        self.server_selector.as_ref()
    }

    /// Returns `serverSelectionTimeoutMS`, the time limit for the selection of a server. The limit
    /// is greater than zero: the setter refuses zero, and a connection string with zero gets a
    /// warning ([SEL-5]). Default: 30 s.
    ///
    /// [SEL-5]: crate::requirements::server_selection#SEL-5
    #[must_use]
    pub const fn server_selection_timeout(&self) -> Duration {
        self.server_selection_timeout
    }

    /// Returns `compressors`, the compressors to negotiate, in order of preference. Default: none.
    ///
    /// Each connection uses the first of them that the server also has. A compressor that is not
    /// [available](Compressor::is_available) is not announced, and causes a
    /// [warning](crate::uri::ineffective_options).
    #[must_use]
    pub fn compressors(&self) -> &[Compressor] {
        &self.compressors
    }

    /// Returns `zlibCompressionLevel`: 0 for no compression, 9 for the best, -1 for the default of
    /// zlib. Default: -1. Has no effect on other compressors.
    #[must_use]
    pub const fn zlib_compression_level(&self) -> i32 {
        self.zlib_compression_level
    }

    /// Returns the SOCKS5 proxy of the connections (`proxyHost`, `proxyPort`, `proxyUsername` and
    /// `proxyPassword`). All connections by TCP to servers go through the proxy, those of monitors
    /// included ([SOCKS-11], [SOCKS-16]). The proxy resolves the names of the servers ([SOCKS-14]).
    /// These do not go through the proxy: DNS queries for `mongodb+srv` ([SOCKS-21]), connections
    /// to Unix domain sockets, requests for credentials to other services, for example by
    /// MONGODB-AWS, and requests to OCSP responders. Default: none.
    ///
    /// [SOCKS-11]: crate::requirements::proxies#SOCKS-11
    /// [SOCKS-14]: crate::requirements::proxies#SOCKS-14
    /// [SOCKS-16]: crate::requirements::proxies#SOCKS-16
    /// [SOCKS-21]: crate::requirements::proxies#SOCKS-21
    #[must_use]
    pub const fn proxy(&self) -> Option<&ProxyOptions> {
        self.proxy.as_ref()
    }
}
