//! The machine that clients run on, if it is not the real one.
//!
//! A runtime takes sockets, host names, clocks, random bytes, variables and files from the system.
//! A simulation implements [`Machine`] and takes the place of the system, so that a program runs
//! unchanged in a simulated network and in virtual time. The tasks and timers stay those of the
//! runtime. Of the adapters, `onionskin-tokio` can run on a machine ([`Placed`]): only tokio's
//! timers can follow virtual time.

use crate::{Error, Runtime, event::EventListener};
use futures_io::{AsyncRead, AsyncWrite};
use std::{
    cell::RefCell,
    fmt,
    future::Future,
    io,
    marker::PhantomData,
    net::SocketAddr,
    path::Path,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

/// The result of a call of a machine, later.
pub type Answer<T> = Pin<Box<dyn Future<Output = io::Result<T>> + Send>>;

/// A connected byte stream of a machine. Dropping it closes it.
pub trait Stream: AsyncRead + AsyncWrite + fmt::Debug + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + fmt::Debug + Send + Unpin> Stream for S {}

/// A machine that clients run on. The methods are those of [`Runtime`] of the same name, and
/// promise the same. Event listeners and callbacks run on the threads that run the client, because
/// in a simulation no other thread may delay or hasten anything. A listener that blocks therefore
/// blocks the program.
pub trait Machine: fmt::Debug + Send + Sync + 'static {
    /// Connects to an address.
    fn connect(&self, address: SocketAddr) -> Answer<Box<dyn Stream>>;

    /// Opens a datagram socket that is connected to a name server. A write sends one datagram, and
    /// a read receives one.
    fn connect_datagram(&self, server: SocketAddr) -> Answer<Box<dyn Stream>>;

    /// Connects to a Unix domain socket. Default: fails.
    fn connect_unix(&self, path: &Path) -> Answer<Box<dyn Stream>> {
        let _ = path;
        Box::pin(std::future::ready(Err(io::ErrorKind::Unsupported.into())))
    }

    /// Resolves a host name.
    fn resolve(&self, host: &str, port: u16) -> Answer<Vec<SocketAddr>>;

    /// Returns the value of an environment variable.
    fn variable(&self, name: &str) -> Option<String>;

    /// Reads a text file of at most `most` bytes.
    fn read_file(&self, path: &Path, most: usize) -> Answer<String>;

    /// Returns a listener for the events of a client on this machine, besides the listeners of the
    /// client's builder. Default: none.
    fn listener(&self) -> Option<EventListener> {
        None
    }

    /// Returns the time of a monotonic clock, measured from any fixed start. It agrees with the
    /// timers of the runtime.
    fn now(&self) -> Duration;

    /// Returns the calendar time as the time since 1970-01-01T00:00:00Z.
    fn wall_time(&self) -> Duration;

    /// Fills `bytes` with random bytes.
    fn entropy(&self, bytes: &mut [u8]) -> io::Result<()>;
}

thread_local! {
    static ENTERED: RefCell<Vec<Arc<dyn Machine>>> = const { RefCell::new(Vec::new()) };
}

/// Enters a machine: clients that this thread creates run on it while the guard lives. Of several
/// machines that the thread has entered, the last one counts. Clients keep the machine with which
/// they were created.
///
/// ```no_run
/// # use onionskin::{Client, Error, Runtime, machine::Machine, options::ClientOptions};
/// # use std::sync::Arc;
/// use onionskin::machine::{Placed, enter};
///
/// # fn example<R: Runtime + Default>(machine: Arc<dyn Machine>) -> Result<(), Error> {
/// let options: ClientOptions = "mongodb://localhost:27017".parse()?;
/// let entered = enter(machine);
/// let client = Client::<Placed<R>>::with_options(options)?;
/// drop(entered); // The client stays on the machine.
/// # Ok(())
/// # }
/// ```
pub fn enter(machine: Arc<dyn Machine>) -> Entered {
    ENTERED.with_borrow_mut(|entered| entered.push(machine.clone()));
    Entered {
        machine,
        thread: PhantomData,
    }
}

/// Returns the machine that was entered last in this thread; `None` outside of a simulation.
///
/// ```
/// use onionskin::machine::current;
///
/// if current().is_some() {
///     println!("this thread runs in a simulation");
/// }
/// ```
#[must_use]
pub fn current() -> Option<Arc<dyn Machine>> {
    ENTERED.with_borrow(|entered| entered.last().cloned())
}

/// A guard that leaves a machine when it is dropped.
#[derive(Debug)]
#[must_use = "the machine is left when the guard is dropped"]
pub struct Entered {
    machine: Arc<dyn Machine>,
    /// The guard cannot leave its thread.
    thread: PhantomData<*const ()>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        let Self { machine, thread: _ } = self;
        // Guards may be dropped in any order.
        let _left = ENTERED.with_borrow_mut(|entered| {
            let place = entered
                .iter()
                .rposition(|other| Arc::ptr_eq(other, machine));
            place.map(|place| entered.remove(place))
        });
    }
}

/// A runtime whose clients run on a machine, or else on the real one.
#[derive(Clone, Debug)]
pub struct Placed<R> {
    runtime: R,
    machine: Option<Arc<dyn Machine>>,
}

