//! Tests that each option of connection strings and of calls has its effect, or that the client
//! warns about it.

mod calls;
mod hosts;
mod setters;
mod wire;

use onionskin_core::{
    client::ClientConfig,
    options::{ClientOptions, Monitoring, ServerMonitoringMode},
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
    /// The client is created, ignores the option and warns about it.
    Warned,
}

use Effect::{Honoured, Warned};

/// The effect of an option that is sent as a field of commands. The test is in `wire.rs`.
const ON_THE_WIRE: Effect = Honoured("concerns_and_preferences_of_a_connection_string_are_sent");

const POOLS: Effect = Honoured("pool_options_can_be_set_in_the_connection_string");

const PROXY: Effect = Honoured("each_row_of_the_prose_tests_has_its_result");

/// Each option of `core/src/uri/table.rs` with a value or a whole connection string, and its
/// effect. An option whose effect depends on other options has several entries.
const OPTIONS: &[(&str, &str, Effect)] = &[
    (
        "appName",
        "n",
        Honoured("each_hello_has_exactly_the_expected_fields"),
    ),
    (
        "directConnection",
        "true",
        Honoured("a_write_with_a_transaction_number_is_not_retried_on_a_standalone"),
    ),
    (
        "loadBalanced",
        "true",
        Honoured("a_load_balancer_is_not_monitored_and_gets_hello_with_load_balanced_true"),
    ),
    (
        "replicaSet",
        "rs",
        Honoured("the_number_of_operations_that_wait_for_a_server_is_limited"),
    ),
    (
        "srvAllowedHostsSuffix",
        "mongodb+srv://a.b.c/?srvAllowedHostsSuffix=.b.c",
        Honoured("the_hosts_of_srv_records_lie_under_the_allowed_suffix"),
    ),
    (
        "srvMaxHosts",
        "mongodb+srv://a.b.c/?srvMaxHosts=1",
        Honoured("with_srv_max_hosts_a_random_choice_of_hosts_becomes_seeds"),
    ),
    (
        "srvServiceName",
        "mongodb+srv://a.b.c/?srvServiceName=other",
        Honoured("the_service_name_is_part_of_each_query"),
    ),
    (
        "authMechanism",
        "mongodb://u:p@a/?authMechanism=SCRAM-SHA-1",
        Honoured("the_published_scram_conversations_are_reproduced"),
    ),
    (
        "authMechanism",
        "mongodb://a/?authMechanism=MONGODB-X509",
        Honoured("a_certificate_authenticates_its_user"),
    ),
    (
        "authMechanism",
        "mongodb://u:p@a/?authMechanism=PLAIN&tls=true",
        Honoured("plain_authenticates_with_the_password"),
    ),
    (
        "authMechanism",
        "mongodb://a/?authMechanism=MONGODB-AWS",
        Honoured("credentials_of_the_environment_are_read_for_each_connection"),
    ),
    (
        "authMechanism",
        "mongodb://u@a/?authMechanism=GSSAPI",
        // Without a Kerberos library, as here, the client is not created, which is tested as
        // `gssapi_without_a_kerberos_library_is_refused_when_the_client_is_created`.
        Honoured("a_panic_of_the_library_is_an_error"),
    ),
    (
        "authMechanismProperties",
        "mongodb://a/?authMechanism=MONGODB-OIDC&tls=true\
         &authMechanismProperties=ENVIRONMENT:gcp,TOKEN_RESOURCE:r",
        Honoured("google_cloud_returns_the_token_itself"),
    ),
    ("authMechanismProperties", "SERVICE_NAME:m", Warned),
    (
        "authSource",
        "mongodb://u:p@a/?authSource=app",
        Honoured("sasl_supported_mechs_has_the_source_and_the_user_of_the_credential"),
    ),
    ("authSource", "app", Warned),
    ("gssapiServiceName", "m", Warned),
    ("tls", "true", Honoured("a_valid_certificate_is_accepted")),
    (
        "ssl",
        "true",
        Honoured("tls_is_enabled_only_by_the_scheme_or_the_tls_option"),
    ),
    (
        "tlsAllowInvalidCertificates",
        "true&tls=true",
        Honoured("an_invalid_certificate_is_reported_unless_its_check_is_disabled"),
    ),
    ("tlsAllowInvalidCertificates", "true", Warned),
    (
        "tlsAllowInvalidHostnames",
        "true&tls=true",
        Honoured("an_invalid_certificate_is_reported_unless_its_check_is_disabled"),
    ),
    ("tlsAllowInvalidHostnames", "true", Warned),
    (
        "tlsCAFile",
        "ca.pem&tls=true",
        Honoured("a_valid_certificate_is_accepted"),
    ),
    ("tlsCAFile", "ca.pem", Warned),
    (
        "tlsCRLFile",
        "crl.pem&tls=true",
        Honoured("a_crl_of_the_user_decides"),
    ),
    ("tlsCRLFile", "crl.pem", Warned),
    (
        "tlsCertificateKeyFile",
        "key.pem&tls=true",
        Honoured("a_client_certificate_is_sent_if_the_server_requests_one"),
    ),
    ("tlsCertificateKeyFile", "key.pem", Warned),
    (
        "tlsCertificateKeyFilePassword",
        "pencil&tls=true&tlsCertificateKeyFile=key.pem",
        Honoured("encrypted_keys_are_decrypted"),
    ),
    // Without a key that is encrypted.
    ("tlsCertificateKeyFilePassword", "pencil&tls=true", Warned),
    (
        "tlsDisableCertificateRevocationCheck",
        "true&tls=true",
        Honoured("options_disable_the_check_of_revocation"),
    ),
    ("tlsDisableCertificateRevocationCheck", "true", Warned),
    (
        "tlsDisableOCSPEndpointCheck",
        "true&tls=true",
        Honoured("options_disable_the_check_of_revocation"),
    ),
    ("tlsDisableOCSPEndpointCheck", "true", Warned),
    (
        "tlsInsecure",
        "true&tls=true",
        Honoured("an_invalid_certificate_is_reported_unless_its_check_is_disabled"),
    ),
    ("tlsInsecure", "true", Warned),
    (
        "compressors",
        "zstd,zlib",
        Honoured("a_ping_is_compressed_by_the_first_compressor_of_the_client"),
    ),
    (
        "connectTimeoutMS",
        "250",
        Honoured("a_monitor_retries_a_first_hello_that_exceeded_connect_timeout_ms"),
    ),
    (
        "heartbeatFrequencyMS",
        "700",
        Honoured("heartbeat_frequency_ms_sets_the_time_between_checks"),
    ),
    (
        "localThresholdMS",
        "30000",
        Honoured("a_slow_mongos_in_the_latency_window_gets_fewer_operations"),
    ),
    ("maxConnecting", "3", POOLS),
    ("maxIdleTimeMS", "9000", POOLS),
    ("maxPoolSize", "7", POOLS),
    ("minPoolSize", "2", POOLS),
    ("proxyHost", "proxy", PROXY),
    ("proxyPort", "1081&proxyHost=proxy", PROXY),
    ("proxyUsername", "u&proxyPassword=p&proxyHost=proxy", PROXY),
    ("proxyPassword", "p&proxyUsername=u&proxyHost=proxy", PROXY),
    (
        "serverMonitoringMode",
        "poll",
        Honoured("checks_are_polled_with_server_monitoring_mode_poll"),
    ),
    (
        "serverSelectionTryOnce",
        "false",
        Honoured("server_selection_try_once_requires_a_scanning_client"),
    ),
    (
        "serverSelectionTimeoutMS",
        "2000",
        Honoured("the_shorter_of_both_limits_ends_server_selection_and_is_not_renewed_by_checks"),
    ),
    (
        "socketTimeoutMS",
        "1000",
        Honoured("a_socket_timeout_or_network_error_closes_the_connection_without_draining"),
    ),
    (
        "waitQueueTimeoutMS",
        "10",
        Honoured("a_time_limit_replaces_the_wait_queue_timeout"),
    ),
    (
        "zlibCompressionLevel",
        "5&compressors=zlib",
        Honoured("levels_are_those_of_zlib"),
    ),
    (
        "enableOverloadRetargeting",
        "true",
        Honoured("a_retry_avoids_the_overloaded_server_only_with_enable_overload_retargeting"),
    ),
    ("journal", "true", ON_THE_WIRE),
    (
        "maxAdaptiveRetries",
        "3",
        Honoured("max_adaptive_retries_sets_the_number_of_retries"),
    ),
    (
        "maxStalenessSeconds",
        "120&readPreference=secondary",
        Honoured("commands_to_mongos_contain_max_staleness_seconds_if_it_is_set"),
    ),
    ("readConcernLevel", "majority", ON_THE_WIRE),
    (
        "readPreference",
        "secondary",
        Honoured("commands_to_mongos_contain_every_read_preference_except_primary"),
    ),
    (
        "readPreferenceTags",
        "dc:ny&readPreference=secondary",
        ON_THE_WIRE,
    ),
    (
        "retryReads",
        "false",
        Honoured("the_time_limit_decides_how_often_an_operation_is_retried"),
    ),
    (
        "retryWrites",
        "false",
        Honoured("the_time_limit_decides_how_often_an_operation_is_retried"),
    ),
    (
        "timeoutMS",
        "10000",
        Honoured("the_time_limit_decides_how_often_an_operation_is_retried"),
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
fn every_uri_option_takes_effect_or_is_warned_about() {
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
fn ineffective_options_that_are_set_in_code_cause_warnings() {
    let mut options = ClientOptions::default();
    assert!(uri::ineffective_options(&options).is_empty());
    options.monitoring = Monitoring::Scanning;
    options.server_monitoring_mode = Some(ServerMonitoringMode::Stream);
    let found = uri::ineffective_options(&options);
    let named: Vec<_> = found.iter().map(shown).collect();
    let expected = [
        "option serverMonitoringMode has no effect: a client that scans its servers does not \
         stream",
    ];
    assert_eq!(named, expected);
}
