//! The command `onionskin serve`: a deployment on loopback sockets.

use super::interrupt::Signals;
use crate::at_least_one;
use clap::Args;
use onionskin_core::{options::Compressor, random::Seed};
use onionskin_deployment::{
    deployment::{AuthMechanism, CompressedReplies, ServerVersion, User},
    identity::{AwsIdentity, IssuerOptions, TokenIssuer},
};
use onionskin_serve::{CLIENT_SUBJECT, Embedded, ServeOptions};
use onionskin_simulations::simulate::scenarios;
use onionskin_worlds::world::{Disaster, VoidEvent};
use std::{
    io::{self, Write as _},
    path::PathBuf,
    time::Duration,
};

/// The time between two comparisons of the members.
const CHECK_PERIOD: Duration = Duration::from_secs(1);

/// The time between two checks for new disasters of a scenario.
const REPORT_PERIOD: Duration = Duration::from_millis(100);

#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// The name of the replica set.
    #[arg(long, default_value = "rs0")]
    replica_set: String,
    /// The number of members of the replica set.
    #[arg(long, default_value_t = 3, value_parser = at_least_one)]
    members: usize,
    /// Run one server without a replica set.
    #[arg(long, conflicts_with_all = ["replica_set", "members"])]
    standalone: bool,
    /// Run this number of routers in front of one shard, or of as many as `--shards` says.
    #[arg(long, value_name = "ROUTERS", value_parser = at_least_one)]
    #[arg(conflicts_with_all = ["replica_set", "members", "standalone"])]
    sharded: Option<usize>,
    /// Run this number of services behind a load balancer. Each service also has a port of its own,
    /// to which another load balancer can connect, with or without the PROXY protocol.
    #[arg(long, value_name = "SERVICES", num_args = 0..=1, default_missing_value = "2")]
    #[arg(value_parser = at_least_one)]
    #[arg(conflicts_with_all = ["replica_set", "members", "standalone", "sharded"])]
    load_balanced: Option<usize>,
    /// The number of shards behind routers or services. Each database is on one of them.
    #[arg(long, value_name = "SHARDS", default_value_t = 1, value_parser = at_least_one)]
    #[arg(conflicts_with_all = ["replica_set", "members", "standalone", "scenario"])]
    shards: usize,
    /// Run the deployment of a scenario, with its faults, latencies and schedule: the name of one
    /// that `onionskin simulate --list` shows, or a file in the form of TOML. What the scenario
    /// does not name has its default; only the length of the safety phase and a number of disasters
    /// are drawn. Each disaster is printed when it happens.
    #[arg(long, value_name = "NAME|FILE")]
    #[arg(conflicts_with_all = ["replica_set", "members", "standalone", "sharded"])]
    #[arg(conflicts_with = "load_balanced")]
    scenario: Option<String>,
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
    #[arg(long, value_name = "USER:PASSWORD", value_parser = login)]
    auth: Option<(String, String)>,
    /// The mechanisms of authentication of the users, with a comma between them. By default, both
    /// SCRAM mechanisms and MONGODB-X509, MONGODB-AWS with `--aws-identity`, and MONGODB-OIDC with
    /// `--oidc-token-dir`. GSSAPI needs the Cargo feature `gssapi`, and reads the keytab
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
    /// The release that the servers claim: 4.2, 4.4, 5.0, 6.0, 7.0, 8.0 or 8.2.
    #[arg(long, value_name = "RELEASE", value_parser = server_version, default_value = "7.0")]
    server_version: ServerVersion,
    /// Compare the data of the members every second and at the end. If members with the same oplog
    /// have different data, print the difference and end with exit code 1.
    #[arg(long)]
    check: bool,
    /// The seed of all randomness.
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

