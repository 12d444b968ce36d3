//! Facts about the process: its platform and its environment variables.

use onionskin_core::{
    client::{Environment, OsFacts},
    log::LogOptions,
};
use std::{env, path::Path};

/// Returns the facts about the process that the handshake reports to servers.
pub(crate) fn environment() -> Environment {
    let os = OsFacts::from_target(env::consts::OS, env::consts::ARCH);
    let docker = Path::new("/.dockerenv").exists();
    Environment::from_lookup(|name| env::var(name).ok(), docker, os)
}

/// Returns the log options that the environment variables set.
pub(crate) fn log_options() -> LogOptions {
    LogOptions::default().with_environment(|name| env::var(name).ok())
}
