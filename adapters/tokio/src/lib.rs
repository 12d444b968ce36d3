//! The Onionskin MongoDB driver for tokio.
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
//! Create a client within a tokio runtime whose I/O and time drivers are enabled. The tasks of the
//! client run on that runtime. Operations can be awaited and dropped in any thread. Outside of a
//! runtime, creating a client fails with [`ErrorKind::Runtime`](error::ErrorKind::Runtime).
//!
//! When the runtime of a client ends, the operations of the client fail with `ErrorKind::Runtime`.
//! So tests with a runtime of their own (`#[tokio::test]`) need a client of their own. A runtime of
//! the current thread runs tasks only within `block_on`, so time limits have no effect at other
//! times.
//!
//! In programs that fork, create clients after the fork: see [Forking](onionskin#forking).

#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

mod runtime;
mod stream;

pub use onionskin::*;
pub use runtime::{Tokio, TokioRuntime};
pub use stream::TokioStream;

onionskin::aliases! { TokioRuntime, "tokio" }

/// Compiles the programs in the guides.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/authentication.md")]
#[doc = include_str!("../../../docs/guide.md")]
#[doc = include_str!("../../../docs/errors.md")]
struct Guides;
