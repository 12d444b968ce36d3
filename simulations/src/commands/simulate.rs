//! The subcommand `simulate`.

mod single;
mod way;

use super::{
    Output,
    interrupt::{self, INTERRUPTED},
    print,
};
use clap::{ArgGroup, Args};
use indicatif::{ProgressBar, ProgressStyle};
use onionskin_core::text::{printable, printable_json};
use onionskin_simulations::simulate::{
    Sweep, keep_panics, run_keeping, scenarios,
    shrink::shrink,
    verdict::{FailedRun, Task, Verdict},
};
use onionskin_worlds::world::{Report, Scenario, Way, Workload, WorldOptions, check_setup};
use std::{
    io::{self, Write as _},
    ops::Range,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};
use way::WayName;

/// The number of failed runs that are printed while a sweep runs.
const PRINTED_FAILURES: u64 = 5;

/// The number of seeds of which it is checked before a sweep whether their runs can begin.
const CHECKED_SEEDS: usize = 100;

/// The largest size of a verdict that is read, in bytes.
const MAX_VERDICT_BYTES: u64 = 64 * 1024 * 1024;

/// The name of the program in lines that are kept.
const PROGRAM: &str = "onionskin";

/// The options that are about runs.
const OF_RUNS: [&str; 11] = [
    "seeds",
    "way",
    "jobs",
    "shard",
    "until_failure",
    "seconds",
    "trace",
    "record",
    "report",
    "history",
    "shrink",
];

/// The arguments of `simulate`.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("what").required(true))]
pub(crate) struct Simulate {
    /// The name of a scenario, or the path of a file with one, which ends with `.toml`.
    #[arg(group = "what")]
    scenario: Option<String>,
    /// List the scenarios.
    #[arg(long, group = "what", conflicts_with_all = OF_RUNS)]
    list: bool,
    /// Print the file of a scenario, to be changed.
    #[arg(long, group = "what", value_name = "SCENARIO", conflicts_with_all = OF_RUNS)]
    show: Option<String>,
    /// Join the verdicts in these files, which `--json` has printed, to one.
    #[arg(long, group = "what", value_name = "FILE", num_args = 1..)]
    #[arg(conflicts_with_all = OF_RUNS)]
    merge: Vec<PathBuf>,
    /// The seeds: from the first to the one before the last, or one seed.
    #[arg(long, value_name = "A..B", default_value = "0..100", value_parser = seeds)]
    seeds: Range<u64>,
    /// How the clients are driven: the core alone, or the async client on a simulated runtime.
    /// Default: core, or runtime for a scenario with the workload `applications` or with a rate of
    /// `starved`.
    #[arg(long, value_enum)]
    way: Option<WayName>,
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
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: Option<u64>,
    /// Print the verdict as one JSON document.
    #[arg(long)]
    json: bool,
    /// Print each step of the run. Only with one seed.
    #[arg(long, conflicts_with_all = ["json", "shard", "jobs", "seconds", "until_failure"])]
    trace: bool,
    /// Record the run in this file, for `onionskin replay`. Only with one seed.
    #[arg(long, value_name = "FILE")]
    #[arg(conflicts_with_all = ["json", "shard", "jobs", "seconds", "until_failure", "trace"])]
    #[arg(conflicts_with_all = ["report", "history", "shrink"])]
    record: Option<PathBuf>,
    /// Write a page of HTML that shows the first failed run, or without a failure the first run. A
    /// run that panicked has none.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Write the transactions on lists of the first failed run, or without a failure of the first
    /// run, as lines of JSON for a checker of isolation such as Elle. Other workloads than
    /// `applications` have no such transactions.
    #[arg(long, value_name = "FILE")]
    history: Option<PathBuf>,
    /// End with the first failed seed, look for a smaller scenario with which it still fails in the
    /// same way, and print its file.
    #[arg(long, conflicts_with_all = ["json", "trace"])]
    shrink: bool,
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
        _ => Err(format!(
            "must be one number below {}, or two as in 0..100, of which the second is higher",
            u64::MAX
        )),
    }
}

