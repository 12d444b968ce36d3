//! Suites that cross crates: specification files, real sockets, real servers and other drivers.

pub mod peers;
