//! The client, generic over its runtime.

mod builder;
mod facts;
mod resolve;

pub use builder::ClientBuilder;

use crate::{
    BulkWrite, Database, Execution, ListDatabaseNames, ListDatabases, Runtime, Shutdown,
    StartSession, WarmConnectionPool, environment, resolver::Resolvers, shared::Shared, timer,
};
use onionskin_core::{
    client::DriverInfo,
    error::Error,
    operation::{
        ABANDON_LIMIT, Command, CursorResources, Decode, Exchange, Program, Single,
        crud::{DatabaseOptions, Defaults, WriteModel},
    },
    options::{ClientOptions, Monitoring, Warning},
    uri,
};
use std::{
    future::Future,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, ready},
};

/// A client for one MongoDB deployment, with server discovery, monitoring and connection pools.
///
/// Cloning is cheap, and clones share all state. The client closes when its last clone and every
/// object that was created from it are dropped. [`shutdown`](Self::shutdown) closes the client and
/// waits until its tasks have ended.
///
/// The tasks of a client run on the runtime in which the client was created. When that runtime
/// ends, every operation fails at once with
/// [`ErrorKind::Runtime`](crate::error::ErrorKind::Runtime), also operations that are awaited on
/// another runtime.
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

pub(crate) struct Handle<R: Runtime> {
    shared: Arc<Shared<R>>,
    defaults: Arc<Defaults>,
    options: ClientOptions,
    warnings: Vec<Warning>,
}

impl<R: Runtime> Drop for Handle<R> {
    fn drop(&mut self) {
        let shared = &self.shared;
        shared.with(|inner, now| {
            inner.notice_fork(shared, now);
            inner.core.close(now);
        });
        shared.hosts.close();
        // The tasks that have sockets must run to close them.
        shared.runtime.run_ready();
    }
}

impl<R: Runtime> Shared<R> {
    /// Returns the client; `None` once its last handle was dropped.
    pub(crate) fn client(&self) -> Option<Client<R>> {
        let handle = self.handle.get()?.upgrade()?;
        Some(Client { handle })
    }
}

