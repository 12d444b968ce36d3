//! Tests of encrypted private keys, which were made with OpenSSL 3.0.19. The password is `pencil`.

use super::*;
use base64::{Engine, engine::general_purpose::STANDARD};
use rustls::pki_types::pem::PemObject;

const SEC1: &str = include_str!("keys/sec1.pem");
const PKCS8: &str = include_str!("keys/pkcs8.pem");
const RSA: &str = include_str!("keys/rsa.pem");

/// The encrypted keys, each with the key that is in it.
const ENCRYPTED: [(&str, &str, &str); 9] = [
    (
        "PBES2, AES-256",
        include_str!("keys/pkcs8_aes256.pem"),
        PKCS8,
    ),
    (
        "PBES2, AES-128, SHA-1",
        include_str!("keys/pkcs8_aes128_sha1.pem"),
        PKCS8,
    ),
    (
        "PBES2, Triple DES",
        include_str!("keys/pkcs8_des3.pem"),
        PKCS8,
    ),
    (
        "PBES2, scrypt",
        include_str!("keys/pkcs8_scrypt.pem"),
        PKCS8,
    ),
    ("AES-128-CBC", include_str!("keys/old_aes128.pem"), SEC1),
    ("AES-192-CBC", include_str!("keys/old_aes192.pem"), SEC1),
    ("AES-256-CBC", include_str!("keys/old_aes256.pem"), SEC1),
    ("DES-EDE3-CBC", include_str!("keys/old_des3.pem"), SEC1),
    ("AES-256-CBC, RSA", include_str!("keys/old_rsa.pem"), RSA),
];

/// The encrypted keys with ciphers that are not supported.
const UNSUPPORTED: [&str; 2] = [
    include_str!("keys/pkcs8_v1.pem"),
    include_str!("keys/old_camellia.pem"),
];

fn key(pem: &str) -> PrivateKeyDer<'static> {
    PrivateKeyDer::from_pem_slice(pem.as_bytes()).expect("a key")
}

#[test]
fn encrypted_keys_are_decrypted() {
    let certificate = Authority::new().pem;
    let password = Secret::new("pencil");
    for (name, pem, plain) in ENCRYPTED {
        let found = read_key(pem, Some(&password)).expect(name).expect(name);
        assert_eq!(found.secret_der(), key(plain).secret_der(), "{name}");
        // Other text can be before and after the key, and lines can end with CRLF.
        let file = format!("{certificate}text\n{pem}{SEC1}text").replace('\n', "\r\n");
        let found = read_key(&file, Some(&password)).expect(name).expect(name);
        assert_eq!(found.secret_der(), key(plain).secret_der(), "{name}");
    }
    for pem in [SEC1, PKCS8, RSA] {
        let found = read_key(pem, Some(&password))
            .expect("good")
            .expect("a key");
        assert_eq!(found.secret_der(), key(pem).secret_der());
    }
    for pem in ["", "-----BEGIN", &certificate] {
        assert_eq!(read_key(pem, Some(&password)).expect("no error"), None);
    }
}

/// A file can have both a certificate and an encrypted key, whose headers are no base64.
#[test]
fn an_encrypted_key_is_used_with_the_certificate_in_the_same_file() {
    let authority = Authority::new();
    for (name, pem, plain) in ENCRYPTED {
        if plain == RSA {
            // The certificate below is for the key of the other files.
            continue;
        }
        let key = KeyPair::from_pem(PKCS8).expect("a key");
        let certificate = params(&["client"]).signed_by(&key, &authority.issuer);
        let certificate = certificate.expect("a certificate").pem();
        let mut options = authority.options();
        options.tls_certificate_key_file_password = Some(Secret::new("pencil"));
        for file in [format!("{certificate}{pem}"), format!("{pem}{certificate}")] {
            options.certificate_key_pem = Some(Secret::new(file));
            let mut server = authority.server(&TLS13, true);
            connect(&options, "db.example.net", &mut server).expect(name);
            assert!(server.peer_certificates().is_some(), "{name}");
        }
    }
}

