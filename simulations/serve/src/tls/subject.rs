//! The subject of a certificate as text, in the form of RFC 2253.

use rustls::pki_types::CertificateDer;
use std::fmt::Write as _;
use x509_parser::{
    prelude::{FromDer as _, X509Certificate},
    x509::AttributeTypeAndValue,
};

/// The short names of attributes (RFC 4514 section 3, and those that OpenSSL adds).
const SHORT_NAMES: [(&str, &str); 9] = [
    ("2.5.4.3", "CN"),
    ("2.5.4.6", "C"),
    ("2.5.4.7", "L"),
    ("2.5.4.8", "ST"),
    ("2.5.4.9", "street"),
    ("2.5.4.10", "O"),
    ("2.5.4.11", "OU"),
    ("0.9.2342.19200300.100.1.1", "UID"),
    ("0.9.2342.19200300.100.1.25", "DC"),
];

/// Returns the subject of a certificate, or `None` if the certificate or a value is malformed.
pub(super) fn of(certificate: &CertificateDer<'_>) -> Option<String> {
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    let mut names = Vec::new();
    for name in certificate.subject().iter_rdn() {
        let attributes = name.iter().map(attribute).collect::<Option<Vec<_>>>()?;
        names.push(attributes.join("+"));
    }
    names.reverse();
    Some(names.join(","))
}

fn attribute(attribute: &AttributeTypeAndValue<'_>) -> Option<String> {
    let id = attribute.attr_type().to_id_string();
    let short = SHORT_NAMES.iter().find(|(known, _)| *known == id);
    let name = short.map_or(id.as_str(), |(_, name)| name);
    Some(format!("{name}={}", escaped(attribute.as_str().ok()?)))
}

/// Escapes the characters that have a meaning in a subject (RFC 2253 section 2.4).
fn escaped(value: &str) -> String {
    let mut escaped = String::new();
    let last = value.chars().count().saturating_sub(1);
    for (place, character) in value.chars().enumerate() {
        let is_edge = place == 0 || place == last;
        let is_special = ",+\"\\<>;".contains(character)
            || (character == ' ' && is_edge)
            || (character == '#' && place == 0);
        if is_special {
            escaped.push('\\');
        }
        match character.is_control() {
            true => _ = write!(escaped, "\\{:02X}", u32::from(character)),
            false => escaped.push(character),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};

    fn subject(attributes: &[(DnType, &str)]) -> Option<String> {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        for (kind, value) in attributes {
            params.distinguished_name.push(kind.clone(), *value);
        }
        let key = KeyPair::generate().expect("a key");
        of(params.self_signed(&key).expect("a certificate").der())
    }

    #[test]
    fn the_last_attribute_of_a_certificate_comes_first() {
        let attributes = [(DnType::CommonName, "client"), (DnType::CountryName, "IS")];
        assert_eq!(subject(&attributes).as_deref(), Some("C=IS,CN=client"));
    }

    #[test]
    fn special_characters_are_escaped() {
        for (value, expected) in [
            ("a,b+c", "CN=a\\,b\\+c"),
            ("#a#", "CN=\\#a#"),
            (" a b ", "CN=\\ a b\\ "),
            ("é", "CN=é"),
        ] {
            let found = subject(&[(DnType::CommonName, value)]);
            assert_eq!(found.as_deref(), Some(expected));
        }
    }

    #[test]
    fn bytes_that_are_no_certificate_have_no_subject() {
        assert_eq!(of(&CertificateDer::from(vec![1, 2, 3])), None);
    }
}
