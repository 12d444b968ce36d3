//! Streams through the world's network.

use super::{executor::Shared, listener::WINDOW_BYTES};
use crate::world::{
    network::{Incoming, LinkId},
    options::index,
};
use futures_io::{AsyncRead, AsyncWrite};
use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

/// The limit below which the pause of a writer after a partial write is drawn, in microseconds.
const MAX_BLOCKED_MICROS: u64 = 20_000;

/// A connection to a member, to the load balancer or to a listener. Dropping the stream closes the
/// connection.
#[derive(Debug)]
pub struct SimStream {
    shared: Arc<Shared>,
    link: LinkId,
}

impl SimStream {
    pub(super) const fn new(shared: Arc<Shared>, link: LinkId) -> Self {
        Self { shared, link }
    }

    pub(super) const fn link(&self) -> LinkId {
        self.link
    }
}

impl Drop for SimStream {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        let state = &mut *state;
        state.pipes.remove(&self.link);
        state.network.close(state.now, self.link, &mut state.trace);
    }
}

impl AsyncRead for SimStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let mut state = self.shared.lock();
        let state = &mut *state;
        let Some(pipe) = state.pipes.get_mut(&self.link) else {
            return Poll::Ready(Err(io::ErrorKind::NotConnected.into()));
        };
        match pipe.inbox.front_mut() {
            None | Some(Incoming::Connected) => {
                pipe.reader = Some(context.waker().clone());
                Poll::Pending
            }
            Some(Incoming::Bytes(bytes)) => {
                let count = bytes.len().min(buffer.len());
                buffer[..count].copy_from_slice(&bytes[..count]);
                bytes.drain(..count);
                if bytes.is_empty() {
                    pipe.inbox.pop_front();
                }
                state.listeners.was_read(self.link, count);
                Poll::Ready(Ok(count))
            }
            // The end stays in the inbox, so that every further read returns it.
            Some(Incoming::Closed) => Poll::Ready(Ok(0)),
            Some(other) => Poll::Ready(Err(error_of(other))),
        }
    }
}

impl AsyncWrite for SimStream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        let mut state = self.shared.lock();
        let state = &mut *state;
        let now = state.now;
        let number = state.next_number();
        let Some(pipe) = state.pipes.get_mut(&self.link) else {
            return Poll::Ready(Err(io::ErrorKind::NotConnected.into()));
        };
        if let Some(old) = pipe.blocked.take() {
            state.timers.remove(&(pipe.writable_at, old));
        }
        if pipe.inbox.contains(&Incoming::Reset) {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        if pipe.writable_at > now {
            pipe.blocked = Some(number);
            let waker = context.waker().clone();
            state.timers.insert((pipe.writable_at, number), waker);
            return Poll::Pending;
        }
        let mut length = buffer.len();
        if state.network.is_to_listener(self.link) {
            length = length.min(WINDOW_BYTES - pipe.unread);
            if length == 0 && !buffer.is_empty() {
                pipe.writer = Some(context.waker().clone());
                return Poll::Pending;
            }
        }
        if length > 1 && state.random.chance(1, 8) {
            length = 1 + index(&mut state.random, length - 1);
            let pause = state.random.below(MAX_BLOCKED_MICROS);
            pipe.writable_at = now + Duration::from_micros(pause);
        }
        if state.network.is_to_listener(self.link) {
            pipe.unread += length;
        }
        let bytes = &buffer[..length];
        state.network.send(now, self.link, bytes, &mut state.trace);
        Poll::Ready(Ok(length))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

pub(super) fn error_of(incoming: &Incoming) -> io::Error {
    match incoming {
        Incoming::Refused => io::ErrorKind::ConnectionRefused.into(),
        Incoming::Closed => io::ErrorKind::UnexpectedEof.into(),
        Incoming::Reset | Incoming::Connected | Incoming::Bytes(_) => {
            io::ErrorKind::ConnectionReset.into()
        }
    }
}
