//! Every decision of a MongoDB driver, and not one system call.
//!
//! The core is a set of state machines. Facts go in (`handle_*`: bytes arrived, a socket broke,
//! time passed), orders come out (`poll_*`: open a connection, transmit these bytes, wake that
//! operation). Whoever drives it owns sockets, clocks and tasks; the core owns what they mean.
//!
//! The contract is the same for every machine: feed one input, drain everything that `poll_*`
//! gives, then wait for the deadline. Asking twice without a new input gives nothing new, inputs
//! about things that no longer exist change nothing, and the same seed with the same inputs gives
//! the same outputs, byte for byte.
//!
//! Modules are layers, from the inside out; each names only those above it in the list below.

#![forbid(unsafe_code)]

pub mod time;

mod arena;

pub mod random;

pub mod address;

pub mod error;

pub mod description;

pub mod event;

pub mod bson;

pub mod wire;

pub mod options;

pub mod uri;

pub mod log;

pub mod hello;

pub mod auth;

pub mod tls;

pub mod connection;

pub mod sdam;

pub mod pool;

pub mod selection;

pub mod session;

pub mod operation;

pub mod client;

pub mod requirements;
