//! Tests of the check of revocation in sessions.

use super::*;

/// Returns a session that gives status queries, after its handshake with `server`.
fn meet(options: &TlsOptions, server: &mut ServerConnection) -> Result<TlsSession, Error> {
    let context = TlsContext::new(options)
        .expect("usable options")
        .with_status_queries();
    context.set_wall_time(NOW);
    let mut client = TlsSession::new(&context, "db.example.net").expect("a name");
    run(&mut client, server, usize::MAX, &mut Vec::new())?;
    Ok(client)
}

fn message(result: Result<TlsSession, Error>) -> String {
    let error = result.map(|_| ()).expect_err("it must not connect");
    match error.kind() {
        ErrorKind::Tls { fault, message } => {
            let is_revoked = message.contains("its issuer has revoked it");
            let expected = match is_revoked {
                true => TlsFault::Revoked,
                false => TlsFault::Certificate,
            };
            assert_eq!(*fault, expected, "{message}");
            message.clone()
        }
        other => panic!("{other} is no TLS error"),
    }
}

#[test]
fn a_stapled_response_decides() {
    // OCSP-4, OCSP-7, OCSP-8.
    let authority = Authority::new();
    let issued = Issued::new(&authority, &[RESPONDER], false);
    let options = authority.options();
    let good = Response::new(&authority).about(&issued, &authority);
    let mut client = meet(&options, &mut issued.server(Some(good))).expect("it was not revoked");
    let query = client.poll_status_query().expect("a query for the cache");
    assert!(query.staple.is_some());

    let revoked = Response::revoked(&authority).about(&issued, &authority);
    let text = message(meet(&options, &mut issued.server(Some(revoked.clone()))));
    assert!(text.contains("its issuer has revoked it"), "{text}");
    let mut late = Response::new(&authority);
    late.next_update = Some(NOW_SECONDS - 1);
    let late = late.about(&issued, &authority);
    let text = message(meet(&options, &mut issued.server(Some(late))));
    assert!(text.contains("stapled: it has expired"), "{text}");
    let text = message(meet(&options, &mut issued.server(Some(vec![0x30, 0x00]))));
    assert!(text.contains("stapled: it is malformed"), "{text}");

    // OCSP-20, OCSP-23, OCSP-24.
    type Change = fn(&mut TlsOptions);
    let switches: [Change; 3] = [
        |options| options.insecure = Some(true),
        |options| options.allow_invalid_certificates = Some(true),
        |options| options.disable_certificate_revocation_check = Some(true),
    ];
    for switch in switches {
        let mut options = authority.options();
        switch(&mut options);
        let mut server = issued.server(Some(revoked.clone()));
        let client = meet(&options, &mut server).expect("revocation is not checked");
        let facts = client.facts().expect("a session without a query");
        assert_eq!(facts.revocation, RevocationStatus::NotChecked);
    }
}

#[test]
fn a_certificate_with_must_staple_needs_a_staple() {
    // OCSP-6.
    let authority = Authority::new();
    let issued = Issued::new(&authority, &[RESPONDER], true);
    let text = message(meet(&authority.options(), &mut issued.server(None)));
    assert!(text.contains("the server has sent none"), "{text}");
    let good = Response::new(&authority).about(&issued, &authority);
    meet(&authority.options(), &mut issued.server(Some(good))).expect("a staple");
    let mut options = authority.options();
    options.disable_ocsp_endpoint_check = Some(true);
    let text = message(meet(&options, &mut issued.server(None)));
    assert!(text.contains("the server has sent none"), "{text}");
    options = authority.options();
    options.insecure = Some(true);
    meet(&options, &mut issued.server(None)).expect("nothing is checked");
}

