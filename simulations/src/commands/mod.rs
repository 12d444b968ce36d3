//! Subcommands of the program `onionskin`.

pub(crate) mod check;
pub(crate) mod interrupt;
mod output;
mod recorded_client;
pub(crate) mod replay;
pub(crate) mod serve;
pub(crate) mod simulate;

pub(crate) use output::Output;

use std::io::{self, Write as _};

/// Prints to the standard output. A reader that has gone is no error.
pub(crate) fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        done => done,
    }
}
