//! The shutdown of a client: waiting for tasks, sockets and events.

use crate::{
    Client, Runtime, client::EndCommand, events::FLUSH_LIMIT, shared::Shared, timer::Limit,
};
use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

/// The maximum time for which a shutdown waits for tasks and sockets, such as those of operations
/// that use a connection. Not configurable.
pub(crate) const SHUTDOWN_LIMIT: Duration = Duration::from_secs(10);

/// The time limit of each command that ends sessions of a client.
const END_SESSIONS_TIMEOUT: Duration = Duration::from_secs(2);

/// A `shutdown` that runs when it is awaited. It is a future itself.
#[must_use = "a shutdown runs when it is awaited"]
pub struct Shutdown<R: Runtime>(State<R>);

enum State<R: Runtime> {
    New {
        client: Client<R>,
        is_immediate: bool,
    },
    Running {
        shared: Arc<Shared<R>>,
        future: Pin<Box<dyn Future<Output = ()> + Send>>,
    },
}

impl<R: Runtime> fmt::Debug for Shutdown<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shutdown").finish_non_exhaustive()
    }
}

impl<R: Runtime> Shutdown<R> {
    pub(crate) const fn new(client: Client<R>) -> Self {
        Self(State::New {
            client,
            is_immediate: false,
        })
    }

    /// Sets whether the call ends without waiting for operations that use a connection, for tasks,
    /// sockets and event listeners. The sessions are ended in any case, with a time limit of two
    /// seconds for each command. Such an operation still runs to its end, and its connection is
    /// closed then. Default: false. No effect once the shutdown was polled.
    ///
    /// ```no_run
    /// # use onionskin::{Client, Runtime};
    /// # async fn example<R: Runtime>(client: Client<R>) {
    /// client.shutdown().immediate(true).await;
    /// # }
    /// ```
    pub fn immediate(mut self, value: bool) -> Self {
        if let State::New { is_immediate, .. } = &mut self.0 {
            *is_immediate = value;
        }
        self
    }

    /// Returns the runtime of the client.
    ///
    /// ```no_run
    /// # use onionskin::{Client, Runtime};
    /// # fn example<R: Runtime + Clone>(client: Client<R>) {
    /// // A runtime that blocks polls the future with an executor of its own.
    /// let shutdown = client.shutdown();
    /// let runtime = shutdown.runtime().clone();
    /// # }
    /// ```
    #[must_use]
    pub fn runtime(&self) -> &R {
        match &self.0 {
            State::New { client, .. } => client.runtime(),
            State::Running { shared, .. } => &shared.runtime,
        }
    }
}

impl<R: Runtime> Future for Shutdown<R> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        loop {
            match &mut self.0 {
                State::Running { future, .. } => return future.as_mut().poll(context),
                State::New {
                    client,
                    is_immediate,
                } => {
                    let shared = client.shared().clone();
                    let future = Box::pin(shut_down(client.clone(), *is_immediate));
                    self.0 = State::Running { shared, future };
                }
            }
        }
    }
}

async fn shut_down<R: Runtime>(client: Client<R>, is_immediate: bool) {
    let shared = client.shared().clone();
    // Sessions that other operations give back later are not ended, because there could be more of
    // them without end. If this future is dropped, servers end the rest by themselves after a time.
    let commands: Vec<_> = shared.with(|inner, now| {
        inner.notice_fork(&shared, now);
        std::iter::from_fn(|| inner.core.end_sessions()).collect()
    });
    for mut command in commands {
        command.set_timeout(Some(END_SESSIONS_TIMEOUT));
        if EndCommand::new(&client, command).await.is_err() {
            // Servers end idle sessions by themselves after a time, so the error of the command is
            // ignored.
            break;
        }
    }
    shared.with(|inner, now| {
        inner.core.close(now);
        if is_immediate {
            inner.core.close_now(now);
        }
    });
    drop(client);
    if is_immediate {
        // The tasks that have sockets must run to close them.
        shared.runtime.run_ready();
        return;
    }
    shared.end().await;
    shared.flush_events().await;
}

impl<R: Runtime> Shared<R> {
    /// Waits until all tasks have ended and all sockets are closed, for [`SHUTDOWN_LIMIT`] at most.
    /// After the limit, monitors and pools are closed. A connection that is still in use, for
    /// example by an operation whose future is kept but not polled, is closed when its operation
    /// ends.
    pub(crate) async fn end(self: &Arc<Self>) {
        if !self
            .reaches_idle(Limit::begin(self.clone(), SHUTDOWN_LIMIT))
            .await
        {
            self.with(|inner, now| inner.core.close_now(now));
        }
    }

    /// Waits until the listeners were called for all events so far, for [`FLUSH_LIMIT`] at most.
    pub(crate) async fn flush_events(self: &Arc<Self>) {
        let limit = || Limit::begin(self.clone(), FLUSH_LIMIT);
        self.delivery.wait_for(self.delivery.mark(), limit).await;
    }
}
