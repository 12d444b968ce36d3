//! Replays of recordings.

use super::{
    Recorder, RecordingOptions,
    bytes::{Bytes, Unread},
    digest::describe,
    entry::{CheckIn, Entry, Input, LateReply},
    errors::assessment,
    header::{Head, head, is_recording},
    question::Asked,
};
use crate::{
    client::{AfterExchange, Client, Progress},
    connection::SocketId,
    error::Error,
    hello::ClientMetadata,
    operation::{CommandKind, Exchange, OperationId, Outcome, PinHolder, Span, reply_with_cursor},
    time::Instant,
    wire::MessageWriter,
};
use bson::RawDocumentBuf;
use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

/// The recording of a client, as it was read from a file.
///
/// ```no_run
/// use onionskin_core::client::{Recording, Verdict};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let recording = Recording::read(&std::fs::read("client.rec")?)?;
/// for step in recording.replay()? {
///     if step.verdict != Verdict::Same {
///         println!("{} {}: {:?}", step.number, step.input, step.verdict);
///     }
/// }
/// # Ok(())
/// # }
/// ```
pub struct Recording {
    head: Head,
    entries: Vec<u8>,
}

/// Shows no seed and no input.
impl fmt::Debug for Recording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recording")
            .field("version", &self.head.version)
            .field("entries", &self.head.entries)
            .field("lost", &self.head.lost)
            .field("is_cut", &self.head.is_cut)
            .finish_non_exhaustive()
    }
}

/// A step of a recording: an input, and what the replay found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayedStep {
    /// The number of the input, from 1 for the first input of the client on.
    pub number: u64,
    /// The time of the input.
    pub at: Instant,
    /// The input in words, which can have texts of peers.
    pub input: String,
    /// The actions of this build, in words. Empty if the recording is only printed.
    pub actions: Vec<String>,
    /// The result of the comparison.
    pub verdict: Verdict,
}

/// The comparison of a step with the recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// This build does what the recorded client did.
    Same,
    /// This build does something else, or returns another result. The replay ends.
    Different,
    /// The step cannot be replayed, for this reason. The replay ends.
    Unknown(String),
    /// The step was only printed.
    Printed,
}

impl Recording {
    /// True if the bytes of a file begin like the recording of a client.
    #[must_use]
    pub fn is_recording(file: &[u8]) -> bool {
        is_recording(file)
    }

    /// Reads the head of a recording. Fails if the bytes are no recording of the format of this
    /// version. Damaged entries are found when they are replayed or printed.
    pub fn read(file: &[u8]) -> Result<Self, Error> {
        let mut rest = Bytes(file);
        let head = head(&mut rest)?;
        let entries = rest.0.to_vec();
        Ok(Self { head, entries })
    }

    /// Returns the version of the crate that has made the recording.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.head.version
    }

    /// Returns the number of inputs in the recording.
    #[must_use]
    pub const fn entries(&self) -> u64 {
        self.head.entries
    }

    /// Returns the number of inputs that the recording has lost at its beginning.
    #[must_use]
    pub const fn lost(&self) -> u64 {
        self.head.lost
    }

    /// True if the recording lacks its end, because it had its largest size, or because it is
    /// [whole](RecordingOptions::whole) and has an input that ends each replay.
    #[must_use]
    pub const fn is_cut(&self) -> bool {
        self.head.is_cut
    }

    /// Returns the steps, in words.
    pub fn print(&self) -> impl Iterator<Item = ReplayedStep> {
        Replay {
            cursor: Cursor::new(self),
            client: None,
            exchanges: BTreeMap::new(),
            requests: BTreeMap::new(),
            actions: Vec::new(),
        }
    }

    /// Begins a replay. Fails if the recording has lost its beginning or has no usable
    /// configuration.
    pub fn replay(&self) -> Result<Replay<'_>, Error> {
        if self.head.lost > 0 {
            return Err(Error::argument(format!(
                "the recording lacks its first {} inputs, so it can be printed and not replayed; \
                 record with a larger ring, or the whole client",
                self.head.lost
            )));
        }
        let mut config = self.head.configuration()?;
        // The recorder of the replay computes the digests; what it keeps is not used.
        let options = RecordingOptions::ring(0);
        config.recorder = Some(Recorder::new(&config, options)?);
        Ok(Replay {
            cursor: Cursor::new(self),
            client: Some(Box::new(Client::new(config))),
            exchanges: BTreeMap::new(),
            requests: BTreeMap::new(),
            actions: Vec::new(),
        })
    }
}

/// The place of a replay in its recording.
struct Cursor<'a> {
    rest: Bytes<'a>,
    left: u64,
    number: u64,
    at: Instant,
    is_over: bool,
}

impl<'a> Cursor<'a> {
    fn new(recording: &'a Recording) -> Self {
        Self {
            rest: Bytes(&recording.entries),
            left: recording.head.entries,
            number: recording.head.lost,
            at: recording.head.begins,
            is_over: false,
        }
    }

