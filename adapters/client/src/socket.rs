//! The task of a socket that the control plane uses: a monitor's for its whole life, a pool's until
//! it is established, and again where an operation left before its reply.

use crate::{
    Runtime,
    shared::Shared,
    signal::{Signal, SocketCommands},
    system,
};
use futures_io::{AsyncRead, AsyncWrite};
use onionskin_core::{
    address::Address,
    client::SocketUse,
    connection::SocketId,
    error::{Error, ErrorKind, NetworkFault, Wait},
};
use std::{
    future::{Future, poll_fn},
    io,
    net::SocketAddr,
    path::Path,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

/// Bytes read at once; replies of monitors and handshakes are smaller.
const READ_BYTES: usize = 4096;

/// Reads of one turn; then other tasks have theirs, however fast the peer sends.
const READS_PER_TURN: usize = 16;

/// Connects, then moves bytes.
pub(crate) async fn run<R: Runtime>(
    shared: Arc<Shared<R>>,
    id: SocketId,
    address: Address,
    signal: Arc<Signal>,
) {
    let stream = {
        let mut dial = pin!(dial(&shared, id, &address));
        let mut commands = SocketCommands::default();
        let dialled = poll_fn(|context| {
            if collect(&signal, &mut commands, context) {
                return Poll::Ready(None);
            }
            dial.as_mut().poll(context).map(Some)
        });
        match dialled.await {
            None => return,
            Some(Ok(stream)) => stream,
            Some(Err(error)) => {
                shared.with(|inner, now| {
                    inner.core.handle_failed(now, id, error);
                    inner.forget(id);
                });
                return;
            }
        }
    };
    let wall = shared.wall_time();
    let fate = shared.with(|inner, now| {
        inner.core.set_wall_time(wall);
        inner.core.handle_connected(now, id)
    });
    if fate != SocketUse::Open {
        shared.with(|inner, _| inner.forget(id));
        return;
    }
    pump(shared, id, stream, signal).await;
}

/// Moves bytes between a socket and the core until one of them has had enough.
pub(crate) async fn pump<R: Runtime>(
    shared: Arc<Shared<R>>,
    id: SocketId,
    stream: R::Stream,
    signal: Arc<Signal>,
) {
    let mut pump = Pump {
        shared: &shared,
        id,
        signal: &signal,
        stream: Some(stream),
        commands: SocketCommands::default(),
        written: 0,
    };
    poll_fn(|context| pump.poll(context)).await;
}

/// Tries the addresses of a host one after the other.
async fn dial<R: Runtime>(
    shared: &Shared<R>,
    id: SocketId,
    address: &Address,
) -> Result<R::Stream, Error> {
    let runtime = &shared.runtime;
    let (host, port) = match address {
        Address::Unix { path } => {
            let path = Path::new(&**path);
            return runtime
                .connect_unix(path)
                .await
                .map_err(|e| network_error(&e, address));
        }
        Address::Tcp { host, port } => (host, *port),
    };
    let mut addresses = runtime
        .resolve(host, port)
        .await
        .map_err(|error| lookup_error(&error, address))?
        .into_iter();
    let mut failure = None;
    while let Some(candidate) = addresses.next() {
        // The last address has whatever time is left, which the core watches.
        let limit = match addresses.len() {
            0 => None,
            rest => shared.lock().core.attempt_limit(shared.now(), id, rest + 1),
        };
        match connect(runtime, candidate, limit).await {
            Ok(stream) => return Ok(stream),
            Err(error) => {
                let error = error.with_server(address);
                // What the process lacks says less than what another address has answered.
                if failure.is_none() || !is_out_of_sockets(&error) {
                    failure = Some(error);
                }
            }
        }
    }
    Err(failure.unwrap_or_else(|| {
        let message = format!("{host} has no address");
        Error::network(NetworkFault::NotResolved, message)
    }))
}

/// Connects to one of several addresses, which may take as long as `limit`.
async fn connect<R: Runtime>(
    runtime: &R,
    address: SocketAddr,
    limit: Option<Duration>,
) -> Result<R::Stream, Error> {
    let mut connect = pin!(runtime.connect(address));
    let mut end = pin!(limit.map(|limit| runtime.sleep(limit)));
    poll_fn(|context| {
        if let Poll::Ready(result) = connect.as_mut().poll(context) {
            return Poll::Ready(result.map_err(|error| fault_of(&error)));
        }
        let Some(end) = end.as_mut().as_pin_mut() else {
            return Poll::Pending;
        };
        ready!(end.poll(context));
        let limit = limit.unwrap_or_default().as_millis();
        let message = format!("connecting to {address} took longer than its share of {limit} ms");
        Poll::Ready(Err(Error::timeout(Wait::Connect, message)))
    })
    .await
}

/// The core's error for a lookup that failed.
fn lookup_error(error: &io::Error, address: &Address) -> Error {
    // Where the C library finds no descriptor for its own files, it may say that it does not know
    // the name.
    let fault = if is_local(error) || !system::has_descriptor() {
        NetworkFault::OutOfSockets
    } else {
        NetworkFault::NotResolved
    };
    let message = format!("{} was not resolved: {error}", address.host());
    Error::network(fault, message).with_server(address)
}

/// The core's error for one of the system's.
pub(crate) fn network_error(error: &io::Error, address: &Address) -> Error {
    fault_of(error).with_server(address)
}

fn fault_of(error: &io::Error) -> Error {
    use io::ErrorKind as Kind;
    let fault = match error.kind() {
        _ if is_local(error) => NetworkFault::OutOfSockets,
        Kind::ConnectionRefused | Kind::NotFound => NetworkFault::Refused,
        Kind::ConnectionReset | Kind::ConnectionAborted | Kind::BrokenPipe => NetworkFault::Reset,
        Kind::UnexpectedEof => NetworkFault::Closed,
        Kind::HostUnreachable | Kind::NetworkUnreachable => NetworkFault::Unreachable,
        _ => NetworkFault::Other,
    };
    Error::network(fault, error.to_string())
}

/// True if this system lacks something for a socket, whatever the server is like: descriptors,
/// memory, or a free port or address of its own (CMAP-46).
fn is_local(error: &io::Error) -> bool {
    let mut kinds = [io::ErrorKind::OutOfMemory, io::ErrorKind::AddrNotAvailable].into_iter();
    kinds.any(|kind| error.kind() == kind) || system::code_of(error).is_some_and(system::is_lack)
}

fn is_out_of_sockets(error: &Error) -> bool {
    let fault = NetworkFault::OutOfSockets;
    matches!(error.kind(), ErrorKind::Network { fault: f, .. } if *f == fault)
}

/// Takes what is to be done; true if it is to stop.
fn collect(signal: &Signal, commands: &mut SocketCommands, context: &Context<'_>) -> bool {
    signal.register(context.waker());
    if let Some(new) = signal.take() {
        commands.bytes.extend_from_slice(&new.bytes);
        commands.close |= new.close;
    }
    commands.close
}

struct Pump<'a, R: Runtime> {
    shared: &'a Arc<Shared<R>>,
    id: SocketId,
    signal: &'a Signal,
    /// `None` once it was parked or let go.
    stream: Option<R::Stream>,
    commands: SocketCommands,
    /// How much of the commands's bytes was written.
    written: usize,
}

