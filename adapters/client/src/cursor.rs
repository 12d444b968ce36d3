//! Cursors.

use crate::{
    Client, Execution, Runtime,
    client::Ending,
    decode::{TakeReply, decode},
};
use futures_core::Stream;
use onionskin_core::{
    client::DRAIN_LIMIT,
    error::Error,
    operation::{self, Leftovers},
};
use serde::de::DeserializeOwned;
use std::{
    future::{Future, poll_fn},
    marker::PhantomData,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

/// How long the end of a cursor is waited for.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// How long the end of a cursor that was dropped may take, for which nobody waits: a reply may be
/// outstanding before. Without a limit it would be as long as its server hangs, which nobody finds
/// out where there is a load balancer, and the connection would be lost.
const DROP_TIMEOUT: Duration = DRAIN_LIMIT.saturating_add(CLOSE_TIMEOUT);

/// The results of a query, fetched batch by batch. It is a [`Stream`] of `Result<T>`.
///
/// It is fetched from and ended by whoever holds it, never by two at once (LB-38). Behind a load
/// balancer it also keeps a connection of its pool until it is exhausted, closed or dropped
/// (LB-30).
///
/// The time limit of the call that made it bounds the call and all batches together
/// ([`Find::timeout`](crate::Find::timeout), [`Aggregate::timeout`](crate::Aggregate::timeout), or
/// `timeoutMS` of the client). When the limit is over, [`next`](Self::next) gives the documents
/// that were fetched before, then a timeout error. [`close`](Self::close) has a limit of its own.
///
/// A cursor keeps its client open. One that is dropped before its end is ended on the server in the
/// background, which takes five seconds at most.
#[must_use = "a cursor gives its documents only when it is polled"]
pub struct Cursor<R: Runtime, T> {
    /// Kept open as long as the cursor is in use.
    client: Client<R>,
    cursor: operation::Cursor,
    /// The next batch on its way.
    fetching: Option<Execution<R, TakeReply>>,
    /// The process that it was opened in.
    process: Option<u32>,
    marker: PhantomData<fn() -> T>,
}

impl<R: Runtime, T> Cursor<R, T> {
    pub(crate) fn new(client: Client<R>, cursor: operation::Cursor) -> Self {
        let process = client.runtime().process_id();
        let mut this = Self {
            client,
            cursor,
            fetching: None,
            process,
            marker: PhantomData,
        };
        this.give_back_idle();
        this
    }

    /// Reads on as documents of another type.
    pub fn with_type<D>(mut self) -> Cursor<R, D> {
        let cursor = std::mem::replace(&mut self.cursor, operation::Cursor::over());
        Cursor {
            client: self.client.clone(),
            cursor,
            fetching: self.fetching.take(),
            process: self.process,
            marker: PhantomData,
        }
    }

    /// Ends the cursor on the server and waits for that, two seconds at most. A cursor that is
    /// dropped is ended as well, but nobody waits for it; so is one whose `close` is dropped before
    /// its end.
    pub async fn close(mut self) {
        self.leave_to_parent();
        self.fetching = None;
        match self.cursor.end() {
            Ok(mut command) => {
                command.set_timeout(Some(CLOSE_TIMEOUT));
                // A server that does not hear of it ends the cursor by itself later.
                let _ = Ending::new(&self.client, command).await;
            }
            Err(leftovers) => self.give_back(leftovers),
        }
    }

    fn give_back_idle(&mut self) {
        let leftovers = self.cursor.take_idle();
        self.give_back(leftovers);
    }

    fn give_back(&self, leftovers: Leftovers) {
        if !leftovers.is_empty() {
            self.client
                .shared()
                .with(|inner, now| inner.core.take_leftovers(now, leftovers));
        }
    }

    /// Makes sure that the current batch has a document, or that there is none left (`false`).
    fn poll_batch(&mut self, context: &mut Context<'_>) -> Poll<Result<bool, Error>> {
        loop {
            if let Some(fetch) = &mut self.fetching {
                let result = ready!(Pin::new(fetch).poll(context));
                self.fetching = None;
                let taken =
                    result.and_then(|(reply, session)| self.cursor.handle_reply(reply, session));
                if let Err(error) = taken {
                    self.cursor.handle_failure(&error);
                    self.give_back_idle();
                    return Poll::Ready(Err(error));
                }
                self.give_back_idle();
            }
            if !self.cursor.is_batch_empty() {
                return Poll::Ready(Ok(true));
            }
            if self.cursor.is_open() && self.leave_to_parent() {
                let message = "the cursor was opened by the process that this one was forked from";
                return Poll::Ready(Err(Error::argument(message)));
            }
            match self.cursor.more() {
                None => return Poll::Ready(Ok(false)),
                Some(command) => {
                    self.fetching =
                        Some(Execution::new(self.client.clone(), Ok(command), TakeReply));
                }
            }
        }
    }

    /// In a child that was forked after the cursor was opened: the parent goes on to read it, so it
    /// is neither read nor ended here. True if that is so.
    fn leave_to_parent(&mut self) -> bool {
        let is_left = self.client.runtime().process_id() != self.process;
        if is_left {
            self.cursor = operation::Cursor::over();
        }
        is_left
    }
}

impl<R: Runtime, T: DeserializeOwned> Cursor<R, T> {
    fn poll_document(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<T, Error>>> {
        match ready!(self.poll_batch(context)) {
            Err(error) => Poll::Ready(Some(Err(error))),
            Ok(false) => Poll::Ready(None),
            Ok(true) => Poll::Ready(
                self.cursor
                    .next_document()
                    .map(|document| decode(document?)),
            ),
        }
    }

    /// The next document; `None` at the end. Fails where no time is left to fetch another batch;
    /// the cursor has ended then.
    pub async fn next(&mut self) -> Option<Result<T, Error>> {
        poll_fn(|context| self.poll_document(context)).await
    }

    /// All documents that are left, in a list.
    pub async fn collect(mut self) -> Result<Vec<T>, Error> {
        let mut all = Vec::new();
        while let Some(document) = self.next().await {
            all.push(document?);
        }
        Ok(all)
    }
}

impl<R: Runtime, T: DeserializeOwned> Stream for Cursor<R, T> {
    type Item = Result<T, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_document(context)
    }
}

impl<R: Runtime, T> Drop for Cursor<R, T> {
    fn drop(&mut self) {
        self.leave_to_parent();
        // A fetch under way is dropped first. It holds the session, which the core takes back from
        // it and does not use again; the cursor is then ended without one.
        self.fetching = None;
        match self.cursor.end() {
            Ok(mut command) => {
                command.set_timeout(Some(DROP_TIMEOUT));
                self.client.run_in_background(command);
            }
            Err(leftovers) => self.give_back(leftovers),
        }
    }
}