impl<R: Default> Placed<R> {
    /// Creates a runtime on this machine. Clients that are created in other ways run on the machine
    /// that their thread has [entered](enter), or else on the real one.
    ///
    /// ```no_run
    /// # use onionskin::{Client, Error, Runtime, machine::Machine, options::ClientOptions};
    /// # use std::sync::Arc;
    /// use onionskin::machine::Placed;
    ///
    /// # fn example<R: Runtime + Default>(machine: Arc<dyn Machine>) -> Result<(), Error> {
    /// let options: ClientOptions = "mongodb://localhost:27017".parse()?;
    /// let client = Client::builder(Placed::<R>::on(machine), options).build()?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn on(machine: Arc<dyn Machine>) -> Self {
        Self {
            runtime: R::default(),
            machine: Some(machine),
        }
    }
}

impl<R: Default> Default for Placed<R> {
    fn default() -> Self {
        Self {
            runtime: R::default(),
            machine: current(),
        }
    }
}

impl<R: Runtime> Runtime for Placed<R> {
    type Stream = PlacedStream<R::Stream>;
    type Sleep = R::Sleep;

    const RUNS_IN_BACKGROUND: bool = R::RUNS_IN_BACKGROUND;

    fn prepare(&mut self) -> Result<(), Error> {
        self.runtime.prepare()
    }

    async fn connect(&self, address: SocketAddr) -> io::Result<Self::Stream> {
        match &self.machine {
            None => self.runtime.connect(address).await.map(PlacedStream::Real),
            Some(machine) => machine.connect(address).await.map(PlacedStream::Machine),
        }
    }

    async fn connect_datagram(&self, server: SocketAddr) -> io::Result<Self::Stream> {
        match &self.machine {
            None => {
                let socket = self.runtime.connect_datagram(server).await;
                socket.map(PlacedStream::Real)
            }
            Some(machine) => {
                let socket = machine.connect_datagram(server).await;
                socket.map(PlacedStream::Machine)
            }
        }
    }

    async fn connect_unix(&self, path: &Path) -> io::Result<Self::Stream> {
        match &self.machine {
            None => self
                .runtime
                .connect_unix(path)
                .await
                .map(PlacedStream::Real),
            Some(machine) => machine.connect_unix(path).await.map(PlacedStream::Machine),
        }
    }

    async fn resolve(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        match &self.machine {
            None => self.runtime.resolve(host, port).await,
            Some(machine) => machine.resolve(host, port).await,
        }
    }

    fn sleep(&self, duration: Duration) -> R::Sleep {
        self.runtime.sleep(duration)
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.runtime.spawn(task);
    }

    fn spawn_blocking(&self, work: impl FnOnce() + Send + 'static) {
        match &self.machine {
            None => self.runtime.spawn_blocking(work),
            Some(_) => work(),
        }
    }

    fn spawn_thread(&self, work: impl FnOnce() + Send + 'static) {
        match &self.machine {
            None => self.runtime.spawn_thread(work),
            Some(_) => self.runtime.spawn(async move { work() }),
        }
    }

    fn variable(&self, name: &str) -> Option<String> {
        match &self.machine {
            None => self.runtime.variable(name),
            Some(machine) => machine.variable(name),
        }
    }

    async fn read_file(&self, path: &Path, most: usize) -> io::Result<String> {
        match &self.machine {
            None => self.runtime.read_file(path, most).await,
            Some(machine) => machine.read_file(path, most).await,
        }
    }

    fn listener(&self) -> Option<EventListener> {
        match &self.machine {
            None => self.runtime.listener(),
            Some(machine) => machine.listener(),
        }
    }

    fn spawn_cleanup(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.runtime.spawn_cleanup(task);
    }

    fn run_ready(&self) {
        self.runtime.run_ready();
    }

    fn now(&self) -> Duration {
        match &self.machine {
            None => self.runtime.now(),
            Some(machine) => machine.now(),
        }
    }

    fn wall_time(&self) -> Duration {
        match &self.machine {
            None => self.runtime.wall_time(),
            Some(machine) => machine.wall_time(),
        }
    }

    fn process_id(&self) -> Option<u32> {
        self.runtime.process_id()
    }

    fn entropy(&self, bytes: &mut [u8]) -> io::Result<()> {
        match &self.machine {
            None => self.runtime.entropy(bytes),
            Some(machine) => machine.entropy(bytes),
        }
    }
}

/// A stream of a [`Placed`] runtime.
#[derive(Debug)]
pub enum PlacedStream<S> {
    /// A stream of the runtime.
    Real(S),
    /// A stream of the machine.
    Machine(Box<dyn Stream>),
}

/// Calls a method of the stream, whichever it is.
macro_rules! forward {
    ($this:expr, $stream:ident => $call:expr) => {
        match $this.get_mut() {
            PlacedStream::Real($stream) => $call,
            PlacedStream::Machine($stream) => $call,
        }
    };
}

impl<S: AsyncRead + Unpin> AsyncRead for PlacedStream<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        forward!(self, stream => Pin::new(stream).poll_read(context, buffer))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for PlacedStream<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        forward!(self, stream => Pin::new(stream).poll_write(context, bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        forward!(self, stream => Pin::new(stream).poll_flush(context))
    }

    fn poll_close(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        forward!(self, stream => Pin::new(stream).poll_close(context))
    }
}
