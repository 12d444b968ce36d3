//! Tests with peers that do not use TLS, or send faulty or endless TLS messages.

use super::*;
use proptest::prelude::*;

#[test]
fn a_peer_without_tls_causes_a_handshake_fault() {
    for garbage in [
        &b"HTTP/1.1 400 Bad Request\r\n\r\n"[..],
        &[0; 64],
        &[0xff; 64],
    ] {
        let mut client = session(&TlsOptions::default(), "db.example.net");
        let error = client.handle_received(garbage).expect_err("no TLS");
        assert!(matches!(
            error.kind(),
            ErrorKind::Tls {
                fault: TlsFault::Handshake,
                ..
            }
        ));
        // After an error the session stays unusable.
        client.write(b"secret");
        assert!(client.handle_received(garbage).is_err());
    }
}

/// Runs a handshake and one message from the server, and changes the server's bytes at `offset`.
/// With `flip` the byte there changes, otherwise `garbage` is inserted. No result is expected, only
/// that nothing panics.
fn with_garbage(
    version: &'static SupportedProtocolVersion,
    offset: usize,
    garbage: &[u8],
    flip: bool,
) {
    let authority = Authority::new();
    let mut server = authority.server(version, false);
    let mut client = session(&authority.options(), "db.example.net");
    let mut position = 0;
    for round in 0..6 {
        let mut out = Vec::new();
        while client.poll_transmit(&mut out) {}
        let mut rest = &out[..];
        while !rest.is_empty() {
            server.read_tls(&mut rest).expect("room");
            if server.process_new_packets().is_err() {
                return;
            }
        }
        if round == 4 {
            server.writer().write_all(b"a message").expect("room");
        }
        let mut back = Vec::new();
        while server.wants_write() {
            server.write_tls(&mut back).expect("a vector");
        }
        if (position..position + back.len()).contains(&offset) {
            let at = offset - position;
            if flip {
                back[at] ^= garbage[0] | 1;
            } else {
                back.splice(at..at, garbage.iter().copied());
            }
        }
        position += back.len();
        let result = client.handle_received(&back);
        let _plain = read_all(&mut client);
        if result.is_err() {
            let mut alert = Vec::new();
            while client.poll_transmit(&mut alert) {}
            return;
        }
    }
}

#[test]
fn a_changed_byte_at_any_offset_never_panics() {
    for version in [&TLS12, &TLS13] {
        for offset in 0..1600 {
            with_garbage(version, offset, &[0x40], true);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn inserted_garbage_at_any_offset_never_panics(
        offset in 0_usize..1600,
        garbage in prop::collection::vec(any::<u8>(), 1..40),
        old: bool,
    ) {
        with_garbage(if old { &TLS12 } else { &TLS13 }, offset, &garbage, false);
    }
}

#[test]
fn too_many_tls_messages_without_application_data_are_refused() {
    let authority = Authority::new();
    let mut server = authority.server(&TLS13, false);
    let options = authority.options();
    let mut client = connect(&options, "db.example.net", &mut server).expect("good");
    assert!(client.without_data < 4096, "the handshake does not count");
    // `rustls` itself limits the number of consecutive messages of one kind. The test therefore
    // raises the count of bytes by hand and sends few messages, which renew keys.
    let mut renew_keys = |client: &mut TlsSession, data: &[u8]| {
        server.refresh_traffic_keys().expect("TLS 1.3");
        server.writer().write_all(data).expect("room");
        let mut bytes = Vec::new();
        while server.wants_write() {
            server.write_tls(&mut bytes).expect("a vector");
        }
        client.handle_received(&bytes).map(|()| bytes.len())
    };
    let before = client.without_data;
    let count = renew_keys(&mut client, b"").expect("new keys");
    assert_eq!(client.without_data, before + count);
    renew_keys(&mut client, b"data").expect("new keys and data");
    assert_eq!(client.without_data, 0, "data shows an honest peer");
    client.without_data = MAX_BYTES_WITHOUT_DATA - count;
    renew_keys(&mut client, b"").expect("as many as are accepted");
    let error = renew_keys(&mut client, b"").expect_err("a flood");
    assert!(
        error.to_string().contains("too many TLS messages"),
        "{error}"
    );
    assert_eq!(kind(Err(error)), TlsFault::Broken);
}

#[test]
fn a_handshake_of_too_many_bytes_is_refused() {
    for (bytes, is_refused) in [
        (MAX_BYTES_WITHOUT_DATA + 1, false),
        (MAX_HANDSHAKE_BYTES, false),
        (MAX_HANDSHAKE_BYTES + 1, true),
    ] {
        let mut client = session(&TlsOptions::default(), "db.example.net");
        assert!(client.is_handshaking());
        client.without_data = bytes - 1;
        // The client receives the first byte of a record's header. The rest is still to come.
        let result = client.handle_received(&[22]);
        assert_eq!(result.is_err(), is_refused, "{bytes}");
    }
}
