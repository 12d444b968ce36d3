//! One module for each official suite, named as its folder.

pub mod server_discovery_and_monitoring;
