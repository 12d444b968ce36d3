//! The `onionskin` command.

mod commands;

use clap::{Args, Parser, Subcommand, ValueEnum};
use commands::{
    Output,
    check::{self, Check},
    interrupt,
    replay::{self, ReplayRun},
    serve::{self, Serve},
    simulate::{self, Simulate},
};
use onionskin::recording::RecordingOptions;
use onionskin_simulations::demo::{self, DemoOptions};
use std::{io, path::PathBuf, process::ExitCode, sync::Arc, time::Duration};

/// The largest number of tasks of a demonstration.
const MAX_TASKS: usize = 10_000;

/// The largest size of the recording of a demonstration.
const MAX_RECORDING_BYTES: usize = 256 << 20;

/// The reason why a demonstration has no report.
const FAILED: &str = "the demonstration ended with an error";

/// Runs simulated MongoDB deployments, and explains connections to real ones.
#[derive(Debug, Parser)]
#[command(name = "onionskin", version)]
struct Command {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Run a deployment on loopback sockets until interrupted. The first line printed is its URI.
    Serve(Box<Serve>),
    /// Write and read from many tasks while an embedded replica set fails over, and print a report.
    Demo(Demo),
    /// Explain step by step why a client can or cannot use a deployment. The exit code is 0 if it
    /// can, or else that of the failed step: 10 connection string, 11 DNS, 12 dial, 13 TLS, 14
    /// hello, 15 authentication, 16 topology. If several servers fail, the furthest step counts.
    Check(Check),
    /// Run clients and a deployment in virtual time, with faults, once for each seed. The exit code
    /// is 0 if all runs succeed, or else that of the worst failure: 3 crash, 4 safety, 5 liveness.
    /// It is 130 if SIGINT or SIGTERM ends the sweep before a failure.
    Simulate(Simulate),
    /// Repeat a run that `simulate --record` has recorded, or the decisions of a client that has
    /// recorded itself, and compare each step with the recording. The exit code is 0 if all steps
    /// are the recorded ones, 1 if one differs, and 2 if the file cannot be replayed.
    Replay(ReplayRun),
}

#[derive(Debug, Args)]
struct Demo {
    /// The async runtime of the client.
    #[arg(long, value_enum, default_value_t = RuntimeName::Tokio)]
    runtime: RuntimeName,
    /// Run the same load, without the faults, against this deployment. The load writes to it: a new
    /// collection `load_...` of the database `onionskin_demo` is filled, and dropped at the end.
    #[arg(long)]
    uri: Option<String>,
    /// The number of tasks that write and read at once, from 1 to 10000.
    #[arg(long, default_value_t = 32, value_parser = task_count)]
    tasks: usize,
    /// The duration of the load in seconds, from 1 to 86400.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: u64,
    /// Write a page of HTML to this file, which shows the run: the members, the client's servers
    /// and connections, its slow and failed operations, and its events.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Record the client, and write the recording to this file for `replay`, also if the
    /// demonstration fails. It has the first 256 MiB, which is more than a minute of load.
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum RuntimeName {
    Tokio,
    AsyncStd,
    Smol,
}

/// Parses a number, for example of tasks or members, which must not be 0.
pub(crate) fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("must be 1 or more".to_owned()),
        Ok(number) => Ok(number),
        Err(_) => Err("must be a whole number".to_owned()),
    }
}

fn task_count(text: &str) -> Result<usize, String> {
    let count = at_least_one(text)?;
    match count <= MAX_TASKS {
        true => Ok(count),
        false => Err(format!("must be {MAX_TASKS} or less")),
    }
}

fn main() -> ExitCode {
    let command = Command::parse();
    let done = match command.what {
        What::Serve(serve) => serve::run(&serve).map(|()| ExitCode::SUCCESS),
        What::Demo(demo) => run_demo(demo).map(|()| ExitCode::SUCCESS),
        What::Check(check) => check::run(&check),
        What::Simulate(simulate) => simulate::run(&simulate),
        What::Replay(replay) => replay::run(&replay),
    };
    match done {
        Ok(code) => code,
        Err(error) => {
            eprintln!("onionskin: {error}");
            match error.kind() {
                io::ErrorKind::InvalidInput => ExitCode::from(2),
                _ => ExitCode::FAILURE,
            }
        }
    }
}

