//! Tests of whole connection strings. The official tests run in the crate `onionskin-tests`.

mod connection_string;
mod rules;

use super::*;
use crate::{
    address::Address,
    options::{Acknowledgment, ReadMode, ServerMonitoringMode},
};
use proptest::prelude::*;
use std::{path::Path, time::Duration};

/// Returns the options of a string without options.
fn of_localhost() -> ClientOptions {
    let host = Address::tcp("localhost", 27017).into();
    ClientOptions::builder().hosts([host]).build()
}

fn fails(text: &str) -> (UriPart, String) {
    match parse(text).expect_err(text).kind() {
        ErrorKind::InvalidArgument {
            argument: Argument::Uri(part),
            message,
        } => (*part, message.clone()),
        other => panic!("{text}: {other}"),
    }
}

fn warns(text: &str) -> Vec<String> {
    let parsed = parse(text).expect(text);
    parsed.warnings.iter().map(ToString::to_string).collect()
}

#[test]
fn a_parse_error_names_the_invalid_part_of_the_connection_string() {
    use UriPart::{Database, Host, Options, Scheme, UserInfo};
    for (text, part) in [
        ("", Scheme),
        ("mongo://a", Scheme),
        ("MONGODB://a", Scheme),
        ("mongodb://", Host),
        ("mongodb://a,", Host),
        ("mongodb://a,,b", Host),
        ("mongodb://a:", Host),
        ("mongodb://[a]", Host),
        ("mongodb://a%", Host),
        ("mongodb://a%20b", Host),
        ("mongodb://a%3A5", Host),
        ("mongodb://%5B::1%5D", Host),
        ("mongodb://[::1%5D", Host),
        ("mongodb://a]", Host),
        ("mongodb://%5B%3A%3A1%5D", Host),
        ("mongodb://%2Ftmp%2Fa.sock:5", Host),
        ("mongodb://%2Ftmp%2Fa:b.sock", Host),
        ("mongodb+srv://", Host),
        ("mongodb+srv://a.b.c:1", Host),
        ("mongodb+srv://a.b.c,d.e.f", Host),
        ("mongodb+srv://[::1]", Host),
        ("mongodb://u%zz@a", UserInfo),
        ("mongodb://u%ff@a", UserInfo),
        ("mongodb://u:p#q@a", UserInfo),
        ("mongodb://u v@a", UserInfo),
        ("mongodb://@a", UserInfo),
        ("mongodb://:p@a", UserInfo),
        ("mongodb://a/b%2Fc", Database),
        ("mongodb://a/b%20c", Database),
        ("mongodb://a/b$c", Database),
        ("mongodb://a/%5C", Database),
        ("mongodb://a/%22", Database),
        ("mongodb://a/b%", Database),
        ("mongodb://a/?w", Options),
        ("mongodb://a/?=1", Options),
        ("mongodb://a/?w=-1", Options),
        ("mongodb://a/?w=99999999999999999999", Options),
        ("mongodb://a/?w=-99999999999999999999", Options),
        ("mongodb://a/?w=0&journal=true", Options),
        ("mongodb://a/?authSource=", Options),
        ("mongodb://a/?authMechanism=MONGODB-CR", Options),
        ("mongodb://a/?minPoolSize=101", Options),
        ("mongodb://a/?readPreferenceTags=dc:ny", Options),
        ("mongodb://a/?maxStalenessSeconds=120", Options),
        (
            "mongodb://a/?readPreference=primary&maxStalenessSeconds=120",
            Options,
        ),
        ("mongodb://a/?tls=true&tls=false", Options),
        ("mongodb+srv://a.b.c/?directConnection=true", Options),
        (
            "mongodb://u@a/?authMechanism=MONGODB-OIDC&authMechanismProperties=ALLOWED_HOSTS:a",
            Options,
        ),
    ] {
        let (found, message) = fails(text);
        assert_eq!(found, part, "{text}: {message}");
    }
}