/// Parses a user name and a password.
fn login(text: &str) -> Result<(String, String), String> {
    match text.split_once(':') {
        Some((name, password)) if !name.is_empty() => Ok((name.to_owned(), password.to_owned())),
        _ => Err("must be USER:PASSWORD, with a user name that is not empty".to_owned()),
    }
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

/// Parses the name of a release.
fn server_version(name: &str) -> Result<ServerVersion, String> {
    let names = || ServerVersion::NAMES.join(", ");
    ServerVersion::named(name).ok_or_else(|| format!("must be one of {}", names()))
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

pub(crate) fn options(serve: &Serve) -> io::Result<ServeOptions> {
    let mut options = match (&serve.scenario, serve.load_balanced, serve.sharded) {
        (Some(name), ..) => of_scenario(name, serve.seed)?,
        (None, Some(services), _) => ServeOptions::load_balanced(services),
        (None, None, Some(routers)) => ServeOptions::sharded(routers),
        (None, None, None) if serve.standalone => ServeOptions::standalone(),
        (None, None, None) => ServeOptions::replica_set(&serve.replica_set, serve.members),
    };
    if serve.scenario.is_none() {
        options.shards = serve.shards;
    }
    options.port = serve.port;
    options.tls = serve.tls;
    options.tls_directory = serve.tls_dir.clone();
    options.tls_ca_file = serve.tls_ca_file.clone();
    options.seed = serve.seed;
    options.version = serve.server_version;
    if let Some((name, password)) = &serve.auth {
        options.users.push(User::new(name, password));
        if serve.auth_mechanisms.contains(&AuthMechanism::Plain) {
            options.users.push(User::ldap(name, password));
        }
    }
    set_mechanisms(serve, &mut options)?;
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

/// Sets the mechanisms of authentication: those of the command line, or the default ones with those
/// of the given identities.
fn set_mechanisms(serve: &Serve, options: &mut ServeOptions) -> io::Result<()> {
    let identities = [
        (
            "--aws-identity",
            !serve.aws_identity.is_empty(),
            AuthMechanism::Aws,
        ),
        (
            "--oidc-token-dir",
            serve.oidc_token_dir.is_some(),
            AuthMechanism::Oidc,
        ),
    ];
    let given = &serve.auth_mechanisms;
    let refuse = |text| Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    if !given.is_empty() {
        let has_user = !options.users.is_empty() || !serve.external_user.is_empty();
        let has_certificate = serve.tls && given.contains(&AuthMechanism::X509);
        if !has_user && !has_certificate && identities.iter().all(|(_, is_given, _)| !is_given) {
            return refuse(
                "--auth-mechanisms needs a user: --auth, --external-user, --aws-identity, \
                 --oidc-token-dir, or --tls with MONGODB-X509"
                    .to_owned(),
            );
        }
        options.auth.mechanisms.clone_from(given);
    }
    for (option, is_given, mechanism) in identities {
        if is_given && given.is_empty() {
            options.auth.mechanisms.push(mechanism);
        } else if is_given && !given.contains(&mechanism) {
            let name = mechanism.name();
            return refuse(format!("{option} needs {name} in --auth-mechanisms"));
        }
    }
    Ok(())
}

/// Returns the options of a scenario. Prints the parts of it that have no effect.
fn of_scenario(name: &str, seed: u64) -> io::Result<ServeOptions> {
    let scenario = scenarios::find(name)?;
    let (options, without_effect) = ServeOptions::of_scenario(&scenario, seed)
        .map_err(|reason| io::Error::new(io::ErrorKind::InvalidInput, reason))?;
    if !without_effect.is_empty() {
        let parts = without_effect.join(", ");
        eprintln!("Without effect here, because they are about simulated clients: {parts}");
    }
    Ok(options)
}

/// Prints the disasters that have happened since the last call. `told` is the number of those that
/// were printed.
fn tell_disasters(deployment: &Embedded, told: &mut u64) {
    if let Some(status) = deployment.status() {
        let (disasters, void) = (&status.disasters, &status.void_events);
        eprint!("{}", news(*told, status.happened, disasters, void));
        *told = status.happened;
    }
}

/// Returns the lines about the disasters after the one with the number `told`. The last one of
/// `disasters` has the number `happened`.
fn news(
    told: u64,
    happened: u64,
    disasters: &[(Duration, Disaster)],
    void_events: &[VoidEvent],
) -> String {
    let mut text = String::new();
    let first = (happened + 1).saturating_sub(disasters.len() as u64);
    let new = (first..)
        .zip(disasters)
        .filter(|(number, _)| *number > told);
    for (number, (at, disaster)) in new {
        text += &format!("{:6.1} s: {disaster}\n", at.as_secs_f64());
        if let Some(void) = void_events.iter().find(|void| void.number == number) {
            text += &format!("          {void}\n");
        }
    }
    text
}

pub(crate) fn run(serve: &Serve) -> io::Result<()> {
    let options = options(serve)?;
    let is_balanced = options.load_balanced;
    let deployment = Embedded::start(options)?;
    let mut out = io::stdout().lock();
    writeln!(out, "{}", deployment.uri())?;
    out.flush()?;
    drop(out);
    if is_balanced {
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
    runtime.block_on(async {
        let mut signals = Signals::new()?;
        let mut checks = tokio::time::interval(CHECK_PERIOD);
        let mut reports = tokio::time::interval(REPORT_PERIOD);
        let mut told = 0;
        loop {
            tokio::select! {
                () = signals.next() => break Ok::<(), io::Error>(()),
                _ = checks.tick(), if serve.check => {
                    deployment.check_members().map_err(io::Error::other)?;
                }
                _ = reports.tick(), if serve.scenario.is_some() => {
                    tell_disasters(&deployment, &mut told);
                }
            }
        }
    })?;
    match serve.check {
        true => deployment.check_members().map_err(io::Error::other),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onionskin_core::time::Instant;

    #[test]
    fn each_scenario_of_the_command_can_be_served() {
        for (name, scenario) in scenarios::list() {
            let (options, _) = ServeOptions::of_scenario(&scenario, 1).expect(name);
            let faults = options.faults.expect("faults");
            assert_eq!(
                faults.plan.back().map(|(_, last)| last),
                Some(&Disaster::Heal),
                "{name}"
            );
        }
    }

    #[test]
    fn equal_events_at_one_time_are_told_apart() {
        let second = Duration::from_secs(1);
        let at = Instant::ZERO + second;
        let disasters = [(second, Disaster::Kill(1)), (second, Disaster::Kill(1))];
        let reason = "member 1 does not run".to_owned();
        // Two earlier events are no longer kept.
        let void = [VoidEvent::new(4, at, Disaster::Kill(1), reason)];
        let both = news(0, 4, &disasters, &void);
        let line = "   1.0 s: member 1 is killed\n";
        let note = "          event 4 at 1s had no effect: member 1 does not run\n";
        assert_eq!(both, format!("{line}{line}{note}"));
        assert_eq!(news(3, 4, &disasters, &void), format!("{line}{note}"));
        assert_eq!(news(4, 4, &disasters, &void), "");
    }
}