fn shard(text: &str) -> Result<(u64, u64), String> {
    let parts = text.split_once('/');
    let parts = parts.and_then(|(place, count)| place.parse().ok().zip(count.parse().ok()));
    let within = parts.filter(|(place, count): &(u64, u64)| place < count);
    within.ok_or_else(|| "must be as in 0/4, of which the first is lower".into())
}

/// Runs the subcommand. The exit code is 0 if all runs succeeded, or else that of the worst
/// failure: 3 crash, 4 safety, 5 liveness. It is 2 if an argument or a file is wrong, and 130 if
/// a signal ended the sweep, or one of the merged shards, before a failure.
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
        let lines = scenarios::list().map(|(name, scenario)| line(name, &scenario));
        print(&lines.collect::<String>())?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(name) = &arguments.show {
        let scenario = scenarios::find(name)?;
        print(&scenarios::text(&scenario))?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some((first, others)) = arguments.merge.split_first() {
        return merge(arguments, first, others);
    }
    let name = arguments.scenario.as_deref().unwrap_or_default();
    let scenario = scenarios::find(name)?;
    let way = way::of(arguments.way, &scenario);
    if let Some(line) = way::without_effect(way, &scenario) {
        tell(&(line + "\n"));
    }
    sweep(arguments, name, way, &scenario)
}

/// Returns the line of `--list` about a scenario.
fn line(name: &str, scenario: &Scenario) -> String {
    let sources = match scenario.sources.as_slice() {
        [] => String::new(),
        sources => format!(" ({})", sources.join(", ")),
    };
    format!("{name:16} {}{sources}\n", scenario.about)
}

fn sweep(arguments: &Simulate, name: &str, way: Way, scenario: &Scenario) -> io::Result<ExitCode> {
    // Some scenarios are impossible with a part of what seeds draw.
    for seed in arguments.seeds.clone().take(CHECKED_SEEDS) {
        check_setup(seed, way, &scenario.options(seed)).map_err(|failure| {
            let text = format!("{name}: with seed {seed}, {}", printable(&failure.message));
            io::Error::new(io::ErrorKind::InvalidInput, text)
        })?;
    }
    if arguments.trace {
        return single::trace(arguments, way, name, scenario);
    }
    if let Some(path) = &arguments.record {
        return single::record(arguments, path, way, name, scenario);
    }
    let outputs = open_outputs(arguments, scenario)?;
    keep_panics();
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
        stop: Arc::default(),
    };
    if sweep.count() == 0 {
        tell("This shard has no seed.\n");
    }
    interrupt::stop_when_interrupted(sweep.stop.clone())?;
    // Without a terminal, no bar is drawn.
    let bar = ProgressBar::new(sweep.count()).with_style(bar_style());
    let began = Instant::now();
    let task = task(name, scenario, way, &sweep);
    let verdict = Verdict::new(task, sweep.shard.0, sweep.count());
    let mut verdict = sweep.run(scenario, way, verdict, |verdict, seed, run| {
        bar.inc(1);
        if verdict.failures.total() <= PRINTED_FAILURES
            && let Some(failed) = FailedRun::of(seed, run)
        {
            bar.suspend(|| {
                tell(&format!(
                    "{failed}\n  {}\n",
                    replay(name, seed, &way.to_string())
                ))
            });
        }
    });
    verdict.interrupted = sweep.stop.load(Ordering::Relaxed) && verdict.seeds < verdict.wanted;
    bar.finish_and_clear();
    if verdict.failures.total() > PRINTED_FAILURES {
        tell_failed_seeds(&verdict);
    }
    match arguments.json {
        true => print(&json(&verdict)?)?,
        // The standard output is the file of the smaller scenario.
        false if arguments.shrink => tell(&(verdict.summary(began.elapsed()) + "\n")),
        false => print(&(verdict.summary(began.elapsed()) + "\n"))?,
    }
    let failed = verdict.failed_runs.first().map(|failed| failed.seed);
    let shown = failed.or_else(|| sweep.first().filter(|_| verdict.seeds > 0));
    let mut written = Ok(());
    if outputs.page.is_some() || outputs.history.is_some() {
        let keep = |options: &mut WorldOptions| options.keep_picture = outputs.page.is_some();
        let run = shown.map(|seed| run_keeping(seed, way, scenario, keep));
        written = outputs.write(name, run.as_ref());
    }
    if let (true, Some(failed)) = (arguments.shrink, verdict.failed_runs.first()) {
        print_smaller(failed.seed, way, scenario, &sweep.stop)?;
    }
    conclude(&verdict, written)
}

