//! The Onionskin MongoDB driver for programs that block: one thread, and nothing in the background.
//!
//! Unix systems only.

#![forbid(unsafe_code)]
#![cfg(unix)]

mod executor;
mod reactor;
mod runtime;
mod stream;

pub use runtime::{BlockingRuntime, Sleep};
pub use stream::BlockingStream;
