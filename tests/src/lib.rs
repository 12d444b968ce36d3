//! Tests of several crates together: official specification files, real sockets, real servers and
//! other drivers.
//!
//! [`specifications`] reads the JSON files of the official suites, and [`report`] counts and prints
//! the results. [`suites`] has the runner of one suite; the other runners are in `tests/tests`.
//! [`peers`] starts and stops real servers and drivers, and [`crud`] runs operations on them.
//! [`conformance`] tests the runtimes. [`name_server`] is a DNS server, [`moved_time`] a clock that
//! a test moves, and [`variables`] environment variables of a client; [`forwarding`] has a macro
//! for runtimes like these. [`loads`] has the workloads of benchmarks, [`fuzzing`] the bodies of
//! the fuzz targets, and [`requirements`] reads the rules of `docs/requirements`. [`compressors`]
//! runs suites with compressed messages. [`handshake`] runs TLS handshakes in memory. [`mingo`] has
//! random queries, updates and pipelines.

#![forbid(unsafe_code)]

pub mod compressors;

pub mod conformance;

pub mod crud;

pub mod documents;

pub mod forwarding;

pub mod fuzzing;

pub mod handshake;

pub mod loads;

pub mod mingo;

pub mod moved_time;

pub mod name_server;

pub mod peers;

pub mod report;

pub mod requirements;

pub mod specifications;

pub mod suites;

pub mod variables;
