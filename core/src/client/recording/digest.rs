//! Digests of what the client does after an input: of the result of the call and the new actions.

use super::{
    command,
    errors::{kind_number, known_labels},
};
use crate::{
    client::{Action, AfterExchange, Progress, Question, SocketUse, StartedSession},
    connection::SocketId,
    error::Error,
    operation::{Command, Context, Exchange, SessionReadConcern},
    time::Instant,
};
use bson::Timestamp;
use std::{fmt::Write as _, sync::Arc};
use zeroize::Zeroizing;

/// The state of a digest of nothing.
const START: u64 = 0xcbf2_9ce4_8422_2325;

/// A digest of 64 bits (FNV-1a), of which an entry has 32. It finds differences, and protects
/// nothing against a forger.
pub(in crate::client) struct Digest {
    state: u64,
    has_failed: bool,
    /// The message with which the client logs in to its proxy. It is left out, because a digest of
    /// it would show whether a guessed password is right.
    login: Option<Arc<Zeroizing<Vec<u8>>>>,
}

impl Digest {
    pub(super) const fn new(login: Option<Arc<Zeroizing<Vec<u8>>>>) -> Self {
        Self {
            state: START,
            has_failed: false,
            login,
        }
    }

    /// Begins the digest of another input.
    pub(super) const fn begin(&mut self) {
        self.state = START;
        self.has_failed = false;
    }

    /// Returns the part of the digest that entries have.
    pub(super) const fn value(&self) -> u32 {
        (self.state ^ (self.state >> 32)) as u32
    }

    /// True if an operation failed because of the network, a timeout or server selection.
    pub(super) const fn has_failed(&self) -> bool {
        self.has_failed
    }

