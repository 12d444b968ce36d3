//! Listeners and closed ports on real sockets.

use super::{
    connection,
    listener::{ClosedPort, Listener, Responder, Stop},
};
use rustix::{
    fd::OwnedFd,
    net::{AddressFamily, SocketType, bind, getsockname, listen, socket},
};
use rustls::ServerConfig;
use std::{
    net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener, TcpStream},
    sync::Arc,
    thread,
};

/// The number of connections that wait to be accepted.
const BACKLOG: i32 = 128;

/// A listener on a real socket.
pub(super) struct SystemListener {
    listener: TcpListener,
    address: SocketAddr,
    tls: Option<Arc<ServerConfig>>,
}

/// Opens a listener on a real socket on any free port.
pub(crate) fn system_listener() -> Box<dyn Listener> {
    Box::new(SystemListener::any(None))
}

impl SystemListener {
    pub(super) fn any(tls: Option<Arc<ServerConfig>>) -> Self {
        SystemPort::closed().listener(tls)
    }
}

impl Listener for SystemListener {
    fn address(&self) -> SocketAddr {
        self.address
    }

    fn serve(self: Box<Self>, responder: Responder) -> Stop {
        let address = self.address;
        thread::spawn(move || {
            for stream in self.listener.incoming().map_while(Result::ok) {
                if responder.state.is_stopped() {
                    break;
                }
                let _ = stream.set_nodelay(true);
                let number = responder.state.opened(&stream);
                match &self.tls {
                    None => connection::serve(&responder, number, stream),
                    Some(config) => connection::serve_tls(&responder, number, stream, config),
                }
            }
        });
        wake_accept(address)
    }
}

/// Returns a function that connects to the listener. The accepting thread checks whether it has to
/// stop only when a connection arrives.
pub(super) fn wake_accept(address: SocketAddr) -> Stop {
    Box::new(move || drop(TcpStream::connect(address)))
}

/// A port of 127.0.0.1 on which a real socket is bound that does not listen, so connections are
/// refused. Unlike the port of a listener that was closed, no other program or test can get it.
#[derive(Debug)]
pub struct SystemPort {
    socket: OwnedFd,
    address: SocketAddr,
}

impl SystemPort {
    /// Takes any free port.
    #[must_use]
    pub fn closed() -> Self {
        let any = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0);
        let socket = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
        bind(&socket, &any).expect("a free port");
        let address = getsockname(&socket).expect("an address");
        let address = address.try_into().expect("an IP address");
        Self { socket, address }
    }

    /// Returns the address at which connections are refused.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Opens the port. `backlog`: the number of connections that can wait to be accepted.
    #[must_use]
    pub fn listen(self, backlog: i32) -> TcpListener {
        listen(&self.socket, backlog).expect("the port is ours");
        self.socket.into()
    }

    fn listener(self, tls: Option<Arc<ServerConfig>>) -> SystemListener {
        SystemListener {
            address: self.address,
            listener: self.listen(BACKLOG),
            tls,
        }
    }
}

impl ClosedPort for SystemPort {
    fn address(&self) -> SocketAddr {
        self.address
    }

    fn open(self: Box<Self>) -> Box<dyn Listener> {
        Box::new(self.listener(None))
    }
}
