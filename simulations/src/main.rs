//! The `onionskin` command.

mod commands;

use clap::{Args, Parser, Subcommand, ValueEnum};
use commands::check::{self, Check};
use onionskin_core::{options::Compressor, random::Seed};
use onionskin_simulations::{
    demo::{self, DemoOptions},
    deployment::{AuthMechanism, CompressedReplies, MAX_VOTING_MEMBERS, User},
    identity::{AwsIdentity, IssuerOptions, TokenIssuer},
    serve::{CLIENT_SUBJECT, Embedded, ServeOptions},
};
use std::{
    io::{self, Write as _},
    path::PathBuf,
    process::ExitCode,
    time::Duration,
};

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
    /// The number of tasks that write and read at once, at least one.
    #[arg(long, default_value_t = 32, value_parser = at_least_one)]
    tasks: usize,
    /// The duration of the load in seconds, at least one.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
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
    /// The name of the replica set.
    #[arg(long, default_value = "rs0")]
    replica_set: String,
    /// The number of members of the replica set.
    #[arg(long, default_value_t = 3, value_parser = at_least_one)]
    members: usize,
    /// Run one server without a replica set.
    #[arg(long, conflicts_with_all = ["replica_set", "members"])]
    standalone: bool,
    /// Run this number of routers in front of one shard.
    #[arg(long, value_name = "ROUTERS", value_parser = at_least_one)]
    #[arg(conflicts_with_all = ["replica_set", "members", "standalone"])]
    sharded: Option<usize>,
    /// Run this number of services behind a load balancer. Each service also has a port of its own,
    /// to which another load balancer can connect, with or without the PROXY protocol.
    #[arg(long, value_name = "SERVICES", num_args = 0..=1, default_missing_value = "2")]
    #[arg(value_parser = at_least_one)]
    #[arg(conflicts_with_all = ["replica_set", "members", "standalone", "sharded"])]
    load_balanced: Option<usize>,
    /// The first port, which is that of the load balancer or of the first member. The other ports
    /// follow. By default, free ports are used.
    #[arg(long, value_name = "BASE")]
    port: Option<u16>,
    /// Use TLS, with a new certificate authority.
    #[arg(long)]
    tls: bool,
    /// The directory to which the certificates are written.
    #[arg(long, value_name = "DIR", requires = "tls")]
    tls_dir: Option<PathBuf>,
    /// A file with the certificates of the authorities that sign client certificates. By default,
    /// the new certificate authority, which also signs `client.pem`.
    #[arg(long, value_name = "FILE", requires = "tls")]
    tls_ca_file: Option<PathBuf>,
    /// Require authentication as this user. If PLAIN is a mechanism, `$external` has this user too.
    #[arg(long, value_name = "USER:PASSWORD")]
    auth: Option<String>,
    /// The mechanisms of authentication, with a comma between them. By default, both SCRAM
    /// mechanisms and MONGODB-X509. GSSAPI needs the Cargo feature `gssapi`, and reads the keytab
    /// of KRB5_KTNAME.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = mechanism)]
    auth_mechanisms: Vec<AuthMechanism>,
    /// Add a user of `$external` without a password: the subject of a client certificate, an ARN,
    /// a user of OIDC, or a Kerberos principal with its realm. With TLS, the subject of
    /// `client.pem` is such a user if there are other users or if `--auth-mechanisms` has
    /// MONGODB-X509.
    #[arg(long, value_name = "NAME")]
    external_user: Vec<String>,
    /// Accept these AWS credentials, as the user `arn:aws:iam::123456789012:user/test`.
    #[arg(long, value_name = "ID:SECRET[:TOKEN]", value_parser = aws_identity)]
    aws_identity: Vec<AwsIdentity>,
    /// Accept tokens of an issuer, and write some into this directory: `test_user1`, `test_user2`,
    /// `test_machine` and `test_expired`.
    #[arg(long, value_name = "DIR")]
    oidc_token_dir: Option<PathBuf>,
    /// The compressors that the servers accept, with a comma between them, or `disabled`. By
    /// default, all of them: snappy, zlib and zstd.
    #[arg(long, value_name = "NAMES", value_parser = compressors)]
    compressors: Option<Compressors>,
    /// The replies that are compressed: `as-requested`, as in the server; `in-turn`, all of them,
    /// by each negotiated compressor in turn; or `never`.
    #[arg(
        long,
        value_name = "WHICH",
        value_parser = compressed_replies,
        default_value = "as-requested"
    )]
    compressed_replies: CompressedReplies,
    /// The size of the smallest reply that is compressed, in bytes.
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    compression_threshold: usize,
    /// The seed of all randomness.
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