    fn bytes(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.state = (self.state ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    pub(in crate::client) fn number(&mut self, number: u64) {
        self.bytes(&number.to_le_bytes());
    }

    fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.bytes(text.as_bytes());
    }

    fn socket(&mut self, socket: SocketId) {
        self.number(socket.number());
    }

    fn error(&mut self, error: &Error) {
        self.bytes(&[kind_number(error.kind())]);
        self.number(error.code().unwrap_or_default().cast_unsigned().into());
        for label in known_labels(error) {
            self.text(label.name());
        }
    }

    /// Adds the error of an operation.
    fn failure(&mut self, error: &Error) {
        self.bytes(b"f");
        self.error(error);
        self.has_failed |= error.is_network() || error.is_timeout() || error.is_server_selection();
    }

    fn command(&mut self, command: &Command) {
        self.text(command.name());
        self.number(command::kind_number(command.0.request.kind));
        if let Some(target) = &command.0.request.target {
            self.text(&target.address.to_string());
        }
    }

    fn exchange(&mut self, exchange: &Exchange) {
        self.socket(exchange.socket());
        self.number(exchange.operation().0);
        self.number(exchange.request_id().cast_unsigned().into());
        self.bytes(&[
            exchange.is_preliminary().into(),
            exchange.wants_idle_check().into(),
        ]);
        let request = &exchange.operation.request;
        self.bytes(&request.lsid.unwrap_or_default());
        self.number(request.txn_number.unwrap_or_default().cast_unsigned());
        let starts = request.transaction.as_ref().is_some_and(|part| part.starts);
        self.added(starts, &exchange.operation.exchange.context);
    }

    /// Adds what the command gets besides its document: the start of a transaction, the read
    /// concern of the session, and the cluster time.
    fn added(&mut self, starts: bool, context: &Context) {
        let (kind, time) = match context.session_read_concern {
            SessionReadConcern::Nothing => (0, None),
            SessionReadConcern::After(time) => (1, Some(time)),
            SessionReadConcern::Snapshot(time) => (2, time),
        };
        self.bytes(&[starts.into(), kind]);
        self.timestamp(time);
        let cluster = context.cluster_time.as_ref();
        self.timestamp(cluster.and_then(|time| time.document().get_timestamp("clusterTime").ok()));
    }

    fn timestamp(&mut self, at: Option<Timestamp>) {
        let number = |at: Timestamp| (u64::from(at.time) << 32) | u64::from(at.increment);
        self.number(at.map_or(u64::MAX, number));
    }

    pub(in crate::client) fn socket_use(&mut self, socket_use: SocketUse) {
        self.bytes(match socket_use {
            SocketUse::Open => b"o",
            SocketUse::Parked => b"p",
            SocketUse::Closed => b"c",
        });
    }

    pub(in crate::client) fn progress(&mut self, progress: &Progress) {
        match progress {
            Progress::Exchange(exchange) => {
                self.bytes(b"e");
                self.exchange(exchange);
            }
            Progress::Waiting(operation) => {
                self.bytes(b"w");
                self.number(operation.0);
            }
            Progress::Asking { operation, .. } => {
                self.bytes(b"a");
                self.number(operation.0);
            }
            Progress::Answered(_) => self.bytes(b"q"),
            Progress::Failed(error) => self.failure(error),
        }
    }

    pub(in crate::client) fn after_exchange(&mut self, after: &AfterExchange) {
        match after {
            AfterExchange::Done(Ok(())) => self.bytes(b"d"),
            AfterExchange::Done(Err(error)) => self.failure(error),
            AfterExchange::Again(progress) => self.progress(progress),
        }
    }

    pub(in crate::client) fn found_command(&mut self, command: Option<&Command>) {
        match command {
            None => self.bytes(b"n"),
            Some(command) => self.command(command),
        }
    }

    pub(in crate::client) fn started_session(&mut self, started: &Result<StartedSession, Error>) {
        match started {
            Ok(started) => self.bytes(&started.wire_id),
            Err(error) => self.failure(error),
        }
    }

    pub(in crate::client) fn started_transaction(&mut self, started: &Result<(), Error>) {
        match started {
            Ok(()) => self.bytes(b"t"),
            Err(error) => self.failure(error),
        }
    }

    pub(in crate::client) fn ended_transaction(&mut self, ended: &Result<Option<Command>, Error>) {
        match ended {
            Ok(command) => self.found_command(command.as_ref()),
            Err(error) => self.failure(error),
        }
    }

    /// Adds the time at which the client is to be called next.
    pub(super) fn deadline(&mut self, at: Option<Instant>) {
        self.number(at.map_or(u64::MAX, Instant::as_nanos));
    }

    /// Adds that bytes are sent which the digest does not cover: a replay sends others, and a
    /// password could be guessed from a digest of proofs.
    pub(super) fn hidden_transmit(&mut self, socket: SocketId) {
        self.bytes(b"T");
        self.socket(socket);
    }

    pub(super) fn action(&mut self, action: &Action) {
        match action {
            Action::Dial { socket, address } => {
                self.bytes(b"D");
                self.socket(*socket);
                self.text(&address.to_string());
            }
            Action::Read { socket } => {
                self.bytes(b"R");
                self.socket(*socket);
            }
            Action::Transmit { socket, bytes } => {
                self.bytes(b"T");
                self.socket(*socket);
                let login = self.login.as_ref();
                let bytes: &[u8] = match login.and_then(|login| bytes.strip_prefix(&login[..])) {
                    Some(rest) => {
                        self.bytes(b"L");
                        rest
                    }
                    None => bytes,
                };
                self.number(bytes.len() as u64);
                self.bytes(bytes);
            }
            Action::Close { socket } => {
                self.bytes(b"C");
                self.socket(*socket);
            }
            Action::Interrupt { socket, error } => {
                self.bytes(b"I");
                self.socket(*socket);
                self.error(error);
            }
            Action::Ask { id, question } => {
                self.bytes(b"A");
                self.number(id.0);
                if let Question::LookUp { query, limit } = question {
                    self.text(&format!("{query} {limit:?}"));
                }
            }
            Action::Withdraw { question } => {
                self.bytes(b"V");
                self.number(question.0);
            }
            Action::Run { command } => {
                self.bytes(b"N");
                self.command(command);
            }
            Action::Wake { operation } => {
                self.bytes(b"W");
                self.number(operation.0);
            }
        }
    }
}

/// Appends a line about an action, for a person who compares two builds.
pub(super) fn describe(action: &Action, out: &mut String) {
    // Writing to a string does not fail.
    let _ = match action {
        Action::Dial { socket, address } => {
            write!(out, "dial {address} as socket {}", socket.number())
        }
        Action::Read { socket } => write!(out, "read socket {}", socket.number()),
        Action::Transmit { socket, bytes } => {
            write!(
                out,
                "transmit {} bytes on socket {}",
                bytes.len(),
                socket.number()
            )
        }
        Action::Close { socket } => write!(out, "close socket {}", socket.number()),
        Action::Interrupt { socket, error } => {
            write!(out, "interrupt socket {}: {error}", socket.number())
        }
        Action::Ask { id, question } => match question {
            Question::LookUp { query, .. } => write!(out, "look up {query} as question {}", id.0),
            _ => write!(out, "ask question {}", id.0),
        },
        Action::Withdraw { question } => write!(out, "withdraw question {}", question.0),
        Action::Run { command } => write!(out, "run {}", command.name()),
        Action::Wake { operation } => write!(out, "wake operation {}", operation.0),
    };
}
