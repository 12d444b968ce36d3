//! What the process is and was told by its environment.

use onionskin_core::{
    hello::{Environment, OsFacts},
    log::LogOptions,
};
use std::{env, path::Path};

/// What the handshake tells about the process.
pub(crate) fn environment() -> Environment {
    let os = OsFacts::from_target(env::consts::OS, env::consts::ARCH);
    let docker = Path::new("/.dockerenv").exists();
    Environment::from_lookup(|name| env::var(name).ok(), docker, os)
}

/// Which log messages the process's environment asks for.
pub(crate) fn log_options() -> LogOptions {
    LogOptions::default().with_environment(|name| env::var(name).ok())
}
