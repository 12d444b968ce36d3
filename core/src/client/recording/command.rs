//! Commands in a recording, without their documents.

use super::{
    bytes::{Bytes, Unread, put_bytes, put_duration, put_instant, put_number, put_session},
    pins::{holder, pin_use, put_holder, put_pin_use},
};
use crate::{
    address::Address,
    operation::{
        Command, CommandKind, CursorResources, CursorSettings, InTransaction, OperationId,
        OwnSettings, Pin, Portion, Request, Span, TimeoutMode, TransactionStep, crud::CursorType,
    },
    options::{ReadPreference, ServerSelector},
};
use bson::doc;
use std::sync::Arc;

/// The kinds of commands, by their numbers in a recording.
const KINDS: [CommandKind; 6] = [
    CommandKind::Read,
    CommandKind::RetryableWrite,
    CommandKind::Write,
    CommandKind::Run,
    CommandKind::WritingAggregate,
    CommandKind::CursorFollowUp,
];

/// The types of cursors, by their numbers in a recording; 0 is none.
const CURSOR_TYPES: [CursorType; 3] = [
    CursorType::NonTailable,
    CursorType::Tailable,
    CursorType::TailableAwait,
];

/// The time limits of cursors, by their numbers in a recording; 0 is none.
const TIMEOUT_MODES: [TimeoutMode; 2] = [TimeoutMode::CursorLifetime, TimeoutMode::Iteration];

/// The ends of transactions, by their numbers in a recording. The client makes a statement of a
/// transaction only once the statement begins.
const STEPS: [TransactionStep; 2] = [TransactionStep::Commit, TransactionStep::Abort];

/// The largest number of sessions and pins that are given back at once.
const MAX_RESOURCES: usize = 1000;

const IS_ACKNOWLEDGED: u8 = 1;
const ENDS_SESSION: u8 = 2;
const SENDS_MULTI: u8 = 4;
const IS_AWAITED: u8 = 8;
const IS_EXPLICIT: u8 = 16;
const ENDS_TRANSACTION: u8 = 32;
const HAS_SELECTOR: u8 = 64;

const OWN_READ_CONCERN: u8 = 1;
const OWN_WRITE_CONCERN: u8 = 2;
const OWN_CRITERIA: u8 = 4;
const OWN_TIMEOUT: u8 = 8;

/// Writes the span of a program and its command. Fails with the name of the part that a recording
/// cannot keep.
pub(super) fn put_command(
    out: &mut Vec<u8>,
    span: &Span,
    command: &Command,
) -> Result<(), &'static str> {
    let operation = &command.0;
    let request = &operation.request;
    let before_multi = request.before_multi();
    put_span(out, span);
    put_bytes(out, request.name().as_bytes());
    put_bytes(out, request.database.as_bytes());
    put_number(out, kind_number(request.kind));
    let target = request.target.as_ref();
    out.push(flags([
        (request.acknowledged, IS_ACKNOWLEDGED),
        (request.ends_session, ENDS_SESSION),
        (before_multi.is_some(), SENDS_MULTI),
        (target.is_some_and(|target| target.is_awaited), IS_AWAITED),
        (request.is_explicit, IS_EXPLICIT),
        (request.transaction.is_some(), ENDS_TRANSACTION),
        (request.narrowing.is_some(), HAS_SELECTOR),
    ]));
    put_preference(out, request.read_preference.as_deref());
    let target = target.map(|target| target.address.to_string());
    put_bytes(out, target.unwrap_or_default().as_bytes());
    put_duration(out, request.timeout);
    put_instant(out, operation.deadline);
    put_session(out, request.session);
    put_use(out, request);
    if let Some(before) = before_multi {
        put_number(out, before.documents as u64);
        put_number(out, before.bytes as u64);
    }
    let pauses = operation.retry.pauses_before;
    put_number(out, pauses.map_or(0, |pauses| u64::from(pauses) + 1));
    put_cursor(out, request.cursor.as_deref());
    put_resources(out, request.released.as_deref())
}

/// Returns a byte with the flags that are set.
fn flags<const N: usize>(all: [(bool, u8); N]) -> u8 {
    let set = all.into_iter().filter(|(is_set, _)| *is_set);
    set.fold(0, |all, (_, flag)| all | flag)
}

/// Writes the operation id and the time limit of a program.
pub(super) fn put_span(out: &mut Vec<u8>, span: &Span) {
    match span.limits() {
        None => out.push(0),
        Some((id, timeout, deadline)) => {
            put_number(out, id.0.saturating_add(1));
            put_duration(out, timeout);
            put_instant(out, deadline);
        }
    }
}

