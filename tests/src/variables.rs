//! A runtime with environment variables of its own.

use onionskin::{Error, Runtime};
use std::{
    collections::BTreeMap,
    future::Future,
    sync::{Arc, Mutex, PoisonError},
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

    crate::forward_runtime!(
        inner: connect, connect_unix, resolve, sleep, spawn, spawn_blocking, spawn_thread,
        spawn_cleanup, read_file, run_ready, now, wall_time, process_id, entropy
    );

    fn variable(&self, name: &str) -> Option<String> {
        let variables = self.variables.lock();
        let variables = variables.unwrap_or_else(PoisonError::into_inner);
        variables.get(name).cloned()
    }
}
