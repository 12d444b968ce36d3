//! Deployments behind a SOCKS5 proxy.

use super::*;
use onionskin_deployment::socks5::{Socks5Exchange, Socks5Fault, Socks5Server, Socks5Step};
use onionskin_serve::{Embedded, ServeOptions};
use onionskin_tests::conformance::server::SystemPort;
use std::{
    io::{self, Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    thread,
};

/// Starts a proxy on a port of 127.0.0.1. Its threads end with their connections; the listener's
/// thread ends with the tests.
fn proxy(server: Socks5Server) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let server = server.clone();
            // An error means that one side has gone.
            thread::spawn(move || drop(serve(stream, server)));
        }
    });
    address
}

/// Serves one connection.
fn serve(mut client: TcpStream, server: Socks5Server) -> io::Result<()> {
    let mut exchange = Socks5Exchange::new(server);
    let mut buffer = [0; 512];
    loop {
        let count = client.read(&mut buffer)?;
        if count == 0 {
            return Ok(());
        }
        let step = exchange.handle_received(&buffer[..count]);
        client.write_all(&exchange.take_output())?;
        let (host, port) = match step {
            Socks5Step::Wait => continue,
            Socks5Step::Close => return client.shutdown(Shutdown::Write),
            Socks5Step::Connect(host, port) => (host, port),
        };
        let result = TcpStream::connect((host, port));
        exchange.connected(result.as_ref().map(|_| ()).map_err(|_| 5));
        client.write_all(&exchange.take_output())?;
        let (mut up, mut down) = (result?, client.try_clone()?);
        let mut from_server = up.try_clone()?;
        thread::spawn(move || {
            let copied = io::copy(&mut from_server, &mut down);
            drop(down.shutdown(Shutdown::Both));
            copied
        });
        let copied = io::copy(&mut client, &mut up);
        up.shutdown(Shutdown::Both)?;
        return copied.map(|_| ());
    }
}

/// Returns a proxy that requires the password of the tests.
fn strict() -> Socks5Server {
    Socks5Server {
        credentials: Some(("me".to_owned(), PASSWORD.to_owned())),
        ..Socks5Server::default()
    }
}

/// Returns the connection string of a server behind this proxy.
fn uri(hosts: &str, proxy: SocketAddr, options: &str) -> String {
    let (host, port) = (proxy.ip(), proxy.port());
    format!("mongodb://{hosts}/?proxyHost={host}&proxyPort={port}{options}")
}

#[test]
fn the_hop_through_the_proxy_is_a_step_of_its_own() {
    let deployment = Embedded::start(ServeOptions::standalone()).expect("starts");
    let host = deployment.addresses()[0].to_string();
    let proxy = proxy(strict());
    let login = format!("&proxyUsername=me&proxyPassword={PASSWORD}");
    let report = report_of(&uri(&host, proxy, &login));
    assert!(report.is_usable, "{}", report.to_text(false));
    assert_eq!(report.exit_code(), 0);
    let names: Vec<_> = report.steps.iter().map(|step| step.stage.name()).collect();
    assert_eq!(names[..4], ["parse", "dial", "proxy", "hello"], "{names:?}");
    let text = report.to_text(false);
    assert!(text.contains(&format!("proxy: {proxy}")), "{text}");
    assert!(text.contains("proxy credentials: yes"), "{text}");
}

#[test]
fn each_failure_of_the_proxy_has_a_hint() {
    let deployment = Embedded::start(ServeOptions::standalone()).expect("starts");
    let host = deployment.addresses()[0].to_string();
    let with = |fault| Socks5Server {
        fault: Some(fault),
        ..Socks5Server::default()
    };
    let wrong = "&proxyUsername=me&proxyPassword=wrong";
    for (server, options, cause, hint) in [
        (
            strict(),
            "",
            "requires authentication",
            "proxyPassword: they are those of the proxy",
        ),
        (
            strict(),
            wrong,
            "refused the user name",
            "proxyPassword: they are those of the proxy",
        ),
        (
            with(Socks5Fault::Reply(5)),
            "",
            "connection refused",
            "cannot or may not connect",
        ),
        (
            with(Socks5Fault::Reply(2)),
            "",
            "its rules do not allow",
            "do the rules of the proxy",
        ),
        (
            with(Socks5Fault::Close),
            "",
            "closed the connection",
            "the port of a SOCKS5 proxy",
        ),
        (
            with(Socks5Fault::Bytes(b"HTTP/1.1 400".to_vec())),
            "",
            "is it a SOCKS5 proxy?",
            "another kind of proxy",
        ),
        (
            with(Socks5Fault::Silence),
            "&connectTimeoutMS=1000",
            "the SOCKS5 handshake took longer than",
            "does not answer in time",
        ),
    ] {
        let report = report_of(&uri(&host, proxy(server), options));
        assert_eq!(report.exit_code(), 12, "{}", report.to_text(false));
        let failed = report
            .steps
            .iter()
            .find(|step| step.status == Status::Failed);
        assert_eq!(failed.expect("a failed step").stage.name(), "proxy");
        let problems = problems(&report, &[]).join("\n");
        assert!(
            problems.contains(cause) && problems.contains(hint),
            "{problems}"
        );
    }
}