#[test]
fn errors_and_warnings_do_not_quote_secrets() {
    // In most of these strings an unencoded special character splits a password, and its second
    // half becomes part of the hosts, the database or the options. No error may quote a secret.
    for text in [
        "mongodb://u:pencil:pencil@a",
        "mongodb://u:pen@pencil@a",
        "mongodb://u:pencil#@a",
        "mongodb://u:pencil/@a/db",
        "mongodb://u:1/pencil@a",
        "mongodb://u:1/pencil/@a",
        "mongodb://u:pencil?x@a",
        "mongodb://u:1?pencil@a/db",
        "mongodb://u:pencil%@a",
        "mongodb://u:pencil@a/?authMechanism=MONGODB-X509",
        "mongodb://u:pencil@a/?authMechanism=pencil",
        "mongodb://a/?tlsCertificateKeyFilePassword=pen&pencil",
        "mongodb://a/?proxyPassword=pencil",
        "mongodb://a/?proxyPassword=pencil&proxyPassword=pencil",
        "mongodb://a/?authMechanism=MONGODB-AWS&authMechanismProperties=AWS_SESSION_TOKEN:pencil",
    ] {
        let error = parse(text).expect_err(text);
        assert!(
            !format!("{error} {error:?}").contains("pencil"),
            "{text}: {error}"
        );
    }
    let parsed = parse(
        "mongodb://u:pencil@a/?proxyHost=p&proxyUsername=n&proxyPassword=pencil\
         &tlsCertificateKeyFilePassword=pencil&maxPoolSize=pencil&authMechanism=GSSAPI\
         &authMechanismProperties=SERVICE_NAME:pencil",
    )
    .expect("it is valid");
    let shown = format!("{parsed:?} {}", parsed.warnings[0]);
    assert!(!shown.contains("pencil"), "{shown}");
}

#[test]
fn every_option_is_parsed_with_its_unit() {
    let text = "mongodb://a/?appName=n&connectTimeoutMS=1&heartbeatFrequencyMS=500\
        &localThresholdMS=2&maxConnecting=3&maxIdleTimeMS=4&maxPoolSize=5&minPoolSize=1\
        &serverMonitoringMode=poll&serverSelectionTimeoutMS=6&socketTimeoutMS=7&timeoutMS=8\
        &waitQueueTimeoutMS=9&zlibCompressionLevel=-1&compressors=zstd,zlib&retryReads=false\
        &retryWrites=false&w=2&wTimeoutMS=10&journal=true&readConcernLevel=majority\
        &readPreference=nearest&maxStalenessSeconds=90&maxAdaptiveRetries=0\
        &enableOverloadRetargeting=true&replicaSet=rs&tls=true&tlsCAFile=ca&tlsInsecure=true";
    let parsed = parse(text).expect("it is valid");
    assert_eq!(parsed.warnings, []);
    let o = &parsed.options;
    let ms = Duration::from_millis;
    assert_eq!(o.app_name.as_deref(), Some("n"));
    assert_eq!(
        (
            o.connect_timeout(),
            o.socket_timeout(),
            o.timeout,
            o.wait_queue_timeout()
        ),
        (Some(ms(1)), Some(ms(7)), Some(ms(8)), Some(ms(9)))
    );
    assert_eq!(
        (
            o.heartbeat_freq(),
            o.local_threshold(),
            o.server_selection_timeout()
        ),
        (ms(500), ms(2), ms(6))
    );
    assert_eq!(
        (
            o.max_pool_size(),
            o.min_pool_size(),
            o.max_connecting(),
            o.max_idle_time()
        ),
        (5, 1, 3, Some(ms(4)))
    );
    assert_eq!(o.server_monitoring_mode(), ServerMonitoringMode::Poll);
    let names: Vec<_> = o.compressors().iter().map(|c| c.name()).collect();
    assert_eq!(names, ["zstd", "zlib"]);
    assert!(!o.retry_reads() && !o.retry_writes() && o.enable_overload_retargeting());
    assert_eq!(o.max_adaptive_retries(), 0);
    let concern = o.write_concern.as_ref().expect("it is chosen");
    assert_eq!(
        (&concern.w, concern.journal, concern.w_timeout),
        (&Some(Acknowledgment::Nodes(2)), Some(true), Some(ms(10)))
    );
    let level = o.read_concern.as_ref().map(|c| c.level.as_str());
    assert_eq!(level, Some("majority"));
    let preference = o.read_preference();
    assert_eq!(preference.mode(), ReadMode::Nearest);
    assert_eq!(preference.max_staleness(), Some(Duration::from_secs(90)));
    assert_eq!(o.repl_set_name.as_deref(), Some("rs"));
    let tls = o.tls().expect("it is on");
    assert_eq!(tls.insecure, Some(true));
    assert_eq!(tls.ca_file_path.as_deref(), Some(Path::new("ca")));
}

