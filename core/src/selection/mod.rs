//! Server selection: read preferences, staleness, the latency window, and the choice within the
//! window.

mod ability;
mod criteria;
mod error;
mod narrowing;
mod preference;
mod ranking;
mod selector;
mod staleness;
mod suitable;
#[cfg(test)]
mod tests;

pub use crate::options::DEFAULT_LOCAL_THRESHOLD;
pub use criteria::Criteria;
pub use error::selection_error;
pub use narrowing::{SelectorAnswer, SelectorQuestion};
pub use preference::{read_preference_to_send, write_read_preference};
pub use selector::{MAX_CACHED_WINDOWS, Selector};
pub use staleness::{IDLE_WRITE_PERIOD, SMALLEST_MAX_STALENESS};
pub use suitable::{in_window, suitable};
