//! The Onionskin MongoDB driver for async-std.
//!
//! ```no_run
//! use onionskin_async_std::{Client, bson::{Document, doc}};
//!
//! # async fn example() -> onionskin_async_std::Result<()> {
//! let client = Client::with_uri_str("mongodb://localhost").await?;
//! let people = client.database("app").collection::<Document>("people");
//! people.insert_one(doc! { "name": "Ada" }).await?;
//! let ada = people.find_one(doc! { "name": "Ada" }).await?;
//! # Ok(())
//! # }
//! ```
//!
//! A client can be created in any thread. Its tasks run on the global executor of async-std.
//!
//! In programs that fork, create clients after the fork: see [Forking](onionskin#forking).

#![forbid(unsafe_code)]

mod runtime;
mod stream;

pub use onionskin::*;
pub use runtime::{AsyncStdRuntime, Sleep};
pub use stream::AsyncStdStream;

/// A client for one MongoDB deployment, whose tasks run on async-std.
pub type Client = onionskin::Client<AsyncStdRuntime>;

/// A handle to a database, of a client on async-std.
pub type Database = onionskin::Database<AsyncStdRuntime>;

/// A handle to a collection whose documents are read and written as `T`, of a client on async-std.
pub type Collection<T> = onionskin::Collection<AsyncStdRuntime, T>;

/// The documents of a query or an aggregation, decoded as `T`, of a client on async-std.
pub type Cursor<T> = onionskin::Cursor<AsyncStdRuntime, T>;

/// A session that an application starts, of a client on async-std.
pub type ClientSession = onionskin::ClientSession<AsyncStdRuntime>;

/// The documents of a call in a session, decoded as `T`, of a client on async-std.
pub type SessionCursor<T> = onionskin::SessionCursor<AsyncStdRuntime, T>;
