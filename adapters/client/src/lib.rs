//! A MongoDB driver that runs on any async runtime.
//!
//! This crate is the client that applications see, generic over a [`Runtime`]. Applications depend
//! on the crate of their runtime (`onionskin-tokio`, `onionskin-async-std`, `onionskin-smol`),
//! whose `Client` is this one.
//!
//! Every decision is made by [`onionskin_core`]; here, futures move bytes and wait. So each call
//! can be bounded with `.timeout(..)` and each future can be dropped at any await point: the core
//! hears of it and keeps its house in order.
//!
//! # Forking
//!
//! Connections are not fork-safe: two processes that write to one socket, or read from it, garble
//! both conversations. A client on a runtime whose [`process_id`](Runtime::process_id) tells
//! (`onionskin-blocking`) notices at the first call in a child that it was forked. It closes its
//! copies of all sockets without a word to the servers, which its parent still talks to, empties
//! its pools and its sessions, and finds its servers anew. Cursors stay with the parent: the child
//! can read what a cursor has fetched already, and then gets an error.
//!
//! On other runtimes a child has none of the threads that would move its sockets. There, make
//! clients after forking. And nowhere fork while a call is under way, in an event listener or in
//! another thread: the child would have half of a call, or a lock that nobody opens.

#![forbid(unsafe_code)]

mod answers;
mod client;
mod collection;
mod cursor;
mod database;
pub mod decode;
mod environment;
mod events;
mod exchange;
mod execution;
mod ids;
#[cfg(feature = "__lock-times")]
#[doc(hidden)]
pub mod lock_times;
mod runtime;
mod shared;
mod shutdown;
mod signal;
mod socket;
pub mod system;
mod timer;
mod trace;
mod user_code;
mod waiters;

pub use client::{Client, ClientBuilder};
pub use collection::{
    Aggregate, Collection, CountDocuments, Delete, Find, FindOne, InsertMany, InsertOne, Update,
};
pub use cursor::Cursor;
pub use database::{Database, RunCommand};
pub use events::{EventListener, MAX_EVENT_DELAY, MAX_QUEUED_EVENT_BYTES, MAX_QUEUED_EVENTS};
pub use execution::Execution;
pub use runtime::Runtime;

pub use bson;
pub use onionskin_core as core; // Pools are in there only, apart from what users call (CMAP-3).
pub use onionskin_core::{
    error::{Error, ErrorKind, Responsible, Result},
    hello::DriverInfo,
    operation::Program,
    operation::crud::{DeleteResult, InsertManyResult, InsertOneResult, UpdateResult},
    options::{ClientOptions, Credential, ReadConcern, ReadMode, ReadPreference, WriteConcern},
};
pub use onionskin_core::{event, log};
