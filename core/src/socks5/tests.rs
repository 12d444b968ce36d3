//! Tests of the conversation with a proxy, without a connection.

use super::*;
use crate::error::{ErrorKind, IoError, NetworkFault, Responsible};

const GREETING: &[u8] = &[5, 1, 0];
const GREETING_WITH_LOGIN: &[u8] = &[5, 2, 0, 2];
const LOGIN_ACCEPTED: &[u8] = &[1, 0];
const REPLY: &[u8] = &[5, 0, 0, 1, 10, 0, 0, 1, 0x30, 0x39];

fn context(credentials: bool) -> Socks5Context {
    let mut options = Socks5Proxy::new("proxy");
    if credentials {
        options.authentication = Some(("me".to_owned(), "pencil".into()));
    }
    Socks5Context::new(&options).expect("valid options")
}

fn conversation(credentials: bool) -> Socks5Conversation {
    let context = context(credentials);
    Socks5Conversation::new(&context, "db.example.net", 27017).expect("a short name")
}

/// Returns the bytes that the conversation sends next.
fn sent(conversation: &mut Socks5Conversation) -> Vec<u8> {
    let mut bytes = Vec::new();
    let is_any = conversation.poll_transmit(&mut bytes);
    assert_eq!(is_any, !bytes.is_empty());
    assert!(!conversation.poll_transmit(&mut bytes), "asking twice");
    bytes
}

fn request() -> Vec<u8> {
    let mut bytes = vec![5, 1, 0, 3, 14];
    bytes.extend_from_slice(b"db.example.net");
    bytes.extend([0x69, 0x89]);
    bytes
}

/// Returns the bytes of the server that the conversation has.
fn rest(conversation: &mut Socks5Conversation) -> Vec<u8> {
    let (mut all, mut buffer) = (Vec::new(), [0; 3]);
    loop {
        match conversation.read(&mut buffer) {
            0 => return all,
            count => all.extend_from_slice(&buffer[..count]),
        }
    }
}

/// Returns the fault and the text of the error with which the conversation ends when the proxy
/// sends these bytes.
fn failure(credentials: bool, bytes: &[u8]) -> (NetworkFault, String) {
    let mut conversation = conversation(credentials);
    let error = conversation.handle_received(bytes).expect_err("an error");
    // Nothing more is sent or accepted.
    assert_eq!(conversation.handle_received(REPLY), Ok(()));
    assert!(!conversation.is_connected());
    assert_eq!(
        (sent(&mut conversation), rest(&mut conversation)),
        (vec![], vec![])
    );
    let debug = format!("{error:?} {conversation:?} {:?}", context(credentials));
    assert!(
        !debug.contains("pencil") && !debug.contains("\"me\""),
        "{debug}"
    );
    match error.kind() {
        ErrorKind::Io(IoError { fault, message, .. }) => {
            assert!(
                message.starts_with("the SOCKS5 proxy proxy:1080 "),
                "{message}"
            );
            (*fault, message.clone())
        }
        other => panic!("{other:?}"),
    }
}

/// Returns the messages of a proxy that chooses `method` and then connects.
fn accepted(method: u8) -> Vec<u8> {
    let login: &[u8] = if method == 2 { LOGIN_ACCEPTED } else { &[] };
    [&[5, method], login, REPLY].concat()
}

#[test]
fn without_credentials_only_no_authentication_is_offered() {
    // SOCKS-13.
    let mut conversation = conversation(false);
    assert_eq!(sent(&mut conversation), GREETING);
    conversation.handle_received(&[5, 0]).expect("a method");
    assert_eq!(sent(&mut conversation), request());
    assert!(!conversation.is_connected());
    conversation.handle_received(REPLY).expect("a reply");
    assert!(conversation.is_connected());
    assert_eq!(sent(&mut conversation), b"");
}

#[test]
fn with_credentials_the_proxy_chooses_the_method() {
    // Both methods are offered (SOCKS-13). A proxy that needs no authentication gets no password.
    let mut conversation = conversation(true);
    assert_eq!(sent(&mut conversation), GREETING_WITH_LOGIN);
    conversation.handle_received(&[5, 2]).expect("a method");
    assert_eq!(sent(&mut conversation), b"\x01\x02me\x06pencil");
    conversation
        .handle_received(LOGIN_ACCEPTED)
        .expect("a result");
    assert_eq!(sent(&mut conversation), request());
    conversation.handle_received(REPLY).expect("a reply");
    assert!(conversation.is_connected());

    let mut conversation = self::conversation(true);
    assert_eq!(sent(&mut conversation), GREETING_WITH_LOGIN);
    conversation.handle_received(&[5, 0]).expect("a method");
    assert_eq!(sent(&mut conversation), request());
}

