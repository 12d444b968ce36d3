//! Change streams for blocking programs.

use crate::{BlockingRuntime, ClientSession};
use onionskin::{RawDocument, Result, change_stream::event::ResumeToken};
use serde::de::DeserializeOwned;
use std::fmt;

/// The changes of a collection, of a database or of a deployment, as events. A change stream is an
/// iterator of `Result<T>`, which waits until there is an event.
///
/// [`onionskin::ChangeStream`] describes how a stream resumes and ends. If a stream is dropped, the
/// drop closes it on the server and waits for that, for two seconds at most.
///
/// ```no_run
/// use onionskin_blocking::{Client, Run, bson::Document};
///
/// let client = Client::with_uri_str("mongodb://localhost")?;
/// let people = client.database("app").collection::<Document>("people");
/// for event in people.watch().run()? {
///     println!("{:?}", event?.operation_type);
/// }
/// # Ok::<(), onionskin_blocking::Error>(())
/// ```
#[must_use = "a change stream gives its events only when it is iterated"]
pub struct ChangeStream<T> {
    stream: onionskin::ChangeStream<BlockingRuntime, T>,
    runtime: BlockingRuntime,
}

impl<T> fmt::Debug for ChangeStream<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChangeStream").finish_non_exhaustive()
    }
}

impl<T> ChangeStream<T> {
    pub(crate) const fn new(
        runtime: BlockingRuntime,
        stream: onionskin::ChangeStream<BlockingRuntime, T>,
    ) -> Self {
        Self { stream, runtime }
    }

    /// Returns this stream with events of another type.
    ///
    /// ```no_run
    /// use onionskin_blocking::{Client, Run, bson::{Document, doc}};
    ///
    /// let client = Client::with_uri_str("mongodb://localhost")?;
    /// let people = client.database("app").collection::<Document>("people");
    /// let key = doc! { "$project": { "key": "$documentKey._id" } };
    /// for change in people.watch().pipeline([key]).run()?.with_type::<Document>() {
    ///     println!("{:?}", change?.get("key"));
    /// }
    /// # Ok::<(), onionskin_blocking::Error>(())
    /// ```
    pub fn with_type<D>(self) -> ChangeStream<D> {
        ChangeStream {
            stream: self.stream.with_type(),
            runtime: self.runtime,
        }
    }

    /// Returns the token with which the stream would resume, as
    /// [`onionskin::ChangeStream::resume_token`].
    ///
    /// ```no_run
    /// use onionskin_blocking::{Client, Run, bson::Document};
    ///
    /// let client = Client::with_uri_str("mongodb://localhost")?;
    /// let people = client.database("app").collection::<Document>("people");
    /// let mut changes = people.watch().run()?;
    /// let first = changes.next().transpose()?;
    /// if let Some(token) = changes.resume_token() {
    ///     let rest = people.watch().resume_after(token).run()?;
    /// }
    /// # Ok::<(), onionskin_blocking::Error>(())
    /// ```
    #[must_use]
    pub fn resume_token(&self) -> Option<ResumeToken> {
        self.stream.resume_token()
    }