/// Reads a span that [`put_span`] has written.
pub(super) fn span(input: &mut Bytes<'_>) -> Result<Span, Unread> {
    let mut span = Span::default();
    let id = input.number("the id of an operation")?;
    if let Some(id) = id.checked_sub(1) {
        let (timeout, deadline) = (input.duration()?, input.instant()?);
        span.open(OperationId(id), timeout, deadline);
    }
    Ok(span)
}

/// Writes what a command uses: of a session of the application, the settings of its call; of a
/// transaction that it ends, the step and the number; and its pin.
fn put_use(out: &mut Vec<u8>, request: &Request) {
    if request.is_explicit {
        let own = request.own;
        out.push(flags([
            (own.read_concern, OWN_READ_CONCERN),
            (own.write_concern, OWN_WRITE_CONCERN),
            (own.criteria, OWN_CRITERIA),
            (own.timeout, OWN_TIMEOUT),
        ]));
    }
    if request.transaction.is_some() {
        put_number(out, place(&STEPS, request.transaction_step().as_ref()));
        let number = request.txn_number.unwrap_or_default();
        put_number(out, number.cast_unsigned());
    }
    put_pin_use(out, request.pin.as_ref());
}

/// Reads what [`put_use`] has written for a command with these flags.
fn read_use(input: &mut Bytes<'_>, flags: u8, request: &mut Request) -> Result<(), Unread> {
    if flags & IS_EXPLICIT != 0 {
        let own = input.byte("the settings of a call")?;
        request.is_explicit = true;
        request.own = OwnSettings {
            read_concern: own & OWN_READ_CONCERN != 0,
            write_concern: own & OWN_WRITE_CONCERN != 0,
            criteria: own & OWN_CRITERIA != 0,
            timeout: own & OWN_TIMEOUT != 0,
        };
    }
    if flags & ENDS_TRANSACTION != 0 {
        let what = "the end of a transaction";
        let step = found(&STEPS, input.number(what)?).ok_or(Unread::Damaged(what))?;
        request.txn_number = Some(input.number(what)?.cast_signed());
        request.transaction = Some(InTransaction::new(step));
    }
    request.pin = pin_use(input)?;
    Ok(())
}

/// Reads the documents before the first statement that can affect several documents.
fn before_multi(input: &mut Bytes<'_>) -> Result<Portion, Unread> {
    let what = "the place of a statement";
    let mut size = || usize::try_from(input.number(what)?).map_err(|_| Unread::Damaged(what));
    Ok(Portion {
        documents: size()?,
        bytes: size()?,
    })
}

/// Reads a span and a command that [`put_command`] has written.
pub(super) fn command(input: &mut Bytes<'_>) -> Result<(Span, Command), Unread> {
    let span = span(input)?;
    let name = input.text("the name of a command")?;
    let database = input.text("the name of a database")?;
    let command = Command::from_document(&doc! { name: 1 }, database);
    let mut command = command.map_err(|_| Unread::Damaged("the name of a command"))?;
    let number = input.number("the kind of a command")?;
    let kind = found(&KINDS, number).ok_or(Unread::Damaged("the kind of a command"))?;
    let flags = input.byte("the flags of a command")?;
    let preference = preference(input)?;
    let target = input.text("the server of a command")?;
    if !target.is_empty() {
        let address = target.parse::<Address>();
        let address = address.map_err(|_| Unread::Damaged("the server of a command"))?;
        match flags & IS_AWAITED {
            0 => command.set_target_without_wait(address),
            _ => command.set_target(address),
        }
    }
    let request = &mut command.0.request;
    request.kind = kind;
    request.acknowledged = flags & IS_ACKNOWLEDGED != 0;
    request.ends_session = flags & ENDS_SESSION != 0;
    if flags & HAS_SELECTOR != 0 {
        // It is not called, because its choices are recorded.
        request.narrowing = Some(ServerSelector::new(|_| {}));
    }
    request.read_preference = preference;
    request.timeout = input.duration()?;
    let deadline = input.instant()?;
    request.session = input.session()?;
    read_use(input, flags, request)?;
    if flags & SENDS_MULTI != 0 {
        request.replay_multi(before_multi(input)?);
    }
    let pauses = input.number("the number of pauses")?;
    let pauses = pauses.checked_sub(1).map(u32::try_from).transpose();
    let pauses = pauses.map_err(|_| Unread::Damaged("the number of pauses"))?;
    request.cursor = cursor(input)?;
    command.0.deadline = deadline;
    command.0.retry.pauses_before = pauses;
    command.set_released(chain(resources(input)?));
    Ok((span, command))
}

/// Returns the number of a command's kind, for digests and entries.
pub(super) fn kind_number(kind: CommandKind) -> u64 {
    place(&KINDS, Some(&kind))
}

fn place<T: PartialEq>(all: &[T], wanted: Option<&T>) -> u64 {
    let place = wanted.and_then(|wanted| all.iter().position(|one| one == wanted));
    place.map_or(0, |place| place as u64 + 1)
}

