//! One authentication of one connection: documents in, the next command out.
//!
//! Only connections that operations use authenticate; monitors never do (AUTH-13).

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
