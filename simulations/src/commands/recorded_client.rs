//! The replay of a client that has recorded itself.

use super::print;
use onionskin::recording::{Recording, ReplayedStep, Verdict};
use onionskin_core::text::printable;
use onionskin_simulations::simulate::replay::Trouble;
use std::{
    collections::VecDeque,
    fmt::Write as _,
    fs::File,
    io::{self, Read as _},
    path::Path,
    process::ExitCode,
};

/// The number of steps that are shown before the one that differs.
const STEPS_BEFORE: usize = 5;

/// The number of bytes that show whether a file is the recording of a client.
const HEAD_BYTES: u64 = 16;

/// Returns the content of a file that is the recording of a client; `None` for another file.
pub(super) fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let mut file = File::open(path)?;
    let mut bytes = Vec::new();
    file.by_ref().take(HEAD_BYTES).read_to_end(&mut bytes)?;
    if !Recording::is_recording(&bytes) {
        return Ok(None);
    }
    file.read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}

/// Replays or prints a recording. The exit code is 0 if this build does what the client did, 1 if
/// it does something else, and 2 if a step cannot be replayed or printed.
pub(super) fn run(file: &[u8], is_printed: bool) -> Result<ExitCode, Trouble> {
    let refused = |error: onionskin::Error| {
        let text = printable(&error.to_string()).into_owned();
        Trouble::Recording(io::Error::new(io::ErrorKind::InvalidData, text))
    };
    let recording = Recording::read(file).map_err(refused)?;
    let (version, own) = (printable(recording.version()), env!("CARGO_PKG_VERSION"));
    if version != own {
        eprintln!("The recording was made by version {version}, this is {own}.");
    }
    if is_printed {
        let mut code = ExitCode::SUCCESS;
        for step in recording.print() {
            print(&line(&step)).map_err(Trouble::Console)?;
            if matches!(step.verdict, Verdict::Unknown(_)) {
                code = ExitCode::from(2);
            }
        }
        return Ok(code);
    }
    let mut before = VecDeque::new();
    for step in recording.replay().map_err(refused)? {
        if step.verdict == Verdict::Same {
            if before.len() == STEPS_BEFORE {
                before.pop_front();
            }
            before.push_back(line(&step));
            continue;
        }
        let mut text: String = before.into_iter().collect();
        text.push_str(&line(&step));
        let code = match &step.verdict {
            Verdict::Unknown(_) => 2,
            _ => 1,
        };
        text.push_str(&difference(&step));
        print(&text).map_err(Trouble::Console)?;
        return Ok(code.into());
    }
    let rest = match recording.is_cut() {
        true => ", and then the recording had its largest size",
        false => "",
    };
    let count = recording.entries();
    let text = format!("the client does what was recorded, in all {count} steps{rest}\n");
    print(&text).map_err(Trouble::Console)?;
    Ok(ExitCode::SUCCESS)
}

/// Returns a line about a step.
fn line(step: &ReplayedStep) -> String {
    let micros = step.at.as_nanos() / 1000;
    let mut line = format!("{} {micros}us {}", step.number, printable(&step.input));
    if let Verdict::Unknown(reason) = &step.verdict
        && step.input.is_empty()
    {
        // Writing to a string does not fail.
        let _ = write!(line, "({})", printable(reason));
    }
    line.push('\n');
    line
}

/// Returns what is known about the step that ends the replay.
fn difference(step: &ReplayedStep) -> String {
    if let Verdict::Unknown(reason) = &step.verdict {
        return format!("the replay ends here: {}\n", printable(reason));
    }
    let mut text = "this build does something else here, or returns another result:\n".to_owned();
    for action in &step.actions {
        // Writing to a string does not fail.
        let _ = writeln!(text, "    {}", printable(action));
    }
    if step.actions.is_empty() {
        text.push_str("    (no action)\n");
    }
    text
}
