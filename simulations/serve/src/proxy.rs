//! The PROXY protocol, versions 1 and 2. A load balancer sends its header at the start of a
//! connection, with the address of the client.
//!
//! The address is not needed here, so a header is only checked and skipped, with the fields after
//! its addresses. A connection without a header is accepted too. No message of TLS or of MongoDB
//! starts like a header.

use std::net::{Ipv4Addr, Ipv6Addr};

/// The start of a header of version 1.
const TEXT_MARK: &[u8] = b"PROXY ";

/// The start of a header of version 2.
const BINARY_MARK: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";

/// The size of the longest header of version 1 in bytes, with its end of line.
const MAX_TEXT_BYTES: usize = 107;

/// The size of a header of version 2 without its addresses, in bytes.
const BINARY_BYTES: usize = 16;

/// The largest size of the addresses and further fields in a header of version 2, in bytes.
const MAX_REST_BYTES: usize = 4096;

/// The result of [`check_header`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeaderCheck {
    /// Too few bytes were received to decide.
    Incomplete,
    /// A header with this length in bytes, or 0 if there is no header.
    Header(usize),
}

/// The error for a malformed header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed;

/// Checks whether the bytes that were received on a connection start with a header.
pub(super) fn check_header(bytes: &[u8]) -> Result<HeaderCheck, Malformed> {
    for (mark, read) in [
        (TEXT_MARK, text as fn(&[u8]) -> _),
        (BINARY_MARK.as_slice(), binary),
    ] {
        if bytes.starts_with(mark) {
            return read(bytes);
        }
        if mark.starts_with(bytes) {
            return Ok(HeaderCheck::Incomplete);
        }
    }
    Ok(HeaderCheck::Header(0))
}

/// Checks a header such as `PROXY TCP4 192.0.2.1 198.51.100.1 56324 27017\r\n`.
fn text(bytes: &[u8]) -> Result<HeaderCheck, Malformed> {
    let limit = bytes.len().min(MAX_TEXT_BYTES);
    let line = bytes[..limit].windows(2).position(|pair| pair == b"\r\n");
    let Some(length) = line else {
        return match bytes.len() < MAX_TEXT_BYTES {
            true => Ok(HeaderCheck::Incomplete),
            false => Err(Malformed),
        };
    };
    let line = std::str::from_utf8(&bytes[..length]).map_err(|_| Malformed)?;
    let fields: Vec<&str> = line.split(' ').collect();
    let is_right = match fields.as_slice() {
        // The fields after `UNKNOWN` have no meaning.
        [_, "UNKNOWN", ..] => true,
        [_, "TCP4", from, to, ports @ ..] => {
            let are_addresses = [from, to].iter().all(|a| a.parse::<Ipv4Addr>().is_ok());
            are_addresses && are_ports(ports)
        }
        [_, "TCP6", from, to, ports @ ..] => {
            let are_addresses = [from, to].iter().all(|a| a.parse::<Ipv6Addr>().is_ok());
            are_addresses && are_ports(ports)
        }
        _ => false,
    };
    match is_right {
        true => Ok(HeaderCheck::Header(length + 2)),
        false => Err(Malformed),
    }
}

/// True for two ports without a sign and without leading zeros.
fn are_ports(fields: &[&str]) -> bool {
    let is_port = |text: &&str| {
        let number = text.parse::<u16>();
        number.is_ok_and(|number| number.to_string() == **text)
    };
    fields.len() == 2 && fields.iter().all(is_port)
}

fn binary(bytes: &[u8]) -> Result<HeaderCheck, Malformed> {
    let Some(head) = bytes.first_chunk::<BINARY_BYTES>() else {
        return Ok(HeaderCheck::Incomplete);
    };
    let [.., command, family, high, low] = *head;
    let rest = usize::from(u16::from_be_bytes([high, low]));
    let least = match command {
        // The command LOCAL: the balancer itself connects, for example to check that the server
        // runs.
        0x20 => 0,
        0x21 => addresses(family)?,
        _ => return Err(Malformed),
    };
    if rest < least || rest > MAX_REST_BYTES {
        return Err(Malformed);
    }
    let length = BINARY_BYTES + rest;
    match bytes.len() < length {
        true => Ok(HeaderCheck::Incomplete),
        false => Ok(HeaderCheck::Header(length)),
    }
}