fn found<T: Copy>(all: &[T], number: u64) -> Option<T> {
    let place = usize::try_from(number.checked_sub(1)?).ok()?;
    all.get(place).copied()
}

/// Writes a read preference: 0 for none, 1 for the mode `primary`, and otherwise as JSON with the
/// maximal staleness, of which the JSON has the whole seconds only.
pub(super) fn put_preference(out: &mut Vec<u8>, preference: Option<&ReadPreference>) {
    match preference {
        None => out.push(0),
        Some(ReadPreference::Primary) => out.push(1),
        Some(preference) => {
            out.push(2);
            put_bytes(out, &serde_json::to_vec(preference).unwrap_or_default());
            put_duration(out, preference.max_staleness());
        }
    }
}

pub(super) fn preference(input: &mut Bytes<'_>) -> Result<Option<Arc<ReadPreference>>, Unread> {
    let what = "a read preference";
    Ok(match input.byte(what)? {
        0 => None,
        1 => Some(Arc::new(ReadPreference::Primary)),
        _ => {
            let preference = serde_json::from_slice(input.bytes(what)?);
            let mut preference: ReadPreference = preference.map_err(|_| Unread::Damaged(what))?;
            if let Some(limit) = input.duration()? {
                let exact = preference.with_max_staleness(limit);
                preference = exact.map_err(|_| Unread::Damaged(what))?;
            }
            Some(Arc::new(preference))
        }
    })
}

/// Writes the settings of a cursor that decide whether its command begins.
fn put_cursor(out: &mut Vec<u8>, cursor: Option<&CursorSettings>) {
    let Some(cursor) = cursor else {
        out.push(0);
        return;
    };
    out.push(1);
    put_number(out, place(&CURSOR_TYPES, cursor.cursor_type.as_ref()));
    put_number(out, place(&TIMEOUT_MODES, cursor.timeout_mode.as_ref()));
    put_duration(out, cursor.max_await_time);
}

fn cursor(input: &mut Bytes<'_>) -> Result<Option<Box<CursorSettings>>, Unread> {
    if input.byte("the settings of a cursor")? == 0 {
        return Ok(None);
    }
    let cursor_type = found(&CURSOR_TYPES, input.number("the type of a cursor")?);
    let timeout_mode = found(&TIMEOUT_MODES, input.number("the time limit of a cursor")?);
    Ok(Some(Box::new(CursorSettings {
        cursor_type,
        timeout_mode,
        max_await_time: input.duration()?,
        ..CursorSettings::default()
    })))
}

/// Writes the sessions and the pins that are given back. Fails if they are too many.
pub(in crate::client) fn put_resources(
    out: &mut Vec<u8>,
    resources: Option<&CursorResources>,
) -> Result<(), &'static str> {
    let (mut next, mut count) = (resources, 0);
    while let Some(resources) = next {
        if resources.session.is_some() || resources.pin.is_some() {
            out.push(1);
            put_session(out, resources.session);
            put_holder(out, resources.pin.as_ref().map(|pin| pin.0));
            count += 1;
        }
        if count > MAX_RESOURCES {
            return Err("more than 1000 sessions or pins that are given back at once");
        }
        next = resources.more.as_deref();
    }
    out.push(0);
    Ok(())
}

/// Reads the sessions and the pins that [`put_resources`] has written.
pub(super) fn resources(input: &mut Bytes<'_>) -> Result<Vec<CursorResources>, Unread> {
    let what = "the end of the sessions";
    let mut all = Vec::new();
    loop {
        match input.byte(what)? {
            0 => return Ok(all),
            1 if all.len() < MAX_RESOURCES => all.push(CursorResources {
                session: input.session()?,
                pin: holder(input)?.map(Pin),
                more: None,
            }),
            _ => return Err(Unread::Damaged(what)),
        }
    }
}

