//! Streams through the world's network.

use super::{cutter::Cut, datagram::DatagramId, executor::Shared, listener::WINDOW_BYTES};
use crate::world::{
    network::{Incoming, LinkId},
    options::index,
};
use futures_io::{AsyncRead, AsyncWrite};
use onionskin_core::time::Instant;
use std::{
    collections::VecDeque,
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

/// The client's end of a connection.
#[derive(Debug, Default)]
pub(super) struct Pipe {
    pub(super) inbox: VecDeque<Incoming>,
    pub(super) reader: Option<Waker>,
    /// Writes wait until this time, as those to a socket with a full buffer do.
    pub(super) writable_at: Instant,
    pub(super) blocked: Option<u64>,
    /// The waker of a write that waits until a listener's socket, or a slow member, has read some
    /// bytes.
    pub(super) writer: Option<Waker>,
    /// The number of bytes that a listener's socket has not read yet.
    pub(super) unread: usize,
}

/// A connection to a member, to the load balancer or to a listener, or a datagram socket. Dropping
/// the stream closes it.
#[derive(Debug)]
pub struct SimStream {
    shared: Arc<Shared>,
    end: End,
}

#[derive(Clone, Copy, Debug)]
enum End {
    Link(LinkId),
    Datagram(DatagramId),
}

impl SimStream {
    pub(super) const fn new(shared: Arc<Shared>, link: LinkId) -> Self {
        let end = End::Link(link);
        Self { shared, end }
    }

    pub(super) const fn datagram(shared: Arc<Shared>, id: DatagramId) -> Self {
        let end = End::Datagram(id);
        Self { shared, end }
    }
}

impl Drop for SimStream {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        let state = &mut *state;
        match self.end {
            End::Link(link) => {
                state.pipes.remove(&link);
                state.network.close(state.now, link, &mut state.trace);
            }
            End::Datagram(id) => state.datagrams.close(id),
        }
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
        let link = match self.end {
            End::Link(link) => link,
            End::Datagram(id) => return state.datagrams.poll_read(id, context, buffer),
        };
        let Some(pipe) = state.pipes.get_mut(&link) else {
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
                state.listeners.was_read(link, count);
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
        let link = match self.end {
            End::Link(link) => link,
            End::Datagram(id) => {
                let latency = state.network.draw_latency();
                let sent = state
                    .datagrams
                    .send(now, latency, id, buffer, &mut state.trace);
                return Poll::Ready(sent.map(|()| buffer.len()));
            }
        };
        let number = state.next_number();
        let Some(pipe) = state.pipes.get_mut(&link) else {
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
        if let Some(cut) = state.cutter.choose(buffer) {
            let arriving = match cut {
                Cut::Lost => &[],
                Cut::Arrived => buffer,
            };
            state.network.sever(now, link, arriving, &mut state.trace);
            return Poll::Ready(Ok(buffer.len()));
        }
        let mut length = buffer.len();
        if state.network.is_to_listener(link) {
            length = length.min(WINDOW_BYTES - pipe.unread);
            if length == 0 && !buffer.is_empty() {
                pipe.writer = Some(context.waker().clone());
                return Poll::Pending;
            }
        }
        if let Some(room) = state.network.room(now, link, &mut state.trace) {
            length = length.min(room);
            if length == 0 && !buffer.is_empty() {
                pipe.writer = Some(context.waker().clone());
                return Poll::Pending;
            }
        }
        if length > 1 && state.random.chance(1, 8) {
            length = 1 + index(&mut state.random, length - 1);
            let most = state.max_blocked.as_micros() as u64;
            pipe.writable_at = now + Duration::from_micros(state.random.below(most.max(1)));
        }
        if state.network.is_to_listener(link) {
            pipe.unread += length;
        }
        let bytes = &buffer[..length];
        state.network.send(now, link, bytes, &mut state.trace);
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

#[cfg(test)]
mod tests {
    use crate::world::{
        runtime::{Executor, member_addresses},
        setup,
    };
    use bson::rawdoc;
    use futures_util::{
        future::join,
        io::{AsyncReadExt as _, AsyncWriteExt as _},
    };
    use onionskin::Runtime as _;
    use onionskin_core::{
        random::Seed,
        time::Instant,
        unstable::wire::{Flags, MessageWriter},
    };
    use onionskin_deployment::{deployment::DeploymentOptions, identity::IdentityOptions};
    use std::{net::SocketAddr, time::Duration};

    #[test]
    fn a_quiet_world_with_short_pauses_is_as_fast_as_a_local_network() {
        let executor = Executor::quiet(3).expect("a world");
        executor.limit_pauses(Duration::from_millis(1));
        let runtime = executor.runtime(0);
        let address = SocketAddr::from(([169, 254, 169, 254], 80));
        let run = async {
            let options = IdentityOptions::default();
            let server = runtime.start_identity_server(address, options, &Seed::new([5; 32]));
            let _server = server.expect("a free port");
            // One write in eight is split.
            for _ in 0..200 {
                let start = runtime.now();
                let mut stream = runtime.connect(address).await.expect("a connection");
                let request = b"GET /v2/credentials/onionskin HTTP/1.1\r\nHost: h\r\n\r\n";
                stream.write_all(request).await.expect("written");
                let mut answer = String::new();
                stream.read_to_string(&mut answer).await.expect("an answer");
                let took = runtime.now() - start;
                assert!(took < Duration::from_millis(10), "{took:?}");
            }
        };
        let limit = Instant::ZERO + Duration::from_secs(300);
        executor.run(limit, run).expect("the end in time");
    }

    #[test]
    fn a_write_goes_on_when_a_frozen_member_is_let_go_on_between_two_events() {
        let mut alone = DeploymentOptions::standalone(member_addresses(1).remove(0));
        alone.limits.max_message_bytes = 100_000;
        let executor = Executor::around(1, alone).expect("a world");
        let runtime = executor.runtime(0);
        let pause = Duration::from_secs(3600);
        runtime.operate_now(|deployment, now| deployment.freeze(now, 0, pause));
        // The pings have no reply, so that nothing else is in transit to the client.
        let mut pings = Vec::new();
        for id in 0..20 {
            let ping = rawdoc! { "ping": 1, "comment": "x".repeat(90_000), "$db": "admin" };
            MessageWriter::begin(&mut pings, id, 0)
                .flags(Flags::MORE_TO_COME)
                .body(&ping)
                .end();
        }
        let run = async {
            let found = runtime.resolve(&setup::host(0), setup::PORT).await;
            let address = found.expect("an address").remove(0);
            let mut stream = runtime.connect(address).await.expect("a connection");
            let start = runtime.now();
            let write = async {
                for _ in 0..2 {
                    stream.write_all(&pings).await.expect("written");
                    runtime.sleep(Duration::from_secs(1)).await;
                }
            };
            let thaw = async {
                runtime.sleep(Duration::from_secs(10)).await;
                runtime.operate_now(|deployment, now| deployment.thaw(now, 0));
            };
            join(write, thaw).await;
            runtime.now() - start
        };
        let limit = Instant::ZERO + Duration::from_secs(300);
        let took = executor.run(limit, run).expect("the end in time");
        assert!((10.0..14.0).contains(&took.as_secs_f64()), "{took:?}");
    }
}
