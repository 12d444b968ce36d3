//! NSD, an authoritative name server that shares no code with this project.

use super::{
    START_TIMEOUT, Scratch, built, or_skip, print_line,
    process::{Peer, Stream},
};
use crate::name_server;
use onionskin_core::dns::{DnsData, DnsQuery, RecordKind, ResolverConfig};
use rustix::process::Signal;
use std::{
    io,
    net::SocketAddr,
    path::PathBuf,
    process::Command,
    sync::OnceLock,
    thread,
    time::{Duration, Instant},
};

/// The time limit of a reload of the zone, and of the end of the server.
const PATIENCE: Duration = Duration::from_secs(60);

/// The number of ports to try, because another process can take a free port.
const PORTS: usize = 5;

/// A name server with one zone, over UDP and TCP on a port of `127.0.0.1`. It ends when it is
/// dropped.
#[derive(Debug)]
pub struct Nsd {
    peer: Peer,
    directory: Scratch,
    address: SocketAddr,
    domain: String,
    serial: u32,
}

/// Starts a name server for a domain with these lines of a zone file.
///
/// If NSD cannot be built or installed, prints a line that begins with `SKIPPED:` and returns
/// `None`; with `CI=true` it panics.
pub fn nsd(domain: &str, lines: &[String]) -> io::Result<Option<Nsd>> {
    static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let Some(program) = or_skip("NSD", BUILT.get_or_init(|| built("nsd")).clone()) else {
        return Ok(None);
    };
    let mut failure = io::Error::other("no port was tried");
    for _ in 0..PORTS {
        match Nsd::start(&program, domain, lines) {
            Ok(server) => {
                print_line(&format!("PEER: NSD at {}", server.address));
                return Ok(Some(server));
            }
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

impl Nsd {
    fn start(program: &PathBuf, domain: &str, lines: &[String]) -> io::Result<Self> {
        let address = name_server::free_address();
        let directory = Scratch::new()?;
        directory.write("zone", &zone(domain, 1, lines))?;
        let place = directory.path().display().to_string();
        let file = directory.write("nsd.conf", &configuration(address, &place, domain))?;
        let mut command = Command::new(program);
        // `-d` keeps NSD in the foreground.
        command.arg("-d").arg("-c").arg(file);
        let peer = Peer::start("NSD", command, Stream::Error, START_TIMEOUT, |line| {
            line.contains("nsd started").then(String::new)
        })?;
        let server = Self {
            directory,
            address,
            domain: domain.to_owned(),
            serial: 1,
            peer,
        };
        server.wait_for_serial()?;
        Ok(server)
    }

    /// Returns the address of the name server.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns a configuration with this name server only.
    #[must_use]
    pub fn resolver_config(&self) -> ResolverConfig {
        ResolverConfig::new([self.address])
    }

    /// Replaces all records by these lines of a zone file. Returns when NSD serves them.
    ///
    /// For a moment another process of NSD can still answer from the earlier records. So clients
    /// that look up records only once need a new server instead.
    pub fn set_records(&mut self, lines: &[String]) -> io::Result<()> {
        self.serial += 1;
        let text = zone(&self.domain, self.serial, lines);
        self.directory.write("zone", &text)?;
        self.peer.signal(Signal::HUP);
        self.wait_for_serial()
    }

    fn wait_for_serial(&self) -> io::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        let query = DnsQuery::new(&format!("serial.{}", self.domain), RecordKind::Txt);
        let expected = [DnsData::Text(self.serial.to_string())];
        loop {
            let found = name_server::look_up(self.resolver_config(), query.clone());
            if found.is_ok_and(|answer| answer.records == expected) {
                return Ok(());
            }
            if Instant::now() > deadline {
                let message = format!("the zone was not reloaded:\n{}", self.peer.log());
                return Err(io::Error::new(io::ErrorKind::TimedOut, message));
            }
            thread::yield_now();
        }
    }
}

impl Drop for Nsd {
    fn drop(&mut self) {
        self.peer.end(PATIENCE);
    }
}

/// Returns a zone file. The record `serial` has the number of the zone.
fn zone(domain: &str, serial: u32, lines: &[String]) -> String {
    format!(
        "$ORIGIN {domain}.\n@ 60 IN SOA ns admin {serial} 60 60 60 5\n@ 60 IN NS ns\n\
         ns 60 IN A 127.0.0.1\nserial 1 IN TXT \"{serial}\"\n{}\n",
        lines.join("\n")
    )
}

fn configuration(address: SocketAddr, place: &str, domain: &str) -> String {
    let (ip, port) = (address.ip(), address.port());
    format!(
        "server:\n    server-count: 1\n    ip-address: {ip}@{port}\n    username: \"\"\n\
         \x20   chroot: \"\"\n    zonesdir: \"{place}\"\n    database: \"\"\n\
         \x20   pidfile: \"{place}/pid\"\n    xfrdfile: \"{place}/xfrd\"\n\
         \x20   zonelistfile: \"{place}/zones\"\n    xfrdir: \"{place}\"\n\
         \x20   logfile: \"\"\n    zonefiles-check: yes\n    rrl-ratelimit: 0\n\
         remote-control:\n    control-enable: no\n\
         zone:\n    name: \"{domain}\"\n    zonefile: \"zone\"\n"
    )
}
