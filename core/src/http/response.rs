//! The reader of a response.

use std::fmt;
use zeroize::Zeroizing;

/// The maximum length of the status line and the headers of a response, in bytes: 16 KiB.
pub const MAX_HEAD_BYTES: usize = 16 * 1024;

/// The maximum number of headers of a response.
pub const MAX_HEADERS: usize = 64;

/// The maximum length of the body of a response, in bytes: 128 KiB. A token of an identity provider
/// has a few KiB.
pub const MAX_BODY_BYTES: usize = 128 * 1024;

/// The maximum length of the line before a chunk, and of a line after the last chunk.
const MAX_LINE_BYTES: usize = 256;

/// The maximum number of bytes in the encoding of a body of chunks, beside the body itself.
const MAX_CHUNK_OVERHEAD_BYTES: usize = 64 * 1024;

/// The maximum number of interim responses (status 1xx) before the final one.
const MAX_INTERIM: u32 = 4;

/// A response. `Debug` shows the status and the length of the body, which can contain secrets.
#[derive(Clone, PartialEq, Eq)]
pub struct HttpResponse {
    /// The status code, for example 200.
    pub status: u16,
    /// The body.
    pub body: HttpBody,
}

impl fmt::Debug for HttpResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpResponse")
            .field("status", &self.status)
            .field("body_bytes", &self.body.bytes().len())
            .finish()
    }
}

/// The body of a request or a response. The memory is overwritten when the body is dropped. `Debug`
/// shows only the length.
///
/// ```
/// use onionskin_core::http::HttpBody;
///
/// let body = HttpBody::from("token");
/// assert_eq!(body.text(), Ok("token"));
/// assert_eq!(format!("{body:?}"), "HttpBody(5 bytes)");
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
pub struct HttpBody(Zeroizing<Vec<u8>>);

impl HttpBody {
    /// Returns the bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the text. Fails if the body is not UTF-8.
    pub fn text(&self) -> Result<&str, String> {
        std::str::from_utf8(&self.0).map_err(|_| "the body of the response is not UTF-8".to_owned())
    }
}

impl From<Vec<u8>> for HttpBody {
    fn from(bytes: Vec<u8>) -> Self {
        Self(Zeroizing::new(bytes))
    }
}

impl From<&str> for HttpBody {
    fn from(text: &str) -> Self {
        Self::from(text.as_bytes().to_vec())
    }
}

impl fmt::Debug for HttpBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HttpBody({} bytes)", self.0.len())
    }
}

/// The part of the response that is read next.
#[derive(Debug)]
enum State {
    /// The status line and the headers.
    Head {
        interim: u32,
    },
    /// The rest of a body of known length.
    Body {
        left: usize,
    },
    /// A body that ends with the connection.
    UntilClosed,
    /// The line with the size of the next chunk.
    ChunkSize,
    /// The rest of a chunk.
    Chunk {
        left: usize,
    },
    /// The line break after a chunk.
    ChunkEnd,
    /// The lines after the last chunk.
    Trailer,
    Complete,
}

/// Reads the bytes of a response as they arrive. The time is linear in the number of bytes, however
/// they are cut.
#[derive(Debug)]
pub(super) struct ResponseReader {
    state: State,
    /// The bytes that were received. Those before `start` were consumed. The `searched` bytes after
    /// `start` have no end of a head or line.
    input: Zeroizing<Vec<u8>>,
    start: usize,
    searched: usize,
    status: u16,
    body: Zeroizing<Vec<u8>>,
    /// The number of bytes of the encoding in chunks so far.
    overhead: usize,
}

impl ResponseReader {
    pub(super) fn new() -> Self {
        Self {
            state: State::Head { interim: 0 },
            input: Zeroizing::new(Vec::new()),
            start: 0,
            searched: 0,
            status: 0,
            body: Zeroizing::new(Vec::new()),
            overhead: 0,
        }
    }

    /// Processes bytes. Returns true once the response is complete; further bytes are ignored.
    pub(super) fn handle_received(&mut self, bytes: &[u8]) -> Result<bool, String> {
        self.input.extend_from_slice(bytes);
        while self.step()? {}
        self.input.drain(..self.start);
        self.start = 0;
        Ok(matches!(self.state, State::Complete))
    }

    /// Handles the end of the stream. Fails if the response is not complete.
    pub(super) fn handle_closed(&mut self) -> Result<(), String> {
        match self.state {
            State::UntilClosed => self.state = State::Complete,
            State::Complete => {}
            _ => return Err("the connection was closed before the response was complete".into()),
        }
        Ok(())
    }

    /// Returns the response.
    pub(super) fn into_response(mut self) -> HttpResponse {
        HttpResponse {
            status: self.status,
            body: HttpBody(std::mem::take(&mut self.body)),
        }
    }

    /// Consumes input as the state demands. False if more input is needed or none is.
    fn step(&mut self) -> Result<bool, String> {
        match self.state {
            State::Head { interim } => self.on_head(interim),
            State::Body { left } => {
                let left = left - self.take_body(left);
                self.state = match left {
                    0 => State::Complete,
                    left => State::Body { left },
                };
                Ok(false)
            }
            State::UntilClosed => {
                if self.body.len() + self.rest().len() > MAX_BODY_BYTES {
                    return Err(too_long());
                }
                self.take_body(usize::MAX);
                Ok(false)
            }
            State::ChunkSize => self.on_chunk_size(),
            State::Chunk { left } => {
                let left = left - self.take_body(left);
                self.state = match left {
                    0 => State::ChunkEnd,
                    left => State::Chunk { left },
                };
                Ok(left == 0)
            }
            State::ChunkEnd => match self.line()? {
                None => Ok(false),
                Some(line) if line.is_empty() => {
                    self.state = State::ChunkSize;
                    Ok(true)
                }
                Some(_) => Err("a chunk of the response is longer than its size".to_owned()),
            },
            State::Trailer => match self.line()? {
                None => Ok(false),
                Some(line) => {
                    if line.is_empty() {
                        self.state = State::Complete;
                    }
                    Ok(true)
                }
            },
            State::Complete => Ok(false),
        }
    }

