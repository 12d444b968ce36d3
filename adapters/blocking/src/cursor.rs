//! Cursors.

use crate::BlockingRuntime;
use onionskin::Result;
use serde::de::DeserializeOwned;
use std::fmt;

/// The results of a query, fetched batch by batch: an iterator of `Result<T>`.
///
/// One that is dropped before its end is ended on the server, for which two seconds are waited at
/// most.
#[must_use = "a cursor gives its documents only when it is iterated"]
pub struct Cursor<T> {
    /// `None` once it was turned into something else.
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

    /// Reads on as documents of another type.
    pub fn with_type<D>(mut self) -> Cursor<D> {
        Cursor {
            cursor: self.cursor.take().map(onionskin::Cursor::with_type),
            runtime: self.runtime.clone(),
        }
    }
}

impl<T: DeserializeOwned> Iterator for Cursor<T> {
    type Item = Result<T>;

    /// The next document; `None` at the end.
    ///
    /// # Panics
    ///
    /// If it is called by an event listener, while another call is under way.
    fn next(&mut self) -> Option<Result<T>> {
        let cursor = self.cursor.as_mut()?;
        self.runtime.block_on(cursor.next())
    }
}

impl<T> Drop for Cursor<T> {
    fn drop(&mut self) {
        // Within a call it is ended as part of that call.
        if let Some(cursor) = self.cursor.take()
            && !self.runtime.is_busy_here()
        {
            self.runtime.block_on(cursor.close());
        }
    }
}
