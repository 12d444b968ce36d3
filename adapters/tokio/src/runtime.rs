//! Sockets, time, tasks, names and chance.

use crate::TokioStream;
use onionskin::{Runtime, system::keep_alive};
use std::{
    future::Future,
    io,
    net::SocketAddr,
    path::Path,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};
use tokio::runtime::Handle;

/// Tokio, as the client uses it: the runtime within which it was made.
#[derive(Clone, Debug)]
pub struct TokioRuntime {
    start: Instant,
    /// Where tasks go. Operations may be awaited and dropped in threads of any other executor.
    handle: Option<Handle>,
}

impl Default for TokioRuntime {
    fn default() -> Self {
        Self {
            start: Instant::now(),
            handle: Handle::try_current().ok(),
        }
    }
}

impl Runtime for TokioRuntime {
    type Stream = TokioStream;
    type Sleep = tokio::time::Sleep;

    async fn connect(&self, address: SocketAddr) -> io::Result<TokioStream> {
        let stream = tokio::net::TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        keep_alive(&stream);
        Ok(TokioStream::Tcp(stream))
    }

    #[cfg(unix)]
    async fn connect_unix(&self, path: &Path) -> io::Result<TokioStream> {
        tokio::net::UnixStream::connect(path)
            .await
            .map(TokioStream::Unix)
    }

    #[cfg(not(unix))]
    async fn connect_unix(&self, _: &Path) -> io::Result<TokioStream> {
        Err(io::ErrorKind::Unsupported.into())
    }

    async fn resolve(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        Ok(tokio::net::lookup_host((host, port)).await?.collect())
    }

    fn sleep(&self, duration: Duration) -> tokio::time::Sleep {
        tokio::time::sleep(duration)
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        match &self.handle {
            Some(handle) => drop(handle.spawn(task)),
            None => drop(tokio::spawn(task)),
        }
    }

    fn spawn_blocking(&self, work: impl FnOnce() + Send + 'static) {
        match &self.handle {
            Some(handle) => drop(handle.spawn_blocking(work)),
            None => drop(tokio::task::spawn_blocking(work)),
        }
    }

    fn now(&self) -> Duration {
        self.start.elapsed()
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
