//! A shell over sockets of the standard library, which `docs/core.md` explains. To run a `ping`:
//! `cargo run -p onionskin-core --example shell -- mongodb://localhost:27017`
//!
//! One thread owns the client and writes the bytes of [`Action::Transmit`]. Each dial, read,
//! exchange and derivation of keys has a thread of its own, which sends its result to the thread
//! that owns the client.

#![expect(clippy::disallowed_methods, clippy::disallowed_types)] // Only the core does no I/O.

use onionskin_core::client::{Action, AfterExchange, Answer, Client, ClientConfig, Outcome};
use onionskin_core::client::{Progress, Question, SocketId, SocketUse, closed_by_peer};
use onionskin_core::error::{Error, NetworkFault};
use onionskin_core::operation::{Command, CommandKind, Exchange};
use onionskin_core::{address::Address, random::Seed, time::Instant, time::WallTime, uri::parse};
use std::{collections::BTreeMap, io::Read, io::Write, net::Shutdown, net::TcpStream};
use std::{sync::Arc, sync::mpsc, time::UNIX_EPOCH};

/// The result of a thread: a function that the thread which owns the client calls.
type Report = Box<dyn FnOnce(&mut Shell, Instant) + Send>;

struct Shell {
    client: Client,
    start: std::time::Instant,
    reports: (mpsc::Sender<Report>, mpsc::Receiver<Report>),
    /// The open sockets, parked ones included.
    sockets: BTreeMap<SocketId, Arc<TcpStream>>,
    /// The exchange that has ended and its outcome, until `run` takes them.
    ended: Option<(Exchange, Outcome)>,
}

impl Shell {
    fn now(&self) -> Instant {
        Instant::ZERO + self.start.elapsed()
    }

    fn spawn(&self, work: impl FnOnce() -> Report + Send + 'static) {
        let sender = self.reports.0.clone();
        std::thread::spawn(move || sender.send(work()));
    }

    fn dial(&self, socket: SocketId, address: Address) {
        self.spawn(move || {
            let dialled = TcpStream::connect((address.host(), address.port().unwrap_or(27017)));
            Box::new(move |shell, now| {
                let socket_use = match dialled.map(|s| shell.sockets.insert(socket, Arc::new(s))) {
                    Ok(_) => shell.client.handle_connected(now, socket),
                    Err(error) => shell.client.handle_failed(now, socket, failure(error)),
                };
                shell.go_on(socket, socket_use);
            })
        });
    }

    fn read(&self, socket: SocketId, stream: Arc<TcpStream>) {
        self.spawn(move || {
            let mut bytes = [0; 4096];
            let count = (&*stream).read(&mut bytes);
            Box::new(move |shell, now| {
                let socket_use = match count {
                    Ok(count) => shell.client.handle_received(now, socket, &bytes[..count]),
                    Err(error) => shell.client.handle_failed(now, socket, failure(error)),
                };
                shell.go_on(socket, socket_use);
            })
        });
    }

    fn go_on(&mut self, socket: SocketId, socket_use: SocketUse) {
        match (socket_use, self.sockets.get(&socket)) {
            (SocketUse::Open, Some(stream)) => self.read(socket, stream.clone()),
            (SocketUse::Closed, _) => drop(self.sockets.remove(&socket)),
            (SocketUse::Open | SocketUse::Parked, _) => {}
        }
    }

    /// Carries out the actions of the core. The match has no wildcard arm, so that a new kind of
    /// action is a compile error here.
    fn act(&mut self) {
        while let Some(action) = self.client.poll_action() {
            match action {
                Action::Dial { socket, address } => self.dial(socket, address),
                Action::Transmit { socket, bytes } => {
                    // An error is ignored: the thread that reads the socket reports the failure.
                    let _ = self.sockets.get(&socket).map(|s| (&**s).write_all(&bytes));
                }
                Action::Read { socket } => self.go_on(socket, SocketUse::Open),
                Action::Close { socket } | Action::Interrupt { socket, .. } => {
                    let socket = self.sockets.remove(&socket);
                    let _ = socket.map(|s| s.shutdown(Shutdown::Both));
                }
                Action::Ask { id, question } => self.spawn(move || {
                    let answer = match question {
                        Question::DeriveKeys(keys) => Answer::Keys(keys.derive()),
                        Question::KerberosStep(step) => Answer::KerberosStep(step.run()),
                        Question::LookUp { .. } => Answer::None, // For `mongodb+srv` only.
                        // For providers, AWS, OIDC and OCSP only.
                        Question::Inquire(_) => Answer::None,
                    };
                    Box::new(move |shell, now| shell.client.handle_answer(now, id, answer))
                }),
                // `run` resumes the only operation after each step, so `Wake` needs no code. A
                // withdrawn derivation continues, and later connections can use its keys. `Run`
                // follows an operation that was given up, and this shell gives none up.
                Action::Withdraw { .. } | Action::Wake { .. } | Action::Run { .. } => {}
            }
        }
    }

