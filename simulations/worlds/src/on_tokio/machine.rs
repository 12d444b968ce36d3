//! The machine that clients on tokio run on: the simulated network, at the time of tokio's clock.

use crate::world::runtime::{Executor, SimRuntime, SimStream};
use futures_io::{AsyncRead, AsyncWrite};
use onionskin::{Runtime, event::EventListener};
use onionskin_core::{event::Event, time::Instant};
use onionskin_tokio::machine::{Answer, Machine, Stream};
use std::{
    future::Future,
    io,
    net::SocketAddr,
    path::Path,
    pin::Pin,
    sync::{
        Arc, Weak,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};
use tokio::{runtime::Handle, sync::Notify, time::timeout_at};

/// The number of the simulated client to which all clients of the program belong.
pub(super) const CLIENT: usize = 0;

/// A world whose time is that of tokio's clock.
///
/// The driver handles events when they are due. Each use of a socket and each fault brings the
/// world to the present first, and wakes the driver afterwards, because something may happen
/// earlier than the driver knows.
#[derive(Debug)]
pub(super) struct Shared {
    executor: Executor,
    runtime: SimRuntime,
    handle: Handle,
    start: tokio::time::Instant,
    /// Wakes the driver.
    news: Arc<Notify>,
    /// The number of clients in the picture.
    shown_clients: AtomicUsize,
}

impl Shared {
    pub(super) fn new(executor: Executor) -> Self {
        Self {
            shown_clients: AtomicUsize::default(),
            runtime: executor.runtime(CLIENT),
            executor,
            handle: Handle::current(),
            start: tokio::time::Instant::now(),
            news: Arc::default(),
        }
    }

    fn next_shown_client(&self) -> Option<usize> {
        let has_picture = self.executor.has_picture();
        has_picture.then(|| self.shown_clients.fetch_add(1, Ordering::Relaxed))
    }

    pub(super) const fn executor(&self) -> &Executor {
        &self.executor
    }

    fn now(&self) -> Duration {
        // Tokio knows its clock only within its runtime, and a client may be polled elsewhere.
        let _entered = self.handle.enter();
        self.start.elapsed()
    }

    /// Returns the present time of the world.
    pub(super) fn present(&self) -> Instant {
        Instant::ZERO + self.now()
    }

    /// Handles everything that is due, and returns the simulated runtime.
    pub(super) fn at_present(&self) -> &SimRuntime {
        self.executor.advance(self.present());
        &self.runtime
    }

    /// Tells the driver to look for the next event again.
    pub(super) fn wake_driver(&self) {
        self.news.notify_one();
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.wake_driver();
    }
}

/// Returns a task that handles events when they are due, until nothing uses the world any more.
pub(super) fn driver(shared: &Arc<Shared>) -> impl Future<Output = ()> + Send + 'static {
    let (start, news) = (shared.start, shared.news.clone());
    let shared = Arc::downgrade(shared);
    async move {
        while let Some(next) = advance(&shared) {
            match next {
                None => news.notified().await,
                Some(at) => drop(timeout_at(start + at.since_start(), news.notified()).await),
            }
        }
    }
}

/// Handles what is due and returns the time of the next event, if there is one. `None` if the world
/// is gone.
fn advance(shared: &Weak<Shared>) -> Option<Option<Instant>> {
    let shared = shared.upgrade()?;
    Some(shared.executor.advance(shared.present()))
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
        T: 'static,
        F: Future<Output = io::Result<T>> + Send + 'static,
    {
        let call = make(self.shared.at_present().clone());
        Box::pin(PresentCall {
            call: Some(Box::pin(call)),
            shared: self.shared.clone(),
        })
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

    fn listener(&self) -> Option<EventListener> {
        let client = self.shared.next_shown_client()?;
        let (shared, start) = (Arc::downgrade(&self.shared), self.shared.now());
        Some(Arc::new(move |event: &Event| {
            if let Some(shared) = shared.upgrade() {
                shared.executor.show(event.at + start, client, &event.kind);
            }
        }))
    }

    fn now(&self) -> Duration {
        self.shared.now()
    }

    fn wall_time(&self) -> Duration {
        self.shared.at_present().wall_time()
    }

    fn entropy(&self, bytes: &mut [u8]) -> io::Result<()> {
        self.shared.runtime.entropy(bytes)
    }
}

/// A call that is polled and dropped at the present time only.
struct PresentCall<T> {
    /// Empty only while the call is dropped.
    call: Option<Answer<T>>,
    shared: Arc<Shared>,
}

impl<T> Future for PresentCall<T> {
    type Output = io::Result<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<T>> {
        self.shared.at_present();
        let result = match &mut self.call {
            Some(call) => call.as_mut().poll(context),
            None => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        };
        self.shared.wake_driver();
        result
    }
}

impl<T> Drop for PresentCall<T> {
    fn drop(&mut self) {
        self.shared.at_present();
        drop(self.call.take());
        self.shared.wake_driver();
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
        self.shared.at_present();
        let result = poll(Pin::new(stream));
        self.shared.wake_driver();
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
        self.shared.at_present();
        drop(self.stream.take());
        self.shared.wake_driver();
    }
}
