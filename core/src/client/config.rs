//! The configuration of a client, and the options of its parts.

use super::{
    attempts::scanning::ScanRules,
    recording::{Recorder, RecordingOptions},
};
use crate::{
    compression::CompressionPlan,
    connection::{HandshakeOptions, Layers},
    description::TopologyId,
    error::Error,
    event::Subscriptions,
    hello::{ClientMetadata, Environment},
    operation::RetryPolicy,
    options::{AuthMechanism, ClientOptions, KerberosLibrary, Monitoring, ServerMonitoringMode},
    pool::{MAX_WAITERS, PoolOptions},
    random::Seed,
    sdam::SdamOptions,
    socks5::Socks5Context,
    tls::TlsContext,
};
use bson::RawDocumentBuf;
use std::{sync::Arc, time::Duration};

/// The validated options of a client, its seed, and the facts of its environment.
#[derive(Debug)]
pub struct ClientConfig {
    pub(super) options: ClientOptions,
    pub(crate) seed: Seed,
    /// The seed of the nonces of authentication; `None` if they follow from `seed`.
    pub(super) nonces: Option<Seed>,
    pub(super) metadata: ClientMetadata,
    pub(super) subscriptions: Subscriptions,
    pub(super) proxy: Option<Socks5Context>,
    pub(super) tls: Option<TlsContext>,
    pub(super) streaming: bool,
    pub(super) recorder: Option<Box<Recorder>>,
    /// True if the client replays a recording.
    pub(super) is_replay: bool,
    /// True if the client replays the recording of a client with TLS.
    pub(super) replays_tls: bool,
}

impl ClientConfig {
    /// Returns the configuration of a client with these options and this seed, in an unknown
    /// environment and without event subscriptions.
    ///
    /// Fails if options are invalid or contradict each other, or if certificates cannot be used.
    /// Also fails for an option that this version does not implement and that cannot be ignored
    /// without harm. [`ineffective_options`](crate::uri::ineffective_options) lists the options
    /// that are ignored.
    pub fn new(options: ClientOptions, seed: Seed) -> Result<Self, Error> {
        Self::with_environment(options, seed, &Environment::default())
    }

    /// Returns a configuration as [`new`](Self::new) does. The handshake sends `environment` to the
    /// server.
    pub fn with_environment(
        options: ClientOptions,
        seed: Seed,
        environment: &Environment,
    ) -> Result<Self, Error> {
        options.validate()?;
        refuse_what_is_missing(&options)?;
        let metadata = ClientMetadata::new(
            options.app_name.as_deref(),
            environment,
            options.driver_info.as_slice(),
        )?;
        let tls = options.tls().map(TlsContext::new).transpose()?;
        let tls = tls.map(TlsContext::with_status_queries);
        let proxy = options.socks5_proxy.as_ref();
        let proxy = proxy.map(Socks5Context::new).transpose()?;
        let streaming = match options.server_monitoring_mode() {
            ServerMonitoringMode::Stream => true,
            ServerMonitoringMode::Poll => false,
            // On a FaaS platform, `auto` means `poll` (MON-4).
            ServerMonitoringMode::Auto => !environment.is_faas(),
        };
        Ok(Self {
            options,
            seed,
            nonces: None,
            metadata,
            subscriptions: Subscriptions::default(),
            proxy,
            tls,
            streaming,
            recorder: None,
            is_replay: false,
            replays_tls: false,
        })
    }

    /// Sets which events the client emits. The default is none.
    #[must_use]
    pub fn with_subscriptions(mut self, subscriptions: Subscriptions) -> Self {
        self.subscriptions = subscriptions;
        self
    }

    /// Makes the client record itself ([`Client::recording`](super::Client::recording)).
    ///
    /// The recording has no password, no proof of one and no bytes of TLS. Fails for a credential
    /// with a password provider or with a mechanism other than SCRAM, PLAIN and X.509.
    ///
    /// The recorded client makes other random choices than a client with the same seed that is not
    /// recorded, because the recording has its seed, and no nonce may follow from that.
    pub fn with_recording(mut self, options: RecordingOptions) -> Result<Self, Error> {
        self.nonces = Some(self.seed.split("nonces"));
        self.seed = self.seed.split("recorded");
        self.recorder = Some(Recorder::new(&self, options)?);
        Ok(self)
    }

    /// Returns the Kerberos library of the client.
    pub(crate) fn kerberos(&self) -> Option<KerberosLibrary> {
        self.options.kerberos().cloned().map(KerberosLibrary)
    }

    /// Returns the options of a connection's handshake.
    pub(crate) fn into_handshake_options(self) -> HandshakeOptions {
        let metadata = self.metadata.document().to_owned();
        handshake_options(&self.options, metadata, self.proxy, self.tls)
    }
}

/// Refuses options that need a part which is not there, and which cannot be ignored without harm.
pub(super) fn refuse_what_is_missing(options: &ClientOptions) -> Result<(), Error> {
    let mechanism = options
        .credential
        .as_ref()
        .and_then(|known| known.mechanism);
    if mechanism == Some(AuthMechanism::Gssapi) && options.kerberos().is_none() {
        let message = "GSSAPI needs a Kerberos library; enable the Cargo feature gssapi of the \
                       runtime's crate, for example of onionskin-tokio, or set one by \
                       ClientOptions::set_kerberos";
        return Err(Error::invalid_option("authMechanism", message));
    }
    Ok(())
}

