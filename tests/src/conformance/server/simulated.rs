//! Scripted servers of the simulated runtime: tasks in virtual time, on virtual connections.

use super::{
    Gate, Responder, Step,
    listener::{ClosedPort, Listener, Stop},
    script::{LONGEST_HOLD, without_tls},
    session::Session,
    state::{Hold, Socket},
};
use onionskin::Runtime;
use onionskin_worlds::world::{
    SimRuntime,
    runtime::{SimHold, SimListener, SimSocket},
};
use std::{
    future::poll_fn,
    io,
    net::{Ipv4Addr, Shutdown, SocketAddr},
    pin::pin,
    sync::Arc,
    task::Poll,
};

impl Socket for SimHold {
    fn cut(&self, how: Shutdown) {
        match how {
            Shutdown::Write => self.finish(),
            Shutdown::Read | Shutdown::Both => self.shut(),
        }
    }
}

impl Hold for SimSocket {
    fn hold(&self) -> Option<Box<dyn Socket>> {
        Some(Box::new(Self::hold(self)))
    }
}

/// A listener of the simulated runtime.
#[derive(Debug)]
struct SimulatedListener {
    runtime: SimRuntime,
    listener: SimListener,
}

/// Opens a listener of the simulated runtime on any free port.
pub(crate) fn simulated_listener(runtime: SimRuntime) -> Box<dyn Listener> {
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    Box::new(SimulatedListener::new(runtime, any))
}

/// Takes a port of the simulated runtime, which gives each free port only once.
pub(crate) fn simulated_port(runtime: SimRuntime) -> Box<dyn ClosedPort> {
    let address = simulated_listener(runtime.clone()).address();
    Box::new(SimulatedPort { runtime, address })
}

impl SimulatedListener {
    fn new(runtime: SimRuntime, address: SocketAddr) -> Self {
        let listener = runtime.listen(address).expect("the address is free");
        Self { runtime, listener }
    }
}

/// A closed port of the simulated runtime.
#[derive(Debug)]
struct SimulatedPort {
    runtime: SimRuntime,
    address: SocketAddr,
}

impl ClosedPort for SimulatedPort {
    fn address(&self) -> SocketAddr {
        self.address
    }

    fn open(self: Box<Self>) -> Box<dyn Listener> {
        Box::new(SimulatedListener::new(self.runtime, self.address))
    }
}

impl Listener for SimulatedListener {
    fn address(&self) -> SocketAddr {
        self.listener.address()
    }

    fn serve(self: Box<Self>, responder: Responder) -> Stop {
        let Self { runtime, listener } = *self;
        let listener = Arc::new(listener);
        let (accepting, spawner) = (listener.clone(), runtime.clone());
        runtime.spawn(async move {
            while let Some(socket) = accepting.accept().await {
                spawner.spawn(serve(spawner.clone(), responder.clone(), socket));
            }
        });
        Box::new(move || listener.close())
    }
}

async fn serve(runtime: SimRuntime, responder: Responder, mut socket: SimSocket) {
    let number = responder.state.opened(&socket);
    let connection = Connection {
        runtime,
        session: Session::new(responder.clone(), number),
        socket: &mut socket,
    };
    // The client can end the connection in any way, so errors are ignored.
    match connection.run().await {
        Ok(End::Reset) => socket.reset(),
        Ok(End::Closed) | Err(_) => drop(socket),
    }
    responder.state.closed(number);
}

/// The way in which the server ends a connection.
enum End {
    Closed,
    Reset,
}

struct Connection<'a> {
    runtime: SimRuntime,
    session: Session,
    socket: &'a mut SimSocket,
}

impl Connection<'_> {
    async fn run(mut self) -> io::Result<End> {
        loop {
            let bytes = self.socket.read().await;
            if bytes.is_empty() {
                return Ok(End::Closed);
            }
            self.session.handle_received(&bytes);
            while let Some(steps) = self.session.poll_steps().map_err(io::Error::other)? {
                for step in steps {
                    if let Some(end) = self.perform(step).await? {
                        return Ok(end);
                    }
                }
            }
        }
    }

    /// Performs a step. Returns how the connection ends, or `None` if it continues.
    async fn perform(&mut self, step: Step) -> io::Result<Option<End>> {
        match step {
            Step::Send(bytes) => self.socket.write(&bytes).await?,
            Step::Trickle(bytes, size) => {
                for piece in bytes.chunks(size) {
                    self.socket.write(piece).await?;
                }
            }
            Step::Flood(bytes) => loop {
                self.socket.write(&bytes).await?;
            },
            Step::Hold(gate) => self.pass(&gate).await,
            Step::HalfClose => SimSocket::hold(self.socket).finish(),
            Step::Close => return Ok(Some(End::Closed)),
            Step::Reset => return Ok(Some(End::Reset)),
            Step::Tls(message) => return Err(without_tls(&message)),
        }
        Ok(None)
    }

    /// Waits until the gate is open or [`LONGEST_HOLD`] has passed.
    async fn pass(&self, gate: &Gate) {
        let mut longest = pin!(self.runtime.sleep(LONGEST_HOLD));
        poll_fn(|context| {
            if gate.poll_pass(context).is_ready() {
                return Poll::Ready(());
            }
            longest.as_mut().poll(context)
        })
        .await;
    }
}
