//! Tests of the validity of OCSP responses (RFC 6960, section 3.2).

use super::*;

fn read(response: &[u8], issued: &Issued, authority: &Authority) -> Result<Verdict, String> {
    let algorithms = default_provider().signature_verification_algorithms;
    let subject = issued.subject(authority);
    let answer = OcspStatement::read(response, &subject, &algorithms, NOW_SECONDS);
    answer.map(|answer| answer.verdict)
}

#[test]
fn a_response_that_the_issuer_signed_is_valid() {
    // OCSP-8, OCSP-30.
    let authority = Authority::new();
    let issued = Issued::new(&authority, &[], false);
    let mut response = Response::new(&authority);
    let good = response.about(&issued, &authority);
    assert_eq!(read(&good, &issued, &authority), Ok(Verdict::Good));
    response.signer.1 = key_of(authority.issuer.key());
    response.hash = SHA256;
    let good = response.about(&issued, &authority);
    assert_eq!(read(&good, &issued, &authority), Ok(Verdict::Good));
    let revoked = Response::revoked(&authority).about(&issued, &authority);
    assert_eq!(read(&revoked, &issued, &authority), Ok(Verdict::Revoked));
    response.status = CertStatus::unknown();
    let unknown = response.about(&issued, &authority);
    assert_eq!(read(&unknown, &issued, &authority), Ok(Verdict::Unknown));
}

/// Returns a certificate for signing responses, and its key.
fn signer(authority: &Authority, usage: ExtendedKeyUsagePurpose) -> Issued {
    let key = KeyPair::generate().expect("a key");
    let mut params = params(&[]);
    params.distinguished_name.push(DnType::CommonName, "signer");
    params.extended_key_usages = vec![usage];
    let certificate = params.signed_by(&key, &authority.issuer);
    Issued {
        der: certificate.expect("a certificate").der().clone(),
        key,
        others: Vec::new(),
    }
}

#[test]
fn a_response_that_a_delegate_of_the_issuer_signed_is_valid() {
    let authority = Authority::new();
    let stranger = Authority::new();
    let issued = Issued::new(&authority, &[], false);
    for (owner, usage, is_valid) in [
        (&authority, ExtendedKeyUsagePurpose::OcspSigning, true),
        (&authority, ExtendedKeyUsagePurpose::ServerAuth, false),
        (&stranger, ExtendedKeyUsagePurpose::OcspSigning, false),
    ] {
        let signer = signer(owner, usage);
        for id in [name_of(&signer.der), key_of(&signer.key)] {
            let mut response = Response::new(&authority);
            response.signer = (&signer.key, id);
            // The certificate need not be the first one.
            response.certificates = vec![issued.der.clone(), signer.der.clone()];
            let bytes = response.about(&issued, &authority);
            let met = read(&bytes, &issued, &authority);
            assert_eq!(met.is_ok(), is_valid, "{met:?}");
            // Without the certificate, the signature cannot be checked.
            response.certificates.clear();
            let bytes = response.about(&issued, &authority);
            assert!(read(&bytes, &issued, &authority).is_err());
        }
    }
}

#[test]
fn only_the_first_certificate_with_the_name_of_the_signer_is_checked() {
    let authority = Authority::new();
    let issued = Issued::new(&authority, &[], false);
    let useless = signer(&authority, ExtendedKeyUsagePurpose::ServerAuth);
    let delegate = signer(&authority, ExtendedKeyUsagePurpose::OcspSigning);
    let mut response = Response::new(&authority);
    response.signer = (&delegate.key, name_of(&delegate.der));
    for (certificates, is_valid) in [
        ([&delegate, &useless], true),
        ([&useless, &delegate], false),
    ] {
        response.certificates = certificates.map(|issued| issued.der.clone()).to_vec();
        let bytes = response.about(&issued, &authority);
        assert_eq!(read(&bytes, &issued, &authority).is_ok(), is_valid);
    }
}

#[test]
fn a_response_by_a_stranger_or_about_another_certificate_is_refused() {
    let authority = Authority::new();
    let stranger = Authority::new();
    let issued = Issued::new(&authority, &[], false);
    let other = Issued::new(&authority, &[], false);
    // A stranger in its own name, and in the name of the issuer.
    let mut response = Response::new(&stranger);
    let bytes = response.about(&issued, &authority);
    assert!(read(&bytes, &issued, &authority).is_err());
    response.signer.1 = key_of(authority.issuer.key());
    let bytes = response.about(&issued, &authority);
    let refused = read(&bytes, &issued, &authority).expect_err("another key");
    assert!(refused.contains("not signed by the issuer"), "{refused}");
    let bytes = Response::new(&authority).about(&other, &authority);
    let refused = read(&bytes, &issued, &authority).expect_err("another certificate");
    assert_eq!(refused, "it does not cover the certificate");
}

