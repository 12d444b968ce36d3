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

#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

mod runtime;
mod stream;

pub use onionskin::*;
pub use runtime::{Sleep, SmolRuntime};
pub use stream::SmolStream;

onionskin::aliases! { SmolRuntime, "smol" }
