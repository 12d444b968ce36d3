//! The tasks that accept connections and serve them.

use super::{
    ACCEPT_PAUSE, ListenTarget, READS_PER_TURN, Shared,
    peer::{Next, Peer},
};
use onionskin_deployment::deployment::ConnId;
use std::{cell::RefCell, future, io, net::SocketAddr, rc::Rc, task::Poll};
use tokio::{
    net::{TcpListener, TcpSocket, TcpStream},
    task,
};

/// The number of connections that wait to be accepted by a member that was started again.
const BACKLOG: u32 = 1024;

/// Binds a free port, or the port `base + place`.
pub(super) async fn bind(base: Option<u16>, place: usize) -> io::Result<TcpListener> {
    let port = match base {
        None | Some(0) => Some(0),
        Some(base) => u16::try_from(place).ok().and_then(|p| base.checked_add(p)),
    };
    let port = port.ok_or_else(|| {
        let text = "the base port is too high: a member's port would exceed 65535";
        io::Error::new(io::ErrorKind::InvalidInput, text)
    })?;
    let bound = TcpListener::bind(("127.0.0.1", port)).await;
    bound.map_err(|error| io::Error::new(error.kind(), format!("127.0.0.1:{port}: {error}")))
}

/// Binds the port that a member had before. Connections to it are refused.
fn reserve(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = TcpSocket::new_v4()?;
    // Closed connections to the port do not count. Afterwards no socket shares it.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.set_reuseaddr(false)?;
    Ok(socket)
}

/// Accepts connections on a reserved port. Closed connections do not count here either.
fn listen(reserved: TcpSocket) -> io::Result<TcpListener> {
    reserved.set_reuseaddr(true)?;
    reserved.listen(BACKLOG)
}

/// A port on which a task accepts connections, until it is closed.
pub(super) struct Port {
    listener: Rc<RefCell<Option<TcpListener>>>,
    task: task::JoinHandle<()>,
    /// Keeps a closed port from other programs.
    reserved: Option<TcpSocket>,
}

impl Port {
    /// Accepts connections with a listener, or on an address as soon as it is free.
    pub(super) fn open(
        shared: &Rc<Shared>,
        target: ListenTarget,
        listener: Result<TcpListener, SocketAddr>,
    ) -> Self {
        let address = listener.as_ref().err().copied();
        let listener = Rc::new(RefCell::new(listener.ok()));
        let (shared, shown) = (Rc::clone(shared), Rc::clone(&listener));
        let task = task::spawn_local(async move {
            if let Some(address) = address {
                let bound = bind_again(address).await;
                shown.replace(Some(bound));
            }
            accept(shared, target, &shown).await;
        });
        Self {
            listener,
            task,
            reserved: None,
        }
    }

    /// Refuses connections from now on. No other program gets the port meanwhile.
    pub(super) fn close(&mut self, address: SocketAddr) {
        // An aborted task is dropped only when the runtime gets to it.
        self.listener.take();
        self.task.abort();
        self.reserved = reserve(address).ok();
    }

    /// Accepts connections again. They succeed as soon as this function has returned.
    pub(super) fn reopen(&mut self, shared: &Rc<Shared>, target: ListenTarget, at: SocketAddr) {
        let socket = self.reserved.take().map_or_else(|| reserve(at), Ok);
        let listener = socket.and_then(listen);
        *self = Self::open(shared, target, listener.map_err(|_| at));
    }
}

async fn bind_again(address: SocketAddr) -> TcpListener {
    loop {
        match reserve(address).and_then(listen) {
            Ok(listener) => return listener,
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

async fn next(listener: &RefCell<Option<TcpListener>>) -> io::Result<TcpStream> {
    future::poll_fn(|context| match &*listener.borrow() {
        Some(listener) => listener.poll_accept(context),
        None => Poll::Pending,
    })
    .await
    .map(|(stream, _)| stream)
}

async fn accept(shared: Rc<Shared>, target: ListenTarget, listener: &RefCell<Option<TcpListener>>) {
    loop {
        let Ok(stream) = next(listener).await else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let member = match target {
            ListenTarget::Member(member) => Some(member),
            ListenTarget::Balancer => shared.deployment.borrow_mut().balance(),
        };
        // If no service runs, the balancer closes the connection that it has accepted.
        let Some(member) = member else {
            continue;
        };
        // A connection to a service's own port comes from another load balancer.
        let is_forwarded = shared.balancer.is_some();
        let is_proxied = is_forwarded && target != ListenTarget::Balancer;
        let admitted = match &shared.faults {
            Some(faults) => faults.admit(stream),
            None => Some(stream),
        };
        let Some(stream) = admitted else {
            continue;
        };
        let _ = stream.set_nodelay(true);
        let tls = shared.tls.as_ref().map(|tls| tls.accept());
        if matches!(tls, Some(None)) {
            continue;
        }
        let conn = ConnId(shared.next_conn.get());
        shared.next_conn.set(conn.0 + 1);
        let peer = Rc::new(Peer::new(
            stream,
            member,
            shared.clock,
            tls.flatten(),
            is_proxied,
            shared.unsent.clone(),
        ));
        shared.peers.borrow_mut().insert(conn, Rc::clone(&peer));
        let now = shared.now();
        let slow = shared
            .faults
            .as_ref()
            .and_then(|faults| faults.slowness_of(member));
        if slow.is_some() {
            peer.set_slowness(now, slow);
        }
        shared.drive(Some(conn), |deployment| match is_forwarded {
            true => deployment.handle_forwarded(now, conn, member),
            false => deployment.handle_connected(now, conn, member),
        });
        shared.pump();
        task::spawn_local(serve(Rc::clone(&shared), conn, peer));
    }
}

/// Serves one connection until it ends. Requests are handled one at a time, and only while few
/// replies wait for the client. Bytes are read only while the member has room for them. Other
/// connections are served in between.
async fn serve(shared: Rc<Shared>, conn: ConnId, peer: Rc<Peer>) {
    let mut reads = 0_usize;
    loop {
        while peer.takes_more() && shared.next_turn(conn) {
            task::yield_now().await;
            peer.send_delayed();
        }
        shared.note_room(conn, &peer);
        match peer.next().await {
            Next::End => break,
            Next::Turn => {}
            Next::Read => {
                reads = if shared.read(conn, &peer) {
                    reads + 1
                } else {
                    0
                };
                if reads >= READS_PER_TURN {
                    reads = 0;
                    task::yield_now().await;
                }
            }
        }
        task::consume_budget().await;
    }
    if shared.peers.borrow_mut().remove(&conn).is_some() {
        let now = shared.now();
        shared.drive(None, |deployment| {
            deployment.handle_disconnected(now, conn);
        });
        shared.pump();
    }
}
