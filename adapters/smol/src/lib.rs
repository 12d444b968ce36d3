//! The Onionskin MongoDB driver for smol.
//!
//! ```no_run
//! use onionskin_smol::{Client, bson::{Document, doc}};
//!
//! # async fn example() -> onionskin_smol::Result<()> {
//! let client = Client::with_uri_str("mongodb://localhost").await?;
//! let people = client.database("app").collection::<Document>("people");
//! people.insert_one(doc! { "name": "Ada" }).await?;
//! let ada = people.find_one(doc! { "name": "Ada" }).await?;
//! # Ok(())
//! # }
//! ```
//!
//! A client can be created in any thread. Its tasks run on the global executor of smol.
//!
//! In programs that fork, create clients after the fork: see [Forking](onionskin#forking).

#![forbid(unsafe_code)]

mod runtime;
mod stream;

pub use onionskin::*;
pub use runtime::{Sleep, SmolRuntime};
pub use stream::SmolStream;

/// A client for one MongoDB deployment, whose tasks run on smol.
pub type Client = onionskin::Client<SmolRuntime>;

/// A handle to a database, of a client on smol.
pub type Database = onionskin::Database<SmolRuntime>;

/// A handle to a collection whose documents are read and written as `T`, of a client on smol.
pub type Collection<T> = onionskin::Collection<SmolRuntime, T>;

/// The documents of a query or an aggregation, decoded as `T`, of a client on smol.
pub type Cursor<T> = onionskin::Cursor<SmolRuntime, T>;

/// A session that an application starts, of a client on smol.
pub type ClientSession = onionskin::ClientSession<SmolRuntime>;

/// The documents of a call in a session, decoded as `T`, of a client on smol.
pub type SessionCursor<T> = onionskin::SessionCursor<SmolRuntime, T>;
