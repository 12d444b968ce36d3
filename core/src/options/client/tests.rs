//! Tests of the rules of single options, and of those that involve several options.

use super::*;
use crate::address::Address;
use crate::error::{Argument, ErrorKind};
use crate::event::ReportedPoolOptions;
use crate::options::{
    Acknowledgment, AuthMechanism, OidcCallback, OidcFlow, OidcTokens, ReadPreference,
    ServerApiVersion, TlsOptions,
};
use std::path::PathBuf;

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
        o.max_pool_size = Some(DEFAULT_MAX_POOL_SIZE);
        o.min_pool_size = Some(3);
        o.wait_queue_timeout = Some(Duration::ZERO);
        o.max_idle_time = Some(Duration::from_secs(1));
    });
    let expected = ReportedPoolOptions {
        min_pool_size: Some(3),
        max_idle_time: Some(Duration::from_secs(1)),
        ..Default::default()
    };
    assert_eq!(options.reported_pool_options(), expected);
    options.max_pool_size = Some(0);
    assert_eq!(options.reported_pool_options().max_pool_size, Some(0));
}

#[test]
fn an_invalid_pool_option_fails_with_an_error_that_names_it() {
    // `minPoolSize` above `maxPoolSize` (CMAP-9) and a `maxConnecting` of zero (CMAP-11) are
    // errors. In a connection string an invalid pool option causes a warning (CMAP-15), but options
    // set in code have no way to warn. Negative and non-numeric values do not fit the types.
    let sizes = ClientOptions::builder().max_pool_size(2).min_pool_size(3);
    let mut options = sizes.build();
    for (options, name) in [
        (with(|o| o.max_connecting = Some(0)), "maxConnecting"),
        (options.clone(), "minPoolSize"),
    ] {
        let error = options.validate().expect_err(name);
        let kind = error.kind();
        let is_named = matches!(
            kind,
            ErrorKind::InvalidArgument { argument: Argument::Option(option), .. }
                if *option == name
        );
        assert!(is_named, "{error:?}");
    }
    options.max_pool_size = Some(0);
    assert_eq!(options.validate(), Ok(()), "no limit is above any number");
}

#[test]
fn each_value_is_checked_when_a_client_is_created() {
    // One of the values is a server selection timeout of zero, which this driver refuses (SEL-5).
    let refuse = |set: &dyn Fn(&mut ClientOptions)| {
        let options = with(set);
        assert!(options.validate().is_err(), "{options:?}");
    };
    let host = |host: &str, port| ServerAddress::Tcp {
        host: host.into(),
        port: Some(port),
    };
    for wrong in [host("", 1), host("a", 0), host("A", 1), host("a b", 1)] {
        refuse(&|o| o.hosts = vec![wrong.clone()]);
    }
    refuse(&|o| o.heartbeat_freq = Some(Duration::from_millis(499)));
    refuse(&|o| o.max_connecting = Some(0));
    refuse(&|o| o.server_selection_timeout = Some(Duration::ZERO));
    refuse(&|o| o.zlib_compression_level = Some(-2));
    refuse(&|o| o.app_name = Some("x".repeat(129)));
    refuse(&|o| o.repl_set_name = Some(String::new()));
    refuse(&|o| o.default_database = Some("a b".to_owned()));
    refuse(&|o| o.driver_info = Some(DriverInfo::new("")));
    refuse(&|o| o.srv_host = Some("a,b".to_owned()));
    refuse(&|o| o.credential = Some(Credential::default()));
    let mut concern = WriteConcern::nodes(0);
    concern.journal = Some(true);
    refuse(&|o| o.write_concern = Some(concern.clone()));
    let service = |o: &mut ClientOptions, name: &str| {
        o.srv_host = Some("a.b.c".to_owned());
        o.srv_service_name = Some(name.to_owned());
    };
    refuse(&|o| {
        o.srv_host = Some("a.b.c".to_owned());
        o.srv_allowed_hosts_suffix = Some("net".to_owned());
    });
    for name in ["", "-a", "a-", "a--b", "1", "a_b", &"a".repeat(63)] {
        refuse(&|o| service(o, name));
    }
    assert_eq!(with(|o| service(o, &"a".repeat(62))).validate(), Ok(()));
}

fn two_hosts() -> Vec<ServerAddress> {
    vec![Address::tcp("a", 1).into(), Address::tcp("b", 1).into()]
}

#[test]
fn validate_refuses_contradictory_options() {
    // These options break rules about the topology and SRV (URI-13 to URI-17, LB-3 to LB-6), the
    // pool size (CMAP-9) and TLS (one of URI-5 to URI-11).
    let srv = || ClientOptions::builder().srv_host("a.b.c".to_owned());
    let hosts = || ClientOptions::builder().hosts(two_hosts());
    let unset = ClientOptions::builder;
    let conflicting = TlsOptions::builder()
        .insecure(true)
        .allow_invalid_hostnames(true)
        .build();
    let name = "x".to_owned();
    for wrong in [
        hosts().direct_connection(true),
        srv().direct_connection(true),
        hosts().load_balanced(true),
        unset().load_balanced(true).repl_set_name(name.clone()),
        unset().load_balanced(true).direct_connection(true),
        srv().srv_max_hosts(1).load_balanced(true),
        srv().srv_max_hosts(1).repl_set_name(name.clone()),
        unset().srv_max_hosts(1),
        unset().srv_allowed_hosts_suffix(".b.c".to_owned()),
        unset().srv_service_name("other".to_owned()),
        unset().min_pool_size(101),
        unset().tls(conflicting),
    ] {
        let options = wrong.build();
        assert!(options.validate().is_err(), "{options:?}");
    }
    for right in [
        hosts().direct_connection(false),
        unset().load_balanced(true).direct_connection(false),
        srv().srv_max_hosts(2),
        unset().min_pool_size(101).max_pool_size(0),
    ] {
        assert_eq!(right.build().validate(), Ok(()));
    }
}

