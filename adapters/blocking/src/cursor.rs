//! Cursors for blocking programs.

use crate::BlockingRuntime;
use onionskin::{RawDocument, Result};
use serde::de::{Deserialize, DeserializeOwned};
use std::fmt;

/// The documents of a query or an aggregation, fetched in batches. A cursor is an iterator of
/// `Result<T>`.
///
/// If a cursor is dropped early, the drop closes it on the server and waits for that, for two
/// seconds at most.
#[must_use = "a cursor gives its documents only when it is iterated"]
pub struct Cursor<T> {
    cursor: onionskin::Cursor<BlockingRuntime, T>,
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
        Self { cursor, runtime }
    }

    /// Returns this cursor with documents of another type.
    ///
    /// ```no_run
    /// use onionskin_blocking::{Client, Run, bson::{Document, doc}};
    ///
    /// #[derive(serde::Deserialize)]
    /// struct PerYear { _id: i32, count: i64 }
    ///
    /// let client = Client::with_uri_str("mongodb://localhost")?;
    /// let people = client.database("app").collection::<Document>("people");
    /// let group = doc! { "$group": { "_id": "$born", "count": { "$sum": 1_i64 } } };
    /// for year in people.aggregate([group]).run()?.with_type::<PerYear>() {
    ///     let year = year?;
    ///     println!("{}: {}", year._id, year.count);
    /// }
    /// # Ok::<(), onionskin_blocking::Error>(())
    /// ```
    pub fn with_type<D>(self) -> Cursor<D> {
        Cursor {
            cursor: self.cursor.with_type(),
            runtime: self.runtime,
        }
    }

    /// Closes the cursor on the server and waits for the reply. The time limit of the cursor, if it
    /// has one, begins anew; without one, the call waits for two seconds at most.
    ///
    /// ```no_run
    /// use onionskin_blocking::{Client, Run, bson::{Document, doc}};
    ///
    /// let client = Client::with_uri_str("mongodb://localhost")?;
    /// let people = client.database("app").collection::<Document>("people");
    /// let mut cursor = people.find(doc! {}).run()?;
    /// let first = cursor.next().transpose()?;
    /// cursor.close();
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

impl<T> Cursor<T> {
    /// Moves to the next document, which [`current`](Self::current) and
    /// [`deserialize_current`](Self::deserialize_current) then return without a copy of its bytes.
    /// Returns false at the end.
    ///
    /// Fails if another batch cannot be fetched, and if the document is not BSON. After an error
    /// there is no current document.
    ///
    /// ```no_run
    /// use onionskin_blocking::{Client, Run, bson::{Document, doc}};
    ///
    /// let client = Client::with_uri_str("mongodb://localhost")?;
    /// let people = client.database("app").collection::<Document>("people");
    /// let mut cursor = people.find(doc! {}).run()?;
    /// while cursor.advance()? {
    ///     println!("{} bytes", cursor.current().as_bytes().len());
    /// }
    /// # Ok::<(), onionskin_blocking::Error>(())
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if the thread is already in a blocking call of this client.
    pub fn advance(&mut self) -> Result<bool> {
        self.runtime.block_on(self.cursor.advance())
    }

    /// False if there is certainly no further document: the current batch was read, and the server
    /// has closed the cursor or a batch could not be fetched.
    ///
    /// ```no_run
    /// use onionskin_blocking::{Client, Run, bson::{Document, doc}};
    ///
    /// let client = Client::with_uri_str("mongodb://localhost")?;
    /// let people = client.database("app").collection::<Document>("people");
    /// let mut cursor = people.find(doc! {}).run()?;
    /// let first = cursor.next().transpose()?;
    /// if !cursor.has_next() {
    ///     println!("there was one person at most");
    /// }
    /// # Ok::<(), onionskin_blocking::Error>(())
    /// ```
    #[must_use]
    pub fn has_next(&self) -> bool {
        self.cursor.has_next()
    }

    /// Returns the bytes of the document to which [`advance`](Self::advance) moved.
    ///
    /// ```no_run
    /// use onionskin_blocking::{Client, Run, bson::{Document, doc}};
    ///
    /// let client = Client::with_uri_str("mongodb://localhost")?;
    /// let people = client.database("app").collection::<Document>("people");
    /// let mut cursor = people.find(doc! {}).run()?;
    /// while cursor.advance()? {
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

    /// Decodes the document to which [`advance`](Self::advance) moved. Strings and binary data of
    /// the type can borrow from the batch of the cursor.
    ///
    /// Fails if there is no current document, or if it does not have the form that `T` needs.
    ///
    /// ```no_run
    /// use onionskin_blocking::{Client, Run, bson::{Document, doc}};
    ///
    /// #[derive(serde::Deserialize)]
    /// struct Name<'a> { name: &'a str }
    ///
    /// let client = Client::with_uri_str("mongodb://localhost")?;
    /// let people = client.database("app").collection::<Document>("people");
    /// let people = people.clone_with_type::<Name<'_>>();
    /// let mut cursor = people.find(doc! {}).run()?;
    /// while cursor.advance()? {
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
    /// let mut cursor = people.find(doc! {}).run()?;
    /// while cursor.advance()? {
    ///     let person: Name<'_> = cursor.deserialize_current_as()?;
    ///     println!("{}", person.name);
    /// }
    /// # Ok::<(), onionskin_blocking::Error>(())
    /// ```
    pub fn deserialize_current_as<'a, D: Deserialize<'a>>(&'a self) -> Result<D> {
        self.cursor.deserialize_current_as()
    }
}

impl<T: DeserializeOwned + 'static> Cursor<T> {
    /// Returns the next document, for which it fetches one batch at most. `None` if that batch is
    /// empty, and at the end. This is for tailable cursors, whose `next` waits until there is a
    /// document.
    ///
    /// ```no_run
    /// use onionskin_blocking::{Client, Run, bson::{Document, doc}, options::CursorType};
    ///
    /// let client = Client::with_uri_str("mongodb://localhost")?;
    /// let log = client.database("app").collection::<Document>("log");
    /// let mut lines = log.find(doc! {}).cursor_type(CursorType::TailableAwait).run()?;
    /// while let Some(line) = lines.next_if_any()? {
    ///     println!("{line}");
    /// }
    /// println!("no news, so there is time for something else");
    /// # Ok::<(), onionskin_blocking::Error>(())
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if the thread is already in a blocking call of this client.
    pub fn next_if_any(&mut self) -> Result<Option<T>> {
        self.runtime.block_on(self.cursor.next_if_any())
    }

    /// Returns all remaining documents as a list, or the first error.
    ///
    /// ```no_run
    /// use onionskin_blocking::{Client, Run, bson::{Document, doc}};
    ///
    /// let client = Client::with_uri_str("mongodb://localhost")?;
    /// let people = client.database("app").collection::<Document>("people");
    /// let youngest = people.find(doc! {}).sort(doc! { "born": -1 }).limit(10);
    /// let youngest: Vec<Document> = youngest.run()?.into_vec()?;
    /// # Ok::<(), onionskin_blocking::Error>(())
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if the thread is already in a blocking call of this client.
    pub fn into_vec(self) -> Result<Vec<T>> {
        self.runtime.block_on(self.cursor.into_vec())
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
        self.runtime.block_on(self.cursor.next())
    }
}