fn task(name: &str, scenario: &Scenario, way: Way, sweep: &Sweep) -> Task {
    Task {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        scenario: name.to_owned(),
        definition: scenarios::text(scenario),
        way: way.to_string(),
        first: sweep.seeds.start,
        end: sweep.seeds.end,
        shards: sweep.shard.1,
    }
}

/// Looks for a smaller scenario in which the run with this seed fails, and prints its file.
fn print_smaller(seed: u64, way: Way, scenario: &Scenario, stop: &AtomicBool) -> io::Result<()> {
    tell("Looking for a smaller scenario.");
    let smaller = shrink(seed, way, scenario, stop, |_| tell("."));
    tell("\n");
    let Some((smaller, failure)) = smaller else {
        return Ok(());
    };
    let text = failure.to_string().replace('\n', "\n# ");
    // The file is for other machines as well.
    let mut replay = format!(
        "replay: {}",
        command(PROGRAM, "FILE", seed, &way.to_string())
    );
    if smaller.schedule.is_none() {
        replay += "\n# with its disasters as a schedule, the run does not fail in the same way";
    }
    let file = scenarios::text(&smaller);
    print(&format!("# {way}, {text}\n# {replay}\n{file}"))
}

/// Returns the exit code of a verdict. A file that could not be written is an error, unless a run
/// has failed.
fn conclude(verdict: &Verdict, written: io::Result<()>) -> io::Result<ExitCode> {
    match written {
        Err(error) if verdict.failures.total() == 0 => Err(error),
        Err(error) => {
            tell(&format!("onionskin: {error}\n"));
            Ok(exit_code(verdict))
        }
        Ok(()) => Ok(exit_code(verdict)),
    }
}

fn tell_failed_seeds(verdict: &Verdict) {
    let failed = verdict.failed_runs.iter();
    let seeds: Vec<String> = failed.map(|failed| failed.seed.to_string()).collect();
    tell(&format!("the lowest failed seeds: {}\n", seeds.join(", ")));
}

/// Prints to the standard error, if it takes it.
fn tell(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}

fn merge(arguments: &Simulate, first: &Path, others: &[PathBuf]) -> io::Result<ExitCode> {
    let wrong = |text: String| io::Error::new(io::ErrorKind::InvalidData, text);
    let mut verdict = read(first)?;
    for path in others {
        let merged = verdict.merge(read(path)?);
        merged.map_err(|text| wrong(format!("{}: {text}", path.display())))?;
    }
    if let Some(missing) = verdict.missing() {
        let shards = verdict.task.shards;
        return Err(wrong(format!(
            "the verdict on the shard {missing}/{shards} is missing"
        )));
    }
    let mut text = match arguments.json {
        true => json(&verdict)?,
        false => format!("{verdict}\n"),
    };
    if !arguments.json {
        let task = &verdict.task;
        for failed in &verdict.failed_runs {
            let name = printable(&task.scenario);
            let replay = replay(&name, failed.seed, &printable(&task.way));
            text.push_str(&format!("{failed}\n  {replay}\n"));
        }
    }
    print(&text)?;
    Ok(exit_code(&verdict))
}

fn read(path: &Path) -> io::Result<Verdict> {
    let wrong = |text: String| {
        let text = format!("{}: {text}", path.display());
        io::Error::new(io::ErrorKind::InvalidData, text)
    };
    let text =
        scenarios::read(path, MAX_VERDICT_BYTES).map_err(|error| wrong(error.to_string()))?;
    serde_json::from_str(&text).map_err(|error| wrong(printable(&error.to_string()).into_owned()))
}