    /// Returns the next entry; `None` after the last one.
    fn next(&mut self) -> Option<Result<Entry<'a>, Unread>> {
        if self.is_over || (self.left == 0 && self.rest.0.is_empty()) {
            return None;
        }
        self.number = self.number.saturating_add(1);
        let Some(left) = self.left.checked_sub(1) else {
            return Some(Err(Unread::Damaged("the number of entries")));
        };
        self.left = left;
        let entry = Entry::read(&mut self.rest);
        if let Ok(entry) = &entry {
            self.at = self.at + Duration::from_nanos(entry.since);
        }
        Some(entry)
    }
}

/// A replay: an iterator over the steps of a recording, which ends after the first step that
/// differs or cannot be replayed.
pub struct Replay<'a> {
    cursor: Cursor<'a>,
    /// The client that replays; `None` if the steps are only printed.
    client: Option<Box<Client>>,
    /// The exchanges that the recorded shell has.
    exchanges: BTreeMap<OperationId, Exchange>,
    /// The `requestID` of the last exchange on each socket.
    requests: BTreeMap<SocketId, i32>,
    actions: Vec<String>,
}

impl fmt::Debug for Replay<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Replay");
        shown.field("step", &self.cursor.number);
        shown.field("left", &self.cursor.left);
        shown.finish_non_exhaustive()
    }
}

impl Iterator for Replay<'_> {
    type Item = ReplayedStep;

    fn next(&mut self) -> Option<ReplayedStep> {
        let entry = self.cursor.next()?;
        let mut words = String::new();
        let verdict = match entry.and_then(|entry| Ok((entry.digest, entry.input()?))) {
            Err(reason) => Err(reason),
            Ok((digest, input)) => {
                words = input.describe();
                match self.client.take() {
                    None => Ok(Verdict::Printed),
                    Some(mut client) => {
                        let done = self.apply(&mut client, input);
                        let own = client.last_digest();
                        self.client = Some(client);
                        done.map(|()| match own == digest {
                            true => Verdict::Same,
                            false => Verdict::Different,
                        })
                    }
                }
            }
        };
        let verdict =
            verdict.unwrap_or_else(|reason| Verdict::Unknown(Error::from(reason).to_string()));
        self.cursor.is_over = matches!(verdict, Verdict::Different | Verdict::Unknown(_));
        Some(ReplayedStep {
            number: self.cursor.number,
            at: self.cursor.at,
            input: words,
            actions: std::mem::take(&mut self.actions),
            verdict,
        })
    }
}

