//! Tests of connection strings as data: inspection, changes, printing.

use super::encode;
use crate::{
    address::Address,
    error::{Argument, ErrorKind, UriPart},
    uri::{self, ConnectionString, Scheme},
};
use proptest::{prelude::*, sample::select};

fn string(text: &str) -> ConnectionString {
    ConnectionString::parse(text).expect(text)
}

fn part_of(result: Result<&mut ConnectionString, crate::error::Error>) -> UriPart {
    match result.expect_err("it is refused").kind() {
        ErrorKind::InvalidArgument {
            argument: Argument::Uri(part),
            ..
        } => *part,
        other => panic!("{other}"),
    }
}

/// Checks that the printed string is parsed as the same connection string.
fn assert_round_trip(string: &ConnectionString) {
    let printed = string.to_secret();
    let again = ConnectionString::parse(printed.expose()).expect("a printed string is valid");
    assert!(&again == string, "{string}");
    assert_eq!(again.to_secret(), printed, "printing is stable: {string}");
}

#[test]
fn each_part_of_a_connection_string_is_decoded() {
    let s =
        string("mongodb://a%40b:p%3A@B.example,[::1]:5,%2Ftmp%2FX.sock/d%3Fb?w=1&APPNAME=x%26y");
    assert_eq!(
        (s.scheme(), s.scheme().name()),
        (Scheme::Mongodb, "mongodb")
    );
    assert_eq!(
        s.hosts(),
        [
            Address::tcp("b.example", 27017),
            Address::tcp("::1", 5),
            Address::unix("/tmp/X.sock"),
        ]
    );
    assert_eq!(s.srv_host(), None);
    assert_eq!(s.username(), Some("a@b"));
    assert_eq!(s.password().map(|p| p.expose()), Some("p:"));
    assert_eq!(s.database(), Some("d?b"));
    let options: Vec<_> = s.options().collect();
    assert_eq!(options, [("w", "1"), ("APPNAME", "x&y")], "in their order");
    assert_eq!((s.option("appName"), s.option("tls")), (Some("x&y"), None));
    assert_round_trip(&s);

    let s = string("mongodb+srv://Cluster.example.net");
    assert_eq!(s.scheme().to_string(), "mongodb+srv");
    assert_eq!(s.srv_host(), Some("cluster.example.net"));
    assert!(s.hosts().is_empty() && s.username().is_none() && s.database().is_none());
    assert_round_trip(&s);
}

#[test]
fn printing_keeps_an_empty_password_and_the_absence_of_one_apart() {
    // A missing password and an empty password are different (CS-7).
    for (text, password) in [("mongodb://u@a", None), ("mongodb://u:@a", Some(""))] {
        let s = string(text);
        assert_eq!(s.password().map(|p| p.expose()), password);
        assert_eq!(s.to_secret().expose(), format!("{text}:27017"));
    }
}

#[test]
fn printing_keeps_repeated_empty_unknown_and_malformed_options() {
    let text = "mongodb://a:27017/?readPreference=nearest&readPreferenceTags=dc:ny,rack:1\
                &readPreferenceTags=&appName=%zz&x%25y=1&w=majority";
    let s = string(text);
    assert_eq!(s.to_secret().expose(), text);
    assert_eq!(s.option("readPreferenceTags"), Some(""), "the last one");
    assert_round_trip(&s);
    // The value is ignored as before, and not taken for the text `%zz`.
    let warnings = uri::parse(s.to_secret().expose())
        .expect("it is valid")
        .warnings;
    assert_eq!(warnings, uri::parse(text).expect("it is valid").warnings);
}

