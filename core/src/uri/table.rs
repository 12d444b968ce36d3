//! The table of all options of connection strings: name, kind of value and field.

use super::{
    draft::Draft,
    nearest::{nearest, one_of},
    value::Refusal,
};
use crate::{
    description::Tags,
    options::{
        AuthMechanism, Compressor, ReadConcern, ReadMode, Secret, ServerMonitoringMode, check,
    },
};
use std::{collections::BTreeMap, time::Duration};

/// Stores a parsed value in the draft.
pub(super) type Set<T> = fn(&mut Draft, T) -> Result<(), Refusal>;

/// The maximum of an integer, unless an option has another limit (URI-3).
const INT32: i64 = i32::MAX as i64;

/// The kind of an option's value, with the setter of the option.
pub(super) enum Kind {
    /// The value is a boolean.
    Bool(Set<bool>),
    /// The value is an integer, with this minimum and maximum.
    Int(i64, i64, Set<i64>),
    /// The value is a duration in milliseconds, with this minimum and maximum.
    Millis(i64, i64, Set<Duration>),
    /// The value is a string.
    Text(Set<String>),
    /// The value is a string that `Debug` does not print, such as a password.
    Secret(Set<Secret>),
    /// An integer or a string. Only `w` has this kind.
    NumberOrText(Set<Result<i64, String>>),
    /// Names of compressors, separated by commas. Further occurrences of the option extend the
    /// list.
    Compressors(Set<Vec<Compressor>>),
    /// `key:value` pairs. Each occurrence of the option is one tag set.
    TagSets(Set<Vec<Tags>>),
    /// Mechanism properties as `key:value` pairs.
    Properties(Set<BTreeMap<String, Secret>>),
}

/// How the parser treats several occurrences of an option.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Repeat {
    /// The last occurrence counts, with a warning (CS-33).
    Last,
    /// All occurrences count, in their order (CS-29).
    Each,
    /// Several occurrences are an error (URI-19).
    Refused,
}

/// The definition of one option.
pub(super) struct OptionSpec {
    /// The name, in the letter case of the documentation.
    pub(super) name: &'static str,
    /// The kind of the option's value, and its setter.
    pub(super) kind: Kind,
    /// The treatment of several occurrences.
    pub(super) repeat: Repeat,
    /// The newer name, if the option was renamed.
    pub(super) renamed: Option<&'static str>,
    /// True if only a client that scans has the option. For other clients it is unknown (SEL-6).
    pub(super) scanning_only: bool,
    /// True if a value that cannot be read is an error and not a warning. Without the option,
    /// connections would be less protected than the string demands.
    pub(super) is_protection: bool,
}

const fn option(name: &'static str, kind: Kind) -> OptionSpec {
    let repeat = match kind {
        Kind::Compressors(_) | Kind::TagSets(_) => Repeat::Each,
        _ => Repeat::Last,
    };
    OptionSpec {
        name,
        kind,
        repeat,
        renamed: None,
        scanning_only: false,
        is_protection: false,
    }
}

impl OptionSpec {
    const fn repeat(mut self, repeat: Repeat) -> Self {
        self.repeat = repeat;
        self
    }

    const fn scanning_only(mut self) -> Self {
        self.scanning_only = true;
        self
    }

    const fn protection(mut self) -> Self {
        self.is_protection = true;
        self
    }

    const fn renamed(mut self, instead: &'static str) -> Self {
        self.renamed = Some(instead);
        self
    }

    /// True if a value of the option may be a secret.
    pub(super) const fn is_secret(&self) -> bool {
        matches!(self.kind, Kind::Secret(_) | Kind::Properties(_))
    }
}

/// Returns the definition of an option. Letter case of ASCII does not count in `key` (CS-22).
pub(super) fn find(key: &str) -> Option<&'static OptionSpec> {
    GROUPS
        .into_iter()
        .flatten()
        .find(|spec| spec.name.eq_ignore_ascii_case(key))
}