#[test]
fn zero_disables_optional_limits() {
    let parsed = parse(
        "mongodb://a/?connectTimeoutMS=0&socketTimeoutMS=0&waitQueueTimeoutMS=0&maxIdleTimeMS=0\
         &maxPoolSize=0&minPoolSize=500&timeoutMS=0",
    )
    .expect("it is valid");
    let o = &parsed.options;
    assert_eq!((o.connect_timeout(), o.socket_timeout()), (None, None));
    assert_eq!((o.wait_queue_timeout(), o.max_idle_time()), (None, None));
    assert_eq!((o.max_pool_size(), o.min_pool_size()), (0, 500));
    assert_eq!(
        o.timeout,
        // `connectTimeoutMS=0` above means no limit (CMAP-155). `timeoutMS=0` stays a value.
        Some(Duration::ZERO),
        "it still switches the older limits off"
    );
}

#[test]
fn invalid_and_unknown_options_are_ignored_with_a_warning() {
    // Each option is ignored with a warning: its value is invalid (CS-32), or the option is unknown
    // (CS-23).
    for option in [
        "maxPoolSize=",
        "maxPoolSize=-1",
        "maxPoolSize=2147483648",
        "maxPoolSize=1.5",
        // Invalid pool options are ignored with a warning (CMAP-8 to CMAP-12, CMAP-15).
        "minPoolSize=-1",
        "minPoolSize=few",
        "maxIdleTimeMS=-1",
        "maxIdleTimeMS=long",
        "maxConnecting=0",
        "maxConnecting=-1",
        "maxConnecting=few",
        "waitQueueTimeoutMS=-1",
        "waitQueueTimeoutMS=long",
        // The driver has no `waitQueueSize` and no `waitQueueMultiple` (CMAP-14).
        "waitQueueSize=5",
        "waitQueueMultiple=5",
        "heartbeatFrequencyMS=499",
        "serverSelectionTimeoutMS=0",
        "zlibCompressionLevel=10",
        "compressors=lzma",
        "readPreference=Primary",
        "proxyPort=0",
        "replicaSet=",
        "w=",
        "w=%",
        "appName=%ff",
        "serverMonitoringMode=AUTO",
        "unknown=1",
        "readPreferenceTags=a",
        "authMechanismProperties=a",
    ] {
        let text = format!("mongodb://localhost/?{option}");
        let parsed = parse(&text).expect(&text);
        assert_eq!(parsed.warnings.len(), 1, "{text}");
        assert_eq!(parsed.options, of_localhost(), "{text}");
    }
}

#[test]
fn unused_credential_options_cause_warnings() {
    // These options alone do not require authentication (AUTH-5 to AUTH-7). The user may expect
    // that they do, so that each has a warning.
    let idle = |option: &str| {
        format!(
            "option {option} has no effect: there is neither a user name nor a mechanism, so \
             connections do not authenticate"
        )
    };
    let renamed = "option gssapiServiceName is now called authMechanismProperties; use that alone";
    for (options, expected) in [
        ("authSource=app", vec![idle("authSource")]),
        (
            "authMechanismProperties=SERVICE_NAME:m",
            vec![idle("authMechanismProperties")],
        ),
        (
            "gssapiServiceName=m",
            vec![renamed.to_owned(), idle("authMechanismProperties")],
        ),
    ] {
        let text = format!("mongodb://localhost/?{options}");
        assert_eq!(warns(&text), expected);
        assert_eq!(parse(&text).expect(&text).options, of_localhost());
    }
    assert!(warns("mongodb://u:p@localhost/?authSource=app").is_empty());
}

#[test]
fn a_long_app_name_is_ignored() {
    let name = "ü".repeat(64);
    assert!(warns(&format!("mongodb://a/?appName={name}")).is_empty());
    assert_eq!(warns(&format!("mongodb://a/?appName={name}n")).len(), 1);
}

