//! Servers that do what a test wants: a script answers each request, threads move the bytes.

mod connection;
mod script;
mod state;

pub use script::{Gate, Request, Step, answer, hello};
pub use state::Seen;

use crate::peers::Scratch;
use rustls::ServerConfig;
use state::State;
use std::{
    net::{SocketAddr, TcpListener, TcpStream},
    os::unix::net::UnixListener,
    path::PathBuf,
    sync::Arc,
    thread,
};

/// What answers requests.
pub type Script = Arc<dyn Fn(&Request) -> Vec<Step> + Send + Sync>;

/// A server on loopback; it stops when it is dropped, with all its connections.
#[derive(Debug)]
pub struct Server {
    state: Arc<State>,
    place: Place,
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
    /// A server that answers as [`answer`] does.
    #[must_use]
    pub fn plain() -> Self {
        Self::scripted(answer)
    }

    /// A server with a script.
    #[must_use]
    pub fn scripted(script: impl Fn(&Request) -> Vec<Step> + Send + Sync + 'static) -> Self {
        Self::tcp(Arc::new(script), None)
    }

    /// A server behind TLS that answers as [`answer`] does.
    #[must_use]
    pub fn tls(config: ServerConfig) -> Self {
        Self::tcp(Arc::new(answer), Some(Arc::new(config)))
    }

    /// A server that treats each accepted socket as it likes.
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
        Self { state, place }
    }

    /// A server on a Unix domain socket.
    #[must_use]
    pub fn unix(script: impl Fn(&Request) -> Vec<Step> + Send + Sync + 'static) -> Self {
        let scratch = Scratch::new().expect("a directory");
        let path = scratch.path().join("mongodb-27017.sock");
        let listener = UnixListener::bind(&path).expect("a socket");
        let (state, script): (_, Script) = (Arc::new(State::default()), Arc::new(script));
        let accepting = state.clone();
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if accepting.is_stopped() {
                    break;
                }
                let number = accepting.opened(&stream);
                connection::serve(&accepting, &script, number, stream);
            }
        });
        Self {
            state,
            place: Place::Unix(path, scratch),
        }
    }

    /// A server that answers as [`answer`] does, at this address.
    #[must_use]
    pub fn at(address: &str) -> Self {
        let listener = TcpListener::bind(address).expect("the port is free");
        Self::listen(listener, Arc::new(answer), None)
    }

    fn tcp(script: Script, tls: Option<Arc<ServerConfig>>) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        Self::listen(listener, script, tls)
    }

    fn listen(listener: TcpListener, script: Script, tls: Option<Arc<ServerConfig>>) -> Self {
        let address = listener.local_addr().expect("an address");
        let state = Arc::new(State::default());
        let accepting = state.clone();
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if accepting.is_stopped() {
                    break;
                }
                let _ = stream.set_nodelay(true);
                let number = accepting.opened(&stream);
                match &tls {
                    None => connection::serve(&accepting, &script, number, stream),
                    Some(config) => {
                        connection::serve_tls(&accepting, &script, number, stream, config);
                    }
                }
            }
        });
        Self {
            state,
            place: Place::Tcp(address),
        }
    }

    /// The connection string, with these options.
    #[must_use]
    pub fn uri(&self, options: &str) -> String {
        format!("mongodb://{}/?{options}", self.host())
    }

    /// The host as connection strings have it.
    #[must_use]
    pub fn host(&self) -> String {
        match &self.place {
            Place::Tcp(address) => address.to_string(),
            Place::Unix(path, _) => path.to_string_lossy().replace('/', "%2F"),
        }
    }

    /// The address as the client shows it.
    #[must_use]
    pub fn address(&self) -> String {
        match &self.place {
            Place::Tcp(address) => address.to_string(),
            Place::Unix(path, _) => path.to_string_lossy().into_owned(),
        }
    }

    /// Its port; zero for a Unix socket.
    #[must_use]
    pub fn port(&self) -> u16 {
        match &self.place {
            Place::Tcp(address) => address.port(),
            Place::Unix(..) => 0,
        }
    }

    /// Connections that are open at this moment.
    #[must_use]
    pub fn open(&self) -> usize {
        self.state.look(|log| log.open.len())
    }

    /// Connections that were ever accepted.
    #[must_use]
    pub fn accepted(&self) -> u64 {
        self.state.look(|log| log.accepted)
    }

    /// The most connections that ran operations at once.
    #[must_use]
    pub fn most_operating(&self) -> usize {
        self.state.look(|log| log.most_operating)
    }

    /// All requests of this name so far.
    #[must_use]
    pub fn seen(&self, name: &str) -> Vec<Seen> {
        self.state.look(|log| {
            let of_name = log.seen.iter().filter(|seen| seen.name == name);
            of_name.cloned().collect()
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.state.stop();
        // Whoever accepts looks whether to go on only when somebody comes.
        match &self.place {
            Place::Tcp(address) => drop(TcpStream::connect(address)),
            Place::Unix(path, _) => drop(std::os::unix::net::UnixStream::connect(path)),
        }
    }
}
