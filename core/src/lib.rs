//! The state machines of a MongoDB driver. This crate makes every decision and performs no I/O.
//!
//! A machine takes inputs by its `handle_*` functions: bytes arrived, a socket failed, time passed.
//! It gives actions by its `poll_*` functions: open a connection, transmit these bytes, wake that
//! operation. The shell, which is the code that drives the machines, owns sockets, clocks and
//! tasks.
//!
//! The contract between a machine and its shell:
//!
//! - The shell gives one input and takes everything that the `poll_*` functions return. Then it
//!   waits for the next input, until the deadline at most.
//! - Without a new input, the `poll_*` functions return nothing new.
//! - An input about a socket or an operation that no longer exists changes nothing.
//! - The same seed with the same inputs gives the same outputs, byte for byte, except for the
//!   ciphertext of TLS.
//!
//! A shell needs [`client`], which is the composition of all machines, and modules whose types it
//! uses, for example [`options`], [`operation`], [`event`], [`error`] and [`time`]. The modules
//! that are public without a feature are the stable surface. The modules `wire`, `hello`,
//! `compression`, `tls`, `socks5`, `auth`, `connection`, `sdam`, `pool`, `selection` and `session`
//! are public only with the feature `unstable-machines`, for tests and simulations. They may change
//! in any release.
//!
//! `docs/core.md` explains how to write a shell, and `core/examples/shell.rs` is a small one.
//!
//! A module names only modules that this file declares above it.

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

pub mod text;

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

pub mod dns;

pub mod dial;

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
pub mod compression;
#[cfg(not(feature = "unstable-machines"))]
#[allow(
    dead_code,
    unreachable_pub,
    unused_imports,
    reason = "for unstable-machines"
)]
mod compression;

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
pub mod socks5;
#[cfg(not(feature = "unstable-machines"))]
#[allow(
    dead_code,
    unreachable_pub,
    unused_imports,
    reason = "for unstable-machines"
)]
mod socks5;

pub mod http;

mod revocation;

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

pub mod probe;

pub mod requirements;

/// The TLS library, for [`TlsConfig`](options::TlsConfig).
#[cfg(feature = "tls")]
pub use rustls;