    /// True while further events can come. False after the end of the stream and after an error.
    ///
    /// ```no_run
    /// use onionskin_blocking::{Client, Run, bson::Document};
    ///
    /// let client = Client::with_uri_str("mongodb://localhost")?;
    /// let people = client.database("app").collection::<Document>("people");
    /// let mut changes = people.watch().run()?;
    /// while changes.is_alive() {
    ///     match changes.next_if_any()? {
    ///         Some(event) => println!("{:?}", event.operation_type),
    ///         None => println!("nothing has changed"),
    ///     }
    /// }
    /// # Ok::<(), onionskin_blocking::Error>(())
    /// ```
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.stream.is_alive()
    }

    /// Moves to the next event, which [`current`](Self::current) then returns. Waits until there is
    /// one, and returns false at the end of the stream.
    ///
    /// ```no_run
    /// use onionskin_blocking::{Client, Run, bson::Document};
    ///
    /// let client = Client::with_uri_str("mongodb://localhost")?;
    /// let people = client.database("app").collection::<Document>("people");
    /// let mut changes = people.watch().run()?;
    /// while changes.advance()? {
    ///     println!("{} bytes", changes.current().as_bytes().len());
    /// }
    /// # Ok::<(), onionskin_blocking::Error>(())
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if the thread is already in a blocking call of this client.
    pub fn advance(&mut self) -> Result<bool> {
        self.runtime.block_on(self.stream.advance())
    }

    /// Returns the bytes of the event to which [`advance`](Self::advance) moved.
    ///
    /// ```no_run
    /// use onionskin_blocking::{Client, Run, bson::Document};
    ///
    /// let client = Client::with_uri_str("mongodb://localhost")?;
    /// let people = client.database("app").collection::<Document>("people");
    /// let mut changes = people.watch().run()?;
    /// while changes.advance()? {
    ///     println!("{:?}", changes.current().get_str("operationType"));
    /// }
    /// # Ok::<(), onionskin_blocking::Error>(())
    /// ```
    ///
    /// # Panics
    ///
    /// If `advance` was not called, or did not return true.
    #[must_use]
    pub fn current(&self) -> &RawDocument {
        self.stream.current()
    }

    /// Closes the stream on the server and waits for the reply. The time limit of the stream, if it
    /// has one, begins anew; without one, the call waits for two seconds at most.
    ///
    /// ```no_run
    /// use onionskin_blocking::{Client, Run, bson::Document};
    ///
    /// let client = Client::with_uri_str("mongodb://localhost")?;
    /// let people = client.database("app").collection::<Document>("people");
    /// let mut changes = people.watch().run()?;
    /// let first = changes.next().transpose()?;
    /// changes.close();
    /// # Ok::<(), onionskin_blocking::Error>(())
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if the thread is already in a blocking call of this client.
    pub fn close(self) {
        self.runtime.block_on(self.stream.close());
    }
}

impl<T: DeserializeOwned + 'static> ChangeStream<T> {
    /// Returns the next event, for which it fetches one batch at most. `None` if that batch is
    /// empty, and at the end of the stream. The [`resume_token`](Self::resume_token) moves on also
    /// with an empty batch.
    ///
    /// ```no_run
    /// use onionskin_blocking::{Client, Run, bson::Document};
    ///
    /// let client = Client::with_uri_str("mongodb://localhost")?;
    /// let people = client.database("app").collection::<Document>("people");
    /// let mut changes = people.watch().run()?;
    /// // The changes so far, without waiting for others.
    /// while let Some(event) = changes.next_if_any()? {
    ///     println!("{:?}", event.operation_type);
    /// }
    /// # Ok::<(), onionskin_blocking::Error>(())
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if the thread is already in a blocking call of this client.
    pub fn next_if_any(&mut self) -> Result<Option<T>> {
        self.runtime.block_on(self.stream.next_if_any())
    }
}

impl<T: DeserializeOwned + 'static> Iterator for ChangeStream<T> {
    type Item = Result<T>;

    /// Returns the next event, and waits until there is one; `None` at the end of the stream.
    ///
    /// # Panics
    ///
    /// Panics if the thread is already in a blocking call of this client.
    fn next(&mut self) -> Option<Result<T>> {
        self.runtime.block_on(self.stream.next())
    }
}

/// A [`ChangeStream`] of a call in a session. The methods that can fetch a batch need the session.
///
/// A stream that is dropped is closed on the server, for which the drop waits for two seconds at
/// most.
#[derive(Debug)]
#[must_use = "a change stream gives its events only when it is read"]
pub struct SessionChangeStream<T> {
    stream: onionskin::SessionChangeStream<BlockingRuntime, T>,
}

impl<T> SessionChangeStream<T> {
    pub(crate) const fn new(stream: onionskin::SessionChangeStream<BlockingRuntime, T>) -> Self {
        Self { stream }
    }

    /// Returns this stream with events of another type.
    ///
    /// ```no_run
    /// use onionskin_blocking::{Client, Run, bson::{Document, doc}};
    ///
    /// let client = Client::with_uri_str("mongodb://localhost")?;
    /// let people = client.database("app").collection::<Document>("people");
    /// let mut session = client.start_session().run()?;
    /// let key = doc! { "$project": { "key": "$documentKey._id" } };
    /// let changes = people.watch().pipeline([key]).session(&mut session).run()?;
    /// let mut keys = changes.with_type::<Document>();
    /// while let Some(change) = keys.next(&mut session)? {
    ///     println!("{:?}", change.get("key"));
    /// }
    /// # Ok::<(), onionskin_blocking::Error>(())
    /// ```
    pub fn with_type<D>(self) -> SessionChangeStream<D> {
        SessionChangeStream::new(self.stream.with_type())
    }

