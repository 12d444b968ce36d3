//! Authentication of connections, without I/O: a conversation takes replies and gives commands.
//!
//! Only connections of pools authenticate; connections of monitors do not (AUTH-13).
//!
//! | mechanism | file |
//! |---|---|
//! | SCRAM-SHA-1, SCRAM-SHA-256 | `scram.rs`, `hash.rs`, `keys.rs` |
//! | MONGODB-X509 | `x509.rs` |
//! | PLAIN | `plain.rs` |
//! | MONGODB-AWS | `aws/` |
//! | MONGODB-OIDC | `oidc/` |
//! | GSSAPI | `gssapi/` |
//!
//! `mechanism.rs` has the choice of the mechanism, and `conversation.rs` the steps that all
//! mechanisms share. Parts of a credential that come from outside of the connection, such as AWS
//! credentials and tokens, are obtained by the machines of `fetch.rs`, and kept in `caches.rs`.
//! `recorded.rs` has the authentication of clients that record themselves, and of their replays.

mod aws;
mod caches;
mod conversation;
mod fetch;
mod gssapi;
mod hash;
mod keys;
mod mechanism;
mod need;
mod oidc;
mod plain;
mod progress;
mod recorded;
mod redaction;
mod sasl;
mod scram;
mod supply;
mod x509;

pub use aws::{AwsKeys, AwsSource};
pub use caches::{AuthState, Caches};
pub use conversation::{Authenticated, Conversation, Step};
pub(crate) use fetch::CallLimits;
pub use fetch::{Finding, Inquiry, MAX_FILE_BYTES};
pub use gssapi::{KerberosStep, KerberosStepResult};
pub use keys::{DerivedKeys, KeyCache, KeyDerivation, KeyName, MAX_CACHED_KEYS, MAX_UNPROVEN_KEYS};
pub(crate) use mechanism::not_provided;
pub use need::{Need, Provided};
pub use oidc::Token;
pub(crate) use recorded::{Kept, Mode, replayed_keys};
pub use scram::{MAX_ITERATIONS, MIN_ITERATIONS};
pub(crate) use supply::{Supply, SupplyStep};

#[cfg(test)]
mod tests;
