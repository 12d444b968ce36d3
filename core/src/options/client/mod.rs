//! The options of a client: their storage, defaults and limits.

pub(crate) mod check;
mod effective;
mod private;
mod validate;

#[cfg(test)]
mod tests;

pub use effective::{
    DEFAULT_CONNECT_TIMEOUT, DEFAULT_HEARTBEAT_FREQUENCY, DEFAULT_LOCAL_THRESHOLD,
    DEFAULT_MAX_ADAPTIVE_RETRIES, DEFAULT_MAX_CONNECTING, DEFAULT_MAX_POOL_SIZE,
    DEFAULT_SCAN_FREQUENCY, DEFAULT_SERVER_SELECTION_TIMEOUT, DEFAULT_SRV_SERVICE_NAME,
    MAX_APP_NAME_BYTES, MAX_SRV_SERVICE_NAME_BYTES, MIN_HEARTBEAT_FREQUENCY,
};

use super::{
    Compressor, Credential, DriverInfo, EventHandler, KerberosLibrary, Monitoring, ReadConcern,
    SelectionCriteria, ServerApi, ServerMonitoringMode, ServerSelector, Socks5Proxy, Tls,
    TlsOptions, Warning, WriteConcern, fields,
};
use crate::{
    address::ServerAddress,
    error::Error,
    event::handlers::{cmap::CmapEvent, command::CommandEvent, sdam::SdamEvent},
};
use std::time::Duration;

