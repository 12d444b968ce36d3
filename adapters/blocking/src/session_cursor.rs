//! Cursors of sessions, for blocking programs.

use crate::{BlockingRuntime, ClientSession};
use onionskin::{RawDocument, Result};
use serde::de::{Deserialize, DeserializeOwned};

/// A [`Cursor`](crate::Cursor) of a call in a session. The methods that can fetch a batch need the
/// session.
///
/// A cursor that is dropped early is closed on the server, for which the drop waits for two seconds
/// at most.
///
/// ```no_run
/// use onionskin_blocking::{Client, Run, bson::{Document, doc}};
///
/// let client = Client::with_uri_str("mongodb://localhost")?;
/// let people = client.database("app").collection::<Document>("people");
/// let mut session = client.start_session().run()?;
/// let mut cursor = people.find(doc! {}).session(&mut session).run()?;
/// for person in cursor.iter(&mut session) {
///     println!("{}", person?);
/// }
/// # Ok::<(), onionskin_blocking::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "a cursor gives its documents only when it is read"]
pub struct SessionCursor<T> {
    cursor: onionskin::SessionCursor<BlockingRuntime, T>,
}

impl<T> SessionCursor<T> {
    pub(crate) const fn new(cursor: onionskin::SessionCursor<BlockingRuntime, T>) -> Self {
        Self { cursor }
    }

    /// Returns this cursor with documents of another type.
    ///
    /// ```no_run
    /// use onionskin_blocking::{Client, Run, bson::{Document, doc}};
    ///
    /// #[derive(serde::Deserialize)]
    /// struct Person { name: String }
    ///
    /// let client = Client::with_uri_str("mongodb://localhost")?;
    /// let people = client.database("app").collection::<Document>("people");
    /// let mut session = client.start_session().run()?;
    /// let cursor = people.find(doc! {}).session(&mut session).run()?;
    /// let mut people = cursor.with_type::<Person>();
    /// while let Some(person) = people.next(&mut session) {
    ///     println!("{}", person?.name);
    /// }
    /// # Ok::<(), onionskin_blocking::Error>(())
    /// ```
    pub fn with_type<D>(self) -> SessionCursor<D> {
        SessionCursor::new(self.cursor.with_type())
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
    /// let mut cursor = people.find(doc! {}).session(&mut session).run()?;
    /// let first = cursor.next(&mut session).transpose()?;
    /// cursor.close();
    /// # Ok::<(), onionskin_blocking::Error>(())
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if the thread is already in a blocking call of this client.
    pub fn close(self) {
        let runtime = self.cursor.runtime().clone();
        runtime.block_on(self.cursor.close());
    }

    /// Moves to the next document, as [`Cursor::advance`](crate::Cursor::advance). Fails also for
    /// another session than that of the call.
    ///
    /// ```no_run
    /// use onionskin_blocking::{Client, Run, bson::{Document, doc}};
    ///
    /// let client = Client::with_uri_str("mongodb://localhost")?;
    /// let people = client.database("app").collection::<Document>("people");
    /// let mut session = client.start_session().run()?;
    /// let mut cursor = people.find(doc! {}).session(&mut session).run()?;
    /// while cursor.advance(&mut session)? {
    ///     println!("{} bytes", cursor.current().as_bytes().len());
    /// }
    /// # Ok::<(), onionskin_blocking::Error>(())
    /// ```
    pub fn advance(&mut self, session: &mut ClientSession) -> Result<bool> {
        let runtime = self.cursor.runtime().clone();
        runtime.block_on(self.cursor.advance(session))
    }

    /// Returns the bytes of the document to which [`advance`](Self::advance) moved.
    ///
    /// ```no_run
    /// use onionskin_blocking::{Client, Run, bson::{Document, doc}};
    ///
    /// let client = Client::with_uri_str("mongodb://localhost")?;
    /// let people = client.database("app").collection::<Document>("people");
    /// let mut session = client.start_session().run()?;
    /// let mut cursor = people.find(doc! {}).session(&mut session).run()?;
    /// while cursor.advance(&mut session)? {
    ///     println!("{:?}", cursor.current().get_str("name"));
    /// }
    /// # Ok::<(), onionskin_blocking::Error>(())
    /// ```
    ///
    /// # Panics
    ///
    /// If `advance` was not called, or did not return true.
    #[must_use]
    pub fn current(&self) -> &RawDocument {
        self.cursor.current()
    }

    /// Decodes the document to which [`advance`](Self::advance) moved, as
    /// [`Cursor::deserialize_current`](crate::Cursor::deserialize_current).
    ///
    /// ```no_run
    /// use onionskin_blocking::{Client, Run, bson::{Document, doc}};
    ///
    /// #[derive(serde::Deserialize)]
    /// struct Name<'a> { name: &'a str }
    ///
    /// let client = Client::with_uri_str("mongodb://localhost")?;
    /// let people = client.database("app").collection::<Document>("people");
    /// let mut session = client.start_session().run()?;
    /// let people = people.clone_with_type::<Name<'_>>();
    /// let mut cursor = people.find(doc! {}).session(&mut session).run()?;
    /// while cursor.advance(&mut session)? {
    ///     let person = cursor.deserialize_current()?;
    ///     println!("{}", person.name);
    /// }
    /// # Ok::<(), onionskin_blocking::Error>(())
    /// ```
    pub fn deserialize_current<'a>(&'a self) -> Result<T>
    where
        T: Deserialize<'a>,
    {
        self.cursor.deserialize_current()
    }

