//! Tests of discovery, monitoring and pools with the simulated deployment, in virtual time. They
//! run what the integration tests of the specifications run with a real server.
//!
//! Each test names its official test file or prose test. The files `unified/...` belong to the
//! specification's `server-discovery-and-monitoring/tests`. Each test runs the async client with
//! several seeds. A failure prints the command that repeats it.

mod adaptive;
mod authentication;
mod backpressure;
mod balanced;
mod batches;
mod checks;
mod clearing;
mod closing;
mod connecting;
mod establishing;
mod event_log;
mod events;
mod forking;
mod freeze;
mod leaks;
mod ledger;
mod lifecycle;
mod limits;
mod official;
mod operations;
mod pools;
mod programs;
mod prose;
mod scenarios;
mod scene;
mod selection;
mod spans;
mod storm;
mod turns;
mod waiting;
