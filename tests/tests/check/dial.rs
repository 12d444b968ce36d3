//! Servers that accept no connection.

use super::*;
use onionskin::{Error, Runtime};
use onionskin_tests::conformance::server::SystemPort;
use std::{
    io,
    net::{Ipv4Addr, SocketAddr, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

#[test]
fn a_closed_port_fails_the_dial() {
    let closed = SystemPort::closed();
    let address = closed.address().to_string();
    let report = report_of(&format!("mongodb://{address}/"));
    assert_eq!(report.exit_code(), 12);
    let expected = "ok    parse\n\
        \x20     hosts: SERVER\n\
        \x20     tls: no\n\
        FAIL  dial SERVER (_ ms)\n\
        \x20     addresses:\n\
        \x20       SERVER: failed with network error: Connection refused (os error 111)\n\
        \x20     cause: no address of SERVER accepts a connection\n\
        \x20     hint: is a server running there, and is PORT its port?\n\
        \x20     hint: the default port of MongoDB is 27017\n\
        \x20     hint: a server accepts connections only on the addresses in net.bindIp of its \
        configuration, by default only on localhost\n\
        skip  topology\n\
        \x20     reason: no server can be used\n\
        The check failed at the step dial (1 failed, 0 with warnings, of 3 steps in _ ms).\n";
    let port = address.rsplit(':').next().expect("a port");
    let text = text_of(&report, &[(&address, "SERVER"), (port, "PORT")]);
    assert_eq!(text.replace("parse (_ ms)", "parse"), expected);
}

#[test]
fn a_missing_unix_socket_fails_the_dial() {
    let report = report_of("mongodb://%2Fnowhere%2Fmongodb-27017.sock/");
    assert_eq!(report.exit_code(), 12);
    assert!(
        problems(&report, &[])[1].contains("unixDomainSocket"),
        "{report:?}"
    );
}

#[test]
fn a_connection_that_is_not_accepted_in_time_looks_like_a_firewall() {
    // The system drops connections to a listener whose queue is full.
    let port = SystemPort::closed();
    let address = port.address();
    let _listener = port.listen(0);
    let wait = Duration::from_millis(200);
    let queued: Vec<TcpStream> = (0..16)
        .map_while(|_| TcpStream::connect_timeout(&address, wait).ok())
        .collect();
    assert!(queued.len() < 16, "the queue is not full");
    let report = report_of(&format!("mongodb://{address}/?connectTimeoutMS=300"));
    assert_eq!(report.exit_code(), 12, "{}", report.to_text(false));
    let problems = problems(&report, &[]).join("\n");
    assert!(problems.contains("firewall"), "{problems}");
    assert!(
        !problems.contains("access list"),
        "no hosted service is on this machine"
    );
}

/// A runtime in which each host has two addresses. The second one fails after 600 ms, and from then
/// on the first one accepts no further connection.
#[derive(Clone)]
struct Leaving {
    inner: TokioRuntime,
    first: SocketAddr,
    has_left: Arc<AtomicBool>,
}

impl Runtime for Leaving {
    type Stream = <TokioRuntime as Runtime>::Stream;
    type Sleep = <TokioRuntime as Runtime>::Sleep;

    fn prepare(&mut self) -> Result<(), Error> {
        self.inner.prepare()
    }

    async fn connect(&self, address: SocketAddr) -> io::Result<Self::Stream> {
        if address != self.first {
            self.inner.sleep(Duration::from_millis(600)).await;
            self.has_left.store(true, Ordering::Relaxed);
            return Err(io::ErrorKind::HostUnreachable.into());
        }
        if self.has_left.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        self.inner.connect(address).await
    }

    onionskin_tests::forward_runtime!(
        inner: connect_unix, sleep, spawn, spawn_blocking, now, wall_time, entropy
    );

    async fn resolve(&self, _: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        Ok(vec![self.first, (Ipv4Addr::new(127, 0, 0, 9), port).into()])
    }
}

#[test]
fn a_server_that_accepts_only_one_connection_fails_the_dial() {
    let port = SystemPort::closed();
    let first = port.address();
    let _listener = port.listen(16);
    let report = on_tokio(async {
        let runtime = Leaving {
            inner: TokioRuntime::default(),
            first,
            has_left: Arc::default(),
        };
        let uri = format!("mongodb://leaving.test:{}/", first.port());
        check(runtime, &uri, &CheckOptions::default()).await
    });
    assert_sound(&report);
    assert_eq!(report.exit_code(), 12);
    assert_eq!(
        stages(&report),
        "parse ok, dns ok, dial failed, topology skipped"
    );
    let text = report.to_text(false);
    assert!(
        text.contains("but not a second one a moment later"),
        "{text}"
    );
}
