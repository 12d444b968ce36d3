//! Tests of the deployment in virtual time.

mod acknowledged_writes;
mod auth;
mod balanced;
mod change_streams;
mod commands;
mod connection_rate_limit;
mod elections;
mod expiry;
mod failed_commands;
mod fidelity;
mod forwarded_writes;
mod jobs;
mod memory;
mod older_releases;
mod operations;
mod overload;
mod protocol;
mod random_commands;
mod read_concern;
mod sharded;
mod streams;
mod tailing;
mod time_series;
mod transactional_writes;
mod transactions;
mod world;