#[test]
fn load_balanced_accepts_only_booleans() {
    // `true` and `false` are the values of this option (LB-1). A value that is not a boolean is
    // ignored with a warning (LB-10).
    let parsed = |value: &str| parse(&format!("mongodb://lb/?loadBalanced={value}"));
    assert!(!parse("mongodb://lb").expect("fine").options.load_balanced());
    for (value, expected) in [("true", true), ("false", false)] {
        let parsed = parsed(value).expect("fine");
        assert_eq!(parsed.options.load_balanced(), expected);
        assert!(parsed.warnings.is_empty());
    }
    // An ignored value conflicts with nothing, so that two hosts are valid. Older spellings of
    // booleans, such as `1`, count with a warning (CS-28).
    for (value, hosts, expected) in [
        ("maybe", "a,b", false),
        ("2", "a,b", false),
        ("1", "a", true),
    ] {
        let text = format!("mongodb://{hosts}/?loadBalanced={value}");
        let parsed = parse(&text).expect("it is warned of");
        assert_eq!(parsed.options.load_balanced(), expected, "{value}");
        assert_eq!(parsed.warnings.len(), 1, "{value}");
    }
}

#[test]
fn warnings_name_the_option_and_its_replacement() {
    assert_eq!(
        warns("mongodb://a/?tls=yes"),
        ["option tls is deprecated in this spelling; write tls=true"]
    );
    assert_eq!(
        warns("mongodb://a/?wtimeout=5"),
        ["option wTimeout is now called wTimeoutMS; use that alone"]
    );
    assert_eq!(
        warns("mongodb://a/?fsync=1"),
        ["option \"fsync\" is not known and was ignored"]
    );
    assert_eq!(
        warns("mongodb://a/?replicaSet=x&REPLICASET=y"),
        ["option replicaSet is given several times; the last one counts"]
    );
}

#[test]
fn a_deprecated_option_name_is_ignored_next_to_the_new_name() {
    // The old name works (CS-34), but not beside the new one (CS-35).
    let timeout = |text| {
        let parsed = parse(text).expect(text);
        parsed
            .options
            .write_concern
            .as_ref()
            .and_then(|c| c.w_timeout)
    };
    assert_eq!(
        timeout("mongodb://a/?wtimeout=5"),
        Some(Duration::from_millis(5))
    );
    for text in [
        "mongodb://a/?wtimeout=5&wtimeoutMS=10",
        "mongodb://a/?wtimeoutMS=10&wtimeout=5",
    ] {
        assert_eq!(timeout(text), Some(Duration::from_millis(10)), "{text}");
    }
}

#[test]
fn tag_sets_are_parsed_in_order_and_may_be_empty() {
    // Tag sets keep the order of their occurrences (CS-29), and an empty value is the empty tag set
    // (CS trap 6).
    let parsed = parse(
        "mongodb://a/?readPreference=secondary&readPreferenceTags=dc:ny,rack:1:2\
         &readPreferenceTags=bad&readPreferenceTags=",
    )
    .expect("it is valid");
    let sets = parsed.options.read_preference().tag_sets();
    assert_eq!(sets.len(), 2);
    assert_eq!(sets[0].get("rack").map(String::as_str), Some("1:2"));
    assert!(sets[1].is_empty());
    assert_eq!(parsed.warnings.len(), 1);
}

#[test]
fn tls_is_enabled_only_by_the_scheme_or_the_tls_option() {
    // `mongodb+srv` switches TLS on (DNS-13), `tls=false` or `ssl=false` off (DNS-14), and other
    // TLS options do neither (URI-20).
    for (text, on) in [
        ("mongodb://a", false),
        ("mongodb://a/?tlsCAFile=x", false),
        ("mongodb://a/?ssl=true", true),
        ("mongodb+srv://a.b.c", true),
        ("mongodb+srv://a.b.c/?tls=false", false),
        ("mongodb+srv://a.b.c/?ssl=false", false),
    ] {
        assert_eq!(
            parse(text).expect(text).options.tls().is_some(),
            on,
            "{text}"
        );
    }
}

#[test]
fn a_removed_mechanism_is_refused_by_name() {
    // MONGODB-CR no longer exists in servers (AUTH-51, AUTH-67, AUTH-132).
    let error = parse("mongodb://u:p@a/?authMechanism=MONGODB-CR").expect_err("removed");
    assert!(
        error.to_string().contains("MONGODB-CR was removed"),
        "{error}"
    );
}

