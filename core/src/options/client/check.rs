//! The rules of single options, which connection strings and code share.

#![expect(clippy::ptr_arg, reason = "a rule takes the type of its option")]

use super::{
    DEFAULT_SRV_SERVICE_NAME, Duration, MAX_APP_NAME_BYTES, MAX_SRV_SERVICE_NAME_BYTES,
    MIN_HEARTBEAT_FREQUENCY,
};
use crate::{
    address::{Address, ServerAddress, name_fault},
    error::Error,
};

/// Checks the length of an application name (HELLO-33).
pub(crate) fn app_name(name: &String) -> Result<(), Error> {
    if name.len() <= MAX_APP_NAME_BYTES {
        return Ok(());
    }
    let message = format!("at most {MAX_APP_NAME_BYTES} bytes of UTF-8 are sent; shorten it");
    Err(Error::invalid_option("appName", message))
}

/// Checks that a `mongodb+srv` host is one name. DNS supplies the ports.
pub(crate) fn srv_host(host: &String) -> Result<(), Error> {
    if name_fault(&host.to_ascii_lowercase()).is_none() {
        return Ok(());
    }
    Err(Error::invalid_option(
        "srvHost",
        "give one host name, without a port (DNS supplies the ports)",
    ))
}

/// Checks that a domain for the hosts of SRV records is narrow enough (DNS-43).
pub(crate) fn srv_allowed_hosts_suffix(suffix: &String) -> Result<(), Error> {
    let domain = srv_domain_of_suffix(suffix);
    let is_narrow = domain.contains('.') || PRIVATE_DOMAINS.contains(&&*domain);
    if is_narrow && domain.is_ascii() && domain.split('.').all(is_label) {
        return Ok(());
    }
    Err(Error::invalid_option(
        "srvAllowedHostsSuffix",
        format!(
            "give a domain of at least two ASCII labels, for example .example.com, or one of {}",
            PRIVATE_DOMAINS.join(", ")
        ),
    ))
}

/// True if a part of a host name between dots consists of letters, digits, hyphens and underscores.
pub(crate) fn is_label(label: &str) -> bool {
    let is_part = |part: char| part.is_alphanumeric() || part == '-' || part == '_';
    !label.is_empty() && label.chars().all(is_part)
}

/// Returns the domain that `srvAllowedHostsSuffix` means: dots around it and letter case do not
/// count (DNS-43).
pub(crate) fn srv_domain_of_suffix(suffix: &str) -> String {
    suffix.trim_matches('.').to_ascii_lowercase()
}

/// The domains of one label that belong to no registry: names for special use (RFC 6761, RFC 6762),
/// and names that are reserved or common for private networks.
const PRIVATE_DOMAINS: [&str; 9] = [
    "test",
    "localhost",
    "invalid",
    "example",
    "local",
    "internal",
    "corp",
    "home",
    "mail",
];

/// Checks that a text is a service name of RFC 6335 (DNS-7).
pub(crate) fn srv_service_name(name: &String) -> Result<(), Error> {
    let letters = name.bytes().any(|b| b.is_ascii_alphabetic());
    let known = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    let hyphens = name.starts_with('-') || name.ends_with('-') || name.contains("--");
    if letters && known && !hyphens && name.len() <= MAX_SRV_SERVICE_NAME_BYTES {
        return Ok(());
    }
    Err(Error::invalid_option(
        "srvServiceName",
        format!(
            "a service name has 1 to {MAX_SRV_SERVICE_NAME_BYTES} letters, digits and single inner \
             hyphens, at least one letter among them (default {DEFAULT_SRV_SERVICE_NAME})"
        ),
    ))
}

/// Checks the name of a default database. A database name of a connection string must not contain
/// these characters (CS-17). NUL is refused in addition.
pub(crate) fn default_database(name: &String) -> Result<(), Error> {
    if !name.is_empty() && !name.contains(['/', '\\', ' ', '"', '$', '\0']) {
        return Ok(());
    }
    Err(Error::invalid_option(
        "defaultDatabase",
        "a database name is not empty and has no slash, backslash, space, quote, dollar sign or \
         NUL",
    ))
}

/// Checks that each host is written as one of a connection string.
pub(crate) fn hosts(hosts: &Vec<ServerAddress>) -> Result<(), Error> {
    let is_wrong = |host: &&ServerAddress| match host.verbatim() {
        Address::Unix { path } => path.is_empty(),
        host @ Address::Tcp { .. } => host.to_string().parse() != Ok(host),
    };
    let Some(host) = hosts.iter().find(is_wrong) else {
        return Ok(());
    };
    let message = format!("{host} is no address; give a host in lower case with a port from 1 on");
    Err(Error::invalid_option("hosts", message))
}

pub(crate) fn repl_set_name(name: &String) -> Result<(), Error> {
    if !name.is_empty() {
        return Ok(());
    }
    Err(Error::invalid_option(
        "replicaSet",
        "the name of a replica set is not empty",
    ))
}

pub(crate) fn heartbeat_freq(frequency: &Duration) -> Result<(), Error> {
    if *frequency >= MIN_HEARTBEAT_FREQUENCY {
        return Ok(());
    }
    let least = MIN_HEARTBEAT_FREQUENCY.as_millis();
    let message = format!("it must be at least {least} ms");
    Err(Error::invalid_option("heartbeatFrequencyMS", message))
}

pub(crate) fn server_selection_timeout(timeout: &Duration) -> Result<(), Error> {
    if !timeout.is_zero() {
        return Ok(());
    }
    Err(Error::invalid_option(
        "serverSelectionTimeoutMS",
        "it must be greater than zero",
    ))
}

pub(crate) fn max_connecting(connections: &u32) -> Result<(), Error> {
    if *connections > 0 {
        return Ok(());
    }
    Err(Error::invalid_option(
        "maxConnecting",
        "with zero no connection could ever be made; use 1 or more",
    ))
}

pub(crate) fn zlib_compression_level(level: &i32) -> Result<(), Error> {
    if (-1..=9).contains(level) {
        return Ok(());
    }
    Err(Error::invalid_option(
        "zlibCompressionLevel",
        "it must be from -1 to 9",
    ))
}
