//! The stream of a connection: a socket with the `futures-io` traits, which the client requires.

use futures_io::{AsyncRead, AsyncWrite};
use onionskin::machine::Stream;
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
    /// A stream of the machine on which the client runs.
    Machine(Box<dyn Stream>),
}

/// Evaluates the first expression with the socket of a stream, the second one with a UDP socket,
/// and the third one with the stream of a machine.
macro_rules! each {
    (
        $this:expr,
        $socket:ident => $call:expr,
        $datagram:pat => $other:expr,
        $stream:ident => $own:expr $(,)?
    ) => {
        match $this.get_mut() {
            TokioStream::Tcp($socket) => $call,
            #[cfg(unix)]
            TokioStream::Unix($socket) => $call,
            TokioStream::Udp($datagram) => $other,
            TokioStream::Machine($stream) => $own,
        }
    };
}

impl AsyncRead for TokioStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        use tokio::io::AsyncRead as _;
        let mut buffer = ReadBuf::new(buffer);
        let result = each!(
            self,
            socket => Pin::new(socket).poll_read(context, &mut buffer),
            socket => socket.poll_recv(context, &mut buffer),
            stream => {
                let bytes = buffer.initialize_unfilled();
                return AsyncRead::poll_read(Pin::new(stream), context, bytes);
            },
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
        use tokio::io::AsyncWrite as _;
        each!(
            self,
            socket => Pin::new(socket).poll_write(context, bytes),
            socket => socket.poll_send(context, bytes),
            stream => AsyncWrite::poll_write(Pin::new(stream), context, bytes),
        )
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        use tokio::io::AsyncWrite as _;
        each!(
            self,
            socket => Pin::new(socket).poll_flush(context),
            _ => Poll::Ready(Ok(())),
            stream => AsyncWrite::poll_flush(Pin::new(stream), context),
        )
    }

    fn poll_close(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        use tokio::io::AsyncWrite as _;
        each!(
            self,
            socket => Pin::new(socket).poll_shutdown(context),
            _ => Poll::Ready(Ok(())),
            stream => AsyncWrite::poll_close(Pin::new(stream), context),
        )
    }
}
