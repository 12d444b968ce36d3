//! The state machines of a MongoDB driver. This crate makes every decision and performs no I/O.
//!
//! A machine takes inputs by its `handle_*` functions: bytes arrived, a socket failed, time passed.
//! It gives actions by its `poll_*` functions: open a connection, transmit these bytes, wake that
//! operation. The shell, which is the code that drives the machines, owns sockets, clocks and
//! tasks.
//!
//! The contract is the same for every machine:
//!
//! - The shell gives one input, takes everything that the `poll_*` functions return, and then waits
//!   until the deadline.
//! - Without a new input, the `poll_*` functions return nothing new.
//! - An input about a thing that no longer exists changes nothing.
//! - The same seed with the same inputs gives the same outputs, byte for byte.
//!
//! Modules are layers. Each module names only modules above it in the list below.

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