#[test]
fn a_session_holds_plaintext_back_until_the_status_is_known() {
    let authority = Authority::new();
    let issued = Issued::new(&authority, &[RESPONDER], false);
    for (status, is_used) in [
        (RevocationStatus::Unknown, true),
        (RevocationStatus::Good(StatusSource::Responder), true),
        (RevocationStatus::Revoked(StatusSource::Responder), false),
    ] {
        let mut server = issued.server(None);
        let mut client = meet(&authority.options(), &mut server).expect("a query");
        assert!(client.is_handshaking());
        assert!(client.facts().is_none());
        client.write(b"secret");
        server.writer().write_all(b"early").expect("room");
        let mut received = Vec::new();
        run(&mut client, &mut server, usize::MAX, &mut received).expect("nothing to send");
        assert!(received.is_empty());
        assert!(read_all(&mut client).is_empty());
        let query = client.poll_status_query().expect("a query");
        assert!(
            client.poll_status_query().is_none(),
            "the query is given once"
        );
        assert_eq!(query.responders(), [RESPONDER]);
        let other = Issued::new(&authority, &[], false).subject(&authority);
        let revoked = RevocationStatus::Revoked(StatusSource::Cache);
        client
            .handle_status(&other.id, revoked)
            .expect("another certificate");
        let result = client.handle_status(query.id(), status);
        assert_eq!(result.is_ok(), is_used);
        assert!(!client.is_handshaking());
        assert_eq!(read_all(&mut client), b"early");
        let _failed = run(&mut client, &mut server, usize::MAX, &mut received);
        assert_eq!(received == b"secret", is_used);
    }
}

/// A resumed session has no staple, so a certificate that requires one needs a full handshake.
#[test]
fn sessions_of_a_certificate_that_requires_a_staple_are_not_resumed() {
    let authority = Authority::new();
    let issued = Issued::new(&authority, &[RESPONDER], true);
    for has_next_update in [true, false] {
        let mut good = Response::new(&authority);
        good.next_update = good.next_update.filter(|_| has_next_update);
        let good = good.about(&issued, &authority);
        let server = issued.config(Some(good));
        let context = TlsContext::new(&authority.options()).expect("usable options");
        context.set_wall_time(NOW);
        for _ in 0..3 {
            let mut server = ServerConnection::new(server.clone()).expect("a server");
            let mut client = TlsSession::new(&context, "db.example.net").expect("a name");
            run(&mut client, &mut server, usize::MAX, &mut Vec::new()).expect("it connects");
            let kind = server.handshake_kind();
            assert_eq!(kind, Some(rustls::HandshakeKind::Full));
        }
    }
}

#[test]
fn the_status_of_a_resumed_session_is_looked_up_again() {
    let authority = Authority::new();
    // Without a staple the status of the original session is not known for the resumed one.
    let issued = Issued::new(&authority, &[RESPONDER], false);
    let good = Response::new(&authority).about(&issued, &authority);
    let server = issued.config(Some(good));
    let context = TlsContext::new(&authority.options())
        .expect("usable options")
        .with_status_queries();
    context.set_wall_time(NOW);
    let connect = || {
        let mut server = ServerConnection::new(server.clone()).expect("a server");
        let mut client = TlsSession::new(&context, "db.example.net").expect("a name");
        run(&mut client, &mut server, usize::MAX, &mut Vec::new()).expect("it connects");
        let is_resumed = server.handshake_kind() == Some(rustls::HandshakeKind::Resumed);
        let query = client.poll_status_query().expect("a query");
        (client, query, is_resumed)
    };
    let (_, query, is_resumed) = connect();
    assert!(query.staple.is_some() && !is_resumed);
    let (mut client, query, is_resumed) = connect();
    assert!(query.staple.is_none() && is_resumed);
    // In a full handshake, the server can staple a response.
    client
        .handle_status(query.id(), RevocationStatus::Unknown)
        .expect("the connection is used");
    assert!(!connect().2, "the next handshake is a full one");
    let (mut client, query, is_resumed) = connect();
    assert!(is_resumed);
    // After a revocation, the next handshake is a full one as well.
    let revoked = RevocationStatus::Revoked(StatusSource::Cache);
    client
        .handle_status(query.id(), revoked)
        .expect_err("revoked");
    assert!(!connect().2);
}

