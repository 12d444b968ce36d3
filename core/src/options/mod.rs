//! What a user can choose: typed options with the defaults of the specifications.

mod concern;
mod credential;
mod read_preference;
mod secret;
mod tls;

pub use concern::{Acknowledgment, ReadConcern, WriteConcern};
pub use credential::{Credential, Mechanism};
pub use read_preference::{ReadMode, ReadPreference};
pub use secret::Secret;
pub use tls::TlsOptions;
