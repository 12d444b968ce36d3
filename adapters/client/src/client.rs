//! The client.

use crate::{
    Database, EventListener, Execution, Runtime, environment, events::Delivery, ids::ObjectIds,
    shared::Shared, timer, trace,
};
use onionskin_core::{
    client::{Client as Core, ClientConfig, Counts},
    description::TopologyDescription,
    error::{Error, ErrorKind},
    event::Subscriptions,
    hello::{DriverInfo, Environment},
    log::{self, LogOptions},
    operation::{Command, CursorResources, Decode, Exchange, Program, Single},
    options::{ClientOptions, Monitoring, ReadPreference, Secret},
    random::Seed,
    uri::{self, Warning},
};
use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

/// A handle to a deployment: discovery, monitoring and pools run behind it.
///
/// Cloning is cheap, and all clones share everything. When the last clone and everything made from
/// it is gone, the client closes by itself; [`shutdown`](Self::shutdown) does so and waits.
///
/// The tasks of a client run on the runtime in which it was made. When that runtime ends, so does
/// the client: from then on every operation fails at once with
/// [`ErrorKind::Runtime`](crate::ErrorKind::Runtime), wherever it is awaited.
pub struct Client<R: Runtime> {
    handle: Arc<Handle<R>>,
}

impl<R: Runtime> Clone for Client<R> {
    fn clone(&self) -> Self {
        Self {
            handle: self.handle.clone(),
        }
    }
}

impl<R: Runtime> std::fmt::Debug for Client<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").finish_non_exhaustive()
    }
}

struct Handle<R: Runtime> {
    shared: Arc<Shared<R>>,
    read_preference: Arc<ReadPreference>,
    options: ClientOptions,
    warnings: Vec<Warning>,
}

impl<R: Runtime> Drop for Handle<R> {
    fn drop(&mut self) {
        let shared = &self.shared;
        shared.with(|inner, now| {
            inner.notice_fork(&shared.runtime, now);
            inner.core.close(now);
        });
        // Sockets are closed by their tasks.
        shared.runtime.run_ready();
    }
}

/// Makes a client step by step.
#[must_use = "a client is made by `build`"]
pub struct ClientBuilder<R: Runtime> {
    runtime: R,
    options: ClientOptions,
    warnings: Vec<Warning>,
    listeners: Vec<EventListener>,
    log: LogOptions,
    seed: Option<Seed>,
    environment: Option<Environment>,
    infos: Vec<DriverInfo>,
}

impl<R: Runtime> ClientBuilder<R> {
    /// Hears all events from the very first.
    pub fn event_listener(mut self, listener: EventListener) -> Self {
        self.listeners.push(listener);
        self
    }

    /// Says which messages go to `tracing`, instead of what the environment variables say (see
    /// [`LogOptions::with_environment`]). Default: all that a subscriber collects.
    ///
    /// The targets are `onionskin::command`, `onionskin::topology`, `onionskin::server_selection`,
    /// `onionskin::connection` and `onionskin::client`. Which messages are collected is asked when
    /// the client is built, so that nothing is made ready for nobody: build clients after the
    /// subscriber is installed, or choose [`LogOptions::with_always_ready`]. Messages are written
    /// by the thread that calls event listeners, to the subscriber that the building thread had, or
    /// where it had none to that of the process; the span of the operation is not entered there.
    pub fn log_options(mut self, options: LogOptions) -> Self {
        self.log = options;
        self
    }

    /// Sets how many bytes of a document, as extended JSON, a log message shows. Default: 1000, or
    /// what `MONGODB_LOG_MAX_DOCUMENT_LENGTH` says.
    pub fn tracing_max_document_length_bytes(mut self, bytes: usize) -> Self {
        self.log = self.log.with_max_document_length_bytes(bytes);
        self
    }

