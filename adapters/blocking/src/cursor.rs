//! Cursors for blocking programs.

use crate::BlockingRuntime;
use onionskin::Result;
use serde::de::DeserializeOwned;
use std::fmt;

/// The documents of a query or an aggregation, fetched in batches. A cursor is an iterator of
/// `Result<T>`.
///
/// If a cursor is dropped early, the drop closes it on the server and waits for that, for two
/// seconds at most.
#[must_use = "a cursor gives its documents only when it is iterated"]
pub struct Cursor<T> {
    /// The cursor; `None` after it was converted to another type.
    cursor: Option<onionskin::Cursor<BlockingRuntime, T>>,
    runtime: BlockingRuntime,
}

impl<T> fmt::Debug for Cursor<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cursor").finish_non_exhaustive()
    }
}

impl<T> Cursor<T> {
    pub(crate) fn new(
        runtime: BlockingRuntime,
        cursor: onionskin::Cursor<BlockingRuntime, T>,
    ) -> Self {
        Self {
            cursor: Some(cursor),
            runtime,
        }
    }

    /// Returns this cursor with documents of another type.
    pub fn with_type<D>(mut self) -> Cursor<D> {
        Cursor {
            cursor: self.cursor.take().map(onionskin::Cursor::with_type),
            runtime: self.runtime.clone(),
        }
    }
}

impl<T: DeserializeOwned> Iterator for Cursor<T> {
    type Item = Result<T>;

    /// Returns the next document; `None` at the end.
    ///
    /// # Panics
    ///
    /// Panics if the thread is already in a blocking call of this client, for example if an event
    /// listener calls this method.
    fn next(&mut self) -> Option<Result<T>> {
        let cursor = self.cursor.as_mut()?;
        self.runtime.block_on(cursor.next())
    }
}

impl<T> Drop for Cursor<T> {
    fn drop(&mut self) {
        // Within `block_on` or `run_ready`, this function cannot wait. The drop of the inner cursor
        // then starts a task that closes the cursor during that call.
        if let Some(cursor) = self.cursor.take()
            && !self.runtime.is_busy_here()
        {
            self.runtime.block_on(cursor.close());
        }
    }
}
