//! Subcommands of the program `onionskin`.

pub(crate) mod check;