/// Parses an access key id, a secret access key and perhaps a session token.
fn aws_identity(text: &str) -> Result<AwsIdentity, String> {
    let mut fields = text.splitn(3, ':');
    let (id, secret) = (fields.next(), fields.next());
    let (Some(id), Some(secret)) = (id, secret) else {
        return Err("must be ID:SECRET or ID:SECRET:TOKEN".to_owned());
    };
    let mut identity = AwsIdentity::new(id, secret);
    identity.session_token = fields.next().map(str::to_owned);
    Ok(identity)
}

/// Parses the name of a mechanism of authentication.
fn mechanism(name: &str) -> Result<AuthMechanism, String> {
    AuthMechanism::from_name(name).ok_or_else(|| {
        let names = AuthMechanism::ALL.map(AuthMechanism::name).join(", ");
        format!("must be one of {names}")
    })
}

/// The compressors that the servers accept.
#[derive(Clone, Debug)]
struct Compressors(Vec<Compressor>);

/// Parses a list of compressors, or `disabled`.
fn compressors(text: &str) -> Result<Compressors, String> {
    if text == "disabled" {
        return Ok(Compressors(Vec::new()));
    }
    let names = text.split(',').map(|name| {
        Compressor::from_name(name).ok_or_else(|| {
            let names = Compressor::ALL.map(Compressor::name).join(", ");
            format!("{name}: must be one of {names}, or disabled alone")
        })
    });
    names.collect::<Result<_, _>>().map(Compressors)
}

/// Parses the replies that are compressed.
fn compressed_replies(text: &str) -> Result<CompressedReplies, String> {
    match text {
        "as-requested" => Ok(CompressedReplies::AsRequested),
        "in-turn" => Ok(CompressedReplies::InTurn),
        "never" => Ok(CompressedReplies::Never),
        _ => Err("must be as-requested, in-turn or never".to_owned()),
    }
}

/// Parses a number, for example of tasks or members, which must not be 0.
fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("must be 1 or more".to_owned()),
        Ok(number) => Ok(number),
        Err(_) => Err("must be a whole number".to_owned()),
    }
}

fn main() -> ExitCode {
    let command = Command::parse();
    let done = match command.what {
        What::Serve(serve) => run_serve(&serve).map(|()| ExitCode::SUCCESS),
        What::Demo(demo) => run_demo(demo).map(|()| ExitCode::SUCCESS),
        What::Check(check) => check::run(&check),
    };
    match done {
        Ok(code) => code,
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
        Ok(report) => Err(io::Error::other(report.verdict().to_string())),
        Err(error) => Err(io::Error::other(error)),
    }
}

