//! The stream of a connection: a socket with the `futures-io` traits, which the client requires.

use futures_io::{AsyncRead, AsyncWrite};
use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

/// A connected TCP or Unix domain socket of async-std.
#[derive(Debug)]
pub enum AsyncStdStream {
    /// A TCP socket, for an address with a host and a port.
    Tcp(async_std::net::TcpStream),
    /// A Unix domain socket, for an address that is a path.
    #[cfg(unix)]
    Unix(async_std::os::unix::net::UnixStream),
}

/// Evaluates an expression with the socket of either variant.
macro_rules! each {
    ($this:expr, $socket:ident => $call:expr) => {
        match $this.get_mut() {
            AsyncStdStream::Tcp($socket) => $call,
            #[cfg(unix)]
            AsyncStdStream::Unix($socket) => $call,
        }
    };
}

impl AsyncRead for AsyncStdStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        each!(self, socket => Pin::new(socket).poll_read(context, buffer))
    }
}

impl AsyncWrite for AsyncStdStream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        each!(self, socket => Pin::new(socket).poll_write(context, bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self, socket => Pin::new(socket).poll_flush(context))
    }

    fn poll_close(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self, socket => Pin::new(socket).poll_close(context))
    }
}