#[test]
fn names_are_sent_unresolved_and_addresses_as_addresses() {
    // SOCKS-14. The zone of an IPv6 address makes it a name, because it has no type of its own.
    let long = "a".repeat(255);
    for (host, expected) in [
        ("localhost", [&[3, 9], "localhost".as_bytes()].concat()),
        ("127.1", [&[3, 5], "127.1".as_bytes()].concat()),
        ("127.0.0.1", vec![1, 127, 0, 0, 1]),
        ("::1", [&[4][..], &[0; 15], &[1]].concat()),
        (
            "fe80::1%eth0",
            [&[3, 12], "fe80::1%eth0".as_bytes()].concat(),
        ),
        (&long, [&[3, 255], long.as_bytes()].concat()),
    ] {
        let mut conversation = Socks5Conversation::new(&context(false), host, 256).expect("a host");
        assert_eq!(sent(&mut conversation), GREETING);
        conversation.handle_received(&[5, 0]).expect("a method");
        let expected = [&[5, 1, 0], &*expected, &[1, 0]].concat();
        assert_eq!(sent(&mut conversation), expected, "{host}");
    }
    let (empty, longer) = (String::new(), "a".repeat(256));
    for host in [empty, longer] {
        let error = Socks5Conversation::new(&context(false), &host, 1).expect_err("the length");
        let text = format!("has {} bytes, but SOCKS5 needs 1 to 255", host.len());
        assert!(
            error.is_network() && error.to_string().contains(&text),
            "{error}"
        );
    }
}

#[test]
fn the_reply_is_read_to_its_end_and_no_further() {
    // All types of addresses, cut at each byte offset, with bytes of the server behind them.
    let name = [&[5, 0, 0, 3, 255][..], &[b'x'; 255], &[1, 2]].concat();
    let replies = [
        REPLY.to_vec(),
        [&[5, 0, 0, 4][..], &[7; 16], &[1, 2]].concat(),
        [&[5, 0, 0, 3, 0][..], &[1, 2]].concat(),
        // The reserved byte has another value.
        [&[5, 0, 9, 3, 1][..], b"x", &[1, 2]].concat(),
        name,
    ];
    for (reply, method) in replies.iter().flat_map(|reply| [(reply, 0), (reply, 2)]) {
        let login: &[u8] = if method == 2 { LOGIN_ACCEPTED } else { &[] };
        let whole = [&[5, method], login, reply, b"server"].concat();
        for cut in 0..=whole.len() {
            let mut conversation = conversation(true);
            let mut all = Vec::new();
            for piece in [&whole[..cut], &whole[cut..]] {
                conversation.handle_received(piece).expect("a good proxy");
                let is_over = all.len() + piece.len() + 6 >= whole.len();
                assert_eq!(conversation.is_connected(), is_over, "{cut} of {whole:?}");
                all.extend_from_slice(piece);
            }
            assert_eq!(rest(&mut conversation), b"server");
            assert_eq!(rest(&mut conversation), b"");
        }
        let mut conversation = conversation(true);
        for byte in &whole {
            conversation
                .handle_received(&[*byte])
                .expect("a good proxy");
        }
        assert_eq!(rest(&mut conversation), b"server");
    }
}

#[test]
fn each_reply_code_becomes_a_network_error_that_names_the_hop() {
    use NetworkFault::{Other, Refused, Unreachable};
    for (code, fault, words) in [
        (1, Other, "failed without a reason"),
        (2, Refused, "its rules do not allow the connection"),
        (
            3,
            Unreachable,
            "could not reach the server: network unreachable",
        ),
        (
            4,
            Unreachable,
            "could not reach the server: host unreachable",
        ),
        (5, Refused, "could not reach the server: connection refused"),
        (6, Unreachable, "could not reach the server: TTL expired"),
        (7, Other, "does not support CONNECT"),
        (8, Other, "does not support this type of address"),
        (9, Other, "unknown code 9"),
        (255, Other, "unknown code 255"),
    ] {
        // The proxy may close the connection after the code.
        for rest in [&[][..], &[0, 1, 0, 0, 0, 0, 0, 0]] {
            let bytes = [&[5, 0, 5, code], rest].concat();
            let (found, message) = failure(false, &bytes);
            assert_eq!(found, fault, "{code}");
            assert!(message.contains(words), "{message}");
        }
    }
}

