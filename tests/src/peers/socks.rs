//! Two SOCKS5 proxies that share no code with this project: microsocks and Dante.

use super::{
    START_TIMEOUT, Scratch, built, or_skip, print_line,
    process::{Peer, Stream},
};
use crate::name_server;
use std::{
    io,
    net::{SocketAddr, TcpStream},
    path::PathBuf,
    process::Command,
    sync::OnceLock,
    thread,
    time::{Duration, Instant},
};

/// The time limit of the end of a proxy.
const PATIENCE: Duration = Duration::from_secs(60);

/// The number of ports to try, because another process can take a free port.
const PORTS: usize = 5;

/// A SOCKS5 proxy on a port of `127.0.0.1`. It ends when it is dropped.
#[derive(Debug)]
pub struct SocksProxy {
    peer: Peer,
    address: SocketAddr,
}

/// Starts a microsocks, which requires this user name and password if they are given.
///
/// If microsocks cannot be fetched, prints a line that begins with `SKIPPED:` and returns `None`;
/// with `CI=true` it panics.
pub fn microsocks(login: Option<(&str, &str)>) -> io::Result<Option<SocksProxy>> {
    let Some(program) = program("microsocks") else {
        return Ok(None);
    };
    started("microsocks", |address| {
        let mut command = Command::new(&program);
        command.args(["-i", "127.0.0.1", "-p", &address.port().to_string()]);
        if let Some((name, word)) = login {
            command.args(["-u", name, "-P", word]);
        }
        // The program prints nothing when it is ready.
        let mut peer = Peer::start_silent("microsocks", command)?;
        let deadline = Instant::now() + START_TIMEOUT;
        while !is_listening(address) {
            if peer.has_ended() || Instant::now() > deadline {
                return Err(io::Error::other(format!("no start:\n{}", peer.log())));
            }
            thread::yield_now();
        }
        Ok(SocksProxy { peer, address })
    })
}

/// Starts a Dante. If `requires_login` is true, Dante requires the name and password of a user of
/// the system, and so refuses every login of a test.
///
/// If Dante cannot be fetched, prints a line that begins with `SKIPPED:` and returns `None`; with
/// `CI=true` it panics.
pub fn dante(requires_login: bool) -> io::Result<Option<SocksProxy>> {
    let Some(program) = program("danted") else {
        return Ok(None);
    };
    started("Dante", |address| {
        let directory = Scratch::new()?;
        let file = directory.write("danted.conf", &configuration(address, requires_login))?;
        let mut command = Command::new(&program);
        command.arg("-f").arg(file);
        let is_ready = |line: &str| line.ends_with(" running").then(String::new);
        let mut peer = Peer::start("Dante", command, Stream::Error, START_TIMEOUT, is_ready)?;
        peer.keep(directory);
        Ok(SocksProxy { peer, address })
    })
}

/// True if a process listens at the address. A connection alone does not show this: if nobody
/// listens at a port, a socket can get the same port as its own, and so connect to itself.
fn is_listening(address: SocketAddr) -> bool {
    let stream = TcpStream::connect(address);
    stream.is_ok_and(|stream| stream.local_addr().is_ok_and(|own| own != address))
}

/// Returns one of the programs that the script fetches.
fn program(name: &str) -> Option<PathBuf> {
    static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let first = BUILT.get_or_init(|| built("socks")).clone();
    or_skip(name, first.map(|path| path.with_file_name(name)))
}

/// Starts a proxy on a free port.
fn started(
    name: &str,
    start: impl Fn(SocketAddr) -> io::Result<SocksProxy>,
) -> io::Result<Option<SocksProxy>> {
    let mut failure = io::Error::other("no port was tried");
    for _ in 0..PORTS {
        match start(name_server::free_address()) {
            Ok(proxy) => {
                print_line(&format!("PEER: {name} at {}", proxy.address));
                return Ok(Some(proxy));
            }
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

impl SocksProxy {
    /// Returns the address of the proxy.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns a connection string with the options of this proxy and of a login added.
    #[must_use]
    pub fn before(&self, uri: &str, login: Option<(&str, &str)>) -> String {
        let separator = if uri.contains('?') { "&" } else { "?" };
        let (host, port) = (self.address.ip(), self.address.port());
        let login = login.map(|(n, w)| format!("&proxyUsername={n}&proxyPassword={w}"));
        let login = login.unwrap_or_default();
        format!("{uri}{separator}proxyHost={host}&proxyPort={port}{login}")
    }

    /// Returns the last lines that the proxy wrote, for error messages.
    #[must_use]
    pub fn log(&self) -> String {
        self.peer.log()
    }
}

impl Drop for SocksProxy {
    fn drop(&mut self) {
        self.peer.end(PATIENCE);
    }
}

fn configuration(address: SocketAddr, requires_login: bool) -> String {
    let (ip, port) = (address.ip(), address.port());
    let method = if requires_login { "username" } else { "none" };
    format!(
        "logoutput: stderr\nerrorlog: stderr\ninternal: {ip} port = {port}\nexternal: {ip}\n\
         clientmethod: none\nsocksmethod: {method}\n\
         client pass {{\n    from: 127.0.0.0/8 to: 0.0.0.0/0\n}}\n\
         socks pass {{\n    from: 127.0.0.0/8 to: 0.0.0.0/0\n    command: connect\n\
         \x20   protocol: tcp\n}}\n"
    )
}