fn run_demo(demo: Demo) -> io::Result<()> {
    let output = Output::open("report", demo.report.as_deref())?;
    let recording = Output::open("recording", demo.record.as_deref())?;
    let options = DemoOptions {
        uri: demo.uri,
        tasks: demo.tasks,
        duration: Duration::from_secs(demo.seconds),
        keep_picture: output.is_some(),
        recording: recording
            .is_some()
            .then(|| RecordingOptions::whole(MAX_RECORDING_BYTES)),
        failed: Arc::default(),
        stop: Arc::default(),
    };
    if options.uri.is_some() {
        // An interrupted load still drops its collection.
        interrupt::stop_when_interrupted(options.stop.clone())?;
    }
    let report = match demo.runtime {
        RuntimeName::Tokio => tokio::runtime::Runtime::new()?.block_on(demo::run(
            onionskin_tokio::TokioRuntime::default,
            "tokio",
            &options,
        )),
        RuntimeName::AsyncStd => async_std::task::block_on(demo::run(
            onionskin_async_std::AsyncStdRuntime::default,
            "async-std",
            &options,
        )),
        RuntimeName::Smol => smol::block_on(demo::run(
            onionskin_smol::SmolRuntime::default,
            "smol",
            &options,
        )),
    };
    let written = output.map(|output| {
        let page = match &report {
            Ok(report) => report.page().ok_or("the demonstration was not recorded"),
            Err(_) => Err(FAILED),
        };
        output.write(page.map(str::as_bytes))
    });
    let recorded = recording.map(|output| {
        let bytes = match &report {
            Ok(report) => report.recording().ok_or("the client was not recorded"),
            Err(_) => options.failed.get().map(Vec::as_slice).ok_or(FAILED),
        };
        output.write(bytes)
    });
    let written = written.transpose();
    let recorded = recorded.transpose();
    for line in [&written, &recorded].into_iter().flatten().flatten() {
        commands::print(line)?;
    }
    let written = written.and(recorded);
    let failure = match report {
        Ok(report) if report.is_sound() => return written.map(|_| ()),
        Ok(report) => io::Error::other(report.verdict().to_string()),
        Err(error) => io::Error::other(error),
    };
    if let Err(error) = written {
        eprintln!("onionskin: {error}");
    }
    Err(failure)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;
    use onionskin_core::options::Compressor;
    use onionskin_deployment::deployment::{AuthMechanism, CompressedReplies};
    use onionskin_serve::ServeOptions;
    use std::collections::BTreeSet;

    /// Returns the options that `serve` has with these arguments.
    fn served(arguments: &str) -> Result<ServeOptions, String> {
        let arguments = ["onionskin", "serve"]
            .into_iter()
            .chain(arguments.split(' '));
        let parsed = Command::try_parse_from(arguments.filter(|word| !word.is_empty()));
        match parsed.map_err(|error| error.to_string())?.what {
            What::Serve(serve) => serve::options(&serve).map_err(|error| error.to_string()),
            other => panic!("{other:?} is not served"),
        }
    }

    /// A flag of `serve`, a value for it, and a check that the options have this value.
    type Flag = (&'static str, &'static str, fn(&ServeOptions) -> bool);

    const SERVE: [Flag; 21] = [
        ("replica-set", "other", |o| {
            o.replica_set.as_deref() == Some("other")
        }),
        ("members", "9", |o| {
            o.members.len() == 9 && o.members.iter().filter(|m| m.votes).count() == 7
        }),
        ("standalone", "", |o| o.replica_set.is_none() && !o.sharded),
        ("sharded", "2", |o| o.sharded && o.members.len() == 2),
        ("shards", "2 --sharded=2", |o| o.shards == 2),
        ("load-balanced", "3", |o| {
            o.load_balanced && o.members.len() == 3
        }),
        ("scenario", "failover", |o| {
            let faults = o.faults.as_ref();
            faults.is_some_and(|faults| faults.plan.len() == 5)
        }),
        ("port", "30000", |o| o.port == Some(30000)),
        ("tls", "", |o| o.tls),
        ("tls-dir", "here --tls", |o| {
            o.tls_directory == Some("here".into())
        }),
        ("tls-ca-file", "here --tls", |o| {
            o.tls_ca_file == Some("here".into())
        }),
        ("auth", "u:p", |o| o.users.len() == 1),
        ("auth-mechanisms", "PLAIN,MONGODB-OIDC --auth=u:p", |o| {
            o.auth.mechanisms.len() == 2 && o.users.len() == 2
        }),
        ("aws-identity", "i:s --aws-identity=j:s:t", |o| {
            let token = o.auth.aws.find("j").and_then(|found| found.session_token);
            let is_permitted = o.auth.mechanisms.contains(&AuthMechanism::Aws);
            is_permitted && o.users.len() == 1 && token.as_deref() == Some("t")
        }),
        ("compressors", "zstd,snappy", |o| {
            o.compression.compressors == [Compressor::Zstd, Compressor::Snappy]
        }),
        ("compressed-replies", "never", |o| {
            o.compression.replies == CompressedReplies::Never
        }),
        ("compression-threshold", "100", |o| {
            o.compression.threshold == 100
        }),
        ("oidc-token-dir", "here", |o| {
            o.auth.issuers.len() == 1 && o.oidc_token_directory == Some("here".into())
        }),
        ("external-user", "a --external-user=b --tls", |o| {
            o.users.len() == 3
        }),
        ("server-version", "8.0", |o| o.version.max_wire == 25),
        ("seed", "7", |o| o.seed == 7),
    ];

    /// Returns the long flags of a subcommand.
    fn flags(subcommand: &str) -> BTreeSet<String> {
        let command = Command::command();
        let found = command.find_subcommand(subcommand).expect("it is there");
        let names = found.get_arguments().filter_map(clap::Arg::get_long);
        names.map(str::to_owned).collect()
    }

    #[test]
    fn each_flag_of_serve_sets_its_option() {
        let listed: BTreeSet<String> = SERVE.iter().map(|(name, ..)| (*name).into()).collect();
        // `--check` is an option of the command, and not of the deployment.
        let mut flags = flags("serve");
        assert!(flags.remove("check"));
        assert_eq!(listed, flags);
        for (name, value, is_obeyed) in SERVE {
            let options = served(&format!("--{name} {value}")).expect(name);
            assert!(is_obeyed(&options), "{name}");
            let default = served("").expect("the defaults");
            assert!(!is_obeyed(&default), "{name} changes nothing");
        }
        for wrong in [
            "--members 0",
            "--scenario none",
            "--scenario failover --members 5",
            "--sharded 0",
            "--shards 0 --sharded 2",
            "--shards 2 --standalone",
            "--auth nobody",
            "--auth :password",
            "--auth-mechanisms PLAIN",
            "--auth-mechanisms MONGODB-X509",
            "--auth-mechanisms PLAIN --aws-identity i:s",
            "--auth-mechanisms PLAIN --auth u:p --oidc-token-dir here",
            "--tls-dir here",
            "--tls-ca-file here",
            "--auth-mechanisms NTLM",
            "--aws-identity id",
            "--compressors lz4",
            "--compressors zstd,disabled",
            "--compressed-replies always",
            "--compression-threshold -1",
            "--server-version 3.6",
        ] {
            assert!(served(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_certificate_of_the_client_is_a_user_only_with_authentication() {
        for (arguments, users) in [
            ("--tls", 0),
            ("--tls --auth-mechanisms=MONGODB-X509", 1),
            ("--tls --auth=u:p", 2),
            ("--auth=u:p", 1),
        ] {
            let options = served(arguments).expect(arguments);
            assert_eq!(options.users.len(), users, "{arguments}");
        }
    }

    #[test]
    fn demo_has_the_expected_flags_and_its_help_describes_its_writes() {
        let expected =
            ["record", "report", "runtime", "seconds", "tasks", "uri"].map(str::to_owned);
        assert_eq!(flags("demo"), expected.into());
        let mut command = Command::command();
        let demo = command.find_subcommand_mut("demo").expect("it is there");
        let help = demo.render_long_help().to_string();
        for part in ["writes to it", "onionskin_demo", "dropped at the end"] {
            assert!(help.contains(part), "{help}");
        }
        for wrong in ["--tasks=0", "--seconds=0", "--seconds=86401"] {
            assert!(
                Command::try_parse_from(["onionskin", "demo", wrong]).is_err(),
                "{wrong}"
            );
        }
    }
}
