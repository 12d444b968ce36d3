//! Transactions: their start, commit and abort, and runs that repeat them.

use crate::{
    ClientSession, Execution, Runtime,
    options::{ReadConcern, SelectionCriteria, ServerAddress, TransactionOptions, WriteConcern},
    timer::Limit,
};
use futures_util::future::BoxFuture;
pub use onionskin_core::operation::TransactionState;
use onionskin_core::{
    error::Error,
    operation::{Command, EndTransaction, Repeat, TransactionRun},
};
use std::{
    future::{Future, IntoFuture},
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

/// A `start_transaction` that runs when it is awaited. Nothing is sent to a server: the next
/// operation of the session starts the transaction there.
#[must_use = "a call runs when it is awaited"]
pub struct StartTransaction<'a, R: Runtime> {
    session: &'a mut ClientSession<R>,
    options: TransactionOptions,
    /// The time limit of a run.
    timeout: Option<Duration>,
}

impl<'a, R: Runtime> StartTransaction<'a, R> {
    pub(crate) fn new(session: &'a mut ClientSession<R>) -> Self {
        Self {
            session,
            options: TransactionOptions::default(),
            timeout: None,
        }
    }

    /// Sets the time limit of [`and_run2`](Self::and_run2) and [`and_run`](Self::and_run). Zero
    /// means no limit. Default: that of the session, then `timeoutMS` of the client, then 120 s. A
    /// transaction that is only started fails with a time limit, because its start sends nothing.
    /// The calls in it, its commit and its abort have time limits of their own.
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Sets the read concern of the transaction. Default: that of the session, then that of the
    /// client.
    pub fn read_concern(mut self, concern: ReadConcern) -> Self {
        self.options.read_concern = Some(concern);
        self
    }

    /// Sets the write concern of the commit and the abort, which cannot be `w: 0`. Default: that of
    /// the session, then that of the client.
    pub fn write_concern(mut self, concern: WriteConcern) -> Self {
        self.options.write_concern = Some(concern);
        self
    }

    /// Sets how the server of reads is selected. Default: that of the session, then that of the
    /// client. Reads fail unless it is the primary.
    pub fn selection_criteria(mut self, criteria: impl Into<SelectionCriteria>) -> Self {
        self.options.selection_criteria = Some(criteria.into());
        self
    }

    /// Sets the `maxTimeMS` of the commit. A time limit of the commit supersedes it: that of the
    /// call, of the session or of the client (`timeoutMS`). Default: none.
    pub fn max_commit_time(mut self, time: Duration) -> Self {
        self.options.max_commit_time = Some(time);
        self
    }

    /// Sets all options at once. The options that were set before are forgotten.
    pub fn with_options(mut self, options: impl Into<Option<TransactionOptions>>) -> Self {
        self.options = options.into().unwrap_or_default();
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
            let result = callback(run.session).await;
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
            let result = callback(run.session, &mut context).await;
            if let Some(value) = run.end(result).await? {
                return Ok(value);
            }
        }
    }
}

/// A transaction that is run until it succeeds, step by step, for adapters whose callbacks are no
/// futures. [`StartTransaction::and_run2`] takes all steps.
///
/// While there is this value, the time limit of the run limits the operations of the session.
pub struct RepeatedTransaction<'a, R: Runtime> {
    session: &'a mut ClientSession<R>,
    options: TransactionOptions,
    run: TransactionRun,
}

impl<'a, R: Runtime> RepeatedTransaction<'a, R> {
    /// Begins the time limit of a run. Nothing is started yet.
    #[must_use]
    pub fn begin(start: StartTransaction<'a, R>) -> Self {
        let StartTransaction {
            session,
            options,
            timeout,
        } = start;
        let key = session.key();
        let shared = session.client().shared();
        let run = shared.with(|inner, now| inner.core.begin_transaction_run(now, key, timeout));
        Self {
            session,
            options,
            run,
        }
    }

    /// Returns the session, for the callback.
    pub const fn session(&mut self) -> &mut ClientSession<R> {
        self.session
    }

    /// Begins an attempt: pauses if it is not the first one, and starts the transaction. Fails if
    /// the time of the run is over.
    pub async fn start(&mut self) -> Result<(), Error> {
        let shared = self.session.client().shared();
        let (now, jitter) = shared.with(|inner, now| (now, inner.core.jitter()));
        // The run drops errors of the application, which can call the client. So it gets no lock.
        let pause = self.run.begin(now, jitter)?;
        if !pause.is_zero() {
            // Other executors can run this future.
            Limit::begin(shared.clone(), pause).await;
        }
        self.session.begin_transaction(&self.options)
    }

