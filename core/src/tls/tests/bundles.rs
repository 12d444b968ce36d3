//! Tests of files with several authorities.

use super::*;
use base64::{Engine, engine::general_purpose::STANDARD};

fn trusting(bundle: Vec<u8>) -> TlsOptions {
    TlsOptions {
        ca_pem: Some(bundle),
        ..TlsOptions::default()
    }
}

/// A bundle of authorities has comments of any encoding, and may have certificates that this client
/// cannot use.
#[test]
fn each_authority_of_a_bundle_is_trusted() {
    let [first, second, stranger] = [(); 3].map(|()| Authority::new());
    let unusable = STANDARD.encode([0x30, 0x03, 0x02, 0x01, 0x05]);
    let unusable = format!("-----BEGIN CERTIFICATE-----\n{unusable}\n-----END CERTIFICATE-----\n");
    let bundle = [
        b"# Autorit\xe9s\n\n".as_slice(),
        first.pem.as_bytes(),
        b"Subject: CN=second\r\n",
        unusable.as_bytes(),
        second.pem.replace('\n', "\r\n").as_bytes(),
        b"the end, without a line feed",
    ]
    .concat();
    let options = trusting(bundle);
    for authority in [&first, &second] {
        let mut server = authority.server(&TLS13, false);
        connect(&options, "db.example.net", &mut server).expect("it is trusted");
    }
    let mut server = stranger.server(&TLS13, false);
    let refused = connect(&options, "db.example.net", &mut server);
    assert_eq!(kind(refused), TlsFault::Certificate);
}

#[test]
fn a_bundle_with_a_damaged_or_no_certificate_is_refused() {
    let authority = Authority::new();
    let whole = authority.pem.as_bytes();
    let cut_off = &whole[..whole.len() / 2];
    let damaged = authority.pem.replacen("MII", "M I!", 1).into_bytes();
    let key = KeyPair::generate().expect("a key").serialize_pem();
    for (bundle, words) in [
        ([whole, cut_off].concat(), "damaged certificate"),
        ([whole, &damaged].concat(), "damaged certificate"),
        (key.into_bytes(), "no certificate"),
        (b"no PEM at all".to_vec(), "no certificate"),
        (Vec::new(), "no certificate"),
    ] {
        let error = TlsContext::new(&trusting(bundle)).expect_err(words);
        let text = error.to_string();
        assert!(text.contains("tlsCAFile") && text.contains(words), "{text}");
    }
}
