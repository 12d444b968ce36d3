//! Tests of the socket options that each runtime sets on its connections.

use onionskin::{
    Runtime,
    system::{KEEP_ALIVE_IDLE, KEEP_ALIVE_INTERVAL, KEEP_ALIVE_PROBES},
};
use onionskin_async_std::{AsyncStdRuntime, AsyncStdStream};
use onionskin_blocking::BlockingRuntime;
use onionskin_smol::{SmolRuntime, SmolStream};
use onionskin_tokio::{Tokio, TokioStream};
use rustix::{fd::AsFd, net::sockopt};
use std::net::{SocketAddr, TcpListener};

/// Asserts that a connected socket has `TCP_NODELAY` and keep-alive, with times no longer and
/// probes no more than those of the driver.
#[track_caller]
fn check(socket: impl AsFd) {
    assert_eq!(sockopt::socket_keepalive(&socket), Ok(true));
    let idle = sockopt::tcp_keepidle(&socket).expect("an option");
    assert!(idle <= KEEP_ALIVE_IDLE, "{idle:?}");
    let interval = sockopt::tcp_keepintvl(&socket).expect("an option");
    assert!(interval <= KEEP_ALIVE_INTERVAL, "{interval:?}");
    let probes = sockopt::tcp_keepcnt(&socket).expect("an option");
    assert!(probes <= KEEP_ALIVE_PROBES, "{probes}");
    assert_eq!(sockopt::tcp_nodelay(&socket), Ok(true));
}

fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let address = listener.local_addr().expect("an address");
    (listener, address)
}

/// Returns a listener that accepts no connection, and a stream of the runtime that is connected to
/// it: the operating system completes the connection without the listener.
async fn connected<R: Runtime>(runtime: R) -> (TcpListener, R::Stream) {
    let (listener, address) = listener();
    let stream = runtime.connect(address).await.expect("a connection");
    (listener, stream)
}

#[test]
fn the_tokio_adapter_sets_tcp_nodelay_and_keep_alive() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.expect("a runtime").block_on(async {
        match connected(Tokio::default()).await {
            (_listener, TokioStream::Tcp(socket)) => check(&socket),
            (_, other) => panic!("{other:?}"),
        }
    });
}

#[test]
fn the_async_std_adapter_sets_tcp_nodelay_and_keep_alive() {
    async_std::task::block_on(async {
        match connected(AsyncStdRuntime::default()).await {
            (_listener, AsyncStdStream::Tcp(socket)) => check(&socket),
            (_, other) => panic!("{other:?}"),
        }
    });
}

#[test]
fn the_smol_adapter_sets_tcp_nodelay_and_keep_alive() {
    smol::block_on(async {
        match connected(SmolRuntime::default()).await {
            (_listener, SmolStream::Tcp(socket)) => check(&socket),
            (_, other) => panic!("{other:?}"),
        }
    });
}

#[test]
fn the_blocking_adapter_sets_tcp_nodelay_and_keep_alive() {
    let runtime = BlockingRuntime::default();
    let (_listener, stream) = runtime.block_on(connected(runtime.clone()));
    check(&stream);
}
