//! The values that apply: those of the options that are set, and the defaults of the others. Also
//! the limits of the values.

use super::{ClientOptions, Duration};
use crate::{
    address::{Address, DEFAULT_PORT},
    event::ReportedPoolOptions,
    options::{Compressor, Monitoring, ReadPreference, ServerMonitoringMode, TlsOptions},
};

/// The default of [`ClientOptions::heartbeat_freq`] with monitors in the background. The time is 10
/// seconds ([SDAM-31]).
///
/// [SDAM-31]: crate::requirements::discovery#SDAM-31
pub const DEFAULT_HEARTBEAT_FREQUENCY: Duration = Duration::from_secs(10);

/// The default of [`ClientOptions::heartbeat_freq`] for a client that checks servers on demand, by
/// scans. The time is 60 seconds ([SDAM-31]).
///
/// [SDAM-31]: crate::requirements::discovery#SDAM-31
pub const DEFAULT_SCAN_FREQUENCY: Duration = Duration::from_secs(60);

/// The shortest time between two checks of a server, and the smallest
/// [`ClientOptions::heartbeat_freq`]. This is the constant `minHeartbeatFrequencyMS` of the
/// specification ([SDAM-9]).
///
/// [SDAM-9]: crate::requirements::discovery#SDAM-9
pub const MIN_HEARTBEAT_FREQUENCY: Duration = Duration::from_millis(500);

/// The default of [`ClientOptions::local_threshold`]. The latency window is 15 milliseconds wide
/// ([SEL-3]).
///
/// [SEL-3]: crate::requirements::server_selection#SEL-3
pub const DEFAULT_LOCAL_THRESHOLD: Duration = Duration::from_millis(15);

/// The default of [`ClientOptions::server_selection_timeout`]: 30 seconds.
pub const DEFAULT_SERVER_SELECTION_TIMEOUT: Duration = Duration::from_secs(30);

/// The default of [`ClientOptions::connect_timeout`]: 10 seconds.
pub const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The default of [`ClientOptions::max_pool_size`]. A pool has at most 100 connections ([CMAP-8]).
///
/// [CMAP-8]: crate::requirements::pool#CMAP-8
pub const DEFAULT_MAX_POOL_SIZE: u32 = 100;

/// The default of [`ClientOptions::max_connecting`]. A pool establishes at most 2 connections at
/// once ([CMAP-11]).
///
/// [CMAP-11]: crate::requirements::pool#CMAP-11
pub const DEFAULT_MAX_CONNECTING: u32 = 2;

/// The default of [`ClientOptions::max_adaptive_retries`]: 2 retries.
pub const DEFAULT_MAX_ADAPTIVE_RETRIES: u32 = 2;

/// The default of [`ClientOptions::srv_service_name`]: `mongodb`.
pub const DEFAULT_SRV_SERVICE_NAME: &str = "mongodb";

/// The maximum length of [`ClientOptions::app_name`]. The length is in bytes of UTF-8 ([HELLO-33]).
///
/// [HELLO-33]: crate::requirements::handshake#HELLO-33
pub const MAX_APP_NAME_BYTES: usize = 128;

/// The maximum length of [`ClientOptions::srv_service_name`], in bytes. The SRV query puts an
/// underscore in front, and a DNS label has at most 63 bytes ([DNS-7]).
///
/// [DNS-7]: crate::requirements::seed_lists#DNS-7
pub const MAX_SRV_SERVICE_NAME_BYTES: usize = 62;

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            hosts: Vec::new(),
            monitoring: Monitoring::Background,
            strict: false,
            srv_ttl: None,
            unused_try_once: None,
            unused_tls: None,
            kerberos: None,
            warnings: Vec::new(),
            app_name: None,
            cmap_event_handler: None,
            command_event_handler: None,
            compressors: None,
            connect_timeout: None,
            credential: None,
            default_database: None,
            direct_connection: None,
            driver_info: None,
            enable_overload_retargeting: None,
            heartbeat_freq: None,
            load_balanced: None,
            local_threshold: None,
            max_adaptive_retries: None,
            max_connecting: None,
            max_idle_time: None,
            max_pool_size: None,
            min_pool_size: None,
            read_concern: None,
            repl_set_name: None,
            retry_reads: None,
            retry_writes: None,
            sdam_event_handler: None,
            selection_criteria: None,
            server_api: None,
            server_monitoring_mode: None,
            server_selection_timeout: None,
            server_selection_try_once: None,
            server_selector: None,
            socket_timeout: None,
            socks5_proxy: None,
            srv_allowed_hosts_suffix: None,
            srv_host: None,
            srv_max_hosts: None,
            srv_service_name: None,
            timeout: None,
            tls: None,
            tracing_max_document_length_bytes: None,
            wait_queue_timeout: None,
            write_concern: None,
            zlib_compression_level: None,
        }
    }
}

