//! HAProxy, a load balancer that shares no code with this project, in front of simulated services.

use std::fmt::Write as _;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use super::process::Peer;
use super::{Scratch, built, or_skip, print_line};

/// The version of the PROXY protocol that HAProxy uses for connections to the services.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyProtocol {
    /// Version 1. HAProxy does not check whether a service is available.
    Text,
    /// Version 2. HAProxy checks every 100 ms whether a service is available, by a connection of
    /// its own.
    Binary,
}

/// Starts an HAProxy that distributes connections to these services in turn. The peer's URI is that
/// of the load balancer, with `loadBalanced=true`.
///
/// If HAProxy cannot be built or installed, prints a line that begins with `SKIPPED:` and returns
/// `None`; with `CI=true` it panics.
pub fn haproxy(services: &[SocketAddr], protocol: ProxyProtocol) -> io::Result<Option<Peer>> {
    static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let Some(program) = or_skip("HAProxy", BUILT.get_or_init(|| built("haproxy")).clone()) else {
        return Ok(None);
    };
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let directory = Scratch::new()?;
    let file = directory.write("haproxy.cfg", &configuration(services, protocol))?;
    let mut command = Command::new(program);
    // `-db` keeps HAProxy in the foreground, so that killing the child ends HAProxy.
    command.arg("-db").arg("-f").arg(file);
    let uri = format!("mongodb://{address}/?loadBalanced=true");
    let mut peer = Peer::start_on("HAProxy", command, listener, uri)?;
    peer.keep(directory);
    print_line(&format!("PEER: HAProxy at {address}, {protocol:?}"));
    Ok(Some(peer))
}

/// Returns a configuration in which HAProxy accepts connections on its standard input.
fn configuration(services: &[SocketAddr], protocol: ProxyProtocol) -> String {
    let words = match protocol {
        ProxyProtocol::Text => "send-proxy",
        ProxyProtocol::Binary => "send-proxy-v2 check inter 100ms fall 1 rise 1",
    };
    let mut text = String::from(
        "global\n    log stdout format raw local0 info\n    nbthread 1\n\
         defaults\n    mode tcp\n    log global\n    option redispatch 1\n    retries 3\n\
         \x20   timeout connect 5s\n    timeout client 60s\n    timeout server 60s\n\
         listen services\n    bind fd@0\n    balance roundrobin\n",
    );
    for (number, service) in services.iter().enumerate() {
        let _ = writeln!(text, "    server service{number} {service} {words}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_service_has_a_server_line_in_the_haproxy_configuration() {
        let services = ["127.0.0.1:7", "127.0.0.1:8"].map(|text| text.parse().unwrap());
        let text = configuration(&services, ProxyProtocol::Text);
        assert!(
            text.ends_with("    server service1 127.0.0.1:8 send-proxy\n"),
            "{text}"
        );
        let text = configuration(&services, ProxyProtocol::Binary);
        assert!(text.contains(" 127.0.0.1:7 send-proxy-v2 check "), "{text}");
    }
}
