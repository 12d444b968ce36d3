//! The builder of a client.

use super::{Client, Handle};
#[cfg(feature = "dns")]
use crate::resolver::stub::StubResolver;
use crate::{
    HostResolver, Resolver, Runtime, certificates, environment,
    event::EventListener,
    events::{Delivery, handlers},
    failures::FailureFile,
    ids::ObjectIds,
    resolver::Resolvers,
    shared::Shared,
    system, timer, trace,
};
#[cfg(feature = "dns")]
use onionskin_core::dns::ResolverConfig;
use onionskin_core::{
    client::{Client as Core, ClientConfig, Environment, RecordingOptions},
    error::Error,
    event::Subscriptions,
    log::{self, LogOptions},
    operation::crud::{DatabaseOptions, Defaults},
    options::{ClientOptions, ReadPreference},
    random::Seed,
    uri,
};
use std::{path::PathBuf, sync::Arc, time::Duration};

/// A builder for a client, with the options, event listeners and log options of the client.
#[must_use = "a client is made by `build`"]
pub struct ClientBuilder<R: Runtime> {
    pub(super) runtime: R,
    /// The time at which the runtime was prepared, from which the client counts the time; `None`
    /// before.
    pub(super) start: Option<Duration>,
    pub(super) options: ClientOptions,
    pub(super) listeners: Vec<EventListener>,
    pub(super) log: LogOptions,
    pub(super) seed: Option<Seed>,
    pub(super) environment: Option<Environment>,
    pub(super) resolvers: Resolvers,
    pub(super) recording: Option<RecordingOptions>,
    /// The file for the recording after a failure; `None` for none.
    pub(super) failure_file: Option<PathBuf>,
    /// The number of warnings about the connection string that were logged already.
    pub(super) logged_warnings: usize,
}

impl<R: Runtime> ClientBuilder<R> {
    /// Adds a listener for all events of the client, from the first one on.
    ///
    /// ```
    /// # use onionskin::{Client, ClientBuilder, Runtime};
    /// # fn example<R: Runtime>(builder: ClientBuilder<R>) {
    /// use onionskin::event::{Event, EventKind};
    /// use std::sync::Arc;
    ///
    /// let builder = builder.event_listener(Arc::new(|event: &Event| {
    ///     if let EventKind::Sdam(change) = &event.kind {
    ///         println!("{change:?}");
    ///     }
    /// }));
    /// # let _ = builder;
    /// # }
    /// ```
    pub fn event_listener(mut self, listener: EventListener) -> Self {
        self.listeners.push(listener);
        self
    }

    /// Sets which log messages are written to `tracing`. Default: the selection of the environment
    /// variables of [`LogOptions::with_environment`], or else all messages that a subscriber
    /// collects.
    ///
    /// The targets are `onionskin::command`, `onionskin::topology`, `onionskin::server_selection`,
    /// `onionskin::connection` and `onionskin::client`.
    ///
    /// Messages that the subscriber does not collect when the client is built can be missing later,
    /// because the client need not create their events. Build clients after the subscriber is
    /// installed, or set [`LogOptions::with_always_ready`].
    ///
    /// The thread that calls event listeners writes the messages. They go to the subscriber of the
    /// thread that built the client, or to the global subscriber if that thread had none. The
    /// messages are outside of the `tracing` spans of operations. Programs should install a global
    /// subscriber: if the only subscriber of a process is that of one thread, `tracing` can disable
    /// a message for good when a thread without a subscriber is the first to write it.
    ///
    /// ```
    /// # use onionskin::{ClientBuilder, Runtime};
    /// use onionskin::log::{Component, Level, LogOptions};
    ///
    /// # fn example<R: Runtime>(builder: ClientBuilder<R>) {
    /// // No message shows a command, because commands hold documents.
    /// let options = LogOptions::default()
    ///     .with_level(Component::Command, None)
    ///     .with_level(Component::Topology, Level::Info);
    /// let builder = builder.log_options(options);
    /// # let _ = builder;
    /// # }
    /// ```
    pub fn log_options(mut self, options: LogOptions) -> Self {
        self.log = options;
        self
    }

