//! The `onionskin` command.

fn main() {}
