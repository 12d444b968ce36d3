//! Change streams.

mod session;

pub use session::{SessionChangeStream, SessionChangeStreamValues};

use crate::{Client, CloseCursor, Runtime, kept::Kept};
use bson::RawDocument;
use futures_core::Stream;
use onionskin_core::{
    error::Error,
    operation::{self, crud::ResumeToken},
};
use serde::de::DeserializeOwned;
use std::{
    fmt,
    future::{Future, poll_fn},
    marker::PhantomData,
    pin::Pin,
    task::{Context, Poll, ready},
};

/// The changes of a collection, of a database or of a deployment, as events. A change stream is a
/// [`Stream`] of `Result<T>`, where `T` is by default a
/// [`ChangeStreamEvent`](crate::change_stream::event::ChangeStreamEvent).
///
/// Only replica sets and sharded clusters have change streams. A stream has an event as soon as a
/// majority of the members has the change. After an error that can pass, such as a failover, the
/// stream resumes by itself after the last event, and no event is lost. The first error that
/// [`next`](Self::next) returns otherwise ends the stream.
///
/// A stream ends with the event [`Invalidate`](crate::change_stream::event::OperationType) if what
/// it watches was dropped or renamed.
///
/// # Resuming after a restart
///
/// Store the [`resume_token`](Self::resume_token) after the events before it were handled, and pass
/// it to [`resume_after`](crate::Watch::resume_after). To store tokens also while nothing changes,
/// iterate with [`next_if_any`](Self::next_if_any): it returns after each reply of the server, and
/// the token moves on with it.
///
/// ```no_run
/// # use onionskin::{Collection, Error, Runtime, bson::{Document, doc}};
/// # use onionskin::change_stream::event::ResumeToken;
/// # fn store(_: Option<ResumeToken>) {}
/// # async fn example<R: Runtime>(people: Collection<R, Document>) -> Result<(), Error> {
/// let mut changes = people.watch().await?;
/// while changes.is_alive() {
///     if let Some(event) = changes.next_if_any().await? {
///         println!("{:?}", event.operation_type);
///     }
///     store(changes.resume_token());
/// }
/// # Ok(())
/// # }
/// ```
///
/// # Time limits
///
/// [`Watch::timeout`](crate::Watch::timeout), or else `timeoutMS` of the client, limits the call
/// and then each `next`. After a timeout error, call `next` again, which resumes the stream, or
/// drop it and start another one. If no event was received before the timeout, start one with a
/// longer limit: the server may need more time to search its oplog.
///
/// A change stream keeps its client open. If a stream is dropped, its cursor is closed on the
/// server in the background.
#[must_use = "a change stream gives its events only when it is polled"]
pub struct ChangeStream<R: Runtime, T> {
    events: Events<R>,
    marker: PhantomData<fn() -> T>,
}

/// The core's change stream, and the operation that fetches its events.
type Events<R> = Kept<R, operation::ChangeStream>;

impl<R: Runtime, T> fmt::Debug for ChangeStream<R, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stream = self.events.fetch.program();
        f.debug_struct("ChangeStream")
            .field("server", stream.server())
            .field("is_alive", &stream.is_alive())
            .finish_non_exhaustive()
    }
}

impl<R: Runtime, T> ChangeStream<R, T> {
    pub(crate) fn new(client: Client<R>, stream: operation::ChangeStream) -> Self {
        Self {
            events: Events::new(client, stream),
            marker: PhantomData,
        }
    }

    pub(crate) fn client(&self) -> &Client<R> {
        self.events.fetch.client()
    }

    /// Returns the runtime of the client.
    ///
    /// ```no_run
    /// # use onionskin::{ChangeStream, Runtime};
    /// # fn example<R: Runtime + Clone>(changes: ChangeStream<R, ()>) {
    /// // A runtime that blocks polls the stream with an executor of its own.
    /// let runtime = changes.runtime().clone();
    /// # }
    /// ```
    #[must_use]
    pub fn runtime(&self) -> &R {
        self.events.fetch.runtime()
    }