impl Replay<'_> {
    /// Gives an input to the client.
    fn apply(&mut self, client: &mut Client, input: Input<'_>) -> Result<(), Unread> {
        let now = self.cursor.at;
        match input {
            Input::Open => client.open(now),
            Input::Connected(socket) => drop_use(client.handle_connected(now, socket)),
            Input::Received(socket, bytes) => {
                drop_use(client.handle_received(now, socket, bytes));
            }
            Input::Failed(socket, error) => drop_use(client.handle_failed(now, socket, error)),
            Input::LateReply(socket, state) => self.late_reply(client, socket, state),
            Input::Timeout => client.handle_timeout(now),
            Input::Begin(begun) => {
                let (mut span, command) = *begun;
                self.check_span(client, &span, None)?;
                let progress = client.start_in(now, &mut span, command);
                self.keep(progress);
            }
            Input::Resume(id) => {
                let progress = client.resume(now, id);
                self.keep(progress);
            }
            Input::Cancel(id) => client.cancel(now, id),
            Input::Refuse(id, error) => {
                let exchange = self.exchange(id)?;
                let progress = client.refuse(now, exchange, error);
                self.keep(progress);
            }
            Input::CheckIn(id, check_in) => self.check_in(client, id, check_in)?,
            Input::Release(all) => client.release_cursor(now, super::command::chain(all)),
            Input::EndSessions => {
                let _ = client.end_sessions();
            }
            Input::Metadata(document) => {
                let document = RawDocumentBuf::from_bytes(document.to_vec()).ok();
                let metadata = document.and_then(ClientMetadata::recorded);
                let metadata = metadata.ok_or(Unread::Damaged("the client metadata"))?;
                client.replay_metadata(metadata);
            }
            Input::Close => client.close(now),
            Input::CloseNow => client.close_now(now),
            Input::Abandon(why) => client.abandon(now, &why),
            Input::Session(input) => input.apply(client, now),
            Input::Ask(asked) => self.ask(client, *asked)?,
            Input::Lacking(what) => return Err(Unread::Lacking(what.to_owned())),
            Input::Answer(question, answer) => client.handle_answer(now, question, answer),
            Input::Step(socket, step) => client.replay_step(now, socket, &step),
            Input::Choice(id, choice) => {
                let answer = choice.answer(client.topology());
                let progress = client.handle_selector_answer(now, id, answer);
                self.keep(progress);
            }
        }
        while let Some(action) = client.poll_action() {
            let mut words = String::new();
            describe(&action, &mut words);
            self.actions.push(words);
        }
        while client.poll_event().is_some() {}
        Ok(())
    }

    /// Fails unless the program of the span may go on, during the exchange that it `held` if there
    /// is one.
    fn check_span(
        &self,
        client: &Client,
        span: &Span,
        held: Option<OperationId>,
    ) -> Result<(), Unread> {
        let id = span.limits().map(|(id, ..)| id);
        let may_continue = id.is_none_or(|id| {
            let has_exchange = self.exchanges.contains_key(&id);
            has_exchange == held.is_some() && client.attempts.operations.may_continue(id)
        });
        match may_continue && (held.is_none() || held == id) {
            true => Ok(()),
            false => Err(Unread::Damaged("the id of an operation")),
        }
    }

    /// Asks the question of a program.
    fn ask(&mut self, client: &mut Client, asked: Asked) -> Result<(), Unread> {
        let Asked {
            mut span,
            ask,
            held,
        } = asked;
        self.check_span(client, &span, held)?;
        let mut exchange = held.map(|id| self.exchange(id)).transpose()?;
        let progress = client.ask_in(self.cursor.at, &mut span, ask, exchange.as_mut());
        if let Some(exchange) = exchange {
            self.exchanges.insert(exchange.operation(), exchange);
        }
        self.keep(progress);
        Ok(())
    }

    /// Ends an exchange as the recorded one ended.
    fn check_in(
        &mut self,
        client: &mut Client,
        id: OperationId,
        check_in: CheckIn<'_>,
    ) -> Result<(), Unread> {
        let CheckIn {
            outcome,
            end,
            assessment: bytes,
        } = check_in;
        let mut exchange = self.exchange(id)?;
        let kind = match exchange.is_preliminary() {
            true => CommandKind::Run,
            false => exchange.operation.request.kind,
        };
        let mut bytes = Bytes(bytes);
        let assessment = assessment(&mut bytes, kind)?;
        if !bytes.0.is_empty() {
            return Err(Unread::Damaged("the end of an entry"));
        }
        let is_own = |pin: &PinHolder| pin.id.socket == exchange.socket();
        if !end.pinned.iter().all(is_own) {
            return Err(Unread::Damaged("the pins of an exchange"));
        }
        exchange.replay_end(end, assessment);
        if matches!(outcome, Outcome::Abandoned | Outcome::Failed(_)) {
            self.requests
                .insert(exchange.socket(), exchange.request_id());
        }
        match client.check_in(self.cursor.at, exchange, outcome) {
            AfterExchange::Again(progress) => self.keep(progress),
            AfterExchange::Done(_) => {}
        }
        Ok(())
    }

    /// Gives the client a reply in place of the late reply, whose content is not recorded.
    fn late_reply(&mut self, client: &mut Client, socket: SocketId, state: LateReply) {
        let now = self.cursor.at;
        let body = match state {
            LateReply::Part => return client.replay_part(now, socket),
            LateReply::Whole => bson::rawdoc! { "ok": 1 },
            LateReply::WithCursor => reply_with_cursor(),
        };
        let request = self.requests.remove(&socket).unwrap_or_default();
        let mut bytes = Vec::new();
        if client.settings.handshake.layers.encrypt() {
            // The layer in place of TLS takes a byte that is 1 when its handshake is over.
            bytes.push(0);
        }
        MessageWriter::begin(&mut bytes, 0, request)
            .body(&body)
            .end();
        drop_use(client.handle_received(now, socket, &bytes));
    }

    fn exchange(&mut self, id: OperationId) -> Result<Exchange, Unread> {
        let what = "the exchange of an operation";
        self.exchanges.remove(&id).ok_or(Unread::Damaged(what))
    }

    /// Keeps the exchange that an operation has got.
    fn keep(&mut self, progress: Progress) {
        if let Progress::Exchange(exchange) = progress {
            self.exchanges.insert(exchange.operation(), exchange);
        }
    }
}

/// Drops the way in which a shell would treat the socket: the recorded one has done so.
const fn drop_use(_: crate::client::SocketUse) {}

impl Client {
    /// Returns the digest of the last input.
    fn last_digest(&self) -> u32 {
        let recorder = self.recorder.as_ref();
        recorder.map_or(0, |recorder| recorder.last_digest)
    }

    /// Replaces the client metadata.
    fn replay_metadata(&mut self, metadata: ClientMetadata) {
        self.begin_timeless_entry(super::Kind::Metadata, |_| Ok(()));
        self.settings.metadata = metadata;
        let handshake = Arc::make_mut(&mut self.settings.handshake);
        handshake.metadata = self.settings.metadata.document().to_owned();
        self.end_entry(|_| {});
    }

    /// Handles a part of a late reply, which changes nothing.
    fn replay_part(&mut self, now: Instant, socket: SocketId) {
        self.begin_entry(now, super::Kind::LateReply, |_| Ok(()));
        self.settle(now);
        let socket_use = self.socket_use(socket);
        self.end_entry(|digest| digest.socket_use(socket_use));
    }
}
