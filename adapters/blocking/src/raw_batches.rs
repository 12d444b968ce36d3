//! Cursors whose batches are not decoded, for blocking programs.

use crate::{BlockingRuntime, ClientSession};
use onionskin::{RawBatch, Result};

/// The batches of a query or an aggregation as the server sent them, without decoding them. A
/// cursor is an iterator of `Result<RawBatch>`, as [`onionskin::RawBatchCursor`] is a stream.
///
/// If a cursor is dropped early, the drop closes it on the server and waits for that, for two
/// seconds at most.
///
/// ```no_run
/// use onionskin_blocking::{Client, Run, bson::{Document, doc}};
///
/// let client = Client::with_uri_str("mongodb://localhost")?;
/// let people = client.database("app").collection::<Document>("people");
/// for batch in people.find(doc! {}).batch().run()? {
///     println!("{} bytes", batch?.as_raw_document().as_bytes().len());
/// }
/// # Ok::<(), onionskin_blocking::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "a cursor gives its batches only when it is iterated"]
pub struct RawBatchCursor {
    cursor: onionskin::RawBatchCursor<BlockingRuntime>,
    runtime: BlockingRuntime,
}

impl RawBatchCursor {
    pub(crate) const fn new(
        runtime: BlockingRuntime,
        cursor: onionskin::RawBatchCursor<BlockingRuntime>,
    ) -> Self {
        Self { cursor, runtime }
    }

    /// Closes the cursor on the server and waits for the reply, as
    /// [`Cursor::close`](crate::Cursor::close).
    ///
    /// ```no_run
    /// use onionskin_blocking::{Client, Run, bson::{Document, doc}};
    ///
    /// let client = Client::with_uri_str("mongodb://localhost")?;
    /// let people = client.database("app").collection::<Document>("people");
    /// let mut batches = people.find(doc! {}).batch().run()?;
    /// let first = batches.next().transpose()?;
    /// batches.close();
    /// # Ok::<(), onionskin_blocking::Error>(())
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if the thread is already in a blocking call of this client.
    pub fn close(self) {
        self.runtime.block_on(self.cursor.close());
    }
}

impl Iterator for RawBatchCursor {
    type Item = Result<RawBatch>;

    /// Returns the next batch; `None` at the end.
    ///
    /// # Panics
    ///
    /// Panics if the thread is already in a blocking call of this client.
    fn next(&mut self) -> Option<Result<RawBatch>> {
        self.runtime.block_on(self.cursor.next())
    }
}

/// A [`RawBatchCursor`] of a call in a session. The methods that can fetch a batch need the
/// session.
///
/// A cursor that is dropped early is closed on the server, for which the drop waits for two seconds
/// at most.
#[derive(Debug)]
#[must_use = "a cursor gives its batches only when it is read"]
pub struct SessionRawBatchCursor(onionskin::SessionRawBatchCursor<BlockingRuntime>);

impl SessionRawBatchCursor {
    pub(crate) const fn new(cursor: onionskin::SessionRawBatchCursor<BlockingRuntime>) -> Self {
        Self(cursor)
    }

    /// Returns the next batch; `None` at the end. Fails also for another session than that of the
    /// call.
    ///
    /// ```no_run
    /// use onionskin_blocking::{Client, Run, bson::{Document, doc}};
    ///
    /// let client = Client::with_uri_str("mongodb://localhost")?;
    /// let people = client.database("app").collection::<Document>("people");
    /// let mut session = client.start_session().run()?;
    /// let mut batches = people.find(doc! {}).session(&mut session).batch().run()?;
    /// while let Some(batch) = batches.next(&mut session) {
    ///     println!("{} bytes", batch?.as_raw_document().as_bytes().len());
    /// }
    /// # Ok::<(), onionskin_blocking::Error>(())
    /// ```
    pub fn next(&mut self, session: &mut ClientSession) -> Option<Result<RawBatch>> {
        let runtime = self.0.runtime().clone();
        runtime.block_on(self.0.next(session))
    }

    /// Returns an iterator of the batches, which borrows the session.
    ///
    /// ```no_run
    /// use onionskin_blocking::{Client, Run, bson::{Document, doc}};
    ///
    /// let client = Client::with_uri_str("mongodb://localhost")?;
    /// let people = client.database("app").collection::<Document>("people");
    /// let mut session = client.start_session().run()?;
    /// let mut batches = people.find(doc! {}).session(&mut session).batch().run()?;
    /// for batch in batches.iter(&mut session) {
    ///     println!("{} bytes", batch?.as_raw_document().as_bytes().len());
    /// }
    /// # Ok::<(), onionskin_blocking::Error>(())
    /// ```
    pub fn iter<'a>(
        &'a mut self,
        session: &'a mut ClientSession,
    ) -> impl Iterator<Item = Result<RawBatch>> + use<'a> {
        std::iter::from_fn(move || self.next(session))
    }

    /// Closes the cursor on the server and waits for the reply. The time limit of the cursor, if it
    /// has one, begins anew; without one, the call waits for two seconds at most.
    ///
    /// ```no_run
    /// use onionskin_blocking::{Client, Run, bson::{Document, doc}};
    ///
    /// let client = Client::with_uri_str("mongodb://localhost")?;
    /// let people = client.database("app").collection::<Document>("people");
    /// let mut session = client.start_session().run()?;
    /// let mut batches = people.find(doc! {}).session(&mut session).batch().run()?;
    /// let first = batches.next(&mut session).transpose()?;
    /// batches.close();
    /// # Ok::<(), onionskin_blocking::Error>(())
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if the thread is already in a blocking call of this client.
    pub fn close(self) {
        let runtime = self.0.runtime().clone();
        runtime.block_on(self.0.close());
    }
}