/// Returns the size of the addresses for an address family and protocol, in bytes.
const fn addresses(family: u8) -> Result<usize, Malformed> {
    match family {
        0x00 => Ok(0),
        0x11 | 0x12 => Ok(12),
        0x21 | 0x22 => Ok(36),
        0x31 | 0x32 => Ok(216),
        _ => Err(Malformed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns a header of version 2 with `rest` bytes after its fixed part.
    fn header(command: u8, family: u8, rest: u16) -> Vec<u8> {
        let mut bytes = BINARY_MARK.to_vec();
        bytes.extend([command, family]);
        bytes.extend(rest.to_be_bytes());
        bytes.extend(vec![7; usize::from(rest)]);
        bytes
    }

    fn accepted() -> Vec<Vec<u8>> {
        let longest = "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff";
        let mut all: Vec<Vec<u8>> = [
            "PROXY TCP4 127.0.0.1 255.255.255.255 1 65535\r\n",
            &format!("PROXY TCP6 {longest} {longest} 65535 65535\r\n"),
            "PROXY TCP6 ::1 fe80::1 0 27017\r\n",
            "PROXY UNKNOWN\r\n",
            "PROXY UNKNOWN of the balancer's own\r\n",
        ]
        .map(|text| text.as_bytes().to_vec())
        .to_vec();
        all.extend([
            header(0x21, 0x11, 12),
            header(0x21, 0x12, 12),
            header(0x21, 0x21, 36),
            header(0x21, 0x31, 216),
            // Further fields follow the addresses.
            header(0x21, 0x11, 12 + 300),
            header(0x21, 0x11, 4096),
            header(0x21, 0x00, 0),
            header(0x20, 0x00, 0),
            // The address family of the command LOCAL is ignored.
            header(0x20, 0xff, 3),
        ]);
        all
    }

    #[test]
    fn proxy_headers_of_both_versions_are_incomplete_until_their_last_byte() {
        for header in accepted() {
            for end in 0..header.len() {
                let part = check_header(&header[..end]);
                assert_eq!(part, Ok(HeaderCheck::Incomplete), "{header:?} up to {end}");
            }
            let mut stream = header.clone();
            for _ in 0..200 {
                let whole = check_header(&stream);
                assert_eq!(whole, Ok(HeaderCheck::Header(header.len())), "{header:?}");
                stream.push(b'\n');
            }
        }
    }

    #[test]
    fn a_stream_that_begins_like_a_message_has_no_proxy_header() {
        let mut message = Vec::new();
        onionskin_core::unstable::wire::MessageWriter::begin(&mut message, 1, 0)
            .body(&bson::rawdoc! { "ping": 1 })
            .end();
        let handshake = [0x16, 3, 1, 0, 200].as_slice();
        for bytes in [
            &message,
            handshake,
            b"GET / HTTP/1.1\r\n",
            b"PROXIES",
            b"\r\n\r\n!",
        ] {
            assert_eq!(check_header(bytes), Ok(HeaderCheck::Header(0)), "{bytes:?}");
        }
    }

    #[test]
    fn malformed_proxy_headers_are_refused() {
        let long = format!("PROXY UNKNOWN {}", "x".repeat(200));
        let texts = [
            "PROXY \r\n",
            "PROXY TCP4\r\n",
            "PROXY TCP5 127.0.0.1 127.0.0.1 1 2\r\n",
            "PROXY TCP4 ::1 ::1 1 2\r\n",
            "PROXY TCP6 127.0.0.1 127.0.0.1 1 2\r\n",
            "PROXY TCP4 127.0.0.1 127.0.0.1 1\r\n",
            "PROXY TCP4 127.0.0.1 127.0.0.1 1 2 3\r\n",
            "PROXY TCP4 127.0.0.1 127.0.0.1 +1 2\r\n",
            "PROXY TCP4 127.0.0.1 127.0.0.1 01 2\r\n",
            "PROXY TCP4 127.0.0.1 127.0.0.1 65536 2\r\n",
            "PROXY TCP4  127.0.0.1 127.0.0.1 1 2\r\n",
            "PROXY TCP4 127.0.0.1 127.0.0.256 1 2\r\n",
            "PROXY tcp4 127.0.0.1 127.0.0.1 1 2\r\n",
            "PROXY TCP4 127.0.0.1 127.0.0.1 1 2\n\r\n",
            // This header has no end of line within the largest length.
            &long,
        ];
        for text in texts {
            assert_eq!(check_header(text.as_bytes()), Err(Malformed), "{text:?}");
        }
        assert_eq!(check_header(b"PROXY TCP4 \xff\xff\r\n"), Err(Malformed));
        let binary = [
            header(0x11, 0x11, 12),
            header(0x22, 0x11, 12),
            header(0x21, 0x13, 12),
            header(0x21, 0x41, 12),
            header(0x21, 0x01, 12),
            header(0x21, 0x11, 11),
            header(0x21, 0x21, 35),
            header(0x21, 0x31, 215),
            header(0x21, 0x11, 4097),
            header(0x20, 0x00, u16::MAX),
        ];
        for header in binary {
            // The header is refused before the rest of it is received.
            let head = &header[..BINARY_BYTES];
            assert_eq!(check_header(head), Err(Malformed), "{head:?}");
        }
    }

    proptest! {
        /// `check_header` decides about every input within `BINARY_BYTES + MAX_REST_BYTES` bytes.
        #[test]
        fn the_header_check_decides_within_a_bounded_number_of_bytes(
            mark in prop::sample::select(vec![&b""[..], TEXT_MARK, BINARY_MARK]),
            rest in prop::collection::vec(any::<u8>(), 0..300),
        ) {
            let mut bytes = [mark, &rest].concat();
            let first = check_header(&bytes);
            bytes.resize(BINARY_BYTES + MAX_REST_BYTES, b' ');
            let last = check_header(&bytes);
            prop_assert_ne!(last, Ok(HeaderCheck::Incomplete));
            if first != Ok(HeaderCheck::Incomplete) {
                prop_assert_eq!(first, last, "more bytes change nothing");
            }
            if let Ok(HeaderCheck::Header(length)) = last {
                prop_assert!(length <= bytes.len());
            }
        }
    }
}
