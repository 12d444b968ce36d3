//! The options that are set in code: each setter of the options and of the builder, and each field
//! of the TLS options.

use super::{OPTIONS, root, text_below};
use std::{collections::BTreeSet, fs};

/// The demonstration that a setting has its effect.
enum Shown {
    /// The setter sets the same field as this option of connection strings, which is in
    /// [`OPTIONS`].
    Option(&'static str),
    /// The test with this name shows the effect.
    Test(&'static str),
}

use Shown::{Option as Same, Test};

/// Each setter of `ClientOptions`.
const SETTERS: [(&str, Shown); 40] = [
    ("set_app_name", Same("appName")),
    ("set_compressors", Same("compressors")),
    ("set_connect_timeout", Same("connectTimeoutMS")),
    (
        "set_credential",
        Test("a_failure_belongs_to_the_step_that_is_under_way"),
    ),
    (
        "set_default_database",
        Test("a_handle_of_the_default_database_has_its_name"),
    ),
    ("set_direct_connection", Same("directConnection")),
    (
        "set_enable_overload_retargeting",
        Same("enableOverloadRetargeting"),
    ),
    ("set_heartbeat_frequency", Same("heartbeatFrequencyMS")),
    ("set_hosts", Test("options_with_hosts_need_no_lookup")),
    (
        "set_kerberos",
        Test("calls_that_never_return_cost_errors_and_at_most_four_threads"),
    ),
    ("set_load_balanced", Same("loadBalanced")),
    ("set_local_threshold", Same("localThresholdMS")),
    ("set_max_adaptive_retries", Same("maxAdaptiveRetries")),
    ("set_max_connecting", Same("maxConnecting")),
    ("set_max_idle_time", Same("maxIdleTimeMS")),
    ("set_max_pool_size", Same("maxPoolSize")),
    ("set_min_pool_size", Same("minPoolSize")),
    (
        "set_monitoring",
        Test("ineffective_options_that_are_set_in_code_cause_warnings"),
    ),
    ("set_monitoring_mode", Same("serverMonitoringMode")),
    ("set_proxy", Same("proxyHost")),
    ("set_read_concern", Same("readConcernLevel")),
    ("set_read_preference", Same("readPreference")),
    ("set_replica_set", Same("replicaSet")),
    ("set_retry_reads", Same("retryReads")),
    ("set_retry_writes", Same("retryWrites")),
    (
        "set_server_api",
        Test("each_hello_has_exactly_the_expected_fields"),
    ),
    (
        "set_server_selection_timeout",
        Same("serverSelectionTimeoutMS"),
    ),
    (
        "set_server_selection_try_once",
        Same("serverSelectionTryOnce"),
    ),
    (
        "set_server_selector",
        Test("a_server_selector_can_choose_one_server_for_every_operation"),
    ),
    ("set_socket_timeout", Same("socketTimeoutMS")),
    (
        "set_srv_host",
        Test("nothing_is_looked_up_for_invalid_options"),
    ),
    ("set_srv_max_hosts", Same("srvMaxHosts")),
    ("set_srv_service_name", Same("srvServiceName")),
    (
        "set_strict",
        Test("warnings_suggest_the_nearest_name_and_strict_options_refuse_them"),
    ),
    ("set_timeout", Same("timeoutMS")),
    ("set_tls", Same("tls")),
    ("set_wait_queue_timeout", Same("waitQueueTimeoutMS")),
    ("set_write_concern", Same("w")),
    ("set_zlib_compression_level", Same("zlibCompressionLevel")),
    ("validate", Test("validate_refuses_contradictory_options")),
];

/// Each method of `ClientBuilder` that sets something.
const BUILDER: [(&str, Shown); 9] = [
    ("event_listener", Test("a_client_emits_its_events_in_order")),
    (
        "log_options",
        Test("the_log_level_can_be_set_for_each_component"),
    ),
    (
        "tracing_max_document_length_bytes",
        Test("secrets_are_not_logged_and_long_documents_are_truncated"),
    ),
    ("seed", Test("a_topology_id_is_unique_and_never_changes")),
    (
        "environment",
        Test("each_hello_has_exactly_the_expected_fields"),
    ),
    (
        "driver_info",
        Test("each_driver_info_is_appended_after_a_bar_without_unset_fields"),
    ),
    ("resolver", Test("the_resolver_of_the_application_is_used")),
    ("resolver_config", Test("a_seed_list_is_looked_up_over_udp")),
    (
        "host_resolver",
        Test("a_host_is_reached_at_its_second_address"),
    ),
];

/// Each field of `TlsOptions`.
const TLS: [(&str, Shown); 18] = [
    ("enabled", Same("tls")),
    ("ca_file", Same("tlsCAFile")),
    (
        "ca_pem",
        Test("an_untrusted_certificate_is_refused_unless_allowed"),
    ),
    (
        "system_roots",
        Test("system_roots_are_trusted_unless_a_ca_file_is_given"),
    ),
    ("crl_file", Same("tlsCRLFile")),
    ("crl_pem", Test("a_crl_of_the_user_decides")),
    ("certificate_key_file", Same("tlsCertificateKeyFile")),
    (
        "certificate_key_pem",
        Test("a_client_certificate_is_sent_if_the_server_requests_one"),
    ),
    (
        "private_key_file",
        Test("files_are_read_unless_their_content_is_given"),
    ),
    (
        "private_key_pem",
        Test("a_private_key_can_be_outside_of_the_certificate_file"),
    ),
    (
        "certificate_key_password",
        Same("tlsCertificateKeyFilePassword"),
    ),
    (
        "allow_invalid_certificates",
        Same("tlsAllowInvalidCertificates"),
    ),
    (
        "cryptography",
        Test("a_library_that_is_not_enabled_is_refused_by_name"),
    ),
    ("allow_invalid_hostnames", Same("tlsAllowInvalidHostnames")),
    ("insecure", Same("tlsInsecure")),
    (
        "disable_ocsp_endpoint_check",
        Same("tlsDisableOCSPEndpointCheck"),
    ),
    (
        "disable_certificate_revocation_check",
        Same("tlsDisableCertificateRevocationCheck"),
    ),
    (
        "config",
        Test("the_configuration_of_the_application_decides_on_certificates"),
    ),
];

/// Returns the names after `before` in the code of a file or of the files of a directory.
fn names(path: &str, before: &str) -> BTreeSet<String> {
    let path = root().join(path);
    let mut text = String::new();
    match path.is_dir() {
        true => text_below(&path, &mut text),
        false => text = fs::read_to_string(&path).expect("the code"),
    }
    let names = text.split(before).skip(1);
    let ends = |c: char| !c.is_ascii_alphanumeric() && c != '_';
    let names = names.filter_map(|rest| rest.split(ends).next());
    names.map(str::to_owned).collect()
}

#[test]
fn every_setting_in_code_takes_effect_or_is_refused_or_warned_about() {
    let mut tests = String::new();
    for directory in ["adapters", "core", "tests"] {
        text_below(&root().join(directory), &mut tests);
    }
    let options: BTreeSet<&str> = OPTIONS.iter().map(|(name, ..)| *name).collect();
    let setters = names("core/src/options/client", "pub fn ");
    let is_setter = |name: &String| name.starts_with("set_") || name == "validate";
    let builder = names("adapters/client/src/client/builder.rs", "pub fn ");
    let others = ["build"];
    for (listed, found) in [
        (
            &SETTERS[..],
            setters.into_iter().filter(is_setter).collect(),
        ),
        (
            &BUILDER,
            builder
                .into_iter()
                .filter(|name| !others.contains(&name.as_str()))
                .collect(),
        ),
        (&TLS, names("core/src/options/tls.rs", "    pub ")),
    ] {
        let named: BTreeSet<String> = listed.iter().map(|(name, _)| (*name).to_owned()).collect();
        let found: BTreeSet<String> = found;
        let found = found
            .into_iter()
            .filter(|name| !["fn", "const"].contains(&name.as_str()))
            .collect::<BTreeSet<_>>();
        assert_eq!(named, found, "each setting has a line above");
        for (name, shown) in listed {
            match shown {
                Same(option) => assert!(options.contains(option), "{name}: {option}"),
                Test(test) => {
                    let is_there = ["(", "<"].map(|end| tests.contains(&format!("fn {test}{end}")));
                    assert!(is_there.contains(&true), "{name}: there is no test {test}");
                }
            }
        }
    }
}

#[test]
fn a_handle_of_the_default_database_has_its_name() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let _entered = runtime.enter();
    let mut options = onionskin_core::options::ClientOptions::default();
    let none = onionskin_tokio::Client::with_options(options.clone()).expect("a client");
    assert!(none.default_database().is_none());
    options.default_database = Some("app".to_owned());
    let client = onionskin_tokio::Client::with_options(options).expect("a client");
    let database = client.default_database().expect("it has one");
    assert_eq!(database.name(), "app");
}
