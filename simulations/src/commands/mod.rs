//! Subcommands of the program `onionskin`.

pub(crate) mod check;
mod output;
pub(crate) mod serve;
pub(crate) mod simulate;

pub(crate) use output::Output;
