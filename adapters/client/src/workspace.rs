//! The memory of compressors, which the exchanges of a thread share.

use onionskin_core::operation::{Exchange, Workspace};
use std::cell::Cell;

thread_local! {
    static WORKSPACE: Cell<Workspace> = Cell::default();
}

/// The workspace of this thread, lent to one exchange if the exchange can use it.
#[must_use]
pub(crate) struct Lent(bool);

impl Lent {
    #[inline]
    pub(crate) fn to(exchange: &mut Exchange) -> Self {
        let is_needed = exchange.has_compression();
        if is_needed {
            // A thread that ends has no workspace any more. The exchange then makes its own.
            let mut workspace = WORKSPACE.try_with(Cell::take).unwrap_or_default();
            exchange.swap_workspace(&mut workspace);
        }
        Self(is_needed)
    }

    #[inline]
    pub(crate) fn take_back(self, exchange: &mut Exchange) {
        if self.0 {
            let mut workspace = Workspace::default();
            exchange.swap_workspace(&mut workspace);
            let _ = WORKSPACE.try_with(|kept| kept.set(workspace));
        }
    }
}