    /// Decodes the document to which [`advance`](Self::advance) moved, as another type than the
    /// cursor's.
    ///
    /// ```no_run
    /// use onionskin_blocking::{Client, Run, bson::{Document, doc}};
    ///
    /// #[derive(serde::Deserialize)]
    /// struct Name<'a> { name: &'a str }
    ///
    /// let client = Client::with_uri_str("mongodb://localhost")?;
    /// let people = client.database("app").collection::<Document>("people");
    /// let mut session = client.start_session().run()?;
    /// let mut cursor = people.find(doc! {}).session(&mut session).run()?;
    /// while cursor.advance(&mut session)? {
    ///     let person: Name<'_> = cursor.deserialize_current_as()?;
    ///     println!("{}", person.name);
    /// }
    /// # Ok::<(), onionskin_blocking::Error>(())
    /// ```
    pub fn deserialize_current_as<'a, D: Deserialize<'a>>(&'a self) -> Result<D> {
        self.cursor.deserialize_current_as()
    }
}

impl<T: DeserializeOwned + 'static> SessionCursor<T> {
    /// Returns the next document; `None` at the end. Fails also for another session than that of
    /// the call.
    ///
    /// ```no_run
    /// use onionskin_blocking::{Client, Run, bson::{Document, doc}};
    ///
    /// let client = Client::with_uri_str("mongodb://localhost")?;
    /// let people = client.database("app").collection::<Document>("people");
    /// let mut session = client.start_session().run()?;
    /// let mut cursor = people.find(doc! {}).session(&mut session).run()?;
    /// while let Some(person) = cursor.next(&mut session) {
    ///     println!("{}", person?);
    /// }
    /// # Ok::<(), onionskin_blocking::Error>(())
    /// ```
    pub fn next(&mut self, session: &mut ClientSession) -> Option<Result<T>> {
        let runtime = self.cursor.runtime().clone();
        runtime.block_on(self.cursor.next(session))
    }

    /// Returns the next document, for which it fetches one batch at most, as
    /// [`Cursor::next_if_any`](crate::Cursor::next_if_any). Fails also for another session than
    /// that of the call.
    ///
    /// ```no_run
    /// use onionskin_blocking::{Client, Run, bson::{Document, doc}, options::CursorType};
    ///
    /// let client = Client::with_uri_str("mongodb://localhost")?;
    /// let log = client.database("app").collection::<Document>("log");
    /// let mut session = client.start_session().run()?;
    /// let tail = log.find(doc! {}).cursor_type(CursorType::TailableAwait);
    /// let mut lines = tail.session(&mut session).run()?;
    /// while let Some(line) = lines.next_if_any(&mut session)? {
    ///     println!("{line}");
    /// }
    /// # Ok::<(), onionskin_blocking::Error>(())
    /// ```
    pub fn next_if_any(&mut self, session: &mut ClientSession) -> Result<Option<T>> {
        let runtime = self.cursor.runtime().clone();
        runtime.block_on(self.cursor.next_if_any(session))
    }

    /// Returns an iterator of the documents, which borrows the session.
    ///
    /// ```no_run
    /// use onionskin_blocking::{Client, Run, bson::{Document, doc}};
    ///
    /// let client = Client::with_uri_str("mongodb://localhost")?;
    /// let people = client.database("app").collection::<Document>("people");
    /// let mut session = client.start_session().run()?;
    /// let mut cursor = people.find(doc! {}).session(&mut session).run()?;
    /// for person in cursor.iter(&mut session).take(3) {
    ///     println!("{}", person?);
    /// }
    /// # Ok::<(), onionskin_blocking::Error>(())
    /// ```
    pub fn iter<'a>(
        &'a mut self,
        session: &'a mut ClientSession,
    ) -> impl Iterator<Item = Result<T>> + use<'a, T> {
        std::iter::from_fn(move || self.next(session))
    }
}
