//! The lookup of the seed list of a `mongodb+srv` connection string before the client exists.

use super::ClientBuilder;
use crate::{
    Runtime, certificates, lookup::Services, resolver::Resolvers, signal::Signal, trace,
    user_code::catch_panic,
};
use atomic_waker::AtomicWaker;
use onionskin_core::{client::SeedLookup, error::Error, log, options::ClientOptions};
use std::{
    future::{Future, poll_fn},
    pin::{Pin, pin},
    sync::{Arc, Mutex, PoisonError},
    task::Poll,
    time::Duration,
};

impl<R: Runtime> ClientBuilder<R> {
    /// Looks up the SRV and TXT records of a `mongodb+srv` connection string now, with the resolver
    /// of this builder. Does nothing if the options have no `mongodb+srv` host, or if hosts were
    /// set as well.
    ///
    /// Options that are set in code override the connection string, and both override the TXT
    /// record ([DNS-32]).
    ///
    /// The client looks the SRV records up again later, as specified for sharded clusters. Each
    /// lookup has the time limit `connectTimeoutMS`. If the future is dropped, the lookups end. The
    /// lookups run on the runtime on which the client will run; build the client while that runtime
    /// runs.
    ///
    /// Fails with [`DnsResolve`](crate::error::ErrorKind::DnsResolve) if there is no usable answer,
    /// and with [`InvalidArgument`](crate::error::ErrorKind::InvalidArgument) if the records are
    /// not valid or conflict with options. Fails as [`build`](Self::build) does if an option is
    /// invalid or there is no runtime.
    ///
    /// ```no_run
    /// # async fn example<R: onionskin::Runtime + Default>() -> onionskin::Result<()> {
    /// use onionskin::Client;
    ///
    /// let builder = Client::builder_from_uri(R::default(), "mongodb+srv://cluster.example.net")?;
    /// let client = builder.resolve().await?.build()?;
    /// # let _ = client;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// [DNS-32]: onionskin_core::requirements::seed_lists#DNS-32
    pub async fn resolve(mut self) -> Result<Self, Error> {
        if self.options.srv_host.as_deref().is_none() {
            return Ok(self);
        }
        // A lookup can fail because of a mistake that a warning names.
        for warning in self.options.warnings().iter().skip(self.logged_warnings) {
            trace::emit_if_wanted(&self.log, &log::warning(warning));
        }
        self.logged_warnings = self.options.warnings().len();
        let start = self.prepare()?;
        // Nothing is asked for a client that cannot be created.
        certificates::read_files(&mut self.options)?;
        let seed = self.seed_or_random()?;
        let Some(lookup) = SeedLookup::new(&self.options, &seed)? else {
            return Ok(self);
        };
        // The lookup is a task, because futures of the runtime are polled in its tasks only.
        let (runtime, outcome) = (Arc::new(self.runtime), Arc::<Outcome>::default());
        let task = Task {
            runtime: runtime.clone(),
            resolvers: self.resolvers.clone(),
            start,
            end: End::new(outcome.clone()),
        };
        runtime.spawn(task.run(lookup));
        let waiting = Waiting(outcome);
        let options = waiting.outcome().await?;
        let runtime = Arc::into_inner(runtime).ok_or_else(|| Error::runtime(ENDED))?;
        Ok(Self {
            runtime,
            options,
            ..self
        })
    }
}

/// The message if the runtime drops the task of a lookup.
const ENDED: &str = "the runtime ended during the lookup of the SRV records";

/// The result of a lookup, which passes from its task to the future that waits for it.
#[derive(Default)]
struct Outcome {
    result: Mutex<Option<Result<ClientOptions, Error>>>,
    /// The waker of the future that waits.
    waker: AtomicWaker,
    /// Tells the task to end, because the future was dropped.
    stop: Signal,
}

impl Outcome {
    fn take(&self) -> Option<Result<ClientOptions, Error>> {
        let mut result = self.result.lock().unwrap_or_else(PoisonError::into_inner);
        result.take()
    }
}

/// The future that waits for the outcome.
struct Waiting(Arc<Outcome>);

impl Waiting {
    async fn outcome(&self) -> Result<ClientOptions, Error> {
        poll_fn(|context| {
            self.0.waker.register(context.waker());
            self.0.take().map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.stop.write(|commands| commands.close = true);
        self.0.stop.wake();
    }
}

/// The services that the task of a lookup needs.
struct Task<R: Runtime> {
    runtime: Arc<R>,
    resolvers: Resolvers,
    start: Duration,
    end: End,
}

impl<R: Runtime> Task<R> {
    async fn run(self, lookup: SeedLookup) {
        let Self {
            runtime,
            resolvers,
            start,
            mut end,
        } = self;
        let result = {
            let services = Services {
                runtime: &*runtime,
                resolvers: &resolvers,
                start,
                shared: None,
                cryptography: onionskin_core::options::Cryptography::default(),
            };
            let mut result = pin!(look_up(&services, lookup));
            let stop = &end.outcome.stop;
            poll_fn(|context| {
                stop.register(context.waker());
                if stop.take().is_some_and(|commands| commands.close) {
                    return Poll::Ready(None);
                }
                result.as_mut().poll(context).map(Some)
            })
            .await
        };
        // The builder takes the runtime back, so the task gives it up before the result.
        drop(runtime);
        if let Some(result) = result {
            end.result = result;
        }
    }
}

/// Sets the result when it is dropped, so that the future ends also if the task is dropped.
struct End {
    outcome: Arc<Outcome>,
    result: Result<ClientOptions, Error>,
}

impl End {
    fn new(outcome: Arc<Outcome>) -> Self {
        let result = Err(Error::runtime(ENDED));
        Self { outcome, result }
    }
}

impl Drop for End {
    fn drop(&mut self) {
        let result = std::mem::replace(&mut self.result, Err(Error::runtime(ENDED)));
        let outcome = &self.outcome;
        *outcome
            .result
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Some(result);
        if let Some(waker) = outcome.waker.take() {
            catch_panic(|| waker.wake());
        }
    }
}

/// Asks both queries at the same time, until the lookup has a result.
async fn look_up<R: Runtime>(
    services: &Services<'_, R>,
    mut lookup: SeedLookup,
) -> Result<ClientOptions, Error> {
    let limit = lookup.limit();
    let mut queries = lookup.queries().map(|(id, query)| {
        let answer: Pin<Box<dyn Future<Output = _> + Send + '_>> =
            Box::pin(services.look_up(query, limit));
        (id, Some(answer))
    });
    poll_fn(|context| {
        for (id, query) in &mut queries {
            let Some(Poll::Ready(answer)) = query.as_mut().map(|q| q.as_mut().poll(context)) else {
                continue;
            };
            *query = None;
            if let Some(result) = lookup.handle_answer(*id, answer) {
                return Poll::Ready(result);
            }
        }
        Poll::Pending
    })
    .await
}
