//! One client's socket, encrypted or not.

use crate::serve::proxy::{self, Beginning};
use rustls::ServerConnection;
use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    io::{self, Read as _, Write as _},
};
use tokio::{io::Interest, net::TcpStream, sync::Notify};

/// Bytes that may wait for a client that does not read; beyond that it is closed.
const MAX_UNSENT_BYTES: usize = 256 * 1024 * 1024;

/// The encryption of a socket.
struct Tls {
    connection: ServerConnection,
    /// Read from the socket and not decrypted yet.
    received: VecDeque<u8>,
}

impl Tls {
    /// Decrypts some of what was received; false if there was nothing.
    fn advance(&mut self) -> io::Result<bool> {
        if self.received.is_empty() {
            return Ok(false);
        }
        self.connection.read_tls(&mut self.received)?;
        self.connection
            .process_new_packets()
            .map_err(|_| io::ErrorKind::InvalidData)?;
        Ok(true)
    }
}

/// A socket that is written at once where it takes the bytes, and later where it does not.
pub(super) struct Peer {
    stream: TcpStream,
    tls: Option<RefCell<Tls>>,
    /// What has come while a load balancer may still be about to say for whom it connects; `None`
    /// once that is settled.
    beginning: RefCell<Option<Vec<u8>>>,
    unsent: RefCell<Vec<u8>>,
    closed: Cell<bool>,
    changed: Notify,
}

impl Peer {
    /// A socket, on which the PROXY protocol may be spoken first or not.
    pub(super) fn new(stream: TcpStream, tls: Option<ServerConnection>, is_proxied: bool) -> Self {
        Self {
            stream,
            tls: tls.map(|connection| {
                RefCell::new(Tls {
                    connection,
                    received: VecDeque::new(),
                })
            }),
            beginning: RefCell::new(is_proxied.then(Vec::new)),
            unsent: RefCell::default(),
            closed: Cell::new(false),
            changed: Notify::new(),
        }
    }

    pub(super) const fn is_encrypted(&self) -> bool {
        self.tls.is_some()
    }

    /// Sends bytes, encrypted where they must be.
    pub(super) fn send(&self, bytes: &[u8]) {
        let Some(tls) = &self.tls else {
            return self.write(bytes);
        };
        let mut tls = tls.borrow_mut();
        tls.connection.set_buffer_limit(None);
        if tls.connection.writer().write_all(bytes).is_err() {
            self.closed.set(true);
        }
        drop(tls);
        self.flush_tls();
    }

    /// Sends nothing more; the socket ends when its task sees it.
    pub(super) fn close(&self) {
        self.closed.set(true);
        self.changed.notify_one();
    }

    /// Waits until there is something to read; false when the connection is over.
    pub(super) async fn ready(&self) -> bool {
        loop {
            if self.closed.get() {
                self.write(&[]);
                return false;
            }
            let interest = if self.unsent.borrow().is_empty() {
                Interest::READABLE
            } else {
                Interest::READABLE | Interest::WRITABLE
            };
            tokio::select! {
                biased;
                () = self.changed.notified() => {}
                ready = self.stream.ready(interest) => {
                    let Ok(ready) = ready else {
                        return false;
                    };
                    if ready.is_writable() {
                        self.write(&[]);
                    }
                    if ready.is_readable() || ready.is_read_closed() {
                        return true;
                    }
                }
            }
        }
    }

    /// Reads what is there: `None` when that is nothing, an error when there will be no more.
    pub(super) fn receive<'a>(&self, buffer: &'a mut [u8]) -> io::Result<Option<&'a [u8]>> {
        if self.closed.get() {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        let Some(tls) = &self.tls else {
            let count = self.read(buffer)?;
            return Ok(count.map(|count| &buffer[..count]));
        };
        loop {
            // What is decrypted is handed on first: the TLS library takes in nothing more while
            // more than a record of it lies there.
            match tls.borrow_mut().connection.reader().read(buffer) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => return Ok(Some(&buffer[..count])),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
            let advanced = tls.borrow_mut().advance();
            // The handshake's own messages, or the alert that says what is wrong.
            self.flush_tls();
            if advanced? {
                continue;
            }
            match self.read(buffer)? {
                Some(count) => tls.borrow_mut().received.extend(&buffer[..count]),
                None => return Ok(None),
            }
        }
    }

    /// Reads what the client has sent: `None` when nothing is there, an error at the end.
    fn read(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        let mut beginning = self.beginning.borrow_mut();
        loop {
            let before = beginning.as_ref().map_or(0, Vec::len);
            let count = match self.stream.try_read(&mut buffer[before..]) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(error),
            };
            let Some(part) = beginning.as_mut() else {
                return Ok(Some(count));
            };
            // A header is shorter than the buffer, so there is room for what follows.
            let end = before + count;
            buffer[..before].copy_from_slice(part);
            match proxy::look(&buffer[..end]) {
                Ok(Beginning::Unfinished) => *part = buffer[..end].to_vec(),
                Ok(Beginning::Header(length)) => {
                    *beginning = None;
                    buffer.copy_within(length..end, 0);
                    return Ok(Some(end - length));
                }
                Err(_) => return Err(io::ErrorKind::InvalidData.into()),
            }
        }
    }

    fn flush_tls(&self) {
        let Some(tls) = &self.tls else {
            return;
        };
        let mut bytes = Vec::new();
        let mut tls = tls.borrow_mut();
        while tls.connection.wants_write() {
            if tls.connection.write_tls(&mut bytes).is_err() {
                break;
            }
        }
        drop(tls);
        if !bytes.is_empty() {
            self.write(&bytes);
        }
    }

    /// Writes what was left over, then these bytes; keeps what the socket does not take.
    fn write(&self, mut bytes: &[u8]) {
        let mut unsent = self.unsent.borrow_mut();
        if !unsent.is_empty() {
            unsent.extend_from_slice(bytes);
            let count = self.write_some(&unsent);
            unsent.drain(..count);
            if unsent.len() > MAX_UNSENT_BYTES {
                self.close();
            }
            return;
        }
        let count = self.write_some(bytes);
        bytes = &bytes[count..];
        if !bytes.is_empty() {
            unsent.extend_from_slice(bytes);
            self.changed.notify_one();
        }
    }

    fn write_some(&self, bytes: &[u8]) -> usize {
        let mut written = 0;
        while written < bytes.len() {
            match self.stream.try_write(&bytes[written..]) {
                Ok(count) => written += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => {
                    self.close();
                    return bytes.len();
                }
            }
        }
        written
    }
}
