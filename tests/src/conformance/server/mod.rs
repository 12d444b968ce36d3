//! Servers that answer by a script. Threads serve connections on real sockets, and tasks serve the
//! connections of the simulated runtime.

mod connection;
mod listener;
mod proxy;
mod script;
mod session;
mod simulated;
mod state;
mod system;

pub use listener::{ClosedPort, Listener, Responder, Stop};
pub use proxy::{Fault, Proxy};
pub use script::{Gate, Request, Step, TlsMessage, answer, hello};
pub(crate) use simulated::{simulated_listener, simulated_port};
pub use state::Seen;
pub use system::SystemPort;
pub(crate) use system::system_listener;

use super::Host;
use crate::peers::Scratch;
use rustls::ServerConfig;
use state::State;
use std::{
    fmt,
    net::{SocketAddr, TcpListener, TcpStream},
    os::unix::net::{UnixListener, UnixStream},
    path::PathBuf,
    sync::Arc,
    thread,
};
use system::{SystemListener, wake_accept};

/// A function that returns the steps with which a server answers a request.
pub type Script = Arc<dyn Fn(&Request) -> Vec<Step> + Send + Sync>;

/// A server on a TCP address or on a Unix domain socket. Dropping the value closes the listener and
/// all connections.
pub struct Server {
    state: Arc<State>,
    place: Place,
    stop: Stop,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("place", &self.place)
            .finish_non_exhaustive()
    }
}

#[derive(Debug)]
enum Place {
    Tcp(SocketAddr),
    Unix(
        PathBuf,
        #[expect(dead_code, reason = "its drop removes the socket")] Scratch,
    ),
}

impl Server {
    /// Starts a server that answers as [`answer`] does.
    #[must_use]
    pub fn plain<H: Host>() -> Self {
        Self::scripted::<H>(answer)
    }

    /// Starts a server that answers as `script` says.
    #[must_use]
    pub fn scripted<H: Host>(
        script: impl Fn(&Request) -> Vec<Step> + Send + Sync + 'static,
    ) -> Self {
        Self::behind(H::listener(), Arc::new(script))
    }

    /// Starts a server on a real socket that answers as `script` says, for tests without a
    /// [`Host`].
    #[must_use]
    pub fn on_socket(script: impl Fn(&Request) -> Vec<Step> + Send + Sync + 'static) -> Self {
        Self::behind(system_listener(), Arc::new(script))
    }

    /// Starts a server with TLS that answers as `script` says.
    #[must_use]
    pub fn tls(
        config: ServerConfig,
        script: impl Fn(&Request) -> Vec<Step> + Send + Sync + 'static,
    ) -> Self {
        let listener = SystemListener::any(Some(Arc::new(config)));
        Self::behind(Box::new(listener), Arc::new(script))
    }

    /// Starts a server that calls `treat` with each accepted socket.
    #[must_use]
    pub fn raw(treat: impl Fn(TcpStream) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let address = listener.local_addr().expect("an address");
        let (state, treat) = (Arc::new(State::default()), Arc::new(treat));
        let (accepting, place) = (state.clone(), Place::Tcp(address));
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let treat = treat.clone();
                if accepting.is_stopped() {
                    break;
                }
                let (number, state) = (accepting.opened(&stream), accepting.clone());
                thread::spawn(move || {
                    treat(stream);
                    state.closed(number);
                });
            }
        });
        Self {
            state,
            place,
            stop: wake_accept(address),
        }
    }

    /// Starts a server on a Unix domain socket.
    #[must_use]
    pub fn unix(script: impl Fn(&Request) -> Vec<Step> + Send + Sync + 'static) -> Self {
        let scratch = Scratch::new().expect("a directory");
        let path = scratch.path().join("mongodb-27017.sock");
        let listener = UnixListener::bind(&path).expect("a socket");
        let state = Arc::new(State::default());
        let responder = Responder {
            state: state.clone(),
            script: Arc::new(script),
        };
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if responder.state.is_stopped() {
                    break;
                }
                let number = responder.state.opened(&stream);
                connection::serve(&responder, number, stream);
            }
        });
        let to_stop = path.clone();
        Self {
            state,
            place: Place::Unix(path, scratch),
            stop: Box::new(move || drop(UnixStream::connect(&to_stop))),
        }
    }

    /// Starts a server on a port that was closed until now. It answers as [`answer`] does.
    #[must_use]
    pub fn on(port: Box<dyn ClosedPort>) -> Self {
        Self::behind(port.open(), Arc::new(answer))
    }

    fn behind(listener: Box<dyn Listener>, script: Script) -> Self {
        let address = listener.address();
        let state = Arc::new(State::default());
        let stop = listener.serve(Responder {
            state: state.clone(),
            script,
        });
        Self {
            state,
            place: Place::Tcp(address),
            stop,
        }
    }

    /// Returns a connection string for the server, with `options`.
    #[must_use]
    pub fn uri(&self, options: &str) -> String {
        format!("mongodb://{}/?{options}", self.host())
    }

    /// Returns the address and port, or the path of the socket, in the form of connection strings.
    #[must_use]
    pub fn host(&self) -> String {
        match &self.place {
            Place::Tcp(address) => address.to_string(),
            Place::Unix(path, _) => path.to_string_lossy().replace('/', "%2F"),
        }
    }

    /// Returns the address in the form in which the client displays it.
    #[must_use]
    pub fn address(&self) -> String {
        match &self.place {
            Place::Tcp(address) => address.to_string(),
            Place::Unix(path, _) => path.to_string_lossy().into_owned(),
        }
    }

    /// Returns the address of the socket, or `None` for a Unix domain socket.
    #[must_use]
    pub fn place(&self) -> Option<SocketAddr> {
        match &self.place {
            Place::Tcp(address) => Some(*address),
            Place::Unix(..) => None,
        }
    }

    /// Returns the port, or zero for a Unix domain socket.
    #[must_use]
    pub fn port(&self) -> u16 {
        match &self.place {
            Place::Tcp(address) => address.port(),
            Place::Unix(..) => 0,
        }
    }

    /// Returns the number of open connections.
    #[must_use]
    pub fn open(&self) -> usize {
        self.state.with(|records| records.open.len())
    }

    /// Returns the number of all connections that were accepted so far.
    #[must_use]
    pub fn accepted(&self) -> u64 {
        self.state.with(|records| records.accepted)
    }

    /// Returns the largest number of connections that were open at once and had received a command
    /// other than `hello`, `saslStart` and `saslContinue`.
    #[must_use]
    pub fn most_operating(&self) -> usize {
        self.state.with(|records| records.most_operating)
    }

    /// Returns the TLS errors that ended connections, oldest first.
    #[must_use]
    pub fn tls_failures(&self) -> Vec<rustls::Error> {
        self.state.with(|records| records.tls_failures.clone())
    }

    /// Returns all requests of this name so far, oldest first.
    #[must_use]
    pub fn seen(&self, name: &str) -> Vec<Seen> {
        self.state
            .with(|records| records.seen.get(name).cloned().unwrap_or_default())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.state.stop();
        (self.stop)();
    }
}
