//! The subcommand `replay`.

use super::{print, recorded_client};
use clap::Args;
use onionskin_core::{text::printable, time::Instant};
use onionskin_deployment::deployment::MemberState;
use onionskin_simulations::simulate::{
    keep_panics,
    recording::Reader,
    replay::{Goal, Outcome, Replay, Trouble, member, time},
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
    /// The file that `simulate --record`, `demo --record` or a client has written.
    file: PathBuf,
    /// End at the first step at this virtual time or later, such as 1500ms or 1.5s, and print the
    /// last lines and the state: that of the servers, and of the machines of all clients.
    #[arg(long, value_name = "TIME", value_parser = time, group = "goal")]
    to: Option<Instant>,
    /// End at the first step that has this text in a line, and print the last lines and the state.
    #[arg(long, value_name = "TEXT", group = "goal")]
    find: Option<String>,
    /// End at the first step after which a member, counted from 0, is in this state, such as
    /// 2=primary, and print the last lines and the state.
    #[arg(long, value_name = "N=STATE", value_parser = member, group = "goal")]
    member: Option<(usize, MemberState)>,
    /// End at the step at which the operation with this number begins, and print the last lines and
    /// the state. The operations of all clients are counted together, from 1.
    #[arg(long, value_name = "NUMBER", value_parser = operation, group = "goal")]
    operation: Option<u64>,
    /// Stop at each step, and read from the standard input how to go on. The command `h` prints the
    /// commands.
    #[arg(long, group = "goal")]
    step: bool,
    /// Print each input of the recording of a client, and replay nothing. This also works for a
    /// ring that has lost its beginning.
    #[arg(long, group = "goal")]
    print: bool,
}

impl ReplayRun {
    /// Returns where the replay ends, or where its session begins.
    fn goal(&self) -> Goal {
        match (self.to, &self.find, self.member, self.operation) {
            (Some(time), ..) => Goal::Time(time),
            (_, Some(text), ..) => Goal::Text(text.clone()),
            (.., Some((member, state)), _) => Goal::Member(member, state),
            (.., Some(number)) => Goal::Operation(number),
            _ if self.step => Goal::Steps(1),
            _ => Goal::End,
        }
    }
}

fn operation(text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(0) | Err(_) => Err("must be a whole number, 1 or more".to_owned()),
        Ok(number) => Ok(number),
    }
}

/// Runs the subcommand. The exit code is 0 if the run is the recorded one as far as it went, and 1
/// if it differs, or never comes to what `--find`, `--member` or `--operation` names. It is 2 if
/// the file cannot be replayed, if its run has no such member, or if nothing can be printed.
pub(crate) fn run(arguments: &ReplayRun) -> io::Result<ExitCode> {
    let path = arguments.file.display();
    let done = match recorded_client::read(&arguments.file) {
        Ok(Some(file)) if arguments.print || matches!(arguments.goal(), Goal::End) => {
            recorded_client::run(&file, arguments.print)
        }
        Ok(Some(_)) => Err(Trouble::Recording(wrong(
            "the recording of a client is replayed as a whole, or printed with --print",
        ))),
        Ok(None) if arguments.print => Err(Trouble::Recording(wrong(
            "only the recording of a client is printed; use --step",
        ))),
        Ok(None) => replay(arguments),
        Err(error) => Err(Trouble::Recording(error)),
    };
    let error = match done {
        Ok(code) => return Ok(code),
        Err(Trouble::Recording(error)) => format!("{path}: {error}"),
        Err(Trouble::NoMember(member)) => format!("{path}: the run has no member {member}"),
        // A reader of the output that has gone ends the replay.
        Err(Trouble::Console(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            return Ok(ExitCode::SUCCESS);
        }
        Err(Trouble::Console(error)) => format!("the standard input or output: {error}"),
    };
    tell(&format!("onionskin: {error}\n"));
    Ok(ExitCode::from(2))
}

fn wrong(text: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text)
}

fn replay(arguments: &ReplayRun) -> Result<ExitCode, Trouble> {
    let (recorded, heading) = Reader::open(&arguments.file).map_err(Trouble::Recording)?;
    let run = heading.run();
    let (scenario, way) = run.map_err(|text| Trouble::Recording(wrong(&text)))?;
    let (version, own) = (printable(&heading.version), env!("CARGO_PKG_VERSION"));
    if version != own {
        tell(&format!(
            "The recording was made by version {version}, this is {own}.\n"
        ));
    }
    let goal = arguments.goal();
    let missed = goal.missed();
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
        Outcome::Same(end) => match missed {
            Some(what) => (format!("{what}; the run {end}"), 1),
            None => (format!("the run is the recorded one, and {end}"), 0),
        },
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
