//! The stream of a connection: a socket with the `futures-io` traits, which the client requires.

use futures_io::{AsyncRead, AsyncWrite};
use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

/// A connected socket of async-std.
#[derive(Debug)]
pub enum AsyncStdStream {
    /// A TCP socket, for an address with a host and a port.
    Tcp(async_std::net::TcpStream),
    /// A Unix domain socket, for an address that is a path.
    #[cfg(unix)]
    Unix(async_std::os::unix::net::UnixStream),
    /// A UDP socket, for a name server. Each read and each write is one datagram.
    Udp(async_io::Async<std::net::UdpSocket>),
}

/// Evaluates the first expression with the socket of a stream, and the second one with a UDP
/// socket.
macro_rules! each {
    ($this:expr, $socket:ident => $call:expr, $datagram:pat => $other:expr) => {
        match $this.get_mut() {
            AsyncStdStream::Tcp($socket) => $call,
            #[cfg(unix)]
            AsyncStdStream::Unix($socket) => $call,
            AsyncStdStream::Udp($datagram) => $other,
        }
    };
}

impl AsyncRead for AsyncStdStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        each!(
            self,
            socket => Pin::new(socket).poll_read(context, buffer),
            socket => loop {
                match socket.get_ref().recv(buffer) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        ready!(socket.poll_readable(context))?;
                    }
                    Err(error) if is_retried(&error) => {}
                    result => return Poll::Ready(result),
                }
            }
        )
    }
}

impl AsyncWrite for AsyncStdStream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        each!(
            self,
            socket => Pin::new(socket).poll_write(context, bytes),
            socket => match socket.get_ref().send(bytes) {
                // The buffer of a socket that sends one query is never full for long.
                Err(error) if is_retried(&error) => {
                    context.waker().wake_by_ref();
                    Poll::Pending
                }
                result => Poll::Ready(result),
            }
        )
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self, socket => Pin::new(socket).poll_flush(context), _ => Poll::Ready(Ok(())))
    }

    fn poll_close(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self, socket => Pin::new(socket).poll_close(context), _ => Poll::Ready(Ok(())))
    }
}

fn is_retried(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    )
}
