//! The stream of a connection: a socket with the `futures-io` traits, which the client requires.

use futures_io::{AsyncRead, AsyncWrite};
use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};
use tokio::io::ReadBuf;

/// A connected socket of tokio.
#[derive(Debug)]
pub enum TokioStream {
    /// A TCP socket, for an address with a host and a port.
    Tcp(tokio::net::TcpStream),
    /// A Unix domain socket, for an address that is a path.
    #[cfg(unix)]
    Unix(tokio::net::UnixStream),
    /// A UDP socket, for a name server. Each read and each write is one datagram.
    Udp(tokio::net::UdpSocket),
}

/// Evaluates the first expression with the socket of a stream, and the second one with a UDP
/// socket.
macro_rules! each {
    ($this:expr, $socket:ident => $call:expr, $datagram:pat => $other:expr) => {
        match $this.get_mut() {
            TokioStream::Tcp($socket) => $call,
            #[cfg(unix)]
            TokioStream::Unix($socket) => $call,
            TokioStream::Udp($datagram) => $other,
        }
    };
}

impl AsyncRead for TokioStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        use tokio::io::AsyncRead;
        let mut buffer = ReadBuf::new(buffer);
        let result = each!(
            self,
            socket => Pin::new(socket).poll_read(context, &mut buffer),
            socket => socket.poll_recv(context, &mut buffer)
        );
        ready!(result)?;
        Poll::Ready(Ok(buffer.filled().len()))
    }
}

impl AsyncWrite for TokioStream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        use tokio::io::AsyncWrite;
        each!(
            self,
            socket => Pin::new(socket).poll_write(context, bytes),
            socket => socket.poll_send(context, bytes)
        )
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        use tokio::io::AsyncWrite;
        each!(self, socket => Pin::new(socket).poll_flush(context), _ => Poll::Ready(Ok(())))
    }

    fn poll_close(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        use tokio::io::AsyncWrite;
        each!(self, socket => Pin::new(socket).poll_shutdown(context), _ => Poll::Ready(Ok(())))
    }
}