    /// Carries out the actions of the core, waits for a report or for the deadline, and then calls
    /// the report or `handle_timeout`.
    fn step(&mut self) {
        self.act();
        let wait = self.client.deadline().unwrap_or(Instant::MAX) - self.now();
        match self.reports.1.recv_timeout(wait) {
            Ok(report) => report(self, self.now()),
            Err(_) => self.client.handle_timeout(self.now()),
        }
    }

    fn run(&mut self, command: Command) -> Result<bson::RawDocumentBuf, Error> {
        let mut progress = self.client.start(self.now(), command);
        loop {
            progress = match progress {
                Progress::Failed(error) => return Err(error),
                // Only programs ask.
                Progress::Answered(_) => return Err(closed_by_peer()),
                Progress::Asking {
                    operation,
                    question,
                } => {
                    let (now, answer) = (self.now(), question.ask());
                    self.client.handle_selector_answer(now, operation, answer)
                }
                Progress::Waiting(operation) => {
                    self.step();
                    self.client.resume(self.now(), operation)
                }
                Progress::Exchange(exchange) => {
                    let stream = self.sockets.get(&exchange.socket()).cloned();
                    let (now, stream) = (self.now(), stream.ok_or_else(closed_by_peer)?);
                    self.spawn(move || perform(exchange, now, &stream));
                    while self.ended.is_none() {
                        self.step();
                    }
                    let (exchange, outcome) = self.ended.take().ok_or_else(closed_by_peer)?;
                    let reply = exchange.reply().map(ToOwned::to_owned);
                    match self.client.check_in(self.now(), exchange, outcome) {
                        AfterExchange::Again(progress) => progress,
                        AfterExchange::Done(result) => {
                            return result.and_then(|()| reply.ok_or_else(closed_by_peer));
                        }
                    }
                }
            };
        }
    }
}

/// Writes the request of an exchange, reads the reply if one is expected, and returns the report
/// that stores the exchange and its outcome.
fn perform(mut exchange: Exchange, now: Instant, mut stream: &TcpStream) -> Report {
    let mut run = || -> Result<(), Error> {
        exchange.begin(now)?;
        while !exchange.output().is_empty() {
            stream.write_all(exchange.output()).map_err(failure)?;
            exchange.sent(exchange.output().len());
        }
        while exchange.expects_reply() {
            if exchange.is_unpacking() {
                if exchange.unpack()? {
                    break;
                }
                continue;
            }
            match stream.read(exchange.input()?).map_err(failure)? {
                0 => return Err(closed_by_peer()),
                count if exchange.received(count)? => break,
                _ => {}
            }
        }
        Ok(())
    };
    let outcome = run().map_or_else(Outcome::Failed, |()| Outcome::Completed);
    exchange.end(&outcome);
    Box::new(move |shell, _| shell.ended = Some((exchange, outcome)))
}

fn failure(error: std::io::Error) -> Error {
    Error::network(NetworkFault::Other, error.to_string())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let uri = std::env::args().nth(1).ok_or("no connection string")?;
    let mut seed = [0; 32];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut seed)?;
    let config = ClientConfig::new(parse(&uri)?.options, Seed::new(seed))?;
    let mut shell = Shell {
        client: Client::new(config),
        start: std::time::Instant::now(),
        reports: mpsc::channel(),
        sockets: BTreeMap::new(),
        ended: None,
    };
    let wall = WallTime::from_unix_millis(UNIX_EPOCH.elapsed()?.as_millis().try_into()?);
    let now = shell.now();
    shell.client.set_wall_time(now, wall);
    shell.client.open(now);
    let mut ping = Command::new("ping", "admin", CommandKind::Run);
    ping.body().i32("ping", 1);
    println!("{}", bson::Document::try_from(shell.run(ping)?)?);
    shell.client.close(shell.now());
    shell.act();
    Ok(())
}
