//! The Onionskin MongoDB driver for programs that block: one thread, and nothing in the background.
//!
//! ```no_run
//! use onionskin_blocking::{Client, Run, bson::{Document, doc}};
//!
//! # fn example() -> onionskin_blocking::Result<()> {
//! let client = Client::with_uri_str("mongodb://localhost")?;
//! let people = client.database("app").collection::<Document>("people");
//! people.insert_one(doc! { "name": "Ada" }).run()?;
//! let ada = people.find_one(doc! { "name": "Ada" }).run()?;
//! # Ok(())
//! # }
//! ```
//!
//! This is the single-threaded kind of client that the specifications know, for scripts, command
//! line tools and functions that are frozen between two calls: it has no thread, no task and no
//! timer that would have to go on meanwhile. See [`Client`] for what that means. The calls are
//! those of the other adapters, with [`run`](Run::run) in the place of `await`.
//!
//! It runs on Unix systems.

#![forbid(unsafe_code)]
#![cfg(unix)]

mod client;
mod cursor;
mod executor;
mod flag;
mod reactor;
mod run;
mod runtime;
mod stream;

pub use client::Client;
pub use cursor::Cursor;
pub use onionskin::*;
pub use run::Run;
pub use runtime::{BlockingRuntime, Sleep};
pub use stream::BlockingStream;

/// A database.
pub type Database = onionskin::Database<BlockingRuntime>;

/// A collection.
pub type Collection<T> = onionskin::Collection<BlockingRuntime, T>;