/// Declares the methods of the options that have a default other than `None`.
macro_rules! defaults {
    ($($field:ident: $type:ty = $default:expr,)*) => {$(
        #[doc = concat!("Returns the field `", stringify!($field), "`, or its default.")]
        #[must_use]
        pub fn $field(&self) -> $type {
            self.$field.unwrap_or($default)
        }
    )*};
}

/// Declares the methods of time limits, for which zero and `None` mean no limit.
macro_rules! limits {
    ($($field:ident,)*) => {$(
        #[doc = concat!("Returns the field `", stringify!($field), "`; `None` is no limit.")]
        #[must_use]
        pub fn $field(&self) -> Option<Duration> {
            self.$field.filter(|limit| !limit.is_zero())
        }
    )*};
}

impl ClientOptions {
    defaults! {
        enable_overload_retargeting: bool = false,
        load_balanced: bool = false,
        local_threshold: Duration = DEFAULT_LOCAL_THRESHOLD,
        max_adaptive_retries: u32 = DEFAULT_MAX_ADAPTIVE_RETRIES,
        max_connecting: u32 = DEFAULT_MAX_CONNECTING,
        max_pool_size: u32 = DEFAULT_MAX_POOL_SIZE,
        min_pool_size: u32 = 0,
        retry_reads: bool = true,
        retry_writes: bool = true,
        server_monitoring_mode: ServerMonitoringMode = ServerMonitoringMode::Auto,
        server_selection_timeout: Duration = DEFAULT_SERVER_SELECTION_TIMEOUT,
        server_selection_try_once: bool = true,
        srv_max_hosts: u32 = 0,
        zlib_compression_level: i32 = -1,
    }

    limits! {
        max_idle_time,
        socket_timeout,
        wait_queue_timeout,
    }

    /// Returns the field `connect_timeout`, or its default; `None` is no limit.
    ///
    /// ```
    /// use onionskin_core::options::ClientOptions;
    /// use std::time::Duration;
    ///
    /// let options: ClientOptions = "mongodb://localhost/?connectTimeoutMS=0".parse()?;
    /// assert_eq!(options.connect_timeout(), None);
    /// assert_eq!(ClientOptions::default().connect_timeout(), Some(Duration::from_secs(10)));
    /// # Ok::<(), onionskin_core::error::Error>(())
    /// ```
    #[must_use]
    pub fn connect_timeout(&self) -> Option<Duration> {
        let limit = self.connect_timeout.unwrap_or(DEFAULT_CONNECT_TIMEOUT);
        Some(limit).filter(|limit| !limit.is_zero())
    }

    /// Returns the field `heartbeat_freq`, or its default.
    ///
    /// ```
    /// use onionskin_core::options::ClientOptions;
    /// use std::time::Duration;
    ///
    /// assert_eq!(ClientOptions::default().heartbeat_freq(), Duration::from_secs(10));
    /// ```
    #[must_use]
    pub fn heartbeat_freq(&self) -> Duration {
        self.heartbeat_freq.unwrap_or(match self.monitoring {
            Monitoring::Background => DEFAULT_HEARTBEAT_FREQUENCY,
            Monitoring::Scanning => DEFAULT_SCAN_FREQUENCY,
        })
    }

