//! Tests with options and host names that cannot be used.

use super::*;

#[test]
fn unusable_tls_options_fail_with_an_error_that_quotes_no_secret() {
    let authority = Authority::new();
    let good = authority.client_pem();
    let key_only = KeyPair::generate().expect("a key").serialize_pem();
    let encrypted = good
        .expose()
        .replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY");
    let old_header = good.expose().replace(
        "-----BEGIN PRIVATE KEY-----",
        "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED",
    );
    let other_key = authority.pem.clone() + &key_only;
    let with_key = |pem: &str| TlsOptions {
        certificate_key_pem: Some(Secret::new(pem)),
        ..TlsOptions::default()
    };
    let with_keys = |pem: &str, key: &str| TlsOptions {
        private_key_pem: Some(Secret::new(key)),
        ..with_key(pem)
    };
    let key_not_loaded = TlsOptions {
        private_key_file_path: Some("x.pem".into()),
        ..with_key(&authority.pem)
    };
    let with_ca = |pem: &[u8]| TlsOptions {
        ca_pem: Some(pem.to_vec()),
        ..TlsOptions::default()
    };
    let missing = |ca: bool| {
        let file = Some("x.pem".into());
        TlsOptions {
            ca_file_path: file.clone().filter(|_| ca),
            cert_key_file_path: file.filter(|_| !ca),
            ..TlsOptions::default()
        }
    };
    for (options, expected) in [
        (with_key(""), "no certificate"),
        (with_key(&authority.pem), "no private key"),
        (with_key(&key_only), "no certificate"),
        (with_key(&encrypted), "encrypted"),
        (with_key(&old_header), "encrypted"),
        (
            with_keys(&authority.pem, ""),
            "private_key_file_path has no",
        ),
        (with_keys(&authority.pem, &key_only), "is not the key of"),
        (with_keys(good.expose(), &key_only), "remove one"),
        (with_keys(&key_only, &key_only), "no certificate"),
        (key_not_loaded, "TlsOptions::private_key_pem"),
        (with_key(&other_key), "tlsCertificateKeyFile"),
        (with_ca(b""), "no certificate"),
        (with_ca(b"\xff"), "no certificate"),
        (missing(true), "tlsCAFile"),
        (missing(false), "tlsCertificateKeyFile"),
    ] {
        let error = TlsContext::new(&options).expect_err("not usable");
        let ErrorKind::Tls { fault, message } = error.kind() else {
            panic!("{error}");
        };
        assert_eq!(*fault, TlsFault::Configuration);
        assert!(message.contains(expected), "{message}");
        let secret_line = key_only.lines().nth(1).expect("a line of the key");
        assert!(!message.contains(secret_line));
    }
    for host in ["", "a b", "a/b", "[::1]"] {
        let context = TlsContext::new(&TlsOptions::default()).expect("usable");
        assert!(TlsSession::new(&context, host).is_err(), "{host:?}");
    }
}
