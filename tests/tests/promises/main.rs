//! Tests that each option of connection strings and of calls has its effect, or that the client
//! refuses it or warns about it.

mod wire;

use onionskin_core::{
    client::ClientConfig,
    options::{ClientOptions, Compressor, Monitoring, MonitoringMode},
    random::Seed,
    uri::{self, Warning},
};
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

/// The effect of an option.
enum Effect {
    /// The option works as documented. The test with this name shows it.
    Honoured(&'static str),
    /// The client cannot be created with this option. The error contains this text.
    Refused(&'static str),
    /// The client is created, ignores the option and warns about it.
    Warned,
}

use Effect::{Honoured, Refused, Warned};

/// The effect of an option that is sent as a field of commands. The test is in `wire.rs`.
const ON_THE_WIRE: Effect = Honoured("concerns_and_preferences_of_a_connection_string_are_sent");

const POOLS: Effect = Honoured("the_options_of_a_connection_string_are_those_of_the_pool");

/// Each option of `core/src/uri/table.rs` with a value or a whole connection string, and its
/// effect. An option whose effect depends on other options has several entries.
const OPTIONS: &[(&str, &str, Effect)] = &[
    (
        "appName",
        "n",
        Honoured("a_hello_has_these_fields_and_no_others_whatever_is_chosen"),
    ),
    (
        "directConnection",
        "true",
        Honoured("a_numbered_write_is_not_repeated_where_numbers_are_unknown"),
    ),
    (
        "loadBalanced",
        "true",
        Honoured("nothing_is_monitored_and_the_first_connection_is_an_operations"),
    ),
    (
        "replicaSet",
        "rs",
        Honoured("operations_that_wait_for_a_server_are_bounded_in_number"),
    ),
    (
        "srvMaxHosts",
        "mongodb+srv://a.b.c/?srvMaxHosts=1",
        Refused("mongodb+srv"),
    ),
    (
        "srvServiceName",
        "mongodb+srv://a.b.c/?srvServiceName=other",
        Refused("mongodb+srv"),
    ),
    (
        "authMechanism",
        "mongodb://u:p@a/?authMechanism=SCRAM-SHA-1",
        Honoured("the_published_conversations_are_reproduced"),
    ),
    ("authMechanism", "MONGODB-X509", Refused("authMechanism")),
    ("authMechanismProperties", "SERVICE_NAME:m", Warned),
    (
        "authSource",
        "mongodb://u:p@a/?authSource=app",
        Honoured("the_source_of_a_credential_is_asked_about_its_user"),
    ),
    ("authSource", "app", Warned),
    ("gssapiServiceName", "m", Warned),
    ("tls", "true", Honoured("a_good_certificate_is_accepted")),
    (
        "ssl",
        "true",
        Honoured("encryption_is_off_unless_the_scheme_or_tls_says_so"),
    ),
    (
        "tlsAllowInvalidCertificates",
        "true&tls=true",
        Honoured("a_wrong_certificate_is_told"),
    ),
    ("tlsAllowInvalidCertificates", "true", Warned),
    (
        "tlsAllowInvalidHostnames",
        "true&tls=true",
        Honoured("a_wrong_certificate_is_told"),
    ),
    ("tlsAllowInvalidHostnames", "true", Warned),
    (
        "tlsCAFile",
        "ca.pem&tls=true",
        Honoured("a_good_certificate_is_accepted"),
    ),
    ("tlsCAFile", "ca.pem", Warned),
    (
        "tlsCertificateKeyFile",
        "key.pem&tls=true",
        Honoured("a_server_that_wants_a_certificate_gets_it"),
    ),
    ("tlsCertificateKeyFile", "key.pem", Warned),
    ("tlsCertificateKeyFilePassword", "pencil&tls=true", Warned),
    (
        "tlsDisableCertificateRevocationCheck",
        "true&tls=true",
        Warned,
    ),
    ("tlsDisableOCSPEndpointCheck", "true&tls=true", Warned),
    (
        "tlsInsecure",
        "true&tls=true",
        Honoured("a_wrong_certificate_is_told"),
    ),
    ("tlsInsecure", "true", Warned),
    ("compressors", "zstd,zlib", Warned),
    (
        "connectTimeoutMS",
        "250",
        Honoured("a_first_hello_that_takes_too_long_is_tried_again"),
    ),
    (
        "heartbeatFrequencyMS",
        "700",
        Honoured("the_time_between_checks_is_the_users"),
    ),
    (
        "localThresholdMS",
        "30000",
        Honoured("a_router_that_is_slow_gets_less_to_do"),
    ),
    ("maxConnecting", "3", POOLS),
    ("maxIdleTimeMS", "9000", POOLS),
    ("maxPoolSize", "7", POOLS),
    ("minPoolSize", "2", POOLS),
    ("proxyHost", "proxy", Refused("proxyHost")),
    ("proxyPort", "1081&proxyHost=proxy", Refused("proxyHost")),
    (
        "proxyUsername",
        "u&proxyPassword=p&proxyHost=proxy",
        Refused("proxyHost"),
    ),
    (
        "proxyPassword",
        "p&proxyUsername=u&proxyHost=proxy",
        Refused("proxyHost"),
    ),
    (
        "serverMonitoringMode",
        "poll",
        Honoured("checks_poll_where_that_is_wanted"),
    ),
    (
        "serverSelectionTryOnce",
        "false",
        Honoured("only_a_client_that_scans_may_try_once"),
    ),
    (
        "serverSelectionTimeoutMS",
        "2000",
        Honoured("the_shorter_of_both_limits_ends_a_wait_and_no_check_renews_it"),
    ),
    (
        "socketTimeoutMS",
        "1000",
        Honoured("the_socket_timeout_and_a_network_error_end_the_connection"),
    ),
    (
        "waitQueueTimeoutMS",
        "10",
        Honoured("a_time_limit_switches_off_the_limit_of_the_wait_queue"),
    ),
    ("zlibCompressionLevel", "5&compressors=zlib", Warned),
    (
        "enableOverloadRetargeting",
        "true",
        Honoured("overload_is_avoided_only_where_the_option_says_so"),
    ),
    ("journal", "true", ON_THE_WIRE),
    (
        "maxAdaptiveRetries",
        "3",
        Honoured("the_number_of_retries_is_an_option"),
    ),
    (
        "maxStalenessSeconds",
        "120&readPreference=secondary",
        Honoured("routers_are_told_of_staleness"),
    ),
    ("readConcernLevel", "majority", ON_THE_WIRE),
    (
        "readPreference",
        "secondary",
        Honoured("routers_are_told_every_read_preference_but_primary"),
    ),
    (
        "readPreferenceTags",
        "dc:ny&readPreference=secondary",
        ON_THE_WIRE,
    ),
    (
        "retryReads",
        "false",
        Honoured("an_operation_is_tried_as_often_as_its_time_limit_allows"),
    ),
    (
        "retryWrites",
        "false",
        Honoured("an_operation_is_tried_as_often_as_its_time_limit_allows"),
    ),
    (
        "timeoutMS",
        "10000",
        Honoured("an_operation_is_tried_as_often_as_its_time_limit_allows"),
    ),
    ("w", "1", ON_THE_WIRE),
    ("wTimeoutMS", "500", ON_THE_WIRE),
    ("wTimeout", "500", ON_THE_WIRE),
];

/// Returns the names of the options in `core/src/uri/table.rs`.
fn options_of_the_core() -> BTreeSet<String> {
    let text = fs::read_to_string(root().join("core/src/uri/table.rs")).expect("the table");
    let code = text.split("mod tests").next().unwrap_or_default();
    let calls = code.split("option(").skip(1);
    let literals = calls.filter_map(|call| call.trim_start().strip_prefix('"'));
    let names = literals.filter_map(|rest| rest.split_once('"'));
    names.map(|(name, _)| name.to_owned()).collect()
}

fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().expect("a workspace").to_owned()
}

/// Appends the text of all Rust files below a directory of the workspace, except for build output
/// in `target`.
fn text_below(directory: &Path, text: &mut String) {
    for entry in fs::read_dir(directory).expect("it is readable") {
        let path = entry.expect("it is readable").path();
        if path.is_dir() && !path.ends_with("target") {
            text_below(&path, text);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            text.push_str(&fs::read_to_string(&path).expect("it is text"));
        }
    }
}

/// Returns the options of a connection string with this option, and its warnings: those of the
/// parser and those of the client. Warnings about renamed options are left out.
fn chosen(option: &str, value: &str) -> (ClientOptions, Vec<String>) {
    let text = if value.contains("://") {
        value.to_owned()
    } else {
        format!("mongodb://a/?{option}={value}")
    };
    let kind = match option {
        "serverSelectionTryOnce" => Monitoring::Scanning,
        _ => Monitoring::Background,
    };
    let parsed = uri::parse_for(&text, kind).expect(&text);
    let renamed = |warning: &&Warning| !matches!(warning, Warning::Renamed { .. });
    let mut warnings: Vec<String> = parsed.warnings.iter().filter(renamed).map(shown).collect();
    warnings.extend(uri::ineffective_options(&parsed.options).iter().map(shown));
    (parsed.options, warnings)
}

fn shown(warning: &Warning) -> String {
    warning.to_string()
}

#[test]
fn every_option_of_a_connection_string_does_what_it_says_or_is_named() {
    let listed: BTreeSet<String> = OPTIONS.iter().map(|(name, ..)| (*name).into()).collect();
    assert_eq!(
        listed,
        options_of_the_core(),
        "each option has a line above"
    );
    let mut tests = String::new();
    for directory in ["core", "tests"] {
        text_below(&root().join(directory), &mut tests);
    }
    for (option, value, effect) in OPTIONS {
        let (options, warnings) = chosen(option, value);
        let made = ClientConfig::new(options.clone(), Seed::new([5; 32]));
        match effect {
            Honoured(test) => {
                assert_eq!(warnings, [""; 0], "{option}");
                assert_ne!(options, ClientOptions::default(), "{option} is kept");
                let is_there = ["(", "<"].map(|end| tests.contains(&format!("fn {test}{end}")));
                assert!(
                    is_there.contains(&true),
                    "{option}: there is no test {test}"
                );
                if let Err(error) = made {
                    assert!(!error.to_string().contains("not supported"), "{error}");
                }
            }
            Refused(named) => {
                let error = made.expect_err(option).to_string();
                let is_named = error.contains(named) && error.contains("not supported");
                assert!(is_named, "{option}: {error}");
            }
            Warned => {
                let named = match *option {
                    // The old name sets one of the properties, so the warning names
                    // `authMechanismProperties`.
                    "gssapiServiceName" => "authMechanismProperties",
                    option => option,
                };
                let is_named = |warning: &String| {
                    warning.starts_with(&format!("option {named} has no effect: "))
                };
                assert!(warnings.iter().any(is_named), "{option}: {warnings:?}");
            }
        }
    }
}

#[test]
fn what_is_set_in_code_is_told_as_well() {
    let mut options = ClientOptions::default();
    assert!(uri::ineffective_options(&options).is_empty());
    options
        .set_monitoring(Monitoring::Scanning)
        .set_monitoring_mode(MonitoringMode::Stream)
        .set_compressors(vec![Compressor::Snappy]);
    let found = uri::ineffective_options(&options);
    let named: Vec<_> = found.iter().map(shown).collect();
    let expected = [
        "option compressors has no effect: messages are sent uncompressed",
        "option serverMonitoringMode has no effect: a client that scans its servers does not \
         stream",
    ];
    assert_eq!(named, expected);
}
