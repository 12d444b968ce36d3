//! The options of a client: their storage, defaults and limits.

mod deployment;
mod monitoring;
mod network;
mod operation;
mod pool;
mod validate;

#[cfg(test)]
mod tests;

use super::{
    Compressor, Credential, KerberosLibrary, Monitoring, MonitoringMode, ProxyOptions, ReadConcern,
    ReadPreference, ServerApi, ServerSelector, TlsOptions, Warning, WriteConcern,
};
use crate::{
    address::{Address, DEFAULT_PORT},
    error::Error,
};
use std::time::Duration;

/// The default of [`ClientOptions::heartbeat_frequency`] with monitors in the background: 10
/// seconds ([SDAM-31]).
///
/// [SDAM-31]: crate::requirements::discovery#SDAM-31
pub const DEFAULT_HEARTBEAT_FREQUENCY: Duration = Duration::from_secs(10);
/// The default of [`ClientOptions::heartbeat_frequency`] for a client that checks servers on
/// demand, by scans: 60 seconds ([SDAM-31]).
///
/// [SDAM-31]: crate::requirements::discovery#SDAM-31
pub const DEFAULT_SCAN_FREQUENCY: Duration = Duration::from_secs(60);
/// The shortest time between two checks of a server, and the smallest
/// [`ClientOptions::heartbeat_frequency`]. This is the constant `minHeartbeatFrequencyMS` of the
/// specification ([SDAM-9]).
///
/// [SDAM-9]: crate::requirements::discovery#SDAM-9
pub const MIN_HEARTBEAT_FREQUENCY: Duration = Duration::from_millis(500);
/// The default of [`ClientOptions::local_threshold`]: 15 milliseconds ([SEL-3]).
///
/// [SEL-3]: crate::requirements::server_selection#SEL-3
pub const DEFAULT_LOCAL_THRESHOLD: Duration = Duration::from_millis(15);
/// The default of [`ClientOptions::server_selection_timeout`]: 30 seconds.
pub const DEFAULT_SERVER_SELECTION_TIMEOUT: Duration = Duration::from_secs(30);
/// The default of [`ClientOptions::connect_timeout`]: 10 seconds.
pub const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The default of [`ClientOptions::max_pool_size`]: 100 connections ([CMAP-8]).
///
/// [CMAP-8]: crate::requirements::pool#CMAP-8
pub const DEFAULT_MAX_POOL_SIZE: u32 = 100;
/// The default of [`ClientOptions::max_connecting`]: 2 connections ([CMAP-11]).
///
/// [CMAP-11]: crate::requirements::pool#CMAP-11
pub const DEFAULT_MAX_CONNECTING: u32 = 2;
/// The default of [`ClientOptions::max_adaptive_retries`]: 2 retries.
pub const DEFAULT_MAX_ADAPTIVE_RETRIES: u32 = 2;
/// The default of [`ClientOptions::srv_service_name`]: `mongodb`.
pub const DEFAULT_SRV_SERVICE_NAME: &str = "mongodb";
/// The maximum length of [`ClientOptions::app_name`], in bytes of UTF-8 ([HELLO-33]).
///
/// [HELLO-33]: crate::requirements::handshake#HELLO-33
pub const MAX_APP_NAME_BYTES: usize = 128;
/// The maximum length of [`ClientOptions::srv_service_name`], in bytes. The SRV query puts an
/// underscore in front, and a DNS label has at most 63 bytes ([DNS-7]).
///
/// [DNS-7]: crate::requirements::seed_lists#DNS-7
pub const MAX_SRV_SERVICE_NAME_BYTES: usize = 62;

