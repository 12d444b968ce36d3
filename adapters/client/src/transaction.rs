//! Transactions: their start, commit and abort, and runs that repeat them.

mod end;
mod repeated;

use crate::{
    ClientSession, Runtime,
    calls::setters,
    options::{ReadConcern, SelectionCriteria, ServerAddress, TransactionOptions, WriteConcern},
};
pub use end::{
    AbortTransaction, AbortTransactionFuture, CommitTransaction, CommitTransactionFuture,
    EndSession, EndSessionFuture,
};
use futures_util::future::BoxFuture;
use onionskin_core::error::Error;
pub use onionskin_core::operation::TransactionState;
pub use repeated::RepeatedTransaction;
use std::{
    future::{Future, IntoFuture},
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

/// A `start_transaction` that runs when it is awaited. Nothing is sent to a server: the next
/// operation of the session starts the transaction there.
///
/// ```no_run
/// # use onionskin::{ClientSession, Error, Runtime};
/// use onionskin::options::{ReadConcern, ReadPreference, WriteConcern};
/// use std::time::Duration;
///
/// # async fn example<R: Runtime>(mut session: ClientSession<R>) -> Result<(), Error> {
/// session
///     .start_transaction()
///     .read_concern(ReadConcern::snapshot())
///     .write_concern(WriteConcern::majority())
///     .selection_criteria(ReadPreference::Primary.into())
///     .max_commit_time(Duration::from_secs(5))
///     .await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "a call runs when it is awaited"]
pub struct StartTransaction<'a, R: Runtime> {
    session: &'a mut ClientSession<R>,
    options: Option<Box<TransactionOptions>>,
    /// The time limit of a run.
    timeout: Option<Duration>,
}

impl<'a, R: Runtime> StartTransaction<'a, R> {
    pub(crate) const fn new(session: &'a mut ClientSession<R>) -> Self {
        Self {
            session,
            options: None,
            timeout: None,
        }
    }

    /// Sets the time limit of [`and_run2`](Self::and_run2) and [`and_run`](Self::and_run). Zero
    /// means no limit. Default: that of the session, then `timeoutMS` of the client, then 120 s. A
    /// transaction that is only started fails with a time limit, because its start sends nothing.
    /// The calls in it, its commit and its abort have time limits of their own.
    ///
    /// ```no_run
    /// # use onionskin::{ClientSession, Error, Runtime};
    /// # async fn example<R: Runtime>(mut session: ClientSession<R>) -> Result<(), Error> {
    /// use std::time::Duration;
    ///
    /// let start = session.start_transaction().timeout(Duration::from_secs(10));
    /// start.and_run2(async |_session| Ok(())).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Runs a transaction until it succeeds: starts it, calls `callback`, commits it, and repeats
    /// all of that after an error with the label `TransientTransactionError`, or the commit after
    /// one with `UnknownTransactionCommitResult` (Convenient API for Transactions). Between two
    /// attempts it pauses for up to half a second.
    ///
    /// Returns what `callback` returns. If `callback` ends the transaction itself, nothing is
    /// committed. If it fails, the transaction is aborted. The run ends after 120 s, or after the
    /// time limit of the session or the client, which then limits all operations of the session: a
    /// time limit of one of them is an error. It does not limit operations outside of the session.
    ///
    /// `callback` may run many times, so its effects outside of the transaction can happen many
    /// times as well. To handle errors in another way, call `commit_transaction` and
    /// `abort_transaction` yourself. `callback` has to pass the session to each operation of the
    /// transaction, and to return the errors of the server: some abort the transaction there, and
    /// the commit of such a transaction fails, so that everything is repeated. If this future is
    /// dropped, the transaction stays open until it is aborted or the session is dropped.
    ///
    /// ```no_run
    /// # use onionskin::{Client, Error, Runtime, bson::{Document, doc}};
    /// # async fn example<R: Runtime>(client: Client<R>) -> Result<(), Error> {
    /// let accounts = client.database("bank").collection::<Document>("accounts");
    /// let mut session = client.start_session().await?;
    /// let transfer = async |session: &mut _| {
    ///     let (from, to) = (doc! { "_id": "Ada" }, doc! { "_id": "Grace" });
    ///     accounts.update_one(from, doc! { "$inc": { "sum": -5 } }).session(&mut *session).await?;
    ///     accounts.update_one(to, doc! { "$inc": { "sum": 5 } }).session(&mut *session).await?;
    ///     Ok(())
    /// };
    /// session.start_transaction().and_run2(transfer).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn and_run2<T, F>(self, mut callback: F) -> Result<T, Error>
    where
        F: AsyncFnMut(&mut ClientSession<R>) -> Result<T, Error>,
    {
        let mut run = RepeatedTransaction::begin(self);
        loop {
            run.start().await?;
            let result = callback(run.session()).await;
            if let Some(value) = run.end(result).await? {
                return Ok(value);
            }
        }
    }