/// Returns the name of the option that an unknown key probably means; `None` if no name is similar.
pub(super) fn nearest_name(key: &str) -> Option<&'static str> {
    let options = GROUPS.into_iter().flatten();
    nearest(
        key,
        options
            .filter(|spec| !spec.scanning_only)
            .map(|spec| spec.name),
    )
}

/// The number of options.
pub(super) const LEN: usize =
    DEPLOYMENT.len() + AUTHENTICATION.len() + TLS.len() + NETWORK.len() + OPERATIONS.len();

pub(super) const GROUPS: [&[OptionSpec]; 5] =
    [DEPLOYMENT, AUTHENTICATION, TLS, NETWORK, OPERATIONS];

const DEPLOYMENT: &[OptionSpec] = &[
    option(
        "appName",
        Kind::Text(|d, v| d.set_checked(v, check::app_name, |o| &mut o.app_name)),
    ),
    option(
        "directConnection",
        Kind::Bool(|d, v| d.set_option(|o| o.direct_connection = Some(v))),
    ),
    option(
        "loadBalanced",
        Kind::Bool(|d, v| d.set_option(|o| o.load_balanced = Some(v))),
    ),
    option(
        "replicaSet",
        Kind::Text(|d, v| d.set_checked(v, check::repl_set_name, |o| &mut o.repl_set_name)),
    ),
    option(
        "srvAllowedHostsSuffix",
        Kind::Text(|d, v| {
            d.set_checked(v, check::srv_allowed_hosts_suffix, |o| {
                &mut o.srv_allowed_hosts_suffix
            })
        }),
    )
    .repeat(Repeat::Refused)
    .protection(),
    option(
        "srvMaxHosts",
        Kind::Int(0, INT32, |d, v| {
            d.set_option(|o| o.srv_max_hosts = Some(v as u32))
        }),
    ),
    option(
        "srvServiceName",
        Kind::Text(|d, v| d.set_checked(v, check::srv_service_name, |o| &mut o.srv_service_name)),
    ),
];

const AUTHENTICATION: &[OptionSpec] = &[
    option(
        "authMechanism",
        Kind::Text(|d, v| {
            // An unknown mechanism is an error (AUTH-8). If it were ignored, connections might not
            // authenticate at all.
            let Some(mechanism) = AuthMechanism::from_name(&v) else {
                if v == "MONGODB-CR" {
                    // Servers no longer have this mechanism (AUTH-51, AUTH-132).
                    return Refusal::fatal(
                        "MONGODB-CR was removed from MongoDB 4.0; leave authMechanism out"
                            .to_owned(),
                    );
                }
                return Refusal::fatal(one_of(&v, &AuthMechanism::ALL.map(AuthMechanism::name)));
            };
            d.mechanism = Some(mechanism);
            Ok(())
        }),
    ),
    option(
        "authMechanismProperties",
        Kind::Properties(Draft::set_properties),
    ),
    option(
        "authSource",
        Kind::Text(|d, v| {
            if v.is_empty() {
                // An empty source is an error even without a credential (AUTH-133, URI-24).
                return Refusal::fatal("it is empty; name a database or leave it out");
            }
            d.auth_source = Some(v);
            Ok(())
        }),
    ),
    option(
        "gssapiServiceName",
        Kind::Text(|d, v| d.set_properties([("SERVICE_NAME".to_owned(), Secret::new(v))].into())),
    )
    .renamed("authMechanismProperties"),
];

