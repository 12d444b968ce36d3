//! `proptest` strategies for deployments and their histories, for tests of your own code.
//!
//! The strategies need the feature `strategies`. All of them shrink: a failing history loses hellos
//! and events until only the necessary ones are left, and names and numbers become small.
//!
//! - [`server_descriptions`] and [`topology_descriptions`]: the descriptions that a client has of a
//!   deployment;
//! - [`hello_replies`]: single replies that follow the rules of servers;
//! - [`replica_set_histories`], [`sharded_histories`], [`standalone_histories`]: the hello replies
//!   of a deployment in the course of time, with elections, step-downs, restarts and
//!   reconfigurations. Tests can also use the underlying [`ReplicaSet`] directly;
//! - [`lying_histories`]: hello replies that violate the rules of servers;
//! - [`failures`] and [`incident_histories`]: errors of operations and of new connections.
//!
//! An application has a listener that keeps the address of the primary, so that a dashboard shows
//! it. Here it is held against random replica sets:
//!
//! ```
//! use onionskin_core::{address::Address, description::{ServerType, TopologyDescription}};
//! use onionskin_worlds::strategies::replica_set_histories;
//! use proptest::{prelude::*, test_runner::TestRunner};
//!
//! #[derive(Default)]
//! struct Dashboard {
//!     primary: Option<Address>,
//! }
//!
//! impl Dashboard {
//!     /// The listener of topology changes.
//!     fn observe(&mut self, new: &TopologyDescription) {
//!         let mut servers = new.servers.values();
//!         let primary = servers.find(|server| server.server_type == ServerType::RsPrimary);
//!         self.primary = primary.map(|server| server.address.clone());
//!     }
//! }
//!
//! let mut runner = TestRunner::default();
//! let result = runner.run(&replica_set_histories(), |history| {
//!     let mut dashboard = Dashboard::default();
//!     for description in history.descriptions() {
//!         dashboard.observe(&description);
//!         if let Some(primary) = &dashboard.primary {
//!             let server_type = description.servers[primary].server_type;
//!             // The code of the smallest failing history can be pasted into a test.
//!             prop_assert!(server_type == ServerType::RsPrimary, "{}", history.code());
//!         }
//!     }
//!     Ok(())
//! });
//! result.unwrap();
//! ```
//!
//! [`History::descriptions`] plays a history to a client that only observes. [`History::code`]
//! prints a history as Rust, and so do [`Failure::code`], [`Incident::code`], [`incidents_code`],
//! [`Step::code`], [`reply_code`], [`topology_version_code`], [`server_code`] and [`topology_code`]
//! for the other values. Tests of the discovery machine itself give the hellos to
//! `onionskin_core::unstable::sdam::Sdam`, as `descriptions` does.

mod code;
mod description;
mod failure;
mod history;
mod lying;
mod replica_set;
mod reply;
mod view;

pub use code::{incidents_code, reply_code, server_code, topology_code, topology_version_code};
pub use description::{server_descriptions, topology_descriptions};
pub use failure::{Cause, ClientCause, Failure, Incident, failures, incident_histories};
pub use history::{
    Hello, History, replica_set_histories, replica_set_steps, sharded_histories,
    standalone_histories,
};
pub use lying::{lying_histories, lying_replies};
pub use replica_set::{Member, ReplicaSet, Role, Step};
pub use reply::{hello_replies, topology_versions};

use onionskin_core::address::Address;
use proptest::prelude::*;

/// The number of addresses that [`address`] returns, which is small so that addresses repeat.
pub const ADDRESSES: usize = 5;

/// Returns the address number `index` modulo [`ADDRESSES`], such as `a.example.net:27017`.
#[must_use]
pub fn address(index: usize) -> Address {
    let letter = char::from(b'a' + u8::try_from(index % ADDRESSES).unwrap_or(0));
    Address::tcp(&format!("{letter}.example.net"), 27017)
}

/// Returns a strategy for one of the addresses.
pub fn addresses() -> impl Strategy<Value = Address> {
    (0..ADDRESSES).prop_map(address)
}
