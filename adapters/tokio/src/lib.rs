//! The Onionskin MongoDB driver on tokio.
//!
//! ```no_run
//! use onionskin_tokio::{Client, bson::{Document, doc}};
//!
//! # async fn example() -> onionskin_tokio::Result<()> {
//! let client = Client::with_uri_str("mongodb://localhost").await?;
//! let people = client.database("app").collection::<Document>("people");
//! people.insert_one(doc! { "name": "Ada" }).await?;
//! let ada = people.find_one(doc! { "name": "Ada" }).await?;
//! # Ok(())
//! # }
//! ```
//!
//! A client is made within a tokio runtime whose I/O and time drivers are enabled; its tasks run
//! there, wherever its operations are awaited or dropped. Without a runtime, making it fails with
//! [`ErrorKind::Runtime`]. When its runtime ends, all its operations fail with the same kind: tests
//! that have a runtime each (`#[tokio::test]`) need a client each. A runtime of the current thread
//! runs tasks, and so keeps time limits, only within `block_on`.
//!
//! In programs that fork, make clients afterwards: see [Forking](onionskin#forking).

#![forbid(unsafe_code)]

mod runtime;
mod stream;

pub use onionskin::*;
pub use runtime::TokioRuntime;
pub use stream::TokioStream;

/// The client on tokio.
pub type Client = onionskin::Client<TokioRuntime>;

/// A database on tokio.
pub type Database = onionskin::Database<TokioRuntime>;

/// A collection on tokio.
pub type Collection<T> = onionskin::Collection<TokioRuntime, T>;

/// A cursor on tokio.
pub type Cursor<T> = onionskin::Cursor<TokioRuntime, T>;
