//! The client for blocking programs.

use crate::BlockingRuntime;
use onionskin::{ClientBuilder, Result, Shutdown, options::ClientOptions};
use std::{fmt, ops::Deref};

/// A client for one MongoDB deployment, for blocking programs.
///
/// [`onionskin::Client`] documents the methods. Operations are [run](crate::Run) instead of
/// awaited.
///
/// There is no background monitoring: servers are checked on demand. When a check is due, the next
/// operation first checks the servers, one after the other. This scan takes at most
/// `connectTimeoutMS` per server. With `serverSelectionTryOnce=false`, server selection takes at
/// most `serverSelectionTimeoutMS` and one scan.
///
/// An operation that needs the primary of a replica set continues as soon as the primary has
/// replied. Other operations wait for the rest of the scan, even if a server that was already
/// checked is suitable. With such a server, the wait ends at the latest after
/// `serverSelectionTimeoutMS`, or after half of the time limit of the operation.
///
/// Threads can share a client or have clones of it. One of the threads in a call waits for sockets
/// and timers on behalf of all. While that thread calls event listeners or derives a key (see
/// [`Run`](crate::Run)), another one waits for sockets and timers. A thread that must not be
/// delayed needs its own client.
///
/// # Awaiting operations
///
/// The client dereferences to [`onionskin::Client`], so its operations can also be awaited. But
/// only blocking calls, such as [`Run::run`](crate::Run::run), [`BlockingRuntime::block_on`] and
/// the iteration over a [`Cursor`](crate::Cursor), wait for sockets and timers. While no thread is
/// in a blocking call, an operation that another executor polls gets no reply, and its time limit
/// does not take effect. Asynchronous programs should use `onionskin-tokio`, `onionskin-async-std`
/// or `onionskin-smol`.
///
/// After a fork, the client works in the child process with new connections: see [Forking]. Fork
/// only while no thread is in a call.
///
/// [Forking]: onionskin#forking
#[derive(Clone)]
pub struct Client(onionskin::Client<BlockingRuntime>);

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Deref for Client {
    type Target = onionskin::Client<BlockingRuntime>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl From<onionskin::Client<BlockingRuntime>> for Client {
    fn from(client: onionskin::Client<BlockingRuntime>) -> Self {
        Self(client)
    }
}

impl Client {
    /// Creates a client for a connection string such as `mongodb://localhost:27017`. Nothing is
    /// sent to a server.
    ///
    /// Looks up the hosts of a `mongodb+srv` string first, so that a failure of DNS is the error of
    /// this call ([`ClientBuilder::resolve`]).
    ///
    /// ```no_run
    /// use onionskin_blocking::{Client, Run, bson::doc};
    ///
    /// let client = Client::with_uri_str("mongodb://localhost:27017/?timeoutMS=5000")?;
    /// // The first call waits for a server, for five seconds at most.
    /// client.database("admin").run_command(doc! { "ping": 1 }).run()?;
    /// # Ok::<(), onionskin_blocking::Error>(())
    /// ```
    pub fn with_uri_str(text: impl AsRef<str>) -> Result<Self> {
        let runtime = BlockingRuntime::default();
        let builder = onionskin::Client::builder_from_uri(runtime.clone(), text.as_ref())?;
        runtime.block_on(builder.resolve())?.build().map(Self)
    }

    /// Creates a client with these options. Nothing is sent to a server.
    ///
    /// ```no_run
    /// use onionskin_blocking::{Client, options::ClientOptions};
    ///
    /// let mut options: ClientOptions = "mongodb://localhost:27017".parse()?;
    /// options.max_pool_size = Some(20);
    /// let client = Client::with_options(options)?;
    /// # Ok::<(), onionskin_blocking::Error>(())
    /// ```
    pub fn with_options(options: ClientOptions) -> Result<Self> {
        Self::builder(options).build().map(Self)
    }

    /// Creates a builder for a client with these options. Convert the built client to this type
    /// with `into`.
    ///
    /// ```no_run
    /// use onionskin_blocking::{Client, event::{Event, EventKind}, options::ClientOptions};
    /// use std::sync::Arc;
    ///
    /// let options: ClientOptions = "mongodb://localhost:27017".parse()?;
    /// let builder = Client::builder(options).event_listener(Arc::new(|event: &Event| {
    ///     if let EventKind::Sdam(change) = &event.kind {
    ///         println!("{change:?}");
    ///     }
    /// }));
    /// let client: Client = builder.build()?.into();
    /// # Ok::<(), onionskin_blocking::Error>(())
    /// ```
    pub fn builder(options: ClientOptions) -> ClientBuilder<BlockingRuntime> {
        onionskin::Client::builder(BlockingRuntime::default(), options)
    }

    /// Ends the sessions on the servers, closes the client, and waits until its sockets are closed,
    /// with the time limits of [`onionskin::Client::shutdown`].
    ///
    /// ```no_run
    /// use onionskin_blocking::{Client, Run};
    ///
    /// let client = Client::with_uri_str("mongodb://localhost")?;
    /// client.shutdown().run();
    /// # Ok::<(), onionskin_blocking::Error>(())
    /// ```
    pub fn shutdown(self) -> Shutdown<BlockingRuntime> {
        self.0.shutdown()
    }
}
