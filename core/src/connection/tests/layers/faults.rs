//! Failures of layers: their errors and phases.

use super::*;
use Kind::{Proxy, Tls, Xor as Changed};

#[test]
fn proxy_errors_are_reported_in_the_proxy_phase() {
    // The proxy refuses to connect, sends an answer without an end, closes the connection, or
    // sends nothing. All four errors have the phase `Proxy`. A refusal counts as a network error,
    // and is no sign of an overloaded server (SOCKS-19).
    for kinds in [&[Proxy][..], &[Proxy, Tls], &[Changed, Proxy, Tls]] {
        let new = |answer| Pair::with(kinds, ConnectionPurpose::Operations, 1, answer, NOW);
        let mut pair = new(b"not from here\n");
        pair.run();
        let (error, phase) = failure(&mut pair.connection);
        assert_eq!(phase, Phase::Proxy);
        assert!(error.is_network(), "{error}");
        let words = "the proxy refused to connect: not from here";
        assert!(error.to_string().contains(words), "{error}");

        let mut pair = new(&[b'x'; MAX_ANSWER_BYTES + 1]);
        pair.run();
        let (error, phase) = failure(&mut pair.connection);
        assert_eq!(phase, Phase::Proxy);
        assert!(error.to_string().contains("has no end"), "{error}");

        let mut pair = new(b"");
        pair.run();
        pair.connection.handle_failed(closed_by_peer());
        let (error, phase) = failure(&mut pair.connection);
        assert_eq!(phase, Phase::Proxy);
        let words = "closed the connection in the proxy handshake; is it a proxy?";
        assert!(error.to_string().contains(words), "{error}");

        let mut pair = new(b"");
        pair.run();
        let later = Instant::ZERO + Duration::from_secs(10);
        pair.connection.handle_timeout(later);
        let (error, phase) = failure(&mut pair.connection);
        assert_eq!(phase, Phase::Proxy);
        assert!(
            matches!(
                error.kind(),
                ErrorKind::Timeout {
                    wait: Wait::Connect,
                    ..
                }
            ),
            "{error:?}"
        );
        let words = "the proxy handshake took longer than 10000 ms";
        assert!(error.to_string().contains(words), "{error}");
    }
}

#[test]
fn an_unreachable_proxy_fails_in_the_proxy_phase() {
    for (kinds, phase) in [
        (&[][..], Phase::Hello),
        (&[Tls], Phase::Hello),
        (&[Proxy], Phase::Proxy),
        (&[Proxy, Tls], Phase::Proxy),
    ] {
        let mut layers = Layers::default();
        for kind in kinds {
            match kind {
                Proxy => layers.push(ProxyPlan(Address::tcp("proxy", 1080))),
                _ => layers.push(TlsContext::new(&TlsOptions::default()).expect("a context")),
            }
        }
        let options = HandshakeOptions {
            layers,
            ..options()
        };
        let mut connection = dialled(ConnectionPurpose::Operations, options);
        connection.handle_failed(Error::network(NetworkFault::Refused, "refused"));
        assert_eq!(failure(&mut connection).1, phase, "{kinds:?}");
    }
}

#[test]
fn tls_errors_above_a_proxy_are_reported_in_the_hello_phase() {
    for kinds in [&[Tls][..], &[Proxy, Tls], &[Changed, Proxy, Tls]] {
        let mut pair = Pair::new(kinds, ConnectionPurpose::Operations, usize::MAX);
        // The server sends bytes that are not TLS.
        pair.server = Transport::new(match kinds {
            [Changed, ..] => vec![
                Box::new(Xor::default()),
                Box::new(ProxyServer::new(b"OK\nHTTP/1.1 400\n")),
            ],
            [Proxy, ..] => vec![Box::new(ProxyServer::new(b"OK\nHTTP/1.1 400\n"))],
            _ => Vec::new(),
        });
        if kinds == [Tls] {
            pair.server
                .send(|buffer| buffer.extend_from_slice(b"HTTP/1.1 400\n"));
        }
        pair.run();
        let (error, phase) = failure(&mut pair.connection);
        assert_eq!(phase, Phase::Hello, "{kinds:?}");
        let fault = match error.kind() {
            ErrorKind::Tls { fault, .. } => *fault,
            other => panic!("{other}"),
        };
        assert_eq!(fault, TlsFault::Handshake);
    }
}

#[test]
fn a_tls_alert_is_sent_through_the_layers_below_tls() {
    let expired = WallTime::from_unix_millis(4_000_000_000_000);
    for kinds in [&[Tls][..], &[Proxy, Tls], &[Changed, Proxy, Tls]] {
        let mut pair = Pair::with(kinds, ConnectionPurpose::Operations, 7, b"OK\n", expired);
        pair.run();
        let (error, phase) = failure(&mut pair.connection);
        assert_eq!(phase, Phase::Hello);
        let is_certificate = matches!(
            error.kind(),
            ErrorKind::Tls {
                fault: TlsFault::Certificate,
                ..
            }
        );
        assert!(is_certificate, "{error}");
        let ended = pair.server.ended().expect_err("an alert").to_string();
        assert!(ended.contains("CertificateExpired"), "{kinds:?}: {ended}");
    }
}