    /// Returns the seeds: the field `hosts`, or its default. Empty while a `mongodb+srv` host is
    /// not resolved.
    ///
    /// ```
    /// use onionskin_core::{address::Address, options::ClientOptions};
    ///
    /// assert_eq!(ClientOptions::default().hosts(), [Address::tcp("localhost", 27017)]);
    /// ```
    #[must_use]
    pub fn hosts(&self) -> Vec<Address> {
        match self.hosts.is_empty() && self.srv_host.is_none() {
            true => vec![Address::tcp("localhost", DEFAULT_PORT)],
            false => self.hosts.iter().map(Address::from).collect(),
        }
    }

    /// Returns the field `srv_service_name`, or its default.
    ///
    /// ```
    /// use onionskin_core::options::ClientOptions;
    ///
    /// assert_eq!(ClientOptions::default().srv_service_name(), "mongodb");
    /// ```
    #[must_use]
    pub fn srv_service_name(&self) -> &str {
        let name = self.srv_service_name.as_deref();
        name.unwrap_or(DEFAULT_SRV_SERVICE_NAME)
    }

    /// Returns the read preference of the field `selection_criteria`, or its default.
    ///
    /// ```
    /// use onionskin_core::options::{ClientOptions, ReadMode};
    ///
    /// let options: ClientOptions = "mongodb://localhost/?readPreference=nearest".parse()?;
    /// assert_eq!(options.read_preference().mode(), ReadMode::Nearest);
    /// # Ok::<(), onionskin_core::error::Error>(())
    /// ```
    #[must_use]
    pub fn read_preference(&self) -> &ReadPreference {
        static PRIMARY: ReadPreference = ReadPreference::Primary;
        match &self.selection_criteria {
            Some(criteria) => criteria.read_preference(),
            None => &PRIMARY,
        }
    }

    /// Returns the field `compressors` without those that occur again.
    ///
    /// ```
    /// use onionskin_core::options::{ClientOptions, Compressor};
    ///
    /// let mut options = ClientOptions::default();
    /// options.compressors = Some(vec![Compressor::Zstd, Compressor::Snappy, Compressor::Zstd]);
    /// assert_eq!(options.compressors(), [Compressor::Zstd, Compressor::Snappy]);
    /// ```
    #[must_use]
    pub fn compressors(&self) -> Vec<Compressor> {
        let mut compressors = Vec::new();
        for compressor in self.compressors.iter().flatten() {
            if !compressors.contains(compressor) {
                compressors.push(*compressor);
            }
        }
        compressors
    }

    /// Returns the options of TLS; `None` if connections do not use TLS.
    ///
    /// ```
    /// use onionskin_core::options::{ClientOptions, Tls};
    ///
    /// let mut options: ClientOptions = "mongodb://localhost/?tls=true".parse()?;
    /// assert!(options.tls().is_some());
    /// options.tls = Some(Tls::Disabled);
    /// assert!(options.tls().is_none());
    /// # Ok::<(), onionskin_core::error::Error>(())
    /// ```
    #[must_use]
    pub fn tls(&self) -> Option<&TlsOptions> {
        self.tls.as_ref().and_then(super::Tls::options)
    }

    /// Returns the pool options that differ from their defaults. The event of a pool's creation
    /// reports them ([CMAP-113]).
    ///
    /// ```
    /// use onionskin_core::options::ClientOptions;
    ///
    /// let options = ClientOptions::builder().max_pool_size(100).min_pool_size(5).build();
    /// let reported = options.reported_pool_options();
    /// assert_eq!((reported.max_pool_size, reported.min_pool_size), (None, Some(5)));
    /// ```
    ///
    /// [CMAP-113]: crate::requirements::pool#CMAP-113
    #[must_use]
    pub fn reported_pool_options(&self) -> ReportedPoolOptions {
        let unless = |value: u32, default: u32| (value != default).then_some(value);
        ReportedPoolOptions {
            max_pool_size: unless(self.max_pool_size(), DEFAULT_MAX_POOL_SIZE),
            min_pool_size: unless(self.min_pool_size(), 0),
            max_idle_time: self.max_idle_time(),
            max_connecting: unless(self.max_connecting(), DEFAULT_MAX_CONNECTING),
            wait_queue_timeout: self.wait_queue_timeout(),
        }
    }
}
