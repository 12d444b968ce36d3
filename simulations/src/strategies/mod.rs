//! Strategies for `proptest`: deployments and their histories, to test one's own code with.
//!
//! They come with the feature `strategies`. All of them shrink: a failing history loses hellos and
//! events until each one that is left is needed, and names and numbers become small.
//!
//! - [`server_descriptions`] and [`topology_descriptions`]: what a client may know of a deployment;
//! - [`hello_replies`]: one reply of a server that keeps to the rules;
//! - [`replica_set_histories`], [`sharded_histories`], [`standalone_histories`]: what the servers
//!   of a deployment answered while it lived, one after the other: elections, step-downs,
//!   restarts, reconfigurations. The set behind the first is a [`ReplicaSet`] that can be driven
//!   by hand too;
//! - [`lying_histories`]: what servers answer that keep to no rules;
//! - [`failures`] and [`incident_histories`]: errors that operations and new connections meet.
//!
//! ```
//! use onionskin_core::{
//!     description::{ServerType, TopologyId},
//!     sdam::{Action, Sdam, SdamOptions},
//!     time::Instant,
//! };
//! use onionskin_simulations::strategies::standalone_histories;
//! use proptest::{prelude::*, test_runner::TestRunner};
//! use std::time::Duration;
//!
//! // Whatever a standalone lives through, its client takes it for a standalone or for unknown.
//! let mut runner = TestRunner::default();
//! runner.run(&standalone_histories(), |history| {
//!     let id = TopologyId(bson::oid::ObjectId::from_bytes([0; 12]));
//!     let mut sdam = Sdam::new(SdamOptions::new(id, history.seeds.clone()));
//!     let mut now = Instant::ZERO;
//!     sdam.start(now);
//!     for hello in &history.hellos {
//!         let actions = std::iter::from_fn(|| sdam.poll_action());
//!         let opened = actions.fold(None, |last, action| match action {
//!             Action::Open { check, .. } => Some(check),
//!             _ => last,
//!         });
//!         now = now + Duration::from_secs(1);
//!         if let (Some(check), Some(reply)) = (opened, &hello.reply) {
//!             sdam.handle_connected(now, check, reply, Duration::from_millis(1));
//!         }
//!         let server = sdam.description().servers.values().next().unwrap();
//!         prop_assert!(matches!(
//!             server.server_type,
//!             ServerType::Standalone | ServerType::Unknown
//!         ));
//!     }
//!     Ok(())
//! }).unwrap();
//! ```

mod description;
mod failure;
mod history;
mod lying;
mod replica_set;
mod reply;

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

/// How many addresses the strategies know. Few, so that they meet again.
pub const ADDRESSES: usize = 5;

/// The address number `index`, counted round: `a.example.net:27017` and so on.
#[must_use]
pub fn address(index: usize) -> Address {
    let letter = char::from(b'a' + u8::try_from(index % ADDRESSES).unwrap_or(0));
    Address::tcp(&format!("{letter}.example.net"), 27017)
}

/// One of the few addresses.
pub fn addresses() -> impl Strategy<Value = Address> {
    (0..ADDRESSES).prop_map(address)
}
