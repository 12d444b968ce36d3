//! The socket of one client, with or without TLS.

#[cfg_attr(
    not(feature = "scenarios"),
    allow(dead_code, reason = "only faults use some functions")
)]
mod line;
#[cfg_attr(
    not(feature = "scenarios"),
    allow(dead_code, reason = "only faults use some functions")
)]
mod slow;

#[cfg(feature = "scenarios")]
pub(super) use line::Towards;
pub(super) use slow::Slowness;

use super::{Clock, READ_BYTES};
use crate::{
    proxy::{self, HeaderCheck},
    tls::TlsSession,
};
use line::{Delayed, Line};
use onionskin_core::time::{Instant, earliest};
use std::{
    cell::{Cell, RefCell},
    io,
    rc::Rc,
};
use tokio::{io::Interest, net::TcpStream, sync::Notify};

/// The number of unsent bytes of a connection up to which its next request is handled. Above it,
/// nothing is read from the connection either.
pub(super) const ENOUGH_UNSENT_BYTES: usize = 1024 * 1024;

/// The number of unsent bytes above which a connection is closed. The largest reply fits in
/// addition to [`ENOUGH_UNSENT_BYTES`]. A stream of replies can reach this limit, because its
/// replies do not wait for requests.
const MAX_UNSENT_BYTES: usize = 64 * 1024 * 1024;

/// The room from which on a full connection is read again, in bytes: the one that each connection
/// has if it waits and nothing is buffered. The member moves all bytes that it keeps to make room
/// for the first read, which would take long if it had to be done for each one.
const REFILL_BYTES: usize = 1024 * 1024;

/// Counts the unsent bytes of all connections.
#[derive(Debug, Default)]
pub(super) struct Gauge {
    bytes: Cell<usize>,
    most: Cell<usize>,
}

impl Gauge {
    pub(super) fn bytes(&self) -> usize {
        self.bytes.get()
    }

    /// Returns the largest number of unsent bytes so far.
    pub(super) fn most(&self) -> usize {
        self.most.get()
    }

    fn moved(&self, from: usize, to: usize) {
        let bytes = self.bytes.get() + to - from;
        self.bytes.set(bytes);
        self.most.set(self.most.get().max(bytes));
    }
}

/// Bytes to send, of which the socket has not accepted all yet.
#[derive(Debug, Default)]
struct Unsent {
    bytes: Vec<u8>,
    /// The number of bytes at the start of `bytes` that the socket has accepted.
    sent: usize,
}

impl Unsent {
    fn rest(&self) -> &[u8] {
        &self.bytes[self.sent..]
    }

    fn append(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.sent);
        self.sent = 0;
        self.bytes.extend_from_slice(bytes);
    }
}

/// The reason why [`Peer::next`] returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// There may be bytes to read.
    Read,
    /// The next request may be handled.
    Turn,
    /// The connection has ended.
    End,
}

/// A client's socket. Bytes are written at once where possible, and otherwise kept for later.
pub(super) struct Peer {
    stream: TcpStream,
    /// The member of the connection.
    member: usize,
    clock: Clock,
    line: Line,
    tls: Option<RefCell<TlsSession>>,
    /// The received bytes, while they can be the start of an incomplete header of the PROXY
    /// protocol. `None` after the header, and if no header can come.
    beginning: RefCell<Option<Vec<u8>>>,
    unsent: RefCell<Unsent>,
    gauge: Rc<Gauge>,
    /// True if TLS may still have data that the socket's readiness does not show.
    may_have_more: Cell<bool>,
    closed: Cell<bool>,
    /// True if the connection ends after its delayed replies. Nothing more is read from it.
    closing: Cell<bool>,
    /// True while the member has no room for more bytes. What the client sends stays in the
    /// buffers of the operating system.
    full: Cell<bool>,
    changed: Notify,
}

impl Peer {
    /// Creates a peer. With `is_proxied`, a header of the PROXY protocol may come first.
    pub(super) fn new(
        stream: TcpStream,
        member: usize,
        clock: Clock,
        tls: Option<TlsSession>,
        is_proxied: bool,
        gauge: Rc<Gauge>,
    ) -> Self {
        Self {
            stream,
            member,
            clock,
            line: Line::default(),
            tls: tls.map(RefCell::new),
            beginning: RefCell::new(is_proxied.then(Vec::new)),
            unsent: RefCell::default(),
            gauge,
            may_have_more: Cell::new(false),
            closed: Cell::new(false),
            closing: Cell::new(false),
            full: Cell::new(false),
            changed: Notify::new(),
        }
    }

    /// Sends bytes, through TLS if the connection uses it. Bytes that the socket does not accept
    /// now are kept for later. Does nothing if the connection is closed.
    pub(super) fn send(&self, bytes: Vec<u8>) {
        if self.closed.get() {
            return;
        }
        let Some(tls) = &self.tls else {
            return self.write(bytes);
        };
        if tls.borrow_mut().write(&bytes).is_err() {
            self.closed.set(true);
        }
        drop(bytes);
        self.flush_tls();
    }

