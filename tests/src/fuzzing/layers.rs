//! The fuzz targets of proxies, HTTP services and OCSP responders.

use onionskin_core::{
    http::{HttpExchange, HttpRequest, MAX_BODY_BYTES, Method},
    options::{Socks5Proxy, TlsOptions},
    time::WallTime,
    unstable::{
        socks5::{Socks5Context, Socks5Conversation},
        tls::{StatusQuery, TlsContext},
    },
};
use rustls::pki_types::{CertificateDer, pem::PemObject};

/// The time of the OCSP responses in the corpus: 2027-01-01.
const TIME: WallTime = WallTime::from_unix_millis(1_798_761_600_000);

/// Reads `input` as the bytes of a SOCKS5 proxy. If the first byte is odd, the client has a user
/// name and a password. The result does not depend on how the bytes are cut.
pub fn socks5(input: &[u8]) {
    let Some((first, bytes)) = input.split_first() else {
        return;
    };
    let mut options = Socks5Proxy::new("proxy");
    if first % 2 == 1 {
        options.authentication = Some(("user".to_owned(), "password".into()));
    }
    let context = Socks5Context::new(&options).expect("valid options");
    let results = [bytes.len().max(1), 1, 3].map(|piece| {
        let mut conversation = Socks5Conversation::new(&context, "host", 80).expect("a host");
        let mut sent = Vec::new();
        let mut given = Vec::new();
        let mut failure = None;
        for bytes in bytes.chunks(piece) {
            while conversation.poll_transmit(&mut sent) {}
            if let Err(error) = conversation.handle_received(bytes) {
                failure = Some(error.to_string());
                break;
            }
            let mut buffer = [0; 16];
            loop {
                let count = conversation.read(&mut buffer);
                if count == 0 {
                    break;
                }
                given.extend_from_slice(&buffer[..count]);
            }
        }
        while conversation.poll_transmit(&mut sent) {}
        assert!(sent.len() < 1024, "a conversation has few bytes");
        if failure.is_some() {
            // A failed conversation sends nothing more.
            sent.clear();
        }
        (conversation.is_connected(), failure, sent, given)
    });
    assert!(
        results.iter().all(|result| *result == results[0]),
        "{results:?}"
    );
}

/// Reads `input` as the response of an HTTP service. The result does not depend on how the bytes
/// are cut.
pub fn http(input: &[u8]) {
    let request = HttpRequest::new(Method::Get, "http://host/").expect("a URL");
    let results = [input.len().max(1), 1, 7].map(|piece| {
        let tls = TlsOptions::default();
        let mut exchange = HttpExchange::new(&request, &tls, TIME).expect("without TLS");
        let pieces = input.chunks(piece).chain([&[][..]]);
        for bytes in pieces {
            match exchange.handle_received(bytes) {
                Ok(false) => {}
                Ok(true) => {
                    let response = exchange.into_response();
                    assert!(response.body.bytes().len() <= MAX_BODY_BYTES);
                    return Some((response.status, response.body));
                }
                Err(reason) => {
                    assert!(reason.len() < 1024, "{reason}");
                    return None;
                }
            }
        }
        panic!("the end of the stream ends the response");
    });
    assert!(
        results.iter().all(|result| *result == results[0]),
        "{results:?}"
    );
}

/// Reads `input` as an OCSP response about a certificate whose issuer has signed only responses
/// that it is good.
pub fn ocsp(input: &[u8]) {
    let der = |pem: &[u8]| {
        CertificateDer::from_pem_slice(pem)
            .expect("PEM text")
            .to_vec()
    };
    let certificate = der(include_bytes!("server.pem"));
    let issuer = der(include_bytes!("ca.pem"));
    let context = TlsContext::new(&TlsOptions::default()).expect("valid options");
    context.set_wall_time(TIME);
    let query = StatusQuery::about(&context, &certificate, &issuer).expect("certificates");
    match query.read(input) {
        Ok(answer) => assert!(answer.is_good(), "{answer:?}"),
        Err(reason) => assert!(!reason.is_empty() && reason.len() < 1024, "{reason}"),
    }
}
