//! Subcommands of the program `onionskin`.

pub(crate) mod check;
pub(crate) mod serve;
pub(crate) mod simulate;