    /// Ends an attempt with the result of the callback. Returns `None` if the transaction is to be
    /// repeated: call [`start`](Self::start) and the callback again.
    pub async fn end<T>(&mut self, result: Result<T, Error>) -> Result<Option<T>, Error> {
        let is_active = self.session.transaction_state().is_active();
        let value = match result {
            Ok(value) => value,
            Err(error) => {
                if is_active {
                    self.abort().await;
                }
                let now = self.session.client().shared().now();
                self.run.after_failure(now, error)?;
                return Ok(None);
            }
        };
        if !is_active {
            return Ok(Some(value));
        }
        while let Err(error) = self.session.commit_transaction().await {
            let now = self.session.client().shared().now();
            match self.run.after_commit(now, error) {
                Ok(Repeat::Commit) => {}
                Ok(Repeat::Transaction) => return Ok(None),
                Err(error) => {
                    // The commit was refused before it was sent, if the transaction goes on.
                    if self.session.transaction_state().is_active() {
                        self.abort().await;
                    }
                    return Err(error);
                }
            }
        }
        Ok(Some(value))
    }

    /// Aborts the transaction. The error of the callback or the commit is the one to raise.
    async fn abort(&mut self) {
        let _ = self.session.abort_transaction().await;
    }
}

impl<R: Runtime> Drop for RepeatedTransaction<'_, R> {
    fn drop(&mut self) {
        let mut inner = self.session.client().shared().lock();
        inner
            .core
            .end_transaction_run(self.session.key(), &self.run);
    }
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
    #[must_use]
    pub fn runtime(&self) -> &R {
        self.0.session.client().runtime()
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
        Poll::Ready(start.session.begin_transaction(&start.options))
    }
}

/// Declares the call of a command that ends a transaction, and its future.
macro_rules! end_call {
    ($(#[$about:meta])* $name:ident, $future:ident, $prepare:ident, $program:ident) => {
        $(#[$about])*
        #[must_use = "a call runs when it is awaited"]
        pub struct $name<'a, R: Runtime> {
            session: &'a mut ClientSession<R>,
            timeout: Option<Duration>,
        }

        impl<'a, R: Runtime> $name<'a, R> {
            pub(crate) const fn new(session: &'a mut ClientSession<R>) -> Self {
                Self {
                    session,
                    timeout: None,
                }
            }

            /// Sets the time limit. Zero means no limit. Default: that of the session, then
            /// `timeoutMS` of the client.
            pub const fn timeout(mut self, timeout: Duration) -> Self {
                self.timeout = Some(timeout);
                self
            }

            fn prepare(&mut self) -> Result<Option<Command>, Error> {
                let (key, timeout) = (self.session.key(), self.timeout);
                let shared = self.session.client().shared();
                shared.with(|inner, now| inner.core.$prepare(now, key, timeout))
            }
        }

        impl<'a, R: Runtime> IntoFuture for $name<'a, R> {
            type Output = Result<(), Error>;
            type IntoFuture = $future<'a, R>;

            fn into_future(self) -> Self::IntoFuture {
                $future {
                    call: self,
                    execution: None,
                }
            }
        }

        #[doc = concat!("The future of [`", stringify!($name), "`]. Nothing happens before it is")]
        /// polled.
        #[must_use = "a future does nothing unless it is awaited"]
        pub struct $future<'a, R: Runtime> {
            call: $name<'a, R>,
            /// The operation; `None` before the first poll.
            execution: Option<Execution<R, EndTransaction>>,
        }

        impl<R: Runtime> $future<'_, R> {
            /// Returns the runtime of the client.
            #[must_use]
            pub fn runtime(&self) -> &R {
                self.call.session.client().runtime()
            }
        }

        impl<R: Runtime> Future for $future<'_, R> {
            type Output = Result<(), Error>;

            fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
                if self.execution.is_none() {
                    let program = EndTransaction::$program(self.call.prepare()?);
                    let client = self.call.session.client().clone();
                    self.execution = Some(Execution::new(client, program));
                }
                match &mut self.execution {
                    Some(execution) => Pin::new(execution).poll(context),
                    None => Poll::Pending,
                }
            }
        }
    };
}

end_call! {
    /// A `commit_transaction` that runs when it is awaited.
    CommitTransaction, CommitTransactionFuture, commit_transaction, commit
}

end_call! {
    /// An `abort_transaction` that runs when it is awaited.
    AbortTransaction, AbortTransactionFuture, abort_transaction, abort
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
    pub async fn with_transaction<T, F>(&mut self, callback: F) -> Result<T, Error>
    where
        F: AsyncFnMut(&mut Self) -> Result<T, Error>,
    {
        self.start_transaction().and_run2(callback).await
    }

    /// Returns the state of the session's transaction.
    #[must_use]
    pub fn transaction_state(&self) -> TransactionState {
        let inner = self.client().shared().lock();
        inner.core.transaction_state(self.key())
    }

    /// Returns the address of the router or the load balancer to which the transaction is pinned;
    /// `None` if it is not pinned, as with a replica set.
    #[must_use]
    pub fn pinned_server(&self) -> Option<ServerAddress> {
        let inner = self.client().shared().lock();
        inner.core.transaction_server(self.key()).map(Into::into)
    }

    fn begin_transaction(&self, options: &TransactionOptions) -> Result<(), Error> {
        let client = self.client();
        let of_client = client.defaults();
        client.shared().with(|inner, now| {
            inner
                .core
                .start_transaction(now, self.key(), options, of_client)
        })
    }
}
