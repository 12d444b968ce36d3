//! Recordings of clients. A recording has the configuration of a client and its inputs, each with
//! the digest of what the client did then, so that [`Replay`] can give the same inputs to any build
//! of the core and compare what it does.
//!
//! The entries are written where all inputs enter: in the public functions of the client. Without a
//! recording, such a function asks once or twice whether there is one.
//!
//! The documents of commands and replies are not recorded. Of a command, an entry has the name, the
//! database and what decides about servers, sessions and retries. Of a reply, it has the error
//! codes, the labels and the times. The bytes of handshakes and of monitors are recorded as they
//! are. If they have secrets, because of TLS or a credential, the entries have the messages without
//! the secrets instead ([`step`]).

mod answers;
mod bytes;
mod command;
mod digest;
mod entry;
mod errors;
mod header;
mod pins;
mod question;
mod replay;
mod secrets;
mod session;
mod step;

pub(in crate::client) use answers::{put_answer, put_choice};
pub(in crate::client) use command::put_resources;
pub(in crate::client) use digest::Digest;
pub(in crate::client) use entry::{Kind, LateReply, put_check_in};
pub(in crate::client) use question::put_ask;
pub use replay::{Recording, Replay, ReplayedStep, Verdict};
pub(in crate::client) use session::SessionInput;
pub(in crate::client) use step::{ConnectionStep, put_step};

use crate::{
    client::{
        Action, Client, ClientConfig,
        connections::{Connections, Role},
    },
    connection::SocketId,
    error::Error,
    operation::{Command, OperationId, Span},
    socks5::Socks5Context,
    time::Instant,
};
use bytes::{put_bytes, put_number, put_socket};
use header::Header;
use secrets::Secrets;
use std::{collections::VecDeque, fmt};

/// How much of the life of a client is recorded. The recording is held in memory.
///
/// ```
/// use onionskin_core::{
///     client::{Client, ClientConfig, Recording, RecordingOptions},
///     random::Seed,
///     time::Instant,
///     uri,
/// };
///
/// let options = uri::parse("mongodb://localhost")?.options;
/// let config = ClientConfig::new(options, Seed::new([0; 32]))?;
/// let mut client = Client::new(config.with_recording(RecordingOptions::whole(1 << 20))?);
/// client.open(Instant::ZERO);
/// let bytes = client.recording().expect("the client records itself");
/// assert_eq!(Recording::read(&bytes)?.entries(), 1);
/// # Ok::<(), onionskin_core::error::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordingOptions {
    max_bytes: usize,
    /// True if the beginning is kept, and false if the end is.
    keeps_beginning: bool,
}

impl RecordingOptions {
    /// Records from the creation of the client on, until the recording has `max_bytes` bytes. Such
    /// a recording can be replayed. It also ends with the first input that recordings do not keep,
    /// for example a fork of the process, because each replay ends there.
    ///
    /// ```
    /// use onionskin_core::client::RecordingOptions;
    ///
    /// // A client under load adds some megabytes in a second.
    /// let options = RecordingOptions::whole(256 << 20);
    /// # let _ = options;
    /// ```
    #[must_use]
    pub const fn whole(max_bytes: usize) -> Self {
        Self {
            max_bytes,
            keeps_beginning: true,
        }
    }

    /// Records the last inputs: at most `max_bytes` bytes of them, or the last input if it is
    /// larger. The oldest ones are lost first, about an eighth of a small ring at once. The
    /// recording can be replayed only while it has its beginning; afterwards it can be printed.
    ///
    /// ```
    /// use onionskin_core::client::RecordingOptions;
    ///
    /// let options = RecordingOptions::ring(1 << 20);
    /// # let _ = options;
    /// ```
    #[must_use]
    pub const fn ring(max_bytes: usize) -> Self {
        Self {
            max_bytes,
            keeps_beginning: false,
        }
    }
}

/// Entries, one after the other.
struct Piece {
    /// The time since which the time of the first entry counts.
    begins: Instant,
    bytes: Vec<u8>,
    entries: u64,
}

