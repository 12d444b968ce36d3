//! Requests and responses of HTTP/1.1, as far as identity endpoints need them.

use std::fmt::Write as _;

/// The largest size of a request line with all headers, in bytes.
const MAX_HEAD_BYTES: usize = 32 * 1024;

/// The largest size of the body of a request, in bytes.
const MAX_BODY_BYTES: usize = 64 * 1024;

/// A complete request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HttpRequest {
    pub(super) method: String,
    pub(super) path: String,
    /// The parameters after the question mark, decoded.
    pub(super) query: Vec<(String, String)>,
    /// The headers, with names in lower case.
    headers: Vec<(String, String)>,
    pub(super) body: String,
}

/// The result of [`parse`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Parsed {
    /// More bytes are needed.
    Incomplete,
    Request(HttpRequest),
    /// The bytes are not a request, or it is too large.
    Malformed,
}

impl HttpRequest {
    /// Returns the value of a header whose name is given in lower case.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        let header = headers.find(|(known, _)| known == name);
        header.map(|(_, value)| value.as_str())
    }

    /// Returns the decoded value of a parameter of the query.
    pub(super) fn parameter(&self, name: &str) -> Option<&str> {
        value(&self.query, name)
    }

    /// Returns the decoded fields of a body that is a form.
    pub(super) fn form(&self) -> Option<Vec<(String, String)>> {
        fields(&self.body)
    }
}

/// Returns the value of a field.
pub(super) fn value<'a>(fields: &'a [(String, String)], name: &str) -> Option<&'a str> {
    let field = fields.iter().find(|(known, _)| known == name);
    field.map(|(_, value)| value.as_str())
}

/// Parses the bytes of a connection so far.
pub(super) fn parse(bytes: &[u8]) -> Parsed {
    let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else {
        return match bytes.len() > MAX_HEAD_BYTES {
            true => Parsed::Malformed,
            false => Parsed::Incomplete,
        };
    };
    let head = std::str::from_utf8(&bytes[..end]).ok();
    let Some(mut request) = head.filter(|_| end <= MAX_HEAD_BYTES).and_then(head_of) else {
        return Parsed::Malformed;
    };
    let length = match request.header("content-length").map(str::parse::<usize>) {
        None => 0,
        Some(Ok(length)) if length <= MAX_BODY_BYTES => length,
        Some(_) => return Parsed::Malformed,
    };
    let Some(body) = bytes.get(end + 4..end + 4 + length) else {
        return Parsed::Incomplete;
    };
    match String::from_utf8(body.to_vec()) {
        Ok(body) => {
            request.body = body;
            Parsed::Request(request)
        }
        Err(_) => Parsed::Malformed,
    }
}

fn head_of(head: &str) -> Option<HttpRequest> {
    let mut lines = head.split("\r\n");
    let mut line = lines.next()?.split(' ');
    let (method, target, version) = (line.next()?, line.next()?, line.next()?);
    if line.next().is_some() || version != "HTTP/1.1" || !target.starts_with('/') {
        return None;
    }
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let headers = lines.map(|line| {
        let (name, value) = line.split_once(':')?;
        let is_valid = !name.is_empty() && !name.contains([' ', '\t']);
        is_valid.then(|| (name.to_ascii_lowercase(), value.trim().to_owned()))
    });
    let request = HttpRequest {
        method: method.to_owned(),
        path: path.to_owned(),
        query: fields(query)?,
        headers: headers.collect::<Option<_>>()?,
        body: String::new(),
    };
    // A request of HTTP/1.1 has exactly one header `Host` (RFC 9112 section 3.2).
    let hosts = request.headers.iter().filter(|(name, _)| name == "host");
    (hosts.count() == 1).then_some(request)
}

/// Decodes the fields of a form or a query. Returns `None` if the encoding is not valid.
fn fields(text: &str) -> Option<Vec<(String, String)>> {
    let fields = text.split('&').filter(|field| !field.is_empty());
    let decoded = fields.map(|field| {
        let (name, value) = field.split_once('=').unwrap_or((field, ""));
        Some((decode(name)?, decode(value)?))
    });
    decoded.collect()
}

