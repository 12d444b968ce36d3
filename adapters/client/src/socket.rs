//! The task of a socket that is not used by an exchange: a socket of a monitor, a socket whose
//! connection is being established, and a socket that drains a late reply.

use crate::{
    Runtime,
    lookup::{self, LookupError, Services},
    shared::{Shared, since},
    signal::{Signal, SocketCommands},
    system,
    user_code::catch_panic,
};
use futures_io::{AsyncRead, AsyncWrite};
use onionskin_core::{
    address::Address,
    client::{SocketId, SocketUse},
    dial::{Dial, MAX_ATTEMPTS},
    error::{Error, NetworkFault},
    time::Instant,
};
use std::{
    future::{Future, poll_fn},
    io,
    net::SocketAddr,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    path::Path,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, ready},
};

/// The size of the read buffer in bytes. Replies to monitors and handshakes are usually smaller.
const READ_BYTES: usize = 4096;

/// The maximum number of reads in one poll, so that other tasks run however fast the peer sends.
const READS_PER_TURN: usize = 16;

/// Runs the task of a socket. If the task panics, for example in the runtime or its stream, reports
/// a failed socket before the panic goes on. Otherwise a shutdown would wait for the socket, and
/// the core would too if there is no `connectTimeoutMS`.
pub(crate) async fn watched<R: Runtime>(
    shared: Arc<Shared<R>>,
    id: SocketId,
    task: impl Future<Output = ()> + Send,
) {
    let mut task = Box::pin(task);
    let polled = poll_fn(|context| {
        let poll = AssertUnwindSafe(|| task.as_mut().poll(context));
        match catch_unwind(poll) {
            Ok(poll) => poll.map(Ok),
            Err(panic) => Poll::Ready(Err(panic)),
        }
    });
    let Err(panic) = polled.await else {
        return;
    };
    // Another panic must not prevent the report.
    catch_panic(|| drop(task));
    if !shared.has_panicked() {
        shared.with(|inner, now| {
            if let Some(address) = inner.core.address_of(id).cloned() {
                let error = Error::network(NetworkFault::Other, "the task of the socket panicked");
                inner
                    .core
                    .handle_failed(now, id, error.with_server(&address));
            }
            inner.forget(id);
        });
    }
    resume_unwind(panic);
}

/// Dials the socket, then transfers bytes until the socket is closed or parked.
pub(crate) async fn run<R: Runtime>(
    shared: Arc<Shared<R>>,
    id: SocketId,
    address: Address,
    signal: Arc<Signal>,
) {
    let stream = {
        let services = Services::of(&shared);
        let mut dial = pin!(dial(&services, &address));
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
    let socket_use = shared.with(|inner, now| {
        inner.core.set_wall_time(now, wall);
        inner.core.handle_connected(now, id)
    });
    if socket_use != SocketUse::Open {
        shared.with(|inner, _| inner.forget(id));
        return;
    }
    pump(shared, id, stream, signal).await;
}

/// Transfers bytes between a socket and the core until the socket is closed or parked.
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

/// Connects to a Unix domain socket, or resolves the host and tries its addresses as [`Dial`] says.
pub(crate) async fn dial<R: Runtime>(
    services: &Services<'_, R>,
    address: &Address,
) -> Result<R::Stream, Error> {
    let runtime = services.runtime;
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
    let addresses = lookup::addresses(services, host, port)
        .await
        .map_err(|error| match error {
            LookupError::System(error) => lookup_error(&error, address),
            LookupError::Dns(error) => dns_error(error, address),
        })?;
    let now = || since(runtime, services.start);
    let mut turn = match services.shared {
        Some(shared) => {
            let is_stranger = shared.lock().core.is_stranger(address.host());
            let dials = &shared.hosts.dials;
            Some(dials.turn(now, &address.to_string(), is_stranger).await)
        }
        None => None,
    };
    let mut result = dial_addresses(services, addresses.known).await;
    if result.is_err()
        && let Some(rest) = addresses.rest
        && let Ok(more) = rest.await
        && !more.is_empty()
    {
        // The addresses of the other family came late.
        result = dial_addresses(services, more).await;
    }
    if let Some(turn) = &mut turn {
        turn.answered = Some(result.is_ok());
    }
    result.map_err(|error| error.with_server(address))
}

/// Tries addresses of one host as [`Dial`] says.
async fn dial_addresses<R: Runtime>(
    services: &Services<'_, R>,
    addresses: Vec<SocketAddr>,
) -> Result<R::Stream, Error> {
    let mut dialling = Dialling {
        services,
        dial: Dial::new(addresses),
        attempts: Vec::new(),
        sleep: None,
    };
    poll_fn(|context| dialling.poll(context)).await
}

/// The attempts to connect to the addresses of one host.
struct Dialling<'a, R: Runtime> {
    services: &'a Services<'a, R>,
    dial: Dial,
    attempts: Vec<(SocketAddr, Attempt<'a, R::Stream>)>,
    /// The wait until the next address is tried.
    sleep: Option<(Instant, Pin<Box<R::Sleep>>)>,
}

type Attempt<'a, S> = Pin<Box<dyn Future<Output = io::Result<S>> + Send + 'a>>;

impl<R: Runtime> Dialling<'_, R> {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<R::Stream, Error>> {
        let runtime = self.services.runtime;
        let now = || since(runtime, self.services.start);
        loop {
            while let Some(address) = self.dial.poll(now()) {
                let attempt = Box::pin(runtime.connect(address));
                if self.attempts.len() == MAX_ATTEMPTS {
                    drop(self.attempts.remove(0));
                }
                self.attempts.push((address, attempt));
            }
            if let Some(error) = self.dial.failure() {
                return Poll::Ready(Err(error));
            }
            let (mut result, before) = (None, self.attempts.len());
            self.attempts.retain_mut(|(address, attempt)| {
                if result.is_some() {
                    return true;
                }
                match attempt.as_mut().poll(context) {
                    Poll::Ready(Ok(stream)) => result = Some(stream),
                    Poll::Ready(Err(error)) => {
                        self.dial.handle_failed(attempt_error(&error, *address));
                    }
                    Poll::Pending => return true,
                }
                false
            });
            if let Some(stream) = result {
                return Poll::Ready(Ok(stream));
            }
            if self.attempts.len() < before {
                // After a failure, the next address is due, or the dial has failed.
                continue;
            }
            let Some(deadline) = self.dial.deadline() else {
                return Poll::Pending;
            };
            if self
                .sleep
                .as_ref()
                .is_none_or(|(until, _)| *until != deadline)
            {
                let pause = deadline.saturating_since(now());
                self.sleep = Some((deadline, Box::pin(runtime.sleep(pause))));
            }
            if let Some((_, sleep)) = &mut self.sleep {
                ready!(sleep.as_mut().poll(context));
            }
            self.sleep = None;
        }
    }
}

