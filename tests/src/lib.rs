//! Suites that cross crates. Each official suite has a file in [`suites`]; all of them report in
//! the same way ([`report`]) and read the same tree of JSON files ([`specifications`]).

#![forbid(unsafe_code)]

pub mod report;

pub mod specifications;

pub mod suites;
