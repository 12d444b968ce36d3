//! The entries of a recording. An entry has an input of the client and the digest of what the
//! client did then.
//!
//! An entry is a number with the size of the rest in bytes, a byte for the kind of the input, the
//! time since the entry before in nanoseconds, the input, and the digest as 4 bytes, the lowest
//! first. Numbers have 7 bits in each byte, the lowest first; the high bit says that another byte
//! follows.

use super::{
    answers::{Choice, answer, choice},
    bytes::{Bytes, Unread, put_number, put_session},
    command::{command, resources},
    errors::{error, put_assessment, put_error},
    pins::{holders, pin_use, put_holders, put_pin_use},
    question::{Asked, asked},
    session::SessionInput,
    step::{ConnectionStep, step},
};
use crate::{
    client::{Answer, Outcome, QuestionId},
    connection::SocketId,
    error::Error,
    operation::{Command, CursorResources, Exchange, ExchangeEnd, OperationId, Span},
};

/// Declares the kinds of inputs, with their numbers in a recording.
macro_rules! kinds {
    ($($(#[$about:meta])* $kind:ident = $number:literal,)*) => {
        /// The kind of an input.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(in crate::client) enum Kind {
            $($(#[$about])* $kind = $number,)*
        }

        impl Kind {
            fn from_number(number: u8) -> Option<Self> {
                match number {
                    $($number => Some(Self::$kind),)*
                    _ => None,
                }
            }
        }
    };
}

kinds! {
    /// The client was opened.
    Open = 1,
    /// A socket is connected.
    Connected = 2,
    /// Bytes arrived on a socket.
    Received = 3,
    /// A socket failed.
    Failed = 4,
    /// Bytes of a late reply arrived, whose content is left out.
    LateReply = 5,
    /// A deadline passed.
    Timeout = 6,
    /// A command begins.
    Begin = 7,
    /// A waiting operation was resumed.
    Resume = 8,
    /// A waiting operation was cancelled.
    Cancel = 9,
    /// An exchange was given back, because its idle connection had failed.
    Refuse = 10,
    /// An exchange was checked in.
    CheckIn = 11,
    /// The sessions and pins of cursors were given back.
    Release = 12,
    /// The next command that ends sessions was asked for.
    EndSessions = 13,
    /// The client metadata changed.
    Metadata = 14,
    /// The client was closed.
    Close = 15,
    /// The parts of a closed client were ended.
    CloseNow = 16,
    /// The shell has stopped.
    Abandon = 17,
    /// An input that recordings do not keep.
    Lacking = 18,
    /// A question was answered, or its work was given up.
    Answer = 19,
    /// A server selector of the application made its choice.
    Choice = 20,
    /// A connection whose bytes have secrets has received messages, or has failed.
    Step = 21,
    /// An input about a session of the application.
    Session = 32,
    /// A program asked a question.
    Ask = 33,
}

/// How much of a late reply has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::client) enum LateReply {
    /// More is to come.
    Part = 0,
    /// The whole reply.
    Whole = 1,
    /// The whole reply, which has opened a cursor.
    WithCursor = 2,
}

/// An input that was read.
#[derive(Debug)]
pub(super) enum Input<'a> {
    Open,
    Connected(SocketId),
    Received(SocketId, &'a [u8]),
    Failed(SocketId, Error),
    LateReply(SocketId, LateReply),
    Timeout,
    Begin(Box<(Span, Command)>),
    Resume(OperationId),
    Cancel(OperationId),
    Refuse(OperationId, Error),
    CheckIn(OperationId, CheckIn<'a>),
    Release(Vec<CursorResources>),
    EndSessions,
    Metadata(&'a [u8]),
    Close,
    CloseNow,
    Abandon(Error),
    Lacking(&'a str),
    Answer(QuestionId, Answer),
    Choice(OperationId, Choice<'a>),
    Step(SocketId, ConnectionStep),
    Session(SessionInput),
    Ask(Box<Asked>),
}

/// The end of an exchange that was read.
#[derive(Debug)]
pub(super) struct CheckIn<'a> {
    pub(super) outcome: Outcome,
    pub(super) end: ExchangeEnd,
    /// The assessment of the reply, which is read once the kind of the command is known.
    pub(super) assessment: &'a [u8],
}

const IS_UNDER_WAY: u8 = 1;
const IS_UNWRITTEN: u8 = 2;
const IS_RETRACTABLE: u8 = 4;
const HAS_INPUT: u8 = 8;
const OPENS_CURSOR: u8 = 16;
const ENDS_SESSION: u8 = 32;

/// Writes the end of an exchange. Fails with the name of the part that a recording cannot keep.
pub(in crate::client) fn put_check_in(
    out: &mut Vec<u8>,
    exchange: &Exchange,
    outcome: &Outcome,
) -> Result<(), &'static str> {
    put_number(out, exchange.operation().0);
    match outcome {
        Outcome::Completed => out.push(0),
        Outcome::Abandoned => out.push(1),
        Outcome::Failed(error) => {
            out.push(2);
            put_error(out, error)?;
        }
    }
    let end = exchange.recorded_end(outcome)?;
    let flags = [
        (end.is_under_way, IS_UNDER_WAY),
        (end.is_unwritten, IS_UNWRITTEN),
        (end.is_retractable, IS_RETRACTABLE),
        (end.has_input, HAS_INPUT),
        (end.opens_cursor, OPENS_CURSOR),
        (end.ends_session, ENDS_SESSION),
    ];
    let flags = flags.into_iter().filter(|(is_set, _)| *is_set);
    out.push(flags.fold(0, |all, (_, flag)| all | flag));
    put_session(out, end.session);
    put_pin_use(out, end.pin.as_ref());
    put_holders(out, &end.pinned);
    put_assessment(out, exchange.operation.exchange.assessment.as_ref())
}

fn check_in<'a>(input: &mut Bytes<'a>) -> Result<CheckIn<'a>, Unread> {
    let what = "the outcome of an exchange";
    let outcome = match input.byte(what)? {
        0 => Outcome::Completed,
        1 => Outcome::Abandoned,
        2 => Outcome::Failed(error(input)?),
        _ => return Err(Unread::Damaged(what)),
    };
    let flags = input.byte("the state of an exchange")?;
    let has = |flag: u8| flags & flag != 0;
    let end = ExchangeEnd {
        is_under_way: has(IS_UNDER_WAY),
        is_unwritten: has(IS_UNWRITTEN),
        is_retractable: has(IS_RETRACTABLE),
        has_input: has(HAS_INPUT),
        opens_cursor: has(OPENS_CURSOR),
        ends_session: has(ENDS_SESSION),
        session: input.session()?,
        pin: pin_use(input)?,
        pinned: holders(input)?,
    };
    Ok(CheckIn {
        outcome,
        end,
        assessment: std::mem::take(&mut input.0),
    })
}

/// An entry that was read.
#[derive(Debug)]
pub(super) struct Entry<'a> {
    pub(super) kind: Kind,
    /// The time since the entry before, in nanoseconds.
    pub(super) since: u64,
    /// The bytes of the input.
    input: &'a [u8],
    pub(super) digest: u32,
}

impl<'a> Entry<'a> {
    /// Reads the next entry.
    pub(super) fn read(file: &mut Bytes<'a>) -> Result<Self, Unread> {
        let mut entry = Bytes(file.bytes("the next entry")?);
        let end = entry.0.len().checked_sub(4);
        let (rest, digest) = end
            .and_then(|end| entry.0.split_at_checked(end))
            .ok_or(Unread::Damaged("the digest of an entry"))?;
        let digest = digest.first_chunk().copied().unwrap_or_default();
        entry.0 = rest;
        let what = "the kind of an entry";
        Ok(Self {
            kind: Kind::from_number(entry.byte(what)?).ok_or(Unread::Damaged(what))?,
            since: entry.number("the time of an entry")?,
            input: entry.0,
            digest: u32::from_le_bytes(digest),
        })
    }

    /// Reads the input of the entry.
    pub(super) fn input(&self) -> Result<Input<'a>, Unread> {
        let mut rest = Bytes(self.input);
        let input = &mut rest;
        let read = match self.kind {
            Kind::Open => Input::Open,
            Kind::Connected => Input::Connected(input.socket()?),
            Kind::Received => {
                let socket = input.socket()?;
                Input::Received(socket, input.bytes("the bytes of a socket")?)
            }
            Kind::Failed => Input::Failed(input.socket()?, error(input)?),
            Kind::LateReply => {
                let (socket, what) = (input.socket()?, "the state of a late reply");
                let all = [LateReply::Part, LateReply::Whole, LateReply::WithCursor];
                let state = all.get(usize::from(input.byte(what)?));
                Input::LateReply(socket, *state.ok_or(Unread::Damaged(what))?)
            }
            Kind::Timeout => Input::Timeout,
            Kind::Begin => Input::Begin(Box::new(command(input)?)),
            Kind::Resume => Input::Resume(input.operation()?),
            Kind::Cancel => Input::Cancel(input.operation()?),
            Kind::Refuse => Input::Refuse(input.operation()?, error(input)?),
            Kind::CheckIn => Input::CheckIn(input.operation()?, check_in(input)?),
            Kind::Release => Input::Release(resources(input)?),
            Kind::EndSessions => Input::EndSessions,
            Kind::Metadata => Input::Metadata(input.bytes("the client metadata")?),
            Kind::Close => Input::Close,
            Kind::CloseNow => Input::CloseNow,
            Kind::Abandon => Input::Abandon(error(input)?),
            Kind::Lacking => Input::Lacking(input.text("the name of an input")?),
            Kind::Answer => {
                let (question, answer) = answer(input)?;
                Input::Answer(question, answer)
            }
            Kind::Choice => {
                let (operation, choice) = choice(input)?;
                Input::Choice(operation, choice)
            }
            Kind::Step => {
                let (socket, step) = step(input)?;
                Input::Step(socket, step)
            }
            Kind::Session => Input::Session(SessionInput::read(input)?),
            Kind::Ask => Input::Ask(Box::new(asked(input)?)),
        };
        match rest.0.is_empty() {
            true => Ok(read),
            false => Err(Unread::Damaged("the end of an entry")),
        }
    }
}

