//! Runs of one seed that are traced or recorded.

use super::{Simulate, conclude, open_outputs, tell};
use crate::commands::print;
use onionskin_simulations::simulate::{
    keep_panics,
    recording::{Heading, Writer},
    replay::ending,
    run_keeping, run_with,
    verdict::Verdict,
};
use onionskin_worlds::world::{Scenario, Way};
use std::{fs::File, io, ops::Range, path::Path, process::ExitCode};

/// Returns the only seed of a run with this option.
fn one_seed(arguments: &Simulate, option: &str) -> io::Result<u64> {
    let Range { start: seed, end } = arguments.seeds;
    match end - seed {
        1 => Ok(seed),
        _ => {
            let text = format!("`{option}` needs one seed, as in `--seeds 7`");
            Err(io::Error::new(io::ErrorKind::InvalidInput, text))
        }
    }
}

/// Runs one seed and records its steps.
pub(super) fn record(
    arguments: &Simulate,
    path: &Path,
    way: Way,
    name: &str,
    scenario: &Scenario,
) -> io::Result<ExitCode> {
    let seed = one_seed(arguments, "--record")?;
    if is_read(arguments, path) {
        let text = "the recording and the scenario must be different files";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    let file = File::create(path).map_err(|error| {
        let text = format!("{}: {error}", path.display());
        io::Error::new(io::ErrorKind::InvalidInput, text)
    })?;
    keep_panics();
    let named = |error: io::Error| {
        let text = format!("there is no recording: {}: {error}", path.display());
        io::Error::new(error.kind(), text)
    };
    let heading = Heading::new(name, scenario, way, seed);
    let mut writer = Writer::new(file, &heading).map_err(named)?;
    let Some(run) = run_with(seed, way, scenario, &mut writer) else {
        return Ok(ExitCode::FAILURE);
    };
    let written = writer.finish(&ending(&run)).map_err(named);
    let mut verdict = Verdict::default();
    verdict.add(seed, &run);
    print(&match &run {
        Ok(report) => format!("{report}\n"),
        Err(text) => format!("seed {seed}: panic: {text}\n"),
    })?;
    if written.is_ok() {
        tell(&format!("recording: {}\n", path.display()));
    }
    conclude(&verdict, written)
}

/// True if the file at this path is that of the scenario.
pub(super) fn is_read(arguments: &Simulate, path: &Path) -> bool {
    let read = arguments.scenario.as_deref().map(Path::new);
    let read = read.filter(|path| path.extension().is_some());
    let read = read.and_then(|path| path.canonicalize().ok());
    read.is_some() && read == path.canonicalize().ok()
}

/// Runs one seed and prints its steps.
pub(super) fn trace(
    arguments: &Simulate,
    way: Way,
    name: &str,
    scenario: &Scenario,
) -> io::Result<ExitCode> {
    let seed = one_seed(arguments, "--trace")?;
    let outputs = open_outputs(arguments, scenario)?;
    let run = run_keeping(seed, way, scenario, |options| {
        options.keep_trace = true;
        options.keep_picture = outputs.page.is_some();
    });
    let written = outputs.write(name, Some(&run));
    let mut verdict = Verdict::default();
    verdict.add(seed, &run);
    print(&match run {
        Ok(report) => format!("{}\n{report}\n", report.trace),
        Err(text) => format!("seed {seed}: panic: {text}\n"),
    })?;
    conclude(&verdict, written)
}
