//! The use of a transaction by one command.

use super::{CommandKind, Exchange, Remains, Request};
use crate::{
    bson::DocumentWriter,
    options::{ReadConcern, WriteConcern},
};
use std::ops::Range;

/// The part of a command in a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TransactionStep {
    /// A command of the application.
    Statement,
    /// The command `commitTransaction`.
    Commit,
    /// The command `abortTransaction`.
    Abort,
}

/// A command's use of the transaction of its session.
#[derive(Debug)]
pub(crate) struct InTransaction {
    pub(crate) step: TransactionStep,
    /// True if the command starts the transaction on the server.
    pub(crate) starts: bool,
    /// The read concern of the transaction, if the command starts it.
    pub(crate) read_concern: Option<ReadConcern>,
    /// True once bytes of the command were sent, or can have been.
    pub(crate) is_sent: bool,
    /// True once bytes were sent, or can have been, at the present place of the transaction. A
    /// retry can decide another place.
    pub(crate) is_sent_there: bool,
    /// True if this attempt has decided the place of the transaction.
    pub(crate) decides_place: bool,
}

impl InTransaction {
    pub(crate) fn new(step: TransactionStep) -> Box<Self> {
        Box::new(Self {
            step,
            starts: false,
            read_concern: None,
            is_sent: false,
            is_sent_there: false,
            decides_place: false,
        })
    }
}

/// The settings that a call has itself, rather than those of its collection, database or client. In
/// a transaction, such settings are refused, while the others have no effect.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OwnSettings {
    pub(crate) read_concern: bool,
    pub(crate) write_concern: bool,
    pub(crate) criteria: bool,
    pub(crate) timeout: bool,
}

impl Exchange {
    /// True for a command of a transaction.
    pub(super) fn is_in_transaction(&self) -> bool {
        self.operation.request.transaction.is_some()
    }

    /// Notes for the transaction of the command whether it was sent. `remains` is what the exchange
    /// leaves on its connection.
    #[inline]
    pub(crate) fn note_in_transaction(&mut self, remains: &Remains) {
        let has_reply = self.operation.exchange.assessment.is_some();
        if let Some(part) = &mut self.operation.request.transaction {
            let is_sent = has_reply || !matches!(remains, Remains::Nothing);
            part.is_sent |= is_sent;
            part.is_sent_there |= is_sent;
        }
    }
}

impl Request {
    /// Returns the part of the command in a transaction; `None` outside of one.
    pub(crate) fn transaction_step(&self) -> Option<TransactionStep> {
        self.transaction.as_ref().map(|part| part.step)
    }

    /// True for a `killCursors`.
    pub(crate) fn closes_cursors(&self) -> bool {
        self.kind == CommandKind::CursorFollowUp && self.name() == "killCursors"
    }

    /// True for the commands that end a transaction. They are retried whatever the options of the
    /// client are.
    pub(crate) fn ends_transaction(&self) -> bool {
        let step = self.transaction_step();
        step.is_some_and(|step| step != TransactionStep::Statement)
    }

    /// Sets the write concern, in place of that which was set.
    pub(crate) fn set_write_concern(&mut self, concern: Option<&WriteConcern>) {
        self.remove_write_concern();
        let Some(concern) = concern.filter(|concern| !concern.is_empty()) else {
            return;
        };
        let start = self.elements.len();
        let mut body = DocumentWriter::bare(&mut self.elements);
        body.document("writeConcern", &concern.to_document());
        self.write_concern = start..self.elements.len();
    }

    pub(super) fn remove_write_concern(&mut self) {
        let place: Range<usize> = std::mem::take(&mut self.write_concern);
        if !place.is_empty() {
            self.elements.drain(place);
        }
    }
}
