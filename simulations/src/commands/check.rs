//! The subcommand `check`.

use super::print;
use clap::{Args, ValueEnum};
use onionskin_check::{CheckOptions, Report, Step, check_with};
use std::{
    io::{self, BufRead as _, IsTerminal as _, Read as _},
    process::ExitCode,
    time::Duration,
};

/// The maximum length of a connection string on the standard input, in bytes.
const MAX_LINE: u64 = 64 * 1024;

/// The arguments of `check`.
#[derive(Debug, Args)]
pub(crate) struct Check {
    /// The connection string, which begins with mongodb:// or mongodb+srv://. With `-`, it is the
    /// first line of the standard input, so that other users of the machine do not see a password
    /// in it.
    uri: String,
    /// Print the report as one JSON document instead of text.
    #[arg(long)]
    json: bool,
    /// The runtime of the client.
    #[arg(long, value_enum, default_value_t = RuntimeName::Tokio)]
    runtime: RuntimeName,
    /// The time limit of the whole check in seconds, at least one. With the blocking runtime, the
    /// resolver of the system can exceed it.
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=86_400))]
    timeout: u64,
    /// Exit with the code of a failed step also if a client can use the deployment without it, for
    /// example if one of three members cannot be reached. Fail also if an option of the connection
    /// string is ignored, for example because its name is misspelt.
    #[arg(long)]
    strict: bool,
    /// When to colour the text. `auto`: on a terminal, unless the environment variable `NO_COLOR`
    /// is set.
    #[arg(long, value_enum, default_value_t = Colour::Auto)]
    color: Colour,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum RuntimeName {
    Tokio,
    AsyncStd,
    Smol,
    Blocking,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Colour {
    Auto,
    Always,
    Never,
}

impl Check {
    fn options(&self) -> CheckOptions {
        let mut options = CheckOptions::default();
        options.timeout = Duration::from_secs(self.timeout);
        options.strict = self.strict;
        options
    }

    fn has_colour(&self) -> bool {
        match self.color {
            Colour::Always => true,
            Colour::Never => false,
            Colour::Auto => {
                let no_colour = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
                io::stdout().is_terminal() && !no_colour
            }
        }
    }
}

/// Runs a check, and prints its report. Returns the exit code of the report.
pub(crate) fn run(check: &Check) -> io::Result<ExitCode> {
    let uri = match check.uri.as_str() {
        "-" => first_line()?,
        uri => uri.to_owned(),
    };
    let uri = uri.trim();
    let (options, colour) = (check.options(), check.has_colour());
    let mut result = Ok(());
    let report = report_of(check.runtime, uri, &options, |step| {
        if !check.json && result.is_ok() {
            result = print(&step.to_text(colour));
        }
    })?;
    result?;
    print(&match check.json {
        true => report.to_json(),
        false => report.verdict_text(colour),
    })?;
    Ok(ExitCode::from(report.exit_code()))
}

/// Returns the first line of the standard input. Fails if it is longer than [`MAX_LINE`] or not in
/// UTF-8. If it were cut or changed instead, a server would refuse the password, and nobody would
/// see why.
fn first_line() -> io::Result<String> {
    let refuse = |text: &str| Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    let mut line = Vec::new();
    let mut input = io::stdin().lock().take(MAX_LINE + 1);
    input.read_until(b'\n', &mut line)?;
    if line.len() as u64 > MAX_LINE {
        return refuse("the first line of the standard input is too long");
    }
    match String::from_utf8(line) {
        Ok(line) => Ok(line),
        Err(_) => refuse("the first line of the standard input is not in UTF-8"),
    }
}

/// Runs a check on this runtime.
fn report_of(
    runtime: RuntimeName,
    uri: &str,
    options: &CheckOptions,
    on_step: impl FnMut(&Step) + Send,
) -> io::Result<Report> {
    Ok(match runtime {
        RuntimeName::Tokio => {
            let tokio = tokio::runtime::Runtime::new()?;
            let report = tokio.block_on(async {
                let runtime = onionskin_tokio::TokioRuntime::default();
                check_with(runtime, uri, options, on_step).await
            });
            // The system's resolver can block a thread beyond the time limit of the check.
            tokio.shutdown_background();
            report
        }
        RuntimeName::AsyncStd => async_std::task::block_on(check_with(
            onionskin_async_std::AsyncStdRuntime::default(),
            uri,
            options,
            on_step,
        )),
        RuntimeName::Smol => smol::block_on(check_with(
            onionskin_smol::SmolRuntime::default(),
            uri,
            options,
            on_step,
        )),
        RuntimeName::Blocking => {
            let runtime = onionskin_blocking::BlockingRuntime::default();
            let own = runtime.clone();
            runtime.block_on(check_with(own, uri, options, on_step))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Only {
        #[command(flatten)]
        check: Check,
    }

    fn parsed(arguments: &str) -> Result<Check, clap::Error> {
        let words = ["check"].into_iter().chain(arguments.split(' '));
        Only::try_parse_from(words).map(|only| only.check)
    }

    #[test]
    fn each_flag_of_check_has_its_effect() {
        let check = parsed("mongodb://db").expect("a URI is enough");
        assert_eq!(check.options(), CheckOptions::default());
        assert!(!check.json && check.runtime == RuntimeName::Tokio);
        let check = parsed("mongodb://db --json --strict --timeout 7 --runtime blocking");
        let check = check.expect("they are flags");
        let options = check.options();
        assert_eq!(options.timeout, Duration::from_secs(7));
        assert!(options.strict && check.json && check.runtime == RuntimeName::Blocking);
        for (name, has_colour) in [("always", true), ("never", false)] {
            let check = parsed(&format!("mongodb://db --color {name}")).expect(name);
            assert_eq!(check.has_colour(), has_colour);
        }
        for wrong in [
            "--json",
            "mongodb://db --timeout 0",
            "mongodb://db --color red",
        ] {
            assert!(parsed(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn each_runtime_checks_a_connection_string() {
        let options = CheckOptions::default();
        for runtime in RuntimeName::value_variants() {
            let mut steps = 0;
            let report = report_of(*runtime, "mongo://db", &options, |_| steps += 1);
            let report = report.expect("the runtime starts");
            assert_eq!((report.exit_code(), steps), (10, 1), "{runtime:?}");
        }
    }
}