#[test]
fn server_selection_try_once_requires_a_scanning_client() {
    // Only a client that checks servers on demand has `serverSelectionTryOnce` (SEL-6), and its
    // heartbeat frequency has a default of its own (SEL-8).
    let once = ClientOptions::builder().server_selection_try_once(false);
    let mut options = once.build();
    assert_eq!(options.heartbeat_freq(), Duration::from_secs(10));
    assert!(options.validate().is_err());
    options.monitoring = Monitoring::Scanning;
    assert_eq!(options.validate(), Ok(()));
    assert_eq!(options.heartbeat_freq(), Duration::from_secs(60));
    let chosen = Duration::from_millis(500);
    options.heartbeat_freq = Some(chosen);
    assert_eq!(options.heartbeat_freq(), chosen);
}

#[test]
fn duplicate_compressors_are_removed() {
    let list = vec![Compressor::Zlib, Compressor::Snappy, Compressor::Zlib];
    let options = ClientOptions::builder().compressors(list).build();
    assert_eq!(
        options.compressors(),
        [Compressor::Zlib, Compressor::Snappy]
    );
}

#[test]
fn debug_output_of_client_options_hides_secrets() {
    let options = with(|o| {
        let credentials = ("n".to_owned(), "pencil".into());
        let proxy = Socks5Proxy::builder().host("p").authentication(credentials);
        o.socks5_proxy = Some(proxy.build());
        let credential = Credential::password("u", "pencil");
        o.credential = Some(credential);
        let tls = TlsOptions::builder().tls_certificate_key_file_password("pencil");
        o.tls = Some(tls.build().into());
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
        let mut options = ClientOptions::parse(format!("mongodb://localhost/?{text}"))
            .run()
            .expect(text);
        let callback = OidcCallback::blocking(flow, |_| Ok(OidcTokens::new("t")));
        let credential = Credential::with_oidc_callback(callback);
        options.credential = Some(credential);
        assert_eq!(options.validate().is_ok(), is_valid, "{text} {flow:?}");
    }
}

#[test]
fn options_are_read_from_a_file_of_the_application() {
    let read = |json: serde_json::Value| serde_json::from_value::<ClientOptions>(json);
    let options = read(serde_json::json!({
        "hosts": ["a:5", { "host": "b" }],
        "appName": "shop",
        "compressors": ["zlib"],
        "credential": {
            "username": "me", "password": "pencil", "mechanism": "ScramSha256",
            "mechanism_properties": { "SERVICE_NAME": "m" },
        },
        "driverInfo": { "name": "wrapper" },
        "heartbeatFreq": { "secs": 5, "nanos": 0 },
        "loadbalanced": false,
        "readConcern": { "level": "majority" },
        "selectionCriteria": { "mode": "secondary" },
        "serverApi": { "apiVersion": "1", "apiStrict": true },
        "serverMonitoringMode": "Poll",
        "socks5Proxy": { "host": "p", "authentication": ["me", "pencil"] },
        "tls": { "Enabled": { "ca_file_path": "ca.pem" } },
        "writeConcern": { "w": "majority" },
    }));
    let credential = Credential::builder()
        .username("me".to_owned())
        .password("pencil")
        .mechanism(AuthMechanism::ScramSha256)
        .mechanism_properties([("SERVICE_NAME", "m")]);
    let mut api = ServerApi::new(ServerApiVersion::V1);
    api.strict = Some(true);
    let tls = TlsOptions::builder().ca_file_path(PathBuf::from("ca.pem"));
    let proxy = Socks5Proxy::builder()
        .host("p")
        .authentication(("me".to_owned(), "pencil".into()));
    let hosts = ["a:5", "b"].map(|host| ServerAddress::parse(host).expect(host));
    let expected = ClientOptions::builder()
        .hosts(hosts)
        .app_name("shop".to_owned())
        .compressors(vec![Compressor::Zlib])
        .credential(credential.build())
        .driver_info(DriverInfo::new("wrapper"))
        .heartbeat_freq(Duration::from_secs(5))
        .load_balanced(false)
        .read_concern(ReadConcern::majority())
        .selection_criteria(SelectionCriteria::from(ReadPreference::secondary(None)))
        .server_api(api)
        .server_monitoring_mode(ServerMonitoringMode::Poll)
        .socks5_proxy(proxy.build())
        .tls(tls.build())
        .write_concern(WriteConcern::majority())
        .build();
    assert_eq!(options.expect("options"), expected);
    let error = read(serde_json::json!({ "appname": "shop" })).expect_err("unknown");
    assert!(error.to_string().contains("appname"), "{error}");
}