impl<R: Runtime> Client<R> {
    /// Creates a builder for a client with these options on this runtime. If tasks of the runtime
    /// do not run in the background ([`Runtime::RUNS_IN_BACKGROUND`]), the client checks its
    /// servers on demand.
    ///
    /// ```no_run
    /// # use onionskin::{Client, Error, Runtime, options::ClientOptions};
    /// # async fn example<R: Runtime + Default>() -> Result<(), Error> {
    /// let mut options = ClientOptions::parse("mongodb+srv://cluster.example.net").await?;
    /// options.app_name = Some("shop".to_owned());
    /// let client = Client::builder(R::default(), options).resolve().await?.build()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn builder(runtime: R, mut options: ClientOptions) -> ClientBuilder<R> {
        if !R::RUNS_IN_BACKGROUND {
            options.scan_on_demand();
        }
        ClientBuilder {
            runtime,
            start: None,
            options,
            listeners: Vec::new(),
            log: environment::log_options(),
            seed: None,
            environment: None,
            resolvers: Resolvers::default(),
            recording: None,
            failure_file: None,
            logged_warnings: 0,
        }
    }

    /// Creates a builder for a client with the options of a connection string.
    ///
    /// ```no_run
    /// # use onionskin::{Client, Error, Runtime};
    /// # fn example<R: Runtime + Default>() -> Result<(), Error> {
    /// let builder = Client::builder_from_uri(R::default(), "mongodb://localhost:27017")?;
    /// let client = builder.build()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn builder_from_uri(runtime: R, text: &str) -> Result<ClientBuilder<R>, Error> {
        let monitoring = if R::RUNS_IN_BACKGROUND {
            Monitoring::Background
        } else {
            Monitoring::Scanning
        };
        let parsed = uri::parse_for(text, monitoring)?;
        Ok(Self::builder(runtime, parsed.into_options()))
    }

    /// Creates a client for a connection string such as `mongodb://localhost:27017`, with the
    /// default runtime of type `R`.
    ///
    /// Looks up the hosts of a `mongodb+srv` string first, so that a failure of DNS is the error of
    /// this call ([`ClientBuilder::resolve`]). Does not wait for a server.
    ///
    /// ```no_run
    /// # use onionskin::{Client, Error, Runtime, bson::doc};
    /// # async fn example<R: Runtime + Default>() -> Result<(), Error> {
    /// let client = Client::<R>::with_uri_str("mongodb://localhost:27017/?timeoutMS=5000").await?;
    /// // The first call waits for a server, for five seconds at most.
    /// client.database("admin").run_command(doc! { "ping": 1 }).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn with_uri_str(text: impl AsRef<str>) -> Result<Self, Error>
    where
        R: Default,
    {
        let builder = Self::builder_from_uri(R::default(), text.as_ref())?;
        builder.resolve().await?.build()
    }

    /// Creates a client with these options, with the default runtime of type `R`. The hosts of a
    /// `mongodb+srv` string are looked up afterwards, as [`ClientBuilder::build`] describes.
    ///
    /// ```no_run
    /// # use onionskin::{Client, Error, Runtime, options::ClientOptions};
    /// # fn example<R: Runtime + Default>() -> Result<Client<R>, Error> {
    /// let mut options: ClientOptions = "mongodb://localhost:27017".parse()?;
    /// options.max_pool_size = Some(20);
    /// Client::with_options(options)
    /// # }
    /// ```
    pub fn with_options(options: ClientOptions) -> Result<Self, Error>
    where
        R: Default,
    {
        Self::builder(R::default(), options).build()
    }

    /// Appends a library that wraps the driver to the client metadata. Libraries that were added
    /// before stay in front of it ([HELLO-47]).
    ///
    /// The change applies to connections that are created later. Nothing is sent on open
    /// connections, and no connection is opened or closed ([HELLO-48]).
    ///
    /// A driver info with the same name, version and platform as an earlier one is not appended
    /// again. Nothing is appended if the metadata has 64 libraries already. The metadata is limited
    /// to 512 bytes: fields that do not fit are omitted or cut ([HELLO-49], [HELLO-34]).
    ///
    /// Fails if the name is empty, or if a text contains the separator `|` ([HELLO-45]).
    ///
    /// ```no_run
    /// # use onionskin::{Client, Error, Runtime, options::DriverInfo};
    /// # fn example<R: Runtime>(client: Client<R>) -> Result<(), Error> {
    /// let mut wrapper = DriverInfo::new("my-object-mapper");
    /// wrapper.version = Some("1.2".to_owned());
    /// client.append_metadata(wrapper)
    /// # }
    /// ```
    ///
    /// [HELLO-47]: onionskin_core::requirements::handshake#HELLO-47
    /// [HELLO-48]: onionskin_core::requirements::handshake#HELLO-48
    /// [HELLO-49]: onionskin_core::requirements::handshake#HELLO-49
    /// [HELLO-34]: onionskin_core::requirements::handshake#HELLO-34
    /// [HELLO-45]: onionskin_core::requirements::handshake#HELLO-45
    #[expect(
        clippy::needless_pass_by_value,
        reason = "as in `ClientBuilder::driver_info`"
    )]
    pub fn append_metadata(&self, info: DriverInfo) -> Result<(), Error> {
        self.shared().lock().core.append_metadata(&info)
    }

    /// Returns a handle to a database. Nothing is sent to a server.
    ///
    /// ```no_run
    /// # use onionskin::{Client, Runtime, bson::Document};
    /// # fn example<R: Runtime>(client: Client<R>) {
    /// let orders = client.database("shop").collection::<Document>("orders");
    /// # }
    /// ```
    #[must_use]
    pub fn database(&self, name: &str) -> Database<R> {
        Database::new(self.clone(), name, DatabaseOptions::default())
    }

    /// Returns a handle of a database with options of its own. Nothing is sent to a server.
    ///
    /// ```no_run
    /// # use onionskin::{Client, Runtime};
    /// use onionskin::options::{DatabaseOptions, ReadConcern};
    ///
    /// # fn example<R: Runtime>(client: Client<R>) {
    /// let options = DatabaseOptions::builder().read_concern(ReadConcern::majority()).build();
    /// let app = client.database_with_options("app", options);
    /// # }
    /// ```
    #[must_use]
    pub fn database_with_options(&self, name: &str, options: DatabaseOptions) -> Database<R> {
        Database::new(self.clone(), name, options)
    }

    /// Lists the databases of the deployment.
    ///
    /// ```no_run
    /// # use onionskin::{Client, Error, Runtime};
    /// # async fn example<R: Runtime>(client: Client<R>) -> Result<(), Error> {
    /// for database in client.list_databases().await? {
    ///     println!("{}: {} bytes", database.name, database.size_on_disk);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn list_databases(&self) -> ListDatabases<'_, R> {
        ListDatabases::new(self)
    }

    /// Lists the names of the databases of the deployment.
    ///
    /// ```no_run
    /// # use onionskin::{Client, Error, Runtime};
    /// # async fn example<R: Runtime>(client: Client<R>) -> Result<(), Error> {
    /// let names = client.list_database_names().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn list_database_names(&self) -> ListDatabaseNames<'_, R> {
        ListDatabaseNames::new(self)
    }

    /// Runs inserts, updates and deletes in any collections. Needs server 8.0.
    ///
    /// ```no_run
    /// # use onionskin::{Client, Error, Namespace, Runtime, bson::doc};
    /// use onionskin::options::{DeleteManyModel, InsertOneModel, WriteModel};
    ///
    /// # async fn example<R: Runtime>(client: Client<R>) -> Result<(), Error> {
    /// let people = Namespace::new("app", "people");
    /// let log = Namespace::new("app", "log");
    /// let insert = InsertOneModel::builder().namespace(people).document(doc! { "name": "Ada" });
    /// let delete = DeleteManyModel::builder().namespace(log).filter(doc! { "old": true });
    /// let operations: [WriteModel; 2] = [insert.build().into(), delete.build().into()];
    /// let result = client.bulk_write(operations).await?;
    /// println!("{} inserted, {} deleted", result.inserted_count, result.deleted_count);
    /// # Ok(())
    /// # }
    /// ```
    pub fn bulk_write(
        &self,
        models: impl IntoIterator<Item = impl Into<WriteModel>>,
    ) -> BulkWrite<'_, R> {
        BulkWrite::new(self, models)
    }

    /// Starts a session. Nothing is sent to a server.
    ///
    /// Fails for options that exclude each other.
    ///
    /// ```no_run
    /// # use onionskin::{Client, Error, Runtime, bson::{Document, doc}};
    /// # async fn example<R: Runtime>(client: Client<R>) -> Result<(), Error> {
    /// let people = client.database("app").collection::<Document>("people");
    /// let mut session = client.start_session().await?;
    /// people.insert_one(doc! { "name": "Ada" }).session(&mut session).await?;
    /// // A read of the session sees its write, also on a secondary.
    /// let ada = people.find_one(doc! { "name": "Ada" }).session(&mut session).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn start_session(&self) -> StartSession<'_, R> {
        StartSession::new(self)
    }

    /// Runs a program: an operation of one or more commands. The operations of [`Database`] and
    /// [`Collection`](crate::Collection) are programs as well.
    ///
    /// The time limit of the operation is that of the first step of the program
    /// ([`Command::set_timeout`](onionskin_core::operation::Command::set_timeout)), or else
    /// `timeoutMS` of the client. Time limits of later commands are ignored.
    ///
    /// ```no_run
    /// # use onionskin::{Client, Error, Runtime, program::Program};
    /// # async fn example<R: Runtime, P: Program>(
    /// #     client: Client<R>, pings: P,
    /// # ) -> Result<(), Error> {
    /// // The trait `Program` shows how to write one.
    /// client.run_program(pings).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn run_program<P: Program>(&self, program: P) -> Execution<R, P> {
        Execution::new(self.clone(), program)
    }

    /// Returns a handle to the database of the connection string; `None` if it has none.
    ///
    /// ```no_run
    /// # use onionskin::{Client, Error, Runtime};
    /// # async fn example<R: Runtime + Default>() -> Result<(), Error> {
    /// let client = Client::<R>::with_uri_str("mongodb://localhost/shop").await?;
    /// let shop = client.default_database().expect("the string names it");
    /// assert_eq!(shop.name(), "shop");
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn default_database(&self) -> Option<Database<R>> {
        self.handle
            .options
            .default_database
            .as_deref()
            .map(|name| self.database(name))
    }

    /// Ends the sessions on the servers, closes the client, and waits until its tasks have ended
    /// and its sockets are closed, for ten seconds at most. With their sessions, servers end the
    /// cursors that are still open; MongoDB does so within five minutes. With
    /// [`immediate(true)`](Shutdown::immediate) the call does not wait for operations and tasks.
    ///
    /// Operations that wait for a server or a connection fail. Operations on a connection run to
    /// their end. A client with background monitoring checks their servers meanwhile, so that the
    /// loss of a server is noticed. The limit of ten seconds matters, for example, for an operation
    /// whose future is kept but not polled, such as the next batch of a cursor. After this wait,
    /// event listeners get up to two seconds for the remaining events. Each command that ends
    /// sessions has a time limit of two seconds.
    ///
    /// If the future is dropped early, a running command that ends sessions continues in the
    /// background. If the client is not closed by then, it closes when its last handle is dropped.
    ///
    /// ```no_run
    /// # use onionskin::{Client, Runtime};
    /// # async fn example<R: Runtime>(client: Client<R>) {
    /// client.shutdown().await;
    /// # }
    /// ```
    pub const fn shutdown(self) -> Shutdown<R> {
        Shutdown::new(self)
    }

    /// Waits until the connection pool of each server has `minPoolSize` connections, so that the
    /// first operations need not wait for new ones. Does nothing if `minPoolSize` is zero, which is
    /// the default.
    ///
    /// Pools are filled in the background in any case; the call only waits for that. It first waits
    /// for the first check of each server. It does not wait for the pool of a server that cannot be
    /// reached, and ends after `serverSelectionTimeoutMS` at the latest. A pool is emptied again
    /// when its server fails, so nothing guarantees that it stays full. A client without background
    /// monitoring first sends a `ping`, and only fills the pools of the servers that it has checked
    /// for it (CMAP, *Populating the Pool with a Connection Until minPoolSize*).
    ///
    /// ```no_run
    /// # use onionskin::{Client, Error, Runtime};
    /// # async fn example<R: Runtime + Default>() -> Result<(), Error> {
    /// let client = Client::<R>::with_uri_str("mongodb://localhost/?minPoolSize=10").await?;
    /// client.warm_connection_pool().await;
    /// # Ok(())
    /// # }
    /// ```
    pub const fn warm_connection_pool(&self) -> WarmConnectionPool<'_, R> {
        WarmConnectionPool::new(self)
    }

    pub(crate) fn shared(&self) -> &Arc<Shared<R>> {
        &self.handle.shared
    }

    /// Returns the client itself, as the other handles return theirs.
    pub(crate) const fn client(&self) -> &Self {
        self
    }

    pub(crate) fn defaults(&self) -> &Arc<Defaults> {
        &self.handle.defaults
    }

    /// Runs a command in its own task and ignores the result.
    pub(crate) fn run_in_background(&self, command: Command) {
        let program = Single::new(Ok(command), IgnoredReply);
        self.finish_in_background(Execution::new(self.clone(), program));
    }

    /// Gives the session and the pin of a cursor back to the core.
    pub(crate) fn release_cursor(&self, resources: CursorResources) {
        if !resources.is_empty() {
            let shared = self.shared();
            shared.with(|inner, now| {
                // The child of a fork must not abort a transaction of its parent.
                inner.notice_fork(shared, now);
                inner.core.release_cursor(now, resources);
            });
        }
    }

    fn finish_in_background(&self, execution: Execution<R, Single<IgnoredReply>>) {
        let shared = self.shared().clone();
        self.shared().spawn_cleanup(async move {
            let mut execution = pin!(execution);
            let limit = shared.runtime.sleep(ABANDON_LIMIT);
            timer::until(limit, |context| execution.as_mut().poll(context)).await;
        });
    }
}

/// An operation that ends sessions or a cursor on their server.
///
/// If the future is dropped early, the operation continues in its own task, with its own time limit
/// and for [`ABANDON_LIMIT`] at most.
pub(crate) struct EndCommand<R: Runtime> {
    client: Client<R>,
    /// The operation; `None` after it has ended.
    execution: Option<Execution<R, Single<IgnoredReply>>>,
}

impl<R: Runtime> EndCommand<R> {
    pub(crate) fn new(client: &Client<R>, command: Command) -> Self {
        let program = Single::new(Ok(command), IgnoredReply);
        let execution = Execution::new(client.clone(), program);
        Self {
            client: client.clone(),
            execution: Some(execution),
        }
    }
}

impl<R: Runtime> Future for EndCommand<R> {
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

impl<R: Runtime> Drop for EndCommand<R> {
    fn drop(&mut self) {
        if let Some(execution) = self.execution.take() {
            self.client.finish_in_background(execution);
        }
    }
}

/// A decoder that ignores the reply.
pub(crate) struct IgnoredReply;

impl Decode for IgnoredReply {
    type Output = ();

    fn decode(&mut self, _: &mut Exchange) -> Result<(), Error> {
        Ok(())
    }
}
