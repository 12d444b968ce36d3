//! Rules of connection strings that the official files do not test, or test only in part.

use super::*;
use crate::{
    options::{OidcCallback, OidcFlow, OidcTokens, TlsOptions},
    uri::table::{GROUPS, Kind},
};

#[test]
fn userinfo_that_is_not_encoded_is_refused_with_the_remedy() {
    // CS-4: an `@` or a second `:`, or a `%` without two hexadecimal digits.
    for userinfo in [
        "me:p@pencil",
        "m@e:pencil",
        "me:pencil:x",
        "me:pencil%",
        "m%zz:pencil",
    ] {
        let (part, message) = fails(&format!("mongodb://{userinfo}@a/"));
        assert_eq!(part, UriPart::UserInfo, "{userinfo}");
        assert!(message.contains("URL encoded"), "{userinfo}: {message}");
        assert!(!message.contains("pencil"), "{message}");
    }
}

#[test]
fn userinfo_and_values_are_percent_decoded() {
    // CS-6, CS-24.
    let parsed = parse("mongodb://m%40e:p%2Fw%3A%25@a/?appName=a%20b%26c").expect("it is valid");
    let credential = parsed.options.credential.as_ref().expect("it has one");
    assert_eq!(credential.username.as_deref(), Some("m@e"));
    let password = credential.password.as_ref().map(|secret| secret.expose());
    assert_eq!(password, Some("p/w:%"));
    assert_eq!(parsed.options.app_name.as_deref(), Some("a b&c"));
}

#[test]
fn a_host_of_an_unsupported_form_is_refused() {
    // CS-10: an address of a future version of IP. CS-12: a path that is not encoded.
    for text in [
        "mongodb://[v1.x]/",
        "mongodb://[::1/",
        "mongodb://[db]/",
        "mongodb://[fe80::1%25]/",
    ] {
        let (part, message) = fails(text);
        assert_eq!(part, UriPart::Host, "{text}: {message}");
    }
    let (_, message) = fails("mongodb:///tmp/mongodb-27017.sock/");
    assert!(message.contains("%2F"), "{message}");
}

#[test]
fn the_slash_before_the_options_may_be_left_out() {
    // CS-15.
    for text in ["mongodb://a/?w=1", "mongodb://a?w=1"] {
        let parsed = parse(text).expect(text);
        assert_eq!(parsed.options.hosts(), [Address::tcp("a", 27017)]);
        assert_eq!(parsed.option("w"), Some(&OptionValue::Int(1)));
        assert_eq!(parsed.options.default_database.as_deref(), None);
    }
}

#[test]
fn an_empty_string_is_a_value() {
    // CS-25.
    let parsed = parse("mongodb://a/?appName=").expect("it is valid");
    assert_eq!(
        parsed.option("appName"),
        Some(&OptionValue::Text(String::new()))
    );
}

#[test]
fn option_names_are_camel_case_and_times_end_in_their_unit() {
    // CS-36.
    for spec in GROUPS.into_iter().flatten() {
        let name = spec.name;
        assert!(name.starts_with(|c: char| c.is_ascii_lowercase()), "{name}");
        assert!(name.chars().all(|c| c.is_ascii_alphanumeric()), "{name}");
        if matches!(spec.kind, Kind::Millis(..)) && spec.renamed.is_none() {
            assert!(name.ends_with("MS"), "{name}");
        }
    }
}

#[test]
fn tls_options_that_exclude_each_other_are_refused() {
    // URI-5, URI-6, URI-7, URI-8, URI-9, URI-10, URI-11: also with the value false. OCSP-15,
    // OCSP-19, OCSP-22: the names of the options. OCSP-25, OCSP-28: their conflicts.
    let (insecure, invalid) = ("tlsInsecure", "tlsAllowInvalidCertificates");
    let (ocsp, revocation) = (
        "tlsDisableOCSPEndpointCheck",
        "tlsDisableCertificateRevocationCheck",
    );
    for (one, other) in [
        (insecure, invalid),
        (insecure, "tlsAllowInvalidHostnames"),
        (insecure, ocsp),
        (insecure, revocation),
        (invalid, ocsp),
        (invalid, revocation),
        (ocsp, revocation),
    ] {
        for values in ["true", "false"] {
            let text = format!("mongodb://a/?tls=true&{one}={values}&{other}={values}");
            let (part, message) = fails(&text);
            assert_eq!(part, UriPart::Options);
            assert!(
                message.contains(one) && message.contains(other),
                "{message}"
            );
        }
        parse(&format!("mongodb://a/?tls=true&{one}=true")).expect("one alone is allowed");
    }
}

