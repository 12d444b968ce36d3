//! The numbers, texts and ids in the entries of a recording.

use crate::{
    connection::SocketId, error::Error, operation::OperationId, session::SessionId, time::Instant,
};
use bson::Timestamp;
use std::time::Duration;

/// The reason why an entry cannot be replayed.
#[derive(Debug)]
pub(super) enum Unread {
    /// The file is damaged: this is missing or wrong.
    Damaged(&'static str),
    /// The recording lacks this part of the client's life.
    Lacking(String),
}

impl From<Unread> for Error {
    fn from(reason: Unread) -> Self {
        Self::argument(match reason {
            Unread::Damaged(what) => {
                format!("the recording is damaged: {what} is missing or wrong")
            }
            Unread::Lacking(what) => format!("recordings do not keep {what}"),
        })
    }
}

pub(super) fn put_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

pub(super) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

pub(super) fn put_socket(out: &mut Vec<u8>, socket: SocketId) {
    put_number(out, socket.number());
    put_number(out, socket.slot().into());
}

pub(super) fn put_session(out: &mut Vec<u8>, session: Option<SessionId>) {
    let (number, slot) = session.map_or((0, 0), SessionId::parts);
    put_number(out, number);
    if number > 0 {
        put_number(out, slot.into());
    }
}

/// Writes an instant, or none as 0.
pub(super) fn put_instant(out: &mut Vec<u8>, at: Option<Instant>) {
    put_number(out, at.map_or(0, |at| at.as_nanos().saturating_add(1)));
}

/// Writes a duration, or none as 0.
pub(super) fn put_duration(out: &mut Vec<u8>, duration: Option<Duration>) {
    let nanos = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    put_number(
        out,
        duration.map_or(0, |duration| nanos(duration).saturating_add(1)),
    );
}

/// Writes the time of a server, or none as 0.
pub(super) fn put_timestamp(out: &mut Vec<u8>, at: Option<Timestamp>) {
    put_number(out, at.map_or(0, |at| u64::from(at.time) + 1));
    if let Some(at) = at {
        put_number(out, at.increment.into());
    }
}

/// The rest of an entry that is read.
#[derive(Debug)]
pub(super) struct Bytes<'a>(pub(super) &'a [u8]);

impl<'a> Bytes<'a> {
    pub(super) fn byte(&mut self, what: &'static str) -> Result<u8, Unread> {
        let (&byte, rest) = self.0.split_first().ok_or(Unread::Damaged(what))?;
        self.0 = rest;
        Ok(byte)
    }

    pub(super) fn number(&mut self, what: &'static str) -> Result<u64, Unread> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte(what)?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(Unread::Damaged(what))
    }

    pub(super) fn bytes(&mut self, what: &'static str) -> Result<&'a [u8], Unread> {
        let length = usize::try_from(self.number(what)?).map_err(|_| Unread::Damaged(what))?;
        let (bytes, rest) = self
            .0
            .split_at_checked(length)
            .ok_or(Unread::Damaged(what))?;
        self.0 = rest;
        Ok(bytes)
    }

    pub(super) fn text(&mut self, what: &'static str) -> Result<&'a str, Unread> {
        std::str::from_utf8(self.bytes(what)?).map_err(|_| Unread::Damaged(what))
    }

    pub(super) fn socket(&mut self) -> Result<SocketId, Unread> {
        let number = self.number("the number of a socket")?;
        Ok(SocketId::new(number, self.slot()?))
    }

    pub(super) fn session(&mut self) -> Result<Option<SessionId>, Unread> {
        let number = self.number("the number of a session")?;
        if number == 0 {
            return Ok(None);
        }
        Ok(Some(SessionId::from_parts(number, self.slot()?)))
    }

    fn slot(&mut self) -> Result<u32, Unread> {
        let what = "the slot of an id";
        u32::try_from(self.number(what)?).map_err(|_| Unread::Damaged(what))
    }

    pub(super) fn operation(&mut self) -> Result<OperationId, Unread> {
        Ok(OperationId(self.number("the id of an operation")?))
    }

    pub(super) fn instant(&mut self) -> Result<Option<Instant>, Unread> {
        let nanos = self.number("an instant")?;
        Ok(nanos.checked_sub(1).map(Instant::from_nanos))
    }

    pub(super) fn timestamp(&mut self) -> Result<Option<Timestamp>, Unread> {
        let what = "the time of a server";
        let Some(time) = self.number(what)?.checked_sub(1) else {
            return Ok(None);
        };
        let part = |number: u64| u32::try_from(number).map_err(|_| Unread::Damaged(what));
        Ok(Some(Timestamp {
            time: part(time)?,
            increment: part(self.number(what)?)?,
        }))
    }

    pub(super) fn duration(&mut self) -> Result<Option<Duration>, Unread> {
        let nanos = self.number("a duration")?;
        Ok(nanos.checked_sub(1).map(Duration::from_nanos))
    }
}
