//! Tests of the setters, and of the rules that involve several options.

use super::*;
use crate::error::ErrorKind;
use crate::event::ReportedPoolOptions;
use crate::options::{Acknowledgment, CredentialProvider, OidcCallback, OidcFlow, OidcTokens};

fn with(set: impl FnOnce(&mut ClientOptions)) -> ClientOptions {
    let mut options = ClientOptions::default();
    set(&mut options);
    options
}

#[test]
fn the_default_options_are_valid_and_name_localhost() {
    let options = ClientOptions::default();
    assert_eq!(options.validate(), Ok(()));
    assert_eq!(options.hosts(), [Address::tcp("localhost", 27017)]);
    assert_eq!(
        options.reported_pool_options(),
        ReportedPoolOptions::default()
    );
}

#[test]
fn only_non_default_pool_options_are_reported() {
    // The pool created event contains only options that differ from the default (CMAP-113).
    let mut options = with(|o| {
        o.set_max_pool_size(DEFAULT_MAX_POOL_SIZE)
            .set_min_pool_size(3)
            .set_wait_queue_timeout(Duration::ZERO)
            .set_max_idle_time(Duration::from_secs(1));
    });
    let expected = ReportedPoolOptions {
        min_pool_size: Some(3),
        max_idle_time: Some(Duration::from_secs(1)),
        ..Default::default()
    };
    assert_eq!(options.reported_pool_options(), expected);
    options.set_max_pool_size(0);
    assert_eq!(options.reported_pool_options().max_pool_size, Some(0));
}

#[test]
fn an_invalid_pool_option_fails_with_an_error_that_names_it() {
    // `minPoolSize` above `maxPoolSize` (CMAP-9) and a `maxConnecting` of zero (CMAP-11) are
    // errors. In a connection string an invalid pool option causes a warning (CMAP-15), but a
    // setter has no way to warn. Negative and non-numeric values do not fit the types.
    let mut options = ClientOptions::default();
    let refused = options.set_max_connecting(0).map(drop);
    options.set_max_pool_size(2).set_min_pool_size(3);
    for (refused, name) in [
        (refused, "maxConnecting"),
        (options.validate(), "minPoolSize"),
    ] {
        let error = refused.expect_err(name);
        let kind = error.kind();
        let is_named = matches!(kind, ErrorKind::InvalidOption { option, .. } if *option == name);
        assert!(is_named, "{error:?}");
    }
    options.set_max_pool_size(0);
    assert_eq!(options.validate(), Ok(()), "no limit is above any number");
}

#[test]
fn a_refused_value_does_not_change_the_options() {
    // One of the values is a server selection timeout of zero, which this driver refuses (SEL-5).
    let mut options = ClientOptions::default();
    assert!(
        options
            .set_heartbeat_frequency(Duration::from_millis(499))
            .is_err()
    );
    assert!(options.set_max_connecting(0).is_err());
    assert!(
        options
            .set_server_selection_timeout(Duration::ZERO)
            .is_err()
    );
    assert!(options.set_zlib_compression_level(-2).is_err());
    assert!(options.set_app_name("x".repeat(129)).is_err());
    assert!(options.set_replica_set("").is_err());
    assert!(options.set_default_database("a b").is_err());
    assert!(options.set_srv_host("a,b").is_err());
    assert!(options.set_credential(Credential::empty("admin")).is_err());
    let mut concern = WriteConcern::nodes(0);
    concern.journal = Some(true);
    assert!(options.set_write_concern(concern).is_err());
    for name in ["", "-a", "a-", "a--b", "1", "a_b", &"a".repeat(63)] {
        assert!(options.set_srv_service_name(name).is_err(), "{name}");
    }
    assert_eq!(options, ClientOptions::default());
    assert!(options.set_srv_service_name("a".repeat(62)).is_ok());
}

fn two_hosts() -> Vec<Address> {
    vec![Address::tcp("a", 1), Address::tcp("b", 1)]
}

/// A function that sets options, and fails if a setter refuses its value.
type Choose = fn(&mut ClientOptions) -> Result<&mut ClientOptions, Error>;

