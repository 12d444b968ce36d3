//! The implementation of [`Runtime`] with async-std.

use crate::AsyncStdStream;
use onionskin::{
    Runtime,
    system::{datagram_socket, keep_alive, monotonic_time},
};
use std::{
    future::Future,
    io,
    net::SocketAddr,
    path::Path,
    pin::Pin,
    task::{Context, Poll},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// The global executor of async-std, on which a client runs.
#[derive(Clone, Copy, Debug, Default)]
pub struct AsyncStdRuntime(());

impl Runtime for AsyncStdRuntime {
    type Stream = AsyncStdStream;
    type Sleep = Sleep;

    async fn connect(&self, address: SocketAddr) -> io::Result<AsyncStdStream> {
        let stream = async_std::net::TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        keep_alive(&stream);
        Ok(AsyncStdStream::Tcp(stream))
    }

    async fn connect_datagram(&self, server: SocketAddr) -> io::Result<AsyncStdStream> {
        async_io::Async::new(datagram_socket(server)?).map(AsyncStdStream::Udp)
    }

    #[cfg(unix)]
    async fn connect_unix(&self, path: &Path) -> io::Result<AsyncStdStream> {
        async_std::os::unix::net::UnixStream::connect(path)
            .await
            .map(AsyncStdStream::Unix)
    }

    #[cfg(not(unix))]
    async fn connect_unix(&self, _: &Path) -> io::Result<AsyncStdStream> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn sleep(&self, duration: Duration) -> Sleep {
        Sleep::new(duration)
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        async_std::task::spawn(task);
    }

    fn spawn_blocking(&self, work: impl FnOnce() + Send + 'static) {
        async_std::task::spawn_blocking(work);
    }

    fn now(&self) -> Duration {
        monotonic_time()
    }

    fn wall_time(&self) -> Duration {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default()
    }

    fn entropy(&self, bytes: &mut [u8]) -> io::Result<()> {
        getrandom::fill(bytes).map_err(io::Error::from)
    }
}

/// The future that [`Runtime::sleep`] returns: a timer of `async-io`, which async-std uses.
#[derive(Debug)]
pub struct Sleep(async_io::Timer);

impl Sleep {
    fn new(duration: Duration) -> Self {
        Self(async_io::Timer::after(duration))
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.0).poll(context).map(drop)
    }
}
