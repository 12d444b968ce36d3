//! The machine that clients on tokio run on: the simulated network, at the time of tokio's clock.

use crate::world::runtime::{Executor, SimRuntime, SimStream};
use futures_io::{AsyncRead, AsyncWrite};
use onionskin::Runtime;
use onionskin_core::time::Instant;
use onionskin_tokio::machine::{Answer, Machine, Stream};
use std::{
    future::Future,
    io,
    net::SocketAddr,
    path::Path,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};
use tokio::{runtime::Handle, sync::Notify, time::timeout_at};

/// The number of the simulated client to which all clients of the program belong.
pub(super) const CLIENT: usize = 0;

/// A world whose time is that of tokio's clock.
///
/// The driver handles what happens by itself. Every other call brings the world to the present
/// first, and tells the driver afterwards that something may happen earlier than it knows.
#[derive(Debug)]
pub(super) struct Shared {
    executor: Executor,
    runtime: SimRuntime,
    handle: Handle,
    start: tokio::time::Instant,
    news: Notify,
}

impl Shared {
    pub(super) fn new(executor: Executor) -> Self {
        Self {
            runtime: executor.runtime(CLIENT),
            executor,
            handle: Handle::current(),
            start: tokio::time::Instant::now(),
            news: Notify::new(),
        }
    }

    pub(super) const fn executor(&self) -> &Executor {
        &self.executor
    }

    fn now(&self) -> Duration {
        // Tokio knows its clock only within its runtime, and a client may be polled elsewhere.
        let _entered = self.handle.enter();
        self.start.elapsed()
    }

    /// Handles everything that is due, and returns the simulated runtime.
    pub(super) fn present(&self) -> &SimRuntime {
        self.executor.advance(Instant::ZERO + self.now());
        &self.runtime
    }

    /// Tells the driver to look for the next event again.
    pub(super) fn changed(&self) {
        self.news.notify_one();
    }
}

/// Handles events when they are due.
pub(super) async fn drive(shared: Arc<Shared>) {
    loop {
        let next = shared.executor.advance(Instant::ZERO + shared.now());
        let news = shared.news.notified();
        match next {
            None => news.await,
            Some(at) => drop(timeout_at(shared.start + at.since_start(), news).await),
        }
    }
}

/// The machine of all clients of a program.
#[derive(Clone, Debug)]
pub(super) struct SimMachine {
    shared: Arc<Shared>,
}

impl SimMachine {
    pub(super) const fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Runs a call of the simulated runtime. Each poll happens at the present time.
    fn call<T, F>(&self, make: impl FnOnce(SimRuntime) -> F + Send + 'static) -> Answer<T>
    where
        F: Future<Output = io::Result<T>> + Send + 'static,
    {
        let shared = self.shared.clone();
        let mut future = Box::pin(make(shared.present().clone()));
        Box::pin(std::future::poll_fn(move |context| {
            shared.present();
            let result = future.as_mut().poll(context);
            shared.changed();
            result
        }))
    }

    fn stream<F>(
        &self,
        make: impl FnOnce(SimRuntime) -> F + Send + 'static,
    ) -> Answer<Box<dyn Stream>>
    where
        F: Future<Output = io::Result<SimStream>> + Send + 'static,
    {
        let (shared, dialed) = (self.shared.clone(), self.call(make));
        Box::pin(async move {
            let stream = dialed.await?;
            Ok(Box::new(PresentStream {
                stream: Some(stream),
                shared,
            }) as Box<dyn Stream>)
        })
    }
}

impl Machine for SimMachine {
    fn connect(&self, address: SocketAddr) -> Answer<Box<dyn Stream>> {
        self.stream(move |runtime| async move { runtime.connect(address).await })
    }

    fn connect_datagram(&self, server: SocketAddr) -> Answer<Box<dyn Stream>> {
        self.stream(move |runtime| async move { runtime.connect_datagram(server).await })
    }

    fn resolve(&self, host: &str, port: u16) -> Answer<Vec<SocketAddr>> {
        let host = host.to_owned();
        self.call(move |runtime| async move { runtime.resolve(&host, port).await })
    }

    fn variable(&self, name: &str) -> Option<String> {
        self.shared.runtime.variable(name)
    }

    fn read_file(&self, path: &Path, most: usize) -> Answer<String> {
        let path = path.to_owned();
        self.call(move |runtime| async move { runtime.read_file(&path, most).await })
    }

    fn now(&self) -> Duration {
        self.shared.now()
    }

    fn wall_time(&self) -> Duration {
        self.shared.present().wall_time()
    }

    fn entropy(&self, bytes: &mut [u8]) -> io::Result<()> {
        self.shared.runtime.entropy(bytes)
    }
}

/// A simulated stream that is used at the present time only.
#[derive(Debug)]
struct PresentStream {
    /// Empty only while the stream is dropped.
    stream: Option<SimStream>,
    shared: Arc<Shared>,
}

impl PresentStream {
    fn poll<T>(
        &mut self,
        poll: impl FnOnce(Pin<&mut SimStream>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        let Some(stream) = &mut self.stream else {
            return Poll::Ready(Err(io::ErrorKind::NotConnected.into()));
        };
        self.shared.present();
        let result = poll(Pin::new(stream));
        self.shared.changed();
        result
    }
}

impl AsyncRead for PresentStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        self.poll(|stream| stream.poll_read(context, buffer))
    }
}

impl AsyncWrite for PresentStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll(|stream| stream.poll_write(context, bytes))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll(|stream| stream.poll_flush(context))
    }

    fn poll_close(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll(|stream| stream.poll_close(context))
    }
}

impl Drop for PresentStream {
    fn drop(&mut self) {
        self.shared.present();
        drop(self.stream.take());
        self.shared.changed();
    }
}
