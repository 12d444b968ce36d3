//! A proxy that records the commands of a client.

use bson::{Bson, Document};
use std::{
    io::{self, Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Mutex, PoisonError},
    thread,
};

/// Commands that a driver sends on its own, when it connects and when it closes.
const IGNORED: [&str; 5] = ["hello", "isMaster", "ismaster", "endSessions", "buildInfo"];

/// The `opCode` of OP_MSG messages in the header of the wire protocol.
const OP_MSG: i32 = 2013;

/// The commands that followed a `ping` with a comment, which is the name of a call.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) name: String,
    pub(super) commands: Vec<Document>,
}

/// A proxy for one server. The thread that accepts connections lasts as long as the process, and
/// the others as long as their connections.
#[derive(Debug)]
pub(super) struct Recording {
    pub(super) address: SocketAddr,
    calls: Arc<Mutex<Vec<Call>>>,
}

impl Recording {
    pub(super) fn of(server: SocketAddr) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let address = listener.local_addr().expect("an address");
        let calls = Arc::new(Mutex::new(Vec::new()));
        let recorded = Arc::clone(&calls);
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let recorded = Arc::clone(&recorded);
                thread::spawn(move || carry(client, server, &recorded));
            }
        });
        Self { address, calls }
    }

    pub(super) fn take(&self) -> Vec<Call> {
        std::mem::take(&mut *self.calls.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Forwards both directions of a connection until one ends.
fn carry(client: TcpStream, server: SocketAddr, calls: &Mutex<Vec<Call>>) -> io::Result<()> {
    let server = TcpStream::connect(server)?;
    let (mut replies, mut answered) = (server.try_clone()?, client.try_clone()?);
    thread::spawn(move || {
        let _ = io::copy(&mut replies, &mut answered);
        let _ = answered.shutdown(Shutdown::Both);
    });
    let forwarded = forward(client, &server, calls);
    server.shutdown(Shutdown::Both)?;
    forwarded
}

fn forward(mut from: TcpStream, mut to: &TcpStream, calls: &Mutex<Vec<Call>>) -> io::Result<()> {
    loop {
        let mut message = vec![0; 16];
        from.read_exact(&mut message)?;
        let length = usize::try_from(number(&message, 0)).expect("a length");
        message.resize(length, 0);
        from.read_exact(&mut message[16..])?;
        // Before the message is forwarded, so that commands are in the order of their replies.
        if number(&message, 12) == OP_MSG {
            record(
                command(&message),
                &mut calls.lock().unwrap_or_else(PoisonError::into_inner),
            );
        }
        to.write_all(&message)?;
    }
}

fn number(bytes: &[u8], at: usize) -> i32 {
    i32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

/// Returns the command of a message, in which each sequence is an array.
fn command(message: &[u8]) -> Document {
    let read = |bytes: &mut &[u8]| Document::from_reader(bytes).expect("a document");
    let mut rest = &message[20..];
    let (mut body, mut sequences) = (Document::new(), Document::new());
    while let Some((&kind, mut section)) = rest.split_first() {
        if kind == 0 {
            body = read(&mut section);
            rest = section;
        } else {
            let size = usize::try_from(number(section, 0)).expect("a size");
            let end = section[4..]
                .iter()
                .position(|byte| *byte == 0)
                .expect("a name");
            let name = String::from_utf8_lossy(&section[4..4 + end]).into_owned();
            let mut documents = &section[5 + end..size];
            let mut all = Vec::new();
            while !documents.is_empty() {
                all.push(Bson::from(read(&mut documents)));
            }
            sequences.insert(name, all);
            rest = &section[size..];
        }
    }
    body.extend(sequences);
    body
}

fn record(command: Document, calls: &mut Vec<Call>) {
    let name = command.keys().next().cloned().unwrap_or_default();
    match (name.as_str(), command.get_str("comment")) {
        ("ping", Ok(comment)) => calls.push(Call {
            name: comment.to_owned(),
            commands: Vec::new(),
        }),
        (name, _) if IGNORED.contains(&name) => {}
        _ => {
            let last = calls.last_mut().expect("a call was named before");
            last.commands.push(command);
        }
    }
}
