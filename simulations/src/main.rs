//! The `onionskin` command.

use clap::{Args, Parser, Subcommand, ValueEnum};
use onionskin_simulations::{
    demo::{self, DemoOptions},
    deployment::{MAX_VOTING_MEMBERS, User},
    serve::{Embedded, ServeOptions},
};
use std::{
    io::{self, Write as _},
    path::PathBuf,
    process::ExitCode,
    time::Duration,
};

/// A MongoDB deployment of one's own, simulated.
#[derive(Debug, Parser)]
#[command(name = "onionskin", version)]
struct Command {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Run a deployment on loopback sockets until interrupted; its URI is the first line printed.
    Serve(Serve),
    /// Write and read from many tasks while an embedded replica set fails over, and tell the story.
    Demo(Demo),
}

#[derive(Debug, Args)]
struct Demo {
    /// What runs the client.
    #[arg(long, value_enum, default_value_t = RuntimeName::Tokio)]
    runtime: RuntimeName,
    /// Run the same load, without the faults, against this deployment.
    #[arg(long)]
    uri: Option<String>,
    /// How many tasks write and read at once.
    #[arg(long, default_value_t = 32)]
    tasks: usize,
    /// How long the load runs.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum RuntimeName {
    Tokio,
    AsyncStd,
    Smol,
}

#[derive(Debug, Args)]
struct Serve {
    /// The replica set's name.
    #[arg(long, default_value = "rs0")]
    replica_set: String,
    /// How many members the replica set has.
    #[arg(long, default_value_t = 3)]
    members: usize,
    /// One server without a replica set.
    #[arg(long, conflicts_with_all = ["replica_set", "members"])]
    standalone: bool,
    /// So many routers in front of one shard.
    #[arg(long, value_name = "ROUTERS")]
    #[arg(conflicts_with_all = ["replica_set", "members", "standalone"])]
    sharded: Option<usize>,
    /// So many services behind a load balancer. Each listens at a port of its own as well, where
    /// another load balancer may connect, with or without the PROXY protocol.
    #[arg(long, value_name = "SERVICES", num_args = 0..=1, default_missing_value = "2")]
    #[arg(conflicts_with_all = ["replica_set", "members", "standalone", "sharded"])]
    load_balanced: Option<usize>,
    /// The first port: that of the load balancer, or of the first member; the others follow. Free
    /// ports if left out.
    #[arg(long, value_name = "BASE")]
    port: Option<u16>,
    /// Encrypt connections, with a certificate authority made for the occasion.
    #[arg(long)]
    tls: bool,
    /// Where to write the certificates.
    #[arg(long, value_name = "DIR", requires = "tls")]
    tls_dir: Option<PathBuf>,
    /// Ask for a login.
    #[arg(long, value_name = "USER:PASSWORD")]
    auth: Option<String>,
    /// Where chance comes from.
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

fn main() -> ExitCode {
    let command = Command::parse();
    let done = match command.what {
        What::Serve(serve) => run_serve(serve),
        What::Demo(demo) => run_demo(demo),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("onionskin: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run_demo(demo: Demo) -> io::Result<()> {
    let options = DemoOptions {
        uri: demo.uri,
        tasks: demo.tasks,
        duration: Duration::from_secs(demo.seconds),
    };
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
    match report {
        Ok(report) if report.is_sound() => Ok(()),
        Ok(_) => Err(io::Error::other("the report shows a loss")),
        Err(error) => Err(io::Error::other(error)),
    }
}

fn run_serve(serve: Serve) -> io::Result<()> {
    let mut options = match (serve.load_balanced, serve.sharded) {
        (Some(services), _) => ServeOptions::load_balanced(services),
        (None, Some(routers)) => ServeOptions::sharded(routers),
        (None, None) if serve.standalone => ServeOptions::standalone(),
        (None, None) => ServeOptions::replica_set(&serve.replica_set, serve.members),
    };
    // No more than seven members may vote; the others follow.
    for member in options.members.iter_mut().skip(MAX_VOTING_MEMBERS) {
        member.votes = false;
        member.priority = 0;
    }
    options.port = serve.port;
    options.tls = serve.tls;
    options.tls_directory = serve.tls_dir;
    options.seed = serve.seed;
    if let Some(auth) = &serve.auth {
        let Some((name, password)) = auth.split_once(':') else {
            return Err(io::Error::other("--auth takes USER:PASSWORD"));
        };
        options.users.push(User::new(name, password));
    }
    let deployment = Embedded::start(options)?;
    let mut out = io::stdout().lock();
    writeln!(out, "{}", deployment.uri())?;
    out.flush()?;
    drop(out);
    if serve.load_balanced.is_some() {
        for (number, address) in deployment.addresses().iter().enumerate() {
            eprintln!("Service {number}: {address}");
        }
    }
    if let Some(directory) = deployment.tls_directory() {
        eprintln!("CA certificate: {}", directory.join("ca.pem").display());
    }
    eprintln!("Press Ctrl-C to stop.");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(interrupted())
}

/// Waits for SIGINT or SIGTERM.
async fn interrupted() -> io::Result<()> {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let mut terminate = signal(SignalKind::terminate())?;
        tokio::select! {
            done = tokio::signal::ctrl_c() => done,
            _ = terminate.recv() => Ok(()),
        }
    }
    #[cfg(not(unix))]
    tokio::signal::ctrl_c().await
}
