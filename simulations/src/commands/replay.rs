//! The subcommand `replay`.

use clap::Args;
use onionskin_core::time::Instant;
use onionskin_simulations::simulate::{
    keep_panics,
    recording::Reader,
    replay::{Goal, Outcome, Replay},
    run_with,
};
use onionskin_worlds::world::Span;
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
    /// End at this virtual time, such as 1500ms, and print the last lines and the state: that of
    /// the servers, and of the machines of all clients.
    #[arg(long, value_name = "TIME", value_parser = time, group = "goal")]
    to: Option<Instant>,
    /// End at the first step that has this text in a line, and print the last lines and the state.
    #[arg(long, value_name = "TEXT", group = "goal")]
    find: Option<String>,
    /// Stop at each step, and read what to do from the standard input. The command `h` prints what
    /// there is.
    #[arg(long, group = "goal")]
    step: bool,
}

fn time(text: &str) -> Result<Instant, String> {
    let Span(time) = Span::try_from(text.to_owned())?;
    Ok(Instant::ZERO + time)
}

/// Runs the subcommand. The exit code is 0 if the run is the recorded one as far as it went, 1 if
/// it differs, and 2 if the file is no recording that can be replayed.
pub(crate) fn run(arguments: &ReplayRun) -> io::Result<ExitCode> {
    replay(arguments).or_else(|error| match error.kind() {
        // A reader that has gone wants no more.
        io::ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
        _ => {
            eprintln!("onionskin: {}: {error}", arguments.file.display());
            Ok(ExitCode::from(2))
        }
    })
}

fn replay(arguments: &ReplayRun) -> io::Result<ExitCode> {
    let (recorded, heading) = Reader::open(&arguments.file)?;
    let wrong = |text| io::Error::new(io::ErrorKind::InvalidData, text);
    let (scenario, way) = heading.run().map_err(wrong)?;
    let version = env!("CARGO_PKG_VERSION");
    if heading.version != version {
        eprintln!(
            "The recording was made by version {}, this is {version}.",
            heading.version
        );
    }
    let goal = match (arguments.to, &arguments.find, arguments.step) {
        (Some(time), ..) => Goal::Time(time),
        (_, Some(text), _) => Goal::Text(text.clone()),
        (.., true) => Goal::Steps(1),
        _ => Goal::End,
    };
    let mut input = io::stdin().lock();
    if arguments.step && input.is_terminal() {
        eprintln!("Enter h for the commands.");
    }
    let commands = arguments.step.then_some(&mut input as &mut dyn BufRead);
    let mut out = io::stdout().lock();
    keep_panics();
    let has_goal = arguments.to.is_some() || arguments.find.is_some();
    let mut replay = Replay::new(recorded, goal, commands, &mut out);
    let run = run_with(heading.seed, way, &scenario, &mut replay);
    let outcome = replay.finish(run)?;
    let name = format!("{}, seed {}, {way}", heading.scenario, heading.seed);
    let (text, code) = match outcome {
        Outcome::Same if has_goal => ("the run ended before".to_owned(), 0),
        Outcome::Same => ("the run is the recorded one".to_owned(), 0),
        Outcome::Stopped => return Ok(ExitCode::SUCCESS),
        Outcome::Different(text) => (text, 1),
    };
    writeln!(out, "{name}: {text}")?;
    Ok(code.into())
}
