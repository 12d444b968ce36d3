//! Tests of encrypted private keys without the feature that decrypts them.

use super::*;

#[test]
fn an_encrypted_key_is_refused_with_the_name_of_the_feature() {
    for pem in [
        include_str!("keys/pkcs8_aes256.pem"),
        include_str!("keys/old_aes128.pem"),
    ] {
        let known = Secret::new("pencil");
        for password in [None, Some(&known)] {
            let error = read_key(pem, password).expect_err("it is encrypted");
            let text = error.to_string();
            assert!(text.contains("the key in tlsCertificateKeyFile"), "{text}");
            assert!(text.contains("the feature `cert-key-password`"), "{text}");
            let asks = text.contains("set tlsCertificateKeyFilePassword");
            assert_eq!(asks, password.is_none(), "{text}");
        }
    }
    let plain = read_key(include_str!("keys/pkcs8.pem"), None).expect("it is not encrypted");
    assert!(plain.is_some());
}