#[test]
fn a_certificate_below_an_intermediate_authority_is_checked() {
    let root = Authority::new();
    let middle = root.intermediate(&["http://127.0.0.1:8888/middle"]);
    let mut issued = Issued::new(&middle, &[RESPONDER], false);
    issued.others = vec![middle.der.clone()];
    let mut options = root.options();
    let good = Response::new(&middle).about(&issued, &middle);
    let mut client = meet(&options, &mut issued.server(Some(good))).expect("it is good");
    // The responders of the intermediate are not asked (OCSP-13).
    let query = client.poll_status_query().expect("a query");
    assert_eq!(query.responders(), [RESPONDER]);
    let revoked = Response::revoked(&middle).about(&issued, &middle);
    message(meet(&options, &mut issued.server(Some(revoked))));
    // The root has not issued the certificate.
    let wrong = Response::new(&root).about(&issued, &middle);
    let text = message(meet(&options, &mut issued.server(Some(wrong))));
    assert!(text.contains("not signed by the issuer"), "{text}");
    // A response about another certificate of the same issuer (OCSP-7).
    let other = Issued::new(&middle, &[RESPONDER], false);
    let other = Response::new(&middle).about(&other, &middle);
    let text = message(meet(&options, &mut issued.server(Some(other))));
    assert!(text.contains("does not cover the certificate"), "{text}");
    // A list of the root that contains the intermediate (OCSP-5).
    let middle = Issued {
        der: middle.der.clone(),
        key: KeyPair::generate().expect("a key"),
        others: Vec::new(),
    };
    options.crl_pem = Some(list(&root, &[&middle], (2031, 1, 1)));
    let text = message(meet(&options, &mut issued.server(None)));
    assert!(text.contains("its issuer has revoked it"), "{text}");
}

#[test]
fn revocation_is_checked_with_tls_1_2() {
    let authority = Authority::new();
    let issued = Issued::new(&authority, &[RESPONDER], false);
    let context = TlsContext::new(&authority.options())
        .expect("usable options")
        .with_status_queries();
    context.set_wall_time(NOW);
    let connect = |config: &Arc<ServerConfig>| {
        let mut server = ServerConnection::new(config.clone()).expect("a server");
        let mut client = TlsSession::new(&context, "db.example.net").expect("a name");
        run(&mut client, &mut server, usize::MAX, &mut Vec::new())?;
        let query = client.poll_status_query().expect("a query");
        let is_good = RevocationStatus::Good(StatusSource::Staple);
        client.handle_status(query.id(), is_good)?;
        run(&mut client, &mut server, usize::MAX, &mut Vec::new())?;
        let is_resumed = server.handshake_kind() == Some(rustls::HandshakeKind::Resumed);
        Ok::<_, Error>((query.staple.is_some(), is_resumed))
    };
    let good = Response::new(&authority).about(&issued, &authority);
    let good = issued.config_of(&[&TLS12], Some(good));
    assert_eq!(connect(&good).expect("it is good"), (true, false));
    assert_eq!(connect(&good).expect("it is good"), (false, true));
    let revoked = Response::revoked(&authority).about(&issued, &authority);
    let revoked = issued.config_of(&[&TLS12], Some(revoked));
    let error = connect(&revoked).expect_err("it was revoked");
    let is_revoked = |kind: &ErrorKind| {
        let fault = TlsFault::Revoked;
        matches!(kind, ErrorKind::Tls { fault: found, .. } if *found == fault)
    };
    assert!(is_revoked(error.kind()), "{error}");
    let required = Issued::new(&authority, &[RESPONDER], true);
    let error = connect(&required.config_of(&[&TLS12], None)).expect_err("no staple");
    assert!(error.to_string().contains("has sent none"), "{error}");
}

/// A date: year, month and day.
type Date = (i32, u8, u8);

/// Returns a CRL of the authority with these certificates, which was issued in 2029.
fn list(authority: &Authority, revoked: &[&Issued], next_update: Date) -> Vec<u8> {
    list_from(authority, revoked, (2029, 6, 1), next_update)
}

