//! The sources of identities that are not passwords: AWS credentials and tokens of OpenID Connect.
//!
//! An [`IdentityServer`] has the services from which machines get them. `IdentityEndpoint` of the
//! crate `onionskin-serve` runs it on a port of the loopback interface, and
//! `SimRuntime::start_identity_server` of `onionskin-worlds` in a virtual network.
//!
//! [`AwsIdentities`] and [`TokenIssuer`] are handles. A test gives a clone to the deployment, which
//! accepts the identities, and keeps another one to add identities and to issue tokens. Each
//! function that depends on the time takes it as an argument.
//!
//! ```
//! use onionskin_core::{address::Address, random::Seed};
//! use onionskin_deployment::{
//!     deployment::{AuthMechanism, DeploymentOptions},
//!     identity::{IdentityOptions, IssuerOptions, TokenClaims, TokenIssuer},
//! };
//! use std::time::Duration;
//!
//! let issuer = TokenIssuer::new(IssuerOptions::default(), &Seed::new([1; 32]));
//! let mut options = DeploymentOptions::standalone(Address::tcp("localhost", 27017));
//! options.auth.mechanisms = vec![AuthMechanism::Oidc];
//! options.auth.issuers.push(issuer.clone());
//!
//! // A token for a callback of the client under test:
//! let claims = TokenClaims::new("eve", options.started_at, Duration::from_secs(60));
//! let token = issuer.issue(&claims);
//! # assert!(!token.is_empty());
//!
//! // The services from which a client gets tokens and credentials itself:
//! let services = IdentityOptions {
//!     aws: options.auth.aws.clone(),
//!     issuer: Some(issuer),
//!     ..IdentityOptions::default()
//! };
//! # let _ = services;
//! ```

mod aws;
mod date;
mod faults;
mod http;
mod issuer;
mod server;
mod services;
mod signature;

pub use aws::{AwsIdentities, AwsIdentity};
pub use faults::{Answer, IdentityFault, Piece};
pub use issuer::{IssuerOptions, TokenClaims, TokenIssuer};
pub use server::{IdentityConnection, IdentityServer};
pub use services::IdentityOptions;

pub(crate) use aws::user_name;
#[cfg(test)]
pub(crate) use date::compact;
pub(crate) use date::parse_compact;
pub(crate) use issuer::VerifiedToken;
pub(crate) use signature::{Request as SignedRequest, region};

use std::sync::{Mutex, MutexGuard, PoisonError};

fn lock<T>(state: &Mutex<T>) -> MutexGuard<'_, T> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns bytes as lower-case hexadecimal digits.
fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests;
