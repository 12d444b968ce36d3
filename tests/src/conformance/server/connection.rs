//! One connection of a scripted server, served by a thread.

use super::{
    Desk, Step, TlsWord,
    script::{GARBAGE, without_tls},
};
use onionskin_core::wire::{HEADER_BYTES, Header, MAX_MESSAGE_BYTES};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::{
    io::{self, Read, Write},
    net::{Shutdown, TcpStream},
    os::unix::net::UnixStream,
    sync::Arc,
    thread,
};

/// A stream of bytes, with or without TLS.
pub(super) trait Speak: Read + Write + Send + 'static {
    /// Sends a TLS message. Fails on a stream without TLS.
    fn say(&mut self, word: TlsWord) -> io::Result<()> {
        Err(without_tls(&word))
    }
}

impl Speak for TcpStream {}
impl Speak for UnixStream {}

impl Speak for StreamOwned<ServerConnection, TcpStream> {
    fn say(&mut self, word: TlsWord) -> io::Result<()> {
        match word {
            TlsWord::CloseNotify => self.conn.send_close_notify(),
            TlsWord::Last(bytes) => {
                self.conn.writer().write_all(&bytes)?;
                self.conn.send_close_notify();
            }
            TlsWord::FatalAlert => {
                // To make rustls send a fatal alert, this gives it an invalid record to read.
                self.conn.read_tls(&mut &GARBAGE[..])?;
                let failed = self.conn.process_new_packets();
                failed.expect_err("the record is wrong");
            }
            TlsWord::NewKeys(times) => {
                for _ in 0..times {
                    let refreshed = self.conn.refresh_traffic_keys();
                    refreshed.map_err(io::Error::other)?;
                }
            }
            TlsWord::Garbage => self.sock.write_all(&GARBAGE)?,
        }
        let mut piece = Vec::new();
        while self.conn.wants_write() {
            self.conn.write_tls(&mut piece)?;
        }
        self.sock.write_all(&piece)
    }
}

/// Answers the requests of a connection in a thread of its own.
pub(super) fn serve(desk: &Desk, number: u64, stream: impl Speak) {
    let connection = Connection {
        desk: desk.clone(),
        number,
        stream,
    };
    thread::spawn(move || {
        let mut connection = connection;
        // The client may end the connection in any way, so errors are ignored. Only TLS errors are
        // recorded.
        let ended = connection.run();
        let failure = ended.err().and_then(io::Error::into_inner);
        if let Some(Ok(failure)) = failure.map(|inner| inner.downcast::<rustls::Error>()) {
            connection
                .desk
                .state
                .look(|log| log.tls_failures.push(*failure));
        }
        let (state, number) = (connection.desk.state.clone(), connection.number);
        drop(connection);
        state.closed(number);
    });
}

/// Answers the requests of a connection with TLS.
pub(super) fn serve_tls(desk: &Desk, number: u64, stream: TcpStream, config: &Arc<ServerConfig>) {
    match ServerConnection::new(config.clone()) {
        Ok(session) => serve(desk, number, StreamOwned::new(session, stream)),
        Err(_) => desk.state.closed(number),
    }
}

struct Connection<S> {
    desk: Desk,
    number: u64,
    stream: S,
}

impl<S: Speak> Connection<S> {
    fn run(&mut self) -> io::Result<()> {
        loop {
            // For `Step::Reset` the last byte of the frame stays unread, because closing a socket
            // with unread bytes resets it.
            let mut frame = vec![0; HEADER_BYTES];
            self.stream.read_exact(&mut frame)?;
            let header = Header::decode(&frame, MAX_MESSAGE_BYTES).map_err(io::Error::other)?;
            frame.resize(header.length, 0);
            self.stream
                .read_exact(&mut frame[HEADER_BYTES..header.length - 1])?;
            let answer = self.desk.answer(self.number, header, &frame);
            let steps = answer.map_err(io::Error::other)?;
            if !steps.iter().any(|step| matches!(step, Step::Reset)) {
                self.stream.read_exact(&mut [0])?;
            }
            for step in steps {
                if !self.perform(step)? {
                    return Ok(());
                }
            }
        }
    }

    /// Performs a step. Returns false if the connection is over.
    fn perform(&mut self, step: Step) -> io::Result<bool> {
        match step {
            Step::Send(bytes) => {
                self.stream.write_all(&bytes)?;
                self.stream.flush()?;
            }
            Step::Trickle(bytes, size) => {
                for piece in bytes.chunks(size) {
                    self.stream.write_all(piece)?;
                    self.stream.flush()?;
                    // Lets the client read this piece before the next one is written.
                    thread::yield_now();
                }
            }
            Step::Flood(bytes) => loop {
                self.stream.write_all(&bytes)?;
            },
            Step::Hold(gate) => gate.pass(),
            Step::HalfClose => self.desk.state.cut(self.number, Shutdown::Write),
            Step::Close => {
                self.desk.state.cut(self.number, Shutdown::Both);
                return Ok(false);
            }
            Step::Reset => return Ok(false),
            Step::Tls(word) => self.stream.say(word)?,
        }
        Ok(true)
    }
}