    /// Draws all chance from this seed instead of the system's; for simulations.
    pub fn seed(mut self, seed: Seed) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Tells servers about this environment instead of the process's; for simulations.
    pub fn environment(mut self, environment: Environment) -> Self {
        self.environment = Some(environment);
        self
    }

    /// Names a library that wraps the driver (HELLO-43).
    pub fn driver_info(mut self, info: DriverInfo) -> Self {
        self.infos.push(info);
        self
    }

    /// Starts the client. Does not wait for a server: a deployment that is not there shows in the
    /// first operation (SDAM-33).
    ///
    /// Fails for options that cannot be used, and with
    /// [`ErrorKind::Runtime`](crate::ErrorKind::Runtime) where there is no runtime to carry it.
    pub fn build(self) -> Result<Client<R>, Error> {
        let Self {
            mut runtime,
            mut options,
            mut warnings,
            mut listeners,
            log,
            seed,
            environment,
            infos,
        } = self;
        runtime.prepare()?;
        warnings.extend(uri::without_effect(&options));
        for warning in &warnings {
            trace::tell(&log, &log::warning(warning));
        }
        read_certificates(&mut options)?;
        let seed = match seed {
            Some(seed) => seed,
            None => {
                let mut bytes = [0; 32];
                runtime.entropy(&mut bytes).map_err(|error| {
                    Error::argument(format!("the system gives no randomness: {error}"))
                })?;
                Seed::new(bytes)
            }
        };
        let environment = environment.unwrap_or_else(environment::environment);
        let logged = log.subscriptions(trace::is_collected);
        let subscriptions = if listeners.is_empty() {
            logged
        } else {
            Subscriptions::all()
        };
        if logged != Subscriptions::default() {
            listeners.insert(0, trace::listener(log));
        }
        let ids = ObjectIds::new(&seed, runtime.process_id());
        let config = ClientConfig::with_environment(options.clone(), seed, &environment, &infos)?
            .with_subscriptions(subscriptions);
        let delivery = Delivery::new(listeners, subscriptions);
        let shared = Shared::new(runtime, Core::new(config), delivery, ids);
        let wall = shared.wall_time();
        shared.with(|inner, now| {
            inner.core.set_wall_time(wall);
            inner.core.open(now);
        });
        shared.spawn(timer::run(shared.clone()));
        let read_preference = Arc::new(options.read_preference().clone());
        Ok(Client {
            handle: Arc::new(Handle {
                shared,
                read_preference,
                options,
                warnings,
            }),
        })
    }
}

impl<R: Runtime> Client<R> {
    /// A builder for a client with these options on this runtime.
    pub fn builder(runtime: R, mut options: ClientOptions) -> ClientBuilder<R> {
        if !R::RUNS_IN_BACKGROUND {
            options.set_monitoring(Monitoring::Scanning);
        }
        ClientBuilder {
            runtime,
            options,
            warnings: Vec::new(),
            listeners: Vec::new(),
            log: environment::log_options(),
            seed: None,
            environment: None,
            infos: Vec::new(),
        }
    }

    /// A builder for the client that a connection string describes.
    pub fn builder_from_uri(runtime: R, text: &str) -> Result<ClientBuilder<R>, Error> {
        let monitoring = if R::RUNS_IN_BACKGROUND {
            Monitoring::Background
        } else {
            Monitoring::Scanning
        };
        let parsed = uri::parse_for(text, monitoring)?;
        let mut builder = Self::builder(runtime, parsed.options);
        builder.warnings = parsed.warnings;
        Ok(builder)
    }