/// The recording of a client while it is made.
pub(in crate::client) struct Recorder {
    header: Header,
    options: RecordingOptions,
    /// The entries in pieces, so that nothing large is moved when they grow.
    pieces: VecDeque<Piece>,
    /// The size of all entries.
    bytes: usize,
    /// The number of entries that a ring has lost.
    lost: u64,
    /// True once a whole recording has an input that ends each replay. It keeps no later ones.
    ends_replay: bool,
    /// True once an entry was left out, so that the end of the recording is missing.
    is_full: bool,
    /// The entry that is made.
    entry: Vec<u8>,
    /// True from the beginning of an input to its end, and after a panic in between.
    is_open: bool,
    /// The number of actions that were queued when the entry began.
    queued: usize,
    digest: Digest,
    secrets: Secrets,
    /// The digest of the last entry.
    last_digest: u32,
    /// The times of the entry that is made, and of the one before.
    now: Instant,
    before: Instant,
    has_failed: bool,
}

/// Shows nothing of the recording, which has the seed of the client.
impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Recorder(..)")
    }
}

impl Recorder {
    /// Returns the recorder of a client with this configuration. Fails if the recording would have
    /// secrets, or could not be replayed at all.
    pub(in crate::client) fn new(
        config: &ClientConfig,
        options: RecordingOptions,
    ) -> Result<Box<Self>, Error> {
        Ok(Box::new(Self {
            header: Header::new(config)?,
            options,
            pieces: VecDeque::new(),
            bytes: 0,
            lost: 0,
            ends_replay: false,
            is_full: false,
            entry: Vec::new(),
            is_open: false,
            queued: 0,
            digest: Digest::new(config.proxy.as_ref().and_then(Socks5Context::login)),
            secrets: Secrets::of(config),
            last_digest: 0,
            now: Instant::ZERO,
            before: Instant::ZERO,
            has_failed: false,
        }))
    }

    fn begin(
        &mut self,
        now: Instant,
        kind: Kind,
        queued: usize,
        write: impl FnOnce(&mut Vec<u8>) -> Result<(), &'static str>,
    ) {
        if self.is_open {
            // A panic has ended the input before, so nobody knows what the client did then.
            self.finish(NO_DIGEST, true);
        }
        self.is_open = true;
        self.before = self.now;
        self.now = self.now.max(now);
        self.queued = queued;
        self.digest.begin();
        self.write(kind, write);
    }

    /// Writes the entry, in place of what was written of it.
    fn write(&mut self, kind: Kind, write: impl FnOnce(&mut Vec<u8>) -> Result<(), &'static str>) {
        self.put_head(kind);
        if let Err(what) = write(&mut self.entry) {
            self.put_head(Kind::Lacking);
            put_bytes(&mut self.entry, what.as_bytes());
        }
    }

    fn put_head(&mut self, kind: Kind) {
        let since = self.now.saturating_since(self.before);
        self.entry.clear();
        self.entry.push(kind as u8);
        let nanos = u64::try_from(since.as_nanos()).unwrap_or(u64::MAX);
        put_number(&mut self.entry, nanos);
    }

    fn end(
        &mut self,
        actions: &VecDeque<Action>,
        connections: &Connections,
        deadline: Option<Instant>,
        note: impl FnOnce(&mut Digest),
    ) {
        note(&mut self.digest);
        for action in actions.iter().skip(self.queued) {
            match action {
                // A replay has no TLS and sends other bytes.
                Action::Transmit { .. } if self.secrets.has_tls => {}
                Action::Transmit { socket, .. }
                    if self.secrets.has_credential
                        && !matches!(connections.role(*socket), Some(Role::Monitor(_))) =>
                {
                    self.digest.hidden_transmit(*socket);
                }
                _ => self.digest.action(action),
            }
        }
        self.digest.deadline(deadline);
        self.finish(self.digest.value(), self.digest.has_failed());
    }

    /// Completes the entry with its digest, and adds it.
    fn finish(&mut self, digest: u32, has_failed: bool) {
        self.is_open = false;
        self.last_digest = digest;
        self.entry.extend_from_slice(&digest.to_le_bytes());
        self.store();
        // A full recording does not have the failure.
        self.has_failed |= has_failed && !self.is_full;
    }

