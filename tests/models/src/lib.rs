//! Slow, obvious models of discovery and of the connection pool, with which tests compare the core.
//!
//! The tests of this crate draw inputs at random or walk through all states of small worlds. They
//! visit millions of states, so this crate is optimized in tests, unlike the other tests.

#![forbid(unsafe_code)]

pub mod discovery;

pub mod fingerprint;

pub mod pool;