    /// Returns this stream with events of another type, for example of a type of the application,
    /// or [`Document`](bson::Document) if the pipeline changes the form of the events.
    ///
    /// ```no_run
    /// # use onionskin::{Collection, Error, Runtime, bson::{Document, doc}};
    /// # async fn example<R: Runtime>(people: Collection<R, Document>) -> Result<(), Error> {
    /// let key = doc! { "$project": { "key": "$documentKey._id" } };
    /// let mut keys = people.watch().pipeline([key]).await?.with_type::<Document>();
    /// # Ok(())
    /// # }
    /// ```
    pub fn with_type<D>(self) -> ChangeStream<R, D> {
        ChangeStream {
            events: self.events,
            marker: PhantomData,
        }
    }

    /// Returns the token with which the stream would resume: that of the last event that was
    /// returned, or one that the server has sent after it. `None` before the first token.
    ///
    /// ```no_run
    /// # use onionskin::{Collection, Error, Runtime, bson::Document};
    /// # async fn example<R: Runtime>(people: Collection<R, Document>) -> Result<(), Error> {
    /// let mut changes = people.watch().await?;
    /// let first = changes.next().await.transpose()?;
    /// if let Some(token) = changes.resume_token() {
    ///     let rest = people.watch().resume_after(token).await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn resume_token(&self) -> Option<ResumeToken> {
        self.events.fetch.program().resume_token().cloned()
    }

    /// True while further events can come. False after the end of the stream and after an error.
    ///
    /// ```no_run
    /// # use onionskin::{Collection, Error, Runtime, bson::Document};
    /// # async fn example<R: Runtime>(people: Collection<R, Document>) -> Result<(), Error> {
    /// let mut changes = people.watch().await?;
    /// while changes.is_alive() {
    ///     match changes.next_if_any().await? {
    ///         Some(event) => println!("{:?}", event.operation_type),
    ///         None => println!("no news"),
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn is_alive(&self) -> bool {
        let stream = self.events.fetch.program();
        stream.has_next() || stream.is_alive()
    }

    /// Moves to the next event, which [`current`](Self::current) then returns. Returns false at the
    /// end of the stream. Fails like [`next`](Self::next).
    ///
    /// ```no_run
    /// # use onionskin::{Collection, Error, Runtime, bson::Document};
    /// # async fn example<R: Runtime>(people: Collection<R, Document>) -> Result<(), Error> {
    /// let mut changes = people.watch().await?;
    /// while changes.advance().await? {
    ///     println!("{} bytes", changes.current().as_bytes().len());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn advance(&mut self) -> Result<bool, Error> {
        poll_fn(|context| self.events.poll(context, false))
            .await
            .map_or(Ok(false), |next| next.map(|()| true))
    }

    /// Returns the bytes of the event to which [`advance`](Self::advance) moved.
    ///
    /// ```no_run
    /// # use onionskin::{Collection, Error, Runtime, bson::Document};
    /// # async fn example<R: Runtime>(people: Collection<R, Document>) -> Result<(), Error> {
    /// let mut changes = people.watch().await?;
    /// while changes.advance().await? {
    ///     println!("{}", changes.current().get_str("operationType")?);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Panics
    ///
    /// If `advance` was not called, or did not return true. [`next`](Self::next) moves on, too.
    #[must_use]
    pub fn current(&self) -> &RawDocument {
        let current = self.events.fetch.program().current();
        current.expect("`advance` must return true before there is a current event")
    }

    /// Closes the stream on the server and waits for the reply. The time limit of the stream, if it
    /// has one, begins anew; without one, the call waits for two seconds at most.
    /// [`CloseCursor::timeout`] sets another limit.
    ///
    /// ```no_run
    /// # use onionskin::{Collection, Error, Runtime, bson::Document};
    /// # async fn example<R: Runtime>(people: Collection<R, Document>) -> Result<(), Error> {
    /// let mut changes = people.watch().await?;
    /// let first = changes.next().await;
    /// changes.close().await;
    /// # Ok(())
    /// # }
    /// ```
    pub fn close(self) -> CloseCursor<R> {
        self.events.close()
    }
}

