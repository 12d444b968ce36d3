//! The Onionskin MongoDB driver for blocking programs. It runs on the calling threads and does
//! nothing in the background.
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
//! The client is what the specifications call a single-threaded client. It suits scripts, command
//! line tools, and serverless functions that are frozen between two calls. It has no
//! tasks or timers that run between calls, and starts a thread only for work that may never end
//! ([`BlockingRuntime`]). [`Client`] describes the consequences. The API is that of the other
//! adapters, with [`run`](Run::run) instead of `await`.
//!
//! Only Unix systems are supported.

#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

#[cfg(not(unix))]
compile_error!("onionskin-blocking needs a Unix system, for `poll`; use onionskin-tokio here");

mod client;
mod cursor;
mod drive;
mod executor;
mod file_streams;
mod flag;
mod raw_batches;
mod reactor;
mod run;
mod runtime;
mod session_cursor;
mod stream;
mod streams;

pub use client::Client;
pub use cursor::Cursor;
pub use file_streams::{GridFsDownloadStream, GridFsUploadStream};
pub use onionskin::*;
pub use raw_batches::{RawBatchCursor, SessionRawBatchCursor};
pub use run::{Block, Run, RunTransaction};
pub use runtime::{BlockingRuntime, Sleep};
pub use session_cursor::SessionCursor;
pub use stream::BlockingStream;
pub use streams::{ChangeStream, SessionChangeStream};

onionskin::alias_modules! {}

/// A session that an application starts.
pub type ClientSession = onionskin::ClientSession<BlockingRuntime>;

/// A handle to a database.
pub type Database = onionskin::Database<BlockingRuntime>;

/// A bucket of files (GridFS).
pub type GridFsBucket = onionskin::GridFsBucket<BlockingRuntime>;

/// A handle to a collection whose documents are read and written as `T`.
pub type Collection<T> = onionskin::Collection<BlockingRuntime, T>;
