//! Worlds around clients of a simulated deployment, in virtual time.
//!
//! A [`world`] has callers, a network, servers and faults, which follow from a seed. The module
//! `strategies`, which needs the feature of this name, has `proptest` strategies for what a client
//! hears of a deployment.

#![forbid(unsafe_code)]

#[cfg(feature = "strategies")]
pub mod strategies;
pub mod world;
