//! Log messages as programs see them, by way of `tracing`.

mod collector;
mod json;
mod matching;
mod official;
mod ours;
mod stage;
