//! The reply to an attempt whose command may be retried.

use crate::{
    error::{Error, Label},
    operation::Exchange,
};
use bson::RawDocument;

/// A reply with write errors or a write concern error, until its command is known not to be
/// retried, or a retry has succeeded. The command was executed: the error of a retry does not undo
/// that.
#[derive(Debug)]
pub(super) struct Held<T> {
    pub(super) error: Error,
    /// The results in the reply; an error if they are malformed.
    pub(super) results: Result<T, Error>,
}

impl<T> Held<T> {
    /// Keeps the reply of a failed attempt if it has errors of writes. Returns true if it was kept.
    pub(super) fn keep(
        held: &mut Option<Self>,
        exchange: &Exchange,
        read: impl FnOnce(&RawDocument) -> Result<T, Error>,
    ) -> bool {
        let (Some(error), Some(reply)) = (exchange.write_error(), exchange.reply()) else {
            return false;
        };
        // The error of the first attempt is raised if a later one has written nothing (RW-P3).
        if held.is_some() && error.has_label(&Label::NoWritesPerformed) {
            return false;
        }
        *held = Some(Self {
            error: error.clone().with_server(&exchange.facts().address),
            results: read(reply),
        });
        true
    }
}
