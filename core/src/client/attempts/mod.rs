//! The attempts of operations: each selects a server, gets a connection, moves a request and its
//! reply, and ends.

pub(super) mod asking;
pub(super) mod authenticating;
pub(super) mod begin;
pub(super) mod begin_exchange;
pub(super) mod choice;
pub(super) mod drain;
pub(super) mod end;
pub(super) mod gossip;
pub(super) mod idle_check;
pub(super) mod lease;
pub(super) mod operations;
pub(super) mod overdue;
pub(super) mod pinging;
pub(super) mod releases;
pub(super) mod scanning;
pub(super) mod sessions;
pub(super) mod transactions;
pub(super) mod waits;

use crate::{
    operation::{ClusterTimes, ExplicitSession, OperationId},
    random::Random,
    session::{SessionId, Sessions},
};
use choice::Choice;
use operations::Operations;
use std::{collections::BTreeMap, ops::RangeInclusive};

/// The operations of a client, and what their attempts share.
#[derive(Debug)]
pub(super) struct Attempts {
    pub(super) operations: Operations,
    pub(super) choice: Choice,
    pub(super) sessions: Sessions,
    /// The state of the sessions that the application has started.
    pub(super) explicit: BTreeMap<SessionId, ExplicitSession>,
    /// The source of random numbers for the jitter of the pauses between attempts.
    pub(super) pauses: Random,
    /// The cluster times in the replies to operations and preliminary pings.
    pub(super) cluster_times: ClusterTimes,
    pub(super) last_request: i32,
    /// The number of exchanges that are not checked in although their connections were taken back.
    pub(super) taken_back: usize,
    /// True if operations that wait for a server are to select again.
    pub(super) reselect: bool,
    /// The operations that select again after a pause, if they still wait for a server.
    pub(super) reselecting: Option<RangeInclusive<OperationId>>,
}