    /// Sets the seed of all random choices of the client, for simulations. Default: a seed from the
    /// system.
    ///
    /// ```
    /// # use onionskin::{ClientBuilder, Runtime};
    /// use onionskin::options::Seed;
    ///
    /// # fn example<R: Runtime>(builder: ClientBuilder<R>) {
    /// let builder = builder.seed(Seed::new([7; 32]));
    /// # let _ = builder;
    /// # }
    /// ```
    pub fn seed(mut self, seed: Seed) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Sets the environment that the client reports to servers in `hello`, for simulations.
    /// Default: the environment of the process.
    ///
    /// ```
    /// # use onionskin::{ClientBuilder, Runtime};
    /// use onionskin::options::{Environment, OsFacts};
    ///
    /// # fn example<R: Runtime>(builder: ClientBuilder<R>) {
    /// let os = OsFacts::from_target("linux", "x86_64");
    /// let builder = builder.environment(Environment::from_lookup(|_| None, false, os));
    /// # let _ = builder;
    /// # }
    /// ```
    pub fn environment(mut self, environment: Environment) -> Self {
        self.environment = Some(environment);
        self
    }

    /// Makes the client record its inputs, so that `onionskin replay` can give them to any build
    /// of the driver. [`Client::recording`] returns the recording. Default: no recording.
    ///
    /// The recording has no documents of commands and replies, no user name, no password and
    /// nothing of which a password could be guessed. It has the names of hosts, databases and
    /// commands, the client metadata, the replies to `hello`, the DNS records of a `mongodb+srv`
    /// host, the errors and the times, and the seed of the client's random choices.
    /// [`build`](Self::build) fails for a client with a password provider, or with a mechanism
    /// other than SCRAM, PLAIN and X.509.
    ///
    /// ```
    /// # use onionskin::{ClientBuilder, Runtime};
    /// use onionskin::recording::RecordingOptions;
    ///
    /// # fn example<R: Runtime>(builder: ClientBuilder<R>) {
    /// let builder = builder.recording(RecordingOptions::ring(1 << 20));
    /// # let _ = builder;
    /// # }
    /// ```
    pub fn recording(mut self, options: RecordingOptions) -> Self {
        self.recording = Some(options);
        self
    }

    /// Sets the file into which the client writes its recording when an operation fails because of
    /// the network, a timeout or server selection, at most once in 10 seconds. Default: none.
    ///
    /// The recording is copied under the lock of the client, so choose a
    /// [ring](RecordingOptions::ring) of a few megabytes. A [whole](RecordingOptions::whole)
    /// recording that is full does not have a later failure, and is not written then.
    ///
    /// The file of an earlier failure is replaced. On Unix, only its owner can read the file.
    /// Choose a folder in which others cannot create files. A file that cannot be written is not
    /// reported. [`build`](Self::build) fails if the client does not [record](Self::recording)
    /// itself.
    ///
    /// ```
    /// # use onionskin::{ClientBuilder, Runtime};
    /// use onionskin::recording::RecordingOptions;
    ///
    /// # fn example<R: Runtime>(builder: ClientBuilder<R>) {
    /// let builder = builder
    ///     .recording(RecordingOptions::ring(4 << 20))
    ///     .failure_recording("shop.rec");
    /// # let _ = builder;
    /// # }
    /// ```
    pub fn failure_recording(mut self, path: impl Into<PathBuf>) -> Self {
        self.failure_file = Some(path.into());
        self
    }