/// Decodes `%` and two digits, and `+`, which stands for a space.
fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let mut digit = || char::from(rest.next()?).to_digit(16);
                u8::try_from(digit()? * 16 + digit()?).ok()?
            }
            other => other,
        });
    }
    String::from_utf8(bytes).ok()
}

/// A response, whose connection is closed after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Response {
    pub(super) status: u16,
    pub(super) kind: &'static str,
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) body: String,
}

impl Response {
    pub(super) fn text(body: impl Into<String>) -> Self {
        Self {
            status: 200,
            kind: "text/plain",
            headers: Vec::new(),
            body: body.into(),
        }
    }

    pub(super) fn json(body: &serde_json::Value) -> Self {
        Self {
            kind: "application/json",
            ..Self::text(body.to_string())
        }
    }

    pub(super) fn error(status: u16, body: impl Into<String>) -> Self {
        Self {
            status,
            ..Self::text(body)
        }
    }

    /// Returns the status line and the headers, without the empty line after them. The framing
    /// states how the length of the body is given.
    pub(super) fn head(&self, framing: &str) -> String {
        let reason = match self.status {
            200 => "OK",
            302 => "Found",
            400 => "Bad Request",
            401 => "Unauthorized",
            403 => "Forbidden",
            404 => "Not Found",
            405 => "Method Not Allowed",
            _ => "Internal Server Error",
        };
        let (status, kind) = (self.status, self.kind);
        let mut head = format!("HTTP/1.1 {status} {reason}\r\nContent-Type: {kind}\r\n");
        for (name, value) in &self.headers {
            let _ = write!(head, "{name}: {value}\r\n");
        }
        let _ = write!(head, "{framing}\r\nConnection: close\r\n");
        head
    }

    /// Returns the bytes of the whole response.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let framing = format!("Content-Length: {}", self.body.len());
        format!("{}\r\n{}", self.head(&framing), self.body).into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_complete_with_its_body() {
        let text = "POST /a?x=%2Fb+c&y HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nk=v";
        for length in 0..text.len() {
            assert_eq!(parse(&text.as_bytes()[..length]), Parsed::Incomplete);
        }
        let Parsed::Request(request) = parse(text.as_bytes()) else {
            panic!("it is complete");
        };
        assert_eq!(
            (request.method.as_str(), request.path.as_str()),
            ("POST", "/a")
        );
        assert_eq!(request.parameter("x"), Some("/b c"));
        assert_eq!(request.parameter("y"), Some(""));
        assert_eq!(request.header("host"), Some("h"));
        assert_eq!(
            request.form().expect("a form"),
            [("k".to_owned(), "v".to_owned())]
        );
    }

    #[test]
    fn malformed_and_large_requests_are_refused() {
        for text in [
            "GET / HTTP/1.0\r\nHost: h\r\n\r\n".to_owned(),
            "GET / HTTP/1.1\r\n\r\n".to_owned(),
            "GET / HTTP/1.1\r\nHost: h\r\nHost: h\r\n\r\n".to_owned(),
            "GET / HTTP/1.1\r\nHost : h\r\n\r\n".to_owned(),
            "GET x HTTP/1.1\r\nHost: h\r\n\r\n".to_owned(),
            "GET /?a=%zz HTTP/1.1\r\nHost: h\r\n\r\n".to_owned(),
            "GET / HTTP/1.1 x\r\nHost: h\r\n\r\n".to_owned(),
            "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 99999999\r\n\r\n".to_owned(),
            format!("GET / HTTP/1.1\r\nHost: {}", "h".repeat(MAX_HEAD_BYTES)),
        ] {
            assert_eq!(parse(text.as_bytes()), Parsed::Malformed, "{text}");
        }
        assert_eq!(parse(b"\xff\r\n\r\n"), Parsed::Malformed);
    }

    #[test]
    fn a_response_states_the_length_of_its_body() {
        assert_eq!(
            String::from_utf8(Response::text("ab").to_bytes()).expect("text"),
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\
             Connection: close\r\n\r\nab"
        );
    }
}
