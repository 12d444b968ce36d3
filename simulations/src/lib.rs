//! Simulated MongoDB deployments on real sockets, for tests of applications: [`serve`] runs a
//! deployment of the crate `onionskin-deployment` on ports of the loopback interface. [`simulate`]
//! runs clients and such deployments in virtual time, with faults that a seed draws.

#![forbid(unsafe_code)]

pub mod demo;
pub mod identity;
pub mod serve;
pub mod simulate;

/// Compiles the programs in the guide.
#[cfg(doctest)]
#[doc = include_str!("../../docs/testing.md")]
struct Guide;
