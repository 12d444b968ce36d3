//! A runtime with environment variables of its own.

use onionskin::{Error, Runtime};
use std::{
    collections::BTreeMap,
    future::Future,
    io,
    net::SocketAddr,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

/// A runtime whose clients see other environment variables than those of the process. Clones share
/// the variables.
pub struct WithVariables<R> {
    inner: Arc<R>,
    variables: Arc<Mutex<BTreeMap<String, String>>>,
}

impl<R> WithVariables<R> {
    /// Wraps a runtime. There are no variables at first.
    pub fn new(inner: R) -> Self {
        Self {
            inner: Arc::new(inner),
            variables: Arc::default(),
        }
    }

    /// Sets a variable.
    #[must_use]
    pub fn with(self, name: &str, value: &str) -> Self {
        let variables = self.variables.lock();
        let mut variables = variables.unwrap_or_else(PoisonError::into_inner);
        variables.insert(name.to_owned(), value.to_owned());
        drop(variables);
        self
    }
}

impl<R> Clone for WithVariables<R> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
            variables: self.variables.clone(),
        }
    }
}

impl<R> std::fmt::Debug for WithVariables<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WithVariables").finish_non_exhaustive()
    }
}

impl<R: Runtime> Runtime for WithVariables<R> {
    type Stream = R::Stream;
    type Sleep = R::Sleep;

    const RUNS_IN_BACKGROUND: bool = R::RUNS_IN_BACKGROUND;

    fn prepare(&mut self) -> Result<(), Error> {
        Arc::get_mut(&mut self.inner).map_or(Ok(()), Runtime::prepare)
    }

    fn connect(&self, address: SocketAddr) -> impl Future<Output = io::Result<R::Stream>> + Send {
        self.inner.connect(address)
    }

    fn connect_unix(&self, path: &Path) -> impl Future<Output = io::Result<R::Stream>> + Send {
        self.inner.connect_unix(path)
    }

    fn resolve(
        &self,
        host: &str,
        port: u16,
    ) -> impl Future<Output = io::Result<Vec<SocketAddr>>> + Send {
        self.inner.resolve(host, port)
    }

    fn sleep(&self, duration: Duration) -> R::Sleep {
        self.inner.sleep(duration)
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.inner.spawn(task);
    }

    fn spawn_blocking(&self, work: impl FnOnce() + Send + 'static) {
        self.inner.spawn_blocking(work);
    }

    fn spawn_thread(&self, work: impl FnOnce() + Send + 'static) {
        self.inner.spawn_thread(work);
    }

    fn variable(&self, name: &str) -> Option<String> {
        let variables = self.variables.lock();
        let variables = variables.unwrap_or_else(PoisonError::into_inner);
        variables.get(name).cloned()
    }

    fn read_file(
        &self,
        path: &Path,
        most: usize,
    ) -> impl Future<Output = io::Result<String>> + Send {
        self.inner.read_file(path, most)
    }

    fn run_ready(&self) {
        self.inner.run_ready();
    }

    fn now(&self) -> Duration {
        self.inner.now()
    }

    fn wall_time(&self) -> Duration {
        self.inner.wall_time()
    }

    fn process_id(&self) -> Option<u32> {
        self.inner.process_id()
    }

    fn entropy(&self, bytes: &mut [u8]) -> io::Result<()> {
        self.inner.entropy(bytes)
    }
}