#[test]
fn a_response_is_valid_from_this_update_until_before_next_update() {
    let authority = Authority::new();
    let issued = Issued::new(&authority, &[], false);
    let (now, day) = (NOW_SECONDS, 24 * 3600);
    for (this_update, next_update, expected) in [
        (now - 1, Some(now + 1), None),
        // There is no tolerance after the end (OCSP-35).
        (now - 1, Some(now), Some("it has expired")),
        // Clocks differ.
        (now + 300, Some(now + 400), None),
        (now + 301, Some(now + 400), Some("it is not valid yet")),
        (now - day + 1, None, None),
        (now - day, None, Some("it has expired")),
    ] {
        let mut response = Response::new(&authority);
        response.this_update = this_update;
        response.next_update = next_update;
        let bytes = response.about(&issued, &authority);
        let read = read(&bytes, &issued, &authority);
        assert_eq!(
            read.err().as_deref(),
            expected,
            "{this_update} {next_update:?}"
        );
    }
}

#[test]
fn a_response_that_was_changed_is_refused() {
    let authority = Authority::new();
    let issued = Issued::new(&authority, &[], false);
    let good = Response::new(&authority).about(&issued, &authority);
    assert!(read(&good, &issued, &authority).is_ok());
    for length in 0..good.len() {
        assert!(read(&good[..length], &issued, &authority).is_err());
    }
    let mut accepted = 0;
    for place in 0..good.len() {
        for bit in 0..8 {
            let mut changed = good.clone();
            changed[place] ^= 1 << bit;
            match read(&changed, &issued, &authority) {
                Err(_) => {}
                // Not every byte is signed.
                Ok(verdict) => {
                    assert_eq!(verdict, Verdict::Good);
                    accepted += 1;
                }
            }
        }
    }
    assert!(accepted < 8, "{accepted} changes were accepted");
}

#[test]
fn a_refusal_of_a_responder_is_no_answer() {
    let authority = Authority::new();
    let issued = Issued::new(&authority, &[], false);
    for response in [
        OcspResponse::try_later(),
        OcspResponse::internal_error(),
        OcspResponse::unauthorized(),
        OcspResponse::malformed_request(),
    ] {
        let bytes = response.to_der().expect("a response");
        let refused = read(&bytes, &issued, &authority).expect_err("no answer");
        assert!(refused.starts_with("the status is"), "{refused}");
    }
}

#[test]
fn a_responder_with_a_large_name_is_not_decoded() {
    // Sorting this set by insertion would take many seconds.
    let authority = Authority::new();
    let issued = Issued::new(&authority, &[], false);
    let good = Response::new(&authority).about(&issued, &authority);
    let response = OcspResponse::from_der(&good).expect("a response");
    let response = response.response_bytes.expect("bytes");
    let kind = response.response_type;
    let basic = BasicOcspResponse::from_der(response.response.as_bytes()).expect("a response");
    let attribute = |n: u16| {
        let number = (u16::MAX - n).to_be_bytes();
        let text = [&[0x0c, 2][..], &number].concat();
        wrapped(0x30, &[&[0x06, 3, 0x55, 4, 3][..], &text].concat())
    };
    let set = wrapped(0x31, &(0..20_000).flat_map(attribute).collect::<Vec<_>>());
    let name = wrapped(0xa1, &wrapped(0x30, &set));
    let data = basic.tbs_response_data;
    let rest = [
        data.produced_at.to_der().expect("a time"),
        data.responses.to_der().expect("responses"),
    ];
    let data = wrapped(0x30, &[name, rest.concat()].concat());
    let parts = [
        data,
        basic.signature_algorithm.to_der().expect("an algorithm"),
        basic.signature.to_der().expect("a signature"),
    ];
    let bytes = OctetString::new(wrapped(0x30, &parts.concat())).expect("bytes");
    let bytes = x509_ocsp::ResponseBytes {
        response_type: kind,
        response: bytes,
    };
    let response = OcspResponse {
        response_status: x509_ocsp::OcspResponseStatus::Successful,
        response_bytes: Some(bytes),
    };
    let bytes = response.to_der().expect("a response");
    let refused = read(&bytes, &issued, &authority).expect_err("another responder");
    assert!(refused.contains("not signed by the issuer"), "{refused}");
}

/// Returns the DER form with this tag and content.
fn wrapped(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = u32::try_from(content.len()).expect("short").to_be_bytes();
    let head = match content.len() {
        0..128 => vec![tag, length[3]],
        128..256 => vec![tag, 0x81, length[3]],
        256..65_536 => vec![tag, 0x82, length[2], length[3]],
        _ => vec![tag, 0x83, length[1], length[2], length[3]],
    };
    [head, content.to_vec()].concat()
}