    /// Runs a transaction until it succeeds, as [`and_run2`](Self::and_run2) does. This form is for
    /// callbacks whose future has to be boxed, so that it can be sent between threads although it
    /// borrows the session and `context`.
    ///
    /// ```no_run
    /// # use onionskin::{Client, Collection, Error, Runtime, bson::{Document, doc}};
    /// # async fn example<R: Runtime>(client: Client<R>) -> Result<(), Error> {
    /// let log = client.database("app").collection::<Document>("log");
    /// let mut session = client.start_session().await?;
    /// let run = session.start_transaction().and_run(log, |session, log| {
    ///     Box::pin(async move {
    ///         log.insert_one(doc! { "text": "started" }).session(session).await?;
    ///         Ok(())
    ///     })
    /// });
    /// run.await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn and_run<T, C, F>(self, mut context: C, mut callback: F) -> Result<T, Error>
    where
        F: for<'b> FnMut(&'b mut ClientSession<R>, &'b mut C) -> BoxFuture<'b, Result<T, Error>>,
    {
        let mut run = RepeatedTransaction::begin(self);
        loop {
            run.start().await?;
            let result = callback(run.session(), &mut context).await;
            if let Some(value) = run.end(result).await? {
                return Ok(value);
            }
        }
    }
}

onionskin_core::transaction_options! {
    setters [R: Runtime] [StartTransaction<'_, R>] [
        /// ```no_run
        /// # use onionskin::{ClientSession, Error, Runtime};
        /// use onionskin::options::{ReadConcern, TransactionOptions, WriteConcern};
        ///
        /// # async fn example<R: Runtime>(mut session: ClientSession<R>) -> Result<(), Error> {
        /// let majority = WriteConcern::majority();
        /// let durable = TransactionOptions::builder().write_concern(majority).build();
        /// let start = session.start_transaction().with_options(durable);
        /// start.read_concern(ReadConcern::snapshot()).await?;
        /// # Ok(())
        /// # }
        /// ```
    ]
}

impl<'a, R: Runtime> IntoFuture for StartTransaction<'a, R> {
    type Output = Result<(), Error>;
    type IntoFuture = StartTransactionFuture<'a, R>;

    fn into_future(self) -> Self::IntoFuture {
        StartTransactionFuture(self)
    }
}

/// The future of [`StartTransaction`], which is ready at once.
#[must_use = "a future does nothing unless it is awaited"]
pub struct StartTransactionFuture<'a, R: Runtime>(StartTransaction<'a, R>);

// No field is pinned.
impl<R: Runtime> Unpin for StartTransactionFuture<'_, R> {}

impl<R: Runtime> StartTransactionFuture<'_, R> {
    /// Returns the runtime of the client.
    ///
    /// ```no_run
    /// # use onionskin::{ClientSession, Runtime};
    /// # fn example<R: Runtime + Clone>(mut session: ClientSession<R>) {
    /// # use std::future::IntoFuture;
    /// // A runtime that blocks polls the future with an executor of its own.
    /// let future = session.start_transaction().into_future();
    /// let runtime = future.runtime().clone();
    /// # }
    /// ```
    #[must_use]
    pub fn runtime(&self) -> &R {
        self.0.session.runtime()
    }
}

impl<R: Runtime> Future for StartTransactionFuture<'_, R> {
    type Output = Result<(), Error>;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        let start = &mut self.0;
        if start.timeout.is_some() {
            return Poll::Ready(Err(Error::invalid_option(
                "timeoutMS",
                "the start of a transaction sends nothing; limit the session or its calls",
            )));
        }
        Poll::Ready(start.session.begin_transaction(start.options.as_deref()))
    }
}