fields! {
    /// The options of a client. The default is a client of `localhost:27017` without TLS and
    /// authentication.
    ///
    /// A field that is `None` was not set. The method with the name of a field returns the value
    /// that applies: that of the field, or its default. The creation of a client checks all values
    /// ([`validate`](Self::validate)). [`parse`](Self::parse) reads options from a connection
    /// string; a field that is assigned afterwards overrides the string ([CS-38]).
    ///
    /// ```
    /// use onionskin_core::options::ClientOptions;
    /// use std::time::Duration;
    ///
    /// let mut options = ClientOptions::builder()
    ///     .hosts(vec!["db1.example.net".parse()?, "db2.example.net".parse()?])
    ///     .repl_set_name("rs0".to_owned())
    ///     .build();
    /// options.heartbeat_freq = Some(Duration::from_secs(5));
    /// assert_eq!(options.heartbeat_freq(), Duration::from_secs(5));
    ///
    /// options.direct_connection = Some(true);
    /// assert!(options.validate().is_err(), "a direct connection goes to one host");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Each option has a setter of the builder:
    ///
    /// ```
    /// use onionskin_core::{event::handlers as events, options::*};
    /// use std::time::Duration;
    ///
    /// fn print<E: std::fmt::Debug>(event: E) {
    ///     println!("{event:?}");
    /// }
    ///
    /// let minute = Duration::from_secs(60);
    /// let options = ClientOptions::builder()
    ///     .hosts(["db1.example.net".parse()?, "db2.example.net".parse()?])
    ///     .repl_set_name("rs0".to_owned())
    ///     .direct_connection(false)
    ///     .load_balanced(false)
    ///     .tls(TlsOptions::default())
    ///     .credential(Credential::password("app", "pencil"))
    ///     .server_api(ServerApi::new(ServerApiVersion::V1))
    ///     .app_name("shop".to_owned())
    ///     .driver_info(DriverInfo::new("my-object-mapper"))
    ///     .default_database("shop".to_owned())
    ///     .read_concern(ReadConcern::majority())
    ///     .write_concern(WriteConcern::majority())
    ///     .selection_criteria(SelectionCriteria::from(ReadPreference::primary_preferred(None)))
    ///     .server_selector(ServerSelector::new(|servers| servers.truncate(2)))
    ///     .local_threshold(Duration::from_millis(30))
    ///     .retry_reads(true)
    ///     .retry_writes(true)
    ///     .max_adaptive_retries(5)
    ///     .enable_overload_retargeting(true)
    ///     .timeout(Duration::from_secs(10))
    ///     .server_selection_timeout(Duration::from_secs(5))
    ///     .connect_timeout(Duration::from_secs(2))
    ///     .heartbeat_freq(Duration::from_secs(5))
    ///     .server_monitoring_mode(ServerMonitoringMode::Stream)
    ///     .max_pool_size(50)
    ///     .min_pool_size(2)
    ///     .max_connecting(4)
    ///     .max_idle_time(10 * minute)
    ///     .compressors(vec![Compressor::Zlib])
    ///     .zlib_compression_level(6)
    ///     .command_event_handler(EventHandler::callback(print::<events::command::CommandEvent>))
    ///     .cmap_event_handler(EventHandler::callback(print::<events::cmap::CmapEvent>))
    ///     .sdam_event_handler(EventHandler::callback(print::<events::sdam::SdamEvent>))
    ///     .tracing_max_document_length_bytes(500)
    ///     .build();
    /// assert!(options.validate().is_ok());
    /// // A client of a `mongodb+srv` host, behind a proxy, with the older time limits.
    /// let options = ClientOptions::builder()
    ///     .srv_host("cluster.example.net".to_owned())
    ///     .srv_service_name("customname".to_owned())
    ///     .srv_max_hosts(3)
    ///     .srv_allowed_hosts_suffix("example.net".to_owned())
    ///     .socks5_proxy(Socks5Proxy::new("proxy.example.net"))
    ///     .socket_timeout(minute)
    ///     .wait_queue_timeout(minute)
    ///     .build();
    /// assert!(options.validate().is_ok());
    /// // A client of `onionskin-blocking` checks servers on demand.
    /// let options = ClientOptions::builder().server_selection_try_once(false).build();
    /// # assert_eq!(options.server_selection_try_once, Some(false));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Options can be read with serde: the names of the fields are in camel case, and each time has
    /// the form `{ "secs": 5, "nanos": 0 }`. The fields of `credential` and `tls` have their names
    /// in Rust, and TLS has the form `{ "Enabled": { "ca_file_path": "ca.pem" } }`. An unknown
    /// field is an error.
    ///
    /// [CS-38]: crate::requirements::connection_strings#CS-38
    #[derive(Clone, Debug, PartialEq, serde::Deserialize)]
    #[serde(rename_all = "camelCase", default, deny_unknown_fields)]
    ClientOptions, built by ClientOptionsBuilder {
        /// `appName`, which appears in the server's logs and profiles. At most
        /// [`MAX_APP_NAME_BYTES`]. Default: none.
        app_name: String,
        /// The function that gets the events of connections and connection pools. Connection
        /// strings cannot set it. Default: none.
        #[serde(skip)]
        cmap_event_handler: EventHandler<CmapEvent> => (text),
        /// The function that gets the events of commands. Connection strings cannot set it.
        /// Default: none.
        #[serde(skip)]
        command_event_handler: EventHandler<CommandEvent> => (text),
        /// `compressors`, the compressors to negotiate, in order of preference. Default: none.
        ///
        /// Each connection uses the first of them that the server also has. A compressor that is
        /// not [available](Compressor::is_available) is not announced, and causes a
        /// [warning](crate::uri::ineffective_options).
        compressors: Vec<Compressor>,
        /// `connectTimeoutMS`, the time limit for connecting a socket, the conversation with a
        /// proxy and TLS included. The same limit applies to each check of a monitor, and to each
        /// command of a connection's handshake that has no other limit. For an awaitable check,
        /// `heartbeatFrequencyMS` is added. If OCSP responders are asked, connecting can take
        /// longer by their time, which is at most half of the limit. Zero means no limit. Default:
        /// 10 s ([CMAP-155]).
        ///
        /// [CMAP-155]: crate::requirements::pool#CMAP-155
        connect_timeout: Duration,
        /// The credential: user name, password, `authSource`, `authMechanism` and
        /// `authMechanismProperties`. Default: none, and then connections do not authenticate.
        credential: Credential,
        /// The database of [`Client::default_database`], which the path of a connection string
        /// names. Default: none.
        ///
        /// [`Client::default_database`]: https://docs.rs/onionskin
        default_database: String,
        /// `directConnection`. With `true`, the client uses only the one host, of any server type,
        /// and discovers no others. Default: `false`.
        direct_connection: bool,
        /// A library that wraps the driver, for the client metadata. Connection strings cannot set
        /// it. Default: none ([HELLO-43]).
        ///
        /// [HELLO-43]: crate::requirements::handshake#HELLO-43
        driver_info: DriverInfo,
        /// `enableOverloadRetargeting`: whether a retry after overload avoids the overloaded server
        /// if another server suits the operation. Default: `false` ([BP-9]).
        ///
        /// On a sharded cluster, retries avoid the mongos that failed even without this option. On
        /// a replica set this option may move reads from the primary to secondaries, if the read
        /// preference permits that ([RR-14]).
        ///
        /// [BP-9]: crate::requirements::retries#BP-9
        /// [RR-14]: crate::requirements::retries#RR-14
        enable_overload_retargeting: bool,
        /// `heartbeatFrequencyMS`, the time from the end of one check of a server to the start of
        /// the next, or between two scans. Minimum: [`MIN_HEARTBEAT_FREQUENCY`]. Default:
        /// [`DEFAULT_HEARTBEAT_FREQUENCY`], or [`DEFAULT_SCAN_FREQUENCY`] with
        /// [`Monitoring::Scanning`].
        heartbeat_freq: Duration,
        /// `loadBalanced`. With `true`, the one host is a load balancer. The option applies to the
        /// whole client, not to single databases or operations. Default: `false` ([LB-1], [LB-2]).
        ///
        /// [LB-1]: crate::requirements::load_balancers#LB-1
        /// [LB-2]: crate::requirements::load_balancers#LB-2
        #[serde(alias = "loadbalanced")]
        load_balanced: bool,
        /// `localThresholdMS`, the width of the latency window. A server is selected only if its
        /// round trip time exceeds the shortest one by at most this width. With zero only the
        /// fastest server is selected. Default: 15 ms.
        local_threshold: Duration,
        /// `maxAdaptiveRetries`, the maximum number of retries of an operation that met an
        /// overloaded server. Retries before the overload count too, with or without a time limit.
        /// Zero means no retry after overload. Default: 2 ([BP-4], [BP-8]).
        ///
        /// After overload all commands are retried, even those that are not retried after other
        /// errors, for example `update_many`, `delete_many`, later batches of a cursor, and
        /// commands of `Database::run_command`. Reads need
        /// [`retry_reads`](ClientOptions::retry_reads), writes
        /// [`retry_writes`](ClientOptions::retry_writes), and `run_command` both ([BP-2], [BP-16],
        /// [BP-3]).
        ///
        /// After an overload error the operation waits before its next attempt, for a random part
        /// of 200 ms before the first retry, of 400 ms before the second, and so on up to 10 s. The
        /// server can replace the base of 100 ms. An operation whose time limit would expire during
        /// the wait fails at once ([BP-5], [BP-6], [BP-12]).
        ///
        /// A server counts as overloaded if its error has the label `SystemOverloadedError`, or if
        /// a new connection fails with a network error or a timeout before the reply to `hello`.
        /// Errors of name resolution and of certificates, for example, do not count. If the
        /// application repeats a failed operation itself, each repetition can be retried as often
        /// again, which increases the overload. Such an application should stop at errors with this
        /// label, or set this option to zero.
        ///
        /// [BP-4]: crate::requirements::retries#BP-4
        /// [BP-8]: crate::requirements::retries#BP-8
        /// [BP-2]: crate::requirements::retries#BP-2
        /// [BP-16]: crate::requirements::retries#BP-16
        /// [BP-3]: crate::requirements::retries#BP-3
        /// [BP-5]: crate::requirements::retries#BP-5
        /// [BP-6]: crate::requirements::retries#BP-6
        /// [BP-12]: crate::requirements::retries#BP-12
        max_adaptive_retries: u32,
        /// `maxConnecting`, the maximum number of connections that a pool establishes at once.
        /// Minimum: 1. Default: 2 ([CMAP-11]).
        ///
        /// [CMAP-11]: crate::requirements::pool#CMAP-11
        max_connecting: u32,
        /// `maxIdleTimeMS`, how long a connection may stay available before it is closed. Zero
        /// means no limit. Default: no limit ([CMAP-10]).
        ///
        /// [CMAP-10]: crate::requirements::pool#CMAP-10
        max_idle_time: Duration,
        /// `maxPoolSize`, the maximum number of connections of a pool, pending and in-use
        /// connections included. All pools of a client have the same options. Zero means no limit.
        /// Default: 100 ([CMAP-5], [CMAP-8]).
        ///
        /// [CMAP-5]: crate::requirements::pool#CMAP-5
        /// [CMAP-8]: crate::requirements::pool#CMAP-8
        max_pool_size: u32,
        /// `minPoolSize`, the least number of connections that a ready pool keeps. The number must
        /// not exceed a [`max_pool_size`](ClientOptions::max_pool_size) above 0. Default: 0
        /// ([CMAP-9]).
        ///
        /// The number applies to the oldest 50 pools, because a replica set has at most 50 members.
        /// Further pools make connections only for operations.
        ///
        /// [CMAP-9]: crate::requirements::pool#CMAP-9
        min_pool_size: u32,
        /// The read concern (`readConcernLevel`). Default: none, the server's choice.
        read_concern: ReadConcern,
        /// `replicaSet`, the name of the replica set to which all servers must belong. It must not
        /// be empty. Default: none.
        repl_set_name: String,
        /// `retryReads`: whether a read is retried after an error that may be temporary. Default:
        /// `true` ([RR-1]).
        ///
        /// `find`, `find_one`, `count_documents` and `aggregate` without a stage that writes are
        /// retried. Commands of `Database::run_command` and later batches of a cursor are not,
        /// unless the server is overloaded ([RR-7]).
        ///
        /// With a time limit ([`timeout`](ClientOptions::timeout) or that of the call), retries
        /// continue until the limit expires, or until three attempts in a row fail without waiting
        /// for anything. Without a time limit there is at most one retry. After overload
        /// [`max_adaptive_retries`](ClientOptions::max_adaptive_retries) applies. If the
        /// application repeats a failed operation itself, each repetition can be retried as often
        /// again ([RR-18], [RR-24]).
        ///
        /// [RR-1]: crate::requirements::retries#RR-1
        /// [RR-7]: crate::requirements::retries#RR-7
        /// [RR-24]: crate::requirements::retries#RR-24
        /// [RR-18]: crate::requirements::retries#RR-18
        retry_reads: bool,
        /// `retryWrites`: whether a write is retried after an error that may be temporary, if the
        /// write cannot take effect twice. Default: `true` ([RW-1]).
        ///
        /// Inserts are retried, and updates and deletes of one document. This holds for replica
        /// sets, sharded clusters and load balancers. On a standalone server a write is retried
        /// only if no connection was checked out, so that nothing was sent. `update_many`,
        /// `delete_many`, unacknowledged writes and commands of `Database::run_command` are not
        /// retried, unless the server is overloaded. The number of retries is that of
        /// [`retry_reads`](ClientOptions::retry_reads) ([RW-8], [RW-9], [RW-20], [RW-32], [RW-24]).
        ///
        /// [RW-1]: crate::requirements::retries#RW-1
        /// [RW-8]: crate::requirements::retries#RW-8
        /// [RW-9]: crate::requirements::retries#RW-9
        /// [RW-20]: crate::requirements::retries#RW-20
        /// [RW-32]: crate::requirements::retries#RW-32
        /// [RW-24]: crate::requirements::retries#RW-24
        retry_writes: bool,
        /// The read preference (`readPreference`, `readPreferenceTags` and `maxStalenessSeconds`).
        /// Default: primary.
        selection_criteria: SelectionCriteria,
        /// The function that gets the events of server discovery and monitoring. Connection strings
        /// cannot set it. Default: none.
        #[serde(skip)]
        sdam_event_handler: EventHandler<SdamEvent> => (text),
        /// The Stable API version that each command declares. Connection strings cannot set it.
        /// Default: none.
        server_api: ServerApi,
        /// `serverMonitoringMode`. Default: [`ServerMonitoringMode::Auto`].
        server_monitoring_mode: ServerMonitoringMode,
        /// `serverSelectionTimeoutMS`, the time limit for the selection of a server. It must be
        /// greater than zero, and a connection string with zero gets a warning. Default: 30 s
        /// ([SEL-5]).
        ///
        /// [SEL-5]: crate::requirements::server_selection#SEL-5
        server_selection_timeout: Duration,
        /// `serverSelectionTryOnce`. With `true`, an operation without a suitable server waits for
        /// one scan, and fails if no server suits after that scan. With `false`, scans repeat until
        /// [`server_selection_timeout`](ClientOptions::server_selection_timeout). Default: `true`.
        ///
        /// Only a client that checks servers on demand ([`Monitoring::Scanning`]) may set this
        /// option; for another one [`validate`](ClientOptions::validate) fails ([SEL-6]).
        ///
        /// With `true`, server selection can take as long as a scan, even beyond the timeout. With
        /// `false`, server selection can take the timeout plus one scan. A scan checks one server
        /// after the other and waits for each at most
        /// [`connect_timeout`](ClientOptions::connect_timeout). With `true` and with `false`, the
        /// time limit of the operation ends the selection ([SEL-73]).
        ///
        /// [SEL-6]: crate::requirements::server_selection#SEL-6
        /// [SEL-73]: crate::requirements::server_selection#SEL-73
        server_selection_try_once: bool,
        /// The application's callback for server selection, which connection strings cannot set.
        /// Default: none.
        #[serde(skip)]
        server_selector: ServerSelector,
        /// `socketTimeoutMS`, the time limit for each command of an operation or of a connection's
        /// handshake, from sending the request to receiving the reply. The time limit of an
        /// operation ([`timeout`](ClientOptions::timeout) or that of the call) replaces this limit.
        /// Zero means no limit. Default: no limit.
        socket_timeout: Duration,
        /// The SOCKS5 proxy of the connections (`proxyHost`, `proxyPort`, `proxyUsername` and
        /// `proxyPassword`). Default: none.
        ///
        /// All connections by TCP to servers go through the proxy, those of monitors included. The
        /// proxy resolves the names of the servers. These do not go through the proxy: DNS queries
        /// for `mongodb+srv`, connections to Unix domain sockets, requests for credentials to other
        /// services, for example by MONGODB-AWS, and requests to OCSP responders ([SOCKS-11],
        /// [SOCKS-14], [SOCKS-16], [SOCKS-21]).
        ///
        /// [SOCKS-11]: crate::requirements::proxies#SOCKS-11
        /// [SOCKS-14]: crate::requirements::proxies#SOCKS-14
        /// [SOCKS-16]: crate::requirements::proxies#SOCKS-16
        /// [SOCKS-21]: crate::requirements::proxies#SOCKS-21
        socks5_proxy: Socks5Proxy,
        /// `srvAllowedHostsSuffix`, the domain under which the hosts of SRV records must lie, in
        /// place of the domain of [`srv_host`](ClientOptions::srv_host). A domain of at least two
        /// labels, with or without a dot in front, or one for private use such as `localhost`
        /// ([DNS-42], [DNS-43]).
        ///
        /// The check protects against forged SRV records: a client sends its credentials to each
        /// host that passes. So choose the narrowest domain that contains all servers. A domain in
        /// which anyone can register names, for example `co.uk`, is not refused. Default: none.
        ///
        /// [DNS-42]: crate::requirements::seed_lists#DNS-42
        /// [DNS-43]: crate::requirements::seed_lists#DNS-43
        srv_allowed_hosts_suffix: String,
        /// The host of a `mongodb+srv` connection string: one name, without a port. Its SRV records
        /// name the seeds, unless [`hosts`](ClientOptions::hosts) are set as well. Unlike a
        /// connection string, this field does not switch TLS on. Default: none.
        srv_host: String,
        /// `srvMaxHosts`, the maximum number of hosts from SRV records that become seeds. Zero
        /// means no limit. Default: 0.
        srv_max_hosts: u32,
        /// `srvServiceName`, the service in the SRV query `_{service}._tcp.{host}`. A service name
        /// of RFC 6335 with at most [`MAX_SRV_SERVICE_NAME_BYTES`] bytes. Default: `mongodb`
        /// ([DNS-7]).
        ///
        /// [DNS-7]: crate::requirements::seed_lists#DNS-7
        srv_service_name: String,
        /// `timeoutMS`, the time limit for a whole operation, retries included. Zero means no
        /// limit. With any value, zero included, `socketTimeoutMS` and `waitQueueTimeoutMS` do not
        /// apply. Default: none, and then `socketTimeoutMS` and `waitQueueTimeoutMS` apply.
        ///
        /// A connection that is made in the background for `minPoolSize` has this limit for each
        /// command of its handshake ([CMAP-154]).
        ///
        /// [CMAP-154]: crate::requirements::pool#CMAP-154
        timeout: Duration,
        /// `tls` and all options whose names begin with `tls`. Default: no TLS.
        tls: Tls,
        /// The maximum length of documents in log messages, in bytes of extended JSON. Connection
        /// strings cannot set it. Default: the value of `MONGODB_LOG_MAX_DOCUMENT_LENGTH`, or else
        /// 1000.
        tracing_max_document_length_bytes: usize,
        /// `waitQueueTimeoutMS`, the time limit for an operation in the wait queue of a pool. The
        /// time limit of an operation ([`timeout`](ClientOptions::timeout) or that of the call)
        /// replaces this limit. Zero means no limit. Default: no limit ([CMAP-12], [CMAP-13]).
        ///
        /// [CMAP-12]: crate::requirements::pool#CMAP-12
        /// [CMAP-13]: crate::requirements::pool#CMAP-13
        wait_queue_timeout: Duration,
        /// The write concern (`w`, `journal` and `wTimeoutMS`). `w: 0` and `journal: true` exclude
        /// each other. Default: none, the server's choice ([URI-23]).
        ///
        /// [URI-23]: crate::requirements::connection_strings#URI-23
        write_concern: WriteConcern,
        /// `zlibCompressionLevel`: 0 for no compression, 9 for the best, -1 for the default of
        /// zlib. Default: -1. Has no effect on other compressors.
        zlib_compression_level: i32,
    }
    also {
        /// The seeds, the servers to which the client connects first. A few members of a replica
        /// set are enough, because discovery finds the others. The client connects to every seed,
        /// so a list of hundreds of members costs many connections and finds no more servers. If
        /// the list is empty, the records of [`srv_host`](Self::srv_host) name the seeds; without
        /// that host, `localhost:27017` is the seed. Default: empty ([SDAM-19], [SDAM-121]).
        ///
        /// [SDAM-19]: crate::requirements::discovery#SDAM-19
        /// [SDAM-121]: crate::requirements::discovery#SDAM-121
        pub hosts: Vec<ServerAddress>,
        /// Whether monitors check servers in the background, or operations scan them on demand.
        /// Connection strings cannot set this. Default: [`Monitoring::Background`].
        #[serde(skip)]
        pub monitoring: Monitoring,
        /// True if the creation of a client fails if a part of the connection string was ignored,
        /// for example an option whose name is misspelt ([`Warning::is_of_ignored_part`]). Default:
        /// false, as the specification requires ([CS-23], [CS-32]).
        ///
        /// ```
        /// use onionskin_core::{client::ClientConfig, options::ClientOptions, random::Seed};
        ///
        /// let text = "mongodb://localhost/?readPreference=secondry";
        /// let mut options = text.parse::<ClientOptions>()?;
        /// options.strict = true;
        /// let error = ClientConfig::new(options, Seed::new([1; 32])).expect_err("it is misspelt");
        /// assert!(error.to_string().contains("did you mean secondary?"));
        /// # Ok::<(), onionskin_core::error::Error>(())
        /// ```
        ///
        /// [CS-23]: crate::requirements::connection_strings#CS-23
        /// [CS-32]: crate::requirements::connection_strings#CS-32
        pub strict: bool,
        /// The time to live of the SRV records that gave the hosts, by which the first rescan is
        /// due. `None` if the hosts were not looked up, or if the time is unknown.
        #[serde(skip)]
        pub(crate) srv_ttl: Option<Duration>,
        /// `serverSelectionTryOnce` of a connection string that was parsed for a client with
        /// background monitoring.
        #[serde(skip)]
        pub(crate) unused_try_once: Option<bool>,
        /// The TLS options of a connection string without `tls=true`, for the warnings about them.
        #[serde(skip)]
        pub(crate) unused_tls: Option<Box<TlsOptions>>,
        #[serde(skip)]
        kerberos: Option<KerberosLibrary>,
        #[serde(skip)]
        warnings: Vec<Warning>,
    }
}

impl ClientOptionsBuilder {
    /// Sets the seeds ([`ClientOptions::hosts`]).
    ///
    /// ```
    /// use onionskin_core::options::ClientOptions;
    ///
    /// let seeds = ["db1.example.net".parse()?, "db2.example.net:27018".parse()?];
    /// let options = ClientOptions::builder().hosts(seeds).build();
    /// assert_eq!(options.hosts.len(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn hosts(mut self, hosts: impl Into<Vec<ServerAddress>>) -> Self {
        self.0.hosts = hosts.into();
        self
    }
}
