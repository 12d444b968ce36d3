//! The commands that end a transaction.

use crate::{ClientSession, Execution, Runtime};
use onionskin_core::{
    error::Error,
    operation::{Command, EndTransaction},
};
use std::{
    future::{Future, IntoFuture},
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

/// Declares the call of a command that ends a transaction, and its future. The session is borrowed
/// or owned.
macro_rules! end_call {
    (
        $(#[$about:meta])*
        $name:ident, $future:ident, $session:ty $(, $life:lifetime)?;
        $call:ident, $prepare:ident, $program:ident
    ) => {
        $(#[$about])*
        #[must_use = "a call runs when it is awaited"]
        pub struct $name<$($life,)? R: Runtime> {
            session: $session,
            timeout: Option<Duration>,
        }

        impl<$($life,)? R: Runtime> $name<$($life,)? R> {
            pub(crate) const fn new(session: $session) -> Self {
                Self {
                    session,
                    timeout: None,
                }
            }

            /// Sets the time limit. Zero means no limit. Default: that of the session, then
            /// `timeoutMS` of the client.
            ///
            /// ```no_run
            /// # use onionskin::{ClientSession, Error, Runtime};
            /// # async fn example<R: Runtime>(mut session: ClientSession<R>) -> Result<(), Error> {
            /// use std::time::Duration;
            ///
            #[doc = concat!("let call = session.", stringify!($call), "();")]
            /// call.timeout(Duration::from_secs(5)).await?;
            /// # Ok(())
            /// # }
            /// ```
            pub const fn timeout(mut self, timeout: Duration) -> Self {
                self.timeout = Some(timeout);
                self
            }

            fn prepare(&mut self) -> Result<Option<Command>, Error> {
                let (key, timeout) = (self.session.key(), self.timeout);
                let shared = self.session.shared();
                shared.with(|inner, now| inner.core.$prepare(now, key, timeout))
            }
        }

        impl<$($life,)? R: Runtime> IntoFuture for $name<$($life,)? R> {
            type Output = Result<(), Error>;
            type IntoFuture = $future<$($life,)? R>;

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
        pub struct $future<$($life,)? R: Runtime> {
            /// The operation; `None` before the first poll. It is dropped before the session, whose
            /// end would otherwise abort a second time.
            execution: Option<Execution<R, EndTransaction>>,
            call: $name<$($life,)? R>,
        }

        impl<$($life,)? R: Runtime> $future<$($life,)? R> {
            /// Returns the runtime of the client.
            ///
            /// ```no_run
            /// # use onionskin::{ClientSession, Runtime};
            /// # fn example<R: Runtime + Clone>(mut session: ClientSession<R>) {
            /// # use std::future::IntoFuture;
            /// // A runtime that blocks polls the future with an executor of its own.
            /// let future = session.commit_transaction().into_future();
            /// let runtime = future.runtime().clone();
            /// # }
            /// ```
            #[must_use]
            pub fn runtime(&self) -> &R {
                self.call.session.runtime()
            }
        }

        impl<$($life,)? R: Runtime> Future for $future<$($life,)? R> {
            type Output = Result<(), Error>;

            fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
                if self.execution.is_none() {
                    let program = EndTransaction::$program(self.call.prepare()?);
                    let client = self.call.session.client();
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
    CommitTransaction, CommitTransactionFuture, &'a mut ClientSession<R>, 'a;
    commit_transaction, commit_transaction, commit
}

end_call! {
    /// An `abort_transaction` that runs when it is awaited.
    AbortTransaction, AbortTransactionFuture, &'a mut ClientSession<R>, 'a;
    abort_transaction, abort_transaction, abort
}

end_call! {
    /// The end of a session, which runs when it is awaited. Dropping it ends the session as well.
    EndSession, EndSessionFuture, ClientSession<R>;
    end, abort_at_end, abort_at_end
}
