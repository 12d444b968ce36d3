//! Authentication of connections, without I/O: a conversation takes replies and gives commands.
//!
//! Only connections of pools authenticate; connections of monitors do not (AUTH-13).

mod conversation;
mod hash;
mod keys;
mod sasl;
mod scram;

pub use conversation::{Conversation, Step};
pub use keys::{DerivedKeys, KeyCache, KeyDerivation, KeyName, MAX_CACHED_KEYS, MAX_UNPROVEN_KEYS};
pub use scram::{MAX_ITERATIONS, MIN_ITERATIONS};

#[cfg(test)]
mod tests;
