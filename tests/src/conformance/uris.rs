//! Tests of connection strings that cannot be used.

use super::Host;
use onionskin::Client;
use onionskin_core::error::{Argument, ErrorKind, Responsible, UriPart};

/// The error names the invalid part of the connection string and does not contain the password.
pub async fn a_connection_string_error_names_the_invalid_part<H: Host>() {
    use UriPart::{Database, Host as HostPart, Options, Scheme, UserInfo};
    for (text, expected) in [
        ("", Scheme),
        ("localhost", Scheme),
        ("http://localhost", Scheme),
        ("mongo://localhost", Scheme),
        ("mongodb://", HostPart),
        ("mongodb:///app", HostPart),
        ("mongodb://localhost:0", HostPart),
        ("mongodb://localhost:99999", HostPart),
        ("mongodb://localhost:port", HostPart),
        ("mongodb://[::1", HostPart),
        ("mongodb://a,,b", HostPart),
        ("mongodb://user:ses@me@localhost", UserInfo),
        ("mongodb://user:ses%zzame@localhost", UserInfo),
        ("mongodb://:sesame@localhost", UserInfo),
        ("mongodb://localhost/a$b", Database),
        ("mongodb://localhost/a b", Database),
        ("mongodb://localhost/?tls=true&tls=false", Options),
        (
            "mongodb://localhost/?tlsInsecure=true&tlsAllowInvalidHostnames=true",
            Options,
        ),
        ("mongodb://a,b/?directConnection=true", Options),
        (
            "mongodb://user:sesame@localhost/?authMechanism=NONSENSE",
            Options,
        ),
    ] {
        let error = match Client::builder_from_uri(H::runtime(), text) {
            Ok(builder) => builder.build().map(drop).expect_err(text),
            Err(error) => error,
        };
        assert_eq!(
            error.kind().responsible(),
            Responsible::Caller,
            "{text}: {error:?}"
        );
        match error.kind() {
            ErrorKind::InvalidArgument {
                argument: Argument::Uri(part),
                ..
            } => assert_eq!(*part, expected, "{text}: {error}"),
            ErrorKind::InvalidArgument {
                argument: Argument::Option(_),
                ..
            } => assert_eq!(expected, Options, "{text}: {error}"),
            _ => panic!("{text}: {error:?}"),
        }
        let shown = format!("{error} {error:?}");
        assert!(!shown.contains("sesame"), "{shown}");
    }
}

/// If the file of `tlsCAFile` does not exist, the client cannot be built. The error names the
/// option.
pub async fn a_missing_certificate_file_is_reported<H: Host>() {
    let text = "mongodb://localhost/?tls=true&tlsCAFile=/nowhere/ca.pem";
    let builder = Client::builder_from_uri(H::runtime(), text).expect("a connection string");
    let error = builder.build().expect_err("there is no such file");
    let is_named = matches!(
        error.kind(),
        ErrorKind::InvalidArgument {
            argument: Argument::Option("tlsCAFile"),
            ..
        }
    );
    assert!(is_named, "{error:?}");
}
