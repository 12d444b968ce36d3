//! Transactions that are repeated until they succeed.

use super::StartTransaction;
use crate::{ClientSession, Runtime, options::TransactionOptions, timer::Limit};
use onionskin_core::{
    error::Error,
    operation::{Repeat, TransactionRun},
};

/// A transaction that is run until it succeeds, step by step, for adapters whose callbacks are not
/// futures. [`StartTransaction::and_run2`] takes all steps.
///
/// While there is this value, the time limit of the run limits the operations of the session.
///
/// ```no_run
/// # use onionskin::{ClientSession, Error, Runtime, transaction::RepeatedTransaction};
/// # fn callback<R: Runtime>(_: &mut ClientSession<R>) -> Result<u32, Error> { Ok(1) }
/// # async fn example<R: Runtime>(mut session: ClientSession<R>) -> Result<u32, Error> {
/// let mut run = RepeatedTransaction::begin(session.start_transaction());
/// loop {
///     run.start().await?;
///     let result = callback(run.session());
///     if let Some(value) = run.end(result).await? {
///         return Ok(value);
///     }
/// }
/// # }
/// ```
pub struct RepeatedTransaction<'a, R: Runtime> {
    session: &'a mut ClientSession<R>,
    options: Option<Box<TransactionOptions>>,
    run: TransactionRun,
}

impl<'a, R: Runtime> RepeatedTransaction<'a, R> {
    /// Begins the time limit of a run. The transaction is not started yet.
    ///
    /// ```no_run
    /// # use onionskin::{ClientSession, Error, Runtime, transaction::RepeatedTransaction};
    /// # fn example<R: Runtime>(mut session: ClientSession<R>) {
    /// let run = RepeatedTransaction::begin(session.start_transaction());
    /// # }
    /// ```
    #[must_use]
    pub fn begin(start: StartTransaction<'a, R>) -> Self {
        let StartTransaction {
            session,
            options,
            timeout,
        } = start;
        let key = session.key();
        let shared = session.shared();
        let run = shared.with(|inner, now| inner.core.begin_transaction_run(now, key, timeout));
        Self {
            session,
            options,
            run,
        }
    }

    /// Returns the session, for the callback.
    ///
    /// ```no_run
    /// # use onionskin::{Runtime, transaction::RepeatedTransaction};
    /// # fn example<R: Runtime>(mut run: RepeatedTransaction<'_, R>) {
    /// let people = run.session().client().database("app").collection::<()>("people");
    /// # }
    /// ```
    pub const fn session(&mut self) -> &mut ClientSession<R> {
        self.session
    }

    /// Begins an attempt: pauses if it is not the first one, and starts the transaction. Fails if
    /// the time of the run is over.
    ///
    /// ```no_run
    /// # use onionskin::{Error, Runtime, transaction::RepeatedTransaction};
    /// # async fn example<R: Runtime>(mut run: RepeatedTransaction<'_, R>) -> Result<(), Error> {
    /// run.start().await?;
    /// println!("the callback runs now");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn start(&mut self) -> Result<(), Error> {
        let shared = self.session.shared();
        let (now, jitter) = shared.with(|inner, now| (now, inner.core.jitter()));
        // The run drops errors of the application, which can call the client. So it gets no lock.
        let pause = self.run.begin(now, jitter)?;
        if !pause.is_zero() {
            // Any executor can poll this future, and the sleep of a runtime needs its own executor.
            Limit::begin(shared.clone(), pause).await;
        }
        self.session.begin_transaction(self.options.as_deref())
    }

    /// Ends an attempt with the result of the callback. Returns `None` if the transaction is to be
    /// repeated: call [`start`](Self::start) and the callback again.
    ///
    /// ```no_run
    /// # use onionskin::{Error, Runtime, transaction::RepeatedTransaction};
    /// # async fn example<R: Runtime>(mut run: RepeatedTransaction<'_, R>) -> Result<(), Error> {
    /// run.start().await?;
    /// let is_committed = run.end(Ok(())).await?.is_some();
    /// # Ok(())
    /// # }
    /// ```
    pub async fn end<T>(&mut self, result: Result<T, Error>) -> Result<Option<T>, Error> {
        let is_active = self.session.transaction_state().is_active();
        let value = match result {
            Ok(value) => value,
            Err(error) => {
                if is_active {
                    self.abort().await;
                }
                let now = self.session.shared().now();
                self.run.after_failure(now, error)?;
                return Ok(None);
            }
        };
        if !is_active {
            return Ok(Some(value));
        }
        while let Err(error) = self.session.commit_transaction().await {
            let now = self.session.shared().now();
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
        let mut inner = self.session.shared().lock();
        inner
            .core
            .end_transaction_run(self.session.key(), &self.run);
    }
}
