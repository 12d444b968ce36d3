//! The stream of a connection: a socket with the `futures-io` traits, which the client requires.

use crate::{
    executor::{Executor, lock},
    reactor::{Socket, Source},
};
use futures_io::{AsyncRead, AsyncWrite};
use onionskin::system::{datagram_socket, keep_alive};
use rustix::{
    io::{Errno, FdFlags, fcntl_setfd},
    net::{AddressFamily, SocketAddrUnix, SocketType, connect, socket},
};
use std::{
    io::{self, Read, Write},
    net::{Shutdown, SocketAddr, TcpStream},
    os::{
        fd::{AsFd, BorrowedFd},
        unix::net::UnixStream,
    },
    path::Path,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

/// A connected TCP, Unix domain or UDP socket. Each read and each write of a UDP socket is one
/// datagram.
///
/// The socket is read only after the system reported it as readable, because a read directly after
/// a request was written would usually find nothing.
#[derive(Debug)]
pub struct BlockingStream {
    source: Arc<Source>,
    executor: Arc<Executor>,
}

/// Evaluates the first expression with the socket of a stream, and the second one with a UDP
/// socket.
macro_rules! each {
    ($this:expr, $socket:ident => $call:expr, $datagram:pat => $other:expr) => {
        match &$this.source.socket {
            Socket::Tcp($socket) => $call,
            Socket::Unix($socket) => $call,
            Socket::Udp($datagram) => $other,
        }
    };
}

impl BlockingStream {
    /// Starts to connect. [`poll_connected`](Self::poll_connected) returns the result.
    pub(crate) fn begin(executor: Arc<Executor>, address: SocketAddr) -> io::Result<Self> {
        let family = match address {
            SocketAddr::V4(_) => AddressFamily::INET,
            SocketAddr::V6(_) => AddressFamily::INET6,
        };
        let fd = socket(family, SocketType::STREAM, None)?;
        fcntl_setfd(&fd, FdFlags::CLOEXEC)?;
        let stream = TcpStream::from(fd);
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        keep_alive(&stream);
        match connect(&stream, &address) {
            Ok(()) | Err(Errno::INPROGRESS) => Ok(Self::new(executor, Socket::Tcp(stream))),
            Err(error) => Err(error.into()),
        }
    }

    /// Connects to a Unix domain socket. Does not wait: connecting succeeds or fails at once.
    pub(crate) fn connect_unix(executor: Arc<Executor>, path: &Path) -> io::Result<Self> {
        let fd = socket(AddressFamily::UNIX, SocketType::STREAM, None)?;
        fcntl_setfd(&fd, FdFlags::CLOEXEC)?;
        let stream = UnixStream::from(fd);
        stream.set_nonblocking(true)?;
        connect(&stream, &SocketAddrUnix::new(path)?)?;
        Ok(Self::new(executor, Socket::Unix(stream)))
    }

    /// Opens a UDP socket that is connected to this address.
    pub(crate) fn connect_datagram(
        executor: Arc<Executor>,
        server: SocketAddr,
    ) -> io::Result<Self> {
        let socket = datagram_socket(server)?;
        Ok(Self::new(executor, Socket::Udp(socket)))
    }

    fn new(executor: Arc<Executor>, socket: Socket) -> Self {
        let source = executor.reactor.add_source(socket);
        Self { source, executor }
    }

    pub(crate) fn poll_connected(&self, context: &Context<'_>) -> Poll<io::Result<()>> {
        let source = &self.source;
        if source.wait(context, |i| (!i.takes_more).then_some(&mut i.writer)) {
            self.executor.reactor.notify();
            return Poll::Pending;
        }
        let error = each!(self, socket => socket.take_error(), socket => socket.take_error());
        Poll::Ready(error.and_then(|error| error.map_or(Ok(()), Err)))
    }

    fn poll_read(&self, context: &Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        loop {
            let source = &self.source;
            let is_readable = lock(&source.interest).is_readable;
            if !is_readable && source.wait(context, |i| (!i.is_readable).then_some(&mut i.reader)) {
                self.executor.reactor.notify();
                return Poll::Pending;
            }
            let result =
                each!(self, socket => (&*socket).read(buffer), socket => socket.recv(buffer));
            let is_drained = match &result {
                // A closed connection stays readable. After a read that filled the buffer, more
                // bytes can be available.
                Ok(count) => *count > 0 && *count < buffer.len(),
                Err(error) => error.kind() == io::ErrorKind::WouldBlock,
            };
            if is_drained {
                lock(&self.source.interest).is_readable = false;
            }
            match result {
                Err(error) if is_retried(&error) => {}
                result => return Poll::Ready(result),
            }
        }
    }

    fn poll_write(&self, context: &Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            match each!(self, socket => (&*socket).write(bytes), socket => socket.send(bytes)) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.source.wait(context, |i| Some(&mut i.writer));
                    self.executor.reactor.notify();
                    return Poll::Pending;
                }
                Err(error) if is_retried(&error) => {}
                result => return Poll::Ready(result),
            }
        }
    }
}

fn is_retried(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock
    )
}

impl AsFd for BlockingStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.source.socket.as_fd()
    }
}

impl Drop for BlockingStream {
    fn drop(&mut self) {
        self.executor.reactor.remove_source(&self.source);
    }
}

impl AsyncRead for BlockingStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        Self::poll_read(&self, context, buffer)
    }
}

impl AsyncWrite for BlockingStream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Self::poll_write(&self, context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(each!(self, socket => socket.shutdown(Shutdown::Write), _ => Ok(())))
    }
}
