//! The implementation of [`Runtime`] with tokio.

use crate::TokioStream;
use onionskin::{
    Error, Runtime,
    machine::Placed,
    system::{datagram_socket, keep_alive, monotonic_time, run_on_thread},
};
use std::{
    future::{Future, poll_fn},
    io,
    net::SocketAddr,
    path::Path,
    pin::pin,
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use tokio::{net::UdpSocket, runtime::Handle};

const NO_RUNTIME: &str = "there is no tokio runtime: make the client within one";

/// The tokio runtime on which a client runs: the one in which this value was created, or else the
/// one in which the client was built. A [machine](onionskin::machine) can take the place of the
/// system.
pub type TokioRuntime = Placed<Tokio>;

/// The tokio runtime, on the real machine.
#[derive(Clone, Debug)]
pub struct Tokio {
    /// The handle of the runtime; `None` if this value was created outside of a runtime and no
    /// client was built with it. Operations can be awaited and dropped in threads of any executor,
    /// so tasks and timers are started through the handle.
    handle: Option<Handle>,
}

impl Default for Tokio {
    fn default() -> Self {
        Self {
            handle: Handle::try_current().ok(),
        }
    }
}

impl Tokio {
    fn handle(&self) -> Handle {
        self.handle.clone().unwrap_or_else(Handle::current)
    }

    /// Polls a future in the context of the runtime, in any executor. Tokio creates sockets only in
    /// this context.
    async fn within<F: Future>(&self, future: F) -> F::Output {
        let (handle, mut future) = (self.handle(), pin!(future));
        poll_fn(|context| {
            let _entered = handle.enter();
            future.as_mut().poll(context)
        })
        .await
    }
}

impl Runtime for Tokio {
    type Stream = TokioStream;
    type Sleep = tokio::time::Sleep;

    /// Uses the runtime in which the client is built, if this value was created outside of a
    /// runtime. Fails if the client is built outside of a runtime as well.
    fn prepare(&mut self) -> Result<(), Error> {
        let handle = self.handle.take().or_else(|| Handle::try_current().ok());
        self.handle = Some(handle.ok_or_else(|| Error::runtime(NO_RUNTIME))?);
        Ok(())
    }

    async fn connect(&self, address: SocketAddr) -> io::Result<TokioStream> {
        let stream = self.within(tokio::net::TcpStream::connect(address)).await?;
        stream.set_nodelay(true)?;
        keep_alive(&stream);
        Ok(TokioStream::Tcp(stream))
    }

    async fn connect_datagram(&self, server: SocketAddr) -> io::Result<TokioStream> {
        let socket = datagram_socket(server)?;
        let handle = self.handle();
        let _entered = handle.enter();
        UdpSocket::from_std(socket).map(TokioStream::Udp)
    }

    #[cfg(unix)]
    async fn connect_unix(&self, path: &Path) -> io::Result<TokioStream> {
        let stream = self.within(tokio::net::UnixStream::connect(path)).await?;
        Ok(TokioStream::Unix(stream))
    }

    #[cfg(not(unix))]
    async fn connect_unix(&self, _: &Path) -> io::Result<TokioStream> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn sleep(&self, duration: Duration) -> tokio::time::Sleep {
        let handle = self.handle();
        let _entered = handle.enter();
        tokio::time::sleep(duration)
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.handle().spawn(task);
    }

    /// Uses threads that do not belong to the runtime, because the end of a runtime waits for its
    /// own ones, and a listener may never return.
    fn spawn_blocking(&self, work: impl FnOnce() + Send + 'static) {
        run_on_thread(work);
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
