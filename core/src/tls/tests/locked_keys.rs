//! Tests of encrypted private keys without the feature that decrypts them.

use super::*;
use crate::tls::{key_source::KeySource, keys::private_key, pem::blocks};

fn read(pem: &str) -> crate::error::Result<Option<PrivateKeyDer<'static>>> {
    let source = KeySource {
        option: "tlsCertificateKeyFile",
        password: Some(&Secret::new("pencil")),
    };
    private_key(blocks(pem), source)
}

#[test]
fn an_encrypted_key_is_refused_with_the_name_of_the_feature() {
    for pem in [
        include_str!("keys/pkcs8_aes256.pem"),
        include_str!("keys/old_aes128.pem"),
    ] {
        let text = read(pem).expect_err("it is encrypted").to_string();
        assert!(text.contains("tlsCertificateKeyFile"), "{text}");
        assert!(text.contains("the feature `cert-key-password`"), "{text}");
    }
    let plain = read(include_str!("keys/pkcs8.pem")).expect("it is not encrypted");
    assert!(plain.is_some());
}
