//! The seed list of a `mongodb+srv` client: its DNS records, and when they are looked up.

pub(super) mod list;
pub(super) mod lookup;
pub(super) mod steps;
