//! Real counterparts, which run as child processes: servers and drivers of other projects.
//!
//! A test asks for a counterpart and gets `None` if the machine lacks it, after a line that begins
//! with `SKIPPED:`. With `CI=true` in the environment, a missing counterpart is a panic instead.
//! For each counterpart that takes part, a line is printed that begins with `PEER:`. libtest
//! captures neither kind of line.

mod certificates;
mod chromium;
mod every_mechanism;
mod ferretdb;
mod haproxy;
#[cfg(feature = "gssapi")]
pub mod kerberos;
mod nsd;
mod openssl;
pub mod pki;
mod process;
mod scratch;
mod socks;

use process::Stream;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

pub use certificates::Certificates;
pub use chromium::{Chromium, chromium};
pub use every_mechanism::EveryMechanism;
pub use ferretdb::{FerretDb, ferretdb};
pub use haproxy::{ProxyProtocol, haproxy};
pub use nsd::{Nsd, nsd};
pub use openssl::{openssl, rsa_key};
pub use process::{Output, Peer, run};
pub use scratch::Scratch;
pub use socks::{SocksProxy, dante, microsocks};

/// The time limit of building or installing one counterpart, including downloads.
const BUILD_TIMEOUT: Duration = Duration::from_secs(20 * 60);

/// The time limit of the start of a server.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// Returns the Python interpreter of a virtual environment with PyMongo.
pub fn python_with_pymongo() -> Option<PathBuf> {
    static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    driver("PyMongo", BUILT.get_or_init(|| built("pymongo")).clone())
}

/// Returns the program in `tests/peers/official`, which uses the official Rust driver.
pub fn official_driver_binary() -> Option<PathBuf> {
    static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    driver(
        "the official Rust driver",
        BUILT.get_or_init(|| built("official")).clone(),
    )
}

/// Returns the programs in `tests/peers/porting` with the official Rust driver and with Onionskin.
pub fn porting_binaries() -> Option<[PathBuf; 2]> {
    let beside = official_driver_binary()?;
    Some(["porting-official", "porting-peer"].map(|name| beside.with_file_name(name)))
}

/// Returns GNU parallel.
pub fn parallel() -> Option<PathBuf> {
    static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    driver(
        "GNU parallel",
        BUILT.get_or_init(|| built("parallel")).clone(),
    )
}

/// Returns the script in `tests/peers/node`, which uses the Node.js driver.
pub fn node_driver_script() -> Option<PathBuf> {
    static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    driver(
        "the Node.js driver",
        BUILT.get_or_init(|| built("node")).clone(),
    )
}

/// Returns the script in `tests/peers/mingo`, which answers queries, updates and pipelines with the
/// npm package mingo.
pub fn mingo_script() -> Option<PathBuf> {
    static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    driver(
        "the npm package mingo",
        BUILT.get_or_init(|| built("mingo")).clone(),
    )
}

/// Starts a program in `tests/peers/pymongo` that follows the SRV records of a connection string
/// below `domain`, by the name server at this port of `127.0.0.1`.
pub fn pymongo_follows_srv(uri: &str, port: u16, domain: &str) -> io::Result<Option<Peer>> {
    let Some(interpreter) = python_with_pymongo() else {
        return Ok(None);
    };
    let mut command = Command::new(interpreter);
    command.arg(workspace_root().join("tests/peers/pymongo/follow_srv.py"));
    command.args([uri, &port.to_string(), domain]);
    follow("PyMongo", command).map(Some)
}

/// Starts a program in `tests/peers/node` that follows the SRV records of a connection string, by
/// the name server at this port of `127.0.0.1`.
pub fn node_follows_srv(uri: &str, port: u16) -> io::Result<Option<Peer>> {
    let Some(script) = node_driver_script() else {
        return Ok(None);
    };
    let mut command = Command::new("node");
    command.arg(script.with_file_name("follow_srv.js"));
    command.args([uri, &port.to_string()]);
    follow("the Node.js driver", command).map(Some)
}

/// Starts a program that prints `ready` when it is connected.
fn follow(name: &str, command: Command) -> io::Result<Peer> {
    Peer::start(name, command, Stream::Output, START_TIMEOUT, |line| {
        (line == "ready").then(String::new)
    })
}

/// Returns the `onionskin` command: the file in `ONIONSKIN_BINARY`, or else one that cargo builds.
pub fn onionskin_binary() -> io::Result<PathBuf> {
    static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    BUILT
        .get_or_init(find_onionskin)
        .clone()
        .map_err(io::Error::other)
}

/// Starts `onionskin serve` with `arguments`. The first line of the command's output is the URI of
/// the peer.
///
/// The certificates of `--tls` are in a directory that is removed with the peer.
pub fn serve<'a>(arguments: impl IntoIterator<Item = &'a str>) -> io::Result<Peer> {
    let arguments: Vec<&str> = arguments.into_iter().collect();
    let mut command = Command::new(onionskin_binary()?);
    command.arg("serve").args(&arguments);
    let certificates = Scratch::new()?;
    if arguments.contains(&"--tls") {
        command.arg("--tls-dir").arg(certificates.path());
    }
    let mut peer = Peer::start_by_first_line("onionskin serve", command, START_TIMEOUT)?;
    peer.keep(certificates);
    print_line(&format!(
        "PEER: onionskin serve {} at {}",
        arguments.join(" "),
        peer.address()?
    ));
    Ok(peer)
}