    /// Sets the resolver of DNS queries, which a `mongodb+srv` connection string needs. Default:
    /// the built-in resolver, with the name servers of `/etc/resolv.conf`. With a resolver of the
    /// application, [`resolver_config`](Self::resolver_config) has no effect.
    ///
    /// ```
    /// # use onionskin::{ClientBuilder, Resolver, Runtime};
    /// # fn example<R: Runtime>(builder: ClientBuilder<R>, table: impl Resolver) {
    /// // The trait `Resolver` shows how to write one.
    /// let builder = builder.resolver(table);
    /// # let _ = builder;
    /// # }
    /// ```
    pub fn resolver(mut self, resolver: impl Resolver) -> Self {
        self.resolvers.application = Some(Arc::new(resolver));
        self
    }

    /// Sets the name servers and the hosts file of the built-in resolver. Default: those of
    /// `/etc/resolv.conf` and `/etc/hosts`, which are read at each lookup that the cache does not
    /// answer. Systems without these files need this setting. The built-in resolver looks up the
    /// records of `mongodb+srv` connection strings, and host names with [`HostResolver::Client`].
    ///
    /// ```
    /// # fn example<R: onionskin::Runtime>(builder: onionskin::ClientBuilder<R>) {
    /// use onionskin::dns::ResolverConfig;
    ///
    /// let servers = ["10.0.0.2:53".parse().unwrap()];
    /// let builder = builder.resolver_config(ResolverConfig::new(servers));
    /// # let _ = builder;
    /// # }
    /// ```
    #[cfg(feature = "dns")]
    pub fn resolver_config(mut self, config: ResolverConfig) -> Self {
        self.resolvers.stub = Arc::new(StubResolver::new(Some(config)));
        self
    }

    /// Sets the resolver of the host names of servers. Default: [`HostResolver::System`].
    ///
    /// ```
    /// # use onionskin::{ClientBuilder, HostResolver, Runtime};
    /// # fn example<R: Runtime>(builder: ClientBuilder<R>) {
    /// // Host names, too, are looked up at the name servers of the client.
    /// let builder = builder.host_resolver(HostResolver::Client);
    /// # let _ = builder;
    /// # }
    /// ```
    pub fn host_resolver(mut self, resolver: HostResolver) -> Self {
        self.resolvers.hosts = resolver;
        self
    }

    /// Creates the client and starts it. Does not wait for a server: if no server can be reached,
    /// operations return the error ([SDAM-33]).
    ///
    /// If the hosts of a `mongodb+srv` string are not known, the client looks them up while it
    /// runs. A failure is then the error of the operations that wait, and the next operation begins
    /// another lookup ([DNS-12]).
    ///
    /// With [`resolve`](Self::resolve) before, a failed lookup is noticed at once.
    ///
    /// Fails if an option or a driver info is invalid, if a certificate cannot be read or used, and
    /// if the system gives no random numbers. Fails with
    /// [`ErrorKind::Runtime`](crate::error::ErrorKind::Runtime) if there is no runtime that can run
    /// the client.
    ///
    /// ```no_run
    /// # use onionskin::{Client, Error, Runtime};
    /// # fn example<R: Runtime + Default>() -> Result<(), Error> {
    /// let client = Client::builder_from_uri(R::default(), "mongodb://db1,db2/?replicaSet=shop")?;
    /// let client = client.build()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// [SDAM-33]: onionskin_core::requirements::discovery#SDAM-33
    /// [DNS-12]: onionskin_core::requirements::seed_lists#DNS-12
    pub fn build(mut self) -> Result<Client<R>, Error> {
        let start = self.prepare()?;
        let seed = self.seed_or_random()?;
        let failures = self.take_failure_file()?;
        let Self {
            runtime,
            mut options,
            mut listeners,
            mut log,
            environment,
            resolvers,
            logged_warnings,
            ..
        } = self;
        if let Some(bytes) = options.tracing_max_document_length_bytes {
            log = log.with_max_document_length_bytes(bytes);
        }
        let mut warnings = options.warnings().to_vec();
        warnings.extend(uri::ineffective_options(&options));
        warnings.extend(uri::unsafe_options(&options));
        warnings.extend(uri::costly_options(&options));
        for warning in warnings.iter().skip(logged_warnings) {
            trace::emit_if_wanted(&log, &log::warning(warning));
        }
        if let Some(warning) = certificates::read(&mut options)? {
            trace::emit_if_wanted(&log, &log::warning(&warning));
            warnings.push(warning);
        }
        let environment = environment.unwrap_or_else(environment::environment);
        listeners.extend(runtime.listener());
        let logged = log.subscriptions(trace::is_collected);
        let mut subscriptions = if listeners.is_empty() {
            logged
        } else {
            Subscriptions::all()
        };
        listeners.extend(handlers::listener(&options, &mut subscriptions));
        if logged != Subscriptions::default() {
            listeners.insert(0, trace::listener(log));
        }
        let ids = ObjectIds::new(&seed, runtime.process_id());
        let config = ClientConfig::with_environment(options.clone(), seed, &environment)?;
        let config = recorded(config.with_subscriptions(subscriptions), self.recording)?;
        let delivery = Delivery::new(listeners, subscriptions);
        let shared = Shared::new(
            (runtime, start),
            Core::new(config),
            delivery,
            resolvers,
            ids,
            options
                .tls()
                .map(|tls| tls.cryptography)
                .unwrap_or_default(),
            failures,
        );
        let wall = shared.wall_time();
        shared.with(|inner, now| {
            inner.core.set_wall_time(now, wall);
            inner.core.open(now);
        });
        shared.spawn(timer::run(shared.clone()));
        let handle = Arc::new(Handle {
            shared,
            defaults: Arc::new(defaults(&options)),
            options,
            warnings,
        });
        let _ = handle.shared.handle.set(Arc::downgrade(&handle));
        Ok(Client { handle })
    }
}