    /// A client with the runtime's defaults for a connection string such as
    /// `mongodb://localhost:27017`.
    #[expect(
        clippy::unused_async,
        reason = "names of mongodb+srv strings will be looked up here"
    )]
    pub async fn with_uri_str(text: impl AsRef<str>) -> Result<Self, Error>
    where
        R: Default,
    {
        Self::builder_from_uri(R::default(), text.as_ref())?.build()
    }

    /// A client with these options.
    pub fn with_options(options: ClientOptions) -> Result<Self, Error>
    where
        R: Default,
    {
        Self::builder(R::default(), options).build()
    }

    /// Appends a library that wraps the driver to the metadata that servers are told, after those
    /// that were named before (HELLO-47).
    ///
    /// Connections that are made from now on tell it. For open ones nothing is sent, and none is
    /// opened or closed for it (HELLO-48). A library that was named before with the same version
    /// and platform is not appended again (HELLO-49). The metadata has at most 512 bytes; what
    /// does not fit is left out or cut (HELLO-34).
    ///
    /// Fails if the name is empty, or if a text contains `|`, which separates libraries (HELLO-45).
    #[expect(
        clippy::needless_pass_by_value,
        reason = "as in `ClientBuilder::driver_info`"
    )]
    pub fn append_metadata(&self, info: DriverInfo) -> Result<(), Error> {
        self.shared().lock().core.append_metadata(&info)
    }

    /// A database of the deployment. Nothing is sent for this.
    #[must_use]
    pub fn database(&self, name: &str) -> Database<R> {
        Database::new(self.clone(), name)
    }

    /// Runs a program: an operation of one or more commands for which there is no call here. The
    /// calls of databases and collections are made of programs, too.
    ///
    /// The time limit of the operation is that of the first command that the program starts
    /// ([`Command::set_timeout`](onionskin_core::operation::Command::set_timeout)), otherwise
    /// `timeoutMS`. Limits of later commands are ignored.
    pub fn run_program<P: Program>(&self, program: P) -> Execution<R, P> {
        Execution::new(self.clone(), program)
    }

    /// The database that the connection string names, if it names one.
    #[must_use]
    pub fn default_database(&self) -> Option<Database<R>> {
        self.handle
            .options
            .default_database()
            .map(|name| self.database(name))
    }

    /// What the connection string said that was ignored or is outdated, and which options, however
    /// they were set, have no effect in this version. The same is logged when the client is built.
    #[must_use]
    pub fn warnings(&self) -> &[Warning] {
        &self.handle.warnings
    }

    /// The options in force.
    #[must_use]
    pub fn options(&self) -> &ClientOptions {
        &self.handle.options
    }

    /// The runtime that it works on.
    #[must_use]
    pub fn runtime(&self) -> &R {
        &self.shared().runtime
    }

    /// What is known of the deployment at this moment.
    #[must_use]
    pub fn topology(&self) -> Arc<TopologyDescription> {
        self.shared().lock().core.topology().clone()
    }

    /// Waits until the event listeners have heard what happened so far, two seconds at most.
    ///
    /// Listeners are called apart from operations, so that an event may be heard after the call
    /// that caused it has returned. Tests that look at events call this before they look.
    pub async fn flush_events(&self) {
        self.shared().flush_events().await;
    }

    /// How many events were dropped so far, because listeners or log subscribers did not keep up
    /// ([`EventKind::Dropped`](crate::event::EventKind::Dropped)).
    #[must_use]
    pub fn dropped_events(&self) -> u64 {
        self.shared().delivery.dropped()
    }

    /// How many sockets, exchanges and waiting operations there are.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.shared().lock().core.counts()
    }

    /// Ends sessions on the servers, closes everything, and waits until no task and no socket is
    /// left. Operations that still wait fail; those on a connection come to their end, and their
    /// servers are checked until then, so that one that is lost keeps nobody waiting. An operation
    /// that is held and not polled, such as the next batch of a cursor, is waited for ten seconds
    /// at most. Event listeners have two more seconds to hear of it all.
    ///
    /// Where the future is dropped, the sessions that it was ending are ended in the background;
    /// the client closes with its last handle.
    pub async fn shutdown(self) {
        let shared = self.shared().clone();
        loop {
            let command = shared.with(|inner, now| {
                inner.notice_fork(&shared.runtime, now);
                inner.core.end_sessions()
            });
            let Some(mut command) = command else { break };
            command.set_timeout(Some(END_SESSIONS_TIMEOUT));
            let said = Ending::new(&self, command).await;
            if said.is_err() {
                // The servers end sessions by themselves; there is no use in insisting.
                break;
            }
        }
        shared.with(|inner, now| inner.core.close(now));
        drop(self);
        shared.end().await;
        shared.flush_events().await;
    }

    pub(crate) fn shared(&self) -> &Arc<Shared<R>> {
        &self.handle.shared
    }

    pub(crate) fn read_preference(&self) -> &Arc<ReadPreference> {
        &self.handle.read_preference
    }

    /// Runs a command in a task of its own, whatever becomes of it.
    pub(crate) fn run_in_background(&self, command: Command) {
        let program = Single::new(Ok(command), Nothing);
        self.finish_in_background(Execution::new(self.clone(), program));
    }

    /// Gives what a program held back to the core.
    pub(crate) fn release_cursor(&self, resources: CursorResources) {
        if !resources.is_empty() {
            self.shared()
                .with(|inner, now| inner.core.release_cursor(now, resources));
        }
    }

    fn finish_in_background(&self, execution: Execution<R, Single<Nothing>>) {
        self.shared().spawn(async move {
            let _ = execution.await;
        });
        self.shared().runtime.run_ready();
    }
}