    /// Returns the subject of the client's TLS certificate, if there is one. Returns `None` at each
    /// further call. The TLS handshake must be complete.
    pub(super) fn take_subject(&self) -> Option<String> {
        self.tls.as_ref()?.borrow_mut().take_subject()
    }

    /// Closes the connection after its delayed replies. Its task then drops the socket.
    pub(super) fn close(&self) {
        if !self.closing.replace(true) && !self.line.replies.borrow().is_empty() {
            self.delay_later(Instant::ZERO, Delayed::Close);
        }
        if self.line.replies.borrow().is_empty() {
            self.closed.set(true);
        }
        self.changed.notify_one();
    }

    /// Closes the connection and drops its unsent bytes.
    pub(super) fn abandon(&self) {
        self.closed.set(true);
        self.changed.notify_one();
        self.update(|unsent| *unsent = Unsent::default());
        self.drop_delayed();
    }

    /// Wakes the task of the connection, because the next request may be handled.
    pub(super) fn give_turn(&self) {
        self.changed.notify_one();
    }

    /// Notes how many bytes the member takes now. Without room for a read, the connection is full
    /// until there is room for several. When there is more room, the connection gets a turn.
    pub(super) fn note_room(&self, room: usize) {
        let wanted = match self.full.get() {
            true => REFILL_BYTES,
            false => READ_BYTES,
        };
        self.full.set(room < wanted);
    }

    /// True while nothing is read because the member has no room.
    pub(super) fn is_full(&self) -> bool {
        self.full.get()
    }

    /// Returns the number of unsent bytes, delayed ones included.
    pub(super) fn unsent(&self) -> usize {
        self.buffered() + self.line.delayed_bytes.get()
    }

    /// Returns the number of bytes that the socket has not accepted yet.
    fn buffered(&self) -> usize {
        self.unsent.borrow().rest().len()
    }

    /// True if the connection is open and few bytes are unsent, so that the next request may be
    /// handled.
    pub(super) fn takes_more(&self) -> bool {
        !self.closed.get() && self.unsent() <= ENOUGH_UNSENT_BYTES
    }

    /// Waits until there are bytes to read, the next request may be handled, or the connection has
    /// ended. Writes unsent bytes while it waits.
    pub(super) async fn next(&self) -> Next {
        loop {
            if self.closed.get() {
                self.flush();
                return Next::End;
            }
            let took_more = self.takes_more();
            self.send_delayed();
            if self.closed.get() {
                continue;
            }
            if !took_more && self.takes_more() {
                return Next::Turn;
            }
            let may_read = !self.full.get() && self.may_read();
            let due = earliest(self.line.due(self.full.get()), self.reads_at());
            if !self.full.get() && self.has_due_request() {
                return Next::Read;
            }
            let (is_writing, takes_more) = (self.buffered() > 0, self.takes_more());
            let is_waiting = !self.line.requests.borrow().is_empty() || self.closing.get();
            let is_reading = takes_more && !is_waiting && may_read;
            if is_reading && self.may_have_more.get() {
                return Next::Read;
            }
            let interest = match (is_writing, is_reading) {
                (false, _) => Interest::READABLE,
                (true, true) => Interest::READABLE | Interest::WRITABLE,
                (true, false) => Interest::WRITABLE,
            };
            let timer = async {
                match due {
                    Some(due) => tokio::time::sleep_until(self.clock.at(due)).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = self.changed.notified() => return Next::Turn,
                ready = self.stream.ready(interest), if is_writing || is_reading => {
                    let Ok(ready) = ready else {
                        return Next::End;
                    };
                    if is_writing && ready.is_writable() {
                        self.flush();
                    }
                    if is_reading && (ready.is_readable() || ready.is_read_closed()) {
                        return Next::Read;
                    }
                    if !takes_more && self.takes_more() {
                        return Next::Turn;
                    }
                }
                () = timer => {}
            }
        }
    }

    /// Reads from the connection. Returns `None` if there is nothing to read, and an error at the
    /// end of the connection.
    pub(super) fn receive<'a>(&self, buffer: &'a mut [u8]) -> io::Result<Option<&'a [u8]>> {
        if self.closed.get() {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        let Some(tls) = &self.tls else {
            let count = self.read(buffer)?;
            return Ok(count.map(|count| &buffer[..count]));
        };
        self.may_have_more.set(true);
        loop {
            // Decrypted data is returned first, because the TLS library accepts no more while it
            // holds more than a record of it.
            match tls.borrow_mut().read(buffer) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => return Ok(Some(&buffer[..count])),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
            let advanced = tls.borrow_mut().advance();
            // TLS can have messages of the handshake to send, or an alert about an error.
            self.flush_tls();
            if advanced? {
                continue;
            }
            match self.read(buffer)? {
                Some(count) => tls.borrow_mut().push_received(&buffer[..count]),
                None => {
                    self.may_have_more.set(false);
                    return Ok(None);
                }
            }
        }
    }