impl<R: Runtime> Pump<'_, R> {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let mut reads = 0;
        // On the stack: a monitor's socket waits nearly always, and there are two for each server.
        let mut buffer = [0; READ_BYTES];
        loop {
            if collect(self.signal, &mut self.commands, context) {
                // Nothing more is written: the socket may be that of a process that this one was
                // forked from.
                self.stream = None;
                return Poll::Ready(());
            }
            let Some(stream) = &mut self.stream else {
                return Poll::Ready(());
            };
            if self.written < self.commands.bytes.len() {
                let rest = &self.commands.bytes[self.written..];
                match Pin::new(&mut *stream).poll_write(context, rest) {
                    Poll::Ready(Ok(count)) if count > 0 => {
                        self.written += count;
                        if self.written == self.commands.bytes.len() {
                            self.written = 0;
                            self.commands.bytes = Vec::new();
                        }
                        continue;
                    }
                    Poll::Ready(Ok(_)) => return self.broken(&io::ErrorKind::WriteZero.into()),
                    Poll::Ready(Err(error)) => return self.broken(&error),
                    Poll::Pending => {}
                }
            }
            if reads == READS_PER_TURN {
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            reads += 1;
            match Pin::new(stream).poll_read(context, &mut buffer) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Err(error)) => return self.broken(&error),
                Poll::Ready(Ok(count)) => match self.received(&buffer[..count]) {
                    SocketUse::Open => {}
                    SocketUse::Parked => return Poll::Ready(()),
                    SocketUse::Closed => {
                        collect(self.signal, &mut self.commands, context);
                        self.leave(context);
                        self.shared.lock().forget(self.id);
                        return Poll::Ready(());
                    }
                },
            }
        }
    }

    /// Closes the socket after its last input. What the core had to say about that, such as the
    /// alert of TLS, goes out as far as the socket takes it at once: closing does not wait for the
    /// peer.
    fn leave(&mut self, context: &mut Context<'_>) {
        let rest = &self.commands.bytes[self.written..];
        if let Some(stream) = &mut self.stream
            && !rest.is_empty()
        {
            let _ = Pin::new(stream).poll_write(context, rest);
        }
        self.stream = None;
    }

    fn received(&mut self, bytes: &[u8]) -> SocketUse {
        let Self {
            shared, id, stream, ..
        } = self;
        shared.with(|inner, now| {
            let fate = inner.core.handle_received(now, *id, bytes);
            match (fate, stream.take()) {
                (SocketUse::Open, kept) => *stream = kept,
                // Parked under the lock under which it became ready: the next exchange finds it.
                (SocketUse::Parked, Some(ready)) => inner.park(*id, ready),
                (SocketUse::Parked, None) => inner.forget(*id),
                // It closes outside of the lock, after the last orders.
                (SocketUse::Closed, rest) => *stream = rest,
            }
            fate
        })
    }

    fn broken(&mut self, error: &io::Error) -> Poll<()> {
        self.stream = None;
        let Self { shared, id, .. } = self;
        shared.with(|inner, now| {
            if let Some(address) = inner.core.address_of(*id).cloned() {
                inner
                    .core
                    .handle_failed(now, *id, network_error(error, &address));
            }
            inner.forget(*id);
        });
        Poll::Ready(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::Errno;

    fn fault(error: &Error) -> Option<NetworkFault> {
        match error.kind() {
            ErrorKind::Network { fault, .. } => Some(*fault),
            _ => None,
        }
    }

    /// An error as async-std tells it: the system's is hidden behind words.
    #[derive(Debug)]
    struct Wordy(io::Error);

    impl std::fmt::Display for Wordy {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("could not resolve address")
        }
    }

    impl std::error::Error for Wordy {
        fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
            Some(&self.0)
        }
    }

    #[test]
    fn a_lookup_without_descriptors_blames_no_server() {
        // CMAP-46
        let address = Address::tcp("db", 27017);
        let system = || io::Error::from_raw_os_error(24);
        for error in [
            system(),
            io::Error::other(Wordy(system())),
            io::Error::other(system()),
        ] {
            let told = lookup_error(&error, &address);
            assert_eq!(fault(&told), Some(NetworkFault::OutOfSockets), "{told:?}");
        }
        let unknown = io::Error::other("Name or service not known");
        let told = lookup_error(&unknown, &address);
        assert_eq!(fault(&told), Some(NetworkFault::NotResolved), "{told:?}");
        assert_eq!(told.server(), Some(&address));
    }

    #[test]
    fn an_error_of_the_system_keeps_what_matters_of_it() {
        // CMAP-46: too few descriptors here say nothing about the server.
        for (error, expected) in [
            (io::Error::from_raw_os_error(24), NetworkFault::OutOfSockets),
            (io::Error::from_raw_os_error(23), NetworkFault::OutOfSockets),
            (
                io::ErrorKind::ConnectionRefused.into(),
                NetworkFault::Refused,
            ),
            (io::ErrorKind::NotFound.into(), NetworkFault::Refused),
            (io::ErrorKind::BrokenPipe.into(), NetworkFault::Reset),
            (io::ErrorKind::UnexpectedEof.into(), NetworkFault::Closed),
            (
                io::ErrorKind::HostUnreachable.into(),
                NetworkFault::Unreachable,
            ),
            (
                io::ErrorKind::OutOfMemory.into(),
                NetworkFault::OutOfSockets,
            ),
            (
                io::ErrorKind::AddrNotAvailable.into(),
                NetworkFault::OutOfSockets,
            ),
            (Errno::NOBUFS.into(), NetworkFault::OutOfSockets),
            (io::ErrorKind::PermissionDenied.into(), NetworkFault::Other),
        ] {
            let error = network_error(&error, &Address::tcp("db", 27017));
            assert_eq!(fault(&error), Some(expected), "{error:?}");
        }
    }
}
