//! Child processes with time limits: servers, which run until they are dropped, and programs that
//! end.

use rustix::process::{Pid, Signal, kill_process};
use std::any::Any;
use std::collections::VecDeque;
use std::io::{self, BufRead as _, BufReader, Read};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The number of lines of a server's output that are kept for error messages.
const LOG_LINES: usize = 200;

/// The output of a child that shows when the child is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stream {
    /// Standard output.
    Output,
    /// Standard error.
    Error,
}

/// The last lines that a child wrote to either output.
type Log = Arc<Mutex<VecDeque<String>>>;

/// A server that runs as a child process. Dropping the value kills the child.
pub struct Peer {
    name: String,
    uri: String,
    child: Child,
    log: Log,
    /// Values that the server needs as long as it runs, such as directories.
    kept: Vec<Box<dyn Any + Send>>,
}

impl Peer {
    /// Starts a server that prints its URI as the first line of standard output.
    ///
    /// If the child ends first, or if the line does not come within `timeout` or is no URI, the
    /// child is killed and an error returned.
    pub fn start_by_first_line(
        name: &str,
        command: Command,
        timeout: Duration,
    ) -> io::Result<Self> {
        let mut peer = Self::start(name, command, Stream::Output, timeout, |line| {
            Some(line.trim().to_owned())
        })?;
        if !peer.uri.starts_with("mongodb://") {
            let line = std::mem::take(&mut peer.uri);
            return Err(io::Error::other(format!(
                "{name} began with {line:?}, not with a URI"
            )));
        }
        Ok(peer)
    }

    /// Starts a server that is ready when `ready` returns its URI for a line of `stream`. If
    /// `stream` ends first, or if no such line comes within `timeout`, the child is killed and an
    /// error returned.
    pub(super) fn start(
        name: &str,
        command: Command,
        stream: Stream,
        timeout: Duration,
        mut ready: impl FnMut(&str) -> Option<String>,
    ) -> io::Result<Self> {
        let (mut peer, received) = Self::spawn(name, command, Stdio::null(), stream)?;
        peer.uri = wait_until_ready(&received, timeout, &mut ready)
            .map_err(|lack| io::Error::other(format!("{name} {lack}:\n{}", peer.log())))?;
        Ok(peer)
    }

    /// Starts a server that accepts connections on `listener`, which becomes its standard input.
    /// The socket is open already, so clients can connect at once and no other process takes the
    /// port.
    pub(super) fn start_on(
        name: &str,
        command: Command,
        listener: TcpListener,
        uri: String,
    ) -> io::Result<Self> {
        let input = Stdio::from(OwnedFd::from(listener));
        let (mut peer, _) = Self::spawn(name, command, input, Stream::Output)?;
        peer.uri = uri;
        Ok(peer)
    }

    /// Starts a server that says nothing when it is ready. The peer has no URI.
    pub(super) fn start_silent(name: &str, command: Command) -> io::Result<Self> {
        let (peer, _) = Self::spawn(name, command, Stdio::null(), Stream::Output)?;
        Ok(peer)
    }

    /// Starts a child. Returns the child and a receiver of the lines of `stream`.
    fn spawn(
        name: &str,
        mut command: Command,
        input: Stdio,
        stream: Stream,
    ) -> io::Result<(Self, Receiver<String>)> {
        command
            .stdin(input)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let log = Log::default();
        let (lines, received) = mpsc::channel();
        let (output, error) = (child.stdout.take(), child.stderr.take());
        let peer = Self {
            name: name.to_owned(),
            uri: String::new(),
            child,
            log,
            kept: Vec::new(),
        };
        for (from, pipe) in [
            (Stream::Output, output.map(boxed)),
            (Stream::Error, error.map(boxed)),
        ] {
            let wanted = (from == stream).then(|| lines.clone());
            listen(pipe, Arc::clone(&peer.log), wanted);
        }
        Ok((peer, received))
    }

    /// Returns the connection string of the server.
    pub fn uri(&self) -> &str {
        &self.uri
    }

