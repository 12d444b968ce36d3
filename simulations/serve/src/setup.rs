//! Derives the deployment's options and the connection string from [`ServeOptions`].

use crate::{ServeOptions, tokens};
use onionskin_core::{address::Address, time::WallTime};
use onionskin_deployment::deployment::{
    AuthMechanism, DeploymentOptions, ReplicaSetOptions, Shape, User,
};
use std::{fmt::Write as _, io, net::SocketAddr, path::Path, time::SystemTime};

pub(super) fn deployment_options(
    options: ServeOptions,
    addresses: &[SocketAddr],
    balancer: Option<SocketAddr>,
) -> DeploymentOptions {
    let name = |a: &SocketAddr| Address::tcp(&a.ip().to_string(), a.port());
    let names: Vec<Address> = addresses.iter().map(name).collect();
    let balancer = balancer.as_ref().map(name);
    let shape = match (options.replica_set, balancer) {
        (_, Some(balancer)) => Shape::LoadBalanced { balancer },
        _ if options.sharded => Shape::Sharded,
        (None, None) => Shape::Standalone,
        (Some(name), None) => {
            let mut set = ReplicaSetOptions::new(&name, options.members.len());
            set.initial_primary = options.members.iter().position(|m| m.can_lead());
            set.members = options.members;
            set.election_timeout = options.election_timeout;
            set.heartbeat_interval = options.heartbeat_interval;
            Shape::ReplicaSet(set)
        }
    };
    let mut result = DeploymentOptions::replica_set("", names);
    result.shape = shape;
    result.shards = options.shards;
    result.users = options.users;
    result.auth = options.auth;
    result.compression = options.compression;
    result.limits = options.limits;
    result.version = options.version;
    result.network = options.network;
    result.started_at = wall_time();
    result
}

/// Writes the token files, if the options have a directory for them.
pub(super) fn write_tokens(options: &ServeOptions) -> io::Result<()> {
    match (&options.oidc_token_directory, options.auth.issuers.first()) {
        (Some(directory), Some(issuer)) => tokens::write(issuer, directory, wall_time()),
        _ => Ok(()),
    }
}

/// Returns an error that names the file.
pub(super) fn named(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

fn wall_time() -> WallTime {
    let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    WallTime::from_unix(wall.unwrap_or_default())
}

pub(super) fn uri(
    options: &ServeOptions,
    addresses: &[SocketAddr],
    tls_directory: Option<&Path>,
) -> String {
    let mut uri = String::from("mongodb://");
    // The first user with a password that a permitted mechanism checks.
    let permitted = &options.auth.mechanisms;
    let has = |user: &User, is_wanted: fn(&AuthMechanism) -> bool| {
        let mut mechanisms = user.mechanisms.iter();
        mechanisms.any(|m| is_wanted(m) && permitted.contains(m))
    };
    let by_scram = options
        .users
        .iter()
        .find(|user| has(user, |m| m.is_scram()));
    let is_plain = |m: &AuthMechanism| *m == AuthMechanism::Plain;
    let by_plain = options.users.iter().find(|user| has(user, is_plain));
    if let Some(user) = by_scram.or(by_plain) {
        let (name, password) = (encode(&user.name), encode(&user.password));
        let _ = write!(uri, "{name}:{password}@");
    }
    let hosts: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    uri.push_str(&hosts.join(","));
    uri.push('/');
    let mut separator = '?';
    let mut option = |key: &str, value: &str| {
        let _ = write!(uri, "{separator}{key}={}", encode(value));
        separator = '&';
    };
    if by_scram.is_none() && by_plain.is_some() {
        option("authMechanism", "PLAIN");
        option("authSource", "$external");
    }
    if options.load_balanced {
        option("loadBalanced", "true");
    }
    if let Some(name) = &options.replica_set {
        option("replicaSet", name);
    }
    if let Some(directory) = tls_directory {
        option("tls", "true");
        option("tlsCAFile", &directory.join("ca.pem").to_string_lossy());
    }
    uri
}

/// Percent-encodes all bytes except unreserved characters.
fn encode(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}
