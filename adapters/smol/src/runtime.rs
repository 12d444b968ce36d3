//! The implementation of [`Runtime`] with smol.

use crate::SmolStream;
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

/// The global executor of smol, on which a client runs.
#[derive(Clone, Copy, Debug, Default)]
pub struct SmolRuntime(());

impl Runtime for SmolRuntime {
    type Stream = SmolStream;
    type Sleep = Sleep;

    async fn connect(&self, address: SocketAddr) -> io::Result<SmolStream> {
        let stream = smol::net::TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        keep_alive(&stream);
        Ok(SmolStream::Tcp(stream))
    }

    async fn connect_datagram(&self, server: SocketAddr) -> io::Result<SmolStream> {
        smol::Async::new(datagram_socket(server)?).map(SmolStream::Udp)
    }

    #[cfg(unix)]
    async fn connect_unix(&self, path: &Path) -> io::Result<SmolStream> {
        smol::net::unix::UnixStream::connect(path)
            .await
            .map(SmolStream::Unix)
    }

    #[cfg(not(unix))]
    async fn connect_unix(&self, _: &Path) -> io::Result<SmolStream> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn sleep(&self, duration: Duration) -> Sleep {
        Sleep::new(duration)
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        smol::spawn(task).detach();
    }

    fn spawn_blocking(&self, work: impl FnOnce() + Send + 'static) {
        smol::unblock(work).detach();
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

/// The future that [`Runtime::sleep`] returns: a timer of smol.
#[derive(Debug)]
pub struct Sleep(smol::Timer);

impl Sleep {
    fn new(duration: Duration) -> Self {
        Self(smol::Timer::after(duration))
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.0).poll(context).map(drop)
    }
}