    /// Returns the process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns the first address of the URI.
    pub fn address(&self) -> io::Result<SocketAddr> {
        let (_, rest) = self.uri.split_once("://").unwrap_or(("", &self.uri));
        let hosts = rest.split(['/', '?']).next().unwrap_or(rest);
        let (_, hosts) = hosts.rsplit_once('@').unwrap_or(("", hosts));
        let first = hosts.split(',').next().unwrap_or(hosts);
        first
            .parse()
            .map_err(|_| io::Error::other(format!("{first:?} is no socket address")))
    }

    /// Returns the last lines that the server wrote, for error messages.
    pub fn log(&self) -> String {
        let lines = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        lines
            .iter()
            .map(String::as_str)
            .collect::<Vec<_>>()
            .join("\n")
    }

    /// True if the process has ended.
    pub(super) fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Asks the server to end, and waits for its end for at most `patience`. Servers with several
    /// processes need this, because the others do not notice that one of them is killed.
    pub(super) fn end(&mut self, patience: Duration) {
        let deadline = Instant::now() + patience;
        self.signal(Signal::TERM);
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < deadline {
            thread::yield_now();
        }
    }

    /// Sends a signal to the server.
    pub(super) fn signal(&self, signal: Signal) {
        // A server that has ended already needs no signal.
        if let Some(id) = i32::try_from(self.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process(id, signal);
        }
    }

    /// Keeps a value alive as long as the server runs.
    pub(super) fn keep(&mut self, thing: impl Any + Send) {
        self.kept.push(Box::new(thing));
    }
}

impl std::fmt::Debug for Peer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Peer")
            .field("name", &self.name)
            .field("uri", &self.uri)
            .field("id", &self.id())
            .finish_non_exhaustive()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // Errors are ignored, because the server can have ended already. `wait` collects its
        // status.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// The exit status and the output of a program.
#[derive(Clone, Debug)]
pub struct Output {
    /// The exit status.
    pub status: ExitStatus,
    /// Standard output. Bytes that are not UTF-8 are replaced.
    pub stdout: String,
    /// Standard error. Bytes that are not UTF-8 are replaced.
    pub stderr: String,
}

/// Runs a program until it ends. Kills the program after `timeout` and returns an error then.
pub fn run(mut command: Command, timeout: Duration) -> io::Result<Output> {
    let deadline = Instant::now() + timeout;
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn()?;
    let stdout = collect(child.stdout.take().map(boxed));
    let stderr = collect(child.stderr.take().map(boxed));
    let texts = receive_by(&stdout, deadline)
        .and_then(|stdout| Some((stdout, receive_by(&stderr, deadline)?)));
    let Some((stdout, stderr)) = texts else {
        child.kill()?;
        child.wait()?;
        let program = command.get_program().display();
        let message = format!("{program} did not end within {timeout:?}");
        return Err(io::Error::new(io::ErrorKind::TimedOut, message));
    };
    // The program closed both outputs, so it has ended or ends soon.
    Ok(Output {
        status: child.wait()?,
        stdout,
        stderr,
    })
}

fn boxed(pipe: impl Read + Send + 'static) -> Box<dyn Read + Send> {
    Box::new(pipe)
}

/// Reads lines on a separate thread, so that the child never blocks on a full pipe.
fn listen(pipe: Option<Box<dyn Read + Send>>, log: Log, wanted: Option<mpsc::Sender<String>>) {
    let Some(pipe) = pipe else { return };
    thread::spawn(move || {
        for line in BufReader::new(pipe).lines().map_while(Result::ok) {
            if let Some(wanted) = &wanted {
                // After the server is ready there is no receiver any more.
                drop(wanted.send(line.clone()));
            }
            let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
            if log.len() == LOG_LINES {
                log.pop_front();
            }
            log.push_back(line);
        }
    });
}

fn wait_until_ready(
    received: &Receiver<String>,
    timeout: Duration,
    ready: &mut impl FnMut(&str) -> Option<String>,
) -> Result<String, String> {
    let deadline = Instant::now() + timeout;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        match received.recv_timeout(left) {
            Ok(line) => {
                if let Some(uri) = ready(&line) {
                    return Ok(uri);
                }
            }
            Err(RecvTimeoutError::Timeout) => {
                return Err(format!("was not ready within {timeout:?}"));
            }
            Err(RecvTimeoutError::Disconnected) => return Err("ended before it was ready".into()),
        }
    }
}

