//! Long queries in slices, between which other queries have their turn.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;

/// Calls a function whenever a query has taken a number of steps. Clones share the count.
#[derive(Clone)]
pub(crate) struct Slices(Rc<State>);

struct State {
    steps: u64,
    /// The steps of the slice that are left.
    left: Cell<u64>,
    between: RefCell<Box<dyn FnMut() -> bool>>,
}

impl fmt::Debug for Slices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Slices")
    }
}

impl Slices {
    /// Creates slices of this number of steps. `between` returns false if the query must end.
    pub(crate) fn new(steps: u64, between: impl FnMut() -> bool + 'static) -> Self {
        Self(Rc::new(State {
            steps,
            left: Cell::new(steps),
            between: RefCell::new(Box::new(between)),
        }))
    }

    /// Counts steps. Returns false if the query must end.
    pub(super) fn count(&self, steps: u64) -> bool {
        let state = &*self.0;
        match state.left.get().checked_sub(steps) {
            Some(left) if left > 0 => {
                state.left.set(left);
                true
            }
            _ => {
                state.left.set(state.steps);
                (state.between.borrow_mut())()
            }
        }
    }
}
