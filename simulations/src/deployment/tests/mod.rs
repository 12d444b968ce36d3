//! The machine in virtual time.

mod elections;
mod protocol;
mod survival;
mod world;
