//! A simulated MongoDB deployment for tests of the driver. The deployment does no I/O itself: tests
//! run it in virtual time, and the `onionskin` command runs it on real sockets.

#![forbid(unsafe_code)]

pub mod demo;
pub mod deployment;
pub mod legacy;
mod replica;
pub mod serve;
mod server;
pub mod store;
#[cfg(feature = "strategies")]
pub mod strategies;
pub mod world;