/// SOCKS-1: the messages of RFC 1928 and RFC 1929, and nothing else.
#[test]
fn hostile_messages_fail_the_conversation() {
    for (credentials, bytes, words) in [
        (
            false,
            &b"HTTP/1.1 400"[..],
            "sent the version 72 instead of 5",
        ),
        (false, &[4], "sent the version 4 instead of 5"),
        (
            false,
            &[5, 0xFF],
            "requires authentication; set proxyUsername",
        ),
        (
            true,
            &[5, 0xFF],
            "accepts neither a user name with a password nor",
        ),
        (false, &[5, 2], "chose the method 2, which was not offered"),
        (true, &[5, 1], "chose the method 1, which was not offered"),
        (true, &[5, 2, 5], "sent the version 5 instead of 1"),
        (true, &[5, 2, 1, 1], "refused the user name or the password"),
        (
            true,
            &[5, 2, 1, 255],
            "refused the user name or the password",
        ),
        (false, &[5, 0, 4], "sent the version 4 instead of 5"),
        (false, &[5, 0, 5, 0, 0, 2], "unknown type of address 2"),
        (false, &[5, 0, 5, 0, 0, 0], "unknown type of address 0"),
    ] {
        let (fault, message) = failure(credentials, bytes);
        let is_login = bytes.get(1) == Some(&0xFF) || words.starts_with("refused the user");
        assert_eq!(
            fault == NetworkFault::ProxyAuthentication,
            is_login,
            "{message}"
        );
        assert!(is_login || fault == NetworkFault::Other, "{message}");
        // Wrong credentials of the proxy are a mistake of the application.
        let error = Error::network(fault, message.clone());
        assert_eq!(error.kind().responsible() == Responsible::Caller, is_login);
        assert!(message.contains(words), "{message}");
        // The error does not depend on how the bytes were cut.
        let mut conversation = conversation(credentials);
        let mut results = bytes.iter().map(|b| conversation.handle_received(&[*b]));
        let error = results.find_map(Result::err).expect("an error");
        assert_eq!(error, Error::network(fault, message));
    }
}

#[test]
fn an_incomplete_message_is_never_longer_than_the_longest_reply() {
    // A proxy that sends any bytes makes the client hold at most 262 of them.
    let mut random = crate::random::Seed::new([3; 32]).random();
    for _ in 0..2_000 {
        let mut conversation = conversation(true);
        let mut bytes = [0; 300];
        random.fill(&mut bytes);
        bytes[..3].copy_from_slice(&[5, 0, 5]);
        for byte in bytes {
            let result = conversation.handle_received(&[byte]);
            if result.is_err() || conversation.is_connected() {
                break;
            }
            assert!(conversation.buffered_bytes() < 262, "{conversation:?}");
        }
    }
}

#[test]
fn the_loss_of_the_connection_names_the_proxy_and_the_step() {
    let closed = || Error::network(NetworkFault::Closed, "the server closed the connection");
    let reset = || Error::network(NetworkFault::Reset, "connection reset by peer");
    let whole = accepted(2);
    for cut in 0..whole.len() {
        let mut conversation = conversation(true);
        conversation
            .handle_received(&whole[..cut])
            .expect("a good proxy");
        let step = match cut {
            0 | 1 => "after the greeting; is it a SOCKS5 proxy?",
            2 | 3 => "after the login; check proxyUsername and proxyPassword",
            _ => "before it was connected to the server",
        };
        for (error, verb) in [(closed(), "closed"), (reset(), "reset")] {
            let text = conversation.describe_loss(error).to_string();
            let expected = format!("the SOCKS5 proxy proxy:1080 {verb} the connection {step}");
            assert!(text.ends_with(&expected), "{text}");
        }
        let other = Error::network(NetworkFault::OutOfSockets, "x");
        let text = conversation.describe_loss(other).to_string();
        assert!(
            text.ends_with("the SOCKS5 proxy proxy:1080 cannot be used: x"),
            "{text}"
        );
    }
    let mut conversation = conversation(true);
    conversation.handle_received(&whole).expect("a good proxy");
    assert_eq!(conversation.describe_loss(closed()), closed());
}

#[test]
fn options_that_cannot_be_used_give_no_context() {
    let mut long = Socks5Proxy::new("proxy");
    long.authentication = Some(("x".repeat(256), "pencil".into()));
    let error = Socks5Context::new(&long)
        .expect_err("the length")
        .to_string();
    assert!(error.contains("invalid option proxyUsername"), "{error}");
}

/// Returns the error, the state, the bytes for the proxy and the bytes of the server after these
/// pieces.
fn outcome<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> (Option<Error>, bool, Vec<u8>, Vec<u8>) {
    let mut conversation = conversation(true);
    let mut error = None;
    for piece in pieces {
        let failure = conversation.handle_received(piece).err();
        error = error.or(failure);
    }
    let is_connected = conversation.is_connected();
    let sent = sent(&mut conversation);
    (error, is_connected, sent, rest(&mut conversation))
}

#[test]
fn the_outcome_does_not_depend_on_how_the_bytes_are_cut() {
    let mut random = crate::random::Seed::new([9; 32]).random();
    let (mut connected, mut failed) = (0, 0);
    for _ in 0..20_000 {
        // Few values, so that many inputs are nearly valid.
        let values = [0, 0, 0, 1, 2, 3, 4, 5, 255];
        let length = random.below(40) as usize;
        let mut bytes = [&[5, 2, 1, 0, 5, 0, 0][..], &[1; 40]].concat();
        bytes.truncate(length);
        for byte in &mut bytes {
            if random.chance(1, 12) {
                *byte = values[random.below(values.len() as u64) as usize];
            }
        }
        let whole = outcome(std::iter::once(&*bytes));
        let piece = 1 + random.below(5) as usize;
        assert_eq!(outcome(bytes.chunks(piece)), whole, "{bytes:?}");
        connected += u32::from(whole.1);
        failed += u32::from(whole.0.is_some());
    }
    assert!(connected > 1_000 && failed > 1_000, "{connected}, {failed}");
}
