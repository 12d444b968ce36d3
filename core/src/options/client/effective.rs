//! The values that apply: those of the options that are set, and the defaults of the others.

use super::{
    ClientOptions, DEFAULT_CONNECT_TIMEOUT, DEFAULT_HEARTBEAT_FREQUENCY, DEFAULT_LOCAL_THRESHOLD,
    DEFAULT_MAX_ADAPTIVE_RETRIES, DEFAULT_MAX_CONNECTING, DEFAULT_MAX_POOL_SIZE,
    DEFAULT_SCAN_FREQUENCY, DEFAULT_SERVER_SELECTION_TIMEOUT, DEFAULT_SRV_SERVICE_NAME, Duration,
};
use crate::{
    address::{Address, DEFAULT_PORT},
    event::ReportedPoolOptions,
    options::{Compressor, Monitoring, ReadPreference, ServerMonitoringMode, TlsOptions},
};

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
    #[must_use]
    pub fn connect_timeout(&self) -> Option<Duration> {
        let limit = self.connect_timeout.unwrap_or(DEFAULT_CONNECT_TIMEOUT);
        Some(limit).filter(|limit| !limit.is_zero())
    }

    /// Returns the field `heartbeat_freq`, or its default.
    #[must_use]
    pub fn heartbeat_freq(&self) -> Duration {
        self.heartbeat_freq.unwrap_or(match self.monitoring {
            Monitoring::Background => DEFAULT_HEARTBEAT_FREQUENCY,
            Monitoring::Scanning => DEFAULT_SCAN_FREQUENCY,
        })
    }

    /// Returns the seeds: the field `hosts`, or its default. Empty while a `mongodb+srv` host is
    /// not resolved.
    #[must_use]
    pub fn hosts(&self) -> Vec<Address> {
        match self.hosts.is_empty() && self.srv_host.is_none() {
            true => vec![Address::tcp("localhost", DEFAULT_PORT)],
            false => self.hosts.iter().map(Address::from).collect(),
        }
    }

    /// Returns the field `srv_service_name`, or its default.
    #[must_use]
    pub fn srv_service_name(&self) -> &str {
        let name = self.srv_service_name.as_deref();
        name.unwrap_or(DEFAULT_SRV_SERVICE_NAME)
    }

    /// Returns the read preference of the field `selection_criteria`, or its default.
    #[must_use]
    pub fn read_preference(&self) -> &ReadPreference {
        static PRIMARY: ReadPreference = ReadPreference::Primary;
        match &self.selection_criteria {
            Some(criteria) => criteria.read_preference(),
            None => &PRIMARY,
        }
    }

    /// Returns the field `compressors` without those that occur again.
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
    #[must_use]
    pub fn tls(&self) -> Option<&TlsOptions> {
        self.tls.as_ref().and_then(super::Tls::options)
    }

    /// Returns the pool options that differ from their defaults. The event of a pool's creation
    /// reports them ([CMAP-113]).
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