/// The options of a client. The default is a client of `localhost:27017` without TLS and
/// authentication.
///
/// A setter checks its value at once. [`validate`](Self::validate) checks the rules that involve
/// several options, and runs when a client is created. [`parse`](Self::parse) reads options from a
/// connection string; a setter that is called afterwards overrides the string ([CS-38]).
///
/// ```
/// use onionskin_core::options::ClientOptions;
/// use std::time::Duration;
///
/// let mut options = ClientOptions::default();
/// options
///     .set_hosts(vec!["db1.example.net".parse()?, "db2.example.net".parse()?])
///     .set_replica_set("rs0")?
///     .set_heartbeat_frequency(Duration::from_secs(5))?;
/// assert!(options.set_heartbeat_frequency(Duration::from_millis(1)).is_err());
/// assert_eq!(options.heartbeat_frequency(), Duration::from_secs(5));
///
/// options.set_direct_connection(true);
/// assert!(options.validate().is_err(), "a direct connection goes to one host");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// [CS-38]: crate::requirements::connection_strings#CS-38
#[derive(Clone, Debug, PartialEq)]
pub struct ClientOptions {
    hosts: Vec<Address>,
    srv_host: Option<String>,
    srv_service_name: String,
    srv_max_hosts: u32,
    /// The time to live of the SRV records that gave the hosts, if the hosts were looked up.
    srv_ttl: Option<Duration>,
    app_name: Option<String>,
    credential: Option<Credential>,
    kerberos: Option<KerberosLibrary>,
    /// True if the source of `credential` is a default, which a TXT record may replace.
    auth_source_is_default: bool,
    default_database: Option<String>,
    tls: TlsOptions,
    replica_set: Option<String>,
    direct_connection: Option<bool>,
    load_balanced: Option<bool>,
    monitoring: Monitoring,
    server_selection_try_once: Option<bool>,
    heartbeat_frequency: Option<Duration>,
    monitoring_mode: MonitoringMode,
    local_threshold: Duration,
    server_selector: Option<ServerSelector>,
    server_selection_timeout: Duration,
    connect_timeout: Option<Duration>,
    socket_timeout: Option<Duration>,
    timeout: Option<Duration>,
    wait_queue_timeout: Option<Duration>,
    max_pool_size: u32,
    min_pool_size: u32,
    max_idle_time: Option<Duration>,
    max_connecting: u32,
    read_preference: ReadPreference,
    read_concern: Option<ReadConcern>,
    write_concern: Option<WriteConcern>,
    retry_reads: bool,
    retry_writes: bool,
    compressors: Vec<Compressor>,
    zlib_compression_level: i32,
    proxy: Option<ProxyOptions>,
    server_api: Option<ServerApi>,
    max_adaptive_retries: u32,
    enable_overload_retargeting: bool,
    strict: bool,
    warnings: Vec<Warning>,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            hosts: vec![Address::tcp("localhost", DEFAULT_PORT)],
            srv_host: None,
            srv_service_name: DEFAULT_SRV_SERVICE_NAME.to_owned(),
            srv_max_hosts: 0,
            srv_ttl: None,
            app_name: None,
            credential: None,
            kerberos: None,
            auth_source_is_default: false,
            default_database: None,
            tls: TlsOptions::default(),
            replica_set: None,
            direct_connection: None,
            load_balanced: None,
            monitoring: Monitoring::Background,
            server_selection_try_once: None,
            heartbeat_frequency: None,
            monitoring_mode: MonitoringMode::Auto,
            local_threshold: DEFAULT_LOCAL_THRESHOLD,
            server_selector: None,
            server_selection_timeout: DEFAULT_SERVER_SELECTION_TIMEOUT,
            connect_timeout: Some(DEFAULT_CONNECT_TIMEOUT),
            socket_timeout: None,
            timeout: None,
            wait_queue_timeout: None,
            max_pool_size: DEFAULT_MAX_POOL_SIZE,
            min_pool_size: 0,
            max_idle_time: None,
            max_connecting: DEFAULT_MAX_CONNECTING,
            read_preference: ReadPreference::default(),
            read_concern: None,
            write_concern: None,
            retry_reads: true,
            retry_writes: true,
            compressors: Vec::new(),
            zlib_compression_level: -1,
            proxy: None,
            server_api: None,
            max_adaptive_retries: DEFAULT_MAX_ADAPTIVE_RETRIES,
            enable_overload_retargeting: false,
            strict: false,
            warnings: Vec::new(),
        }
    }
}

impl ClientOptions {
    /// Returns the warnings about the connection string from which [`parse`](Self::parse) read the
    /// options, and about the TXT record if it was looked up. Default: none.
    #[must_use]
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// Sets [`strict`](Self::strict).
    ///
    /// ```
    /// use onionskin_core::{client::ClientConfig, options::ClientOptions, random::Seed};
    ///
    /// let mut options = ClientOptions::parse("mongodb://localhost/?readPreference=secondry")?;
    /// options.set_strict(true);
    /// let error = ClientConfig::new(options, Seed::new([1; 32])).expect_err("it is misspelt");
    /// assert!(error.to_string().contains("did you mean secondary?"));
    /// # Ok::<(), onionskin_core::error::Error>(())
    /// ```
    pub fn set_strict(&mut self, strict: bool) -> &mut Self {
        self.strict = strict;
        self
    }

    /// True if the creation of a client fails if a part of the connection string was ignored, for
    /// example an option whose name is misspelt ([`Warning::is_of_ignored_part`]). Default: false,
    /// as the specification requires ([CS-23], [CS-32]).
    ///
    /// [CS-23]: crate::requirements::connection_strings#CS-23
    /// [CS-32]: crate::requirements::connection_strings#CS-32
    #[must_use]
    pub const fn strict(&self) -> bool {
        self.strict
    }

    /// Adds warnings to those that the options keep.
    pub(crate) fn add_warnings(&mut self, warnings: impl IntoIterator<Item = Warning>) {
        self.warnings.extend(warnings);
    }
}

/// Returns the time limit; `None` for zero, because zero means no limit in many options.
fn nonzero(value: impl Into<Option<Duration>>) -> Option<Duration> {
    value.into().filter(|limit| !limit.is_zero())
}
