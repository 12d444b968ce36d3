//! Tests of the log messages that a program receives with `tracing`.

mod collector;
mod json;
mod ours;
mod secrets;
mod truncation;
