//! Runners of official test suites that are not in `tests/tests`. Each module has the name of its
//! suite's folder.

pub mod initial_dns_seedlist_discovery;
pub mod server_discovery_and_monitoring;
