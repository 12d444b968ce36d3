//! Tests of several crates together: official specification files, real sockets, real servers and
//! other drivers.
//!
//! Each official suite has a file in [`suites`]. All suites report their results with [`report`]
//! and read the JSON files of [`specifications`]. [`peers`] starts and stops real servers and
//! drivers, and [`crud`] runs operations on them. [`conformance`] tests the runtimes, and [`model`]
//! compares discovery and pools with slow, obvious implementations.

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
