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

#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

mod runtime;
mod stream;

pub use onionskin::*;
pub use runtime::{AsyncStdRuntime, Sleep};
pub use stream::AsyncStdStream;

onionskin::aliases! { AsyncStdRuntime, "async-std" }
