//! A simulated MongoDB deployment for tests of the driver. The deployment does no I/O itself: the
//! caller runs it in virtual time or, with [`serve`], on real sockets.

#![forbid(unsafe_code)]

pub mod demo;
pub mod deployment;
pub mod identity;
pub mod legacy;
pub mod names;
mod replica;
pub mod serve;
mod server;
pub mod socks5;
pub mod store;
#[cfg(feature = "strategies")]
pub mod strategies;
pub mod world;
