//! An identity server on a port of the loopback interface.

use super::tls::{self, IdentityTls};
use onionskin_core::{random::Seed, time::WallTime};
use onionskin_deployment::identity::{Answer, IdentityOptions, IdentityServer, Piece};
use rustls::ServerConnection;
use std::{
    io::{self, Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, SystemTime},
};

/// The largest number of open connections. Further ones are closed at once.
const MAX_CONNECTIONS: usize = 64;

/// The longest time for which a connection waits for bytes of its client, or for its client to read
/// bytes.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(10);

/// An identity server that runs in its own threads. Dropping it stops the server.
///
/// ```no_run
/// use onionskin_core::random::Seed;
/// use onionskin_deployment::identity::IdentityOptions;
/// use onionskin_serve::identity::IdentityEndpoint;
///
/// let endpoint = IdentityEndpoint::start(IdentityOptions::default(), &Seed::new([1; 32]))?;
/// println!("http://{}/latest/api/token", endpoint.address());
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct IdentityEndpoint {
    shared: Arc<Shared>,
    address: SocketAddr,
    thread: Option<thread::JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    server: Mutex<IdentityServer>,
    tls: Option<IdentityTls>,
    is_stopped: Mutex<bool>,
    stopped: Condvar,
    open: AtomicUsize,
}

impl IdentityEndpoint {
    /// Binds a free port of `127.0.0.1` and starts the server without TLS.
    pub fn start(options: IdentityOptions, seed: &Seed) -> io::Result<Self> {
        Self::bind(options, None, seed)
    }

    /// Binds a free port of `127.0.0.1` and starts the server, whose clients must use TLS.
    pub fn start_with_tls(
        options: IdentityOptions,
        tls: IdentityTls,
        seed: &Seed,
    ) -> io::Result<Self> {
        Self::bind(options, Some(tls), seed)
    }

    fn bind(options: IdentityOptions, tls: Option<IdentityTls>, seed: &Seed) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            server: Mutex::new(IdentityServer::new(options, seed)),
            tls,
            is_stopped: Mutex::new(false),
            stopped: Condvar::new(),
            open: AtomicUsize::new(0),
        });
        let accepting = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name("onionskin-identity".to_owned())
            .spawn(move || accept(&accepting, &listener))?;
        Ok(Self {
            shared,
            address,
            thread: Some(thread),
        })
    }

    /// Returns the address of the server.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the server, for example to set a fault. Requests wait while the guard is held.
    pub fn server(&self) -> MutexGuard<'_, IdentityServer> {
        lock(&self.shared.server)
    }
}

impl Drop for IdentityEndpoint {
    fn drop(&mut self) {
        *lock(&self.shared.is_stopped) = true;
        self.shared.stopped.notify_all();
        // A connection wakes the thread that accepts connections.
        drop(TcpStream::connect(self.address));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn accept(shared: &Arc<Shared>, listener: &TcpListener) {
    while let Ok((stream, _)) = listener.accept() {
        if *lock(&shared.is_stopped) {
            return;
        }
        if shared.open.load(Ordering::Relaxed) >= MAX_CONNECTIONS {
            continue;
        }
        shared.open.fetch_add(1, Ordering::Relaxed);
        let serving = Arc::clone(shared);
        let spawned = thread::Builder::new().spawn(move || {
            // An error means that the client has gone.
            let _ = serve(&serving, stream);
            serving.open.fetch_sub(1, Ordering::Relaxed);
        });
        if spawned.is_err() {
            shared.open.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

fn serve(shared: &Shared, mut stream: TcpStream) -> io::Result<()> {
    stream.set_read_timeout(Some(CLIENT_TIMEOUT))?;
    stream.set_write_timeout(Some(CLIENT_TIMEOUT))?;
    let mut layer = Layer(shared.tls.as_ref().and_then(IdentityTls::connect));
    let mut connection = lock(&shared.server).connect();
    let mut buffer = [0; 4096];
    let answer = loop {
        let count = stream.read(&mut buffer)?;
        if count == 0 {
            return Ok(());
        }
        let opened = layer.open(&buffer[..count]);
        stream.write_all(&layer.take_output())?;
        let Ok(opened) = opened else {
            return stream.write_all(&layer.end());
        };
        let answer = lock(&shared.server).handle_received(now(), &mut connection, &opened);
        if let Some(answer) = answer {
            break answer;
        }
    };
    let Answer { pieces, closes } = answer;
    for Piece {
        after,
        bytes,
        times,
    } in pieces
    {
        for _ in 0..times {
            if shared.pause(after) {
                return Ok(());
            }
            stream.write_all(&layer.seal(&bytes))?;
        }
    }
    if closes {
        return stream.write_all(&layer.end());
    }
    while stream.read(&mut buffer)? > 0 {}
    Ok(())
}

/// The encryption of a connection. Without TLS, bytes stay as they are.
struct Layer(Option<Box<ServerConnection>>);

impl Layer {
    fn open(&mut self, received: &[u8]) -> io::Result<Vec<u8>> {
        match &mut self.0 {
            None => Ok(received.to_vec()),
            Some(tls) => tls::open(tls, received),
        }
    }

    fn seal(&mut self, bytes: &[u8]) -> Vec<u8> {
        match &mut self.0 {
            None => bytes.to_vec(),
            Some(tls) => tls::seal(tls, bytes),
        }
    }

    /// Returns the bytes that TLS has to send now.
    fn take_output(&mut self) -> Vec<u8> {
        let tls = self.0.as_mut();
        tls.map(|tls| tls::take_output(tls)).unwrap_or_default()
    }

    /// Returns the bytes with which TLS ends the connection.
    fn end(&mut self) -> Vec<u8> {
        if let Some(tls) = &mut self.0 {
            tls.send_close_notify();
        }
        self.take_output()
    }
}

impl Shared {
    /// Waits for this time. Returns true if the server was stopped.
    fn pause(&self, time: Duration) -> bool {
        let is_stopped = lock(&self.is_stopped);
        if time.is_zero() || *is_stopped {
            return *is_stopped;
        }
        let waited = self
            .stopped
            .wait_timeout_while(is_stopped, time, |stopped| !*stopped);
        waited.map_or(true, |(is_stopped, _)| *is_stopped)
    }
}

fn now() -> WallTime {
    let elapsed = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let millis = elapsed.unwrap_or_default().as_millis();
    WallTime::from_unix_millis(u64::try_from(millis).unwrap_or(u64::MAX))
}

fn lock<T>(state: &Mutex<T>) -> MutexGuard<'_, T> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
