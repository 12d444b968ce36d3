//! The attempts of operations: each selects a server, gets a connection, moves a request and its
//! reply, and ends.

pub(super) mod authenticating;
pub(super) mod begin;
pub(super) mod begin_exchange;
pub(super) mod choice;
pub(super) mod drain;
pub(super) mod end;
pub(super) mod gossip;
pub(super) mod idle_probe;
pub(super) mod lease;
pub(super) mod operations;
pub(super) mod overdue;
pub(super) mod pinging;
pub(super) mod releases;
pub(super) mod scanning;
pub(super) mod waits;