/// Reads a pipe to its end on a separate thread.
fn collect(pipe: Option<Box<dyn Read + Send>>) -> Receiver<String> {
    let (whole, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            // The bytes before a read error are still useful.
            drop(pipe.read_to_end(&mut bytes));
        }
        drop(whole.send(String::from_utf8_lossy(&bytes).into_owned()));
    });
    receiver
}

fn receive_by(receiver: &Receiver<String>, deadline: Instant) -> Option<String> {
    receiver
        .recv_timeout(deadline.saturating_duration_since(Instant::now()))
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A time limit that no child of these tests reaches.
    const AMPLE: Duration = Duration::from_secs(30);
    /// A time limit for children that never end.
    const SHORT: Duration = Duration::from_millis(100);

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    fn is_alive(id: u32) -> bool {
        run(shell(&format!("kill -0 {id}")), AMPLE)
            .unwrap()
            .status
            .success()
    }

    #[test]
    fn a_peer_is_ready_after_its_first_line_and_ends_when_it_is_dropped() {
        let script = "echo 'mongodb://u:p@127.0.0.1:7,127.0.0.1:8/?a=b'; exec tail -f /dev/null";
        let peer = Peer::start_by_first_line("a shell", shell(script), AMPLE).unwrap();
        assert_eq!(peer.uri(), "mongodb://u:p@127.0.0.1:7,127.0.0.1:8/?a=b");
        assert_eq!(peer.address().unwrap(), "127.0.0.1:7".parse().unwrap());
        let id = peer.id();
        assert!(is_alive(id));
        drop(peer);
        assert!(!is_alive(id));
    }

    #[test]
    fn a_first_line_that_is_no_uri_is_an_error() {
        let error = Peer::start_by_first_line("a shell", shell("echo hello"), AMPLE).unwrap_err();
        assert_eq!(
            error.to_string(),
            "a shell began with \"hello\", not with a URI"
        );
    }

    #[test]
    fn a_peer_that_ends_before_it_is_ready_is_an_error() {
        let script = "echo 'cannot listen' >&2; exec >&-; exec tail -f /dev/null 2>/dev/null";
        let error = Peer::start_by_first_line("a shell", shell(script), AMPLE).unwrap_err();
        assert!(
            error.to_string().contains("ended before it was ready"),
            "{error}"
        );
    }

    #[test]
    fn waiting_for_a_silent_peer_is_bounded() {
        let script = "exec tail -f /dev/null";
        let error = Peer::start_by_first_line("a shell", shell(script), SHORT).unwrap_err();
        assert!(
            error.to_string().contains("was not ready within 100ms"),
            "{error}"
        );
    }

    #[test]
    fn the_log_keeps_only_the_last_lines() {
        let script = format!(
            "i=0; while [ $i -lt {} ]; do i=$((i+1)); echo line $i; done; \
             echo mongodb://127.0.0.1:7; exec tail -f /dev/null",
            3 * LOG_LINES
        );
        let find = |line: &str| line.starts_with("mongodb://").then(|| line.to_owned());
        let peer = Peer::start("a shell", shell(&script), Stream::Output, AMPLE, find).unwrap();
        assert!(peer.log().lines().count() <= LOG_LINES);
        assert!(!peer.log().contains("line 1\n"), "{}", peer.log());
    }

    #[test]
    fn run_returns_the_exit_status_and_both_outputs() {
        let output = run(shell("echo out; echo err >&2; exit 3"), AMPLE).unwrap();
        assert_eq!(output.status.code(), Some(3));
        assert_eq!(
            (output.stdout.as_str(), output.stderr.as_str()),
            ("out\n", "err\n")
        );
    }

    #[test]
    fn a_program_that_does_not_end_is_killed() {
        let error = run(shell("exec tail -f /dev/null"), SHORT).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}
