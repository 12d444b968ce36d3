//! The transfer of the bytes of one exchange.

use crate::{signal::Signal, system::socket_error, workspace::Lent};
use futures_io::{AsyncRead, AsyncWrite};
use onionskin_core::{
    client::{Outcome, Progress, closed_by_peer},
    error::Error,
    operation::Exchange,
};
use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker, ready},
};

/// The size in bytes of the buffer for an idle check. On an idle connection a server sends no
/// bytes, except for messages of TLS.
const IDLE_CHECK_BYTES: usize = 64;

/// The maximum number of reads in one poll, so that other tasks run and an interruption is noticed.
const READS_PER_TURN: usize = 32;

/// An exchange together with the stream of its connection.
pub(crate) struct ActiveExchange<S> {
    pub(crate) exchange: Exchange,
    pub(crate) stream: S,
    pub(crate) signal: Arc<Signal>,
}

/// The progress of an operation, with the stream for its exchange.
pub(crate) type Started<S> = Progress<ActiveExchange<S>>;

impl<S: AsyncRead + AsyncWrite + Unpin> ActiveExchange<S> {
    /// If the exchange wants an idle check, finds out without waiting whether its idle connection
    /// is still open. Fails if the connection was closed.
    pub(crate) fn check_idle(&mut self) -> Result<(), Error> {
        let Self {
            exchange, stream, ..
        } = self;
        while exchange.wants_idle_check() {
            let mut buffer = [0; IDLE_CHECK_BYTES];
            // An idle check does not wait, so it needs no waker.
            let mut context = Context::from_waker(Waker::noop());
            match Pin::new(&mut *stream).poll_read(&mut context, &mut buffer) {
                Poll::Pending => exchange.handle_idle_check(None)?,
                Poll::Ready(Ok(count)) => {
                    let found = exchange.handle_idle_check(Some(&buffer[..count]));
                    found.inspect_err(|_| send_alert(exchange, stream, &mut context))?;
                }
                Poll::Ready(Err(error)) => return Err(socket_error(&error)),
            }
        }
        Ok(())
    }

    /// Writes the request and reads the reply, in the task of the caller.
    pub(crate) fn poll_exchange(&mut self, context: &mut Context<'_>) -> Poll<Outcome> {
        match self.poll_bytes(context) {
            Poll::Ready(Ok(())) => Poll::Ready(Outcome::Completed),
            Poll::Ready(Err(error)) => Poll::Ready(Outcome::Failed(error)),
            Poll::Pending => {
                // The waker is registered before the signal is read, so that an interruption
                // between these two steps is not lost.
                self.signal.register(context.waker());
                match self.signal.take().and_then(|commands| commands.interrupt) {
                    Some(error) => Poll::Ready(Outcome::Failed(error)),
                    None => Poll::Pending,
                }
            }
        }
    }

    /// Transfers bytes as [`transfer`](Self::transfer) does, with the workspace of this thread.
    fn poll_bytes(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        let workspace = Lent::to(&mut self.exchange);
        let result = self.transfer(context);
        workspace.take_back(&mut self.exchange);
        result
    }

    /// Transfers bytes until the exchange is complete, the socket is not ready, the maximum number
    /// of reads is reached, or a slice of the reply was decompressed. So a peer that sends without
    /// pause, or a large reply, blocks neither other tasks nor an interruption.
    fn transfer(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        let Self {
            exchange, stream, ..
        } = self;
        while !exchange.output().is_empty() {
            match ready!(Pin::new(&mut *stream).poll_write(context, exchange.output())) {
                Ok(0) => return Poll::Ready(Err(socket_error(&io::ErrorKind::WriteZero.into()))),
                Ok(count) => exchange.sent(count),
                Err(error) => return Poll::Ready(Err(socket_error(&error))),
            }
        }
        if !exchange.expects_reply() {
            return Poll::Ready(Ok(()));
        }
        if exchange.is_unpacking() {
            match exchange.unpack() {
                Ok(true) => return Poll::Ready(Ok(())),
                Ok(false) => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        for _ in 0..READS_PER_TURN {
            // The next slice is decompressed in the next poll.
            if exchange.is_unpacking() {
                break;
            }
            let room = match exchange.input() {
                Ok(room) => room,
                Err(error) => return Poll::Ready(Err(error)),
            };
            match ready!(Pin::new(&mut *stream).poll_read(context, room)) {
                Ok(0) => return Poll::Ready(Err(closed_by_peer())),
                Ok(count) => match exchange.received(count) {
                    Ok(true) => return Poll::Ready(Ok(())),
                    Ok(false) => {}
                    Err(error) => {
                        send_alert(exchange, stream, context);
                        return Poll::Ready(Err(error));
                    }
                },
                Err(error) => return Poll::Ready(Err(socket_error(&error))),
            }
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

/// Writes the TLS alert for a connection that is closed because of an error. Bytes that the socket
/// does not accept at once are dropped.
fn send_alert(
    exchange: &Exchange,
    stream: &mut (impl AsyncWrite + Unpin),
    context: &mut Context<'_>,
) {
    if !exchange.output().is_empty() {
        let _ = Pin::new(stream).poll_write(context, exchange.output());
    }
}
