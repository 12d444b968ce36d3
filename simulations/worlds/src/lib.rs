//! Worlds around clients of a simulated deployment, in virtual time.
//!
//! A [`world`] has callers, a network, servers and faults, which follow from a seed. With the
//! feature `tokio`, the module `on_tokio` runs programs on tokio with a simulated deployment, in
//! virtual time. The module `strategies`, which needs the feature of this name, has `proptest`
//! strategies for what a client hears of a deployment. A [`recorder`] makes a picture of clients on
//! real sockets.

#![forbid(unsafe_code)]

#[cfg(feature = "tokio")]
pub mod on_tokio;
pub mod recorder;
mod seeds;
#[cfg(feature = "strategies")]
pub mod strategies;
pub mod world;

pub use seeds::SEED;

/// Compiles the programs in the guide. The tests in `tests/orders.rs` run them.
#[cfg(all(doctest, feature = "tokio"))]
#[doc = include_str!("../../../docs/simulation.md")]
struct Guide;