#[test]
fn malformed_mechanism_properties_make_the_credential_invalid() {
    // A property with a comma cannot be parsed (CS-31). The parser drops all properties with a
    // warning, so that the credential is incomplete and the creation of a client fails.
    let text = "mongodb://a?authMechanism=MONGODB-OIDC&authMechanismProperties=\
                TOKEN_RESOURCE:x%2Cy,ENVIRONMENT:azure";
    let parsed = parse(text).expect("it is valid");
    assert_eq!(parsed.warnings.len(), 1);
    assert!(parsed.options.validate().is_err());
}

#[test]
fn a_user_name_without_password_is_parsed_but_fails_validation() {
    // A user name may stand without a password in a string (AUTH-136), but SCRAM needs one. An
    // empty password is a password (CS-7).
    let parsed = parse("mongodb://alice@a").expect("it is valid");
    assert!(parsed.options.validate().is_err());
    let parsed = parse("mongodb://alice:@a").expect("it is valid");
    assert!(parsed.options.validate().is_ok());
}

#[test]
fn an_at_sign_in_the_options_does_not_delimit_userinfo() {
    let parsed = parse("mongodb://a?appName=x@y/z?").expect("it is valid");
    assert_eq!(parsed.options.app_name.as_deref(), Some("x@y/z?"));
    assert!(parsed.options.credential.as_ref().is_none());
}

/// Percent-encodes every byte that is not a letter or digit.
fn encode(text: &str) -> String {
    let byte = |b: u8| match b {
        b if b.is_ascii_alphanumeric() => char::from(b).to_string(),
        b => format!("%{b:02X}"),
    };
    text.bytes().map(byte).collect()
}

proptest! {
    #[test]
    fn no_text_makes_the_parser_panic(text in any::<String>()) {
        let _ = parse(&text);
        let _ = parse(&format!("mongodb://{text}"));
        let _ = parse(&format!("mongodb+srv://a.b.c/?{text}"));
    }

    #[test]
    fn no_mix_of_delimiters_makes_the_parser_panic(
        text in "[a-c1%:@/?&=,;.\\[\\]+$]{0,40}",
        key in "(?i)(w|tls|authSource|authMechanismProperties|readPreferenceTags|timeoutMS)",
    ) {
        let _ = parse(&format!("mongodb://{text}"));
        let _ = parse(&format!("mongodb://a/?{key}={text}"));
    }

    #[test]
    fn percent_encoded_parts_are_decoded(
        username in "\\PC{1,12}",
        password in proptest::option::of(any::<String>()),
        database in "[^/\\\\ \"$\\x00]{1,12}",
        app_name in "\\PC{0,20}",
        port in 1..=u16::MAX,
    ) {
        let secret = password.as_deref().map(|p| format!(":{}", encode(p))).unwrap_or_default();
        let text = format!(
            "mongodb://{}{secret}@Host:{port},[::1],%2Ftmp%2FX.sock/{}?appName={}",
            encode(&username), encode(&database), encode(&app_name),
        );
        let parsed = parse(&text).expect("each part is valid");
        let credential = parsed.options.credential.as_ref().expect("there is one");
        prop_assert_eq!(credential.username.as_ref(), Some(&username));
        prop_assert_eq!(credential.password.as_ref().map(|p| p.expose()), password.as_deref());
        prop_assert_eq!(credential.source(), &database);
        prop_assert_eq!(parsed.options.default_database.as_deref(), Some(database.as_str()));
        prop_assert_eq!(parsed.options.app_name.as_deref(), Some(app_name.as_str()));
        prop_assert_eq!(parsed.options.hosts(), [
            Address::tcp("host", port),
            Address::tcp("::1", 27017),
            Address::unix("/tmp/X.sock"),
        ]);
    }

    #[test]
    fn a_number_is_parsed_exactly_or_ignored_with_a_warning(number in any::<i64>()) {
        let parsed = parse(&format!("mongodb://a/?maxPoolSize={number}")).expect("it is valid");
        match u32::try_from(number) {
            Ok(n) if n <= i32::MAX as u32 => prop_assert_eq!(parsed.options.max_pool_size(), n),
            _ => prop_assert_eq!(parsed.warnings.len(), 1),
        }
    }
}
