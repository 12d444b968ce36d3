//! A SOCKS5 proxy in the virtual network.

use super::{SimListener, SimRuntime, SimSocket, SimStream, executor::lock};
use futures_io::{AsyncRead, AsyncWrite};
use onionskin::Runtime as _;
use onionskin_deployment::socks5::{Socks5Exchange, Socks5Server, Socks5Step};
use std::{
    future::poll_fn,
    io,
    net::SocketAddr,
    pin::{Pin, pin},
    sync::{Arc, Mutex, MutexGuard},
    task::Poll,
};

/// The size of the buffer for one read from a destination, in bytes.
const READ_BYTES: usize = 4096;

impl SimRuntime {
    /// Starts a SOCKS5 proxy at an address. For port 0, the runtime chooses a port. The proxy
    /// resolves names and connects as other users of this runtime do.
    pub fn start_socks5_proxy(
        &self,
        address: SocketAddr,
        server: Socks5Server,
    ) -> io::Result<SimSocks5Proxy> {
        let listener = Arc::new(self.listen(address)?);
        let state = Arc::new(Mutex::new(ProxyState {
            server,
            requests: Vec::new(),
            offered: Vec::new(),
        }));
        self.spawn(accept(self.clone(), listener.clone(), state.clone()));
        Ok(SimSocks5Proxy { state, listener })
    }
}

/// The options of a proxy in the virtual network, and the requests so far.
#[derive(Debug)]
pub struct ProxyState {
    /// The options, which apply to new connections.
    pub server: Socks5Server,
    /// The destinations, as `host:port`, to which the proxy was asked to connect. A mapped address
    /// is replaced by its destination.
    pub requests: Vec<String>,
    /// The methods of authentication that the clients offered, one list for each greeting.
    pub offered: Vec<Vec<u8>>,
}

/// A SOCKS5 proxy in the virtual network. Dropping the value stops the proxy. Existing connections
/// continue.
#[derive(Debug)]
pub struct SimSocks5Proxy {
    state: Arc<Mutex<ProxyState>>,
    listener: Arc<SimListener>,
}

impl SimSocks5Proxy {
    /// Returns the address of the proxy.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.listener.address()
    }

    /// Returns the state of the proxy, for example to set a fault.
    pub fn state(&self) -> MutexGuard<'_, ProxyState> {
        lock(&self.state)
    }
}

impl Drop for SimSocks5Proxy {
    fn drop(&mut self) {
        self.listener.close();
    }
}

async fn accept(runtime: SimRuntime, listener: Arc<SimListener>, state: Arc<Mutex<ProxyState>>) {
    while let Some(socket) = listener.accept().await {
        runtime.spawn(serve(runtime.clone(), socket, state.clone()));
    }
}

/// Serves one connection until it ends.
async fn serve(runtime: SimRuntime, mut socket: SimSocket, state: Arc<Mutex<ProxyState>>) {
    let server = lock(&state).server.clone();
    let mut exchange = Socks5Exchange::new(server);
    let (host, port) = loop {
        let bytes = socket.read().await;
        if bytes.is_empty() {
            return;
        }
        let step = exchange.handle_received(&bytes);
        if socket.write(&exchange.take_output()).await.is_err() {
            return;
        }
        match step {
            Socks5Step::Wait => {}
            Socks5Step::Close => break (String::new(), 0),
            Socks5Step::Connect(host, port) => break (host, port),
        }
    };
    lock(&state).offered.push(exchange.offered().to_vec());
    if host.is_empty() {
        return;
    }
    lock(&state).requests.push(format!("{host}:{port}"));
    let stream = match connect(&runtime, &host, port).await {
        Ok(stream) => stream,
        Err(code) => {
            exchange.connected(Err(code));
            // An error means that the client has gone.
            let _ = socket.write(&exchange.take_output()).await;
            return;
        }
    };
    exchange.connected(Ok(()));
    if socket.write(&exchange.take_output()).await.is_err() {
        return;
    }
    relay(socket, stream, exchange.take_rest()).await;
}

/// Connects to the first address of the host that accepts. Fails with the code of the reply.
async fn connect(runtime: &SimRuntime, host: &str, port: u16) -> Result<SimStream, u8> {
    let addresses = runtime.resolve(host, port).await.map_err(|_| 4)?;
    for address in addresses {
        if let Ok(stream) = runtime.connect(address).await {
            return Ok(stream);
        }
    }
    Err(5)
}

/// Moves bytes in both directions until one side has ended, and then closes both. `rest` are the
/// first bytes for the destination.
async fn relay(mut socket: SimSocket, mut stream: SimStream, rest: Vec<u8>) {
    let (mut up, mut down) = (rest, Vec::new());
    loop {
        match step(&mut socket, &mut stream, &mut up, &mut down).await {
            Ok(true) => {}
            Ok(false) => return,
            // Programs that wait for this connection see a reset.
            Err(_) => return socket.reset(),
        }
    }
}

/// Waits for bytes of either side, and passes them on. Returns false at the end of one side.
async fn step(
    socket: &mut SimSocket,
    stream: &mut SimStream,
    up: &mut Vec<u8>,
    down: &mut Vec<u8>,
) -> io::Result<bool> {
    while !up.is_empty() {
        let count = poll_fn(|context| Pin::new(&mut *stream).poll_write(context, up)).await?;
        up.drain(..count);
    }
    if !down.is_empty() {
        socket.write(down).await?;
        down.clear();
    }
    let mut buffer = [0; READ_BYTES];
    let mut from_client = pin!(socket.read());
    poll_fn(|context| {
        if let Poll::Ready(bytes) = from_client.as_mut().poll(context) {
            *up = bytes;
            return Poll::Ready(Ok(!up.is_empty()));
        }
        Pin::new(&mut *stream)
            .poll_read(context, &mut buffer)
            .map_ok(|count| {
                down.extend_from_slice(&buffer[..count]);
                count > 0
            })
    })
    .await
}