const TLS: &[OptionSpec] = &[
    option("tls", Kind::Bool(Draft::set_tls))
        .repeat(Repeat::Each)
        .protection(),
    option("ssl", Kind::Bool(Draft::set_tls))
        .repeat(Repeat::Each)
        .protection(),
    option(
        "tlsAllowInvalidCertificates",
        Kind::Bool(|d, v| d.store(|d| d.tls.allow_invalid_certificates = Some(v))),
    ),
    option(
        "tlsAllowInvalidHostnames",
        Kind::Bool(|d, v| d.store(|d| d.tls.allow_invalid_hostnames = Some(v))),
    ),
    option(
        "tlsCAFile",
        Kind::Text(|d, v| d.store(|d| d.tls.ca_file_path = Some(v.into()))),
    )
    .protection(),
    option(
        "tlsCRLFile",
        Kind::Text(|d, v| d.store(|d| d.tls.crl_file_path = Some(v.into()))),
    )
    .protection(),
    option(
        "tlsCertificateKeyFile",
        Kind::Text(|d, v| d.store(|d| d.tls.cert_key_file_path = Some(v.into()))),
    ),
    option(
        "tlsCertificateKeyFilePassword",
        Kind::Secret(|d, v| d.store(|d| d.tls.tls_certificate_key_file_password = Some(v))),
    ),
    option(
        "tlsDisableCertificateRevocationCheck",
        Kind::Bool(|d, v| d.store(|d| d.tls.disable_certificate_revocation_check = Some(v))),
    ),
    option(
        "tlsDisableOCSPEndpointCheck",
        Kind::Bool(|d, v| d.store(|d| d.tls.disable_ocsp_endpoint_check = Some(v))),
    ),
    option(
        "tlsInsecure",
        Kind::Bool(|d, v| d.store(|d| d.tls.insecure = Some(v))),
    ),
];

const NETWORK: &[OptionSpec] = &[
    option(
        "compressors",
        Kind::Compressors(|d, v| {
            d.set_option(|o| o.compressors = Some(v).filter(|v| !v.is_empty()))
        }),
    ),
    option(
        "connectTimeoutMS",
        Kind::Millis(0, INT32, |d, v| {
            d.set_option(|o| o.connect_timeout = Some(v))
        }),
    ),
    option(
        "heartbeatFrequencyMS",
        Kind::Millis(0, INT32, |d, v| {
            d.set_checked(v, check::heartbeat_freq, |o| &mut o.heartbeat_freq)
        }),
    ),
    option(
        "localThresholdMS",
        Kind::Millis(0, INT32, |d, v| {
            d.set_option(|o| o.local_threshold = Some(v))
        }),
    ),
    option(
        "maxConnecting",
        Kind::Int(1, INT32, |d, v| {
            d.set_checked(v as u32, check::max_connecting, |o| &mut o.max_connecting)
        }),
    ),
    option(
        "maxIdleTimeMS",
        Kind::Millis(0, INT32, |d, v| d.set_option(|o| o.max_idle_time = Some(v))),
    ),
    option(
        "maxPoolSize",
        Kind::Int(0, INT32, |d, v| {
            d.set_option(|o| o.max_pool_size = Some(v as u32))
        }),
    ),
    option(
        "minPoolSize",
        Kind::Int(0, INT32, |d, v| {
            d.set_option(|o| o.min_pool_size = Some(v as u32))
        }),
    ),
    option(
        "proxyHost",
        Kind::Text(|d, v| d.store(|d| d.proxy_host = Some(v))),
    )
    .repeat(Repeat::Refused)
    .protection(),
    option(
        "proxyPort",
        Kind::Int(1, u16::MAX as i64, |d, v| {
            d.store(|d| d.proxy_port = Some(v as u16))
        }),
    )
    .repeat(Repeat::Refused),
    option(
        "proxyUsername",
        Kind::Text(|d, v| d.store(|d| d.proxy_username = Some(v))),
    )
    .repeat(Repeat::Refused),
    option(
        "proxyPassword",
        Kind::Secret(|d, v| d.store(|d| d.proxy_password = Some(v))),
    )
    .repeat(Repeat::Refused),
    option(
        "serverMonitoringMode",
        Kind::Text(|d, v| match ServerMonitoringMode::from_name(&v) {
            Some(mode) => d.set_option(|o| o.server_monitoring_mode = Some(mode)),
            None => Refusal::ignore(one_of(
                &v,
                &ServerMonitoringMode::ALL.map(ServerMonitoringMode::name),
            )),
        }),
    ),
    option(
        "serverSelectionTryOnce",
        Kind::Bool(|d, v| d.set_option(|o| o.server_selection_try_once = Some(v))),
    )
    .scanning_only(),
    option(
        "serverSelectionTimeoutMS",
        Kind::Millis(1, INT32, |d, v| {
            d.set_checked(v, check::server_selection_timeout, |o| {
                &mut o.server_selection_timeout
            })
        }),
    ),
    option(
        "socketTimeoutMS",
        Kind::Millis(0, INT32, |d, v| {
            d.set_option(|o| o.socket_timeout = Some(v))
        }),
    ),
    option(
        "waitQueueTimeoutMS",
        Kind::Millis(0, INT32, |d, v| {
            d.set_option(|o| o.wait_queue_timeout = Some(v))
        }),
    ),
    option(
        "zlibCompressionLevel",
        Kind::Int(-1, 9, |d, v| {
            d.set_checked(v as i32, check::zlib_compression_level, |o| {
                &mut o.zlib_compression_level
            })
        }),
    ),
];

