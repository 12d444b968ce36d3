//! The questions of programs in a recording. A question has no content: only whether its work
//! occupies a thread decides anything, and the program, which reads the answer, is not replayed.

use super::{
    bytes::{Bytes, Unread, put_duration, put_number},
    command::{put_span, span},
};
use crate::{
    client::Inquiry,
    operation::{Ask, OperationId, Span},
};

/// A question of a program that was read.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) span: Span,
    pub(super) ask: Ask,
    /// The operation whose exchange is kept meanwhile; `None` if there is none.
    pub(super) held: Option<OperationId>,
}

/// Writes the question of a program, and the operation whose exchange is kept meanwhile.
pub(in crate::client) fn put_ask(
    out: &mut Vec<u8>,
    span: &Span,
    ask: &Ask,
    held: Option<OperationId>,
) -> Result<(), &'static str> {
    put_span(out, span);
    put_duration(out, ask.timeout);
    out.push(ask.inquiry.occupies_thread().into());
    put_number(out, held.map_or(0, |held| held.0.saturating_add(1)));
    Ok(())
}

/// Reads a question that [`put_ask`] has written.
pub(super) fn asked(input: &mut Bytes<'_>) -> Result<Asked, Unread> {
    let span = span(input)?;
    let (timeout, what) = (input.duration()?, "the work for a question");
    let inquiry = match input.byte(what)? {
        0 => Inquiry::Environment(&[]),
        1 => Inquiry::File(String::new()),
        _ => return Err(Unread::Damaged(what)),
    };
    let held = input.number("the exchange of a question")?;
    Ok(Asked {
        span,
        ask: Ask { inquiry, timeout },
        held: held.checked_sub(1).map(OperationId),
    })
}