#[test]
fn validate_refuses_contradictory_options() {
    // These options break rules about the topology and SRV (URI-13 to URI-17, LB-3 to LB-6), the
    // pool size (CMAP-9) and TLS (one of URI-5 to URI-11).
    let wrong: [Choose; 12] = [
        |o| Ok(o.set_hosts(Vec::new())),
        |o| Ok(o.set_hosts(two_hosts()).set_direct_connection(true)),
        |o| o.set_direct_connection(true).set_srv_host("a.b.c"),
        |o| Ok(o.set_hosts(two_hosts()).set_load_balanced(true)),
        |o| o.set_load_balanced(true).set_replica_set("x"),
        |o| Ok(o.set_load_balanced(true).set_direct_connection(true)),
        |o| {
            o.set_srv_max_hosts(1)
                .set_load_balanced(true)
                .set_srv_host("a.b.c")
        },
        |o| {
            o.set_srv_max_hosts(1)
                .set_replica_set("x")?
                .set_srv_host("a.b.c")
        },
        |o| Ok(o.set_srv_max_hosts(1)),
        |o| o.set_srv_service_name("other"),
        |o| Ok(o.set_min_pool_size(101)),
        |o| {
            o.tls.insecure = true;
            o.tls.allow_invalid_hostnames = true;
            Ok(o)
        },
    ];
    for (index, choose) in wrong.into_iter().enumerate() {
        let mut options = ClientOptions::default();
        choose(&mut options).expect("each value alone is fine");
        assert!(options.validate().is_err(), "{index}: {options:?}");
    }
    let right: [Choose; 4] = [
        |o| Ok(o.set_hosts(two_hosts()).set_direct_connection(false)),
        |o| Ok(o.set_load_balanced(true).set_direct_connection(false)),
        |o| o.set_srv_max_hosts(2).set_srv_host("a.b.c"),
        |o| Ok(o.set_min_pool_size(101).set_max_pool_size(0)),
    ];
    for choose in right {
        let mut options = ClientOptions::default();
        choose(&mut options).expect("each value alone is fine");
        assert_eq!(options.validate(), Ok(()));
    }
}

#[test]
fn server_selection_try_once_requires_a_scanning_client() {
    // Only a client that checks servers on demand has `serverSelectionTryOnce` (SEL-6), and its
    // heartbeat frequency has a default of its own (SEL-8).
    let mut options = ClientOptions::default();
    assert_eq!(options.heartbeat_frequency(), Duration::from_secs(10));
    options.set_server_selection_try_once(false);
    assert!(options.validate().is_err());
    options.set_monitoring(Monitoring::Scanning);
    assert_eq!(options.validate(), Ok(()));
    assert_eq!(options.heartbeat_frequency(), Duration::from_secs(60));
    let chosen = Duration::from_millis(500);
    options
        .set_heartbeat_frequency(chosen)
        .expect("it is long enough");
    assert_eq!(options.heartbeat_frequency(), chosen);
}

#[test]
fn duplicate_compressors_are_removed() {
    let list = vec![Compressor::Zlib, Compressor::Snappy, Compressor::Zlib];
    let mut options = ClientOptions::default();
    options.set_compressors(list);
    assert_eq!(
        options.compressors(),
        [Compressor::Zlib, Compressor::Snappy]
    );
}

#[test]
fn debug_output_of_client_options_hides_secrets() {
    let options = with(|o| {
        o.set_proxy(ProxyOptions::new("p").with_credentials("n", "pencil"));
        let credential = Credential::password("u", "pencil");
        o.set_credential(credential).expect("it is complete");
        o.tls.certificate_key_password = Some(crate::options::Secret::new("pencil"));
    });
    assert!(!format!("{options:?}").contains("pencil"));
}

#[test]
fn a_write_concern_of_w_0_with_journal_is_refused() {
    // `w=0` together with `journal=true` is an error (URI-23).
    let mut concern = WriteConcern::nodes(0);
    assert_eq!(concern.validate(), Ok(()));
    concern.journal = Some(false);
    assert_eq!(concern.validate(), Ok(()));
    concern.journal = Some(true);
    assert!(concern.validate().is_err());
    concern.w = Some(Acknowledgment::Nodes(1));
    assert_eq!(concern.validate(), Ok(()));
}

#[test]
fn the_human_flow_uses_a_proxy_only_with_all_checks_of_tls() {
    // Without them, the proxy of a connection string could lead to another host than the allowed
    // one (AUTH-108).
    for (text, flow, is_valid) in [
        ("proxyHost=proxy", OidcFlow::Human, false),
        ("proxyHost=proxy", OidcFlow::Machine, true),
        ("proxyHost=proxy&tls=true", OidcFlow::Human, true),
        (
            "proxyHost=proxy&tls=true&tlsInsecure=true",
            OidcFlow::Human,
            false,
        ),
        (
            "proxyHost=proxy&tls=true&tlsAllowInvalidHostnames=true",
            OidcFlow::Human,
            false,
        ),
        (
            "proxyHost=proxy&tls=true&tlsAllowInvalidCertificates=true",
            OidcFlow::Human,
            false,
        ),
        ("appName=x", OidcFlow::Human, true),
    ] {
        let mut options =
            ClientOptions::parse(&format!("mongodb://localhost/?{text}")).expect(text);
        let callback = OidcCallback::blocking(flow, |_| Ok(OidcTokens::new("t")));
        let credential = Credential::with_provider(CredentialProvider::Oidc(callback));
        options.set_credential(credential).expect("it is complete");
        assert_eq!(options.validate().is_ok(), is_valid, "{text} {flow:?}");
    }
}