#[test]
fn a_private_key_can_be_outside_of_the_certificate_file() {
    let authority = Authority::new();
    let (certificate, key) = authority.issue(&["client"], ExtendedKeyUsagePurpose::ClientAuth);
    let own = KeyPair::from_pem(PKCS8).expect("a key");
    let of_own = params(&["client"]).signed_by(&own, &authority.issuer);
    let of_own = of_own.expect("a certificate").pem();
    for (certificate, key, password) in [
        (certificate.pem(), key.serialize_pem(), None),
        (of_own, ENCRYPTED[0].1.to_owned(), Some("pencil")),
    ] {
        let mut options = authority.options();
        // The first certificate is that of the client. The certificate of the issuer follows.
        options.certificate_key_pem = Some(Secret::new(certificate + &authority.pem));
        options.private_key_pem = Some(Secret::new(key));
        options.tls_certificate_key_file_password = password.map(Secret::new);
        let mut server = authority.server(&TLS13, true);
        connect(&options, "db.example.net", &mut server).expect("it has a certificate");
        assert_eq!(server.peer_certificates().map(<[_]>::len), Some(2));
    }
}

/// Each error says what to do, and shows neither the password nor a line of the file.
#[test]
fn keys_that_cannot_be_decrypted_are_explained() {
    let expect = |pem: &str, password: Option<&str>, part: &str| {
        let password = password.map(Secret::new);
        let error = read_key(pem, password.as_ref())
            .expect_err(part)
            .to_string();
        assert!(error.contains(part), "{error}");
        assert!(!error.contains("crayon"), "{error}");
        assert!(
            pem.lines()
                .all(|line| line.len() < 40 || !error.contains(line)),
            "{error}"
        );
    };
    for (_, pem, _) in ENCRYPTED {
        expect(pem, None, "set tlsCertificateKeyFilePassword");
        expect(
            pem,
            Some("crayon"),
            "tlsCertificateKeyFilePassword is wrong",
        );
        let count = pem.lines().count();
        let damaged: Vec<_> = pem.lines().take(count - 2).collect();
        let damaged = damaged.join("\n");
        expect(&damaged, Some("pencil"), "no private key that can be read");
    }
    for pem in UNSUPPORTED {
        expect(pem, Some("pencil"), "openssl pkcs8 -topk8");
    }
    let old = include_str!("keys/old_aes128.pem");
    for (from, to) in [
        ("DEK-Info: ", "DEK-Infos: "),
        ("AES-128-CBC,", "AES-128-CBC,zz"),
        ("AES-128-CBC,", "AES-128-CBC,00"),
        ("EC PRIVATE KEY", "DSA PRIVATE KEY"),
    ] {
        let pem = old.replace(from, to);
        assert!(
            read_key(&pem, Some(&Secret::new("pencil"))).is_err(),
            "{to}"
        );
    }
}

/// Parameters of scrypt in a damaged file must not take all memory.
#[test]
fn a_key_that_needs_too_much_memory_is_refused() {
    let pem = include_str!("keys/pkcs8_scrypt.pem");
    let body: String = pem.lines().filter(|line| !line.starts_with('-')).collect();
    let mut der = STANDARD.decode(body).expect("base64");
    // The salt loses two bytes, and the cost parameter, 1024, gets them. The lengths of the
    // enclosing values stay right.
    let salt = der
        .windows(2)
        .position(|bytes| bytes == [0x04, 0x08])
        .expect("a salt");
    assert_eq!(der[salt + 10..salt + 14], [0x02, 0x02, 0x04, 0x00]);
    der[salt + 1] = 6;
    der[salt + 8..salt + 14].copy_from_slice(&[0x02, 0x04, 0x40, 0, 0, 0]);
    let pem = format!(
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\n{}\n-----END ENCRYPTED PRIVATE KEY-----\n",
        STANDARD.encode(der)
    );
    let error = read_key(&pem, Some(&Secret::new("pencil"))).expect_err("1 TiB");
    assert!(error.to_string().contains("too much memory"), "{error}");
}

/// Wrong passwords whose padding happens to be right are refused as well.
#[test]
fn no_wrong_password_decrypts_a_key() {
    let old = include_str!("keys/old_des3.pem");
    for n in 0..2000 {
        let password = Secret::new(format!("wrong {n}"));
        let error = read_key(old, Some(&password)).expect_err("a wrong password");
        assert!(error.to_string().contains("is wrong"), "{n}: {error}");
    }
}