impl<R: Runtime> Events<R> {
    /// Moves to the next event. The result is `None` at the end of the stream. With `fetches_one`,
    /// one batch is fetched at most, and the result is `None` also if it is empty.
    fn poll(
        &mut self,
        context: &mut Context<'_>,
        fetches_one: bool,
    ) -> Poll<Option<Result<(), Error>>> {
        let stream = self.fetch.program_mut();
        stream.set_fetches_one(fetches_one);
        if self.fetch.is_over() {
            if let Some(next) = self.advance() {
                return Poll::Ready(Some(next));
            }
            if !self.fetch.program().is_alive() {
                return Poll::Ready(None);
            }
            if let Err(error) = self.restart() {
                return Poll::Ready(Some(Err(error)));
            }
        }
        let fetched = ready!(Pin::new(&mut self.fetch).poll(context));
        Poll::Ready(match fetched {
            Ok(_) => self.advance(),
            Err(error) => Some(Err(error)),
        })
    }

    /// Moves to the next event that was fetched. An error, for example about an event without a
    /// token, ends the stream, so its cursor is closed in the background.
    fn advance(&mut self) -> Option<Result<(), Error>> {
        let next = self.fetch.program_mut().advance();
        if matches!(next, Some(Err(_))) {
            self.end_in_background();
        }
        next
    }
}

impl<R: Runtime, T: DeserializeOwned + 'static> ChangeStream<R, T> {
    fn poll_event(
        &mut self,
        context: &mut Context<'_>,
        fetches_one: bool,
    ) -> Poll<Option<Result<T, Error>>> {
        let next = ready!(self.events.poll(context, fetches_one));
        let stream = self.events.fetch.program();
        Poll::Ready(next.map(|next| next.and_then(|()| stream.decode())))
    }

    /// Returns the next event, and waits until there is one; `None` at the end of the stream.
    ///
    /// The future can be dropped without a loss of events, for example by a timeout of the runtime.
    /// The next call of `next` continues what it has begun. Until then that keeps its connection.
    ///
    /// Fails if an event does not have the form of `T`; the stream then continues with the event
    /// after it. Fails with a timeout error if the time limit passes; the stream then resumes with
    /// the next call. Other errors end the stream.
    ///
    /// ```no_run
    /// # use onionskin::{Collection, Error, Runtime, bson::Document};
    /// # async fn example<R: Runtime>(people: Collection<R, Document>) -> Result<(), Error> {
    /// let mut changes = people.watch().await?;
    /// while let Some(event) = changes.next().await {
    ///     println!("{:?}", event?.operation_type);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn next(&mut self) -> Option<Result<T, Error>> {
        poll_fn(|context| self.poll_event(context, false)).await
    }

    /// Returns the next event, for which it fetches one batch at most. `None` if that batch is
    /// empty, and at the end of the stream. Fails and can be dropped like [`next`](Self::next). The
    /// example of [`ChangeStream`] uses it to store tokens.
    ///
    /// ```no_run
    /// # use onionskin::{Collection, Error, Runtime, bson::Document};
    /// # async fn example<R: Runtime>(people: Collection<R, Document>) -> Result<(), Error> {
    /// let mut changes = people.watch().await?;
    /// while let Some(event) = changes.next_if_any().await? {
    ///     println!("{:?}", event.operation_type);
    /// }
    /// println!("there is no further event yet");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn next_if_any(&mut self) -> Result<Option<T>, Error> {
        poll_fn(|context| self.poll_event(context, true))
            .await
            .transpose()
    }
}

impl<R: Runtime, T: DeserializeOwned + 'static> Stream for ChangeStream<R, T> {
    type Item = Result<T, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_event(context, false)
    }
}