/// Returns resources that have all of these.
pub(super) fn chain(all: Vec<CursorResources>) -> CursorResources {
    let mut rest = CursorResources::default();
    for mut resources in all.into_iter().rev() {
        resources.more = (!rest.is_empty()).then(|| Box::new(rest));
        rest = resources;
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        connection::SocketId,
        description::TopologyId,
        operation::{DocumentList, MultiOffsets, PinHolder, PinId, PinUse, PinnedFor},
        session::SessionId,
    };
    use bson::{RawDocumentBuf, oid::ObjectId};
    use std::time::Duration;

    fn of_sessions(count: usize) -> Vec<CursorResources> {
        let all = (1..=count as u64).map(|number| SessionId::from_parts(number, 0));
        all.map(CursorResources::of_session).collect()
    }

    fn pin() -> Pin {
        let id = PinId {
            client: TopologyId(ObjectId::from_bytes([1; 12])),
            socket: SocketId::new(7, 1),
            request: 5,
            nth: 0,
        };
        let pinned_for = PinnedFor::Cursor;
        Pin(PinHolder { id, pinned_for })
    }

    #[test]
    fn a_list_of_too_many_sessions_is_refused() {
        for (count, is_kept) in [(MAX_RESOURCES, true), (MAX_RESOURCES + 1, false)] {
            let mut bytes = Vec::new();
            for number in 1..=count as u64 {
                bytes.push(1);
                put_session(&mut bytes, Some(SessionId::from_parts(number, 0)));
                put_holder(&mut bytes, None);
            }
            bytes.push(0);
            assert_eq!(resources(&mut Bytes(&bytes)).is_ok(), is_kept);
            let written = put_resources(&mut Vec::new(), Some(&chain(of_sessions(count))));
            assert_eq!(written.is_ok(), is_kept);
        }
    }

    #[test]
    fn sessions_and_pins_are_read_as_they_were_written() {
        let mut all = of_sessions(2);
        all.push(CursorResources {
            session: None,
            pin: Some(pin()),
            more: None,
        });
        let mut bytes = Vec::new();
        put_resources(&mut bytes, Some(&chain(all))).expect("they are kept");
        let mut rest = Bytes(&bytes);
        let read = resources(&mut rest).expect("they are whole");
        assert!(rest.0.is_empty());
        let mut again = Vec::new();
        assert_eq!((read.len(), &read[2].pin), (3, &Some(pin())));
        put_resources(&mut again, Some(&chain(read))).expect("they are kept");
        assert_eq!(again, bytes);
        for length in 0..bytes.len() {
            assert!(resources(&mut Bytes(&bytes[..length])).is_err());
        }
    }

    /// Writes a command, reads it, and asserts that what was read is written in the same way.
    fn reread(command: &Command) -> Command {
        let mut bytes = Vec::new();
        put_command(&mut bytes, &Span::default(), command).expect("it is kept");
        let mut rest = Bytes(&bytes);
        let (span, read) = super::command(&mut rest).expect("it is whole");
        assert!(rest.0.is_empty());
        let mut again = Vec::new();
        put_command(&mut again, &span, &read).expect("it is kept");
        assert_eq!(again, bytes);
        for length in 0..bytes.len() {
            let cut = super::command(&mut Bytes(&bytes[..length]));
            assert!(cut.is_err(), "{length}");
        }
        read
    }

    #[test]
    fn a_command_of_a_session_is_read_with_its_transaction_and_its_pin() {
        let mut commit = Command::new("commitTransaction", "admin", CommandKind::RetryableWrite);
        commit.use_explicit_session(SessionId::from_parts(3, 4));
        commit.set_last_use(pin());
        let request = &mut commit.0.request;
        request.txn_number = Some(1 << 40);
        request.transaction = Some(InTransaction::new(TransactionStep::Commit));
        request.own.timeout = true;
        let read = reread(&commit).0.request;
        assert!(read.is_explicit && read.own.timeout && !read.own.criteria);
        assert_eq!(read.session, Some(SessionId::from_parts(3, 4)));
        assert_eq!(read.transaction_step(), Some(TransactionStep::Commit));
        assert_eq!(read.txn_number, Some(1 << 40));
        assert_eq!(read.pin, Some(PinUse::Last(pin())));
    }

    #[test]
    fn a_bulk_write_is_read_with_the_place_of_the_statement_for_several_documents() {
        let document = RawDocumentBuf::new().into_bytes();
        let size = document.len();
        let mut multi = MultiOffsets::default();
        multi.push(2 * size);
        let list = DocumentList::with_multi(document.repeat(4), multi);
        let mut update = Command::new("update", "db", CommandKind::RetryableWrite);
        update.set_batch("updates", list, 0);
        let read = reread(&update).0.request;
        let sequence = read.sequence.expect("it has a statement");
        for (documents, bytes, expected) in [
            (3, 2 * size + 1, true),
            (2, 2 * size + 1, false),
            (3, 2 * size, false),
        ] {
            let may = sequence.may_send_multi(documents, bytes);
            assert_eq!(may, expected, "{documents} {bytes}");
        }
    }

    #[test]
    fn a_read_preference_keeps_its_exact_staleness() {
        let limit = Duration::from_millis(90_500);
        let written = ReadPreference::secondary(None).with_max_staleness(limit);
        let written = written.expect("the mode takes it");
        let mut bytes = Vec::new();
        put_preference(&mut bytes, Some(&written));
        let mut rest = Bytes(&bytes);
        let read = preference(&mut rest).expect("it is whole");
        assert_eq!(read.as_deref(), Some(&written));
        assert!(rest.0.is_empty());
    }
}