#[test]
fn display_and_debug_show_no_secret() {
    let s = string(
        "mongodb://me:pencil@a/?authMechanism=GSSAPI&authMechanismProperties=SERVICE_NAME:pencil\
         &tlsCertificateKeyFilePassword=pencil&proxyHost=p&proxyUsername=n&PROXYPASSWORD=pencil\
         &proxyPasword=pencil&appName=pencil%zz&tlsCAFile=/etc/ca.pem",
    );
    let shown = format!("{s} {s:?} {s:#?}");
    assert!(!shown.contains("pencil"), "{shown}");
    assert_eq!(
        s.to_string(),
        "mongodb://me:[redacted]@a:27017/?authMechanism=GSSAPI&authMechanismProperties=[redacted]\
         &tlsCertificateKeyFilePassword=[redacted]&proxyHost=p&proxyUsername=n\
         &PROXYPASSWORD=[redacted]&[redacted]=[redacted]&appName=[redacted]\
         &tlsCAFile=%2Fetc%2Fca.pem"
    );
    assert_eq!(s.to_secret().expose().matches("pencil").count(), 6);
    // A redacted password is no valid one.
    assert!(ConnectionString::parse(string("mongodb://u:p@a").to_string()).is_err());
}

#[test]
fn a_password_with_a_question_mark_is_not_shown_as_an_option() {
    // The `?` of the password `1?pencil=x` is not encoded, so the string has other parts than its
    // author meant.
    for text in [
        "mongodb://me:1?pencil=x@a/db",
        "mongodb://me:1/pencil?w=x@a/db",
        "mongodb://me:12?w=pencil@a/",
        "mongodb://a/?proxyHost=p&proxyUsername=n&proxyPassword=p&pencil=x",
    ] {
        let s = string(text);
        let warnings = uri::parse(text).expect("it is valid").warnings;
        let shown = format!("{s} {s:?} {warnings:?}");
        assert!(!shown.contains("pencil"), "{shown}");
        assert!(s.to_secret().expose().contains("pencil"));
    }
}

#[test]
fn setters_change_one_part() {
    let mut s = string("mongodb://a/?w=1&appName=x&W=2");
    s.set_credentials("o'neil@home", Some("p/?#[]@:"))
        .expect("it is valid");
    s.set_hosts([Address::tcp("B", 1), Address::tcp("::1", 2)])
        .expect("they are valid");
    s.set_database("my-db").expect("it is valid");
    s.set_option("w", "majority").expect("it is valid");
    s.add_option("readPreference", "nearest")
        .expect("it is valid");
    assert_eq!(
        s.to_secret().expose(),
        "mongodb://o%27neil%40home:p%2F%3F%23%5B%5D%40%3A@b:1,[::1]:2/my-db?w=majority&appName=x\
         &readPreference=nearest"
    );
    s.remove_option("APPNAME").expect("it is not needed");
    s.remove_option("tls").expect("there is none");
    s.set_srv_host("Cluster.Example.net").expect("it is valid");
    s.clear_credentials().expect("they are not needed");
    s.set_database(None).expect("it is valid");
    assert_eq!(
        s.to_secret().expose(),
        "mongodb+srv://cluster.example.net/?w=majority&readPreference=nearest"
    );
}

#[test]
fn a_setter_that_fails_names_the_part_and_changes_nothing() {
    use UriPart::{Database, Host, Options, UserInfo};
    let text = "mongodb://u:p@a:1,b:2/db?proxyHost=p&proxyUsername=n&proxyPassword=s&tls=true";
    let mut s = string(text);
    for (part, found) in [
        (UserInfo, part_of(s.set_credentials("", Some("p")))),
        (Host, part_of(s.set_hosts([]))),
        (Host, part_of(s.set_hosts([Address::tcp("a/b", 1)]))),
        (Host, part_of(s.set_hosts([Address::tcp("a", 0)]))),
        (Host, part_of(s.set_hosts([Address::unix("no-socket")]))),
        (Host, part_of(s.set_srv_host("a,b"))),
        (Host, part_of(s.set_srv_host("a:1"))),
        (Database, part_of(s.set_database("a b"))),
        (Database, part_of(s.set_database(""))),
        (Options, part_of(s.set_option("", "x"))),
        (Options, part_of(s.set_option("ssl", "false"))),
        (Options, part_of(s.set_option("directConnection", "true"))),
        (Options, part_of(s.set_option("srvMaxHosts", "1"))),
        (Options, part_of(s.add_option("proxyHost", "q"))),
        (
            Options,
            part_of(s.set_option("authMechanism", "MONGODB-CR")),
        ),
        (Options, part_of(s.remove_option("proxyHost"))),
        (
            UserInfo,
            part_of(s.change_options([("authMechanism", Some("MONGODB-X509"))])),
        ),
    ] {
        assert_eq!(found, part);
    }
    assert_eq!(s.to_secret().expose(), text);
    s.set_option("authMechanism", "SCRAM-SHA-256")
        .expect("it is valid");
    assert_eq!(part_of(s.clear_credentials()), UserInfo);
}

