//! The world that the driver is tried against: a deployment of servers that does no I/O itself, the
//! means to run it on real sockets, and the `onionskin` command.

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