/// Converts an error of name resolution to an error of the driver.
fn lookup_error(error: &io::Error, address: &Address) -> Error {
    // Without a free file descriptor, the C library can report that the name is unknown.
    let fault = if system::is_local(error) || !system::has_descriptor() {
        NetworkFault::OutOfSockets
    } else {
        NetworkFault::NotResolved
    };
    let message = format!("cannot resolve the host name {}: {error}", address.host());
    Error::network(fault, message).with_server(address)
}

/// Converts an error of an attempt to connect to one address of a host.
fn attempt_error(error: &io::Error, address: SocketAddr) -> Error {
    Error::network(system::fault_of(error), format!("{address}: {error}"))
}

/// Converts an error of the client's resolver. A shortage in this process is unrelated to the
/// server (CMAP-46).
fn dns_error(error: Error, address: &Address) -> Error {
    match error.is_network() {
        true => error.with_server(address),
        false => Error::network(NetworkFault::NotResolved, error.to_string()).with_server(address),
    }
}

/// Converts an error of a socket to an error of the driver.
pub(crate) fn network_error(error: &io::Error, address: &Address) -> Error {
    system::socket_error(error).with_server(address)
}

/// Takes new instructions from `signal`. Returns true if the socket must be closed.
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
    /// The stream; `None` after it was parked or closed.
    stream: Option<R::Stream>,
    commands: SocketCommands,
    /// The number of bytes of `commands.bytes` that were written.
    written: usize,
}

impl<R: Runtime> Pump<'_, R> {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let mut reads = 0;
        // The buffer is on the stack, because the socket of a monitor waits most of the time, and a
        // waiting task needs no buffer.
        let mut buffer = [0; READ_BYTES];
        loop {
            if collect(self.signal, &mut self.commands, context) {
                // Nothing more is written. The reason of the close can be a fork, and then the
                // parent process still uses the connection.
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

    /// Closes the socket after its last input. Bytes that the core still wants to send, such as a
    /// TLS alert, are written only as far as the socket accepts them at once. Closing does not wait
    /// for the peer.
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
            let socket_use = inner.core.handle_received(now, *id, bytes);
            match (socket_use, stream.take()) {
                (SocketUse::Open, kept) => *stream = kept,
                // The stream is parked before the lock is released under which the connection
                // became ready, so that the next exchange finds the stream.
                (SocketUse::Parked, Some(ready)) => inner.park(*id, ready),
                (SocketUse::Parked, None) => inner.forget(*id),
                // `leave` closes the stream outside of the lock, after one attempt to write the
                // last bytes.
                (SocketUse::Closed, rest) => *stream = rest,
            }
            socket_use
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
    use onionskin_core::error::{ErrorKind, IoError};
    use rustix::io::Errno;

    fn fault(error: &Error) -> Option<NetworkFault> {
        match error.kind() {
            ErrorKind::Io(IoError { fault, .. }) => Some(*fault),
            _ => None,
        }
    }

    /// An error as async-std reports it: the error of the system is wrapped in an error with a
    /// text.
    #[derive(Debug)]
    struct WrappedError(io::Error);

    impl std::fmt::Display for WrappedError {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("could not resolve address")
        }
    }

    impl std::error::Error for WrappedError {
        fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
            Some(&self.0)
        }
    }

    #[test]
    fn a_lookup_without_free_file_descriptors_fails_with_out_of_sockets() {
        // A shortage of descriptors during name resolution is unrelated to the server (CMAP-46).
        let address = Address::tcp("db", 27017);
        let system = || io::Error::from_raw_os_error(24);
        for error in [
            system(),
            io::Error::other(WrappedError(system())),
            io::Error::other(system()),
        ] {
            let error = lookup_error(&error, &address);
            assert_eq!(fault(&error), Some(NetworkFault::OutOfSockets), "{error:?}");
        }
        let unknown = io::Error::other("Name or service not known");
        let error = lookup_error(&unknown, &address);
        assert_eq!(fault(&error), Some(NetworkFault::NotResolved), "{error:?}");
        assert_eq!(error.server(), Some(&address));
    }

    #[test]
    fn io_errors_are_mapped_to_network_faults() {
        // A shortage of descriptors in this process is unrelated to the server (CMAP-46).
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
