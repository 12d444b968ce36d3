//! One authentication of one connection: documents in, the next command out.
//!
//! Only connections that operations use authenticate; monitors never do (AUTH-13).

mod conversation;
mod hash;
mod keys;
mod sasl;
mod scram;

pub use conversation::{Conversation, Step};
pub use keys::{KeyCache, MAX_CACHED_KEYS};
pub use scram::{MAX_ITERATIONS, MIN_ITERATIONS};

#[cfg(test)]
mod tests;
