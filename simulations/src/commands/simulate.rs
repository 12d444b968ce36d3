//! The subcommand `simulate`.

use clap::{ArgGroup, Args, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use onionskin_simulations::simulate::{
    Sweep, scenarios,
    shrink::shrink,
    traced,
    verdict::{Fault, Verdict},
};
use onionskin_worlds::world::{Report, Scenario, Way};
use std::{
    fs,
    io::{self, Write as _},
    ops::Range,
    path::{Path, PathBuf},
    process::ExitCode,
    thread,
    time::{Duration, Instant},
};

/// The number of failed runs that are printed while a sweep runs.
const PRINTED_FAILURES: u64 = 5;

/// The largest size of a verdict that is read, in bytes.
const MAX_VERDICT_BYTES: u64 = 64 * 1024 * 1024;

/// The arguments of `simulate`.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("what").required(true))]
pub(crate) struct Simulate {
    /// The name of a scenario, or the path of a file with one, which ends with `.toml`.
    #[arg(group = "what")]
    scenario: Option<String>,
    /// List the scenarios.
    #[arg(long, group = "what")]
    list: bool,
    /// Print the file of a scenario, to be changed.
    #[arg(long, group = "what", value_name = "SCENARIO")]
    show: Option<String>,
    /// Join the verdicts in these files, which `--json` has printed, to one.
    #[arg(long, group = "what", value_name = "FILE", num_args = 1..)]
    merge: Vec<PathBuf>,
    /// The seeds: from the first to the one before the last, or one seed.
    #[arg(long, value_name = "A..B", default_value = "0..100", value_parser = seeds)]
    seeds: Range<u64>,
    /// How the clients are driven: the core alone, or the async client on a simulated runtime.
    #[arg(long, value_enum, default_value_t = WayName::Core)]
    way: WayName,
    /// The number of threads. Default: that of the processors.
    #[arg(long, value_parser = crate::at_least_one)]
    jobs: Option<usize>,
    /// Run each N-th seed only, so that N machines share the seeds. I begins with 0.
    #[arg(long, value_name = "I/N", default_value = "0/1", value_parser = shard)]
    shard: (u64, u64),
    /// Begin no run after one that failed.
    #[arg(long)]
    until_failure: bool,
    /// Begin no run after this number of seconds.
    #[arg(long)]
    seconds: Option<u64>,
    /// Print the verdict as one JSON document.
    #[arg(long)]
    json: bool,
    /// Print each step of the run. Only with one seed.
    #[arg(long, conflicts_with = "json")]
    trace: bool,
    /// Look for a smaller scenario with which the first failed seed still fails, and print its file.
    #[arg(long, conflicts_with_all = ["json", "trace"])]
    shrink: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum WayName {
    Core,
    Runtime,
}

fn seeds(text: &str) -> Result<Range<u64>, String> {
    let number = |text: &str| text.parse::<u64>().ok();
    let found = match text.split_once("..") {
        Some((first, end)) => number(first)
            .zip(number(end))
            .map(|(first, end)| first..end),
        None => number(text).and_then(|seed| Some(seed..seed.checked_add(1)?)),
    };
    match found {
        Some(seeds) if !seeds.is_empty() => Ok(seeds),
        _ => Err("must be one number, or two as in 0..100, of which the second is higher".into()),
    }
}

fn shard(text: &str) -> Result<(u64, u64), String> {
    let parts = text.split_once('/');
    let parts = parts.and_then(|(place, count)| place.parse().ok().zip(count.parse().ok()));
    let within = parts.filter(|(place, count): &(u64, u64)| place < count);
    within.ok_or_else(|| "must be as in 0/4, of which the first is lower".into())
}

/// Runs the subcommand. The exit code is 0 if all runs succeeded, or else that of the worst failure:
/// 3 crash, 4 safety, 5 liveness. It is 2 if an argument or a file is wrong.
pub(crate) fn run(arguments: &Simulate) -> io::Result<ExitCode> {
    perform(arguments).or_else(|error| match error.kind() {
        io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData => {
            eprintln!("onionskin: {error}");
            Ok(ExitCode::from(2))
        }
        _ => Err(error),
    })
}

fn perform(arguments: &Simulate) -> io::Result<ExitCode> {
    if arguments.list {
        for (name, scenario) in scenarios::list() {
            writeln!(io::stdout(), "{name:16} {}", scenario.about)?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(name) = &arguments.show {
        let scenario = scenarios::find(name)?;
        io::stdout().write_all(scenarios::text(&scenario).as_bytes())?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some((first, others)) = arguments.merge.split_first() {
        return merge(arguments, first, others);
    }
    let name = arguments.scenario.as_deref().unwrap_or_default();
    let scenario = scenarios::find(name)?;
    sweep(arguments, name, &scenario)
}

fn way(arguments: &Simulate) -> Way {
    match arguments.way {
        WayName::Core => Way::Core,
        WayName::Runtime => Way::Runtime,
    }
}

fn sweep(arguments: &Simulate, name: &str, scenario: &Scenario) -> io::Result<ExitCode> {
    let way = way(arguments);
    if arguments.trace {
        return trace(arguments, way, scenario);
    }
    let jobs = match arguments.jobs {
        Some(jobs) => jobs,
        None => thread::available_parallelism()?.get(),
    };
    let sweep = Sweep {
        seeds: arguments.seeds.clone(),
        shard: arguments.shard,
        jobs,
        until_failure: arguments.until_failure || arguments.shrink,
        limit: arguments.seconds.map(Duration::from_secs),
    };
    // Without a terminal, no bar is drawn.
    let bar = ProgressBar::new(sweep.count()).with_style(bar_style());
    let began = Instant::now();
    let verdict = Verdict::new(name, &way.to_string());
    let verdict = sweep.run(scenario, way, verdict, |verdict, seed, run| {
        bar.inc(1);
        if is_failed(run) && verdict.failures <= PRINTED_FAILURES {
            let failed = verdict
                .failed_runs
                .iter()
                .find(|failed| failed.seed == seed);
            let text = failed.map_or("", |failed| failed.message.as_str());
            bar.suspend(|| eprintln!("seed {seed}: {text}\n  {}", replay(name, seed, way)));
        }
    });
    bar.finish_and_clear();
    let mut out = io::stdout();
    if arguments.json {
        writeln!(out, "{}", serde_json::to_string(&verdict)?)?;
    } else {
        writeln!(out, "{}", verdict.summary(began.elapsed()))?;
    }
    if let (true, Some(failed)) = (arguments.shrink, verdict.failed_runs.first()) {
        eprintln!("Looking for a smaller scenario.");
        let smaller = shrink(failed.seed, way, scenario, |_| eprint!("."));
        if let Some((smaller, failure)) = smaller {
            eprintln!();
            let text = failure.message.replace('\n', "\n# ");
            writeln!(out, "# Seed {} ({way}): {text}", failure.seed)?;
            out.write_all(scenarios::text(&smaller).as_bytes())?;
        }
    }
    Ok(exit_code(verdict.worst))
}

/// Runs one seed and prints its steps.
fn trace(arguments: &Simulate, way: Way, scenario: &Scenario) -> io::Result<ExitCode> {
    let Range { start: seed, end } = arguments.seeds;
    if end - seed > 1 {
        let text = "`--trace` needs one seed, as in `--seeds 7`";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    let run = traced(seed, way, scenario, true);
    let mut verdict = Verdict::default();
    verdict.add(seed, &run);
    let mut out = io::stdout();
    match run {
        Ok(report) => writeln!(out, "{}\n{report}", report.trace)?,
        Err(text) => writeln!(out, "seed {seed}: panicked: {text}")?,
    }
    Ok(exit_code(verdict.worst))
}

fn merge(arguments: &Simulate, first: &Path, others: &[PathBuf]) -> io::Result<ExitCode> {
    let mut verdict = read(first)?;
    for path in others {
        let merged = verdict.merge(read(path)?);
        merged.map_err(|text| io::Error::new(io::ErrorKind::InvalidData, text))?;
    }
    let mut out = io::stdout();
    if arguments.json {
        writeln!(out, "{}", serde_json::to_string(&verdict)?)?;
    } else {
        writeln!(out, "{verdict}")?;
        for failed in &verdict.failed_runs {
            writeln!(out, "seed {}: {}", failed.seed, failed.message)?;
        }
    }
    Ok(exit_code(verdict.worst))
}

fn read(path: &Path) -> io::Result<Verdict> {
    let wrong = |text: String| {
        let text = format!("{}: {text}", path.display());
        io::Error::new(io::ErrorKind::InvalidData, text)
    };
    if fs::metadata(path)
        .map_err(|error| wrong(error.to_string()))?
        .len()
        > MAX_VERDICT_BYTES
    {
        return Err(wrong("the file is too long for a verdict".to_owned()));
    }
    let text = fs::read(path).map_err(|error| wrong(error.to_string()))?;
    serde_json::from_slice(&text).map_err(|error| wrong(error.to_string()))
}

fn is_failed(run: &Result<Report, String>) -> bool {
    match run {
        Ok(report) => report.failure.is_some(),
        Err(_) => true,
    }
}

/// Returns the command that repeats the run of a seed.
fn replay(name: &str, seed: u64, way: Way) -> String {
    format!("replay: onionskin simulate {name} --way {way} --seeds {seed} --trace")
}

fn exit_code(worst: Option<Fault>) -> ExitCode {
    worst.map_or(ExitCode::SUCCESS, |fault| fault.exit_code().into())
}

fn bar_style() -> ProgressStyle {
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} seeds, {per_sec}, {eta} left");
    style.unwrap_or_else(|_| ProgressStyle::default_bar())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_and_shards_are_read() {
        assert_eq!(seeds("3..5"), Ok(3..5));
        assert_eq!(seeds("7"), Ok(7..8));
        for wrong in ["", "x", "5..3", "5..5", "1..", "18446744073709551615"] {
            assert!(seeds(wrong).is_err(), "{wrong}");
        }
        assert_eq!(shard("2/3"), Ok((2, 3)));
        for wrong in ["3/3", "0/0", "1", "a/b", "-1/2"] {
            assert!(shard(wrong).is_err(), "{wrong}");
        }
    }
}
