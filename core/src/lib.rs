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
//! that are public without a feature are the stable surface. With the feature `unstable-machines`
//! the module `unstable` has the machines as well, for tests and simulations. It may change in any
//! release.
//!
//! `docs/core.md` explains how to write a shell, and `core/examples/shell.rs` is a small one.
//!
//! A module names only modules that this file declares above it.

#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(
    test,
    allow(
        unnameable_types,
        reason = "snapshots are there for tests and unstable-machines"
    )
)]
#![cfg_attr(
    not(feature = "unstable-machines"),
    allow(
        unreachable_pub,
        unused_imports,
        reason = "the module `unstable` shows the machines"
    )
)]

pub mod time;

mod arena;

pub mod text;

pub mod random;

pub mod address;

mod results;

pub mod error;

pub mod description;

pub mod event;

pub mod bson;

mod wire;

pub mod options;

pub mod uri;

pub mod dns;

pub mod dial;

pub mod log;

mod hello;

mod compression;

mod tls;

mod socks5;

pub mod http;

mod revocation;

mod auth;

mod connection;

mod sdam;

mod pool;

mod selection;

mod session;

pub mod operation;

pub mod client;

pub mod probe;

pub mod requirements;

/// The machines that the client is composed of, for tests and simulations. Everything here may
/// change in any release.
#[cfg(feature = "unstable-machines")]
pub mod unstable {
    /// See `core/src/wire`.
    pub mod wire {
        pub use crate::wire::*;
    }

    /// See `core/src/hello`.
    pub mod hello {
        pub use crate::hello::*;
    }

    /// See `core/src/compression`.
    pub mod compression {
        pub use crate::compression::*;
    }

    /// See `core/src/tls`.
    pub mod tls {
        pub use crate::tls::*;
    }

    /// See `core/src/socks5`.
    pub mod socks5 {
        pub use crate::socks5::*;
    }

    /// See `core/src/auth`.
    pub mod auth {
        pub use crate::auth::*;
    }

    /// See `core/src/connection`.
    pub mod connection {
        pub use crate::connection::*;
    }

    /// See `core/src/sdam`.
    pub mod sdam {
        pub use crate::sdam::*;
    }

    /// See `core/src/pool`.
    pub mod pool {
        pub use crate::pool::*;
    }

    /// See `core/src/selection`.
    pub mod selection {
        pub use crate::selection::*;
    }

    /// See `core/src/session`.
    pub mod session {
        pub use crate::session::*;
    }
}

/// The TLS library, for [`TlsConfig`](options::TlsConfig).
#[cfg(feature = "tls")]
pub use rustls;
