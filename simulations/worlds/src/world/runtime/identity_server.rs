//! An identity server in the virtual network.

use super::{STARTED_AT, SimListener, SimRuntime, SimSocket, executor::lock};
use onionskin::Runtime as _;
use onionskin_core::{random::Seed, time::WallTime};
use onionskin_deployment::identity::{IdentityOptions, IdentityServer};
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
        // The clock of the server does not jump with that of the client.
        let now = WallTime::from_unix(STARTED_AT + runtime.now());
        let answer = lock(&server).handle_received(now, &mut connection, &bytes);
        if let Some(answer) = answer {
            break answer;
        }
    };
    for piece in answer.pieces {
        for _ in 0..piece.times {
            if !piece.after.is_zero() {
                runtime.sleep(piece.after).await;
            }
            if socket.write(&piece.bytes).await.is_err() {
                return;
            }
        }
    }
    if answer.closes {
        return;
    }
    while !socket.read().await.is_empty() {}
}

#[cfg(test)]
mod tests {
    use crate::world::runtime::Executor;
    use futures_util::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use onionskin::Runtime as _;
    use onionskin_core::{random::Seed, time::Instant};
    use onionskin_deployment::identity::{IdentityFault, IdentityOptions};

    use std::{net::SocketAddr, time::Duration};

    #[test]
    fn a_server_in_the_virtual_network_answers_in_virtual_time() {
        let executor = Executor::quiet(1).expect("a world");
        let runtime = executor.runtime(0);
        let address = SocketAddr::from(([169, 254, 169, 254], 80));
        let run = async {
            let options = IdentityOptions::default();
            let server = runtime.start_identity_server(address, options, &Seed::new([5; 32]));
            let server = server.expect("a free port");
            assert_eq!(server.address(), address);
            let ask = async || {
                let mut stream = runtime.connect(address).await.expect("a connection");
                let request = b"GET /v2/credentials/onionskin HTTP/1.1\r\nHost: h\r\n\r\n";
                stream.write_all(request).await.expect("written");
                let mut answer = String::new();
                stream.read_to_string(&mut answer).await.expect("an answer");
                answer
            };
            assert!(ask().await.contains("AccessKeyId"));
            let start = runtime.now();
            server.server().set_fault(Some(IdentityFault::Slow));
            assert!(ask().await.contains("AccessKeyId"));
            assert!(runtime.now() - start >= Duration::from_secs(90));
        };
        let limit = Instant::ZERO + Duration::from_secs(300);
        executor.run(limit, run).expect("the end in time");
    }
}
