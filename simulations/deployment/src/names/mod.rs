//! Name servers for tests: the records of a zone, and replies with faults.
//!
//! The code does no I/O. `SimRuntime::start_name_server` of the crate `onionskin-worlds` runs a
//! name server in a virtual network.

mod failure;
mod faults;
mod zone;

pub use failure::LookupFailure;
pub use faults::{FORGED_ADDRESS, FORGED_HOST, NameFaults, Sent};
pub use zone::{Transport, Zone, question};
