//! The facts about the options of a client.

use crate::{
    deployment::preference_text,
    report::{Stage, Step, Value},
};
use onionskin_core::{
    address::Address,
    options::{ClientOptions, Monitoring},
    uri::Warning,
};
use std::time::Duration;

/// Adds the facts of a connection string.
pub(crate) fn describe_uri(step: &mut Step, options: &ClientOptions) {
    match options.srv_host.as_deref() {
        Some(host) => step.fact("seed list", host),
        None => {
            let hosts = options.hosts().into_iter().map(|host| host.to_string());
            step.fact("hosts", hosts.collect::<Vec<_>>());
        }
    }
    if let Some(name) = options.repl_set_name.as_deref() {
        step.fact("replicaSet", name);
    }
    if options.direct_connection == Some(true) {
        step.fact("directConnection", true);
    }
    if options.load_balanced() {
        step.fact("loadBalanced", true);
    }
    if let Some(proxy) = options.socks5_proxy.as_ref() {
        step.fact(
            "proxy",
            Address::tcp(proxy.host(), proxy.port()).to_string(),
        );
        let has_credentials = proxy.credentials().is_some();
        step.fact(
            "proxy credentials",
            if has_credentials { "yes" } else { "no" },
        );
    }
    step.fact("tls", options.tls().is_some());
    if let Some(credential) = options.credential.as_ref() {
        if let Some(user) = &credential.username {
            step.fact("user", user.clone());
        }
        step.fact("authSource", credential.source().to_owned());
    }
}

/// Adds warnings about options. In a strict check, a warning about an ignored part of the
/// connection string is the cause of a failure, as it is for a strict client.
pub(crate) fn add_warnings<'a>(
    step: &mut Step,
    warnings: impl IntoIterator<Item = &'a Warning>,
    strict: bool,
) {
    for warning in warnings {
        match strict && warning.is_of_ignored_part() {
            true => step.fail(warning.to_string(), Vec::new()),
            false => step.warn(warning.to_string(), Vec::new()),
        }
    }
}

/// Returns the step with the settings of the client's pools, and its time limits.
pub(crate) fn describe_settings(options: &ClientOptions) -> Step {
    let mut step = Step::new(Stage::Settings, None);
    let number = |value: u32| Value::Number(value.into());
    let or_unlimited = |value: u32| match value {
        0 => Value::Unlimited,
        value => Value::Number(value.into()),
    };
    step.fact("maxPoolSize", or_unlimited(options.max_pool_size()));
    step.fact("minPoolSize", number(options.min_pool_size()));
    step.fact("maxConnecting", number(options.max_connecting()));
    step.fact("maxIdleTimeMS", time(options.max_idle_time()));
    step.fact("waitQueueTimeoutMS", time(options.wait_queue_timeout()));
    step.fact("connectTimeoutMS", time(options.connect_timeout()));
    step.fact("socketTimeoutMS", time(options.socket_timeout()));
    step.fact("timeoutMS", time(options.timeout));
    let selection = options.server_selection_timeout();
    step.fact("serverSelectionTimeoutMS", time(Some(selection)));
    let frequency = options.heartbeat_freq();
    step.fact("heartbeatFrequencyMS", time(Some(frequency)));
    step.fact("localThresholdMS", time(Some(options.local_threshold())));
    step.fact("readPreference", preference_text(options.read_preference()));
    let monitoring = match options.monitoring {
        Monitoring::Scanning => "on demand",
        Monitoring::Background => "in the background",
    };
    step.fact("monitoring", monitoring);
    step.fact("retryReads", options.retry_reads());
    step.fact("retryWrites", options.retry_writes());
    step
}

/// Returns a time limit in whole milliseconds, as connection strings give it.
fn time(limit: Option<Duration>) -> Value {
    match limit {
        None => Value::Unlimited,
        Some(limit) => Value::Number(i64::try_from(limit.as_millis()).unwrap_or(i64::MAX)),
    }
}
