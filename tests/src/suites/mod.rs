//! Runners of the official test suites. Each module has the name of its suite's folder.

pub mod server_discovery_and_monitoring;
