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
//! A shell needs [`client`], which is the composition of all machines, and the vocabulary around
//! it, for example [`options`], [`operation`], [`event`], [`error`] and [`time`]. The modules that
//! are public without a feature are the stable surface. The other machines (`wire`, `hello`,
//! `auth`, `tls`, `connection`, `sdam`, `pool`, `selection`, `session`) are reachable by the
//! feature `unstable-machines`, for tests and simulations. What it opens may change in any release.
//!
//! `docs/core.md` says how to write a shell, and `core/examples/shell.rs` is a small one.
//!
//! Modules are layers. Each module names only modules above it in the source of this file.

#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(
        unnameable_types,
        reason = "snapshots are there for tests and unstable-machines"
    )
)]

pub mod time;

mod arena;

pub mod random;

pub mod address;

pub mod error;

pub mod description;

pub mod event;

pub mod bson;

#[cfg(feature = "unstable-machines")]
pub mod wire;
#[cfg(not(feature = "unstable-machines"))]
#[allow(
    dead_code,
    unreachable_pub,
    unused_imports,
    reason = "for unstable-machines"
)]
mod wire;

pub mod options;

pub mod uri;

pub mod log;

#[cfg(feature = "unstable-machines")]
pub mod hello;
#[cfg(not(feature = "unstable-machines"))]
#[allow(
    dead_code,
    unreachable_pub,
    unused_imports,
    reason = "for unstable-machines"
)]
mod hello;

#[cfg(feature = "unstable-machines")]
pub mod auth;
#[cfg(not(feature = "unstable-machines"))]
#[allow(
    dead_code,
    unreachable_pub,
    unused_imports,
    reason = "for unstable-machines"
)]
mod auth;

#[cfg(feature = "unstable-machines")]
pub mod tls;
#[cfg(not(feature = "unstable-machines"))]
#[allow(
    dead_code,
    unreachable_pub,
    unused_imports,
    reason = "for unstable-machines"
)]
mod tls;

#[cfg(feature = "unstable-machines")]
pub mod connection;
#[cfg(not(feature = "unstable-machines"))]
#[allow(
    dead_code,
    unreachable_pub,
    unused_imports,
    reason = "for unstable-machines"
)]
mod connection;

#[cfg(feature = "unstable-machines")]
pub mod sdam;
#[cfg(not(feature = "unstable-machines"))]
#[allow(
    dead_code,
    unreachable_pub,
    unused_imports,
    reason = "for unstable-machines"
)]
mod sdam;

#[cfg(feature = "unstable-machines")]
pub mod pool;
#[cfg(not(feature = "unstable-machines"))]
#[allow(
    dead_code,
    unreachable_pub,
    unused_imports,
    reason = "for unstable-machines"
)]
mod pool;

#[cfg(feature = "unstable-machines")]
pub mod selection;
#[cfg(not(feature = "unstable-machines"))]
#[allow(
    dead_code,
    unreachable_pub,
    unused_imports,
    reason = "for unstable-machines"
)]
mod selection;

#[cfg(feature = "unstable-machines")]
pub mod session;
#[cfg(not(feature = "unstable-machines"))]
#[allow(
    dead_code,
    unreachable_pub,
    unused_imports,
    reason = "for unstable-machines"
)]
mod session;

pub mod operation;

pub mod client;

pub mod requirements;
