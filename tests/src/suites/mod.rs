//! Runners of official test suites that are not in `tests/tests`. Each module has the name of its
//! suite's folder.

pub mod server_discovery_and_monitoring;
