//! Tests of HTTP exchanges.

use super::{response::ResponseReader, *};
use crate::{
    options::{Secret, TlsOptions},
    time::WallTime,
};

fn request(url: &str) -> HttpRequest {
    HttpRequest::new(Method::Get, url).expect("a usable URL")
}

/// Reads a response that arrives in pieces of `piece` bytes, and is closed at the end.
fn read(bytes: &[u8], piece: usize) -> Result<HttpResponse, String> {
    let mut reader = ResponseReader::new();
    let mut is_complete = false;
    for piece in bytes.chunks(piece) {
        is_complete = reader.handle_received(piece)?;
        if is_complete {
            break;
        }
    }
    if !is_complete {
        reader.handle_closed()?;
    }
    Ok(reader.into_response())
}

#[test]
fn a_request_has_its_host_headers_and_body() {
    let request = HttpRequest::new(Method::Post, "http://[::1]:8080/a/b?c=d")
        .and_then(|request| request.with_header("X-Token", Secret::new("t")))
        .expect("a usable request")
        .with_body("text/plain", "body");
    let text = String::from_utf8(request.encode()).expect("text");
    assert_eq!(
        text,
        "POST /a/b?c=d HTTP/1.1\r\nHost: [::1]:8080\r\nConnection: close\r\nAccept: */*\r\n\
         X-Token: t\r\nContent-Type: text/plain\r\nContent-Length: 4\r\n\r\nbody"
    );
    assert_eq!(request.address().to_string(), "[::1]:8080");
    assert_eq!(
        format!("{request:?}"),
        "HttpRequest(POST http://[::1]:8080)"
    );
}

#[test]
fn default_ports_follow_the_scheme() {
    assert_eq!(
        request("http://metadata/x").address().to_string(),
        "metadata:80"
    );
    let secure = request("https://sts.example.net");
    assert_eq!(secure.address().to_string(), "sts.example.net:443");
    assert!(secure.is_secure());
    assert!(
        secure
            .encode()
            .starts_with(b"GET / HTTP/1.1\r\nHost: sts.example.net\r\n")
    );
}

#[test]
fn unusable_urls_and_headers_are_refused() {
    for url in [
        "",
        "ftp://host/",
        "http://",
        "host/path",
        "http://u:p@host/",
        "http://a b/",
    ] {
        let error = HttpRequest::new(Method::Get, url).expect_err(url);
        assert!(!error.contains("p@"), "{error}");
    }
    let split = request("http://host/").with_header("X-Token", Secret::new("a\r\nb: c"));
    assert!(split.is_err());
}

#[test]
fn a_response_is_the_same_however_its_bytes_are_cut() {
    let with_length = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX: y\r\n\r\nhello".to_vec();
    let in_chunks = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
        2;ext=1\r\nhe\r\n3\r\nllo\r\n0\r\nTrailer: x\r\n\r\n"
        .to_vec();
    let until_closed = b"HTTP/1.0 200 OK\r\n\r\nhello".to_vec();
    let after_interim =
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello".to_vec();
    for bytes in [with_length, in_chunks, until_closed, after_interim] {
        for piece in [1, 2, 3, 7, bytes.len()] {
            let response = read(&bytes, piece).expect("a valid response");
            assert_eq!((response.status, response.body.text()), (200, Ok("hello")));
        }
    }
}

#[test]
fn an_error_status_is_a_response() {
    let response = read(b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno", 9);
    let response = response.expect("a valid response");
    assert_eq!((response.status, response.body.text()), (404, Ok("no")));
    let empty = read(b"HTTP/1.1 204 No Content\r\n\r\n", 9).expect("a valid response");
    assert_eq!((empty.status, empty.body.text()), (204, Ok("")));
}

#[test]
fn hostile_responses_fail() {
    let long_head = format!(
        "HTTP/1.1 200 OK\r\nX: {}\r\n\r\n",
        "a".repeat(MAX_HEAD_BYTES)
    );
    let many = format!(
        "HTTP/1.1 200 OK\r\n{}\r\n",
        "A: b\r\n".repeat(MAX_HEADERS + 1)
    );
    let long_body = format!("HTTP/1.1 200 OK\r\n\r\n{}", "a".repeat(MAX_BODY_BYTES + 1));
    let many_chunks = format!(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{}",
        "1;aaaaaaaaaaaaaaaaaa\r\na\r\n".repeat(10_000)
    );
    let long_line = format!(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;{}",
        "a".repeat(10_000)
    );
    let cases: &[(&str, &str)] = &[
        (&long_head, "longer than"),
        (&many, "not HTTP"),
        (&long_body, "longer than"),
        (&many_chunks, "too many chunks"),
        (&long_line, "too long"),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 999999999\r\n\r\n",
            "longer than",
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel",
            "before the response was complete",
        ),
        ("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "no number"),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\na",
            "two values",
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\na",
            "Content-Length and chunks",
        ),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\na",
            "not supported",
        ),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
            "no number",
        ),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n",
            "no number",
        ),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n",
            "longer than its size",
        ),
        ("SSH-2.0-OpenSSH\r\n\r\n", "not HTTP"),
        ("HTTP/1.1 101 Switching\r\n\r\n", "unexpected status"),
        ("", "before the response was complete"),
    ];
    for (text, expected) in cases {
        for piece in [1, 4096] {
            let error = read(text.as_bytes(), piece).expect_err(text);
            assert!(error.contains(expected), "{expected}: {error}");
        }
    }
    let binary = read(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n\xff", 9);
    assert!(binary.expect("a valid response").body.text().is_err());
}

#[test]
fn an_exchange_sends_its_request_once() {
    let (tls, wall) = (TlsOptions::default(), WallTime::from_unix_millis(1));
    let mut exchange = HttpExchange::new(&request("http://host/"), &tls, wall).expect("valid");
    let mut out = Vec::new();
    assert!(exchange.poll_transmit(&mut out));
    assert!(out.starts_with(b"GET / HTTP/1.1\r\n"));
    assert!(!exchange.poll_transmit(&mut out));
    let is_complete = exchange.handle_received(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(is_complete, Ok(true));
    let mut secure = HttpExchange::new(&request("https://host/"), &tls, wall).expect("valid");
    out.clear();
    assert!(secure.poll_transmit(&mut out));
    assert_eq!(out[0], 22, "a TLS handshake record");
    assert!(
        secure.handle_received(b"HTTP/1.1 200 OK\r\n\r\n").is_err(),
        "no TLS"
    );
}