#[test]
fn proxy_options_need_a_host_and_occur_once() {
    // SOCKS-4, SOCKS-10, and user name and password need each other (SOCKS-6, SOCKS-8, URI-18,
    // URI-19). An empty host would silently connect without the proxy.
    for options in [
        "proxyPort=1080",
        "proxyHost=",
        "proxyHost=&proxyUsername=b&proxyPassword=c",
        "proxyHost=a&proxyUsername=b",
        "proxyHost=a&proxyPassword=c",
        "proxyHost=a&proxyUsername=b&proxyPassword=",
        "proxyHost=a&proxyUsername=&proxyPassword=c",
        "proxyUsername=b&proxyPassword=c",
        "proxyHost=a&proxyHost=a",
        "proxyHost=a&proxyPort=1080&proxyPort=1080",
        "proxyHost=a&proxyUsername=b&proxyUsername=b&proxyPassword=c",
        "proxyHost=a&proxyUsername=b&proxyPassword=c&proxyPassword=c",
    ] {
        let text = format!("mongodb://localhost/?{options}");
        assert!(parse(&text).is_err(), "{text}");
    }
    // Empty ones are as if absent (SOCKS-5, SOCKS-7).
    let text = "mongodb://localhost/?proxyHost=a&proxyUsername=&proxyPassword=";
    let parsed = parse(text).expect("a proxy without credentials");
    let proxy = parsed.options.socks5_proxy.as_ref().expect("a proxy");
    assert_eq!((proxy.host(), proxy.credentials()), ("a", None));
}

#[test]
fn options_of_seed_lists_need_mongodb_srv() {
    // DNS-8, DNS-9, DNS-44, SRV-30.
    for option in [
        "srvServiceName=other",
        "srvMaxHosts=2",
        "srvAllowedHostsSuffix=.example.net",
    ] {
        let (part, _) = fails(&format!("mongodb://a/?{option}"));
        assert_eq!(part, UriPart::Options, "{option}");
        let parsed = parse(&format!("mongodb+srv://c.example.net/?{option}")).expect(option);
        assert!(parsed.warnings.is_empty(), "{option}");
    }
    for conflict in ["replicaSet=rs", "loadBalanced=true"] {
        fails(&format!(
            "mongodb+srv://c.example.net/?srvMaxHosts=1&{conflict}"
        ));
        parse(&format!(
            "mongodb+srv://c.example.net/?srvMaxHosts=0&{conflict}"
        ))
        .expect("no limit");
    }
    let negative = parse("mongodb+srv://c.example.net/?srvMaxHosts=-1").expect("it is ignored");
    assert_eq!(
        (negative.options.srv_max_hosts(), negative.warnings.len()),
        (0, 1)
    );
}

#[test]
fn an_allowed_suffix_has_two_labels_or_is_private() {
    // DNS-43.
    let text = |suffix| format!("mongodb+srv://c.example.net/?srvAllowedHostsSuffix={suffix}");
    for suffix in [
        ".example.net",
        "EXAMPLE.net.",
        "my_domain.net",
        "localhost",
        ".Internal",
    ] {
        let parsed = parse(&text(suffix)).expect(suffix);
        assert!(parsed.warnings.is_empty(), "{suffix}");
    }
    for suffix in [
        "a.b&srvAllowedHostsSuffix=a.b",
        "",
        ".",
        "..",
        "net",
        ".NET.",
        "a..net",
        "a%20b.net",
        "%C3%BC.net",
        "a/b.net",
        "[::1].net",
    ] {
        let (part, message) = fails(&text(suffix));
        assert_eq!(part, UriPart::Options, "{suffix}");
        assert!(message.contains("srvAllowedHostsSuffix"), "{message}");
    }
}

#[test]
fn the_name_of_a_service_has_up_to_62_characters() {
    // SRV-29: with the underscore the label has 63.
    let parsed = |length| {
        let name = "a".repeat(length);
        parse(&format!(
            "mongodb+srv://c.example.net/?srvServiceName={name}"
        ))
    };
    let longest = parsed(62).expect("it is valid");
    assert_eq!(longest.options.srv_service_name().len(), 62);
    assert!(parsed(63).map_or(true, |parsed| !parsed.warnings.is_empty()));
}

