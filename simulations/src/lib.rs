//! The parts of the `onionskin` command. [`simulate`] runs clients and simulated MongoDB
//! deployments in virtual time, with faults that a seed draws. [`demo`] runs a load against a
//! deployment on real sockets, which the crate `onionskin-serve` serves.

#![forbid(unsafe_code)]

pub mod demo;
pub mod simulate;

/// Compiles the programs in the guide.
#[cfg(doctest)]
#[doc = include_str!("../../docs/testing.md")]
struct Guide;