fn serve_options(serve: &Serve) -> io::Result<ServeOptions> {
    let mut options = match (serve.load_balanced, serve.sharded) {
        (Some(services), _) => ServeOptions::load_balanced(services),
        (None, Some(routers)) => ServeOptions::sharded(routers),
        (None, None) if serve.standalone => ServeOptions::standalone(),
        (None, None) => ServeOptions::replica_set(&serve.replica_set, serve.members),
    };
    // At most seven members may vote, so the eighth and all later members get no vote.
    for member in options.members.iter_mut().skip(MAX_VOTING_MEMBERS) {
        member.votes = false;
        member.priority = 0;
    }
    options.port = serve.port;
    options.tls = serve.tls;
    options.tls_directory = serve.tls_dir.clone();
    options.tls_ca_file = serve.tls_ca_file.clone();
    options.seed = serve.seed;
    if let Some(auth) = &serve.auth {
        let Some((name, password)) = auth.split_once(':') else {
            return Err(io::Error::other("--auth takes USER:PASSWORD"));
        };
        options.users.push(User::new(name, password));
        if serve.auth_mechanisms.contains(&AuthMechanism::Plain) {
            options.users.push(User::ldap(name, password));
        }
    }
    if !serve.auth_mechanisms.is_empty() {
        options.auth.mechanisms.clone_from(&serve.auth_mechanisms);
    }
    if let Some(Compressors(names)) = &serve.compressors {
        options.compression.compressors.clone_from(names);
    }
    options.compression.replies = serve.compressed_replies;
    options.compression.threshold = serve.compression_threshold;
    if let Some(identity) = serve.aws_identity.first() {
        options.users.push(identity.user());
    }
    for identity in &serve.aws_identity {
        options.auth.aws.add(identity.clone());
    }
    if let Some(directory) = &serve.oidc_token_dir {
        let mut seed = [0; 32];
        seed[..8].copy_from_slice(&serve.seed.to_le_bytes());
        let issuer = TokenIssuer::new(IssuerOptions::default(), &Seed::new(seed));
        options.auth.issuers.push(issuer);
        options.oidc_token_directory = Some(directory.clone());
    }
    let external = serve.external_user.iter();
    options
        .users
        .extend(external.map(|name| User::external(name)));
    let is_x509_wanted = serve.auth_mechanisms.contains(&AuthMechanism::X509);
    if serve.tls && (is_x509_wanted || !options.users.is_empty()) {
        options.users.push(User::external(CLIENT_SUBJECT));
    }
    Ok(options)
}

fn run_serve(serve: &Serve) -> io::Result<()> {
    let deployment = Embedded::start(serve_options(serve)?)?;
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
        eprintln!(
            "Client certificate: {}",
            directory.join("client.pem").display()
        );
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

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;
    use std::collections::BTreeSet;

    /// Returns the options that `serve` has with these arguments.
    fn served(arguments: &str) -> Result<ServeOptions, String> {
        let arguments = ["onionskin", "serve"]
            .into_iter()
            .chain(arguments.split(' '));
        let parsed = Command::try_parse_from(arguments.filter(|word| !word.is_empty()));
        match parsed.map_err(|error| error.to_string())?.what {
            What::Serve(serve) => serve_options(&serve).map_err(|error| error.to_string()),
            What::Demo(_) | What::Check(_) => panic!("it is not served"),
        }
    }

    /// A flag of `serve`, a value for it, and a check that the options have this value.
    type Flag = (&'static str, &'static str, fn(&ServeOptions) -> bool);

    const SERVE: [Flag; 18] = [
        ("replica-set", "other", |o| {
            o.replica_set.as_deref() == Some("other")
        }),
        ("members", "9", |o| {
            o.members.len() == 9 && o.members.iter().filter(|m| m.votes).count() == 7
        }),
        ("standalone", "", |o| o.replica_set.is_none() && !o.sharded),
        ("sharded", "2", |o| o.sharded && o.members.len() == 2),
        ("load-balanced", "3", |o| {
            o.load_balanced && o.members.len() == 3
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
            o.users.len() == 1 && token.as_deref() == Some("t")
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
        assert_eq!(listed, flags("serve"));
        for (name, value, is_obeyed) in SERVE {
            let options = served(&format!("--{name} {value}")).expect(name);
            assert!(is_obeyed(&options), "{name}");
            let default = served("").expect("the defaults");
            assert!(!is_obeyed(&default), "{name} changes nothing");
        }
        for wrong in [
            "--members 0",
            "--sharded 0",
            "--auth nobody",
            "--tls-dir here",
            "--tls-ca-file here",
            "--auth-mechanisms NTLM",
            "--aws-identity id",
            "--compressors lz4",
            "--compressors zstd,disabled",
            "--compressed-replies always",
            "--compression-threshold -1",
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
        let expected = ["runtime", "seconds", "tasks", "uri"].map(str::to_owned);
        assert_eq!(flags("demo"), expected.into());
        let mut command = Command::command();
        let demo = command.find_subcommand_mut("demo").expect("it is there");
        let help = demo.render_long_help().to_string();
        for part in ["writes to it", "onionskin_demo", "dropped at the end"] {
            assert!(help.contains(part), "{help}");
        }
        for wrong in ["--tasks=0", "--seconds=0"] {
            assert!(
                Command::try_parse_from(["onionskin", "demo", wrong]).is_err(),
                "{wrong}"
            );
        }
    }
}
