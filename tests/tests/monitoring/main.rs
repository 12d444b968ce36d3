//! Discovery, monitoring and pools in front of the simulated deployment, in virtual time: what the
//! specifications' integration tests ask of a client with a real server.
//!
//! Tests name the official file or prose test that they answer: `T/unified/...` are files of the
//! specification's `server-discovery-and-monitoring/tests`. Each runs the async client, with
//! several seeds; a failure says how to see it again.

mod adaptive;
mod authentication;
mod backpressure;
mod balanced;
mod batches;
mod checks;
mod clearing;
mod closing;
mod connecting;
mod diary;
mod establishing;
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