    /// True if an entry of this size can be added.
    const fn has_room(&self, size: usize) -> bool {
        let RecordingOptions {
            max_bytes,
            keeps_beginning,
        } = self.options;
        let is_over = self.is_full || self.ends_replay;
        !keeps_beginning || (!is_over && self.bytes + size <= max_bytes)
    }

    /// Adds the entry that was made.
    fn store(&mut self) {
        let max_bytes = self.options.max_bytes;
        let size = self.entry.len() + MAX_NUMBER_BYTES;
        if !self.has_room(size) {
            self.is_full = true;
            return;
        }
        self.ends_replay |= self.entry.first() == Some(&(Kind::Lacking as u8));
        let has_room = |piece: &Piece| piece.bytes.len() + size <= piece.bytes.capacity();
        if !self.pieces.back().is_some_and(has_room) {
            let capacity = (max_bytes / MIN_PIECES).min(MAX_PIECE_BYTES).max(size);
            self.pieces.push_back(Piece {
                begins: self.before,
                bytes: Vec::with_capacity(capacity),
                entries: 0,
            });
        }
        if let Some(piece) = self.pieces.back_mut() {
            let before = piece.bytes.len();
            put_bytes(&mut piece.bytes, &self.entry);
            piece.entries += 1;
            self.bytes += piece.bytes.len() - before;
        }
        while self.bytes > max_bytes
            && self.pieces.len() > 1
            && let Some(oldest) = self.pieces.pop_front()
        {
            self.bytes -= oldest.bytes.len();
            self.lost += oldest.entries;
        }
    }

    fn file(&self) -> Vec<u8> {
        let mut open = Vec::new();
        if self.is_open {
            // A panic has ended the last input.
            let entry = [&self.entry[..], &NO_DIGEST.to_le_bytes()].concat();
            put_bytes(&mut open, &entry);
        }
        let is_cut = self.is_full || (self.is_open && !self.has_room(open.len()));
        if is_cut {
            open.clear();
        }
        let begins = self.pieces.front().map(|piece| piece.begins);
        let entries: u64 = self.pieces.iter().map(|piece| piece.entries).sum();
        let mut file = self.header.write(
            begins.unwrap_or(self.before),
            entries + u64::from(!open.is_empty()),
            self.lost,
            is_cut,
        );
        file.reserve_exact(self.bytes + open.len());
        for piece in &self.pieces {
            file.extend_from_slice(&piece.bytes);
        }
        file.extend_from_slice(&open);
        file
    }
}

/// The digest of an input that a panic has ended.
const NO_DIGEST: u32 = 0;

/// The number of pieces that a ring has at least.
const MIN_PIECES: usize = 8;

/// The usual size of a piece in bytes, unless the recording is small.
const MAX_PIECE_BYTES: usize = 64 * 1024;

/// The largest size of a number in a recording, in bytes.
const MAX_NUMBER_BYTES: usize = 10;

impl Client {
    /// Returns the recording of the client so far, as the bytes of a file; `None` if the client is
    /// not [recorded](super::ClientConfig::with_recording).
    #[must_use]
    pub fn recording(&self) -> Option<Vec<u8>> {
        self.recorder.as_ref().map(|recorder| recorder.file())
    }

    /// True if an operation has failed since the last call because of the network, a timeout or
    /// server selection, or if an input has ended in a panic. Always false if the client is not
    /// recorded, and for what a full [whole](RecordingOptions::whole) recording does not have.
    pub fn take_failure(&mut self) -> bool {
        let recorder = self.recorder.as_mut();
        recorder.is_some_and(|recorder| std::mem::take(&mut recorder.has_failed))
    }

    /// True if the bytes that connections receive have secrets, so that the recording gets messages
    /// without them.
    #[inline]
    pub(in crate::client) fn hides_bytes(&self) -> bool {
        self.recorder
            .as_ref()
            .is_some_and(|recorder| recorder.secrets.exist())
    }

