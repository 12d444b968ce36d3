//! Sessions that applications start.

use crate::{
    Client, Runtime,
    calls::setters,
    futures::StartSessionFuture,
    options::{ClusterTime, SessionOptions, TransactionOptions},
    shared::Shared,
    transaction::EndSession,
};
use bson::{Binary, Document, Timestamp, doc, spec::BinarySubtype};
use onionskin_core::{
    client::SessionId,
    error::Error,
    operation::{Command, CursorResources, SessionTimes},
};
use std::{fmt, future::IntoFuture, sync::Arc, time::Duration};

/// A session: operations that belong together.
///
/// By default a session is causally consistent: its operations see the effects of its earlier
/// operations, on whatever member they run, if its reads and writes have the concern `majority`
/// (Causal Consistency Specification, *Abstract*). Unacknowledged writes take no part in that. All
/// reads of a snapshot session see the data of one point in time.
///
/// A call runs in a session by its method `session`. Operations of one session should run one after
/// the other. The session is for its client only. Dropping it ends it, and its id is used again for
/// later sessions.
///
/// ```no_run
/// # use onionskin::{Client, Error, Runtime, bson::{Document, doc}};
/// # async fn example<R: Runtime>(client: Client<R>) -> Result<(), Error> {
/// let people = client.database("app").collection::<Document>("people");
/// let mut session = client.start_session().await?;
/// people.insert_one(doc! { "name": "Ada" }).session(&mut session).await?;
/// let ada = people.find_one(doc! { "name": "Ada" }).session(&mut session).await?;
/// # Ok(())
/// # }
/// ```
pub struct ClientSession<R: Runtime> {
    client: Client<R>,
    session: SessionId,
    id: Document,
    options: SessionOptions,
}

