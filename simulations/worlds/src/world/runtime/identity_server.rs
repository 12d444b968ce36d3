//! An identity server in the virtual network.

use super::{SimListener, SimRuntime, SimSocket, executor::lock};
use crate::identity::{IdentityOptions, IdentityServer};
use onionskin::Runtime as _;
use onionskin_core::{random::Seed, time::WallTime};
use std::{
    io,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard},
};

impl SimRuntime {
    /// Starts an identity server at an address, such as `169.254.169.254:80`. For port 0, the
    /// runtime chooses a port.
    pub fn start_identity_server(
        &self,
        address: SocketAddr,
        options: IdentityOptions,
        seed: &Seed,
    ) -> io::Result<SimIdentityServer> {
        let listener = Arc::new(self.listen(address)?);
        let server = Arc::new(Mutex::new(IdentityServer::new(options, seed)));
        self.spawn(accept(self.clone(), listener.clone(), server.clone()));
        Ok(SimIdentityServer { server, listener })
    }
}

/// An identity server in the virtual network. Dropping the value stops the server.
#[derive(Debug)]
pub struct SimIdentityServer {
    server: Arc<Mutex<IdentityServer>>,
    listener: Arc<SimListener>,
}

impl SimIdentityServer {
    /// Returns the address of the server.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.listener.address()
    }

    /// Returns the server, for example to set a fault.
    pub fn server(&self) -> MutexGuard<'_, IdentityServer> {
        lock(&self.server)
    }
}

impl Drop for SimIdentityServer {
    fn drop(&mut self) {
        self.listener.close();
    }
}

async fn accept(
    runtime: SimRuntime,
    listener: Arc<SimListener>,
    server: Arc<Mutex<IdentityServer>>,
) {
    while let Some(socket) = listener.accept().await {
        runtime.spawn(serve(runtime.clone(), socket, server.clone()));
    }
}

/// Answers one request of a connection.
async fn serve(runtime: SimRuntime, mut socket: SimSocket, server: Arc<Mutex<IdentityServer>>) {
    let mut connection = lock(&server).connect();
    let answer = loop {
        let bytes = socket.read().await;
        if bytes.is_empty() {
            return;
        }
        let now = WallTime::from_unix(runtime.wall_time());
        let answer = lock(&server).handle_received(now, &mut connection, &bytes);
        if socket.write(&connection.take_output()).await.is_err() {
            return;
        }
        if let Some(answer) = answer {
            break answer;
        }
    };
    for piece in answer.pieces {
        for _ in 0..piece.times {
            if !piece.after.is_zero() {
                runtime.sleep(piece.after).await;
            }
            if socket.write(&connection.seal(&piece.bytes)).await.is_err() {
                return;
            }
        }
    }
    if answer.closes {
        // An error means that the client has gone.
        let _ = socket.write(&connection.end()).await;
        return;
    }
    while !socket.read().await.is_empty() {}
}
