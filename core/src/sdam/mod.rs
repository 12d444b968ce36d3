//! Discovery and monitoring of servers.

mod action;

pub use action::{
    Action, ApplicationError, CheckId, DEFAULT_HEARTBEAT_FREQUENCY, MIN_HEARTBEAT_FREQUENCY, Phase,
    Purpose, SdamOptions,
};

use crate::{
    address::Address,
    description::{ServerDescription, ServerId, TopologyDescription},
    error::Error,
    time::Instant,
};
use bson::{RawDocument, oid::ObjectId};
use std::{sync::Arc, time::Duration};

/// Skeleton.
#[derive(Debug)]
pub struct Sdam {
    description: Arc<TopologyDescription>,
}

/// Why the machine wants to be woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// A check is due.
    Heartbeat(ServerId),
}

#[allow(unused_variables, missing_docs)]
impl Sdam {
    pub fn new(options: SdamOptions) -> Self {
        let id = options.topology_id;
        Self {
            description: Arc::new(TopologyDescription::unknown(id)),
        }
    }
    pub fn start(&mut self, now: Instant) {}
    pub fn handle_timeout(&mut self, now: Instant) {}
    pub fn handle_connected(
        &mut self,
        now: Instant,
        check: CheckId,
        reply: &RawDocument,
        round_trip: Duration,
    ) {
    }
    pub fn handle_reply(
        &mut self,
        now: Instant,
        check: CheckId,
        reply: &RawDocument,
        round_trip: Duration,
        more_to_come: bool,
    ) {
    }
    pub fn handle_failed(&mut self, now: Instant, check: CheckId, error: Error) {}
    pub fn handle_application_handshake(
        &mut self,
        now: Instant,
        server: ServerId,
        reply: &RawDocument,
    ) {
    }
    pub fn handle_application_error(
        &mut self,
        now: Instant,
        server: ServerId,
        error: &ApplicationError,
    ) {
    }
    pub fn set_waiting(&mut self, now: Instant, waiting: bool) {}
    pub fn request_check(&mut self, now: Instant) {}
    pub fn close(&mut self, now: Instant) {}
    #[must_use]
    pub fn poll_action(&mut self) -> Option<Action> {
        None
    }
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        None
    }
    #[must_use]
    pub fn deadline_reason(&self) -> Option<Timer> {
        None
    }
    #[must_use]
    pub fn description(&self) -> &Arc<TopologyDescription> {
        &self.description
    }
    #[must_use]
    pub fn version(&self) -> u64 {
        0
    }
    #[must_use]
    pub fn server_id(&self, address: &Address) -> Option<ServerId> {
        None
    }
    #[must_use]
    pub fn server(&self, id: ServerId) -> Option<&Arc<ServerDescription>> {
        None
    }
    #[must_use]
    pub fn generation(&self, id: ServerId) -> u64 {
        0
    }
    #[must_use]
    pub fn service_generation(&self, id: ServerId, service: &ObjectId) -> u64 {
        0
    }
    #[must_use]
    pub fn is_closed(&self) -> bool {
        false
    }
}
