//! Servers that accept no connection.

use super::*;
use rustix::{
    fd::OwnedFd,
    net::{AddressFamily, SocketType, bind, getsockname, listen, socket},
};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};

/// Returns a socket on a free port of 127.0.0.1, and its address.
fn bound() -> (OwnedFd, SocketAddr) {
    let any = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0);
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
    bind(&socket, &any).expect("a port");
    let address = getsockname(&socket).expect("an address");
    (socket, address.try_into().expect("an IP address"))
}

#[test]
fn a_closed_port_fails_the_dial() {
    // A socket that is bound but does not listen keeps the port closed.
    let (_socket, address) = bound();
    let address = address.to_string();
    let report = report_of(&format!("mongodb://{address}/"));
    assert_eq!(report.exit_code(), 12);
    let expected = "ok    parse\n\
        \x20     hosts: SERVER\n\
        \x20     tls: no\n\
        FAIL  dial SERVER (_ ms)\n\
        \x20     addresses:\n\
        \x20       SERVER: failed: network error: Connection refused (os error 111)\n\
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
    let (listener, address) = bound();
    listen(&listener, 0).expect("a queue");
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