    /// True if the client records itself.
    #[inline]
    pub(in crate::client) const fn is_recorded(&self) -> bool {
        self.recorder.is_some()
    }

    /// Begins the entry of an input. `write` appends the input, or fails with the name of what
    /// recordings do not keep.
    #[inline]
    pub(in crate::client) fn begin_entry(
        &mut self,
        now: Instant,
        kind: Kind,
        write: impl FnOnce(&mut Vec<u8>) -> Result<(), &'static str>,
    ) {
        if let Some(recorder) = &mut self.recorder {
            recorder.begin(now, kind, self.out.actions.len(), write);
        }
    }

    /// Writes another input into the entry that was begun.
    pub(in crate::client) fn change_entry(
        &mut self,
        kind: Kind,
        write: impl FnOnce(&mut Vec<u8>) -> Result<(), &'static str>,
    ) {
        if let Some(recorder) = &mut self.recorder {
            recorder.write(kind, write);
        }
    }

    /// Ends the entry of an input. `note` adds the result of the call to the digest.
    #[inline]
    pub(in crate::client) fn end_entry(&mut self, note: impl FnOnce(&mut Digest)) {
        if let Some(recorder) = &mut self.recorder {
            recorder.end(&self.out.actions, &self.connections, self.clock.armed, note);
        }
    }

    /// Notes an input that recordings do not keep. The recording can be replayed up to it.
    #[inline]
    pub(in crate::client) fn note_lacking(&mut self, now: Instant, what: &'static str) {
        self.begin_entry(now, Kind::Lacking, |_| Err(what));
        self.end_entry(|_| {});
    }

    /// Begins the entry of an input without a time.
    #[inline]
    pub(in crate::client) fn begin_timeless_entry(
        &mut self,
        kind: Kind,
        write: impl FnOnce(&mut Vec<u8>) -> Result<(), &'static str>,
    ) {
        let now = self.recorder.as_ref().map(|recorder| recorder.now);
        self.begin_entry(now.unwrap_or_default(), kind, write);
    }
}

/// Writes the id of a socket.
pub(in crate::client) fn put_id(out: &mut Vec<u8>, socket: SocketId) -> Result<(), &'static str> {
    put_socket(out, socket);
    Ok(())
}

/// Writes the bytes that a socket received.
pub(in crate::client) fn put_received(
    out: &mut Vec<u8>,
    socket: SocketId,
    bytes: &[u8],
) -> Result<(), &'static str> {
    put_socket(out, socket);
    put_bytes(out, bytes);
    Ok(())
}

/// Writes the state of a late reply.
pub(in crate::client) fn put_late_reply(
    out: &mut Vec<u8>,
    socket: SocketId,
    state: LateReply,
) -> Result<(), &'static str> {
    put_socket(out, socket);
    out.push(state as u8);
    Ok(())
}

/// Writes the failure of a socket.
pub(in crate::client) fn put_failure(
    out: &mut Vec<u8>,
    socket: SocketId,
    error: &Error,
) -> Result<(), &'static str> {
    put_socket(out, socket);
    errors::put_error(out, error)
}

/// Writes an operation, and the error of its idle connection if there is one.
pub(in crate::client) fn put_operation(
    out: &mut Vec<u8>,
    operation: OperationId,
    error: Option<&Error>,
) -> Result<(), &'static str> {
    put_number(out, operation.0);
    error.map_or(Ok(()), |error| errors::put_error(out, error))
}

/// Writes a command and the span of its program.
pub(in crate::client) fn put_begin(
    out: &mut Vec<u8>,
    span: &Span,
    command: &Command,
) -> Result<(), &'static str> {
    command::put_command(out, span, command)
}

/// Writes the reason why the shell has stopped.
pub(in crate::client) fn put_reason(out: &mut Vec<u8>, why: &Error) -> Result<(), &'static str> {
    errors::put_error(out, why)
}

/// Writes the document of the client metadata.
pub(in crate::client) fn put_document(
    out: &mut Vec<u8>,
    document: &bson::RawDocument,
) -> Result<(), &'static str> {
    put_bytes(out, document.as_bytes());
    Ok(())
}
