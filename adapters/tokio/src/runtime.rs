//! The implementation of [`Runtime`] with tokio.

use crate::TokioStream;
use onionskin::{
    Error, Runtime,
    machine::{self, Machine},
    system::{
        datagram_socket, keep_alive, read_on_thread, resolve_on_thread, run_on_new_thread,
        run_on_thread,
    },
};
use std::{
    future::{Future, poll_fn},
    io,
    net::SocketAddr,
    path::Path,
    pin::pin,
    sync::Arc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};
use tokio::{net::UdpSocket, runtime::Handle};

const NO_RUNTIME: &str = "there is no tokio runtime: make the client within one";

/// The tokio runtime on which a client runs: the one in which this value was created, or else the
/// one in which the client was built.
#[derive(Clone, Debug)]
pub struct TokioRuntime {
    start: Instant,
    /// The handle of the runtime; `None` if this value was created outside of a runtime and no
    /// client was built with it. Operations can be awaited and dropped in threads of any executor,
    /// so tasks and timers are started through the handle.
    handle: Option<Handle>,
    /// The machine that takes the place of the system.
    machine: Option<Arc<dyn Machine>>,
}

impl Default for TokioRuntime {
    fn default() -> Self {
        Self {
            start: Instant::now(),
            handle: Handle::try_current().ok(),
            machine: machine::current(),
        }
    }
}

impl TokioRuntime {
    /// Creates a value for clients on a machine, for example a simulated one. Clients that are
    /// created in other ways run on the machine that their thread has [entered](machine::enter), or
    /// else on the real one.
    #[must_use]
    pub fn on(machine: Arc<dyn Machine>) -> Self {
        Self {
            machine: Some(machine),
            ..Self::default()
        }
    }

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

impl Runtime for TokioRuntime {
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
        if let Some(machine) = &self.machine {
            return machine.connect(address).await.map(TokioStream::Machine);
        }
        let stream = self.within(tokio::net::TcpStream::connect(address)).await?;
        stream.set_nodelay(true)?;
        keep_alive(&stream);
        Ok(TokioStream::Tcp(stream))
    }

    async fn connect_datagram(&self, server: SocketAddr) -> io::Result<TokioStream> {
        if let Some(machine) = &self.machine {
            let socket = machine.connect_datagram(server).await;
            return socket.map(TokioStream::Machine);
        }
        let socket = datagram_socket(server)?;
        let handle = self.handle();
        let _entered = handle.enter();
        UdpSocket::from_std(socket).map(TokioStream::Udp)
    }

    async fn connect_unix(&self, path: &Path) -> io::Result<TokioStream> {
        if let Some(machine) = &self.machine {
            return machine.connect_unix(path).await.map(TokioStream::Machine);
        }
        #[cfg(unix)]
        {
            let stream = self.within(tokio::net::UnixStream::connect(path)).await?;
            Ok(TokioStream::Unix(stream))
        }
        #[cfg(not(unix))]
        {
            Err(io::ErrorKind::Unsupported.into())
        }
    }

    async fn resolve(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        match &self.machine {
            Some(machine) => machine.resolve(host, port).await,
            None => resolve_on_thread(self, host, port).await,
        }
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
        match &self.machine {
            Some(_) => work(),
            None => run_on_thread(work),
        }
    }

    fn spawn_thread(&self, work: impl FnOnce() + Send + 'static) {
        match &self.machine {
            Some(_) => self.spawn(async move { work() }),
            None => run_on_new_thread(work),
        }
    }

    fn variable(&self, name: &str) -> Option<String> {
        match &self.machine {
            Some(machine) => machine.variable(name),
            None => std::env::var(name).ok(),
        }
    }

    async fn read_file(&self, path: &Path, most: usize) -> io::Result<String> {
        match &self.machine {
            Some(machine) => machine.read_file(path, most).await,
            None => read_on_thread(self, path, most).await,
        }
    }

    fn now(&self) -> Duration {
        match &self.machine {
            Some(machine) => machine.now(),
            None => self.start.elapsed(),
        }
    }

    fn wall_time(&self) -> Duration {
        match &self.machine {
            Some(machine) => machine.wall_time(),
            None => SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .unwrap_or_default(),
        }
    }

    fn entropy(&self, bytes: &mut [u8]) -> io::Result<()> {
        match &self.machine {
            Some(machine) => machine.entropy(bytes),
            None => getrandom::fill(bytes).map_err(io::Error::from),
        }
    }
}