const OPERATIONS: &[OptionSpec] = &[
    option(
        "enableOverloadRetargeting",
        Kind::Bool(|d, v| d.set_option(|o| o.enable_overload_retargeting = Some(v))),
    ),
    option(
        "journal",
        Kind::Bool(|d, v| d.store(|d| d.write_concern.journal = Some(v))),
    ),
    option(
        "maxAdaptiveRetries",
        Kind::Int(0, INT32, |d, v| {
            d.set_option(|o| o.max_adaptive_retries = Some(v as u32))
        }),
    ),
    option(
        "maxStalenessSeconds",
        Kind::Int(-1, INT32, Draft::set_max_staleness),
    ),
    option(
        "readConcernLevel",
        Kind::Text(|d, v| d.set_option(|o| o.read_concern = Some(ReadConcern::custom(v)))),
    ),
    option(
        "readPreference",
        Kind::Text(|d, v| match ReadMode::from_name(&v) {
            Some(mode) => d.store(|d| d.read_mode = Some(mode)),
            None => Refusal::ignore(one_of(&v, &ReadMode::ALL.map(ReadMode::name))),
        }),
    ),
    option(
        "readPreferenceTags",
        Kind::TagSets(|d, v| d.store(|d| d.tag_sets = v)),
    ),
    option(
        "retryReads",
        Kind::Bool(|d, v| d.set_option(|o| o.retry_reads = Some(v))),
    ),
    option(
        "retryWrites",
        Kind::Bool(|d, v| d.set_option(|o| o.retry_writes = Some(v))),
    ),
    option(
        "timeoutMS",
        Kind::Millis(0, i64::MAX, |d, v| d.set_option(|o| o.timeout = Some(v))),
    ),
    option("w", Kind::NumberOrText(Draft::set_w)),
    option(
        "wTimeoutMS",
        Kind::Millis(0, i64::MAX, Draft::set_w_timeout),
    ),
    option("wTimeout", Kind::Millis(0, i64::MAX, Draft::set_w_timeout)).renamed("wTimeoutMS"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn option_names_are_unique_and_in_camel_case() {
        let mut names: Vec<_> = GROUPS.into_iter().flatten().map(|spec| spec.name).collect();
        assert!(
            names
                .iter()
                .all(|n| !n.contains('_') && n.starts_with(char::is_lowercase))
        );
        let count = names.len();
        names.sort_by_key(|n| n.to_ascii_lowercase());
        names.dedup_by_key(|n| n.to_ascii_lowercase());
        assert_eq!(names.len(), count);
    }

    #[test]
    fn a_renamed_option_refers_to_an_existing_option() {
        for spec in GROUPS.into_iter().flatten() {
            assert!(
                spec.renamed.is_none_or(|name| find(name).is_some()),
                "{}",
                spec.name
            );
        }
    }
}