#[test]
fn a_host_of_one_or_two_labels_is_accepted_before_the_query() {
    // DNS-5.
    for host in ["localhost", "example.net"] {
        let parsed = parse(&format!("mongodb+srv://{host}/")).expect(host);
        assert_eq!(parsed.options.srv_host.as_deref(), Some(host));
    }
}

#[test]
fn the_zone_of_an_ipv6_address_keeps_its_letter_case() {
    let parsed = parse("mongodb://[FE80::1%25enP2p1s0]/").expect("it is valid");
    assert_eq!(parsed.options.hosts()[0].host(), "fe80::1%enP2p1s0");
}

#[test]
fn an_option_of_protection_that_cannot_be_read_is_an_error() {
    // If it were ignored, connections would not be encrypted, would trust other authorities, or
    // would bypass the proxy. CS-32 would only warn.
    let spellings = [
        "True",
        "TRUE",
        "on",
        "",
        "2",
        "tru",
        "true,",
        "enabled",
        "yes please",
        "%20true",
        "%zz",
    ];
    for name in ["tls", "ssl", "TLS"] {
        for value in spellings {
            for text in [
                format!("mongodb://u:p@a/?authMechanism=PLAIN&{name}={value}"),
                format!("mongodb://u:p@a/?tls=true&{name}={value}"),
                format!("mongodb+srv://u:p@a.b.c/?{name}={value}"),
            ] {
                let (part, message) = fails(&text);
                assert_eq!(part, UriPart::Options, "{text}");
                assert!(
                    message.contains("tls: ") || message.contains("ssl: "),
                    "{message}"
                );
            }
        }
    }
    for option in ["tlsCAFile=%zz", "tlsCRLFile=%f", "proxyHost=%ff"] {
        let (part, _) = fails(&format!("mongodb://a/?tls=true&{option}"));
        assert_eq!(part, UriPart::Options, "{option}");
    }
}

#[test]
fn plain_and_oidc_warn_unless_tls_proves_the_server() {
    let oidc = "authMechanism=MONGODB-OIDC&authMechanismProperties=ENVIRONMENT:k8s";
    for (mechanism, tls, expected) in [
        ("u:p@a/?authMechanism=PLAIN", "", Some("add tls=true")),
        ("u:p@a/?authMechanism=PLAIN", "&tls=true", None),
        (
            "u:p@a/?authMechanism=PLAIN",
            "&tls=true&tlsInsecure=true",
            Some("to any server"),
        ),
        (
            "u:p@a/?authMechanism=PLAIN",
            "&tlsInsecure=true",
            Some("add tls=true"),
        ),
        (
            "u:p@a/?authMechanism=SCRAM-SHA-256",
            "&tls=true&tlsInsecure=true",
            None,
        ),
        (
            &format!("a/?{oidc}"),
            "&tls=true&tlsAllowInvalidHostnames=true",
            Some("to any server"),
        ),
        (
            &format!("a/?{oidc}"),
            "&ssl=true&tlsAllowInvalidCertificates=true",
            Some("to any"),
        ),
    ] {
        let parsed = parse(&format!("mongodb://{mechanism}{tls}")).expect(mechanism);
        let warnings = unsafe_options(&parsed.options);
        let texts: Vec<_> = warnings.iter().map(ToString::to_string).collect();
        assert_eq!(
            texts.len(),
            usize::from(expected.is_some()),
            "{mechanism}{tls} {texts:?}"
        );
        if let Some(expected) = expected {
            assert!(texts[0].contains(expected), "{texts:?}");
        }
    }
}

#[test]
fn warnings_suggest_the_nearest_name_and_strict_options_refuse_them() {
    for (option, suggestion) in [
        ("retryWrite=true", Some("retryWrites")),
        ("readPreference=secondry", Some("secondary")),
        ("serverMonitoringMode=polll", Some("poll")),
        ("compressors=zlob", Some("zlib")),
        ("maxPoolSize=abc", None),
        ("maxPoolSize=1&maxPoolSize=2", None),
        ("authSource=x", None),
    ] {
        let mut options = ClientOptions::parse(format!("mongodb://a/?{option}"))
            .run()
            .expect(option);
        let warning = options.warnings()[0].to_string();
        let suffix = suggestion.map(|name| format!("did you mean {name}?"));
        assert_eq!(
            warning.contains("did you mean"),
            suffix.is_some(),
            "{warning}"
        );
        assert!(
            suffix.is_none_or(|suffix| warning.ends_with(&suffix)),
            "{warning}"
        );
        options.validate().expect("the specification only warns");
        options.strict = true;
        let error = options.validate().expect_err(option).to_string();
        let (name, _) = option.split_once('=').expect("a value");
        assert!(error.contains(name), "{error}");
        assert!(suggestion.is_none_or(|s| error.contains(s)), "{error}");
        assert!(!error.contains("ignored"), "no client is created: {error}");
    }
    for option in ["wTimeout=5", "tls=yes", "maxPoolSize=7"] {
        let mut options = ClientOptions::parse(format!("mongodb://a/?{option}"))
            .run()
            .expect(option);
        options.strict = true;
        options.validate().expect("the option has its effect");
    }
    let hidden = "mongodb://a/?authMechanismProperties=SERVICE_NAME:a&tsl=secret";
    let parsed = parse(hidden).expect("it is warned of");
    assert!(
        !format!("{:?}", parsed.warnings).contains("tls"),
        "a redacted key has no suggestion"
    );
}

