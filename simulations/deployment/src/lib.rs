//! A simulated MongoDB deployment for tests of clients. The deployment does no I/O, reads no clock
//! and has no threads: the caller brings it bytes and the time, and carries out its actions.
//!
//! The crate `onionskin-worlds` runs a deployment in virtual time, and `onionskin-serve` runs it on
//! real sockets.

#![forbid(unsafe_code)]

pub mod deployment;
mod garbage;
pub mod identity;
pub mod legacy;
#[cfg(feature = "dns")]
pub mod names;
mod replica;
mod server;
pub mod socks5;
pub mod store;