/// The end of a session or a cursor on its server.
///
/// Whoever waits for it may leave: where it is dropped before its end, it goes on in a task of its
/// own, with the time limit that it has.
pub(crate) struct Ending<R: Runtime> {
    client: Client<R>,
    /// `None` once it is over.
    execution: Option<Execution<R, Single<Nothing>>>,
}

impl<R: Runtime> Ending<R> {
    pub(crate) fn new(client: &Client<R>, command: Command) -> Self {
        let program = Single::new(Ok(command), Nothing);
        let execution = Execution::new(client.clone(), program);
        Self {
            client: client.clone(),
            execution: Some(execution),
        }
    }
}

impl<R: Runtime> Future for Ending<R> {
    type Output = Result<(), Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(execution) = &mut self.execution else {
            return Poll::Ready(Ok(()));
        };
        let result = ready!(Pin::new(execution).poll(context));
        self.execution = None;
        Poll::Ready(result)
    }
}

impl<R: Runtime> Drop for Ending<R> {
    fn drop(&mut self) {
        if let Some(execution) = self.execution.take() {
            self.client.finish_in_background(execution);
        }
    }
}

/// How long the goodbye may take.
const END_SESSIONS_TIMEOUT: Duration = Duration::from_secs(2);

/// A reply that nobody reads.
pub(crate) struct Nothing;

impl Decode for Nothing {
    type Output = ();

    fn decode(&mut self, _: &mut Exchange) -> Result<(), Error> {
        Ok(())
    }
}

/// Reads the files that the TLS options name.
fn read_certificates(options: &mut ClientOptions) -> Result<(), Error> {
    let mut tls = options.tls().clone();
    if !tls.enabled {
        return Ok(());
    }
    let read = |option: &'static str, path: &str| {
        std::fs::read(path).map_err(|error| {
            let message = format!("{path} cannot be read: {error}");
            Error::new(ErrorKind::InvalidOption { option, message })
        })
    };
    if let (Some(path), None) = (&tls.ca_file, &tls.ca_pem) {
        tls.ca_pem = Some(read("tlsCAFile", path)?);
    }
    if let (Some(path), None) = (&tls.certificate_key_file, &tls.certificate_key_pem) {
        let option = "tlsCertificateKeyFile";
        let bytes = read(option, path)?;
        let text = String::from_utf8(bytes).map_err(|_| {
            let message = format!("{path} is not a PEM file");
            Error::new(ErrorKind::InvalidOption { option, message })
        })?;
        tls.certificate_key_pem = Some(Secret::new(text));
    }
    options.set_tls(tls);
    Ok(())
}
