//! The subcommand `replay`.

use super::print;
use clap::Args;
use onionskin_core::{text::printable, time::Instant};
use onionskin_simulations::simulate::{
    keep_panics,
    recording::Reader,
    replay::{Goal, Outcome, Replay, Trouble, time},
    run_with,
};
use std::{
    io::{self, BufRead, IsTerminal as _, Write as _},
    path::PathBuf,
    process::ExitCode,
};

/// The arguments of `replay`.
#[derive(Debug, Args)]
pub(crate) struct ReplayRun {
    /// The file that `simulate --record` has written.
    file: PathBuf,
    /// End at the first step at this virtual time or later, such as 1500ms or 1.5s, and print the
    /// last lines and the state: that of the servers, and of the machines of all clients.
    #[arg(long, value_name = "TIME", value_parser = time, group = "goal")]
    to: Option<Instant>,
    /// End at the first step that has this text in a line, and print the last lines and the state.
    #[arg(long, value_name = "TEXT", group = "goal")]
    find: Option<String>,
    /// Stop at each step, and read from the standard input how to go on. The command `h` prints the
    /// commands.
    #[arg(long, group = "goal")]
    step: bool,
}

/// Runs the subcommand. The exit code is 0 if the run is the recorded one as far as it went, and 1
/// if it differs, or if no step has the text of `--find`. It is 2 if the file cannot be replayed,
/// or if nothing can be printed.
pub(crate) fn run(arguments: &ReplayRun) -> io::Result<ExitCode> {
    let path = arguments.file.display();
    let error = match replay(arguments) {
        Ok(code) => return Ok(code),
        Err(Trouble::Recording(error)) => format!("{path}: {error}"),
        // A reader of the output that has gone ends the replay.
        Err(Trouble::Console(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            return Ok(ExitCode::SUCCESS);
        }
        Err(Trouble::Console(error)) => format!("the standard input or output: {error}"),
    };
    tell(&format!("onionskin: {error}\n"));
    Ok(ExitCode::from(2))
}

fn replay(arguments: &ReplayRun) -> Result<ExitCode, Trouble> {
    let (recorded, heading) = Reader::open(&arguments.file).map_err(Trouble::Recording)?;
    let wrong = |text| Trouble::Recording(io::Error::new(io::ErrorKind::InvalidData, text));
    let (scenario, way) = heading.run().map_err(wrong)?;
    let (version, own) = (printable(&heading.version), env!("CARGO_PKG_VERSION"));
    if version != own {
        tell(&format!(
            "The recording was made by version {version}, this is {own}.\n"
        ));
    }
    let goal = match (arguments.to, &arguments.find, arguments.step) {
        (Some(time), ..) => Goal::Time(time),
        (_, Some(text), _) => Goal::Text(text.clone()),
        (.., true) => Goal::Steps(1),
        _ => Goal::End,
    };
    let mut input = io::stdin().lock();
    if arguments.step && input.is_terminal() {
        tell("Enter h for the commands.\n");
    }
    let commands = arguments.step.then_some(&mut input as &mut dyn BufRead);
    let mut out = io::stdout();
    keep_panics();
    let mut replay = Replay::new(recorded, goal, commands, &mut out);
    let run = run_with(heading.seed, way, &scenario, &mut replay);
    let name = printable(&heading.scenario);
    let name = format!("{name}, seed {}, {way}", heading.seed);
    let (text, code) = match replay.finish(run)? {
        Outcome::Same(end) if arguments.find.is_some() => {
            (format!("no step has this text; the run {end}"), 1)
        }
        Outcome::Same(end) => (format!("the run is the recorded one, and {end}"), 0),
        Outcome::Stopped => return Ok(ExitCode::SUCCESS),
        Outcome::Different(text) => (text, 1),
    };
    print(&format!("{name}: {text}\n")).map_err(Trouble::Console)?;
    Ok(code.into())
}

/// Prints to the standard error, if it takes it.
fn tell(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}