/// Returns a CRL of the authority with these certificates.
fn list_from(
    authority: &Authority,
    revoked: &[&Issued],
    this_update: Date,
    next_update: Date,
) -> Vec<u8> {
    let serial = |issued: &&Issued| {
        let certificate = EndEntityCert::try_from(&issued.der).expect("a certificate");
        rcgen::RevokedCertParams {
            serial_number: rcgen::SerialNumber::from_slice(certificate.serial()),
            revocation_time: date_time_ymd(2029, 1, 1),
            reason_code: None,
            invalidity_date: None,
        }
    };
    let date = |(year, month, day)| date_time_ymd(year, month, day);
    let list = rcgen::CertificateRevocationListParams {
        this_update: date(this_update),
        next_update: date(next_update),
        crl_number: rcgen::SerialNumber::from(1_u64),
        issuing_distribution_point: None,
        revoked_certs: revoked.iter().map(serial).collect(),
        key_identifier_method: rcgen::KeyIdMethod::Sha256,
    };
    let signed = list.signed_by(&authority.issuer).expect("a list");
    signed.pem().expect("PEM text").into_bytes()
}

#[test]
fn a_crl_of_the_user_decides() {
    // OCSP-10, OCSP-38.
    let authority = Authority::new();
    let issued = Issued::new(&authority, &[RESPONDER], false);
    let other = Issued::new(&authority, &[RESPONDER], false);
    let mut options = authority.options();
    options.crl_pem = Some(list(&authority, &[&issued], (2031, 1, 1)));
    let text = message(meet(&options, &mut issued.server(None)));
    assert!(text.contains("its issuer has revoked it"), "{text}");
    // A stapled response does not change this.
    let good = Response::new(&authority).about(&issued, &authority);
    let text = message(meet(&options, &mut issued.server(Some(good))));
    assert!(text.contains("its issuer has revoked it"), "{text}");
    // No responder is asked about a certificate that the list covers.
    let mut client = meet(&options, &mut other.server(None)).expect("it is not in the list");
    assert!(client.poll_status_query().expect("a query").is_covered());
    // A certificate in any of several lists of one issuer is refused.
    let lists = [
        list(&authority, &[], (2029, 7, 1)),
        list(&authority, &[&issued], (2031, 1, 1)),
    ];
    for order in [[0, 1], [1, 0]] {
        options.crl_pem = Some(order.map(|n| lists[n].clone()).concat());
        message(meet(&options, &mut issued.server(None)));
        let mut client = meet(&options, &mut other.server(None)).expect("in no list");
        assert!(client.poll_status_query().expect("a query").is_covered());
    }

    // An expired list still shows what was revoked, but nothing else.
    options.crl_pem = Some(list(&authority, &[&issued], (2029, 7, 1)));
    message(meet(&options, &mut issued.server(None)));
    let mut client = meet(&options, &mut other.server(None)).expect("it is not in the list");
    assert!(!client.poll_status_query().expect("a query").is_covered());

    // A list from the future also shows only what was revoked.
    let list_of = |revoked| list_from(&authority, revoked, (2030, 6, 1), (2031, 1, 1));
    options.crl_pem = Some(list_of(&[&issued]));
    message(meet(&options, &mut issued.server(None)));
    let mut client = meet(&options, &mut other.server(None)).expect("it is not in the list");
    assert!(!client.poll_status_query().expect("a query").is_covered());

    // The list of another authority with the same name proves nothing.
    options.crl_pem = Some(list(&Authority::new(), &[], (2031, 1, 1)));
    let mut client = meet(&options, &mut issued.server(None)).expect("in no list");
    assert!(!client.poll_status_query().expect("a query").is_covered());
}

#[test]
fn a_crl_file_that_cannot_be_used_is_refused_by_name() {
    let authority = Authority::new();
    let mut options = authority.options();
    options.crl_file_path = Some("crl.pem".into());
    let error = TlsContext::new(&options).expect_err("it was not loaded");
    assert!(error.to_string().contains("tlsCRLFile"), "{error}");
    let garbage = "-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n";
    for content in ["", "no PEM text", garbage] {
        options.crl_pem = Some(content.as_bytes().to_vec());
        let error = TlsContext::new(&options).expect_err("no list");
        assert!(error.to_string().contains("tlsCRLFile"), "{error}");
    }
}