    /// Reads from the socket, and skips a header of the PROXY protocol. Returns `None` if there is
    /// nothing to read, and an error at the end of the connection.
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
            // A header is shorter than the buffer, so there is room for the bytes after it.
            let end = before + count;
            buffer[..before].copy_from_slice(part);
            match proxy::check_header(&buffer[..end]) {
                Ok(HeaderCheck::Incomplete) => *part = buffer[..end].to_vec(),
                Ok(HeaderCheck::Header(length)) => {
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
        let bytes = tls.borrow_mut().take_output();
        if !bytes.is_empty() {
            self.write(bytes);
        }
    }

    /// Writes bytes after the unsent ones. The bytes that the socket does not accept are kept.
    fn write(&self, bytes: Vec<u8>) {
        if self.buffered() > 0 {
            self.update(|unsent| unsent.append(&bytes));
        } else {
            let Some(sent) = self.write_some(&bytes) else {
                return self.abandon();
            };
            if sent < bytes.len() {
                self.update(|unsent| *unsent = Unsent { bytes, sent });
                self.changed.notify_one();
            }
        }
        if self.unsent() > MAX_UNSENT_BYTES {
            self.abandon();
        }
    }

    /// Writes as many unsent bytes as the socket accepts now.
    fn flush(&self) {
        let count = self.write_some(self.unsent.borrow().rest());
        let Some(count) = count else {
            return self.abandon();
        };
        self.update(|unsent| {
            unsent.sent += count;
            if unsent.rest().is_empty() {
                *unsent = Unsent::default();
            }
        });
    }

    fn update(&self, change: impl FnOnce(&mut Unsent)) {
        let before = self.buffered();
        change(&mut self.unsent.borrow_mut());
        self.gauge.moved(before, self.buffered());
    }

    /// Writes as many bytes as the socket accepts now. Returns `None` if the socket is broken.
    fn write_some(&self, bytes: &[u8]) -> Option<usize> {
        let mut written = 0;
        while written < bytes.len() {
            match self.stream.try_write(&bytes[written..]) {
                Ok(count) => written += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => return None,
            }
        }
        Some(written)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.gauge.moved(self.unsent(), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// Runs `check` on a peer whose client does not read.
    fn with_peer(check: impl AsyncFnOnce(&Peer, &Gauge)) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.expect("a runtime").block_on(async {
            let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
            let address = listener.local_addr().expect("an address");
            let stream = TcpStream::connect(address).await.expect("a connection");
            let _client = listener.accept().expect("a connection");
            let gauge = Rc::new(Gauge::default());
            let peer = Peer::new(stream, 0, Clock::start(), None, false, gauge.clone());
            check(&peer, &gauge).await;
            drop(peer);
            assert_eq!(gauge.bytes(), 0, "nothing waits for nobody");
        });
    }

    #[test]
    fn no_more_requests_are_read_from_a_client_that_does_not_read() {
        with_peer(async |peer, gauge| {
            assert!(peer.takes_more());
            // The operating system's buffers take some of these bytes.
            peer.send(vec![0; 32 * 1024 * 1024]);
            assert!(!peer.takes_more());
            assert_eq!(peer.unsent(), gauge.bytes());
            assert!(peer.unsent() > ENOUGH_UNSENT_BYTES);
        });
    }

    #[test]
    fn a_full_connection_is_read_again_when_there_is_room_for_several_reads() {
        with_peer(async |peer, _| {
            for (room, is_full) in [
                (READ_BYTES, false),
                (READ_BYTES - 1, true),
                (READ_BYTES, true),
                (REFILL_BYTES - 1, true),
                (REFILL_BYTES, false),
                (READ_BYTES, false),
            ] {
                peer.note_room(room);
                assert_eq!(peer.is_full(), is_full, "{room} bytes");
            }
        });
    }

    #[test]
    fn a_connection_closed_for_its_backlog_has_no_unsent_bytes() {
        with_peer(async |peer, gauge| {
            for _ in 0..4 {
                peer.send(vec![0; MAX_UNSENT_BYTES / 2]);
            }
            assert_eq!((peer.unsent(), gauge.bytes()), (0, 0));
            assert!(gauge.most() <= MAX_UNSENT_BYTES * 3 / 2, "{}", gauge.most());
            assert!(!peer.takes_more());
            peer.send(vec![0; 1024]);
            assert_eq!(gauge.bytes(), 0, "nothing is sent after the end");
            while peer.next().await != Next::End {}
        });
    }
}