    fn on_head(&mut self, interim: u32) -> Result<bool, String> {
        let from = self.searched.saturating_sub(3);
        let found = find(&self.rest()[from..], b"\r\n\r\n");
        let Some(end) = found.map(|at| from + at + 4) else {
            self.searched = self.rest().len();
            return match self.searched > MAX_HEAD_BYTES {
                true => Err(format!(
                    "the headers are longer than {MAX_HEAD_BYTES} bytes"
                )),
                false => Ok(false),
            };
        };
        if end > MAX_HEAD_BYTES {
            return Err(format!(
                "the headers are longer than {MAX_HEAD_BYTES} bytes"
            ));
        }
        let (status, state) = parse_head(&self.rest()[..end])?;
        self.consume(end);
        if (100..200).contains(&status) {
            if interim == MAX_INTERIM || status == 101 {
                return Err(format!("the response has the unexpected status {status}"));
            }
            let interim = interim + 1;
            self.state = State::Head { interim };
            return Ok(true);
        }
        self.status = status;
        self.state = state;
        Ok(!matches!(self.state, State::Complete))
    }

    fn on_chunk_size(&mut self) -> Result<bool, String> {
        let Some(line) = self.line()? else {
            return Ok(false);
        };
        let digits = line.split(|byte| *byte == b';').next().unwrap_or_default();
        let digits = digits.trim_ascii();
        let size = std::str::from_utf8(digits)
            .ok()
            .filter(|text| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let size = size.and_then(|text| usize::from_str_radix(text, 16).ok());
        let size = size.ok_or("the size of a chunk of the response is no number")?;
        if self.body.len().saturating_add(size) > MAX_BODY_BYTES {
            return Err(too_long());
        }
        self.state = match size {
            0 => State::Trailer,
            left => State::Chunk { left },
        };
        Ok(true)
    }

    /// Removes a line from the input and returns it without its line break; `None` if the line is
    /// not complete.
    fn line(&mut self) -> Result<Option<Vec<u8>>, String> {
        let found = self.rest()[self.searched..]
            .iter()
            .position(|b| *b == b'\n');
        let Some(at) = found.map(|at| self.searched + at) else {
            self.searched = self.rest().len();
            return match self.searched > MAX_LINE_BYTES {
                true => Err("a line between the chunks of the response is too long".to_owned()),
                false => Ok(None),
            };
        };
        if at > MAX_LINE_BYTES {
            return Err("a line between the chunks of the response is too long".to_owned());
        }
        self.overhead += at + 1;
        if self.overhead > MAX_CHUNK_OVERHEAD_BYTES {
            return Err("the response has too many chunks".to_owned());
        }
        let line = &self.rest()[..at];
        let line = line.strip_suffix(b"\r").unwrap_or(line).to_vec();
        self.consume(at + 1);
        Ok(Some(line))
    }

    /// Moves at most `most` bytes of the input to the body, and returns their number.
    fn take_body(&mut self, most: usize) -> usize {
        let count = self.rest().len().min(most);
        let range = self.start..self.start + count;
        self.body.extend_from_slice(&self.input[range]);
        self.consume(count);
        count
    }

    /// Returns the bytes that were not consumed.
    fn rest(&self) -> &[u8] {
        &self.input[self.start..]
    }

    fn consume(&mut self, count: usize) {
        self.start += count;
        self.searched = 0;
    }
}

/// Parses the status line and the headers. Returns the status and the state that follows.
fn parse_head(head: &[u8]) -> Result<(u16, State), String> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut response = httparse::Response::new(&mut headers);
    match response.parse(head) {
        Ok(httparse::Status::Complete(_)) => {}
        Ok(httparse::Status::Partial) => return Err("the headers are not complete".to_owned()),
        Err(error) => return Err(format!("the response is not HTTP: {error}")),
    }
    let status = response.code.unwrap_or_default();
    if (100..200).contains(&status) || status == 204 || status == 304 {
        return Ok((status, State::Complete));
    }
    let mut length: Option<usize> = None;
    let mut is_chunked = false;
    for header in response.headers.iter() {
        let value = std::str::from_utf8(header.value).unwrap_or_default().trim();
        if header.name.eq_ignore_ascii_case("transfer-encoding") {
            if !value.eq_ignore_ascii_case("chunked") {
                return Err("the response has an encoding that is not supported".to_owned());
            }
            is_chunked = true;
        } else if header.name.eq_ignore_ascii_case("content-length") {
            let digits = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
            let given = if digits { value.parse().ok() } else { None };
            let given = given.ok_or("the Content-Length of the response is no number")?;
            if length.is_some_and(|length| length != given) {
                return Err("the response has two values of Content-Length".to_owned());
            }
            length = Some(given);
        }
    }
    let state = match (is_chunked, length) {
        (true, Some(_)) => {
            return Err("the response has a Content-Length and chunks".to_owned());
        }
        (true, None) => State::ChunkSize,
        (false, Some(length)) if length > MAX_BODY_BYTES => return Err(too_long()),
        (false, Some(0)) => State::Complete,
        (false, Some(left)) => State::Body { left },
        (false, None) => State::UntilClosed,
    };
    Ok((status, state))
}

fn too_long() -> String {
    format!("the body of the response is longer than {MAX_BODY_BYTES} bytes")
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack
        .windows(needle.len())
        .position(|window| window == needle)
}
