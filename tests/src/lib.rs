//! Suites that cross crates: official specification files, real sockets, real servers and other
//! drivers.
//!
//! Each official suite has a file in [`suites`]; all of them report in the same way ([`report`])
//! and read the same tree of JSON files ([`specifications`]). Real counterparts are started and
//! stopped by [`peers`]; the client's own calls are tried on them by [`crud`]. Whether a runtime
//! carries a client is the question of [`conformance`]; whether discovery is right is judged by a
//! slow, plain [`model`].

#![forbid(unsafe_code)]

pub mod conformance;

pub mod crud;

pub mod fuzzing;

pub mod loads;

pub mod model;

pub mod peers;

pub mod report;

pub mod requirements;

pub mod specifications;

pub mod suites;
