//! The client.

use crate::BlockingRuntime;
use onionskin::{ClientBuilder, ClientOptions, Result};
use std::{fmt, ops::Deref};

/// A handle to a deployment, for programs that block.
///
/// It is the client that all adapters have, as [`onionskin::Client`] documents it, and calls are
/// [run](crate::Run) instead of awaited. Nothing happens between calls: no thread keeps watch over
/// the servers. When it is time to, a call looks at them first, one after the other. So finding a
/// server may take as long as such a scan, which bounds each server by `connectTimeoutMS`; with
/// `serverSelectionTryOnce=false`, as long as `serverSelectionTimeoutMS` and a scan. An operation
/// does not wait for the whole scan if it needs the primary of a replica set and the primary has
/// replied. Other operations that a checked server can serve wait for the rest of the scan no
/// longer than `serverSelectionTimeoutMS` or half of their own time limit.
///
/// Threads may share a client, or have clones of it. One of the threads that make a call waits for
/// sockets and time on behalf of all. It delays the others while it runs an event listener,
/// resolves a host name or derives a key (see [`Run`](crate::Run)); give threads that must not wait
/// for that a client of their own.
///
/// # Operations that are awaited
///
/// The client derefs to [`onionskin::Client`], so its operations can also be awaited. Only
/// [`Run::run`](crate::Run::run), [`BlockingRuntime::block_on`] and the iteration over a
/// [`Cursor`](crate::Cursor) wait for sockets and time. An operation that another executor polls
/// makes no progress while no thread is in one of these calls: it neither gets its reply nor
/// reaches its time limit. Asynchronous programs use `onionskin-tokio`, `onionskin-async-std` or
/// `onionskin-smol`.
///
/// In a child that was forked, a client goes on with connections of its own: see [Forking]. Fork
/// between calls, and while no other thread makes one.
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
    /// The client of a connection string such as `mongodb://localhost:27017`. Nothing is sent for
    /// this.
    pub fn with_uri_str(text: impl AsRef<str>) -> Result<Self> {
        let runtime = BlockingRuntime::default();
        let builder = onionskin::Client::builder_from_uri(runtime, text.as_ref())?;
        builder.build().map(Self)
    }

    /// A client with these options. Nothing is sent for this.
    pub fn with_options(options: ClientOptions) -> Result<Self> {
        Self::builder(options).build().map(Self)
    }

    /// A builder for a client with these options; what it builds becomes one of these by `into`.
    pub fn builder(options: ClientOptions) -> ClientBuilder<BlockingRuntime> {
        onionskin::Client::builder(BlockingRuntime::default(), options)
    }

    /// Ends sessions on the servers, and closes everything.
    ///
    /// # Panics
    ///
    /// If it is called by an event listener, while another call is under way.
    pub fn shutdown(self) {
        let runtime = self.runtime().clone();
        runtime.block_on(self.0.shutdown());
    }
}