#[test]
fn options_that_need_each_other_are_changed_together() {
    let mut s = string("mongodb://a");
    s.change_options([
        ("proxyHost", Some("p")),
        ("proxyUsername", Some("n")),
        ("proxyPassword", Some("s")),
    ])
    .expect("they are valid together");
    let none = ["proxyHost", "proxyUsername", "proxyPassword"].map(|name| (name, None));
    s.change_options(none).expect("none is needed");
    assert_eq!(s.to_secret().expose(), "mongodb://a:27017");
}

#[test]
fn errors_of_setters_do_not_quote_secrets() {
    let mut s = string("mongodb://u@a");
    let error = s
        .set_option("proxyPassword", "pencil")
        .expect_err("there is no proxyHost");
    assert!(!format!("{error} {error:?}").contains("pencil"), "{error}");
}

/// Connection strings of the grammar, some of which are invalid.
fn texts() -> impl Strategy<Value = String> {
    let text = "[a-zA-Z0-9%:@/?&=,;.\\[\\]+$ _é-]{0,6}";
    let userinfo = prop_oneof![
        Just(String::new()),
        (any::<String>(), proptest::option::of(any::<String>())).prop_map(|(name, password)| {
            let password = password
                .map(|p| format!(":{}", encode(&p)))
                .unwrap_or_default();
            format!("{}{password}@", encode(&name))
        }),
        text.prop_map(|text| format!("{text}@")),
    ];
    let host = prop_oneof![
        "[a-zA-Z0-9.é-]{1,8}(:[0-9]{1,5})?",
        Just("[FE80::1%25eth0]:5".to_owned()),
        Just("%2Ftmp%2FX.sock".to_owned()),
        text.prop_map(|text| text),
    ];
    let hosts = proptest::collection::vec(host, 1..4).prop_map(|hosts| hosts.join(","));
    let option = (keys(), prop_oneof![values(), text.prop_map(|text| text)])
        .prop_map(|(key, value)| format!("{key}={value}"));
    let options = proptest::collection::vec(option, 0..6).prop_map(|options| options.join("&"));
    let scheme = select(vec!["mongodb", "mongodb+srv"]);
    (
        scheme,
        userinfo,
        hosts,
        "(/[a-z%$.]{0,4})?",
        "(\\?|&)?",
        options,
    )
        .prop_map(|(scheme, userinfo, hosts, database, mark, options)| {
            format!("{scheme}://{userinfo}{hosts}{database}{mark}{options}")
        })
}

/// The names of options, of which some take secrets and some conflict.
fn keys() -> impl Strategy<Value = String> {
    select(vec![
        "w",
        "W",
        "tls",
        "ssl",
        "journal",
        "appName",
        "authMechanism",
        "authMechanismProperties",
        "authSource",
        "readPreference",
        "readPreferenceTags",
        "proxyHost",
        "proxyUsername",
        "proxyPassword",
        "tlsCertificateKeyFilePassword",
        "replicaSet",
        "srvMaxHosts",
        "unknown",
        "loadBalanced",
        "directConnection",
        "%zz",
        "compressors",
        "",
    ])
    .prop_map(str::to_owned)
}