#[test]
fn tls_options_without_tls_cause_a_warning_when_a_client_is_created() {
    // Parsing does not warn, as the official tests require (URI-20).
    for (option, name) in [
        ("tlsCAFile=ca.pem", "tlsCAFile"),
        ("tlsInsecure=true", "tlsInsecure"),
        ("tls=false&tlsCRLFile=crl.pem", "tlsCRLFile"),
    ] {
        let mut options = ClientOptions::parse(format!("mongodb://a/?{option}"))
            .run()
            .expect(option);
        assert!(options.warnings().is_empty(), "{option}");
        let texts = |options: &ClientOptions| -> Vec<String> {
            let found = ineffective_options(options);
            found.iter().map(ToString::to_string).collect()
        };
        let found = texts(&options);
        assert!(
            found[0].contains(name) && found[0].contains("add tls=true"),
            "{found:?}"
        );
        // Options of TLS that are set in code replace those of the string.
        options.tls = Some(TlsOptions::default().into());
        let found = texts(&options);
        assert!(
            found[0].contains(name) && found[0].contains("replace"),
            "{found:?}"
        );
    }
}

#[test]
fn a_client_that_scans_has_try_once_also_if_its_options_were_parsed_for_another_one() {
    let text = "mongodb://a/?serverSelectionTryOnce=false&tsl=true";
    let mut options: ClientOptions = text.parse().expect(text);
    assert_eq!(options.server_selection_try_once, None);
    assert_eq!(options.warnings().len(), 2);
    let mut chosen = options.clone();
    chosen.server_selection_try_once = Some(true);
    for (options, expected) in [(&mut options, false), (&mut chosen, true)] {
        options.scan_on_demand();
        assert_eq!(options.server_selection_try_once, Some(expected));
        let warnings: Vec<_> = options.warnings().iter().map(Warning::to_string).collect();
        assert!(
            warnings.len() == 1 && warnings[0].contains("tsl"),
            "{warnings:?}"
        );
    }
    for text in ["mongodb://a/?serverSelectionTryOnce=maybe", "mongodb://a/"] {
        let mut options: ClientOptions = text.parse().expect(text);
        let warnings = options.warnings().to_vec();
        options.scan_on_demand();
        assert_eq!(options.server_selection_try_once, None);
        assert_eq!(options.warnings(), warnings);
    }
}

#[test]
fn a_staleness_of_zero_is_kept_for_selection_to_refuse() {
    // STALE-3 and STALE-5: only selection knows the smallest value.
    let parsed = parse("mongodb://a/?readPreference=nearest&maxStalenessSeconds=0").expect("valid");
    assert!(parsed.warnings.is_empty());
    let staleness = parsed.options.read_preference().max_staleness();
    assert_eq!(staleness, Some(Duration::ZERO));
}

/// A connection string names no callback, so the program sets it after parsing (AUTH-104).
#[test]
fn options_of_a_program_may_get_their_source_of_tokens_later() {
    let text = "mongodb://a/?authMechanism=MONGODB-OIDC";
    let mut options = ClientOptions::parse(text).run().expect("options");
    let error = options
        .validate()
        .expect_err("no source of tokens")
        .to_string();
    assert!(error.contains("needs ENVIRONMENT"), "{error}");
    let credential = options.credential.as_mut().expect("a credential");
    credential.oidc_callback =
        OidcCallback::blocking(OidcFlow::Machine, |_| Ok(OidcTokens::new("t")));
    assert_eq!(options.validate(), Ok(()));
    let resource = format!("{text}&authMechanismProperties=TOKEN_RESOURCE:r");
    assert!(ClientOptions::parse(&resource).run().is_err());
}