impl Input<'_> {
    /// Returns the input in words.
    pub(super) fn describe(&self) -> String {
        let socket = |socket: &SocketId| format!("socket {}", socket.number());
        match self {
            Self::Open => "the client is opened".to_owned(),
            Self::Connected(id) => format!("{} is connected", socket(id)),
            Self::Received(id, bytes) => match bytes.len() {
                0 => format!("{} was closed by the peer", socket(id)),
                length => format!("{} received {length} bytes", socket(id)),
            },
            Self::Failed(id, error) => format!("{} failed: {error}", socket(id)),
            Self::LateReply(id, LateReply::Part) => {
                format!("{} received a part of a late reply", socket(id))
            }
            Self::LateReply(id, _) => format!("{} received a late reply", socket(id)),
            Self::Timeout => "a deadline passed".to_owned(),
            Self::Begin(begun) => {
                let (span, command) = &**begun;
                let database = &command.0.request.database;
                let name = command.name();
                match span.limits() {
                    None => format!("an operation begins: {name} on {database}"),
                    Some((id, ..)) => format!("operation {} continues: {name}", id.0),
                }
            }
            Self::Resume(id) => format!("operation {} is resumed", id.0),
            Self::Cancel(id) => format!("operation {} is cancelled", id.0),
            Self::Refuse(id, error) => {
                format!("the idle connection of operation {} failed: {error}", id.0)
            }
            Self::CheckIn(id, check_in) => match &check_in.outcome {
                Outcome::Completed => format!("operation {} has its reply", id.0),
                Outcome::Abandoned => format!("operation {} was given up", id.0),
                Outcome::Failed(error) => format!("operation {} failed: {error}", id.0),
            },
            Self::Release(all) => format!("sessions or pins are given back: {}", all.len()),
            Self::EndSessions => "the sessions are to be ended".to_owned(),
            Self::Metadata(_) => "the client metadata changed".to_owned(),
            Self::Close => "the client is closed".to_owned(),
            Self::CloseNow => "the closed client is ended".to_owned(),
            Self::Abandon(error) => format!("the client is abandoned: {error}"),
            Self::Lacking(what) => format!("an input that recordings do not keep: {what}"),
            Self::Answer(id, Answer::Records(Ok(found))) => {
                format!("question {} has {} DNS records", id.0, found.records.len())
            }
            Self::Answer(id, Answer::Records(Err(error))) => {
                format!("question {} has no DNS records: {error}", id.0)
            }
            Self::Answer(id, Answer::Keys(_)) => {
                format!("the keys of question {} are derived", id.0)
            }
            Self::Answer(id, Answer::Found(Ok(_))) => format!("question {} is answered", id.0),
            Self::Answer(id, _) => format!("question {} has no answer", id.0),
            Self::Step(id, step) => step.describe(*id),
            Self::Choice(id, choice) => {
                format!(
                    "the server selector of operation {} {}",
                    id.0,
                    choice.describe()
                )
            }
            Self::Session(input) => input.describe(),
            Self::Ask(asked) => match asked.span.limits() {
                None => "an operation begins: it asks a question".to_owned(),
                Some((id, ..)) => format!("operation {} asks a question", id.0),
            },
        }
    }
}