fn find_onionskin() -> Result<PathBuf, String> {
    if let Some(path) = std::env::var_os("ONIONSKIN_BINARY") {
        return Ok(PathBuf::from(path));
    }
    // With these two tests and with the features of this one, the build has the same dependencies
    // as `cargo test --workspace`: those for tests, and those that are used both by a test and by
    // macros (`syn`). Otherwise cargo would choose other features and flags, and compile most
    // dependencies again, which takes one to two minutes.
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["build", "--locked", "--workspace", "--profile", "test"]);
    command.args(["--bin", "onionskin", "--test", "client", "--test", "tidy"]);
    if cfg!(feature = "gssapi") {
        command.args(["--features", "onionskin-tests/gssapi"]);
    }
    command.args(["--message-format", "json-render-diagnostics"]);
    command.current_dir(workspace_root());
    // Cargo sets these variables for a test. Build scripts that watch them, such as that of `ring`,
    // would run again, and their packages and all dependents would be compiled again.
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&name);
        }
    }
    let output = run(command, BUILD_TIMEOUT).map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(format!(
            "cargo build of `onionskin` failed:\n{}",
            output.stderr
        ));
    }
    executable_in(&output.stdout).ok_or_else(|| "cargo named no executable".into())
}

/// Returns the file of the program, not that of a test, in cargo's messages.
fn executable_in(messages: &str) -> Option<PathBuf> {
    let mut lines = messages.lines();
    let program = lines.find(|line| line.contains(r#""kind":["bin"]"#))?;
    let (_, rest) = program.split_once(r#""executable":""#)?;
    let (path, _) = rest.split_once('"')?;
    Some(PathBuf::from(path))
}

/// Runs `build.sh` in a folder of `tests/peers`. Returns the path in its last line of output.
fn built(folder: &str) -> Result<PathBuf, String> {
    let script = workspace_root()
        .join("tests/peers")
        .join(folder)
        .join("build.sh");
    let output = run(Command::new(&script), BUILD_TIMEOUT)
        .map_err(|error| format!("{}: {error}", script.display()))?;
    if !output.status.success() {
        return Err(format!("{} failed:\n{}", script.display(), output.stderr));
    }
    let path = output
        .stdout
        .lines()
        .last()
        .map(PathBuf::from)
        .unwrap_or_default();
    if path.is_file() {
        Ok(path)
    } else {
        Err(format!("{} named no file", script.display()))
    }
}

fn workspace_root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the crate lies in the workspace")
}

/// Returns what was found. Otherwise prints a line that begins with `SKIPPED:` and returns `None`;
/// with `CI=true` it panics.
fn or_skip<T>(what: &str, found: Result<T, String>) -> Option<T> {
    let strict = std::env::var("CI").is_ok_and(|value| value == "true");
    found_or_skipped(what, found, strict, print_line)
}

fn found_or_skipped<T>(
    what: &str,
    found: Result<T, String>,
    strict: bool,
    print_line: impl FnOnce(&str),
) -> Option<T> {
    match found {
        Ok(found) => Some(found),
        Err(lack) if strict => panic!("CI=true and {what} cannot take part: {lack}"),
        Err(lack) => {
            print_line(&format!("SKIPPED: {what} cannot take part: {lack}"));
            None
        }
    }
}

/// Returns the program of a driver, and prints that the driver takes part.
fn driver(what: &str, found: Result<PathBuf, String>) -> Option<PathBuf> {
    let path = or_skip(what, found)?;
    print_line(&format!("PEER: {what}"));
    Some(path)
}

/// Writes one line to standard error. libtest captures only the output of the print macros.
fn print_line(line: &str) {
    // A closed standard error must not make a passing test fail.
    drop(writeln!(io::stderr(), "{line}"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_peer_is_skipped_with_a_message() {
        let mut message = String::new();
        let lack = Err::<(), _>("not installed".to_owned());
        assert_eq!(
            found_or_skipped("a server", lack, false, |line| message = line.to_owned()),
            None
        );
        assert_eq!(message, "SKIPPED: a server cannot take part: not installed");
    }

    #[test]
    fn an_available_peer_is_used_with_and_without_strict_mode() {
        for strict in [false, true] {
            let silent = |line: &str| panic!("{line}");
            assert_eq!(found_or_skipped("a server", Ok(7), strict, silent), Some(7));
        }
    }

    #[test]
    #[should_panic(expected = "a server cannot take part: not installed")]
    fn a_missing_peer_panics_in_strict_mode() {
        found_or_skipped::<()>("a server", Err("not installed".into()), true, |_| {});
    }

    #[test]
    fn the_executable_is_found_in_the_messages_of_cargo() {
        let messages = concat!(
            r#"{"target":{"kind":["lib"]},"executable":null}"#,
            "\n",
            r#"{"target":{"kind":["bin"]},"executable":"/target/debug/onionskin","fresh":true}"#,
            "\n",
            r#"{"target":{"kind":["test"]},"executable":"/target/debug/deps/client-1"}"#,
            "\n",
            r#"{"reason":"build-finished","success":true}"#,
        );
        assert_eq!(
            executable_in(messages),
            Some(PathBuf::from("/target/debug/onionskin"))
        );
        assert_eq!(executable_in("{\"reason\":\"build-finished\"}"), None);
    }
}
