//! Faults of identity servers.

use super::http::Response;
use onionskin_core::random::Random;
use serde_json::Value;
use std::time::Duration;

/// The time before a slow answer, which is longer than the time limits of clients (AUTH-94,
/// AUTH-115).
const SLOW: Duration = Duration::from_secs(90);

/// The time before each byte of an answer that arrives byte by byte.
const DRIP: Duration = Duration::from_millis(500);

/// The size of one piece of an endless answer, in bytes.
const PIECE_BYTES: usize = 16 * 1024;

/// The number of pieces of an endless answer, which is 64 MiB.
const PIECES: u32 = 4096;

/// The size of a token that is too large, in bytes.
const LARGE_TOKEN_BYTES: usize = 1024 * 1024;

/// The number of bytes before the connection is closed in the middle of the headers.
const CUT_BYTES: usize = 30;

/// A fault of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum IdentityFault {
    /// There is no answer, and the connection stays open.
    Silence,
    /// The connection is closed without an answer.
    Close,
    /// The answer arrives after 90 seconds.
    Slow,
    /// The answer arrives byte by byte, one each half second.
    Drip,
    /// The body does not end within 64 MiB.
    EndlessBody,
    /// The headers do not end within 64 MiB.
    EndlessHeaders,
    /// The status is 500, with the right body.
    Status,
    /// The status is 302, with a location on another host.
    Redirect,
    /// The body is cut in the middle, with the right length of this part.
    BrokenBody,
    /// The expiry is in the past, or the lifetime is negative.
    NegativeExpiry,
    /// The expiry is missing.
    MissingExpiry,
    /// The stated length is larger than the body, and the connection is closed after the body.
    LongLength,
    /// The stated length is smaller than the body.
    ShortLength,
    /// The body has the chunked transfer coding, without an error.
    Chunked,
    /// The body has the chunked transfer coding with the size of a chunk that is not a number.
    BrokenChunks,
    /// The connection is closed in the middle of the headers.
    Cut,
    /// Each token and secret has one mebibyte.
    LargeTokens,
    /// The answer is no response of HTTP.
    Garbage,
}

impl IdentityFault {
    /// All faults.
    pub const ALL: [Self; 18] = [
        Self::Silence,
        Self::Close,
        Self::Slow,
        Self::Drip,
        Self::EndlessBody,
        Self::EndlessHeaders,
        Self::Status,
        Self::Redirect,
        Self::BrokenBody,
        Self::NegativeExpiry,
        Self::MissingExpiry,
        Self::LongLength,
        Self::ShortLength,
        Self::Chunked,
        Self::BrokenChunks,
        Self::Cut,
        Self::LargeTokens,
        Self::Garbage,
    ];

    /// Draws a fault.
    pub fn drawn(random: &mut Random) -> Self {
        let place = random.below(Self::ALL.len() as u64);
        Self::ALL[usize::try_from(place).unwrap_or(0)]
    }
}

/// A part of an answer: bytes that are sent several times, each time after a pause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The time before the bytes are sent.
    pub after: Duration,
    /// The bytes.
    pub bytes: Vec<u8>,
    /// The number of times, at most 4096.
    pub times: u32,
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The parts, in order.
    pub pieces: Vec<Piece>,
    /// True if the server closes the connection after the last part. Otherwise, the connection
    /// stays open until the client closes it.
    pub closes: bool,
}

impl Answer {
    fn whole(bytes: Vec<u8>) -> Self {
        Self::after(Duration::ZERO, bytes)
    }

    fn after(after: Duration, bytes: Vec<u8>) -> Self {
        let times = 1;
        let pieces = vec![Piece {
            after,
            bytes,
            times,
        }];
        Self {
            pieces,
            closes: true,
        }
    }

    /// Returns an answer without bytes, after which the connection is closed.
    const fn nothing() -> Self {
        Self {
            pieces: Vec::new(),
            closes: true,
        }
    }

    fn endless(start: Vec<u8>, piece: Vec<u8>) -> Self {
        let mut answer = Self::whole(start);
        answer.pieces.push(Piece {
            after: Duration::ZERO,
            bytes: piece,
            times: PIECES,
        });
        answer
    }

    /// Returns the answer with this response.
    pub(super) fn of(response: Response, fault: Option<IdentityFault>) -> Self {
        match fault {
            None => Self::whole(response.to_bytes()),
            Some(fault) => faulty(response, fault),
        }
    }
}

