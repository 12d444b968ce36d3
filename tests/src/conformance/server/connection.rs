//! One connection of a server.

use super::{Desk, Step};
use onionskin_core::wire::{HEADER_BYTES, Header, MAX_MESSAGE_BYTES};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::{
    io::{self, Read, Write},
    net::{Shutdown, TcpStream},
    sync::Arc,
    thread,
};

/// Answers a connection in a thread of its own.
pub(super) fn serve(desk: &Desk, number: u64, stream: impl Read + Write + Send + 'static) {
    let connection = Connection {
        desk: desk.clone(),
        number,
        stream,
    };
    thread::spawn(move || {
        let mut connection = connection;
        // How a connection ends is the client's business.
        let _ = connection.run();
        let (state, number) = (connection.desk.state.clone(), connection.number);
        drop(connection);
        state.closed(number);
    });
}

/// The same behind TLS.
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

impl<S: Read + Write> Connection<S> {
    fn run(&mut self) -> io::Result<()> {
        loop {
            // The last byte of a frame stays in the socket: it is known, and closing a socket that
            // has unread bytes resets it.
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

    /// False: the connection is over.
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
                    // The peer may look at what there is.
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
        }
        Ok(true)
    }
}
