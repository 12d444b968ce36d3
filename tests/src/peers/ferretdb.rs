//! FerretDB with its SQLite backend: a server that shares no code with this project.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use super::process::{Peer, Stream};
use super::{Certificates, START_TIMEOUT, Scratch, built, or_skip, print_line};

/// The user that FerretDB creates if it requires authentication. The user's authentication database
/// is `admin`.
const USERNAME: &str = "onionskin";
/// The password of that user.
const PASSWORD: &str = "pencil";

/// The text before the address in the log line of a server that listens.
const LISTENING: [&str; 2] = ["Listening on TCP ", "Listening on TLS "];

/// Options for the start of FerretDB. Default: neither authentication nor TLS.
#[derive(Clone, Copy, Debug, Default)]
pub struct FerretDb {
    authentication: bool,
    tls: bool,
}

impl FerretDb {
    /// Requires authentication by SCRAM-SHA-1 or SCRAM-SHA-256. The URI contains user and password.
    #[must_use]
    pub fn with_authentication(mut self) -> Self {
        self.authentication = true;
        self
    }

    /// Accepts only TLS connections with a client certificate. The URI names the certificate files.
    #[must_use]
    pub fn with_tls(mut self) -> Self {
        self.tls = true;
        self
    }

    fn command(self, binary: &Path, data: &Path, certificates: Option<&Certificates>) -> Command {
        let mut command = Command::new(binary);
        command.args(["--handler=sqlite", "--telemetry=disable", "--debug-addr=-"]);
        command.arg(format!("--sqlite-url=file:{}/", data.display()));
        command.arg(format!("--state-dir={}", data.display()));
        // The kernel chooses a free port when FerretDB listens, and FerretDB logs the port. A port
        // that the test chose before could be taken by another process.
        match certificates {
            None => {
                command.arg("--listen-addr=127.0.0.1:0");
            }
            Some(files) => {
                command.args(["--listen-addr=", "--listen-tls=127.0.0.1:0"]);
                let certificate = files.server_certificate.display();
                command.arg(format!("--listen-tls-cert-file={certificate}"));
                command.arg(format!(
                    "--listen-tls-key-file={}",
                    files.server_key.display()
                ));
                command.arg(format!(
                    "--listen-tls-ca-file={}",
                    files.authority.display()
                ));
            }
        }
        if self.authentication {
            command.args(["--test-enable-new-auth", "--setup-database=admin"]);
            command.arg(format!("--setup-username={USERNAME}"));
            command.arg(format!("--setup-password={PASSWORD}"));
        }
        command
    }

    fn uri(self, address: SocketAddr, certificates: Option<&Certificates>) -> String {
        let credential = if self.authentication {
            format!("{USERNAME}:{PASSWORD}@")
        } else {
            String::new()
        };
        let options = certificates.map_or_else(String::new, |files| {
            let authority = percent_encoded(&files.authority);
            let client = percent_encoded(&files.client);
            format!("?tls=true&tlsCAFile={authority}&tlsCertificateKeyFile={client}")
        });
        format!("mongodb://{credential}{address}/{options}")
    }
}

/// Starts FerretDB with an empty database. If FerretDB cannot be built or installed, prints a line
/// that begins with `SKIPPED:` and returns `None`; with `CI=true` it panics.
pub fn ferretdb(options: FerretDb) -> io::Result<Option<Peer>> {
    static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let Some(binary) = or_skip("FerretDB", BUILT.get_or_init(|| built("ferretdb")).clone()) else {
        return Ok(None);
    };
    let data = Scratch::new()?;
    let certificates = options.tls.then(Certificates::generate).transpose()?;
    let command = options.command(&binary, data.path(), certificates.as_ref());
    let mut peer = Peer::start("FerretDB", command, Stream::Error, START_TIMEOUT, |line| {
        let address = listening_address(line)?;
        Some(options.uri(address, certificates.as_ref()))
    })?;
    peer.keep(data);
    if let Some(certificates) = certificates {
        peer.keep(certificates);
    }
    let address = peer.address()?;
    TcpStream::connect_timeout(&address, START_TIMEOUT)?;
    print_line(&format!("PEER: FerretDB at {address}, {options:?}"));
    Ok(Some(peer))
}

/// Returns the address in a line such as `... Listening on TCP 127.0.0.1:34275...
/// {"name":"listener"}`.
fn listening_address(line: &str) -> Option<SocketAddr> {
    let rest = LISTENING
        .iter()
        .find_map(|marker| Some(line.split_once(marker)?.1))?;
    rest.split_once("...")?.0.parse().ok()
}

/// Encodes a path as the value of a URI option. A `/` is encoded, too, because some parsers take a
/// later `/` for the end of the host list.
fn percent_encoded(path: &Path) -> String {
    let mut encoded = String::new();
    for byte in path.display().to_string().bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_read_from_the_log() {
        let line = "2026-01-01T00:00:00Z\tINFO\tclientconn/listener.go:107\t\
                    Listening on TCP 127.0.0.1:34275...\t{\"name\":\"listener\"}";
        assert_eq!(
            listening_address(line),
            Some("127.0.0.1:34275".parse().unwrap())
        );
        let tls = line.replace("TCP", "TLS");
        assert_eq!(
            listening_address(&tls),
            Some("127.0.0.1:34275".parse().unwrap())
        );
        assert_eq!(listening_address("Starting FerretDB v1.24.2..."), None);
    }

    #[test]
    fn paths_are_encoded_for_the_uri() {
        assert_eq!(
            percent_encoded(Path::new("/tmp/a b.pem")),
            "%2Ftmp%2Fa%20b.pem"
        );
    }
}
