//! To be described.

#![forbid(unsafe_code)]

pub mod store;