impl<R: Runtime> ClientSession<R> {
    /// Starts a transaction: the operations of the session up to the commit take effect together,
    /// or not at all (Transactions Specification, *startTransaction*).
    ///
    /// In a transaction, the read concern, write concern and read preference are those of the
    /// transaction. Operations are not retried. After an error with the label
    /// `TransientTransactionError` the whole transaction can be repeated:
    /// [`and_run2`](StartTransaction::and_run2) does that. Other errors of the server can abort the
    /// transaction, and its commit then fails with the error `NoSuchTransaction`.
    ///
    /// If the future of an operation is dropped after its command was sent, nobody knows whether
    /// the transaction contains it, so that the transaction can only be aborted. If the session is
    /// dropped in a transaction, a command in the background aborts it.
    ///
    /// Fails if the session is in a transaction or takes snapshots, and for the write concern
    /// `w: 0`. Transactions need a replica set or a sharded cluster: with a standalone server, the
    /// first operation fails.
    ///
    /// ```no_run
    /// # use onionskin::{Client, Error, Runtime, bson::{Document, doc}};
    /// # async fn example<R: Runtime>(client: Client<R>) -> Result<(), Error> {
    /// let log = client.database("app").collection::<Document>("log");
    /// let mut session = client.start_session().await?;
    /// session.start_transaction().await?;
    /// log.insert_one(doc! { "text": "begun" }).session(&mut session).await?;
    /// log.insert_one(doc! { "text": "ended" }).session(&mut session).await?;
    /// session.commit_transaction().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn start_transaction(&mut self) -> StartTransaction<'_, R> {
        StartTransaction::new(self)
    }

    /// Commits the transaction. Nothing is sent if no operation has run in it.
    ///
    /// The driver repeats the commit once after errors that permit it. After an error with the
    /// label `UnknownTransactionCommitResult` it is not known whether the transaction was
    /// committed, and the call can be made again: the transaction is committed once. Such a commit
    /// asks for the write concern `majority`.
    ///
    /// Fails with the kind [`ErrorKind::Transaction`](crate::error::ErrorKind::Transaction) if
    /// there is no transaction, if it was aborted, and if an operation of it was dropped before its
    /// end.
    ///
    /// ```no_run
    /// # use onionskin::{ClientSession, Error, Runtime, error::Label};
    /// # async fn example<R: Runtime>(mut session: ClientSession<R>) -> Result<(), Error> {
    /// let mut result = session.commit_transaction().await;
    /// while let Err(error) = &result
    ///     && error.has_label(&Label::UnknownTransactionCommitResult)
    /// {
    ///     result = session.commit_transaction().await;
    /// }
    /// # result
    /// # }
    /// ```
    pub const fn commit_transaction(&mut self) -> CommitTransaction<'_, R> {
        CommitTransaction::new(self)
    }

    /// Aborts the transaction. Errors of the server are ignored, because it aborts by itself what
    /// it is not told to commit.
    ///
    /// Fails with the kind [`ErrorKind::Transaction`](crate::error::ErrorKind::Transaction) if
    /// there is no transaction, or if it was committed or aborted.
    ///
    /// ```no_run
    /// # use onionskin::{ClientSession, Error, Runtime};
    /// # async fn example<R: Runtime>(mut session: ClientSession<R>) -> Result<(), Error> {
    /// session.abort_transaction().await
    /// # }
    /// ```
    pub const fn abort_transaction(&mut self) -> AbortTransaction<'_, R> {
        AbortTransaction::new(self)
    }

    /// Runs a transaction until it succeeds: [`StartTransaction::and_run2`] with the default
    /// options.
    ///
    /// ```no_run
    /// # use onionskin::{Client, Error, Runtime, bson::{Document, doc}};
    /// # async fn example<R: Runtime>(client: Client<R>) -> Result<(), Error> {
    /// let log = client.database("app").collection::<Document>("log");
    /// let mut session = client.start_session().await?;
    /// let result = session.with_transaction(async |session| {
    ///     log.insert_one(doc! { "text": "begun" }).session(&mut *session).await?;
    ///     log.insert_one(doc! { "text": "ended" }).session(&mut *session).await
    /// });
    /// println!("{}", result.await?.inserted_id);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn with_transaction<T, F>(&mut self, callback: F) -> Result<T, Error>
    where
        F: AsyncFnMut(&mut Self) -> Result<T, Error>,
    {
        self.start_transaction().and_run2(callback).await
    }

    /// Returns the state of the session's transaction.
    ///
    /// ```no_run
    /// # use onionskin::{ClientSession, Error, Runtime};
    /// # async fn example<R: Runtime>(mut session: ClientSession<R>) -> Result<(), Error> {
    /// if session.transaction_state().is_active() {
    ///     session.abort_transaction().await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn transaction_state(&self) -> TransactionState {
        let inner = self.shared().lock();
        inner.core.transaction_state(self.key())
    }

    /// Returns the address of the router or the load balancer to which the transaction is pinned;
    /// `None` if it is not pinned, as with a replica set.
    ///
    /// ```no_run
    /// # use onionskin::{ClientSession, Error, Runtime};
    /// # async fn example<R: Runtime>(mut session: ClientSession<R>) -> Result<(), Error> {
    /// if let Some(router) = session.pinned_server() {
    ///     println!("the transaction runs on {router}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn pinned_server(&self) -> Option<ServerAddress> {
        let inner = self.shared().lock();
        inner.core.transaction_server(self.key()).map(Into::into)
    }

    fn begin_transaction(&self, options: Option<&TransactionOptions>) -> Result<(), Error> {
        let options = TransactionOptions::or_unset(options);
        let client = self.client();
        let of_client = client.defaults();
        client.shared().with(|inner, now| {
            inner
                .core
                .start_transaction(now, self.key(), options, of_client)
        })
    }
}
