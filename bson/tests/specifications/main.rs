//! The official tests of BSON, its types and Extended JSON.

mod corpus;
mod rules;
mod vectors;

// These files belong to the crate of the common tests, which uses all of their items.
#[allow(dead_code, unreachable_pub)]
#[path = "../../../tests/src/report.rs"]
mod report;
#[allow(dead_code, unreachable_pub, clippy::disallowed_methods)]
#[path = "../../../tests/src/specifications.rs"]
mod specifications;