/// Starts a hostile proxy on a port of 127.0.0.1. It runs this function with each connection.
fn hostile(serve: fn(TcpStream) -> io::Result<()>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            // An error means that the client has gone.
            thread::spawn(move || drop(serve(stream)));
        }
    });
    address
}

/// Sends these bytes, each once the client has sent nothing for a time, until the client closes the
/// connection.
fn trickle(stream: &mut TcpStream, bytes: &[u8], pause: Duration) -> io::Result<()> {
    stream.set_read_timeout(Some(pause))?;
    for byte in bytes {
        while let Ok(count) = stream.read(&mut [0; 512]) {
            if count == 0 {
                return Ok(());
            }
        }
        stream.write_all(&[*byte])?;
    }
    Ok(())
}

/// Requires no login and accepts each request. Then sends zeros until the client closes the
/// connection.
fn endless(mut stream: TcpStream) -> io::Result<()> {
    let mut buffer = [0; 512];
    for reply in [&[5, 0][..], &[5, 0, 0, 1, 127, 0, 0, 1, 1, 1]] {
        let _ = stream.read(&mut buffer)?;
        stream.write_all(reply)?;
    }
    loop {
        stream.write_all(&[0; 64 << 10])?;
    }
}

#[test]
fn an_endless_and_a_slow_proxy_cost_their_connection() {
    type Serve = fn(TcpStream) -> io::Result<()>;
    let cases: [(Serve, _, _); 4] = [
        // Only the first two bytes are the reply to the greeting.
        (
            |mut stream| loop {
                stream.write_all(&[5; 64 << 10])?;
            },
            "proxy",
            "chose the method 5, which was not offered",
        ),
        // Bytes after the last reply are those of the server, and zeros are no message.
        (endless, "hello", "unknown operation code 0"),
        // A domain name of 255 bytes is the longest reply. Each byte takes its time.
        (
            |mut stream| {
                let _ = stream.read(&mut [0; 512])?;
                stream.write_all(&[5, 0])?;
                let reply = [&[5, 0, 0, 3, 255][..], &[b'x'; 257]].concat();
                trickle(&mut stream, &reply, Duration::from_millis(20))
            },
            "proxy",
            "the SOCKS5 handshake took longer than",
        ),
        (
            |mut stream| trickle(&mut stream, &[5, 0], Duration::from_secs(5)),
            "proxy",
            "the SOCKS5 handshake took longer than",
        ),
    ];
    for (serve, stage, cause) in cases {
        let report = report_of(&uri(
            "db.example.net",
            hostile(serve),
            "&connectTimeoutMS=1500",
        ));
        let text = report.to_text(false);
        let mut steps = report.steps.iter();
        let failed = steps.find(|step| step.status == Status::Failed);
        assert_eq!(failed.expect("a failed step").stage.name(), stage, "{text}");
        assert!(text.contains(cause), "{text}");
    }
}

#[test]
fn a_proxy_that_accepts_no_connection_is_named() {
    let port = SystemPort::closed();
    let closed = port.address();
    let report = report_of(&uri("db.example.net", closed, ""));
    assert_eq!(report.exit_code(), 12, "{}", report.to_text(false));
    let problems = problems(&report, &[]).join("\n");
    let cause = format!("no address of the proxy {closed} accepts a connection");
    assert!(problems.contains(&cause), "{problems}");
    assert!(
        problems.contains("is a SOCKS5 proxy running there"),
        "{problems}"
    );
}

#[test]
fn the_name_of_a_server_behind_a_proxy_is_not_resolved() {
    // The name of the server exists only behind the proxy (SOCKS-14).
    let deployment = Embedded::start(ServeOptions::standalone()).expect("starts");
    let address = deployment.addresses()[0];
    let server = Socks5Server {
        mapped: vec![(
            "db.invalid:27017".to_owned(),
            (address.ip().to_string(), address.port()),
        )],
        ..Socks5Server::default()
    };
    let report = report_of(&uri("db.invalid", proxy(server), "&directConnection=true"));
    assert_eq!(report.exit_code(), 0, "{}", report.to_text(false));
    assert!(!report.steps.iter().any(|step| step.stage.name() == "dns"));
}
