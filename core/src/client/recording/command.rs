//! Commands in a recording, without their documents.

use super::bytes::{Bytes, Unread, put_bytes, put_duration, put_instant, put_number, put_session};
use crate::{
    address::Address,
    operation::{
        Command, CommandKind, CursorResources, CursorSettings, OperationId, Span, TimeoutMode,
        crud::CursorType,
    },
    options::{ReadPreference, ServerSelector},
    session::SessionId,
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

/// The largest number of sessions that are given back at once.
const MAX_SESSIONS: usize = 1000;

const IS_ACKNOWLEDGED: u8 = 1;
const ENDS_SESSION: u8 = 2;
const SENDS_MULTI: u8 = 4;
const IS_AWAITED: u8 = 8;
const HAS_SELECTOR: u8 = 16;

/// Writes the span of a program and its command. Fails with the name of the part that a recording
/// cannot keep.
pub(super) fn put_command(
    out: &mut Vec<u8>,
    span: &Span,
    command: &Command,
) -> Result<(), &'static str> {
    let operation = &command.0;
    let request = &operation.request;
    if request.pin.is_some() {
        return Err("a pinned connection");
    }
    if request.is_explicit {
        return Err("a session of the application");
    }
    let Some(sends_multi) = request.sends_multi() else {
        return Err("a bulk write whose later statements can affect several documents");
    };
    match span.limits() {
        None => out.push(0),
        Some((id, timeout, deadline)) => {
            put_number(out, id.0.saturating_add(1));
            put_duration(out, timeout);
            put_instant(out, deadline);
        }
    }
    put_bytes(out, request.name().as_bytes());
    put_bytes(out, request.database.as_bytes());
    put_number(out, kind_number(request.kind));
    let target = request.target.as_ref();
    let flags = [
        (request.acknowledged, IS_ACKNOWLEDGED),
        (request.ends_session, ENDS_SESSION),
        (sends_multi, SENDS_MULTI),
        (target.is_some_and(|target| target.is_awaited), IS_AWAITED),
        (request.narrowing.is_some(), HAS_SELECTOR),
    ];
    let flags = flags.into_iter().filter(|(is_set, _)| *is_set);
    out.push(flags.fold(0, |all, (_, flag)| all | flag));
    put_preference(out, request.read_preference.as_deref());
    let target = target.map(|target| target.address.to_string());
    put_bytes(out, target.unwrap_or_default().as_bytes());
    put_duration(out, request.timeout);
    put_instant(out, operation.deadline);
    put_session(out, request.session);
    let pauses = operation.retry.pauses_before;
    put_number(out, pauses.map_or(0, |pauses| u64::from(pauses) + 1));
    put_cursor(out, request.cursor.as_deref());
    put_resources(out, request.released.as_deref())
}

/// Reads a span and a command that [`put_command`] has written.
pub(super) fn command(input: &mut Bytes<'_>) -> Result<(Span, Command), Unread> {
    let mut span = Span::default();
    let id = input.number("the id of an operation")?;
    if let Some(id) = id.checked_sub(1) {
        let (timeout, deadline) = (input.duration()?, input.instant()?);
        span.open(OperationId(id), timeout, deadline);
    }
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
    if flags & SENDS_MULTI != 0 {
        request.replay_multi();
    }
    if flags & HAS_SELECTOR != 0 {
        // It is not called, because its choices are recorded.
        request.narrowing = Some(ServerSelector::new(|_| {}));
    }
    request.read_preference = preference;
    request.timeout = input.duration()?;
    let deadline = input.instant()?;
    request.session = input.session()?;
    let pauses = input.number("the number of pauses")?;
    let pauses = pauses.checked_sub(1).map(u32::try_from).transpose();
    let pauses = pauses.map_err(|_| Unread::Damaged("the number of pauses"))?;
    request.cursor = cursor(input)?;
    command.0.deadline = deadline;
    command.0.retry.pauses_before = pauses;
    let sessions = sessions(input)?;
    command.set_released(resources(sessions));
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
fn put_preference(out: &mut Vec<u8>, preference: Option<&ReadPreference>) {
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

fn preference(input: &mut Bytes<'_>) -> Result<Option<Arc<ReadPreference>>, Unread> {
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

/// Writes the sessions that are given back. Fails if a pin is given back too, or if the sessions
/// are too many.
pub(in crate::client) fn put_resources(
    out: &mut Vec<u8>,
    resources: Option<&CursorResources>,
) -> Result<(), &'static str> {
    let (mut next, mut count) = (resources, 0);
    while let Some(resources) = next {
        if resources.pin.is_some() {
            return Err("a pinned connection");
        }
        if resources.session.is_some() {
            put_session(out, resources.session);
            count += 1;
        }
        if count > MAX_SESSIONS {
            return Err("more than 1000 sessions that are given back at once");
        }
        next = resources.more.as_deref();
    }
    put_session(out, None);
    Ok(())
}

/// Reads the sessions that [`put_resources`] has written.
pub(super) fn sessions(input: &mut Bytes<'_>) -> Result<Vec<SessionId>, Unread> {
    let mut sessions = Vec::new();
    while let Some(session) = input.session()? {
        if sessions.len() == MAX_SESSIONS {
            return Err(Unread::Damaged("the end of the sessions"));
        }
        sessions.push(session);
    }
    Ok(sessions)
}

/// Returns the resources with these sessions.
pub(super) fn resources(sessions: Vec<SessionId>) -> CursorResources {
    let mut all = CursorResources::default();
    for session in sessions.into_iter().rev() {
        let more = std::mem::take(&mut all);
        all.session = Some(session);
        all.more = (!more.is_empty()).then(|| Box::new(more));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_list_of_too_many_sessions_is_refused() {
        for (count, is_kept) in [(MAX_SESSIONS, true), (MAX_SESSIONS + 1, false)] {
            let all = (1..=count as u64).map(|number| SessionId::from_parts(number, 0));
            let all: Vec<SessionId> = all.collect();
            let mut bytes = Vec::new();
            for session in &all {
                put_session(&mut bytes, Some(*session));
            }
            put_session(&mut bytes, None);
            assert_eq!(sessions(&mut Bytes(&bytes)).is_ok(), is_kept);
            let written = put_resources(&mut Vec::new(), Some(&resources(all)));
            assert_eq!(written.is_ok(), is_kept);
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
