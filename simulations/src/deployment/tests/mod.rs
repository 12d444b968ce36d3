//! Tests of the deployment in virtual time.

mod admission;
mod balanced;
mod elections;
mod memory;
mod overload;
mod protocol;
mod sharded;
mod survival;
mod world;
