//! Cursors.

use crate::{Client, Execution, Runtime, client::Ending, decode::decode};
use futures_core::Stream;
use onionskin_core::{error::Error, operation};
use serde::de::DeserializeOwned;
use std::{
    future::{Future, poll_fn},
    marker::PhantomData,
    pin::Pin,
    task::{Context, Poll, ready},
};

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
    batches: Batches<R>,
    marker: PhantomData<fn() -> T>,
}

/// The core's cursor, in the operation that fetches its batches.
struct Batches<R: Runtime> {
    fetch: Execution<R, operation::Cursor>,
    /// The process that it was opened in.
    process: Option<u32>,
}

impl<R: Runtime, T> Cursor<R, T> {
    pub(crate) fn new(client: Client<R>, cursor: operation::Cursor) -> Self {
        let process = client.runtime().process_id();
        Self {
            batches: Batches {
                fetch: Execution::at_rest(client, cursor),
                process,
            },
            marker: PhantomData,
        }
    }

    /// Reads on as documents of another type.
    pub fn with_type<D>(self) -> Cursor<R, D> {
        Cursor {
            batches: self.batches,
            marker: PhantomData,
        }
    }

    /// Ends the cursor on the server and waits for that, two seconds at most. A cursor that is
    /// dropped is ended as well, but nobody waits for it; so is one whose `close` is dropped before
    /// its end.
    pub async fn close(mut self) {
        let batches = &mut self.batches;
        batches.leave_to_parent();
        batches.fetch.stop();
        let client = batches.fetch.client().clone();
        match batches.fetch.program_mut().end() {
            // A server that does not hear of it ends the cursor by itself later.
            Ok(command) => drop(Ending::new(&client, command).await),
            Err(resources) => client.release_cursor(resources),
        }
    }
}

impl<R: Runtime> Batches<R> {
    /// Makes sure that the current batch has a document, or that there is none left (`false`).
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<bool, Error>> {
        if self.fetch.is_over() {
            let cursor = self.fetch.program_mut();
            if !cursor.is_batch_empty() || !cursor.is_open() {
                return Poll::Ready(Ok(!cursor.is_batch_empty()));
            }
            if self.leave_to_parent() {
                let message = "the cursor was opened by the process that this one was forked from";
                return Poll::Ready(Err(Error::argument(message)));
            }
            self.fetch.restart();
        }
        Pin::new(&mut self.fetch).poll(context)
    }

    /// In a child that was forked after the cursor was opened: the parent goes on to read it, so it
    /// is neither read nor ended here. True if that is so.
    fn leave_to_parent(&mut self) -> bool {
        let is_left = self.fetch.runtime().process_id() != self.process;
        if is_left {
            *self.fetch.program_mut() = operation::Cursor::over();
        }
        is_left
    }
}

impl<R: Runtime, T: DeserializeOwned> Cursor<R, T> {
    fn poll_document(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<T, Error>>> {
        match ready!(self.batches.poll(context)) {
            Err(error) => Poll::Ready(Some(Err(error))),
            Ok(false) => Poll::Ready(None),
            Ok(true) => {
                let cursor = self.batches.fetch.program_mut();
                let next = cursor.next_document();
                Poll::Ready(next.map(|document| decode(document?)))
            }
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

impl<R: Runtime> Drop for Batches<R> {
    fn drop(&mut self) {
        // The operation, which is dropped next, ends the cursor on its server.
        self.leave_to_parent();
    }
}
