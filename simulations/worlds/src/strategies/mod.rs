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
//! ```
//! use onionskin_core::{
//!     description::{ServerType, TopologyId},
//!     time::Instant,
//!     unstable::{hello::HelloAnswer, sdam::{Order, Sdam, SdamOptions}},
//! };
//! use onionskin_worlds::strategies::standalone_histories;
//! use proptest::{prelude::*, test_runner::TestRunner};
//! use std::time::Duration;
//!
//! // A client describes a standalone as `Standalone` or `Unknown`, also when the server stops.
//! let mut runner = TestRunner::default();
//! runner.run(&standalone_histories(), |history| {
//!     let id = TopologyId(bson::oid::ObjectId::from_bytes([0; 12]));
//!     let mut sdam = Sdam::new(SdamOptions::new(id, history.seeds.clone()));
//!     let mut now = Instant::ZERO;
//!     sdam.start(now);
//!     for hello in &history.hellos {
//!         let orders = std::iter::from_fn(|| sdam.poll_order());
//!         let opened = orders.fold(None, |last, order| match order {
//!             Order::Open { connection, .. } => Some(connection),
//!             _ => last,
//!         });
//!         now = now + Duration::from_secs(1);
//!         if let (Some(check), Some(reply)) = (opened, &hello.reply) {
//!             let answer = HelloAnswer::new(reply.clone());
//!             sdam.handle_connected(now, check, answer, Duration::from_millis(1));
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