/// The numbers of a client's sockets, connections in use and waiting operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// The number of sockets, those of monitors included.
    pub sockets: usize,
    /// The number of connections that are checked out: in use by an exchange, granted, or pinned.
    pub in_use: usize,
    /// The number of operations that hold no exchange: they wait, pause, or have not been resumed
    /// yet.
    pub waiting: usize,
}

/// The options that operations and new connections use. Only the metadata and the calendar time
/// change.
#[derive(Debug)]
pub(super) struct Settings {
    /// `serverSelectionTimeoutMS`.
    pub(super) selection: Duration,
    /// `socketTimeoutMS`; `None` for no limit.
    pub(super) socket_timeout: Option<Duration>,
    /// `timeoutMS`; `None` if operations have no time limit by default.
    pub(super) timeout: Option<Duration>,
    pub(super) retry: RetryPolicy,
    /// The highest number of operations that wait for a server, or pause, at once (SEL-37). The
    /// wait queue of each pool has the same limit.
    pub(super) without_server: usize,
    /// The rules of server selection by scans; `None` if servers are monitored in the background.
    pub(super) scanning: Option<ScanRules>,
    pub(super) handshake: Arc<HandshakeOptions>,
    pub(super) metadata: ClientMetadata,
    pub(super) subscriptions: Subscriptions,
}

impl Settings {
    /// Sets the settings that the lookup of a seed list decides.
    pub(super) fn set_seed_list(&mut self, options: &ClientOptions) {
        let handshake = Arc::make_mut(&mut self.handshake);
        handshake.credential = options.credential.clone().map(Arc::new);
        handshake.load_balanced = options.load_balanced();
        handshake.legacy_hello &= !options.load_balanced();
        self.scanning = ScanRules::new(options);
    }

    pub(super) fn new(
        options: &ClientOptions,
        metadata: ClientMetadata,
        proxy: Option<Socks5Context>,
        tls: Option<TlsContext>,
        subscriptions: Subscriptions,
    ) -> Self {
        let handshake = handshake_options(options, metadata.document().to_owned(), proxy, tls);
        Self {
            selection: options.server_selection_timeout(),
            socket_timeout: options.socket_timeout(),
            timeout: options.timeout,
            retry: RetryPolicy {
                reads: options.retry_reads(),
                writes: options.retry_writes(),
                max_adaptive: options.max_adaptive_retries(),
                overload_retargeting: options.enable_overload_retargeting(),
            },
            without_server: MAX_WAITERS as usize,
            scanning: ScanRules::new(options),
            handshake: Arc::new(handshake),
            metadata,
            subscriptions,
        }
    }
}

pub(super) fn pool_options(options: &ClientOptions) -> PoolOptions {
    PoolOptions {
        max_size: options.max_pool_size(),
        min_size: options.min_pool_size(),
        max_idle: options.max_idle_time(),
        max_connecting: options.max_connecting(),
        wait_queue_timeout: options.wait_queue_timeout(),
        load_balanced: options.load_balanced(),
        reported: options.reported_pool_options(),
    }
}

pub(super) fn sdam_options(
    options: &ClientOptions,
    topology_id: TopologyId,
    streaming: bool,
    subscriptions: Subscriptions,
    seed: &Seed,
) -> SdamOptions {
    // Behind a load balancer there are no monitoring connections (LB-14), so there is nothing to
    // scan. The rule of one socket for all operations (LB-29) is for clients without pools; clients
    // that scan have pools.
    let scanning = options.monitoring == Monitoring::Scanning && !options.load_balanced();
    SdamOptions {
        seeds: options.hosts().to_vec(),
        replica_set: options.repl_set_name.clone(),
        direct_connection: options.direct_connection == Some(true),
        load_balanced: options.load_balanced(),
        heartbeat_frequency: options.heartbeat_freq(),
        connect_timeout: options.connect_timeout(),
        streaming,
        possible_primary: scanning,
        scanning: scanning.then(|| seed.split("scan")),
        legacy_hello: options.server_api.is_none() && !options.load_balanced(),
        topology_id,
        subscribed: subscriptions.sdam,
        notices: subscriptions.notices,
    }
}

/// Sets the options of the topology that the lookup of a seed list decides.
pub(super) fn set_seed_list(sdam: &mut SdamOptions, options: &ClientOptions) {
    sdam.seeds = options.hosts().to_vec();
    sdam.replica_set = options.repl_set_name.clone();
    sdam.load_balanced = options.load_balanced();
    if options.load_balanced() {
        sdam.scanning = None;
        sdam.possible_primary = false;
        sdam.legacy_hello = false;
    }
}

fn handshake_options(
    options: &ClientOptions,
    metadata: RawDocumentBuf,
    proxy: Option<Socks5Context>,
    tls: Option<TlsContext>,
) -> HandshakeOptions {
    let mut layers = Layers::default();
    // The conversation with the proxy comes before TLS with the server (SOCKS-15).
    if let Some(proxy) = proxy {
        layers.push(proxy);
    }
    if let Some(tls) = tls {
        layers.push(tls);
    }
    HandshakeOptions {
        layers,
        compression: CompressionPlan::new(options),
        metadata,
        credential: options.credential.clone().map(Arc::new),
        legacy_hello: options.server_api.is_none() && !options.load_balanced(),
        load_balanced: options.load_balanced(),
        server_api: options.server_api,
        connect_timeout: options.connect_timeout(),
        socket_timeout: options.socket_timeout(),
        timeout: options.timeout,
    }
}