impl<R: Runtime> fmt::Debug for ClientSession<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientSession")
            .field("id", &self.id)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl<R: Runtime> ClientSession<R> {
    fn start(client: &Client<R>, options: SessionOptions) -> Result<Self, Error> {
        let shared = client.shared();
        let started = shared.with(|inner, now| {
            inner.notice_fork(shared, now);
            inner.core.start_session(now, &options)
        })?;
        let bytes = started.wire_id.to_vec();
        let subtype = BinarySubtype::Uuid;
        Ok(Self {
            client: client.clone(),
            session: started.id,
            id: doc! { "id": Binary { subtype, bytes } },
            options,
        })
    }

    /// Returns the client of the session.
    ///
    /// ```no_run
    /// # use onionskin::{ClientSession, Error, Runtime, bson::{Document, doc}};
    /// # async fn example<R: Runtime>(mut session: ClientSession<R>) -> Result<(), Error> {
    /// let people = session.client().database("app").collection::<Document>("people");
    /// people.insert_one(doc! { "name": "Ada" }).session(&mut session).await?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn client(&self) -> Client<R> {
        self.client.clone()
    }

    pub(crate) fn runtime(&self) -> &R {
        self.client.runtime()
    }

    pub(crate) fn shared(&self) -> &Arc<Shared<R>> {
        self.client.shared()
    }

    /// Returns the id that commands send as `lsid`.
    ///
    /// ```no_run
    /// # use onionskin::{Client, Error, Runtime};
    /// # async fn example<R: Runtime>(client: Client<R>) -> Result<(), Error> {
    /// let session = client.start_session().await?;
    /// // `$currentOp` shows the same id as the `lsid` of the operations of this session.
    /// println!("the orders of today are counted in the session {}", session.id());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub const fn id(&self) -> &Document {
        &self.id
    }

    /// Returns the options with which the session was started.
    ///
    /// ```no_run
    /// # use onionskin::{Client, Error, Runtime};
    /// # async fn example<R: Runtime>(client: Client<R>) -> Result<(), Error> {
    /// let session = client.start_session().snapshot(true).await?;
    /// assert_eq!(session.options().snapshot, Some(true));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub const fn options(&self) -> &SessionOptions {
        &self.options
    }

    /// Returns the latest cluster time that the session has seen; `None` before the first reply
    /// that has one.
    ///
    /// ```no_run
    /// # use onionskin::{ClientSession, Runtime};
    /// # fn example<R: Runtime>(writer: ClientSession<R>, mut reader: ClientSession<R>) {
    /// // The sessions can be of two clients.
    /// if let Some(time) = writer.cluster_time() {
    ///     reader.advance_cluster_time(time);
    /// }
    /// # }
    /// ```
    #[must_use]
    pub fn cluster_time(&self) -> Option<Arc<ClusterTime>> {
        self.times().cluster
    }

    /// Returns the latest operation time that the session has seen; `None` before the first reply
    /// that has one.
    ///
    /// ```no_run
    /// # use onionskin::{ClientSession, Collection, Error, Runtime, bson::{Document, doc}};
    /// # async fn example<R: Runtime>(
    /// #     people: Collection<R, Document>, mut session: ClientSession<R>,
    /// # ) -> Result<(), Error> {
    /// people.insert_one(doc! { "name": "Ada" }).session(&mut session).await?;
    /// // The changes since the insert, also those of other clients.
    /// if let Some(time) = session.operation_time() {
    ///     let mut changes = people.watch().start_at_operation_time(time).await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn operation_time(&self) -> Option<Timestamp> {
        self.times().operation
    }

    /// Returns the time of the reads of a snapshot session; `None` before its first read, and for
    /// other sessions.
    ///
    /// ```no_run
    /// # use onionskin::{Client, Error, Runtime, bson::{Document, doc}};
    /// # async fn example<R: Runtime>(client: Client<R>) -> Result<(), Error> {
    /// let orders = client.database("shop").collection::<Document>("orders");
    /// let mut first = client.start_session().snapshot(true).await?;
    /// let count = orders.count_documents(doc! {}).session(&mut first).await?;
    /// if let Some(time) = first.snapshot_time() {
    ///     // This session sees the same orders, also while others are added.
    ///     let second = client.start_session().snapshot(true).snapshot_time(time).await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn snapshot_time(&self) -> Option<Timestamp> {
        self.times().snapshot
    }

    /// True if a command of the session got no reply, for example after a network error: the server
    /// may still work on it. The id of such a session is not used again after its end (Driver
    /// Sessions Specification, *Server Session Pool*).
    ///
    /// ```no_run
    /// # use onionskin::{ClientSession, Collection, Error, Runtime, bson::{Document, doc}};
    /// # async fn example<R: Runtime>(
    /// #     people: Collection<R, Document>, mut session: ClientSession<R>,
    /// # ) -> Result<(), Error> {
    /// let result = people.insert_one(doc! { "name": "Ada" }).session(&mut session).await;
    /// if result.is_err() && session.is_dirty() {
    ///     println!("a command of the session may still run on the server");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn is_dirty(&self) -> bool {
        self.client
            .shared()
            .lock()
            .core
            .is_session_dirty(self.session)
    }

    fn times(&self) -> SessionTimes {
        let inner = self.client.shared().lock();
        inner.core.session_times(self.session).unwrap_or_default()
    }

    /// Raises the cluster time of the session to that of another session, for example of another
    /// client. Does nothing if it is not later.
    ///
    /// ```no_run
    /// # use onionskin::{ClientSession, Runtime};
    /// # fn example<R: Runtime>(other: ClientSession<R>, mut session: ClientSession<R>) {
    /// // The sessions can be of two clients.
    /// if let Some(time) = other.cluster_time() {
    ///     session.advance_cluster_time(time);
    /// }
    /// # }
    /// ```
    pub fn advance_cluster_time(&mut self, to: impl AsRef<ClusterTime>) {
        // Code of the application runs without the lock, because it can call the client.
        let to = to.as_ref();
        let mut inner = self.client.shared().lock();
        inner.core.advance_cluster_time(self.session, to);
    }

    /// Raises the operation time of the session to that of another session: reads of a causally
    /// consistent session then see the effects of that session. Does nothing if it is not later.
    ///
    /// ```no_run
    /// # use onionskin::{ClientSession, Runtime};
    /// # fn example<R: Runtime>(writer: ClientSession<R>, mut reader: ClientSession<R>) {
    /// // From now on, `reader` sees the writes of `writer`.
    /// if let (Some(cluster), Some(operation)) = (writer.cluster_time(), writer.operation_time()) {
    ///     reader.advance_cluster_time(cluster);
    ///     reader.advance_operation_time(operation);
    /// }
    /// # }
    /// ```
    pub fn advance_operation_time(&mut self, to: Timestamp) {
        let mut inner = self.client.shared().lock();
        inner.core.advance_operation_time(self.session, to);
    }

    /// Ends the session. If a transaction is in progress, aborts it first. Dropping the session
    /// does the same in the background.
    ///
    /// # Errors
    ///
    /// Fails if the time limit passes before the server has aborted
    /// ([`Error::is_timeout`]); all other errors of the abort are ignored, because servers abort by
    /// themselves what they are not told to commit. The session has ended in any case.
    ///
    /// ```no_run
    /// # use onionskin::{Client, Error, Runtime, bson::{Document, doc}};
    /// # async fn example<R: Runtime>(client: Client<R>) -> Result<(), Error> {
    /// let orders = client.database("shop").collection::<Document>("orders");
    /// let mut session = client.start_session().await?;
    /// session.start_transaction().await?;
    /// orders.insert_one(doc! { "item": "pen" }).session(&mut session).await?;
    /// session.end().await?; // The transaction was not committed, so there is no such order.
    /// # Ok(())
    /// # }
    /// ```
    pub const fn end(self) -> EndSession<R> {
        EndSession::new(self)
    }

    /// Returns what a call keeps of its session.
    pub(crate) fn used_by(&self, client: &Client<R>) -> UsedSession {
        match Arc::ptr_eq(self.client.shared(), client.shared()) {
            true => UsedSession::Of(self.session),
            false => UsedSession::Foreign,
        }
    }

    pub(crate) const fn key(&self) -> SessionId {
        self.session
    }
}

