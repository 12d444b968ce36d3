//! The options that are set in code: each field of the options and of the TLS options, and each
//! setter of the builder.

use super::{OPTIONS, root, text_below};
use bson::doc;
use onionskin_core::options::{ClientOptions, EventHandler};
use onionskin_serve::{Embedded, ServeOptions};
use std::{
    collections::BTreeSet,
    fs,
    sync::{Arc, Mutex},
};

/// The demonstration that a setting has its effect.
enum Shown {
    /// The setting sets the same field as this option of connection strings, which is in
    /// [`OPTIONS`].
    Option(&'static str),
    /// The test with this name shows the effect.
    Test(&'static str),
}

use Shown::{Option as Same, Test};

/// The test of the handlers of events.
const FAMILIES: &str = "each_handler_gets_the_events_of_its_family";

/// Each field of `ClientOptions`, and the methods that set or check something.
const FIELDS: [(&str, Shown); 46] = [
    ("app_name", Same("appName")),
    ("compressors", Same("compressors")),
    ("connect_timeout", Same("connectTimeoutMS")),
    (
        "credential",
        Test("a_failure_belongs_to_the_step_that_is_under_way"),
    ),
    ("cmap_event_handler", Test(FAMILIES)),
    ("command_event_handler", Test(FAMILIES)),
    (
        "default_database",
        Test("a_handle_of_the_default_database_has_its_name"),
    ),
    ("direct_connection", Same("directConnection")),
    (
        "driver_info",
        Test("each_driver_info_is_appended_after_a_bar_without_unset_fields"),
    ),
    (
        "enable_overload_retargeting",
        Same("enableOverloadRetargeting"),
    ),
    ("heartbeat_freq", Same("heartbeatFrequencyMS")),
    ("hosts", Test("options_with_hosts_need_no_lookup")),
    (
        "set_kerberos",
        Test("calls_that_never_return_cost_errors_and_one_thread"),
    ),
    ("load_balanced", Same("loadBalanced")),
    ("local_threshold", Same("localThresholdMS")),
    ("max_adaptive_retries", Same("maxAdaptiveRetries")),
    ("max_connecting", Same("maxConnecting")),
    ("max_idle_time", Same("maxIdleTimeMS")),
    ("max_pool_size", Same("maxPoolSize")),
    ("min_pool_size", Same("minPoolSize")),
    (
        "monitoring",
        Test("ineffective_options_that_are_set_in_code_cause_warnings"),
    ),
    ("server_monitoring_mode", Same("serverMonitoringMode")),
    ("socks5_proxy", Same("proxyHost")),
    ("read_concern", Same("readConcernLevel")),
    ("selection_criteria", Same("readPreference")),
    ("repl_set_name", Same("replicaSet")),
    ("retry_reads", Same("retryReads")),
    ("retry_writes", Same("retryWrites")),
    (
        "server_api",
        Test("each_hello_has_exactly_the_expected_fields"),
    ),
    ("server_selection_timeout", Same("serverSelectionTimeoutMS")),
    ("server_selection_try_once", Same("serverSelectionTryOnce")),
    (
        "server_selector",
        Test("a_server_selector_can_choose_one_server_for_every_operation"),
    ),
    ("sdam_event_handler", Test(FAMILIES)),
    ("socket_timeout", Same("socketTimeoutMS")),
    ("srv_allowed_hosts_suffix", Same("srvAllowedHostsSuffix")),
    ("srv_host", Test("nothing_is_looked_up_for_invalid_options")),
    ("srv_max_hosts", Same("srvMaxHosts")),
    ("srv_service_name", Same("srvServiceName")),
    (
        "strict",
        Test("warnings_suggest_the_nearest_name_and_strict_options_refuse_them"),
    ),
    ("timeout", Same("timeoutMS")),
    ("tls", Same("tls")),
    (
        "tracing_max_document_length_bytes",
        Test("secrets_are_not_logged_and_long_documents_are_truncated"),
    ),
    ("wait_queue_timeout", Same("waitQueueTimeoutMS")),
    ("write_concern", Same("w")),
    ("zlib_compression_level", Same("zlibCompressionLevel")),
    ("validate", Test("validate_refuses_contradictory_options")),
];

/// Each method of `ClientBuilder` that sets something.
const BUILDER: [(&str, Shown); 9] = [
    ("event_listener", Test("a_client_emits_its_events_in_order")),
    (
        "log_options",
        Test("the_log_level_can_be_set_for_each_component"),
    ),
    ("seed", Test("a_topology_id_is_unique_and_never_changes")),
    (
        "environment",
        Test("each_hello_has_exactly_the_expected_fields"),
    ),
    (
        "recording",
        Test("a_demonstration_on_sockets_replays_to_the_same_actions"),
    ),
    (
        "failure_recording",
        Test("a_failed_operation_writes_the_recording"),
    ),
    ("resolver", Test("the_resolver_of_the_application_is_used")),
    ("resolver_config", Test("a_seed_list_is_looked_up_over_udp")),
    (
        "host_resolver",
        Test("a_host_is_reached_at_its_second_address"),
    ),
];

/// Each field of `TlsOptions`.
const TLS: [(&str, Shown); 17] = [
    ("ca_file_path", Same("tlsCAFile")),
    (
        "ca_pem",
        Test("an_untrusted_certificate_is_refused_unless_allowed"),
    ),
    (
        "system_roots",
        Test("system_roots_are_trusted_unless_a_ca_file_is_given"),
    ),
    ("crl_file_path", Same("tlsCRLFile")),
    ("crl_pem", Test("a_crl_of_the_user_decides")),
    ("cert_key_file_path", Same("tlsCertificateKeyFile")),
    (
        "certificate_key_pem",
        Test("a_client_certificate_is_sent_if_the_server_requests_one"),
    ),
    (
        "private_key_file_path",
        Test("files_are_read_unless_their_content_is_given"),
    ),
    (
        "private_key_pem",
        Test("a_private_key_can_be_outside_of_the_certificate_file"),
    ),
    (
        "tls_certificate_key_file_password",
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

/// Returns the public fields of a struct of options, which a table declares.
fn fields(path: &str, name: &str) -> BTreeSet<String> {
    let text = fs::read_to_string(root().join(path)).expect("the code");
    let begin = format!("{name}, built by {name}Builder {{");
    let (_, table) = text.split_once(&begin).expect("a table");
    let (table, _) = table.split_once("\n}\n").expect("its end");
    let rows = table.lines().filter_map(|line| {
        let row = line.strip_prefix("        ")?;
        let row = row.strip_prefix("pub ").unwrap_or(row);
        let (name, _) = row.split_once(": ")?;
        let is_name = name
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
        let is_private = ["kerberos", "warnings"].contains(&name);
        (is_name && !is_private).then(|| name.to_owned())
    });
    rows.collect()
}

#[test]
fn every_setting_in_code_takes_effect_or_is_refused_or_warned_about() {
    let mut tests = String::new();
    for directory in ["adapters", "core", "simulations/tests", "tests"] {
        text_below(&root().join(directory), &mut tests);
    }
    let options: BTreeSet<&str> = OPTIONS.iter().map(|(name, ..)| *name).collect();
    let mut found = fields("core/src/options/client/mod.rs", "ClientOptions");
    found.extend(["set_kerberos".to_owned(), "validate".to_owned()]);
    let mut builder = names("adapters/client/src/client/builder.rs", "pub fn ");
    builder.remove("build");
    for (listed, found) in [
        (&FIELDS[..], found),
        (&BUILDER, builder),
        (&TLS, fields("core/src/options/tls.rs", "TlsOptions")),
    ] {
        let named: BTreeSet<String> = listed.iter().map(|(name, _)| (*name).to_owned()).collect();
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
    let mut options = ClientOptions::default();
    let none = onionskin_tokio::Client::with_options(options.clone()).expect("a client");
    assert!(none.default_database().is_none());
    options.default_database = Some("app".to_owned());
    let client = onionskin_tokio::Client::with_options(options).expect("a client");
    let database = client.default_database().expect("it has one");
    assert_eq!(database.name(), "app");
}

#[test]
fn each_handler_gets_the_events_of_its_family() {
    let server = Embedded::start(ServeOptions::standalone()).expect("a server");
    let seen = <Arc<Mutex<Vec<&'static str>>>>::default();
    let note = |family: &'static str| {
        let seen = seen.clone();
        move || seen.lock().expect("no panic").push(family)
    };
    let (command, pool, sdam) = (note("command"), note("pool"), note("sdam"));
    let mut options = ClientOptions::parse(server.uri()).run().expect("valid");
    options.command_event_handler = Some(EventHandler::callback(move |_| command()));
    options.cmap_event_handler = Some(EventHandler::callback(move |_| pool()));
    options.sdam_event_handler = Some(EventHandler::callback(move |_| sdam()));
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let client = onionskin_tokio::Client::with_options(options).expect("a client");
        let database = client.database("db");
        database
            .run_command(doc! { "ping": 1 })
            .await
            .expect("a reply");
        client.shutdown().await;
    });
    let mut seen = seen.lock().expect("no panic").clone();
    let commands = seen.iter().filter(|family| **family == "command");
    assert_eq!(commands.count(), 4, "of `ping` and of `endSessions`");
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen, ["command", "pool", "sdam"]);
}
