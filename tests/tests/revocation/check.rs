//! Tests of the lines of `onionskin check` about revocation.

use super::*;
use onionskin_check::{CheckOptions, check};
use std::time::Instant;

const SECOND: Duration = Duration::from_secs(1);

/// Returns the exit code and the text of the report.
fn report(uri: &str) -> (u8, String) {
    let options = CheckOptions::default();
    let report = block_on(check(TokioRuntime::default(), uri, &options));
    (report.exit_code(), report.to_text(false))
}

#[test]
fn the_check_shows_the_status_and_its_source() {
    let Some(openssl) = openssl() else {
        return;
    };
    let honest = Some(Behaviour::Honest);
    for (staples, behaviour, options, words) in [
        (true, honest, "", "not revoked (stapled OCSP response)"),
        (
            false,
            honest,
            "",
            "not revoked (OCSP responder of the certificate)",
        ),
        (false, None, "", "unknown: no stapled OCSP response"),
        (
            false,
            honest,
            "&tlsDisableOCSPEndpointCheck=true",
            "unknown: no stapled",
        ),
        (
            false,
            honest,
            "&tlsDisableCertificateRevocationCheck=true",
            "not checked",
        ),
    ] {
        let stage = Stage::new(&openssl, PLAIN, staples, behaviour);
        let (code, text) = report(&stage.uri(options));
        assert_eq!(code, 0, "{text}");
        let line = format!("revocation: {words}");
        assert!(text.contains(&line), "{line}: {text}");
    }
}

#[test]
fn the_check_explains_a_revoked_certificate_and_a_missing_staple() {
    let Some(openssl) = openssl() else {
        return;
    };
    for (is_revoked, must_staple, staples, words, hint) in [
        (
            true,
            false,
            false,
            "(OCSP responder)",
            "give the server a new one",
        ),
        (
            true,
            false,
            true,
            "its issuer has revoked it (stapled OCSP response)",
            "give the server a new one",
        ),
        (
            false,
            true,
            false,
            "the server has sent none",
            "look for OCSP in the log",
        ),
    ] {
        let kind = Kind {
            is_revoked,
            must_staple,
            ..PLAIN
        };
        let stage = Stage::new(&openssl, kind, staples, Some(Behaviour::Honest));
        let (code, text) = report(&stage.uri(""));
        assert_eq!(code, 13, "{text}");
        assert!(text.contains(words), "{text}");
        let is_shown = text.contains("revocation: revoked");
        assert_eq!(is_shown, is_revoked, "{text}");
        assert!(!text.contains("revocation: unknown"), "{text}");
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains(hint), "{text}");
    }
}

#[test]
fn the_check_asks_all_responders_at_the_same_time() {
    // OCSP-12. A responder that never answers does not delay the answer of another one.
    let Some(openssl) = openssl() else {
        return;
    };
    let kind = Kind {
        is_revoked: true,
        ..PLAIN
    };
    let silent = [(); 2].map(|()| Responder::start(Behaviour::Silent));
    let honest = Responder::start(Behaviour::Honest);
    let ports = [silent[0].port(), silent[1].port(), honest.port()];
    let pki = Arc::new(Pki::new(&openssl, kind, &ports));
    let server = Server::tls(pki.server(None), answer);
    for responder in silent.iter().chain([&honest]) {
        let source = pki.clone();
        responder.set_answer(Box::new(move |request| source.respond(Some(request))));
    }
    let authority = pki.authority();
    let uri = server.uri(&format!("tls=true&tlsCAFile={}", authority.display()));
    let begun = Instant::now();
    let (code, text) = report(&uri);
    assert_eq!(code, 13, "{text}");
    assert!(text.contains("(OCSP responder)"), "{text}");
    assert!(silent.iter().all(|responder| responder.requests() > 0));
    // The silent ones alone would take 5 s each.
    assert!(begun.elapsed() < 5 * SECOND, "{text}");
}
