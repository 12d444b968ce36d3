//! One connection of a server.

use super::{Request, Script, Step, state::Seen, state::State};
use bson::Document;
use onionskin_core::wire::{
    HEADER_BYTES, Header, LegacyQuery, MAX_MESSAGE_BYTES, Message, OpCode, Section,
};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::{
    io::{self, Read, Write},
    net::{Shutdown, TcpStream},
    sync::Arc,
    thread,
};

/// Answers a connection in a thread of its own.
pub(super) fn serve(
    state: &Arc<State>,
    script: &Script,
    number: u64,
    stream: impl Read + Write + Send + 'static,
) {
    let connection = Connection {
        state: state.clone(),
        script: script.clone(),
        number,
        stream,
    };
    thread::spawn(move || {
        let mut connection = connection;
        // How a connection ends is the client's business.
        let _ = connection.run();
        let (state, number) = (connection.state.clone(), connection.number);
        drop(connection);
        state.closed(number);
    });
}

/// The same behind TLS.
pub(super) fn serve_tls(
    state: &Arc<State>,
    script: &Script,
    number: u64,
    stream: TcpStream,
    config: &Arc<ServerConfig>,
) {
    match ServerConnection::new(config.clone()) {
        Ok(session) => serve(state, script, number, StreamOwned::new(session, stream)),
        Err(_) => state.closed(number),
    }
}

struct Connection<S> {
    state: Arc<State>,
    script: Script,
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
            let request = self.request(header, &frame).map_err(io::Error::other)?;
            self.state.note(Seen {
                connection: self.number,
                name: request.name.clone(),
                body: request.body.clone(),
            });
            let steps = (self.script)(&request);
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

    fn request(
        &self,
        header: Header,
        frame: &[u8],
    ) -> Result<Request, onionskin_core::wire::WireError> {
        let mut documents = 0;
        let body = if header.op_code == OpCode::Query {
            LegacyQuery::decode(frame)?.command
        } else {
            let message = Message::decode(frame)?;
            for section in message.sections() {
                if let Section::Sequence { documents: all, .. } = section {
                    documents += count(all);
                }
            }
            message.body
        };
        let body = Document::try_from(body).unwrap_or_default();
        let name = body.keys().next().cloned().unwrap_or_default();
        Ok(Request {
            connection: self.number,
            earlier: self
                .state
                .look(|log| log.seen.iter().filter(|seen| seen.name == name).count()),
            name,
            body,
            documents,
            id: header.request_id,
            bytes: header.length,
            op_code: header.op_code,
        })
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
            Step::HalfClose => self.state.cut(self.number, Shutdown::Write),
            Step::Close => {
                self.state.cut(self.number, Shutdown::Both);
                return Ok(false);
            }
            Step::Reset => return Ok(false),
        }
        Ok(true)
    }
}

/// How many documents stand back to back.
fn count(mut documents: &[u8]) -> usize {
    let mut count = 0;
    while let Some(length) = documents.first_chunk::<4>() {
        let length = usize::try_from(i32::from_le_bytes(*length)).unwrap_or(usize::MAX);
        documents = documents.get(length..).unwrap_or_default();
        count += 1;
    }
    count
}