    /// Returns the token with which the stream would resume.
    ///
    /// ```no_run
    /// use onionskin_blocking::{Client, Run, bson::Document};
    ///
    /// let client = Client::with_uri_str("mongodb://localhost")?;
    /// let people = client.database("app").collection::<Document>("people");
    /// let mut session = client.start_session().run()?;
    /// let mut changes = people.watch().session(&mut session).run()?;
    /// let first = changes.next(&mut session)?;
    /// if let Some(token) = changes.resume_token() {
    ///     let rest = people.watch().resume_after(token).session(&mut session).run()?;
    /// }
    /// # Ok::<(), onionskin_blocking::Error>(())
    /// ```
    #[must_use]
    pub fn resume_token(&self) -> Option<ResumeToken> {
        self.stream.resume_token()
    }

    /// True while further events can come.
    ///
    /// ```no_run
    /// use onionskin_blocking::{Client, Run, bson::Document};
    ///
    /// let client = Client::with_uri_str("mongodb://localhost")?;
    /// let people = client.database("app").collection::<Document>("people");
    /// let mut session = client.start_session().run()?;
    /// let mut changes = people.watch().session(&mut session).run()?;
    /// while changes.is_alive() {
    ///     match changes.next_if_any(&mut session)? {
    ///         Some(event) => println!("{:?}", event.operation_type),
    ///         None => println!("nothing has changed"),
    ///     }
    /// }
    /// # Ok::<(), onionskin_blocking::Error>(())
    /// ```
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.stream.is_alive()
    }

    /// Closes the stream on the server and waits for the reply. The time limit of the stream, if it
    /// has one, begins anew; without one, the call waits for two seconds at most.
    ///
    /// ```no_run
    /// use onionskin_blocking::{Client, Run, bson::Document};
    ///
    /// let client = Client::with_uri_str("mongodb://localhost")?;
    /// let people = client.database("app").collection::<Document>("people");
    /// let mut session = client.start_session().run()?;
    /// let mut changes = people.watch().session(&mut session).run()?;
    /// let first = changes.next(&mut session)?;
    /// changes.close();
    /// # Ok::<(), onionskin_blocking::Error>(())
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if the thread is already in a blocking call of this client.
    pub fn close(self) {
        let runtime = self.stream.runtime().clone();
        runtime.block_on(self.stream.close());
    }
}

impl<T: DeserializeOwned + 'static> SessionChangeStream<T> {
    /// Returns the next event, and waits until there is one; `None` at the end of the stream. Fails
    /// also for another session than that of the call.
    ///
    /// ```no_run
    /// use onionskin_blocking::{Client, Run, bson::Document};
    ///
    /// let client = Client::with_uri_str("mongodb://localhost")?;
    /// let people = client.database("app").collection::<Document>("people");
    /// let mut session = client.start_session().run()?;
    /// let mut changes = people.watch().session(&mut session).run()?;
    /// while let Some(event) = changes.next(&mut session)? {
    ///     println!("{:?}", event.operation_type);
    /// }
    /// # Ok::<(), onionskin_blocking::Error>(())
    /// ```
    pub fn next(&mut self, session: &mut ClientSession) -> Result<Option<T>> {
        let runtime = self.stream.runtime().clone();
        runtime.block_on(self.stream.next(session))
    }

    /// Returns the next event, for which it fetches one batch at most, as
    /// [`ChangeStream::next_if_any`]. Fails also for another session than that of the call.
    ///
    /// ```no_run
    /// use onionskin_blocking::{Client, Run, bson::Document};
    ///
    /// let client = Client::with_uri_str("mongodb://localhost")?;
    /// let people = client.database("app").collection::<Document>("people");
    /// let mut session = client.start_session().run()?;
    /// let mut changes = people.watch().session(&mut session).run()?;
    /// // The changes so far, without waiting for others.
    /// while let Some(event) = changes.next_if_any(&mut session)? {
    ///     println!("{:?}", event.operation_type);
    /// }
    /// # Ok::<(), onionskin_blocking::Error>(())
    /// ```
    pub fn next_if_any(&mut self, session: &mut ClientSession) -> Result<Option<T>> {
        let runtime = self.stream.runtime().clone();
        runtime.block_on(self.stream.next_if_any(session))
    }
}