fn faulty(response: Response, fault: IdentityFault) -> Answer {
    use IdentityFault as F;
    match fault {
        F::Silence => Answer {
            pieces: Vec::new(),
            closes: false,
        },
        F::Close => Answer::nothing(),
        F::Slow => Answer::after(SLOW, response.to_bytes()),
        F::Drip => {
            let bytes = response.to_bytes().into_iter();
            let pieces = bytes.map(|byte| Piece {
                after: DRIP,
                bytes: vec![byte],
                times: 1,
            });
            Answer {
                pieces: pieces.collect(),
                closes: true,
            }
        }
        F::EndlessBody => {
            let start = format!("{}\r\n{}", response.head("X-Length: none"), response.body);
            Answer::endless(start.into_bytes(), vec![b' '; PIECE_BYTES])
        }
        F::EndlessHeaders => {
            let line = format!("X-Padding: {}\r\n", "x".repeat(1000));
            let start = response.head("X-Length: none").into_bytes();
            Answer::endless(start, line.repeat(PIECE_BYTES / line.len()).into_bytes())
        }
        _ => Answer::whole(changed(response, fault)),
    }
}

/// Returns the bytes of a response that are wrong in themselves, and sent at once.
fn changed(mut response: Response, fault: IdentityFault) -> Vec<u8> {
    use IdentityFault as F;
    let length = response.body.len();
    let framing = match fault {
        F::LongLength => format!("Content-Length: {}", length + 100),
        F::ShortLength => format!("Content-Length: {}", length / 2),
        F::Chunked | F::BrokenChunks => {
            let size = match fault {
                F::Chunked => format!("{length:x}"),
                _ => "size".to_owned(),
            };
            response.body = format!("{size}\r\n{}\r\n0\r\n\r\n", response.body);
            "Transfer-Encoding: chunked".to_owned()
        }
        F::Cut => {
            let mut bytes = response.to_bytes();
            bytes.truncate(CUT_BYTES);
            return bytes;
        }
        F::Garbage => return b"\x16\x03\x01\0\xff\xff not HTTP \r\n\r\n".to_vec(),
        _ => {
            change_fields(&mut response, fault);
            return response.to_bytes();
        }
    };
    format!("{}\r\n{}", response.head(&framing), response.body).into_bytes()
}

/// Changes the status, a header or the body of a response.
fn change_fields(response: &mut Response, fault: IdentityFault) {
    match fault {
        IdentityFault::Status => response.status = 500,
        IdentityFault::Redirect => {
            response.status = 302;
            let location = ("Location", "http://forged.db.test/".to_owned());
            response.headers.push(location);
        }
        IdentityFault::BrokenBody => {
            let half = response.body.chars().count() / 2;
            response.body = response.body.chars().take(half).collect();
        }
        _ => response.body = changed_body(&response.body, fault),
    }
}

/// Changes the fields of a JSON document. A body that is no document is itself a token.
fn changed_body(body: &str, fault: IdentityFault) -> String {
    let Ok(mut document) = serde_json::from_str::<Value>(body) else {
        return match fault {
            IdentityFault::LargeTokens => "x".repeat(LARGE_TOKEN_BYTES),
            _ => body.to_owned(),
        };
    };
    change(&mut document, fault);
    document.to_string()
}

fn change(value: &mut Value, fault: IdentityFault) {
    let Value::Object(fields) = value else {
        return;
    };
    let expiries = ["Expiration", "expires_in", "expires_on"];
    let secrets = ["Token", "SessionToken", "access_token", "SecretAccessKey"];
    match fault {
        IdentityFault::MissingExpiry => expiries.iter().for_each(|name| _ = fields.remove(*name)),
        IdentityFault::NegativeExpiry => {
            for (name, field) in fields
                .iter_mut()
                .filter(|(n, _)| expiries.contains(&n.as_str()))
            {
                *field = match (name.as_str(), &field) {
                    ("Expiration", Value::String(_)) => "1970-01-01T00:00:00Z".into(),
                    (_, Value::String(_)) => "-3600".into(),
                    _ => (-3600).into(),
                };
            }
        }
        _ => {
            for (_, field) in fields
                .iter_mut()
                .filter(|(n, _)| secrets.contains(&n.as_str()))
            {
                *field = "x".repeat(LARGE_TOKEN_BYTES).into();
            }
        }
    }
    // The depth is bounded, because the documents are those of this server.
    fields.values_mut().for_each(|inner| change(inner, fault));
}
