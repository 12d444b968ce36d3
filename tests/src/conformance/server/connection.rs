//! One connection of a scripted server on a real socket, served by a thread.

use super::{
    Responder, Step, TlsMessage,
    script::{INVALID_RECORD, without_tls},
};
use onionskin_core::unstable::wire::{HEADER_BYTES, Header, MAX_MESSAGE_BYTES};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::{
    io::{self, Read, Write},
    net::{Shutdown, TcpStream},
    os::unix::net::UnixStream,
    sync::Arc,
    thread,
};

/// A stream of bytes, with or without TLS.
pub(super) trait ServerStream: Read + Write + Send + 'static {
    /// Sends a TLS message. Fails on a stream without TLS.
    fn send_tls(&mut self, message: TlsMessage) -> io::Result<()> {
        Err(without_tls(&message))
    }
}

impl ServerStream for TcpStream {}
impl ServerStream for UnixStream {}

impl ServerStream for StreamOwned<ServerConnection, TcpStream> {
    fn send_tls(&mut self, message: TlsMessage) -> io::Result<()> {
        match message {
            TlsMessage::CloseNotify => self.conn.send_close_notify(),
            TlsMessage::Last(bytes) => {
                self.conn.writer().write_all(&bytes)?;
                self.conn.send_close_notify();
            }
            TlsMessage::FatalAlert => {
                // rustls sends a fatal alert after it has read an invalid record.
                self.conn.read_tls(&mut &INVALID_RECORD[..])?;
                let failed = self.conn.process_new_packets();
                failed.expect_err("the record is wrong");
            }
            TlsMessage::KeyUpdates(times) => {
                for _ in 0..times {
                    let refreshed = self.conn.refresh_traffic_keys();
                    refreshed.map_err(io::Error::other)?;
                }
            }
            TlsMessage::InvalidRecord => self.sock.write_all(&INVALID_RECORD)?,
        }
        let mut piece = Vec::new();
        while self.conn.wants_write() {
            self.conn.write_tls(&mut piece)?;
        }
        self.sock.write_all(&piece)
    }
}

/// Answers the requests of a connection in a thread of its own.
pub(super) fn serve(responder: &Responder, number: u64, stream: impl ServerStream) {
    let connection = Connection {
        responder: responder.clone(),
        number,
        stream,
    };
    thread::spawn(move || {
        let mut connection = connection;
        // The client can end the connection in any way, so errors are ignored. Only TLS errors are
        // recorded.
        let ended = connection.run();
        let failure = ended.err().and_then(io::Error::into_inner);
        if let Some(Ok(failure)) = failure.map(|inner| inner.downcast::<rustls::Error>()) {
            connection
                .responder
                .state
                .with(|records| records.tls_failures.push(*failure));
        }
        let (state, number) = (connection.responder.state.clone(), connection.number);
        drop(connection);
        state.closed(number);
    });
}

/// Answers the requests of a connection with TLS.
pub(super) fn serve_tls(
    responder: &Responder,
    number: u64,
    stream: TcpStream,
    config: &Arc<ServerConfig>,
) {
    match ServerConnection::new(config.clone()) {
        Ok(session) => serve(responder, number, StreamOwned::new(session, stream)),
        Err(_) => responder.state.closed(number),
    }
}

struct Connection<S> {
    responder: Responder,
    number: u64,
    stream: S,
}

impl<S: ServerStream> Connection<S> {
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
            let answer = self.responder.answer(self.number, header, &frame);
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
                    // Gives the client time to read this piece before the next one is written.
                    thread::yield_now();
                }
            }
            Step::Flood(bytes) => loop {
                self.stream.write_all(&bytes)?;
            },
            Step::Hold(gate) => gate.pass(),
            Step::HalfClose => self.responder.state.cut(self.number, Shutdown::Write),
            Step::Close => {
                self.responder.state.cut(self.number, Shutdown::Both);
                return Ok(false);
            }
            Step::Reset => return Ok(false),
            Step::Tls(message) => self.stream.send_tls(message)?,
        }
        Ok(true)
    }
}
