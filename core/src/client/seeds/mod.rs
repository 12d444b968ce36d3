//! The seed list of a `mongodb+srv` client: its DNS records, and when they are looked up.

pub(super) mod list;
pub(super) mod lookup;
pub(super) mod steps;

use crate::{sdam::SdamOptions, uri::Warning};
use list::SeedList;

/// The seed list of a client, and what follows from its lookups.
#[derive(Debug)]
pub(super) struct Seeds {
    pub(super) list: SeedList,
    /// The warnings about the TXT record that this client has looked up.
    pub(super) txt_warnings: Vec<Warning>,
    /// The options of the topology while the seed list is not resolved; `None` otherwise.
    pub(super) unresolved: Option<Box<SdamOptions>>,
}
