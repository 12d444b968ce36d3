//! Runs of the simulated world over many seeds, with the core alone and with the async client.

mod applications;
mod seeds;
mod world_core;
mod world_runtime;