fn recorded(
    config: ClientConfig,
    recording: Option<RecordingOptions>,
) -> Result<ClientConfig, Error> {
    match recording {
        Some(recording) => config.with_recording(recording),
        None => Ok(config),
    }
}

/// Returns the options of operations that the options of the client give.
fn defaults(options: &ClientOptions) -> Defaults {
    let mut own = DatabaseOptions::default();
    let criteria = options.selection_criteria.clone();
    own.selection_criteria = criteria.or_else(|| Some(ReadPreference::Primary.into()));
    own.read_concern = options.read_concern.clone();
    own.write_concern = options.write_concern.clone();
    Defaults::default().with(own.into())
}

impl<R: Runtime> ClientBuilder<R> {
    /// Checks that there are resolvers and a runtime, unless that was done. Returns the time at
    /// which the client starts, on the clock of the runtime.
    pub(super) fn prepare(&mut self) -> Result<Duration, Error> {
        self.resolvers.limit = self.options.connect_timeout();
        self.resolvers.check(&self.options)?;
        if self.options.kerberos().is_none() {
            self.options.set_kerberos(system::kerberos());
        }
        if let Some(start) = self.start {
            return Ok(start);
        }
        self.runtime.prepare()?;
        Ok(*self.start.insert(self.runtime.now()))
    }

    /// Returns the file for the recording after a failure. Fails if there is no recording.
    fn take_failure_file(&mut self) -> Result<Option<FailureFile>, Error> {
        if self.failure_file.is_some() && self.recording.is_none() {
            return Err(Error::argument(
                "a file for the recording after a failure needs a recording; set one by \
                 ClientBuilder::recording",
            ));
        }
        Ok(self.failure_file.take().map(FailureFile::new))
    }

    /// Returns the seed, which is drawn from the system if there is none.
    pub(super) fn seed_or_random(&mut self) -> Result<Seed, Error> {
        if let Some(seed) = &self.seed {
            return Ok(seed.clone());
        }
        let mut bytes = [0; 32];
        self.runtime.entropy(&mut bytes).map_err(|error| {
            Error::argument(format!("cannot read random bytes from the system: {error}"))
        })?;
        Ok(self.seed.insert(Seed::new(bytes)).clone())
    }
}