/// Values that options take.
fn values() -> impl Strategy<Value = String> {
    let values = select(vec![
        "true",
        "false",
        "0",
        "1",
        "majority",
        "nearest",
        "secondary",
        "dc:ny,rack:1",
        "",
        "zstd",
        "SCRAM-SHA-256",
        "MONGODB-X509",
        "GSSAPI",
        "MONGODB-AWS",
        "$external",
        "%zz",
        "a%2Cb",
    ])
    .prop_map(str::to_owned);
    prop_oneof![4 => values, 1 => any::<String>()]
}

proptest! {
    #[test]
    fn connection_strings_are_valid_exactly_if_their_options_can_be_parsed(text in texts()) {
        let string = ConnectionString::parse(&text);
        let parsed = uri::parse(&text);
        prop_assert_eq!(string.as_ref().err(), parsed.as_ref().err());
        if let (Ok(string), Ok(parsed)) = (string, parsed) {
            assert_round_trip(&string);
            let again = uri::parse(string.to_secret().expose()).expect("it is valid");
            prop_assert_eq!(again, parsed);
        }
    }

    #[test]
    fn changes_keep_a_connection_string_valid(
        text in texts(),
        changes in proptest::collection::vec((0..9_u8, keys(), values(), any::<String>()), 1..8),
    ) {
        let mut string = ConnectionString::parse(&text)
            .unwrap_or_else(|_| string("mongodb://localhost"));
        for (kind, key, value, any) in changes {
            let before = string.clone();
            let changed = match kind {
                0 => string.set_hosts([Address::tcp(&any, 1), Address::tcp("b", 2)]),
                1 => string.set_hosts([Address::unix(&any)]),
                2 => string.set_srv_host(&any),
                3 => string.set_credentials(&any, Some(&value)),
                4 => string.clear_credentials(),
                5 => string.set_database(any.as_str()),
                6 => string.set_option(&key, &value),
                7 => string.add_option(&key, &any),
                _ => string.remove_option(&key),
            }
            .is_ok();
            prop_assert!(changed || string == before, "a refused change changes nothing");
            assert_round_trip(&string);
        }
    }

    #[test]
    fn no_password_is_printed(text in texts(), name in "[a-z]{1,5}") {
        let secret = "0pencil0";
        let mut string = ConnectionString::parse(&text)
            .unwrap_or_else(|_| string("mongodb://localhost"));
        let _ = string.set_credentials(&name, Some(secret));
        let _ = string.change_options([
            ("proxyHost", Some("p")),
            ("proxyUsername", Some("n")),
            ("PROXYPassword", Some(secret)),
        ]);
        let _ = string.set_option("tlsCertificateKeyFilePassword", secret);
        let _ = string.set_option("authMechanismProperties", &format!("A:{secret}"));
        let _ = string.set_option("misspelledPassword", secret);
        let shown = format!("{string} {string:?}");
        prop_assert!(!shown.contains(secret), "{}", shown);
    }
}

#[test]
fn parsing_and_printing_take_linear_time() {
    // Quadratic work on strings of 256 KiB would take minutes.
    let many = |piece: &str| piece.repeat((256 << 10) / piece.len());
    for text in [
        format!("mongodb://{}a", many("a,")),
        format!("mongodb://{}@a", many("%40")),
        format!("mongodb://{}", many("@")),
        format!("mongodb://a/?{}", many("w=1&")),
        format!("mongodb://a/?{}", many("x=&")),
        format!("mongodb://a/?{}", many("&")),
        format!("mongodb://a/?{}", many("tls=true&")),
        format!(
            "mongodb://a/?readPreference=nearest&{}",
            many("readPreferenceTags=&")
        ),
        format!("mongodb://a/?compressors={}", many("zstd,")),
        format!(
            "mongodb://u:p@a/?authMechanism=GSSAPI&authMechanismProperties={}a:b",
            many("a:b,")
        ),
        format!("mongodb+srv://{}", many("a.")),
        format!("mongodb://[{}", many("[")),
    ] {
        if let Ok(mut string) = ConnectionString::parse(&text) {
            let _ = string.set_option("w", "2");
            assert_round_trip(&string);
        }
    }
}