fn json(verdict: &Verdict) -> io::Result<String> {
    let json = serde_json::to_string(verdict)?;
    Ok(printable_json(&json).into_owned() + "\n")
}

fn open_outputs<'a>(arguments: &'a Simulate, scenario: &Scenario) -> io::Result<Outputs<'a>> {
    let (page, history) = (arguments.report.as_deref(), arguments.history.as_deref());
    let refuse = |text: &str| Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    if history.is_some() && scenario.workload != Some(Workload::Applications) {
        return refuse("`--history` needs a scenario with the workload `applications`");
    }
    let [page_file, history_file] =
        [page, history].map(|path| path.and_then(|path| path.canonicalize().ok()));
    let is_read = [page, history]
        .into_iter()
        .flatten()
        .any(|path| single::is_read(arguments, path));
    let is_same = page.is_some() && page == history;
    if is_read || is_same || page_file.is_some() && page_file == history_file {
        return refuse("`--report`, `--history` and the scenario must be different files");
    }
    Ok(Outputs {
        page: Output::open("report", arguments.report.as_deref())?,
        history: Output::open("history", arguments.history.as_deref())?,
    })
}

/// The files of `--report` and `--history`.
struct Outputs<'a> {
    page: Option<Output<'a>>,
    history: Option<Output<'a>>,
}

impl Outputs<'_> {
    /// Writes what the options ask for about a run. A run that panicked has nothing of it.
    fn write(self, scenario: &str, run: Option<&Result<Report, String>>) -> io::Result<()> {
        let write = |output: Option<Output<'_>>, text: &dyn Fn(&Report) -> Option<String>| {
            let Some(output) = output else { return Ok(()) };
            let text = match run {
                None => Err("no seed has run"),
                Some(Err(_)) => Err("the run has panicked"),
                Some(Ok(report)) => text(report).ok_or("the run has none"),
            };
            let bytes = text.as_deref().map(str::as_bytes);
            tell(&output.write(bytes.map_err(|reason| *reason))?);
            Ok(())
        };
        let page = write(self.page, &|report| {
            let Report { seed, way, .. } = report;
            let title = format!("{scenario}, seed {seed}, {way}");
            report.page(
                &title,
                Some(&command(PROGRAM, scenario, *seed, &way.to_string())),
            )
        });
        let history = write(self.history, &|report| {
            let lines = report.lists.json_lines();
            (!lines.is_empty()).then_some(lines)
        });
        page.and(history)
    }
}

/// Returns the line about the command that repeats the run of a seed. The program is named as it
/// was called, so that the line works as it is.
fn replay(name: &str, seed: u64, way: &str) -> String {
    let program = std::env::args().next();
    let program = program.as_deref().unwrap_or(PROGRAM);
    format!("replay: {}", command(program, name, seed, way))
}

fn command(program: &str, name: &str, seed: u64, way: &str) -> String {
    let (program, name, way) = (quoted(program), quoted(name), quoted(way));
    format!("{program} simulate {name} --way {way} --seeds {seed} --trace")
}

/// Returns a word as a shell reads it.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
    match word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

fn exit_code(verdict: &Verdict) -> ExitCode {
    match verdict.failures.worst() {
        Some(fault) => fault.exit_code().into(),
        None if verdict.interrupted => INTERRUPTED.into(),
        None => ExitCode::SUCCESS,
    }
}

fn bar_style() -> ProgressStyle {
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} seeds, {per_sec}, {eta} left");
    style.unwrap_or_else(|_| ProgressStyle::default_bar())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_shows_what_a_scenario_is_modelled_on() {
        let mut scenario = Scenario::default();
        scenario.about = "One dies.".to_owned();
        assert_eq!(line("death", &scenario), "death            One dies.\n");
        scenario.sources = vec!["go#1".to_owned(), "ruby#2".to_owned()];
        assert!(line("death", &scenario).ends_with("One dies. (go#1, ruby#2)\n"));
    }

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