impl<R: Runtime> Drop for ClientSession<R> {
    fn drop(&mut self) {
        self.client
            .release_cursor(CursorResources::of_session(self.session));
    }
}

/// The type of a call outside of sessions that the application has started.
#[derive(Debug)]
pub enum ImplicitSession {}

/// The type of a call in a session that the application has started.
#[derive(Debug)]
pub enum ExplicitSession {}

/// The session in which a call runs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum UsedSession {
    Of(SessionId),
    /// The session belongs to another client.
    Foreign,
}

impl UsedSession {
    /// Returns the session. Fails if it belongs to another client.
    pub(crate) fn checked(self) -> Result<SessionId, Error> {
        match self {
            Self::Of(session) => Ok(session),
            Self::Foreign => Err(Error::argument(
                "the session belongs to another client; start one with the client of the call",
            )),
        }
    }

    /// Makes a command run in the session of its call, if the call has one.
    pub(crate) fn apply(
        session: Option<Self>,
        command: Result<Command, Error>,
    ) -> Result<Command, Error> {
        let mut command = command?;
        if let Some(session) = session {
            command.use_explicit_session(session.checked()?);
        }
        Ok(command)
    }
}

/// A `start_session` that runs when it is awaited. Nothing is sent to a server.
///
/// ```no_run
/// # use onionskin::{Client, Error, Runtime, bson::{Document, doc}};
/// use onionskin::options::{TransactionOptions, WriteConcern};
/// use std::time::Duration;
///
/// # async fn example<R: Runtime>(client: Client<R>) -> Result<(), Error> {
/// let durable = TransactionOptions::builder().write_concern(WriteConcern::majority()).build();
/// // Reads on a secondary need not wait until it has the latest writes of the session.
/// let mut session = client
///     .start_session()
///     .causal_consistency(false)
///     .default_transaction_options(durable)
///     .default_timeout(Duration::from_secs(5))
///     .await?;
///
/// let orders = client.database("shop").collection::<Document>("orders");
/// let mut report = client.start_session().snapshot(true).await?;
/// let count = orders.count_documents(doc! {}).session(&mut report).await?;
/// // Orders that were added meanwhile are not seen.
/// let mut all = orders.find(doc! {}).session(&mut report).await?;
///
/// // Another session, which sees the same data.
/// if let Some(time) = report.snapshot_time() {
///     let mut other = client.start_session().snapshot(true).snapshot_time(time).await?;
/// }
/// # Ok(())
/// # }
/// ```
#[must_use = "a call runs when it is awaited"]
pub struct StartSession<'a, R: Runtime> {
    client: &'a Client<R>,
    options: Option<Box<SessionOptions>>,
}

impl<'a, R: Runtime> StartSession<'a, R> {
    pub(crate) const fn new(client: &'a Client<R>) -> Self {
        Self {
            client,
            options: None,
        }
    }
}

onionskin_core::session_options! {
    setters [R: Runtime] [StartSession<'_, R>] [
        /// ```no_run
        /// # use onionskin::{Client, Error, Runtime};
        /// use onionskin::options::SessionOptions;
        /// use std::time::Duration;
        ///
        /// # async fn example<R: Runtime>(client: Client<R>) -> Result<(), Error> {
        /// let limit = Duration::from_secs(5);
        /// let options = SessionOptions::builder().default_timeout(limit).build();
        /// let start = client.start_session().with_options(options);
        /// let session = start.causal_consistency(false).await?;
        /// # Ok(())
        /// # }
        /// ```
    ]
}

impl<R: Runtime> IntoFuture for StartSession<'_, R> {
    type Output = Result<ClientSession<R>, Error>;
    type IntoFuture = StartSessionFuture<R>;

    fn into_future(self) -> Self::IntoFuture {
        let options = self
            .options
            .map_or_else(SessionOptions::default, |options| *options);
        let session = ClientSession::start(self.client, options);
        StartSessionFuture::new(self.client.clone(), session)
    }
}
