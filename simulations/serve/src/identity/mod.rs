//! Identity servers on sockets.
//!
//! [`IdentityEndpoint`] runs an identity server of the crate `onionskin-deployment` on a port of
//! the loopback interface. With [`IdentityTls`], its clients use HTTPS.

mod endpoint;
mod tls;

pub use endpoint::IdentityEndpoint;
pub use tls::IdentityTls;

#[cfg(test)]
mod tests;
