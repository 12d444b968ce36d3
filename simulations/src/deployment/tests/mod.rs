//! The machine in virtual time.

mod admission;
mod balanced;
mod elections;
mod memory;
mod protocol;
mod sharded;
mod survival;
mod world;
