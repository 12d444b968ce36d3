//! Cursors for blocking programs.

use crate::BlockingRuntime;
use onionskin::{RawDocument, Result, program::CLOSE_LIMIT};
use serde::de::{Deserialize, DeserializeOwned};
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

impl<T> Cursor<T> {
    /// Moves to the next document, which [`current`](Self::current) and
    /// [`deserialize_current`](Self::deserialize_current) then return without a copy of its bytes.
    /// Returns false at the end.
    ///
    /// Fails if another batch cannot be fetched, and if the document is not BSON. After an error
    /// there is no current document.
    ///
    /// # Panics
    ///
    /// Panics if the thread is already in a blocking call of this client.
    pub fn advance(&mut self) -> Result<bool> {
        let cursor = self.cursor.as_mut();
        cursor.map_or(Ok(false), |cursor| self.runtime.block_on(cursor.advance()))
    }

    /// False if there is certainly no further document: the current batch was read, and the server
    /// has closed the cursor or a batch could not be fetched.
    #[must_use]
    pub fn has_next(&self) -> bool {
        self.inner().has_next()
    }

    /// Returns the bytes of the document to which [`advance`](Self::advance) moved.
    ///
    /// # Panics
    ///
    /// If `advance` was not called, or did not return true.
    #[must_use]
    pub fn current(&self) -> &RawDocument {
        self.inner().current()
    }

    /// Decodes the document to which [`advance`](Self::advance) moved. Strings and binary data of
    /// the type can borrow from the batch of the cursor.
    ///
    /// Fails if there is no current document, or if it does not have the form that `T` needs.
    pub fn deserialize_current<'a>(&'a self) -> Result<T>
    where
        T: Deserialize<'a>,
    {
        self.inner().deserialize_current()
    }

    /// Decodes the document to which [`advance`](Self::advance) moved, as another type than the
    /// cursor's.
    pub fn deserialize_current_as<'a, D: Deserialize<'a>>(&'a self) -> Result<D> {
        self.inner().deserialize_current_as()
    }

    fn inner(&self) -> &onionskin::Cursor<BlockingRuntime, T> {
        self.cursor.as_ref().expect("the cursor was not converted")
    }
}

impl<T: DeserializeOwned + 'static> Iterator for Cursor<T> {
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
            self.runtime.block_on(cursor.close().timeout(CLOSE_LIMIT));
        }
    }
}
